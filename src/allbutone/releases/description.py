"""A release on disk: release.json with the mechanism's public part, and the files of its datasets."""

import json
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from allbutone.releases.mechanism import GENERAL_LOCATION, NORMAL, Mechanism
from allbutone.support.errors import InputError
from allbutone.tables.files import TableWriter, read_table
from allbutone.tables.records import Records
from allbutone.tables.safe_io import parse, read_text

# A release described: release.json with the mechanism's public part, and how its JSON files are written.


MANIFEST = "release.json"
PARAMETERS = "parameters.json"
MADE_BY = f"allbutone {version('allbutone')}"
MECHANISMS = {  # by the model's name
    NORMAL: (
        "Posterior of a multivariate normal model under the normal-inverse-Wishart prior below; "
        "every draw or dataset from its own independent posterior draw of mean and covariance. Where columns are "
        "declared on another scale, mean, covariance and prior are on that scale; datasets are in natural units, "
        "rounded and limited as declared."
    ),
    GENERAL_LOCATION: (
        "Posterior of a general location model: cells of the categories by a Dirichlet distribution, measurements "
        "within a cell multivariate normal, under the prior below; every draw or dataset from its own independent "
        "posterior draw. Columns under keep are the table's own, and the others were drawn given them. Where "
        "columns are declared on another scale, parameters and prior are on that scale; datasets are in natural "
        "units, rounded and limited as declared."
    ),
}


def described(kind: str, mechanism: Mechanism) -> dict[str, Any]:
    """Return what release.json says of a release besides its sizes and files."""
    words = {"made_by": MADE_BY, "release": kind, "mechanism": MECHANISMS[mechanism.model]}
    return words | mechanism.entries()


def terms_of(mechanism: Mechanism) -> list[str]:
    """Name the rows of the coefficients."""
    pairs = list(zip(mechanism.categories, mechanism.levels, strict=True))
    if mechanism.prior.is_separate:
        codes = mechanism.prior.cells.codes
        return [
            ", ".join(f"{name}[{levels[code]}]" for (name, levels), code in zip(pairs, row, strict=True))
            for row in codes
        ]
    effects = [f"{name}[{level}]" for name, levels in pairs if len(levels) > 1 for level in levels]
    return ["1", *effects, *mechanism.covariates]


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


# The files of a release's datasets: one each, or, of long ones in Parquet, several parts each.


BYTES_PER_VALUE = {"csv": 19, "parquet": 8}
PART_ROWS = 10_000_000  # of a Parquet file: engines read the parts of a longer dataset side by side


def write_datasets(
    work: Path,
    blocks: Iterable[tuple[int, Float[np.ndarray, "_ p"]]],
    rows: Sequence[int],
    columns: Sequence[str],
    format: str,
) -> dict[str, Any]:
    """Write (dataset number, block of its rows), in order, never holding more than a block; return the sizes.

    These go into the description: `files`, and `parts`, how many each dataset has, where some have several.
    """
    if format not in BYTES_PER_VALUE:
        raise InputError(f"format must be csv or parquet, got {format!r}")
    digits = max(3, len(str(len(rows))))
    files: list[list[str]] = [[] for _ in rows]
    for (number, part), group in groupby(_in_parts(blocks, format), key=itemgetter(0)):
        within = f".part-{part + 1:04d}" if format == "parquet" and rows[number] > PART_ROWS else ""
        files[number].append(f"dataset-{number + 1:0{digits}d}{within}.{format}")
        with TableWriter(work / files[number][-1], columns) as writer:
            for _, block in group:
                writer.write(block)
    sizes = {"datasets": len(rows), "rows": list(rows), "files": [name for names in files for name in names]}
    parts = [len(names) for names in files]
    return sizes | ({"parts": parts} if max(parts) > 1 else {})


def _in_parts(blocks: Iterable[tuple[int, Any]], format: str) -> Iterable[tuple[tuple[int, int], Any]]:
    """Number the parts: a part ends with the block that fills it."""
    last, written = -1, 0
    for number, block in blocks:
        written = written if number == last else 0
        last = number
        yield (number, written // PART_ROWS if format == "parquet" else 0), block
        written += len(block)


def files_of_datasets(names: Sequence[Any], manifest: dict[str, Any]) -> list[tuple[list[Any], Any]]:
    """Return the files of each dataset and its number of rows, as the release's description says."""
    rows = manifest["rows"]
    parts = [int(count) for count in manifest.get("parts", [1] * len(rows))]
    if sum(parts) != len(names) or min(parts, default=1) < 1:
        raise ValueError("files and datasets do not match")
    ends = np.cumsum(parts)
    each = [list(names[end - count : end]) for count, end in zip(parts, ends, strict=True)]
    return list(zip(each, rows, strict=True))


def read_dataset(
    folder: Path, names: Sequence[Any], rows: Any, columns: tuple[str, ...], manifest: str
) -> Float[np.ndarray, "n p"]:
    """Read the parts of one dataset, which must be what the description says."""
    tables = []
    for name in names:
        if not isinstance(name, str) or Path(name).name != name:
            raise InputError(f"names a file outside its folder: {name!r:.60}", where=str(folder / manifest))
        tables.append(Records.of_numbers(read_table(folder / name, delimiter=",")))
    values = tables[0].values if len(tables) == 1 else np.concatenate([table.values for table in tables])
    if {table.columns for table in tables} != {columns} or len(values) != rows:
        raise InputError(
            f"{folder / names[0]} holds {len(values)} rows of {', '.join(tables[0].columns)}; {manifest} says "
            f"{rows} rows of {', '.join(columns)}"
        )
    return values
