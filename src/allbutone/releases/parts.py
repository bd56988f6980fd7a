"""Releases of several parts: datasets with their parameters, and what there is of a release in some columns."""

from collections.abc import Sequence

import numpy as np

from allbutone.model.niw import NIW
from allbutone.releases.release import DatasetRelease, ParameterRelease, Release
from allbutone.releases.sampling import draw_datasets
from allbutone.support.errors import Cure, InputError
from allbutone.tables.schema import Schema


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
    declared = (schema or Schema()).for_columns(columns or [f"x{place + 1}" for place in range(posterior.p)])
    released = [declared.released(drawn) for drawn in datasets]
    return ParameterRelease(means, roots @ roots.swapaxes(-1, -2), columns, prior, released, declared)


def datasets_of(release: Release) -> DatasetRelease:
    """Return the datasets of a release alone; refuse one that has none."""
    if isinstance(release, DatasetRelease):
        return release
    if not release.datasets:
        raise InputError(
            "parameters alone were released, and no datasets to compare or to estimate from",
            Cure("release datasets, too (sample)", "parameters", True),
        )
    return DatasetRelease(release.datasets, release.columns, release.prior, release.schema)
