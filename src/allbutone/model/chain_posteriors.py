"""The model's posterior given each chain's completed table, for all chains at once, and a draw from each."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from allbutone.model.incomplete import LEAST_SHARE
from allbutone.model.location import LocationModel, Parameters
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.model.regression import Regression
from allbutone.support.arrays import half_log_det


@dataclass(frozen=True, eq=False)
class ChainPosteriors:
    """What each chain knows: the cells' `weights`, and of the measurements what `LocationModel` holds.

    That is a `BatchedRegression`, or, where cells are separate, an `NIW` with chains and cells as its batch axes.
    """

    weights: Float[np.ndarray, "chains cells"]
    measured: "BatchedRegression | NIW"

    @classmethod
    def of(
        cls,
        prior: LocationModel,
        cells: Int[np.ndarray, "chains n"],
        values: Float[np.ndarray, "chains n p"],
        covariates: Float[np.ndarray, "n s"],
    ) -> "ChainPosteriors":
        """Return what `prior.update` gives for each chain's table."""
        chains, count = len(cells), prior.cells.count
        places = (cells + count * np.arange(chains)[:, None]).ravel()
        counts = np.bincount(places, minlength=chains * count).reshape(chains, count).astype(float)
        weights = prior.weights + counts
        if isinstance(prior.measured, Regression) and prior.covariates:
            coded = np.stack([prior.coded(each, covariates) for each in cells])
            return cls(weights, BatchedRegression.of(prior.measured, coded, values, 0.0, values.shape[1]))
        flat = values.reshape(-1, prior.p)
        sums = [np.bincount(places, column, counts.size) for column in flat.T]
        means = np.stack(sums, axis=1) / np.maximum(counts.reshape(-1, 1), 1.0)
        away, means = flat - means[places], means.reshape(chains, count, prior.p)
        if not isinstance(prior.measured, Regression):
            return cls(
                weights, prior.measured.update(Moments(counts, means, _scatters(away, places, counts.shape)))
            )
        # √n_c·x̄_c given √n_c·z_c says of B what n_c records say; what varies within cells goes to Σ alone
        away = away.reshape(values.shape)
        within, weight = away.swapaxes(1, 2) @ away, np.sqrt(counts)[..., None]
        coded = weight * prior.cells.main_effects
        return cls(weights, BatchedRegression.of(prior.measured, coded, weight * means, within, values.shape[1]))

    def draw(self, rng: np.random.Generator) -> Parameters:
        """Draw each chain's parameters."""
        gammas = np.maximum(rng.standard_gamma(self.weights), LEAST_SHARE)
        if isinstance(self.measured, NIW):
            means, covariances = self.measured.draw(rng, 1)
            drawn = means[0], covariances[0]
        else:
            drawn = self.measured.draw(rng)
        return Parameters(gammas / gammas.sum(axis=1, keepdims=True), *drawn)

    @property
    def log_spread(self) -> Float[np.ndarray, " chains"]:
        """½·log|Λ|, of all cells together."""
        spread = half_log_det(np.linalg.cholesky(self.measured.scale))
        return spread if spread.ndim == 1 else np.sum(spread, axis=-1)


@dataclass(frozen=True, eq=False)
class BatchedRegression:
    """Posteriors of one regression given the tables of many chains; the fields are those of `Regression`."""

    coefficients: Float[np.ndarray, "chains r p"]
    root: Float[np.ndarray, "chains r r"]
    df: float
    scale: Float[np.ndarray, "chains p p"]

    @classmethod
    def of(
        cls,
        prior: Regression,
        coded: Float[np.ndarray, "chains rows r"],
        values: Float[np.ndarray, "chains rows p"],
        within: Any,
        n: int,
    ) -> "BatchedRegression":
        """Return what `Regression.update` gives for each chain; `within`: scatter that the rows do not hold."""
        start = np.broadcast_to(prior.root, (len(coded), *prior.root.shape))
        rows = np.concatenate([start, coded], axis=1)
        targets = np.concatenate([start @ prior.coefficients, values], axis=1)
        basis, root = np.linalg.qr(rows)
        coefficients = np.linalg.solve(root, basis.swapaxes(1, 2) @ targets)
        left = targets - rows @ coefficients
        return cls(coefficients, root, prior.df + n, prior.scale + within + left.swapaxes(1, 2) @ left)

    def draw(
        self, rng: np.random.Generator
    ) -> tuple[Float[np.ndarray, "chains r p"], Float[np.ndarray, "chains 1 p p"]]:
        """Draw (B, Σ) for each chain: with Σ = FFᵀ, B = B₀ + R⁻¹·N(0, I)·Fᵀ."""
        chains, _, p = self.coefficients.shape
        _, found = NIW(np.zeros((chains, p)), 1.0, self.df, self.scale).draw_roots(rng, 1)
        turned = found[0].swapaxes(-1, -2)
        white = np.linalg.solve(self.root, rng.standard_normal(self.coefficients.shape))
        return self.coefficients + white @ turned, (found[0] @ turned)[:, None]


def _scatters(
    away: Float[np.ndarray, "all p"], places: Int[np.ndarray, " all"], shape: tuple[int, ...]
) -> Float[np.ndarray, "chains cells p p"]:
    """Return the scatter of each place, from how far each record is from its place's mean."""
    p, count = away.shape[1], shape[0] * shape[1]
    found = np.empty((count, p, p))
    for one in range(p):
        for two in range(one + 1):
            found[:, one, two] = found[:, two, one] = np.bincount(places, away[:, one] * away[:, two], count)
    return found.reshape(*shape, p, p)
