"""A simulated release that moves smoothly with what it is drawn from, so that it can be followed by a slider."""

from typing import Any

import numpy as np
from scipy.special import gammaincinv

from allbutone.model.niw import NIW
from allbutone.releases.release import DatasetRelease, ParameterRelease, PlainRelease
from allbutone.support.checks import count_of

MOST = 100  # datasets, or parameter draws, that a simulated release holds, unless more are asked for


class _Steady(np.random.Generator):
    """A generator that draws χ² by inverting its distribution function: they move as their df moves."""

    def chisquare(self, df: Any, size: Any = None) -> Any:
        return 2 * gammaincinv(np.asarray(df) / 2, self.random(size))


def steady_release(whole: NIW, rows: int | None, most: int, seed: int, prior: NIW) -> PlainRelease:
    """Draw a release of which every part moves smoothly with the posterior; a longer one begins as a shorter."""
    sizes = [min(MOST, most - begun) for begun in range(0, most, MOST)]
    means, roots = (
        np.concatenate(each)
        for each in zip(
            *(whole.draw_roots(_Steady(_stream(seed, 1, block)), size) for block, size in enumerate(sizes)),
            strict=True,
        )
    )
    if rows is None:
        return ParameterRelease(means, roots @ roots.swapaxes(1, 2), prior=prior)
    # rows lead: those of a smaller dataset are the first of a larger one
    rows = count_of("rows", rows)
    noise = [
        np.random.Generator(_stream(seed, 2, block)).standard_normal((rows, size, whole.p))
        for block, size in enumerate(sizes)
    ]
    drawn = means[:, None, :] + np.concatenate(noise, axis=1).swapaxes(0, 1) @ roots.swapaxes(1, 2)
    return DatasetRelease.of_array(drawn, prior=prior)


def _stream(seed: int, stream: int, block: int) -> np.random.PCG64:
    """Return the random numbers of one block of MOST datasets: a longer release begins as a shorter one does."""
    return np.random.PCG64([seed, stream, block] if block else [seed, stream])
