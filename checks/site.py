"""Look at built pages of the site in a browser: nobody is shut out (axe-core), and nothing scrolls sideways.

python checks/site.py build/docs
"""

import shutil
import sys
from importlib.resources import files
from pathlib import Path

from playwright.sync_api import sync_playwright

PAGES = (
    "index.html",
    "theory.html",
    "generated/python/risk.html",
    "generated/gallery/index.html",
    "first-look/explore.html",
    "first-look/report.html",
)
SCREENS = ((1280, "light"), (390, "dark"))


def problems_of(folder: Path) -> list[str]:
    """Return what is wrong with each page on each screen."""
    axe, found = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8"), []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for width, scheme in SCREENS:
            context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
            for name in PAGES:
                page = context.new_page()
                page.goto((folder / name).resolve().as_uri())
                page.evaluate(axe)
                broken = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")["violations"]
                wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
                where = f"{name} at {width}, {scheme}"
                found += [f"{where}: {one['id']}: {one['nodes'][0]['html']:.200}" for one in broken]
                found += [f"{where}: {wide} pixels too wide"] * (wide > 0)
                page.close()
        browser.close()
    return found


if __name__ == "__main__":
    problems = problems_of(Path(sys.argv[1]))
    print("\n".join(problems) or "Looked at: " + ", ".join(PAGES))
    sys.exit(bool(problems))
