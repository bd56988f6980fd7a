"""release.json and parameters.json: every entry is one that allbutone writes, as it writes it."""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from allbutone.model.location import Parameters
from allbutone.model.prior_file import prior_from
from allbutone.releases.description import MADE_BY, MANIFEST, PARAMETERS, described, json_text, parameters_text
from allbutone.releases.hygiene.findings import AS_WRITTEN, Flaw
from allbutone.releases.mixed.folder import MECHANISM, terms_of
from allbutone.releases.mixed.mechanism import MODEL, Mechanism
from allbutone.releases.private.release import MODEL as PRIVATE
from allbutone.releases.private.release import PrivateRelease
from allbutone.support.errors import InputError
from allbutone.tables.declared.schema import Schema
from allbutone.tables.names import check_names, looks_like_identifier
from allbutone.tables.safe_read import NOT_AS_WRITTEN

_SIZES = frozenset({"datasets", "rows", "files", "parts", "draws"})
_REASONS = (  # why an entry of such a name may not go out
    (r"seed|key|random|rng|entropy|state", "with it the release can be drawn again, and a missing record found"),
    (
        r"posterior|mean|covarian|moment|statistic|people|records|count|n$|min|max",
        "it tells a statistic of the data",
    ),
    (r"path|user|host|author|file|folder|table|date|time|created", "it tells who made the release, where or when"),
)
_MADE_BY = re.compile(r"allbutone \d+(\.\d+)*([a-z]+\d*)*(\+[\w.]+)?")


def manifest_findings(text: str, content: dict[str, Any]) -> Iterator[Flaw]:
    """Find what release.json says beyond the public part of the mechanism."""
    if text != json_text(content):
        yield Flaw(MANIFEST, "it is not written as allbutone writes it: spaces, order or entries given twice")
    made_by, expected = str(content.get("made_by")), rebuilt(content)
    if not _MADE_BY.fullmatch(made_by):
        yield Flaw(MANIFEST, "it does not say which version of allbutone made it, or says more")
    for name in content:
        if name not in expected and name not in {"made_by", *_SIZES}:
            yield Flaw(MANIFEST, f"it has an entry {name!r:.60}: {_reason(name)}", "remove the entry")
    for name, value in expected.items():
        if name != "made_by" and content.get(name) != value:
            other = _MADE_BY.fullmatch(made_by) and made_by != MADE_BY
            cure = f"check it with the version that made it, {made_by}" if other else AS_WRITTEN
            yield Flaw(MANIFEST, f"its entry {name!r} is not as allbutone writes it", cure)
    yield from _size_findings(content)
    yield from name_findings(content["columns"], MANIFEST)


def rebuilt(content: dict[str, Any]) -> dict[str, Any]:
    """Return what allbutone would write for the release described here; refuse what describes none."""
    try:
        if content.get("model") == PRIVATE:
            return PrivateRelease.from_entries(content, [], MANIFEST).entries()
        if content.get("model") == MODEL:
            kind = {"release": _kind(content), "mechanism": MECHANISM}
            return kind | Mechanism.of_entries(content, MANIFEST).entries()
        columns = tuple(content["columns"])
        if not isinstance(content["columns"], list) or not all(isinstance(name, str) for name in columns):
            raise TypeError("columns must be a list of text")
        schema = Schema.of_entries({"columns": content.get("declared", {})}, MANIFEST).for_columns(columns)
        return described(_kind(content), columns, prior_from(content["prior"], columns), schema)
    except NOT_AS_WRITTEN as error:  # an InputError is a ValueError
        if isinstance(error, InputError):
            raise
        raise InputError(f"an entry is missing or wrong: {error!r:.120}", AS_WRITTEN) from error


def _kind(content: dict[str, Any]) -> str:
    files = content["files"]
    return "datasets" if PARAMETERS not in files else "both" if len(files) > 1 else "parameters"


def _reason(name: str) -> str:
    found = (why for words, why in _REASONS if re.search(words, name.lower()))
    return next(found, "nothing that a release's description holds")


def _size_findings(content: dict[str, Any]) -> Iterator[Flaw]:
    """Find sizes that are anything else than whole numbers."""
    counts = [content[name] for name in ("datasets", "draws") if name in content]
    for name in ("rows", "parts"):
        value = content.get(name, [])
        counts += value if isinstance(value, list) else ["no list"]
    if not all(type(count) is int and count >= 0 for count in counts):
        yield Flaw(MANIFEST, "its sizes are not all whole numbers")


def name_findings(names: list[str], where: str) -> Iterator[Flaw]:
    """Find names of columns that read as data."""
    try:
        check_names(names)
    except InputError as error:
        yield Flaw(where, error.problem, "rename the column in the table, and draw the release again")


def names_of_people(names: list[str]) -> list[str]:
    """Return a note on each column that is named as what tells people apart."""
    odd = [name for name in names if looks_like_identifier(name)]
    return [f"The column {name!r} is named as what tells people apart: leave it out if it does." for name in odd]


def parameter_findings(text: str, content: dict[str, Any], manifest: dict[str, Any]) -> Iterator[Flaw]:
    """Find what parameters.json holds beyond the draws that release.json announces."""
    try:
        expected = _mixed_text(content, manifest) if manifest.get("model") == MODEL else _text(content, manifest)
    except NOT_AS_WRITTEN as error:
        yield Flaw(PARAMETERS, f"it does not hold the draws that {MANIFEST} announces ({error!r:.120})")
        return
    if text != expected:
        problem = "it holds more than draws of the parameters, or not as allbutone writes them"
        yield Flaw(PARAMETERS, problem)


def _text(content: dict[str, Any], manifest: dict[str, Any]) -> str:
    columns, p = manifest["columns"], len(manifest["columns"])
    shapes = {"mean": (p,), "covariance": (p, p)}
    draws = [{name: _numbers(draw[name], shape) for name, shape in shapes.items()} for draw in content["draws"]]
    if len(draws) != manifest["draws"]:
        raise ValueError(f"{len(draws)} draws")
    return "".join(parameters_text(columns, draws))


def _mixed_text(content: dict[str, Any], manifest: dict[str, Any]) -> str:
    mechanism = Mechanism.of_entries(manifest, MANIFEST)
    model, m = mechanism.prior, manifest["draws"]
    own = model.cells.count if model.is_separate else 1
    shapes = [(m, model.cells.count), (m, model.terms, model.p), (m, own, model.p, model.p)]
    names = Parameters.__dataclass_fields__
    told = {name: _numbers(content[name], shape) for name, shape in zip(names, shapes, strict=True)}
    return json_text({"columns": list(mechanism.measurements), "terms": terms_of(mechanism)} | told)


def _numbers(given: Any, shape: tuple[int, ...]) -> Any:
    found = np.array(given, dtype=np.float64)
    if found.shape != shape or not np.isfinite(found).all():
        raise ValueError(f"shape {found.shape}")
    return found.tolist()
