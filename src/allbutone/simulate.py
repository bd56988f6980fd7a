"""Leverage is all there is: the exact distribution of a record's risk, simulated in whitened coordinates.

Whitened by the adversary's own Λ, the crowd is NIW(0, κ, ν, I) and the record lies at distance ‖u‖ = √(q/c) in
some direction, which by rotation may be the first axis. So given p, κ, ν and the sizes of the release, every
affine-invariant measure of risk has a distribution that depends on the leverage q alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from allbutone.adversary import from_datasets, from_parameters
from allbutone.exposure import Setting
from allbutone.logquadratic import LogQuadratic
from allbutone.maximize import find_modes
from allbutone.measures import exposure_of, information_gain, integrate_many, prior_mass, relative_error
from allbutone.moments import Moments
from allbutone.niw import NIW

POINTS = 128  # to integrate each posterior: its own noise is far below that between releases
AT_ONCE = 1 << 22  # numbers in the wells that are held at a time


@dataclass(frozen=True, eq=False)
class Simulated:
    """Measures of risk for each leverage of a grid, one column a replicate: shapes (leverages, replicates).

    The replicates are the same random numbers for every leverage, so that curves over leverage are smooth.
    """

    leverage: Float[np.ndarray, " q"]
    exposure: Float[np.ndarray, "q r"]
    relative_error: Float[np.ndarray, "q r"]
    gain: Float[np.ndarray, "q r"] | None = None
    mass_gained: Float[np.ndarray, "q r"] | None = None

    @property
    def right_mode(self) -> Float[np.ndarray, " q"]:
        """The share of replicates in which the guess lies on the record's side of the crowd."""
        return np.mean(self.exposure > 0, axis=1)


def simulate(
    setting: Setting,
    leverage: Float[np.ndarray, " q"],
    count: int,
    replicates: int,
    rng: np.random.Generator,
    radius: float | None = None,
    gain: bool = False,
) -> Simulated:
    """Attack `replicates` releases of `count` datasets (or draws), for a record of each leverage.

    With `gain` also the information gained; with a radius that and the mass gained within that Mahalanobis radius.
    """
    leverage = np.asarray(leverage, dtype=float)
    wells = 1 if setting.rows is None else count
    size = max(1, AT_ONCE // (wells * setting.p**2))
    parts = []
    for start in range(0, replicates, size):
        drawn = _Drawn.of(setting, count, min(size, replicates - start), rng)
        parts.append([_measure(setting, drawn, q, radius, gain, rng) for q in leverage])
    joined = [np.concatenate([part[row] for part in parts], axis=1) for row in range(len(leverage))]
    measures = np.stack(joined, axis=1)
    return Simulated(leverage, *measures)


def quantiles(
    setting: Setting,
    leverage: Float[np.ndarray, " n"],
    count: int,
    levels: Sequence[float] = (0.05, 0.5, 0.95),
    replicates: int = 400,
    rng: np.random.Generator | int | None = None,
) -> tuple[Float[np.ndarray, "levels n"], Float[np.ndarray, "levels n"]]:
    """Return quantiles of exposure and of relative error for every record, from one simulation on a grid.

    Thirty-two leverages from the lowest to the highest, the same random numbers for all, and a look-up a record.
    """
    grid = np.geomspace(np.min(leverage), np.max(leverage), 32)
    found = simulate(setting, grid, count, replicates, np.random.default_rng(rng))

    def look_up(measure: np.ndarray) -> np.ndarray:
        curves = np.quantile(measure, levels, axis=1)
        return np.stack([np.interp(np.log(leverage), np.log(grid), curve) for curve in curves])

    return look_up(found.exposure), look_up(found.relative_error)


@dataclass(frozen=True, eq=False)
class _Drawn:
    """The random part of a release, as it would be for a record of no leverage; stretched later along one axis."""

    count: int
    factor: Float[np.ndarray, "r p p"] | None = None  # Θ: A = TTᵀ ~ W(n_θν′, I)
    noise: Float[np.ndarray, "r p"] | None = None
    mean: Float[np.ndarray, "r k p"] | None = None  # Φ: z̄ and S of each dataset
    scatter: Float[np.ndarray, "r k p p"] | None = None

    @classmethod
    def of(cls, setting: Setting, count: int, replicates: int, rng: np.random.Generator) -> "_Drawn":
        """Draw sufficient statistics, not records.

        Released parameters are seen only through A ~ W(n_θν′, Λₓ⁻¹) and b | A ~ N(A·d/κ′, A/κ′): one Wishart and
        one normal draw replace n_θ of each.
        """
        p, weight, df = setting.p, setting.mean_weight + 1, setting.df + 1
        if setting.rows is None:
            factor = _bartlett(rng, (replicates,), p, count * df)
            noise = (factor @ rng.standard_normal((replicates, p, 1)))[..., 0] / np.sqrt(weight)
            return cls(count, factor, noise)
        rows, shape = setting.rows, (replicates, count)
        means, roots = NIW(np.zeros(p), weight, df, np.eye(p)).draw_roots(rng, replicates * count)
        means, roots = means.reshape(*shape, p), roots.reshape(*shape, p, p)
        white = rng.standard_normal((*shape, p, 1)) / np.sqrt(rows)
        if rows > p:
            spread = roots @ _bartlett(rng, shape, p, rows - 1)
        else:
            spread = roots @ rng.standard_normal((*shape, p, max(rows - 1, 1))) * (rows > 1)
        return cls(count, mean=means + (roots @ white)[..., 0], scatter=spread @ np.swapaxes(spread, -1, -2))

    def problem(self, setting: Setting, leverage: float) -> tuple[LogQuadratic, Float[np.ndarray, " p"]]:
        """Return the posteriors of a record of this leverage, and the record.

        Λₓ = I + q·e₁e₁ᵀ stretches the first axis by √(1+q), and μₓ = u/κ′.
        """
        p, kappa = setting.p, setting.mean_weight
        truth, stretch = np.zeros(p), np.ones(p)
        truth[0] = np.sqrt(leverage * (kappa + 1) / kappa)
        stretch[0] = np.sqrt(1 + leverage)
        lean = truth / (kappa + 1)
        if self.factor is not None and self.noise is not None:
            factor = self.factor / stretch[:, None]
            precision = factor @ np.swapaxes(factor, -1, -2)
            crowd = NIW(np.zeros((len(factor), p)), kappa, setting.df, np.eye(p))
            return from_parameters(
                crowd, np.eye(p), self.count, precision, precision @ lean + self.noise / stretch
            ), truth
        assert self.mean is not None
        assert self.scatter is not None
        crowd = NIW(np.zeros((len(self.mean), p)), kappa, setting.df, np.eye(p))
        counts = np.full(self.count, float(setting.rows or 0))
        moments = Moments(counts, self.mean * stretch + lean, self.scatter * np.outer(stretch, stretch))
        return from_datasets(crowd, np.eye(p), moments), truth


def _measure(
    setting: Setting, drawn: _Drawn, leverage: float, radius: float | None, gain: bool, rng: np.random.Generator
) -> Float[np.ndarray, "m r"]:
    problem, record = drawn.problem(setting, leverage)
    modes = find_modes(problem)
    truth = np.broadcast_to(record, modes.best.shape)
    found = [exposure_of(modes.best, truth), relative_error(modes.best, truth)]
    if gain or radius is not None:
        learned = integrate_many(problem, modes, truth, radius, rng, size=POINTS, replicates=2)
        found.append(information_gain(problem, truth, learned.log_total))
        if learned.mass is not None and radius is not None:
            found.append(learned.mass - prior_mass(problem, truth, radius))
    return np.stack(found)


def _bartlett(
    rng: np.random.Generator, shape: tuple[int, ...], p: int, df: float
) -> Float[np.ndarray, "*shape p p"]:
    """Draw lower triangular T with TTᵀ ~ W(df, I)."""
    factor = np.tril(rng.standard_normal((*shape, p, p)), -1)
    diagonal = np.arange(p)
    factor[..., diagonal, diagonal] = np.sqrt(rng.chisquare(df - diagonal, size=(*shape, p)))
    return factor
