"""A release described: release.json with the mechanism's public part, and how its JSON files are written."""

import json
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from allbutone.model.niw import NIW
from allbutone.model.prior_file import prior_entries
from allbutone.support.errors import InputError
from allbutone.tables.declared.schema import Schema
from allbutone.tables.safe_read import parse, read_text

MANIFEST = "release.json"
PARAMETERS = "parameters.json"
MADE_BY = f"allbutone {version('allbutone')}"
MECHANISM = (
    "Posterior of a multivariate normal model under the normal-inverse-Wishart prior below; "
    "every draw or dataset from its own independent posterior draw of mean and covariance. Where columns are "
    "declared on another scale, mean, covariance and prior are on that scale; datasets are in natural units, "
    "rounded and limited as declared."
)


def described(kind: str, columns: tuple[str, ...], prior: NIW, schema: Schema) -> dict[str, Any]:
    """Return what release.json says of a release of measurements, besides its sizes and files."""
    content = {
        "made_by": MADE_BY,
        "release": kind,
        "mechanism": MECHANISM,
        "columns": list(columns),
        "prior": prior_entries(prior),
    }
    if any(column.entries() for column in schema.columns):
        content["declared"] = schema.for_columns(columns).entries()["columns"]
    return content


def parameters_text(columns: Sequence[str], draws: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield the text of parameters.json, a draw a line, so that no more than one is ever held as text."""
    yield f'{{"columns": {json.dumps(columns, ensure_ascii=False)}, "draws": ['
    for number, draw in enumerate(draws):
        yield ",\n" if number else "\n"
        yield json.dumps(draw)
    yield "\n]}\n"


def json_text(content: dict[str, Any]) -> str:
    """Return the text of a JSON file as this package writes it."""
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file."""
    path.write_text(json_text(content), encoding="utf-8")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file that this package wrote."""
    content = parse(read_text(path, "name what allbutone wrote"), "JSON", str(path))
    if not isinstance(content, dict):
        raise InputError("not a description that allbutone wrote", where=str(path))
    return content
