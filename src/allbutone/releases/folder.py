"""A release as a folder: written, read back, and its synthetic tables as they are analysed."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from allbutone.model.niw import NIW
from allbutone.model.prior import prior_from
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
    read_mixed,
    write_datasets,
    write_json,
    write_mixed,
)
from allbutone.releases.joined import Released, datasets_of, join_releases
from allbutone.releases.mechanism import MODEL
from allbutone.releases.mixed_release import Release, join_mixed
from allbutone.releases.private_release import MODEL as PRIVATE
from allbutone.releases.private_release import PrivateRelease
from allbutone.releases.release import MOST_DATASETS, DatasetRelease, ParameterRelease, PlainRelease
from allbutone.releases.sampling import rows_at_once, stream_datasets
from allbutone.support.errors import Cure, InputError, count_of
from allbutone.tables.categories import Categories
from allbutone.tables.safe_io import NOT_AS_WRITTEN, fresh_folder, require_free, restore_replaced
from allbutone.tables.schema import Schema

# A release as a folder: the datasets, the parameters or both, and release.json with the mechanism's public part.
#
# Never in that folder: a repeat key, the posterior, any statistic of the confidential data, a path or a user name.


OneRelease = Released | Release | str | Path  # a release, or its folder
AnyRelease = OneRelease | Sequence[OneRelease]  # or several of one table, to be taken together


def save_release(
    release: PlainRelease | Release | PrivateRelease,
    folder: str | Path,
    *,
    format: str = "csv",
    force: bool = False,
    finished: Callable[[Path], object] = lambda work: None,
) -> None:
    """Write a release to a new folder, whole or not at all.

    `finished` sees where all files lie aside, just before they are put under the folder's name.

    >>> import allbutone as abo
    >>> release = abo.NIWSynthesizer().fit(abo.demo_cohort()).sample_parameters(2)
    >>> abo.save_release(release, "release")  # release/parameters.json and release/release.json
    """
    if isinstance(release, PrivateRelease):
        with _release_folder(folder, force, finished) as work:
            sizes = write_datasets(work, _blocks(release), release.rows, release.columns, format)
            write_json(work / MANIFEST, {"made_by": MADE_BY} | release.entries() | sizes)
        return
    if release.columns is None or release.prior is None:
        raise InputError(
            "a release is saved with its mechanism, and this one has none",
            "give it columns and the prior it was made with",
        )
    with _release_folder(folder, force, finished) as work:
        if isinstance(release, Release):
            write_mixed(release, work, format)
        else:
            _write_release(release, work, format)


def _write_release(release: PlainRelease, work: Path, format: str) -> None:
    assert release.columns is not None
    assert release.prior is not None
    if release.datasets:
        public = described("datasets", release.columns, release.prior, release.schema)
        sizes = write_datasets(work, _blocks(release), release.rows, release.columns, format)
        write_json(work / MANIFEST, public | sizes)
    if isinstance(release, ParameterRelease):
        _write_parameters(work, release)


def synthesize_to_folder(
    posterior: NIW,
    rows: Sequence[int],
    rng: np.random.Generator,
    folder: str | Path,
    *,
    columns: tuple[str, ...],
    prior: NIW,
    schema: Schema | None = None,
    format: str = "csv",
    force: bool = False,
    watch: Callable[[np.ndarray, np.ndarray], None] = lambda drawn, block: None,
    finished: Callable[[Path], object] = lambda work: None,
) -> None:
    """Draw datasets and write them block by block; no dataset is ever held whole.

    `watch` sees each block as the model drew it, in natural units, and as it was written; `finished` as for
    `save_release`.
    """
    declared = (schema or Schema()).for_columns(columns)

    def released() -> Iterator[tuple[int, np.ndarray]]:
        for number, drawn in stream_datasets(posterior, rows, rng):
            block = declared.released(drawn)
            yield number, block
            watch(declared.to_natural(drawn), block)

    with _release_folder(folder, force, finished) as work:
        count_of("datasets", len(rows), MOST_DATASETS)
        _require_space(work, sum(rows) * posterior.p * BYTES_PER_VALUE.get(format, 0))
        sizes = write_datasets(work, released(), rows, columns, format)
        write_json(work / MANIFEST, described("datasets", columns, prior, declared) | sizes)


@contextmanager
def _release_folder(folder: str | Path, force: bool, finished: Callable[[Path], object]) -> Iterator[Path]:
    """Yield a folder to write into; it is let go of only if it holds nothing but a release."""
    from allbutone.releases.check import require_clean

    with fresh_folder(Path(folder), ours=is_release, force=force, finished=finished) as work:
        yield work
        require_clean(work)


def _blocks(release: PlainRelease | PrivateRelease) -> Iterator[tuple[int, np.ndarray]]:
    """Yield (dataset number, block of its rows) as `stream_datasets` does, so that the files are the same."""
    room = rows_at_once(release.p)
    for number, dataset in enumerate(release.datasets):
        for start in range(0, len(dataset), room):
            yield number, np.asarray(dataset[start : start + room])


def load_release(folder: str | Path) -> PlainRelease | Release | PrivateRelease:
    """Read a release back from its folder.

    >>> import allbutone as abo
    >>> abo.save_release(abo.NIWSynthesizer().fit(abo.demo_cohort()).sample(datasets=2), "release")
    >>> abo.load_release("release")
    DatasetRelease: 2 datasets of 503 rows, columns T2D, CAD, HT, BMI, HBA1C
    """
    folder = Path(folder)
    restore_replaced(folder)
    manifest = read_json(folder / MANIFEST)
    try:
        if manifest.get("model") == MODEL:
            return read_mixed(folder, manifest)
        if manifest.get("model") == PRIVATE:
            return _load_private(folder, manifest)
        columns = tuple(manifest["columns"])
        if not all(isinstance(name, str) for name in columns):
            raise TypeError("columns must be text")
        prior = prior_from(manifest["prior"], columns)
        schema = Schema.of_entries({"columns": manifest.get("declared", {})}, MANIFEST)
        kind = manifest["release"]
        if kind not in ("datasets", "parameters", "both"):
            raise ValueError(f"unknown release {kind!r}")
        means, covariances = ([], []) if kind == "datasets" else _load_parameters(folder)
        names = [name for name in manifest["files"] if name != PARAMETERS]
        parts = files_of_datasets(names, {"rows": []} if kind == "parameters" else manifest)
    except InputError:
        raise
    except NOT_AS_WRITTEN as error:
        raise InputError(
            f"not the description of a release: {error!r:.200}", where=str(folder / MANIFEST)
        ) from error
    datasets = [read_dataset(folder, files, rows, columns, MANIFEST) for files, rows in parts]
    if kind == "datasets":
        return DatasetRelease(datasets, columns, prior, schema)
    return ParameterRelease(means, covariances, columns, prior, datasets, schema)


def load_unguaranteed(folder: str | Path) -> PlainRelease | Release:
    """Read a release that has no guarantee; one with it has another mechanism, which only some can take."""
    release = load_release(folder)
    if isinstance(release, PrivateRelease):
        raise InputError("the release was made with a guarantee, which this does not take", "use risk or fidelity")
    return release


def private_release_of(given: Any) -> PrivateRelease | None:
    """Return a release with a guarantee, or that of a folder; None for any other."""
    if isinstance(given, str | Path) and read_json(Path(given) / MANIFEST).get("model") == PRIVATE:
        given = load_release(given)
    return given if isinstance(given, PrivateRelease) else None


def _load_private(folder: Path, manifest: dict[str, Any]) -> PrivateRelease:
    columns, parts = tuple(manifest["columns"]), files_of_datasets(manifest["files"], manifest)
    datasets = [read_dataset(folder, names, rows, columns, MANIFEST) for names, rows in parts]
    return PrivateRelease.from_entries(manifest, datasets, str(folder / MANIFEST))


def _load_parameters(folder: Path) -> tuple[list[Any], list[Any]]:
    draws = read_json(folder / PARAMETERS)["draws"]
    return [draw["mean"] for draw in draws], [draw["covariance"] for draw in draws]


def release_of(given: AnyRelease) -> Released:
    """Return a release as it is, or that of a folder; several in a list as one. One with categories is refused."""
    return without_categories(any_release_of(given))


def load_measurements(folder: str | Path) -> PlainRelease:
    """Read a release of measurements from its folder; one with categories is refused."""
    return without_categories(load_unguaranteed(folder))


def without_categories(release: Any) -> Any:
    """Return a release of measurements as it is; one with categories is refused."""
    if isinstance(release, Release):
        raise InputError(
            "the release is of a table with categories or kept columns, which this does not take",
            "use risk, fidelity or report",
        )
    return release


def any_release_of(given: AnyRelease) -> Released | Release:
    """Return a release of any kind as it is, or that of a folder; several in a list as one."""
    if isinstance(given, list | tuple):
        every = [any_release_of(each) for each in given]
        mixed = [each for each in every if isinstance(each, Release)]
        if mixed and len(mixed) < len(every):
            raise InputError(
                "some of the releases are of a table with categories, some are not", "take them apart"
            )
        return (
            join_mixed(mixed)
            if mixed
            else join_releases([each for each in every if not isinstance(each, Release)])
        )
    return load_unguaranteed(given) if isinstance(given, str | Path) else given  # type: ignore[return-value]


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


def _write_parameters(work: Path, release: ParameterRelease) -> None:
    assert release.columns is not None
    assert release.prior is not None
    pairs = zip(np.asarray(release.means), np.asarray(release.covariances), strict=True)
    draws = ({"mean": mean.tolist(), "covariance": covariance.tolist()} for mean, covariance in pairs)
    with (work / PARAMETERS).open("w", encoding="utf-8") as file:
        file.writelines(parameters_text(release.columns, draws))
    # beside the datasets drawn from them, whose description is there already
    besides = read_json(work / MANIFEST) if release.datasets else {"files": []}
    kind = "both" if release.datasets else "parameters"
    manifest = besides | described(kind, release.columns, release.prior, release.schema)
    files = [*besides["files"], PARAMETERS]
    write_json(work / MANIFEST, manifest | {"draws": release.draws, "files": files})


# The synthetic tables of any release, as they are analysed: measurements and categories, side by side.


@dataclass(frozen=True, eq=False)
class SyntheticTables:
    """Measurements and categories of every synthetic table, with the names they share; schema: of the columns.

    order: all names in the table's own order; None where the release has no names.
    mixed: whether the release is of a kind that takes categories and gaps.
    """

    values: tuple[Float[np.ndarray, "_ p"], ...]
    categories: tuple[Categories, ...]
    columns: tuple[str, ...]
    order: tuple[str, ...] | None
    schema: Schema
    mixed: bool

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
    if isinstance(release, str | Path):
        release = load_release(release)
    if isinstance(release, PrivateRelease):
        release = release.synthetic
    release = any_release_of(release) if isinstance(release, list | tuple) else release
    if hasattr(release, "tables"):  # measurements and categories
        if not release.tables:
            raise InputError(
                "parameters alone were released, and no datasets to compare or to estimate from",
                Cure("release datasets, too (sample)", "parameters", True),
            )
        values = tuple(each.values if on_model_scale else each.natural for each in release.tables)
        categories = tuple(each.categories for each in release.tables)
        return SyntheticTables(values, categories, release.columns, release.order, release.schema, mixed=True)
    release = datasets_of(release)
    arrays = release.modelled if on_model_scale else release.datasets
    values = tuple(np.asarray(each, dtype=np.float64) for each in arrays)
    none = tuple(Categories.none(len(each)) for each in values)
    return SyntheticTables(values, none, release.column_names, release.columns, release.schema, mixed=False)
