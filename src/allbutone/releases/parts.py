"""Releases of several parts: datasets with their parameters, and what there is of a release in some columns."""

from collections.abc import Sequence
from typing import Any, TypeVar, cast

import numpy as np
from array_api_compat import device

from allbutone.model.niw import NIW
from allbutone.releases.gate import column_names
from allbutone.releases.joined import JoinedRelease, OfFewer, Released, ReleasesByPrior
from allbutone.releases.release import DatasetRelease, ParameterRelease
from allbutone.releases.sampling import draw_datasets
from allbutone.support.arrays import array_namespace
from allbutone.support.errors import Cure, InputError
from allbutone.tables.declared.schema import Schema

AReleased = TypeVar("AReleased", bound=Released)  # of the same kind as what it was made from


def draw_both(
    posterior: NIW,
    rows: Sequence[int],
    rng: np.random.Generator,
    *,
    columns: tuple[str, ...] | None = None,
    prior: NIW | None = None,
    schema: Schema | None = None,
) -> ParameterRelease:
    """Draw (μ*, Σ*) and a dataset from each: all that Algorithm 1 returns.

    The same generator gives `DatasetRelease.draw` the same datasets.
    """
    datasets, means, roots = draw_datasets(posterior, rows, rng)
    declared = (schema or Schema()).for_columns(column_names(columns, posterior.p))
    released = [declared.released(drawn) for drawn in datasets]
    return ParameterRelease(means, roots @ roots.swapaxes(-1, -2), columns, prior, released, declared)


def datasets_of(release: Released) -> DatasetRelease:
    """Return the datasets of a release alone; refuse one that has none."""
    if isinstance(release, DatasetRelease):
        return release
    if isinstance(release, JoinedRelease):
        return release.synthetic
    if isinstance(release, ReleasesByPrior):
        raise InputError(
            "the releases were made with different priors", "compare, or estimate from, one at a time"
        )
    if not release.datasets:
        raise InputError(
            "parameters alone were released, and no datasets to compare or to estimate from",
            Cure("release datasets, too (sample)", "parameters", True),
        )
    return DatasetRelease(release.datasets, release.columns, release.prior, release.schema)


def known_columns(names: Sequence[str], lacking: str | Sequence[str]) -> list[int]:
    """Return the positions of the columns that an adversary has who lacks some."""
    lacking = (lacking,) if isinstance(lacking, str) else tuple(lacking)
    for name in lacking:
        if name not in names:
            raise InputError(f"there is no column {name!r} to lack", f"the columns are {', '.join(names)}")
    kept = [place for place, name in enumerate(names) if name not in lacking]
    if not kept:
        raise InputError("the adversary lacks every column", Cure("leave one out", "lacking_columns"))
    return kept


def without_columns(release: AReleased, lacking: str | Sequence[str]) -> AReleased:
    """Return what an adversary can use of a release who lacks these columns of everyone, the target's included.

    The rest of the columns of every draw or dataset is exactly a release of the rest of the columns of the table,
    made with the prior's marginal (`NIW.marginal`), which the result holds: `attack`, `posterior` and all others
    take it as any release, and are exact given the rest. The columns left out would say a little more.

    >>> import allbutone as abo
    >>> cohort = abo.demo_cohort()
    >>> release = abo.NIWSynthesizer().fit(cohort).sample(datasets=2)
    >>> abo.without_columns(release, ["BMI"]).columns
    ('T2D', 'CAD', 'HT', 'HBA1C')
    """
    kept = known_columns(release.column_names, lacking)
    return release if len(kept) == release.p else in_columns(release, kept)


def in_columns(release: AReleased, kept: Sequence[int]) -> AReleased:
    """Return what a release says of some of its columns (positions)."""
    found: Released
    if isinstance(release, JoinedRelease):
        found = JoinedRelease(in_columns(release.first, kept), in_columns(release.synthetic, kept))
        return cast("AReleased", found)
    if isinstance(release, ReleasesByPrior):
        rest = tuple(
            OfFewer(in_columns(part.first, kept), part.people)
            if isinstance(part, OfFewer)
            else in_columns(part, kept)
            for part in release.rest
        )
        return cast("AReleased", ReleasesByPrior(in_columns(release.first, kept), rest))
    names = tuple(release.column_names[place] for place in kept)
    prior = None if release.prior is None else release.prior.marginal(kept)
    datasets = [_some(data, kept) for data in release.datasets]
    if isinstance(release, DatasetRelease):
        found = DatasetRelease(datasets, names, prior, release.schema)
        if release.is_as_drawn:
            found = found.as_if_drawn([_some(data, kept) for data in release.modelled])
    else:
        block = _some(array_namespace(release.means).matrix_transpose(_some(release.covariances, kept)), kept)
        found = ParameterRelease(_some(release.means, kept), block, names, prior, datasets, release.schema)
    return cast("AReleased", found)


def _some(array: Any, columns: Sequence[int]) -> Any:
    xp = array_namespace(array)
    return xp.take(array, xp.asarray(list(columns), device=device(array)), axis=-1)
