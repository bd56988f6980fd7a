"""What normal records were before they were brought into the public ball, by what is left of them inside."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import ndtri

from allbutone.model.location import Parameters
from allbutone.releases.public_ball import PublicBall, model_limits

# The noisy moments are those of records drawn back into the ball, which vary less than the people do. If people
# are normal within their cells, what drawing back does to effects and covariance is known. It is computed at fixed
# points, and undone: the next guess is what was found inside, changed by as much as the last guess differs from
# what drawing back would leave of it. All of it is computed from what has been told.


POINTS = 9  # 2⁹
ROUNDS = 12
CLOSE = 1e-4  # of a covariance, from one round to the next
LEAST = 1e-3  # of the largest variance: no direction has less
MOST_WIDER = 4.0  # times as large a variance at most: what is wider is hardly told by what is inside


@dataclass(frozen=True, eq=False)
class BeforeCut:
    """Undoes the ball, for records that are normal within cells."""

    ball: PublicBall

    def of(self, drawn: Parameters) -> Parameters:
        """Return the parameters before the cut of draws (means of all cells, one covariance) after it."""
        cut = [
            self._of_one(share, mean, covariance)
            for share, mean, (covariance,) in zip(*vars(drawn).values(), strict=True)
        ]
        means, covariances = (np.array(each) for each in zip(*cut, strict=True))
        return Parameters(drawn.shares, means, covariances[:, None])

    @cached_property
    def _points(self) -> tuple[Float[np.ndarray, "n p"], Float[np.ndarray, " n"]]:
        """Standard normal points, and a number between 0 and 1 for each, by which it falls into a cell."""
        from scipy.stats import qmc  # not above: it is slow to load

        points = qmc.Sobol(self.ball.p + 1, rng=np.random.default_rng(0)).random_base2(POINTS)
        points = np.clip(points, 1e-9, 1 - 1e-9)
        return ndtri(points[:, :-1]), points[:, -1]

    @cached_property
    def _limits(self) -> Float[np.ndarray, "p 2"]:
        ball = self.ball
        return (model_limits(ball.schema) - ball.centre[:, None]) / ball.unit[:, None]

    def _of_one(
        self,
        share: Float[np.ndarray, " cells"],
        mean: Float[np.ndarray, "cells p"],
        covariance: Float[np.ndarray, "p p"],
    ) -> tuple[Float[np.ndarray, "cells p"], Float[np.ndarray, "p p"]]:
        normal, place = self._points
        cells = np.minimum(np.searchsorted(np.cumsum(share), place), len(share) - 1)
        there, fits = self.ball.observed[cells], self._fits(cells)
        means, covariances, last = mean, covariance, covariance
        for _ in range(ROUNDS):
            values = means[cells] + normal @ np.linalg.cholesky(covariances).T
            inside = self.ball.shrunk(there * np.clip(values, self._limits[:, 0], self._limits[:, 1]))
            (shift, whole), (cut_shift, cut) = (
                self._fitted(each, cells, there, fits) for each in (values, inside)
            )
            # takes the root of what is inside to that of the whole
            stretch = np.linalg.solve(np.linalg.cholesky(cut).T, np.linalg.cholesky(whole).T).T
            covariances = stretch @ covariance @ stretch.T
            means = mean + shift - cut_shift
            if np.trace(covariances) > MOST_WIDER * np.trace(covariance):
                return means, covariances * MOST_WIDER * np.trace(covariance) / np.trace(covariances)
            if np.max(np.abs(covariances - last)) < CLOSE * np.max(np.abs(covariances)):
                break
            last = covariances
        return means, covariances

    def _fits(self, cells: Int[np.ndarray, " n"]) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Return, for columns that the same people have, these people, the columns, and what fits effects."""
        patterns, which = np.unique(self.ball.observed[cells], axis=1, return_inverse=True)
        codes = self.ball.codes[cells]
        return [
            (rows, which.ravel() == number, np.linalg.pinv(codes[rows])) for number, rows in enumerate(patterns.T)
        ]

    def _fitted(
        self,
        values: Float[np.ndarray, "n p"],
        cells: Int[np.ndarray, " n"],
        there: Bool[np.ndarray, "n p"],
        fits: Any,
    ) -> tuple[Float[np.ndarray, "cells p"], Float[np.ndarray, "p p"]]:
        """Return the means of all cells and the covariance around them, as what is observed tells them."""
        codes, effects = self.ball.codes[cells], np.empty((self.ball.codes.shape[1], values.shape[1]))
        for rows, some, fit in fits:
            effects[:, some] = fit @ values[rows][:, some]
        left = there * (values - codes @ effects)
        together = there.T.astype(float) @ there
        covariance = left.T @ left / np.maximum(together, 1.0)
        if len(fits) > 1:  # pairs of different people need not fit together
            lengths, axes = np.linalg.eigh(covariance)
            covariance = (axes * np.maximum(lengths, LEAST * lengths[-1])) @ axes.T
        return self.ball.codes @ effects, covariance
