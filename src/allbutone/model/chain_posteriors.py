"""The model's posterior given each chain's completed table, for all chains at once, and a draw from each."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from allbutone.model.location import LocationModel, MixedParameters, MixedRecords
from allbutone.model.niw import NIW
from allbutone.model.regression import Regression
from allbutone.support.arrays import half_log_det


@dataclass(frozen=True, eq=False)
class ChainPosteriors:
    """What each chain knows: the cells' `weights`, and the regression of `LocationModel`, or each cell's normal.

    The fields are those of `Regression` with the chains as a leading axis; of separate cells (`own`) only the
    scales are here.
    """

    weights: Float[np.ndarray, "chains cells"]
    scales: Float[np.ndarray, "chains own p p"]
    df: float
    coefficients: Float[np.ndarray, "chains r p"] | None
    roots: Float[np.ndarray, "chains r r"] | None
    own: tuple[LocationModel, ...]

    @classmethod
    def of(
        cls,
        prior: LocationModel,
        cells: Int[np.ndarray, "chains n"],
        values: Float[np.ndarray, "chains n p"],
        covariates: Float[np.ndarray, "n s"],
    ) -> "ChainPosteriors":
        """Return what `prior.update` gives for each chain's table."""
        if not isinstance(prior.measured, Regression):
            each = tuple(
                prior.update(MixedRecords(*table, covariates)) for table in zip(cells, values, strict=True)
            )
            weights, scales = (
                np.stack([one.weights for one in each]),
                np.stack([one.measured.scale for one in each]),
            )
            return cls(weights, scales, 0.0, None, None, each)
        chains, n = cells.shape
        places = cells + prior.cells.count * np.arange(chains)[:, None]
        counts = (
            np.bincount(places.ravel(), minlength=chains * prior.cells.count).reshape(chains, -1).astype(float)
        )
        if prior.covariates:
            coded = np.stack([prior.coded(each, covariates) for each in cells])
            measured = _regressions(prior.measured, coded, values, np.zeros((prior.p, prior.p)))
        else:
            measured = _by_cell_means(prior, prior.measured, places, counts, values)
        return cls(prior.weights + counts, measured[2][:, None], prior.measured.df + n, *measured[:2], ())

    def draw(self, rng: np.random.Generator) -> MixedParameters:
        """Draw each chain's parameters: with Σ = FFᵀ, B = B₀ + R⁻¹·N(0, I)·Fᵀ."""
        if self.coefficients is None or self.roots is None:
            drawn = [one.draw(rng, 1) for one in self.own]
            names = MixedParameters.__dataclass_fields__
            return MixedParameters(*(np.concatenate([getattr(one, name) for one in drawn]) for name in names))
        gammas = np.maximum(rng.standard_gamma(self.weights), 1e-300)
        scale, p = self.scales[:, 0], self.scales.shape[-1]
        _, found = NIW(np.zeros((len(scale), p)), 1.0, self.df, scale).draw_roots(rng, 1)
        roots = found[0]
        white = np.linalg.solve(self.roots, rng.standard_normal(self.coefficients.shape))
        return MixedParameters(
            gammas / gammas.sum(axis=1, keepdims=True),
            self.coefficients + white @ roots.swapaxes(-1, -2),
            (roots @ roots.swapaxes(-1, -2))[:, None],
        )

    @property
    def log_spread(self) -> Float[np.ndarray, " chains"]:
        """½·log|Λ|, of all cells together."""
        return np.sum(half_log_det(np.linalg.cholesky(self.scales)), axis=-1)


def _by_cell_means(
    prior: LocationModel,
    measured: Regression,
    places: Int[np.ndarray, "chains n"],
    counts: Float[np.ndarray, "chains cells"],
    values: Float[np.ndarray, "chains n p"],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the posteriors by way of each cell's mean, which is all that B sees of its records.

    √n_c·x̄_c given √n_c·z_c says of B what n_c records say; what varies within cells goes to Σ alone.
    """
    chains, n, p = values.shape
    flat = values.reshape(-1, p)
    sums = [np.bincount(places.ravel(), column, counts.size) for column in flat.T]
    means = np.stack(sums, axis=1) / np.maximum(counts.reshape(-1, 1), 1.0)
    away = (flat - means[places.ravel()]).reshape(chains, n, p)
    within, weight = away.swapaxes(1, 2) @ away, np.sqrt(counts)[..., None]
    return _regressions(measured, weight * prior.cells.main_effects, weight * means.reshape(chains, -1, p), within)


def _regressions(
    measured: Regression,
    coded: Float[np.ndarray, "chains rows r"],
    values: Float[np.ndarray, "chains rows p"],
    within: Float[np.ndarray, "*chains p p"],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return coefficients, roots and scales as `Regression.update` does, for all chains at once."""
    chains = len(coded)
    start = np.broadcast_to(measured.root, (chains, *measured.root.shape))
    rows = np.concatenate([start, coded], axis=1)
    targets = np.concatenate([start @ measured.coefficients, values], axis=1)
    basis, roots = np.linalg.qr(rows)
    coefficients = np.linalg.solve(roots, basis.swapaxes(1, 2) @ targets)
    left = targets - rows @ coefficients
    return coefficients, roots, measured.scale + within + left.swapaxes(1, 2) @ left
