"""Use an installed allbutone as somebody does who has nothing else: python checks/smoke.py, outside of the source.

Every module loads with the base install alone, every public name is there, and the way from a table to a decision
works from the command line, with all files that the package must carry.
"""

import importlib
import pkgutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import allbutone as abo


def run(place: Path, *words: str) -> str:
    """Run the installed command."""
    command = [str(Path(sys.executable).with_name("allbutone")), *words]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def main() -> None:
    """Go all the way."""
    home = Path(abo.__file__).parent
    if Path(__file__).parents[1] in home.parents and "site-packages" not in home.parts:
        raise SystemExit(f"{home} is the source, not an installed package")
    names = [each.name for each in pkgutil.walk_packages([str(home)], "allbutone.")]
    for name in names:
        if name != "allbutone.__main__":
            importlib.import_module(name)
    for name in abo.__all__:
        getattr(abo, name)
    if not (home / "py.typed").is_file():
        raise SystemExit("py.typed is missing: type checkers would not use the types")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        if version("allbutone") not in run(place, "--version"):
            raise SystemExit("--version tells another version")
        run(place, "demo", "--out", "demo")
        run(place, "check", "demo/release", "--table", "demo/others.csv")
        run(place, "report", "demo/others.csv", "demo/release", "--public", "--out", "public.html")
        if "<html" not in (place / "public.html").read_text(encoding="utf-8"):
            raise SystemExit("the public page is none")
    print(
        f"allbutone {version('allbutone')}: {len(names)} modules and {len(abo.__all__)} names load; the way works"
    )


if __name__ == "__main__":
    main()
