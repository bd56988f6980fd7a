"""The exact distribution of a record's risk, simulated.

Given p, κ, ν and the sizes of the release, every affine-invariant measure of risk has a distribution that depends
on the record's leverage q alone: one small simulation on a grid of q serves every record of any table.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Float

from allbutone.disclosure.exposure_law import ExposureLaw
from allbutone.disclosure.measures import Effort, Measures, measure
from allbutone.disclosure.simulated_releases import SimulatedReleases, releases_at_once
from allbutone.integrals.proposal import Points
from allbutone.support.parallel import in_parallel

EXPECTED = 200  # releases that tell the median exposure of a record that does not stand out
WORK = 1e6  # numbers in their wells that are worth waiting for
POINTS = 128  # to integrate each posterior: its own noise is far below that between releases


@dataclass(frozen=True, eq=False)
class Simulated:
    """Measures of risk for each leverage of a grid, one column a replicate: shapes (leverages, replicates).

    The replicates are the same random numbers for every leverage, so that curves over leverage are smooth.
    What was not asked for is NaN.
    """

    leverage: Float[np.ndarray, " q"]
    exposure: Float[np.ndarray, "q r"]
    relative_error: Float[np.ndarray, "q r"]
    information_gain: Float[np.ndarray, "q r"]
    mass_gained: Float[np.ndarray, "q r"]

    @property
    def right_mode(self) -> Float[np.ndarray, " q"]:
        """The share of replicates in which the guess lies on the record's side of the others' centre."""
        return np.mean(self.exposure > 0, axis=1)


def simulate(
    law: ExposureLaw,
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
    size = releases_at_once(law, count)
    effort = Effort(Points.of(rng), POINTS, replicates=2) if gain or radius is not None else None
    parts = []
    for start in range(0, replicates, size):
        drawn = SimulatedReleases.of(law, count, min(size, replicates - start), rng)
        parts.append(in_parallel(partial(_measured, drawn, effort, radius), leverage.tolist()))

    def joined(name: str) -> Float[np.ndarray, "q r"]:
        rows = zip(*([getattr(found, name) for found in part] for part in parts), strict=True)
        return np.stack([np.concatenate(row) for row in rows])

    names = ("exposure", "relative_error", "information_gain", "mass_gained")
    return Simulated(leverage, **{name: joined(name) for name in names})


def expected_exposure(law: ExposureLaw, leverage: float, count: int) -> tuple[float, int]:
    """Return a record's median exposure over releases, and how many were simulated for it: 0, the closed form.

    Simulated are those of records that do not stand out enough for it, where that does not take long.
    """
    numbers = EXPECTED * (1 if law.rows is None else count) * law.p**2
    if law.holds(leverage, count) or numbers > WORK:
        return float(law.exposure(leverage, count)), 0
    found = simulate(law, np.array([leverage]), count, EXPECTED, np.random.default_rng(1))
    return float(np.median(found.exposure[0])), EXPECTED


def _measured(drawn: SimulatedReleases, effort: Effort | None, radius: float | None, leverage: float) -> Measures:
    return measure(*drawn.problem(leverage), effort, radius=radius)
