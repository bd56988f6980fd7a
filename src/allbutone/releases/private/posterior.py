"""The posterior that knows of the noise: exact moments given noisy ones, then the model's parameters given those.

Let T = Σx̃x̃ᵀ be the exact matrix of n normal records, and M₀ that of the prior, which is worth one record: its
mode is the public guess, Λ₀ = (ν₀ + p + 1)·Σ with ν₀ = −p, so M₀ = diag(spread², …, η²). (It is no distribution,
but its posteriors are; a prior worth more would draw correlations towards 0.) Mean and covariance integrate out:

    p(T) ∝ |T|^((n − p − 2)/2) · |T + M₀|^(−(ν₀ + n)/2)      (T positive definite, its last entry n·η²)

and the noise is normal around T, the same in every direction. So T given the noisy matrix is that normal
distribution, weighted by p(T): elliptical slice sampling (Murray, Adams and MacKay 2010) draws from it exactly in
the limit, without anything to tune. Bernstein and Sheldon (2018) alternate between T and the parameters instead,
with p(T | parameters) taken for normal; here nothing is approximated, and parameters are not needed on the way.
All of this is computed from what has been told already: it costs no privacy.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from allbutone.model.convergence import Convergence
from allbutone.model.niw import NIW
from allbutone.releases.private.mechanism import NoisyMoments
from allbutone.support.parallel import one_thread

CHAINS = 32
FIRST_SWEEPS, MOST_SWEEPS = 128, 2048

Matrices = Float[np.ndarray, "chains q q"]


@dataclass(frozen=True, eq=False)
class NoiseAware:
    """Draws of mean and covariance given noisy moments, all in the ball's units."""

    noisy: NoisyMoments

    def draw(self, count: int, rng: np.random.Generator) -> tuple[Any, Any, Convergence]:
        """Draw `count` means (count, p) and covariances (count, p, p), and say whether the chains had settled."""
        with one_thread():
            state, found = self._settled(rng)
            parts: list[Matrices] = [state]
            while CHAINS * len(parts) < count:
                for _ in range(found.spacing):
                    state = self._sweep(state, rng)
                parts.append(state)
            means, covariances = self._parameters(np.concatenate(parts)[:count], rng)
        return means, covariances, found

    def _settled(self, rng: np.random.Generator) -> tuple[Matrices, Convergence]:
        """Run the chains, twice as long until they agree; the first half is forgotten."""
        state = self._start()
        history: list[Float[np.ndarray, "chains s"]] = []
        upper = np.triu_indices(len(self.noisy.matrix))
        labels = tuple(f"moment {i + 1}, {j + 1}" for i, j in zip(*upper, strict=True))
        while True:
            for _ in range(max(FIRST_SWEEPS, len(history))):
                state = self._sweep(state, rng)
                history.append(state[:, *upper])
            found = Convergence.of(len(history), labels, np.array(history[len(history) // 2 :]))
            if found.reached or len(history) >= MOST_SWEEPS:
                return state, found

    def _start(self) -> Matrices:
        """Start every chain at the noisy matrix, moved towards the guess until it is positive definite."""
        guess = self.noisy.people * self._prior
        share = next(
            s for s in np.linspace(0.0, 1.0, 65) if _log_determinant(self._between(guess, s)[None])[0] > -np.inf
        )
        return np.repeat(self._between(guess, min(1.0, share + 1 / 64))[None], CHAINS, axis=0)

    def _between(self, guess: Float[np.ndarray, "q q"], share: float) -> Float[np.ndarray, "q q"]:
        return (1 - share) * self.noisy.matrix + share * guess

    def _sweep(self, state: Matrices, rng: np.random.Generator) -> Matrices:
        """Move every chain along an ellipse through it and a new draw of the noise."""
        chains, centre = len(state), self.noisy.matrix
        away, new = state - centre, self._noise(chains, rng)
        level = self._log_weight(state) + np.log(rng.random(chains))
        angle = rng.uniform(0.0, 2 * np.pi, chains)
        low, high = angle - 2 * np.pi, angle.copy()
        moved, left = state.copy(), np.arange(chains)
        while len(left):
            turn = angle[left, None, None]
            tried = centre + away[left] * np.cos(turn) + new[left] * np.sin(turn)
            good = self._log_weight(tried) > level[left]
            moved[left[good]] = tried[good]
            left = left[~good]
            # the bracket closes on where the chain is, which always serves
            low[left] = np.where(angle[left] < 0, angle[left], low[left])
            high[left] = np.where(angle[left] < 0, high[left], angle[left])
            angle[left] = rng.uniform(low[left], high[left])
        return moved

    def _noise(self, chains: int, rng: np.random.Generator) -> Matrices:
        """Return noise like that of the mechanism: σ on the diagonal, σ/√2 off it, none in the last entry."""
        q = len(self.noisy.matrix)
        drawn = self.noisy.noise * rng.standard_normal((chains, q, q))
        drawn[:, -1, -1] = 0.0
        return 0.5 * (drawn + np.swapaxes(drawn, 1, 2))

    def _log_weight(self, state: Matrices) -> Float[np.ndarray, " chains"]:
        """Return log p(T) without its constant; −∞ where no records have such moments."""
        n, p = self.noisy.people, self.noisy.ball.p
        own = _log_determinant(state)
        both = np.where(own > -np.inf, _log_determinant(state + self._prior), 0.0)
        return 0.5 * (n - p - 2) * own - 0.5 * (n - p) * both

    @property
    def _prior(self) -> Float[np.ndarray, "q q"]:
        """M₀: a record's worth of the guess."""
        ball = self.noisy.ball
        return np.diag([ball.spread**2] * ball.p + [ball.eta**2])

    def _parameters(self, drawn: Matrices, rng: np.random.Generator) -> tuple[Any, Any]:
        """Draw mean and covariance from the posterior of each matrix: T + M₀ = (Λ + κ·μμᵀ, η·κ·μ; …, η²·κ)."""
        n, eta, both = self.noisy.people, self.noisy.ball.eta, drawn + self._prior
        mean = both[:, :-1, -1] / (eta * (n + 1))
        scale = both[:, :-1, :-1] - (n + 1) * mean[:, :, None] * mean[:, None, :]
        means, covariances = NIW(mean, n + 1.0, float(n - self.noisy.ball.p), scale).draw(rng, 1)
        return means[0], covariances[0]


def _log_determinant(matrices: Float[np.ndarray, "batch q q"]) -> Float[np.ndarray, " batch"]:
    """Return the log determinants of positive definite matrices, −∞ for others: pivots, for all at once."""
    left, found = matrices.copy(), np.zeros(len(matrices))
    least = 1e-13 * np.max(np.abs(np.diagonal(matrices, axis1=1, axis2=2)), axis=1)
    for k in range(matrices.shape[-1]):
        good = left[:, k, k] > least
        pivot = np.where(good, left[:, k, k], 1.0)
        found += np.where(good, np.log(pivot), -np.inf)
        row = left[:, k, k + 1 :] * good[:, None]  # nothing more of one that is lost
        left[:, k + 1 :, k + 1 :] -= row[:, :, None] * (row / pivot[:, None])[:, None, :]
    return found
