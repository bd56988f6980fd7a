"""The landscapes of a study: one simulated table, ever more of it released."""

from collections.abc import Sequence

import numpy as np

from allbutone.adversary.build import log_posterior
from allbutone.adversary.modes import find_modes
from allbutone.model.niw import NIW
from allbutone.record_view.landscape import Landscape, landscape, spans_of
from allbutone.releases.release import DatasetRelease, ParameterRelease, PlainRelease
from allbutone.studies.design import Cell

COUNTS = (1, 2, 3, 5, 10, 100)  # the paper's panels


def study_landscapes(cell: Cell, counts: Sequence[int] = COUNTS, seed: int = 1, size: int = 90) -> list[Landscape]:
    """Simulate one table of the cell and release ever more of it; return the landscape after each count.

    Releases are nested: a smaller one is the beginning of the largest. Cells that differ in what is released
    have the same table at the same seed.
    """
    rng = np.random.default_rng(seed)
    root = np.linalg.cholesky(np.array(cell.covariance))
    others = np.array(cell.mean) + rng.standard_normal((cell.n - 1, cell.p)) @ root.T
    prior = cell.prior_of(cell.prior)
    own = None if cell.adversary_prior is None else cell.prior_of(cell.adversary_prior)
    given_others = prior.update(others)
    target = cell.targets(
        NIW(given_others.mean[None], given_others.mean_weight, given_others.df, given_others.scale)
    )[0]
    whole = given_others.update(target[None])
    release: PlainRelease
    if cell.rows is None:
        release = ParameterRelease.draw(whole, max(counts), rng)
    else:
        release = DatasetRelease.draw(whole, [cell.rows] * max(counts), rng)
    found = [
        log_posterior(others, release.first(count), prior, adversary_prior=own, reading=cell.reading)
        for count in counts
    ]
    modes = [find_modes(each) for each in found]
    peaks = [each.unwhiten(at) for each, m in zip(found, modes, strict=True) for at in (m.best, m.other)]
    spans = spans_of(others[:, :2], target[:2], np.array(peaks)[:, :2])
    return [
        landscape(each, others, target, size=size, spans=spans, modes=at)
        for each, at in zip(found, modes, strict=True)
    ]
