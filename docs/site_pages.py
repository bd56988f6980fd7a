"""What the site is built with beside its pages: the page of every public name, written from the program itself."""

import re
from pathlib import Path

FLOORS = {  # of the public names, in the order of the page
    "tables": "Tables",
    "model": "The model and its prior",
    "releases": "Releases: drawing, keeping, combining, counting",
    "adversary": "The adversary",
    "integrals": "The posterior of a missing record",
    "disclosure": "What it means for each person: risk, budget, guarantee",
    "other_tools": "Rows of other tools",
    "utility": "Is the synthetic data any good?",
    "reports": "Risk and reports: what a board reads",
    "support": "Errors",
}
FOREIGN = re.compile(r"""<(?:script|link|img|iframe|source)\b[^>]*?(?:src|href)=["'](?:https?:)?//[^>]*>""")


def picture_of_figure(block, block_vars, gallery_conf) -> str:
    """Show what an example has named `figure`, as a picture, since a page fetches nothing, and its message."""
    from sphinx_gallery.scrapers import figure_rst

    from allbutone.figures.export import write_images

    figure = block_vars["example_globals"].pop("figure", None)
    if figure is None:
        return ""
    path = Path(next(block_vars["image_path_iterator"]))
    write_images({path: figure}, width=1000, height=figure.layout.height or 560)
    said = "" if figure.layout.title.text else figure.layout.meta["message"]
    return f"{figure_rst([str(path)], gallery_conf['src_dir'])}\n\n{said}\n\n"


def write_reference(folder: Path) -> None:
    """Write the reference of Python, a page a name, where what it would say has changed; what is gone goes."""
    pages = {"python.rst": python_page()} | {f"python/{name}.rst": name_page(name) for name in public_names()}
    (folder / "python").mkdir(parents=True, exist_ok=True)
    for page in (folder / "python").glob("*.rst"):
        if f"python/{page.name}" not in pages:
            page.unlink()
    for place, text in pages.items():
        page = folder / place
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")


def public_names() -> list[str]:
    """Return all public names, functions before values."""
    import allbutone

    names = [name for name in allbutone.__all__ if name != "__version__"]
    return sorted(names, key=lambda name: (name[0].isupper(), name))


def python_page() -> str:
    """Return the page that lists all public names by the floor they live on, each with its first sentence."""
    import allbutone

    homes = {name: allbutone._HOMES[name].split(".")[1] for name in public_names()}
    if unknown := set(homes.values()) - FLOORS.keys():
        raise ValueError(f"docs/site_pages.py names no heading for {sorted(unknown)}")
    parts = [_title("Python", "="), "Every public name of ``import allbutone as abo``, a page each.", ""]
    for floor, heading in FLOORS.items():
        parts += [_title(heading, "-")]
        for name in (name for name, home in homes.items() if home == floor):
            first = re.split(
                r"(?<=[.:])\s", " ".join((getattr(allbutone, name).__doc__ or "").split()), maxsplit=1
            )[0]
            parts += [f"- :doc:`{name} <python/{name}>`: {_inline(first.rstrip(':'))}"]
        parts += [""]
    return "\n".join([*parts, ".. toctree::", "   :hidden:", "", *(f"   python/{name}" for name in homes), ""])


def name_page(name: str) -> str:
    """Return the page of a public name: its docstring, and those of a value's parts."""
    import allbutone

    kind = "class" if isinstance(getattr(allbutone, name), type) else "function"
    members = ["   :members:"] if kind == "class" else []
    return "\n".join([_title(name, "="), f".. auto{kind}:: allbutone.{name}", *members, ""])


def _title(words: str, line: str) -> str:
    return f"{words}\n{line * len(words)}\n"


def as_restructured_text(app, what, name, obj, options, lines: list[str]) -> None:
    """Let a docstring of plain words, `code`, fields and indented equations read as it was written."""
    paragraphs = re.split(r"\n[ ]*\n", "\n".join(lines).strip("\n"))
    lines[:] = "\n\n".join(map(_paragraph, paragraphs)).splitlines()


def _paragraph(text: str) -> str:
    if ">>> " in text:
        return text
    if re.match(r"[a-z_]+: ", text):  # the fields of a value, one after the other
        items = re.split(r"\n(?=[a-z_]+: )", text)
        return "\n".join(re.sub(r"^([a-z_]+):", r"- ``\1``:", _inline(" ".join(each.split()))) for each in items)
    equation = r"((?:^    .*\n?)+)"
    parts = re.split(equation, text, flags=re.MULTILINE)
    shown = [f"::\n\n{part.rstrip()}" if part.startswith("    ") else _inline(part.rstrip()) for part in parts]
    return "\n\n".join(part for part in shown if part)


def _inline(text: str) -> str:
    """Return words in which nothing but `code` is markup."""
    pieces = re.split(r"`+([^`]+)`+", text)
    pieces[::2] = (re.sub(r"([\\*|]|_\b)", r"\\\1", words) for words in pieces[::2])
    return "``".join(pieces)


def refuse_foreign_addresses(app, error) -> None:
    """Fail if a page of the site would load a script, a style or a picture from another server."""
    if error is None and app.builder.name == "html":
        for page in sorted(Path(app.outdir).rglob("*.html")):
            if found := FOREIGN.search(page.read_text(encoding="utf-8")):
                raise ValueError(f"{page.name} loads from elsewhere: {found.group(0)}")
