"""The files of a release: those that its description lists, under names that allbutone gives, and no others."""

import os
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from allbutone.releases.description import MANIFEST, PARAMETERS
from allbutone.releases.hygiene.findings import AS_WRITTEN, Flaw

_DATASET = re.compile(r"dataset-\d{3,}(\.part-\d{4})?\.(csv|parquet)")
_OUT = "move it out of the folder"
# what people put beside a release, by the end of the name, and why it may not go out
_KNOWN = {
    ".ledger.toml": "it is the ledger, which tells how many people the table has and what was drawn of it",
    ".html": "it is a page; a report describes individual records, and even a public one goes beside the folder",
    ".toml": "it may be a table file or a prior",
    ".json": "it may be a fitted synthesizer or moments, which are statistics of the table",
    ".csv": "it is a table that the release does not list; it may hold records, or their risk",
    ".parquet": "it is a table that the release does not list; it may hold records",
    ".pkl": "nobody can see what it holds, and opening it can run a program",
    ".zip": "nobody can see what it holds",
}


def content_findings(folder: Path, listed: Collection[str]) -> Iterator[Flaw]:
    """Find what a folder holds besides what its description lists, and what is not as allbutone writes it.

    Times of files are not judged: they tell when a release was drawn or copied, and nothing of the table.
    """
    found = set()
    for entry in os.scandir(folder):
        found.add(entry.name)
        if entry.is_symlink():
            yield Flaw(entry.name, "it is a link, which leads elsewhere and tells a path", _OUT)
        elif not entry.is_file():
            yield Flaw(entry.name, "it is a folder, and a release has none", _OUT)
        elif entry.name not in listed and entry.name != MANIFEST:
            yield Flaw(entry.name, f"it is no part of the release: {_because(entry.name)}", _OUT)
        elif attached := attributes_of(entry.path):
            yield attribute_finding(entry.name, attached)
    for name in listed:
        if not is_release_name(name):
            told = "a name that allbutone does not give, and a name can tell whose data it is"
            yield Flaw(MANIFEST, f"it lists {name!r:.80}, {told}", AS_WRITTEN)
        elif name not in found:
            yield Flaw(MANIFEST, f"it lists {name}, which is not there", AS_WRITTEN)


def is_release_name(name: str) -> bool:
    """Say whether a file of a release may be called so."""
    return name == PARAMETERS or bool(_DATASET.fullmatch(name))


def attributes_of(path: str | Path) -> list[str]:
    """Return the names of what programs and people attached to a file, such as where it came from."""
    if not hasattr(os, "listxattr"):
        return []
    try:
        return [name for name in os.listxattr(path) if name.startswith("user.")]
    except OSError:  # this file system keeps none
        return []


def attribute_finding(name: str, attached: list[str]) -> Flaw:
    """Say that something is attached to a file."""
    problem = f"the file carries attributes beside its content: {', '.join(attached):.200}"
    return Flaw(name, problem, "remove them (setfattr -x), or copy the file without them")


def _because(name: str) -> str:
    if name.startswith("."):
        return "it is a hidden file, which some program left there"
    ways = (why for ending, why in _KNOWN.items() if name.lower().endswith(ending))
    return next(ways, "nobody has said what it holds")
