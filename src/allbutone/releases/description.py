"""A release on disk: release.json with the mechanism's public part, and the files of its datasets."""

import json
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from allbutone.model.location import Parameters
from allbutone.releases.mechanism import CLASSES, GENERAL_LOCATION, NORMAL, Mechanism
from allbutone.support.errors import InputError
from allbutone.support.text import counted
from allbutone.tables.files import TableWriter
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
    CLASSES: (
        "Posterior of a mixture: each record is of a class that nobody has observed, within which measurements "
        "are multivariate normal and categories independent. Shares of classes by a Dirichlet distribution, all "
        "classes together worth class_weight records; class means normal around a common centre, with mean_weight "
        "times the precision of the class; class covariances inverse-Wishart with df degrees of freedom and a "
        "common scale matrix L; the centre flat, and L by the density |L|^(-(p+1)/2). Levels of a category by a "
        "Dirichlet distribution, worth level_weight records together. Every dataset from a draw of its own, by "
        "Gibbs sampling. "
        "Where columns are declared on another scale, the model is on that scale; datasets are in natural units, "
        "rounded and limited as declared."
    ),
}


def described(kind: str, mechanism: Mechanism) -> dict[str, Any]:
    """Return what release.json says of a release besides its sizes and files."""
    words = {"made_by": MADE_BY, "release": kind, "mechanism": MECHANISMS[mechanism.model]}
    return words | mechanism.entries()


def contents_in_words(count: int, noun: str, rows: Iterable[int], *, with_datasets: bool = False) -> str:
    """Return what a release holds: 5 datasets of 503 rows, 2 parameter draws with datasets of 4 to 9 rows."""
    sizes = sorted(set(rows))
    several = f"{sizes[0]:,} to {sizes[-1]:,} rows" if len(sizes) > 1 else ""
    of_rows = f" of {several or counted(sizes[0], 'row')}" if sizes else ""
    return f"{counted(count, noun)}{' with datasets' * with_datasets}{of_rows}"


# parameters.json: of measurements alone a draw a line, mean and covariance; with cells the arrays of `Parameters`.


def parameters_text(mechanism: Mechanism, parameters: Parameters, *, general: bool) -> Iterator[str]:
    """Yield the text of parameters.json; of draws one a line, so that no more than one is ever held as text."""
    if general:
        names = {"columns": list(mechanism.measurements), "terms": _terms_of(mechanism)}
        yield json_text(names | {name: value.tolist() for name, value in vars(parameters).items()})
        return
    yield f'{{"columns": {json.dumps(mechanism.columns, ensure_ascii=False)}, "draws": ['
    draws = zip(parameters.coefficients[:, 0], parameters.covariances[:, 0], strict=True)
    for number, (mean, covariance) in enumerate(draws):
        yield ",\n" if number else "\n"
        yield json.dumps({"mean": mean.tolist(), "covariance": covariance.tolist()})
    yield "\n]}\n"


def parameters_from(content: dict[str, Any]) -> Parameters:
    """Read what `parameters_text` wrote."""
    if "draws" in content:
        means, covariances = (
            np.array([draw[name] for draw in content["draws"]], dtype=np.float64)
            for name in ("mean", "covariance")
        )
        return Parameters(np.ones((len(means), 1)), means[:, None], covariances[:, None])
    names = Parameters.__dataclass_fields__
    return Parameters(*(np.array(content[name], dtype=np.float64) for name in names))


def shapes_of_parameters(mechanism: Mechanism, draws: int) -> list[tuple[int, ...]]:
    """Return the shapes that so many draws of the parameters have."""
    model = mechanism.prior
    own = model.cells.count if model.is_separate else 1
    return [(draws, model.cells.count), (draws, model.terms, model.p), (draws, own, model.p, model.p)]


def _terms_of(mechanism: Mechanism) -> list[str]:
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
    blocks: Iterable[tuple[int, Any]],
    rows: Sequence[int],
    mechanism: Mechanism,
    format: str,
) -> dict[str, Any]:
    """Write (dataset number, block of its rows), in order, never holding more than a block; return the sizes.

    A block is an array of measurements, or an Arrow table.

    These go into the description: `files`, and `parts`, how many each dataset has, where some have several.
    """
    if format not in BYTES_PER_VALUE:
        raise InputError(f"format must be csv or parquet, got {format!r}")
    digits = max(3, len(str(len(rows))))
    files: list[list[str]] = [[] for _ in rows]
    for (number, part), group in groupby(_in_parts(blocks, format), key=itemgetter(0)):
        most = rows[number] * mechanism.schema.rows_each
        within = f".part-{part + 1:04d}" if format == "parquet" and most > PART_ROWS else ""
        files[number].append(f"dataset-{number + 1:0{digits}d}{within}.{format}")
        with TableWriter(work / files[number][-1], None if mechanism.writes_arrow else mechanism.order) as writer:
            for _, block in group:
                writer.write(block)
    sizes = {"datasets": len(rows), "rows": list(rows), "files": [name for names in files for name in names]}
    parts = [len(names) for names in files]
    return sizes | ({"parts": parts} if max(parts, default=1) > 1 else {})


def _in_parts(blocks: Iterable[tuple[int, Any]], format: str) -> Iterable[tuple[tuple[int, int], Any]]:
    """Number the parts: a part ends with the block that fills it."""
    last, written = -1, 0
    for number, block in blocks:
        written = written if number == last else 0
        last = number
        yield (number, written // PART_ROWS if format == "parquet" else 0), block
        written += len(block)


def files_of_datasets(manifest: dict[str, Any]) -> list[tuple[list[Any], Any]]:
    """Return the files of each dataset and its number of rows, as the release's description says."""
    names, rows = [name for name in manifest["files"] if name != PARAMETERS], manifest.get("rows", [])
    parts = [int(count) for count in manifest.get("parts", [1] * len(rows))]
    if sum(parts) != len(names) or min(parts, default=1) < 1:
        raise ValueError("files and datasets do not match")
    ends = np.cumsum(parts)
    each = [list(names[end - count : end]) for count, end in zip(parts, ends, strict=True)]
    return list(zip(each, rows, strict=True))
