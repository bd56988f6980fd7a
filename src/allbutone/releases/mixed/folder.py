"""A mixed release as a folder: tables with levels by name, parameters, and release.json with what is public."""

from pathlib import Path
from typing import Any

import numpy as np

from allbutone.model.location import Parameters
from allbutone.releases.description import MADE_BY, MANIFEST, PARAMETERS, read_json, write_json
from allbutone.releases.mixed.mechanism import KEEP_GAPS, Mechanism
from allbutone.releases.mixed.release import Release
from allbutone.support.arrays import cholesky, require_symmetric
from allbutone.support.errors import InputError
from allbutone.tables.files import read_table
from allbutone.tables.records import Records

MECHANISM = (
    "Posterior of a general location model: cells of the categories by a Dirichlet distribution, measurements "
    "within a cell multivariate normal, under the prior below; every draw or dataset from its own independent "
    "posterior draw. Columns under keep are the table's own, and the others were drawn given them. Where columns "
    "are declared on another scale, parameters and prior are on that scale; datasets are in natural units, "
    "rounded and limited as declared."
)
FORMATS = ("csv", "parquet")


def write_mixed(release: Release, work: Path, format: str = "csv") -> None:
    """Write the files of a release into an empty folder."""
    import pyarrow.csv
    import pyarrow.parquet

    if format not in FORMATS:
        raise InputError(f"format must be csv or parquet, got {format!r}")
    digits = max(3, len(str(len(release.tables))))
    files = [f"dataset-{number:0{digits}d}.{format}" for number in range(1, len(release.tables) + 1)]
    for name, table in zip(files, release.tables, strict=True):
        frame = table.to_frame("pyarrow", released=True)
        if format == "csv":
            pyarrow.csv.write_csv(frame, work / name)
        else:
            pyarrow.parquet.write_table(frame.replace_schema_metadata(None), work / name)
    kind = "datasets" if release.parameters is None else "both" if release.tables else "parameters"
    content: dict[str, Any] = {
        "made_by": MADE_BY,
        "release": kind,
        "mechanism": MECHANISM,
        **release.mechanism.entries(),
        "datasets": len(release.datasets),
        "rows": list(release.rows),
    }
    if release.parameters is not None:
        _write_parameters(work / PARAMETERS, release)
        content["draws"] = release.draws
        files.append(PARAMETERS)
    write_json(work / MANIFEST, content | {"files": files})


def read_mixed(folder: Path, manifest: dict[str, Any]) -> Release:
    """Read a release whose description has been read."""
    mechanism = Mechanism.of_entries(manifest, MANIFEST)
    names = [name for name in manifest["files"] if name != PARAMETERS]
    sizes = list(manifest["rows"])
    tables = [_read_table(folder, name, rows, mechanism) for name, rows in zip(names, sizes, strict=True)]
    apart = int(manifest["datasets"])
    parameters = None
    if manifest["release"] != "datasets":
        content = read_json(folder / PARAMETERS)
        names = list(Parameters.__dataclass_fields__)
        parameters = Parameters(*(np.array(content[name], dtype=np.float64) for name in names))
        _check_parameters(parameters, mechanism)
    return Release(mechanism, tuple(tables[:apart]), parameters, tuple(tables[apart:]))


def _read_table(folder: Path, name: Any, rows: Any, mechanism: Mechanism) -> Records:
    if not isinstance(name, str) or Path(name).name != name:
        raise InputError(f"names a file outside its folder: {name!r:.60}", where=str(folder / MANIFEST))
    table = Records.of_synthetic(
        read_table(folder / name, delimiter=","), mechanism.schema, gaps=mechanism.missing == KEEP_GAPS
    )
    if len(table.values) != rows:
        raise InputError(
            f"the file holds {len(table.values)} rows; release.json says {rows}", where=str(folder / name)
        )
    return table


def _check_parameters(parameters: Parameters, mechanism: Mechanism) -> None:
    model, m = mechanism.prior, len(parameters)
    own = model.cells.count if model.is_separate else 1
    wanted = [(m, model.cells.count), (m, model.terms, model.p), (m, own, model.p, model.p)]
    found = [each.shape for each in (parameters.shares, parameters.coefficients, parameters.covariances)]
    if found != wanted or not all(np.all(np.isfinite(each)) for each in vars(parameters).values()):
        raise InputError("the released parameters do not fit the columns", where=PARAMETERS)
    if np.any(parameters.shares < 0) or not np.allclose(parameters.shares.sum(axis=1), 1):
        raise InputError("the shares of the cells are not probabilities", where=PARAMETERS)
    require_symmetric(parameters.covariances, "covariances")
    cholesky(parameters.covariances, "covariances")


def _write_parameters(path: Path, release: Release) -> None:
    assert release.parameters is not None
    content: dict[str, Any] = {
        "columns": list(release.mechanism.measurements),
        "terms": terms_of(release.mechanism),
    }
    write_json(path, content | {name: value.tolist() for name, value in vars(release.parameters).items()})


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
