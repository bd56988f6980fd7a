"""What must agree before a version is given out, and all that does not: python checks/release.py build/release."""

import hashlib
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLACEHOLDERS = re.compile(r"\.invalid\b|10\.0000/PLACEHOLDER")
WITH_ADDRESSES = ("docs/addresses.md", "CITATION.cff", "conda/recipe.yaml", "r/DESCRIPTION")


def text_of(name: str) -> str:
    """Return a file of the project."""
    return (ROOT / name).read_text(encoding="utf-8")


def versions() -> dict[str, str]:
    """Return the version that each file tells."""
    places = {
        "pyproject.toml": r'^version = "(.+)"',
        "CITATION.cff": r"^version: (.+)",
        "r/DESCRIPTION": r"^Version: (.+)",
        "r/NEWS.md": r"^# allbutone (.+)",
        "conda/recipe.yaml": r'^  version: "(.+)"',
        "CHANGELOG.md": r"^## (\d\S*)",
    }
    found = {name: re.search(pattern, text_of(name), re.MULTILINE) for name, pattern in places.items()}
    return {name: match[1] if match else "none" for name, match in found.items()}


def requirements() -> tuple[set[str], set[str]]:
    """Return what the package needs, and what the conda recipe says it does."""
    project = tomllib.loads(text_of("pyproject.toml"))["project"]
    needed = {*project["dependencies"], f"python{project['requires-python']}"}
    run = re.search(r"^  run:\n((?:    - .+\n)+)", text_of("conda/recipe.yaml"), re.MULTILINE)
    told = {line.strip("- ").replace(" ", "") for line in run[1].splitlines()} if run else set()
    return {each.replace(" ", "") for each in needed}, told


def addresses() -> list[tuple[str, str]]:
    """Return every address of docs/addresses.md with each file that has to hold the same."""
    rows = re.findall(r"^\|[^|]+\| `([^`]+)` \|([^|]*)\|$", text_of("docs/addresses.md"), re.MULTILINE)
    return [(address, name) for address, files in rows for name in re.findall(r"`([^`]+)`", files)]


def disagreements() -> list[str]:
    """Return all that stands against giving this version out."""
    told, found = versions(), []
    if len(set(told.values())) > 1:
        found.append("versions differ: " + ", ".join(f"{name} {version}" for name, version in told.items()))
    if re.search(r"^## Unreleased", text_of("CHANGELOG.md"), re.MULTILINE):
        found.append("the changelog has a section Unreleased: give it the version and its date")
    needed, recipe = requirements()
    if needed != recipe:
        found.append(f"conda/recipe.yaml needs other packages: {', '.join(sorted(needed ^ recipe))}")
    if other := {name for address, name in addresses() if address not in text_of(name)}:
        found.append(f"addresses are not those of docs/addresses.md in {', '.join(sorted(other))}")
    holding = [name for name in WITH_ADDRESSES if PLACEHOLDERS.search(text_of(name))]
    if holding:
        found.append(f"placeholders of addresses (docs/addresses.md) are left in {', '.join(holding)}")
    return found


def checksums(folder: Path) -> str:
    """Return a line for every file: its SHA-256 and its name, as sha256sum writes them."""
    files = sorted(each for each in folder.iterdir() if each.is_file() and each.name != "SHA256SUMS")
    return "".join(f"{hashlib.sha256(each.read_bytes()).hexdigest()}  {each.name}\n" for each in files)


def notes() -> str:
    """Return the first section of the changelog: the release notes."""
    return re.split(r"^## ", text_of("CHANGELOG.md"), flags=re.MULTILINE)[1].partition("\n")[2].strip() + "\n"


def main() -> None:
    """Write checksums and release notes; exit with 1 where anything disagrees."""
    folder = Path(sys.argv[1])
    (folder / "NOTES.md").write_text(notes(), encoding="utf-8")
    (folder / "SHA256SUMS").write_text(checksums(folder), encoding="utf-8")
    print(f"{folder}: built and checked. Left to do by hand: the upload (docs/releasing.md).")
    if found := disagreements():
        print("Not signed off:", *(f"- {each}" for each in found), sep="\n")
        sys.exit(1)
    print("Signed off: versions, dependencies and addresses agree.")


if __name__ == "__main__":
    main()
