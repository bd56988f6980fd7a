"""A release as a folder: written, read back, and its synthetic tables as they are analysed."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from allbutone.model.location import Parameters
from allbutone.model.niw import NIW
from allbutone.releases.description import (
    BYTES_PER_VALUE,
    MADE_BY,
    MANIFEST,
    PARAMETERS,
    described,
    files_of_datasets,
    parameters_text,
    read_dataset,
    read_json,
    terms_of,
    write_datasets,
    write_json,
)
from allbutone.releases.mechanism import GENERAL_LOCATION, KEEP_GAPS, Mechanism
from allbutone.releases.private_release import MODEL as GUARANTEED
from allbutone.releases.private_release import guaranteed_entries, guaranteed_from
from allbutone.releases.release import MOST_DATASETS, Release
from allbutone.releases.sampling import rows_at_once, stream_datasets
from allbutone.releases.several import Released, Releases, together
from allbutone.support.arrays import cholesky, require_symmetric
from allbutone.support.errors import Cure, InputError, count_of
from allbutone.tables.categories import Categories
from allbutone.tables.files import read_table
from allbutone.tables.records import Records
from allbutone.tables.safe_io import NOT_AS_WRITTEN, fresh_folder, require_free, restore_replaced
from allbutone.tables.schema import Schema

# A release as a folder: the datasets, the parameters or both, and release.json with the mechanism's public part.
#
# Never in that folder: a repeat key, the posterior, any statistic of the confidential data, a path or a user name.


OneRelease = Released | str | Path  # a release, or its folder
AnyRelease = OneRelease | Sequence[OneRelease]  # or several of one table, to be taken together
KINDS = ("datasets", "parameters", "both")


def save_release(
    release: Release,
    folder: str | Path,
    *,
    format: str = "csv",
    force: bool = False,
    finished: Callable[[Path], object] = lambda work: None,
) -> None:
    """Write a release to a new folder, whole or not at all.

    `finished` sees where all files lie aside, just before they are put under the folder's name.

    >>> import allbutone as abo
    >>> release = abo.Synthesizer().fit(abo.demo_cohort()).sample_parameters(2)
    >>> abo.save_release(release, "release")  # release/parameters.json and release/release.json
    """
    if release.prior is None and release.noisy is None:
        raise InputError(
            "a release is saved with its mechanism, and this one has none",
            "give it columns and the prior it was made with",
        )
    if release.mechanism.is_normal and release.parameters is not None and release.datasets:
        raise InputError("these are several releases taken together", "save each by itself")
    with _release_folder(folder, force, finished) as work:
        _write(release, work, format)


def _write(release: Release, work: Path, format: str) -> None:
    mechanism = release.mechanism
    sizes: dict[str, Any] = {"files": []}
    if not mechanism.is_normal:
        sizes = _write_tables(work, release, format)
    elif release.tables:
        sizes = write_datasets(work, _blocks(release), release.rows, release.columns, format)
    if release.parameters is not None:
        _write_parameters(work / PARAMETERS, release)
        sizes |= {"draws": release.draws, "files": [*sizes["files"], PARAMETERS]}
    if release.noisy is None:
        kind = "datasets" if release.parameters is None else "both" if release.tables else "parameters"
        public = described(kind, mechanism)
    else:
        public = {"made_by": MADE_BY} | guaranteed_entries(release.noisy)
    write_json(work / MANIFEST, public | sizes)


def _write_tables(work: Path, release: Release, format: str) -> dict[str, Any]:
    """Write tables with levels by name; return what the description says of them."""
    import pyarrow.csv
    import pyarrow.parquet

    if format not in BYTES_PER_VALUE:
        raise InputError(f"format must be csv or parquet, got {format!r}")
    digits = max(3, len(str(len(release.tables))))
    files = [f"dataset-{number:0{digits}d}.{format}" for number in range(1, len(release.tables) + 1)]
    for name, table in zip(files, release.tables, strict=True):
        frame = table.to_frame("pyarrow", released=True)
        if format == "csv":
            pyarrow.csv.write_csv(frame, work / name)
        else:
            pyarrow.parquet.write_table(frame.replace_schema_metadata(None), work / name)
    return {"datasets": len(release.datasets), "rows": list(release.rows), "files": files}


def _write_parameters(path: Path, release: Release) -> None:
    assert release.parameters is not None
    if release.mechanism.is_normal:
        drawn = release.normal
        pairs = zip(np.asarray(drawn.means), np.asarray(drawn.covariances), strict=True)
        draws = ({"mean": mean.tolist(), "covariance": covariance.tolist()} for mean, covariance in pairs)
        with path.open("w", encoding="utf-8") as file:
            file.writelines(parameters_text(release.columns, draws))
        return
    names = {"columns": list(release.mechanism.measurements), "terms": terms_of(release.mechanism)}
    write_json(path, names | {name: value.tolist() for name, value in vars(release.parameters).items()})


def synthesize_to_folder(
    posterior: NIW,
    rows: Sequence[int],
    rng: np.random.Generator,
    folder: str | Path,
    *,
    mechanism: Mechanism,
    format: str = "csv",
    force: bool = False,
    watch: Callable[[np.ndarray, np.ndarray], None] = lambda drawn, block: None,
    finished: Callable[[Path], object] = lambda work: None,
) -> None:
    """Draw datasets and write them block by block; no dataset is ever held whole.

    `watch` sees each block as the model drew it, in natural units, and as it was written; `finished` as for
    `save_release`.
    """
    declared, columns = mechanism.schema, mechanism.columns

    def released() -> Iterator[tuple[int, np.ndarray]]:
        for number, drawn in stream_datasets(posterior, rows, rng):
            block = declared.released(drawn)
            yield number, block
            watch(declared.to_natural(drawn), block)

    with _release_folder(folder, force, finished) as work:
        count_of("datasets", len(rows), MOST_DATASETS)
        _require_space(work, sum(rows) * posterior.p * BYTES_PER_VALUE.get(format, 0))
        sizes = write_datasets(work, released(), rows, columns, format)
        write_json(work / MANIFEST, described("datasets", mechanism) | sizes)


@contextmanager
def _release_folder(folder: str | Path, force: bool, finished: Callable[[Path], object]) -> Iterator[Path]:
    """Yield a folder to write into; it is let go of only if it holds nothing but a release."""
    from allbutone.releases.check import require_clean

    with fresh_folder(Path(folder), ours=is_release, force=force, finished=finished) as work:
        yield work
        require_clean(work)


def _blocks(release: Release) -> Iterator[tuple[int, np.ndarray]]:
    """Yield (dataset number, block of its rows) as `stream_datasets` does, so that the files are the same."""
    room = rows_at_once(release.p)
    for number, dataset in enumerate(release.values):
        for start in range(0, len(dataset), room):
            yield number, dataset[start : start + room]


def load_release(folder: str | Path) -> Release:
    """Read a release back from its folder.

    >>> import allbutone as abo
    >>> abo.save_release(abo.Synthesizer().fit(abo.demo_cohort()).sample(datasets=2), "release")
    >>> abo.load_release("release")
    Release: 2 datasets of 503 rows, columns T2D, CAD, HT, BMI, HBA1C
    """
    folder = Path(folder)
    restore_replaced(folder)
    manifest = read_json(folder / MANIFEST)
    try:
        if manifest["release"] not in KINDS:
            raise ValueError(f"unknown release {manifest['release']!r}")
        if manifest.get("model") == GENERAL_LOCATION:
            return _load_tables(folder, manifest)
        if manifest.get("model") == GUARANTEED:
            moments = guaranteed_from(manifest, str(folder / MANIFEST))
            mechanism = Mechanism.of_measurements(moments.ball.schema, None)
        else:
            moments, mechanism = None, Mechanism.of_entries(manifest, MANIFEST)
        drawn = [] if manifest["release"] == "datasets" else read_json(folder / PARAMETERS)["draws"]
        means, covariances = ([draw[name] for draw in drawn] for name in ("mean", "covariance"))
        names = [name for name in manifest["files"] if name != PARAMETERS]
        parts = files_of_datasets(names, {"rows": []} if manifest["release"] == "parameters" else manifest)
    except InputError:
        raise
    except NOT_AS_WRITTEN as error:
        raise InputError(
            f"not the description of a release: {error!r:.200}", where=str(folder / MANIFEST)
        ) from error
    public = mechanism.columns, mechanism.normal
    datasets = [read_dataset(folder, files, rows, mechanism.columns, MANIFEST) for files, rows in parts]
    if moments is not None:
        return Release(mechanism, tuple(mechanism.table(each) for each in datasets), noisy=moments)
    if manifest["release"] == "datasets":
        return Release.of(datasets, *public, mechanism.schema)
    return Release.of_parameters(means, covariances, *public, datasets, mechanism.schema)


def _load_tables(folder: Path, manifest: dict[str, Any]) -> Release:
    """Read a release of tables with levels by name."""
    mechanism = Mechanism.of_entries(manifest, MANIFEST)
    names = [name for name in manifest["files"] if name != PARAMETERS]
    sizes, apart = list(manifest["rows"]), int(manifest["datasets"])
    tables = [_read_table(folder, name, rows, mechanism) for name, rows in zip(names, sizes, strict=True)]
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
    shapes = [each.shape for each in (parameters.shares, parameters.coefficients, parameters.covariances)]
    if shapes != wanted or not all(np.all(np.isfinite(each)) for each in vars(parameters).values()):
        raise InputError("the released parameters do not fit the columns", where=PARAMETERS)
    if np.any(parameters.shares < 0) or not np.allclose(parameters.shares.sum(axis=1), 1):
        raise InputError("the shares of the cells are not probabilities", where=PARAMETERS)
    require_symmetric(parameters.covariances, "covariances")
    cholesky(parameters.covariances, "covariances")


def release_of(given: AnyRelease) -> Released:
    """Return a release as it is, or that of a folder; several of one table, in a list, taken together."""
    if isinstance(given, list | tuple):
        return together([release_of(each) for each in given])
    return load_release(given) if isinstance(given, str | Path) else given  # type: ignore[return-value]


def is_release(folder: Path) -> bool:
    """Say whether allbutone made this folder and nothing has been added to it since."""
    try:
        manifest = read_json(folder / MANIFEST)
        listed = {MANIFEST, *manifest["files"]}
    except (InputError, KeyError, TypeError):
        return False
    ours = str(manifest.get("made_by")).startswith("allbutone ")
    return ours and all(path.name in listed and path.is_file() for path in folder.iterdir())


def require_place(folder: str | Path, *, force: bool) -> None:
    """Refuse a folder to which no release can be saved."""
    require_free(Path(folder), ours=is_release, force=force)


def _require_space(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise InputError(
            f"the release needs about {needed / 1e9:,.1f} GB and {free / 1e9:,.1f} GB are free",
            "ask for fewer rows or datasets",
            "choose another disk",
        )


# The synthetic tables of any release, as they are analysed: measurements and categories, side by side.


@dataclass(frozen=True, eq=False)
class SyntheticTables:
    """Measurements and categories of every synthetic table, and the mechanism they share."""

    values: tuple[Float[np.ndarray, "_ p"], ...]
    categories: tuple[Categories, ...]
    mechanism: Mechanism

    @property
    def columns(self) -> tuple[str, ...]:
        """The measurements."""
        return self.mechanism.columns

    @property
    def schema(self) -> Schema:
        """What is declared of the columns."""
        return self.mechanism.schema

    @property
    def rows(self) -> tuple[int, ...]:
        """The number of rows of each."""
        return tuple(len(each) for each in self.values)

    def require_whole(self) -> None:
        """Refuse tables with gaps, and with fewer than two rows: they have no variances."""
        for number, (values, each) in enumerate(zip(self.values, self.categories, strict=True), start=1):
            if len(values) < 2:
                raise InputError(f"dataset {number} has one row, which has no variance", "leave it out")
            if each.has_gaps or np.isnan(values).any():
                raise InputError(
                    f"dataset {number} has gaps, and rules for them are not known",
                    Cure("synthesize tables without gaps", "missing", "impute"),
                )


def synthetic_tables(release: Any, *, on_model_scale: bool = False) -> SyntheticTables:
    """Return the tables of a release, of its folder or of several: in natural units, or as the model sees them."""
    release = release_of(release)
    if isinstance(release, Releases):
        raise InputError(
            "the releases were made with different priors", "compare, or estimate from, one at a time"
        )
    release.require_tables()
    tables = release.tables
    values = tuple(each.values if on_model_scale else each.natural for each in tables)
    categories = tuple(each.categories for each in tables)
    return SyntheticTables(values, categories, release.mechanism)
