"""A release as a folder: written, read back, and its synthetic tables as they are analysed."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from allbutone.model.location import Parameters
from allbutone.model.niw import NIW
from allbutone.releases.description import (
    BYTES_PER_VALUE,
    MADE_BY,
    MANIFEST,
    PARAMETERS,
    described,
    files_of_datasets,
    parameters_from,
    parameters_text,
    read_json,
    shapes_of_parameters,
    write_datasets,
    write_json,
)
from allbutone.releases.mechanism import KEEP_GAPS, REFUSE, Mechanism
from allbutone.releases.private_release import MODEL as GUARANTEED
from allbutone.releases.private_release import guaranteed_entries, guaranteed_from, private_mechanism_of
from allbutone.releases.release import MOST_DATASETS, Release
from allbutone.releases.sampling import rows_at_once, stream_datasets
from allbutone.releases.several import Released, Releases, together
from allbutone.support.arrays import cholesky, require_symmetric
from allbutone.support.errors import Cure, InputError, count_of
from allbutone.tables.files import read_table
from allbutone.tables.records import Records
from allbutone.tables.safe_io import NOT_AS_WRITTEN, fresh_folder, require_free, restore_replaced

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
    if not release.mechanism.says_its_prior and release.noisy is None:
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
    if release.tables or not mechanism.is_normal:
        sizes = write_datasets(work, _blocks(release), release.rows, mechanism, format)
    if not mechanism.is_normal:
        sizes["datasets"] = len(release.datasets)  # those that come with their parameters say nothing more
    if release.parameters is not None:
        with (work / PARAMETERS).open("w", encoding="utf-8") as file:
            file.writelines(parameters_text(mechanism, release.parameters, general=not mechanism.is_normal))
        sizes |= {"draws": release.draws, "files": [*sizes["files"], PARAMETERS]}
    if release.noisy is None:
        kind = "datasets" if release.parameters is None else "both" if release.tables else "parameters"
        public = described(kind, mechanism)
    else:
        public = {"made_by": MADE_BY} | guaranteed_entries(release.noisy, mechanism.missing)
    write_json(work / MANIFEST, public | sizes)


def _blocks(release: Release) -> Iterator[tuple[int, Any]]:
    """Yield (dataset number, block of its rows) as `stream_datasets` does, so that the files are the same."""
    room = rows_at_once(release.p)
    for number, dataset in enumerate(release.tables):
        if release.mechanism.is_normal:
            for start in range(0, len(dataset.natural), room):
                yield number, _as_written(release.mechanism, dataset.natural[start : start + room], start)
        else:  # levels by name
            yield number, dataset.to_frame("pyarrow", released=True).replace_schema_metadata(None)


def _as_written(mechanism: Mechanism, block: np.ndarray, before: int) -> Any:
    """Return measurements as they are written: dates as such, with what is computed, and a row a visit.

    before: how many people of the dataset came in earlier blocks.
    """
    if not mechanism.writes_arrow:
        return block
    table = mechanism.table(block)
    vars(table)["rows"] = table.rows + before  # which number the people of a long table
    return table.to_frame("pyarrow").replace_schema_metadata(None)


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
    declared = mechanism.schema

    def released() -> Iterator[tuple[int, np.ndarray]]:
        written = [0] * len(rows)
        for number, drawn in stream_datasets(posterior, rows, rng):
            block = declared.released(drawn)
            yield number, _as_written(mechanism, block, written[number])
            written[number] += len(block)
            watch(declared.to_natural(drawn), block)

    with _release_folder(folder, force, finished) as work:
        count_of("datasets", len(rows), MOST_DATASETS)
        _require_space(work, sum(rows) * posterior.p * BYTES_PER_VALUE.get(format, 0))
        sizes = write_datasets(work, released(), rows, mechanism, format)
        write_json(work / MANIFEST, described("datasets", mechanism) | sizes)


@contextmanager
def _release_folder(folder: str | Path, force: bool, finished: Callable[[Path], object]) -> Iterator[Path]:
    """Yield a folder to write into; it is let go of only if it holds nothing but a release."""
    from allbutone.releases.check import require_clean

    with fresh_folder(Path(folder), ours=is_release, force=force, finished=finished) as work:
        yield work
        require_clean(work)


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
    moments = None
    try:
        if manifest["release"] not in KINDS:
            raise ValueError(f"unknown release {manifest['release']!r}")
        if manifest.get("model") == GUARANTEED:
            moments = guaranteed_from(manifest, str(folder / MANIFEST))
            mechanism = private_mechanism_of(moments.ball.schema, manifest.get("missing", REFUSE))
        else:
            mechanism = Mechanism.of_entries(manifest, MANIFEST)
        parts = files_of_datasets(manifest)
        parameters = None
        if manifest["release"] != "datasets":
            if mechanism.has_classes:
                raise InputError("parameters of classes are not released", where=str(folder / MANIFEST))
            parameters = parameters_from(read_json(folder / PARAMETERS))
        # of measurements alone, datasets that come with parameters were all drawn from these
        apart = int(manifest["datasets"]) if "model" in manifest else len(parts) if parameters is None else 0
    except InputError:
        raise
    except NOT_AS_WRITTEN as error:
        raise InputError(
            f"not the description of a release: {error!r:.200}", where=str(folder / MANIFEST)
        ) from error
    if parameters is not None:
        _check_parameters(parameters, mechanism)
    tables = [_read_dataset(folder, files, rows, mechanism) for files, rows in parts]
    return Release(mechanism, tuple(tables[:apart]), parameters, tuple(tables[apart:]), moments)


def _read_dataset(folder: Path, names: Sequence[Any], rows: Any, mechanism: Mechanism) -> Records:
    """Read the parts of one dataset, which must be what the description says."""
    import pyarrow as pa

    if outside := [name for name in names if not isinstance(name, str) or Path(name).name != name]:
        raise InputError(f"names a file outside its folder: {outside[0]!r:.60}", where=str(folder / MANIFEST))
    parts = [read_table(folder / name, delimiter=",") for name in names]
    content = pa.concat_tables(parts) if len(parts) > 1 else parts[0]
    schema, found = mechanism.schema, content.num_rows
    # in a long table each person may have several rows
    fits = content.column_names == list(schema.file_columns) and (schema.visits is not None or found == rows)
    if fits:
        table = Records.of_synthetic(content, schema, gaps=mechanism.missing == KEEP_GAPS)
        found = len(table.values)
    if not fits or found != rows:
        raise InputError(
            f"{folder / names[0]} holds {found} rows of {', '.join(content.column_names)}; {MANIFEST} "
            f"says {rows} rows of {', '.join(schema.file_columns)}"
        )
    return table


def _check_parameters(parameters: Parameters, mechanism: Mechanism) -> None:
    shapes = [each.shape for each in vars(parameters).values()]
    if shapes != shapes_of_parameters(mechanism, len(parameters)) or not all(
        np.all(np.isfinite(each)) for each in vars(parameters).values()
    ):
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


def with_tables(given: AnyRelease) -> Release:
    """Return a release whose synthetic tables can be compared or estimated from."""
    release = release_of(given)
    if isinstance(release, Releases):
        raise InputError(
            "the releases were made with different priors", "compare, or estimate from, one at a time"
        )
    if not release.tables:
        raise InputError(
            "parameters alone were released, and no datasets to compare or to estimate from",
            Cure("release datasets, too (sample)", "parameters", True),
        )
    return release
