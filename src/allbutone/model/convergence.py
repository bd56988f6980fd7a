"""Whether chains have forgotten where they began: R-hat and effective sizes of what they say."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from allbutone.support.text import counted

MOST_R_HAT = 1.05
ROUNDING = 1e-12
LEAST_SIZE = 100.0  # independent draws that all chains together must be worth


@dataclass(frozen=True, eq=False)
class Convergence:
    """What `chains` of `sweeps` sweeps each say about themselves, for each of the quantities named in `labels`.

    `r_hat`: the spread of all chains' halves together over that within them, 1 where they agree. `effective_size`:
    how many independent draws the later halves of all chains are worth.
    """

    chains: int
    sweeps: int
    labels: tuple[str, ...]
    r_hat: Float[np.ndarray, " s"]
    effective_size: Float[np.ndarray, " s"]

    @classmethod
    def of(
        cls, sweeps: int, labels: tuple[str, ...], history: Float[np.ndarray, "kept chains s"]
    ) -> "Convergence":
        """Judge the later part of the chains."""
        # what no gap touches moves by rounding alone, and says nothing
        moves = np.ptp(history, axis=(0, 1)) > ROUNDING * np.max(np.abs(history), axis=(0, 1))
        steady = np.where(moves, history - history[0, 0], 0.0)
        return cls(history.shape[1], sweeps, labels, split_r_hat(steady), effective_size(steady))

    @property
    def reached(self) -> bool:
        """Whether every quantity's R-hat is below 1.05 and its effective size at least 100."""
        return bool(np.all(self.r_hat < MOST_R_HAT) and np.all(self.effective_size >= LEAST_SIZE))

    @property
    def spacing(self) -> int:
        """The number of sweeps after which a chain says something nearly independent."""
        if not len(self.labels):
            return 1
        return int(np.ceil(self.chains * (self.sweeps / 2) / np.min(self.effective_size)))

    @property
    def words(self) -> str:
        """What was found, in a sentence without a full stop."""
        if not len(self.labels):
            return "no value is missing"
        worst, least = int(np.argmax(self.r_hat)), int(np.argmin(self.effective_size))
        found = (
            f"{counted(self.chains, 'chain')} of {counted(self.sweeps, 'sweep')}: R-hat at most "
            f"{self.r_hat[worst]:.3f} ({self.labels[worst]}), effective size at least "
            f"{self.effective_size[least]:,.0f} ({self.labels[least]})"
        )
        return found if self.reached else f"not converged, {found}"


def split_r_hat(history: Float[np.ndarray, "kept chains s"]) -> Float[np.ndarray, " s"]:
    """Return √[((N−1)/N·W + B)/W] of each quantity, each chain cut into halves of N sweeps.

    W: the mean variance within a half, B: the variance of the halves' means. A trend within chains counts, too.
    """
    half = len(history) // 2
    parts = np.concatenate([history[:half], history[-half:]], axis=1)
    within = np.mean(np.var(parts, axis=0, ddof=1), axis=0)
    between = np.var(np.mean(parts, axis=0), axis=0, ddof=1)
    ratio = np.divide(between, within, out=np.where(between > 0, np.inf, 0.0), where=within > 0)
    return np.where(within + between > 0, np.sqrt((half - 1) / half + ratio), 1.0)


def effective_size(history: Float[np.ndarray, "kept chains s"]) -> Float[np.ndarray, " s"]:
    """Return CN/τ, τ = 1 + 2Σρ_t by Geyer's initial monotone sequence, chains taken together.

    ρ_t = 1 − (W − mean autocovariance at lag t)/V, with V the variance of all chains together.
    """
    kept, chains, _ = history.shape
    away = history - np.mean(history, axis=0)
    spectrum = np.fft.rfft(away, n=2 * kept, axis=0)
    lagged = np.mean(np.fft.irfft(np.abs(spectrum) ** 2, axis=0)[:kept], axis=1) / kept
    within = lagged[0] * kept / (kept - 1)
    whole = lagged[0] + (np.var(np.mean(history, axis=0), axis=0, ddof=1) if chains > 1 else 0.0)
    moves = whole > 0
    rho = 1 - (within - lagged) / np.where(moves, whole, 1.0)
    rho[0] = 1.0
    pairs = rho[: kept // 2 * 2].reshape(kept // 2, 2, -1).sum(axis=1)
    positive = np.cumprod(pairs > 0, axis=0)
    time = 2 * np.sum(np.minimum.accumulate(pairs, axis=0) * positive, axis=0) - 1
    # negative correlation may be luck: no draw counts for more than a few
    time = np.maximum(time, 1 / np.log10(max(10, chains * kept)))
    return np.where(moves, chains * kept / time, np.inf)
