"""A release as a folder: the datasets or parameters, and release.json with the mechanism's public part.

Never in that folder: the seed, the posterior, any statistic of the confidential data, a path or a user name.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from allbutone.atomic import fresh_folder
from allbutone.errors import InputError
from allbutone.niw import NIW
from allbutone.prior import prior_entries, prior_from
from allbutone.records import Records
from allbutone.release import DatasetRelease, ParameterRelease, Release, stream_datasets
from allbutone.tables import TableWriter

MANIFEST = "release.json"
FORMATS = ("csv", "parquet")
_MECHANISM = (
    "Posterior of a multivariate normal model under the normal-inverse-Wishart prior below; "
    "every draw or dataset from its own independent posterior draw of mean and covariance."
)


def save_release(release: Release, folder: str | Path, *, format: str = "csv", force: bool = False) -> None:
    """Write a release to a new folder, whole or not at all."""
    if release.columns is None or release.prior is None:
        raise InputError("a release is saved with its mechanism: give it columns and the prior it was made with")
    with fresh_folder(Path(folder), marker=MANIFEST, force=force) as work:
        if isinstance(release, ParameterRelease):
            _write_parameters(work, release)
        else:
            blocks = enumerate(np.asarray(dataset) for dataset in release.datasets)
            _write_datasets(work, blocks, release.rows, release.columns, release.prior, format)


def synthesize_to_folder(
    posterior: NIW,
    rows: Sequence[int],
    rng: np.random.Generator,
    folder: str | Path,
    *,
    columns: tuple[str, ...],
    prior: NIW,
    format: str = "csv",
    force: bool = False,
    watch: Callable[[np.ndarray], None] = lambda block: None,
) -> None:
    """Draw datasets and write them block by block; no dataset is ever held whole.

    `watch` sees each block of rows once it is written.
    """
    with fresh_folder(Path(folder), marker=MANIFEST, force=force) as work:
        blocks = stream_datasets(posterior, rows, rng)
        _write_datasets(work, blocks, rows, columns, prior, format, watch)


def load_release(folder: str | Path) -> Release:
    """Read a release back from its folder."""
    folder = Path(folder)
    manifest = _read_json(folder / MANIFEST)
    try:
        columns, prior = tuple(manifest["columns"]), prior_from(manifest["prior"], manifest["columns"])
        if manifest["release"] == "parameters":
            draws = _read_json(folder / "parameters.json")["draws"]
            means = np.array([draw["mean"] for draw in draws], dtype=np.float64)
            covariances = np.array([draw["covariance"] for draw in draws], dtype=np.float64)
            return ParameterRelease(means, covariances, columns, prior)
        files, rows = manifest["files"], manifest["rows"]
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{folder / MANIFEST} is not a release description: {error!r}") from error
    datasets = []
    for name, expected in zip(files, rows, strict=True):
        if Path(name).name != name:
            raise InputError(f"{folder / MANIFEST} names a file outside its folder: {name!r}")
        table = Records.of_numbers(folder / name)
        if table.columns != columns or len(table.values) != expected:
            raise InputError(
                f"{folder / name} holds {len(table.values)} rows of {', '.join(table.columns)}; {MANIFEST} says "
                f"{expected} rows of {', '.join(columns)}"
            )
        datasets.append(table.values)
    return DatasetRelease(datasets, columns, prior)


def _write_datasets(
    work: Path,
    blocks: Iterable[tuple[int, np.ndarray]],
    rows: Sequence[int],
    columns: tuple[str, ...],
    prior: NIW,
    format: str,
    watch: Callable[[np.ndarray], None] = lambda block: None,
) -> None:
    if format not in FORMATS:
        raise InputError(f"format must be csv or parquet, got {format!r}")
    digits = max(3, len(str(len(rows))))
    files = [f"dataset-{number:0{digits}d}.{format}" for number in range(1, len(rows) + 1)]
    for number, group in groupby(blocks, key=itemgetter(0)):
        with TableWriter(work / files[number], columns) as writer:
            for _, block in group:
                writer.write(block)
                watch(block)
    sizes = {"datasets": len(rows), "rows": list(rows), "files": files}
    _write_json(work / MANIFEST, _manifest("datasets", columns, prior) | sizes)


def _write_parameters(work: Path, release: ParameterRelease) -> None:
    pairs = zip(np.asarray(release.means), np.asarray(release.covariances), strict=True)
    draws = [{"mean": mean.tolist(), "covariance": covariance.tolist()} for mean, covariance in pairs]
    assert release.columns is not None
    assert release.prior is not None
    _write_json(work / "parameters.json", {"columns": release.columns, "draws": draws})
    manifest = _manifest("parameters", release.columns, release.prior)
    _write_json(work / MANIFEST, manifest | {"draws": release.draws, "files": ["parameters.json"]})


def _manifest(kind: str, columns: tuple[str, ...], prior: NIW) -> dict[str, Any]:
    return {
        "made_by": f"allbutone {version('allbutone')}",
        "release": kind,
        "mechanism": _MECHANISM,
        "columns": list(columns),
        "prior": prior_entries(prior),
    }


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; is this a release folder?") from error
    except ValueError as error:
        raise InputError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(content, dict):
        raise InputError(f"{path} is not a release description")
    return content
