"""How the documentation's site is built (`make docs`). Neither the build nor its pages fetch anything."""

import sys
from importlib.metadata import version as version_of
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import first_look  # noqa: E402  (these lie beside this file)
import site_pages  # noqa: E402
import typeset  # noqa: E402

EXTRA = HERE / "generated" / "extra"  # the first look, which the site carries as it is
EXTRA.mkdir(parents=True, exist_ok=True)

project = "allbutone"
author = "The allbutone developers"
project_copyright = "The allbutone developers, MIT licence"
version = release = version_of("allbutone")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_gallery.gen_gallery"]
exclude_patterns = ["_build", "README.md", "gallery", "templates", "generated/extra"]
sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "generated/gallery",
    "image_scrapers": ("site_pages.picture_of_figure",),
    "reset_modules": (),
    "capture_repr": ("__repr__",),
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_signature": False,
    "show_memory": False,
    "write_computation_times": False,
    "min_reported_time": 1e9,
    "thumbnail_size": (500, 310),
    "abort_on_example_error": True,
}
myst_heading_anchors = 3
highlight_language = "none"  # indented blocks are formulas and answers; code says what it is
smartquotes = False  # options begin with two dashes
html_theme = "pydata_sphinx_theme"
html_title = "allbutone"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_extra_path = [str(EXTRA)]
html_sidebars = {
    name: [] for name in ("index", "first-look", "start", "limits", "r-users", "releasing", "addresses")
}  # no pages below them
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navbar_end": ["theme-switcher"],
    "header_links_before_dropdown": 7,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": True,
}
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the shapes and kinds that matter are in the words; __init__.pyi has the types
add_module_names = False


def setup(app):
    """Write the generated pages before the build, and look after it that no page loads anything from elsewhere."""
    app.connect("builder-inited", lambda app: site_pages.write_reference(HERE / "generated"))
    app.connect("builder-inited", lambda app: first_look.write_first_look(EXTRA / "first-look"))
    app.connect("source-read", typeset.formulas_as_mathml)
    app.connect("autodoc-process-docstring", site_pages.as_restructured_text)
    app.connect("build-finished", site_pages.refuse_foreign_addresses)
