"""The posterior that knows of the noise: draws of the parameters given noisy moments and counts."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from allbutone.model.augmentation import Convergence
from allbutone.model.location import Parameters, Regression
from allbutone.releases.noisy_counts import CHAINS, FIRST_SWEEPS, MOST_SWEEPS, CellCounts
from allbutone.releases.noisy_gaps import Estimate, GapNoise, PeopleWithGaps, estimate_of
from allbutone.releases.private_mechanism import NoisyMoments
from allbutone.support.parallel import one_thread

# The posterior that knows of the noise: exact moments given noisy ones, then the model's parameters given those.
#
# Let T = Σx̃x̃ᵀ be the exact matrix of n records, x̃ = (x, w), normal around the effects of w, with blocks T_xx, T_xw
# and T_ww, and M₀ that of the prior, which is worth one record: its mode is the public guess, Λ₀ = (ν₀ + p + 1)·Σ
# with ν₀ = −p, so M₀ = diag(spread², …, η², ζ², …). (It is no distribution, but its posteriors are; a prior worth
# more would draw correlations towards 0.) Effects and covariance integrate out: with w of rank r,
#
#     p(T | T_ww) ∝ |T|^((n − p − r − 1)/2) · |T + M₀|^(−(ν₀ + n)/2)      (T positive definite)
#
# and the noise is normal around T, the same in every direction. So T given the noisy matrix is that normal
# distribution, weighted by p(T): elliptical slice sampling (Murray, Adams and MacKay 2010) draws from it exactly
# in the limit, without anything to tune. Bernstein and Sheldon (2018) alternate between T and the parameters
# instead, with p(T | parameters) taken for normal; here nothing is approximated, and parameters are not needed on
# the way. All of this is computed from what has been told already: it costs no privacy.
#
# Without categories w = η, and T_ww = n·η² is public. With them T_ww follows from how many people each cell has,
# of which the noisy counts tell (`noisy_counts`): each chain has its own draw of these. What the noisy moments say
# of the counts besides, which is next to nothing, is left aside. Where nobody has a level, T_xw is 0 along it, and
# the noise there says nothing. Where values may be missing, `noisy_gaps` tells what the sums of those observed say
# of T: the ellipse is then that of a normal distribution near it, and weights make up for the difference.


AT_A_TIME = 256  # chains, where each gives one draw

Matrices = Float[np.ndarray, "chains q q"]


@dataclass(frozen=True, eq=False)
class NoiseAware:
    """Draws of the parameters given noisy moments and counts, all in the ball's units."""

    noisy: NoisyMoments

    def draw(self, count: int, rng: np.random.Generator) -> tuple[Parameters, Convergence]:
        """Draw shares, means and covariances of all cells, and say whether the chains had settled."""
        ball = self.noisy.ball
        counts = CellCounts(ball.cells, self.noisy.people, self.noisy.counts)
        with one_thread():
            people, of_counts = counts.draw(count, rng)
            found = of_counts
            if not ball.p:
                effects, covariances = np.zeros((count, ball.codes.shape[1], 0)), np.zeros((count, 0, 0))
            else:
                chains = np.repeat(people[:1], CHAINS, axis=0)
                estimate = _WithGaps.of(self.noisy, chains).estimated(rng) if ball.has_gaps else None
                moments = self._given(chains, estimate)
                state, found = moments.settled(rng)
                if ball.cells.count == 1:
                    effects, covariances = self._more(moments, state, count, found.spacing, rng)
                else:
                    effects, covariances = self._with_own_counts(people, found.sweeps, estimate, rng)
        shares = rng.standard_gamma(people + counts.weight)
        shares /= shares.sum(axis=1, keepdims=True)
        means = np.einsum("cr,krp->kcp", ball.codes, effects)
        both = found if of_counts.reached else of_counts
        return Parameters(shares, means, covariances[:, None]), both

    def _given(self, people: Any, estimate: Estimate | None) -> "_GivenCounts":
        """Return chains of the moments given these people in all cells."""
        if estimate is None:
            return _GivenCounts.of(self.noisy, people)
        return _WithGaps.of(self.noisy, people, estimate)

    def _more(self, moments: Any, state: Matrices, count: int, spacing: int, rng: Any) -> tuple[Any, Any]:
        """Go on with the same chains until there are so many draws."""
        parts = [state]
        while CHAINS * len(parts) < count:
            for _ in range(spacing):
                state = moments.sweep(state, rng)
            parts.append(state)
        drawn = [moments.parameters(each, rng) for each in parts]
        effects, covariances = (np.concatenate(each)[:count] for each in zip(*drawn, strict=True))
        return effects, covariances

    def _with_own_counts(
        self, people: Any, sweeps: int, estimate: Estimate | None, rng: np.random.Generator
    ) -> tuple[Any, Any]:
        """Run a chain for each draw of the counts, as long as was found to be enough."""
        drawn = []
        for start in range(0, len(people), AT_A_TIME):
            moments = self._given(people[start : start + AT_A_TIME], estimate)
            state = moments.start()
            for _ in range(sweeps):
                state = moments.sweep(state, rng)
            drawn.append(moments.parameters(state, rng))
        effects, covariances = (np.concatenate(each) for each in zip(*drawn, strict=True))
        return effects, covariances


@dataclass(frozen=True, eq=False)
class _GivenCounts:
    """Chains of T given noisy moments and, for each chain, the people of all cells.

    told: the noisy matrix of each chain, with its own T_ww. within: projects w onto what its people span; rank:
    in how many dimensions. beyond: the projection onto the rest, added to T_ww so that determinants leave it out.
    """

    noisy: NoisyMoments
    told: Matrices
    within: Float[np.ndarray, "chains r r"]
    rank: Float[np.ndarray, " chains"]
    beyond: Matrices

    @classmethod
    def of(cls, noisy: NoisyMoments, people: Any) -> "_GivenCounts":
        """Put each chain's own T_ww, by its people in all cells, into the noisy matrix."""
        p, codes = noisy.ball.p, noisy.ball.codes
        of_codes = np.einsum("kc,cr,cs->krs", people.astype(float), codes, codes)
        values, axes = np.linalg.eigh(of_codes)
        there = values > 1e-9 * values[:, -1:]
        within = np.einsum("kri,ki,ksi->krs", axes, there.astype(float), axes)
        size = float(noisy.people) * np.einsum("cr,cr->c", codes, codes).max()
        told = np.repeat(noisy.matrix[None], len(people), axis=0)
        told[:, p:, p:] = of_codes
        told[:, :p, p:] = noisy.matrix[:p, p:] @ within
        told[:, p:, :p] = np.swapaxes(told[:, :p, p:], 1, 2)
        beyond = np.zeros_like(told)
        beyond[:, p:, p:] = size * (np.eye(codes.shape[1]) - within)
        return cls(noisy, told, within, there.sum(axis=1).astype(float), beyond)

    def settled(self, rng: np.random.Generator) -> tuple[Matrices, Convergence]:
        """Run the chains, twice as long until they agree; the first half is forgotten."""
        state = self.start()
        history: list[Float[np.ndarray, "chains s"]] = []
        p, size = self.noisy.ball.p, self.told.shape[-1]
        pairs = [(i, j) for i in range(p) for j in range(i, size)]
        upper = tuple(np.array(pairs).T)
        labels = tuple(f"moment {i + 1}, {j + 1}" for i, j in pairs)
        while True:
            for _ in range(max(FIRST_SWEEPS, len(history))):
                state = self.sweep(state, rng)
                history.append(state[:, *upper])
            convergence = Convergence.of(len(history), labels, np.array(history[len(history) // 2 :]))
            if convergence.reached or len(history) >= MOST_SWEEPS:
                return state, convergence

    def start(self) -> Matrices:
        """Start every chain at the noisy matrix, moved towards the guess until it is positive definite."""
        p = self.noisy.ball.p
        guess = np.zeros_like(self.told)
        guess[:, :p, :p] = self.noisy.people * self._prior[:p, :p]
        guess[:, p:, p:] = self.told[:, p:, p:]
        state, left = guess.copy(), np.ones(len(guess), dtype=bool)
        for share in np.linspace(0.0, 1.0, 65):
            tried = (1 - share) * self.told + share * guess
            good = left & (_log_determinant(tried + self.beyond) > -np.inf)
            further = min(1.0, share + 1 / 64)
            state[good] = ((1 - further) * self.told + further * guess)[good]
            left &= ~good
        return state

    def sweep(self, state: Matrices, rng: np.random.Generator) -> Matrices:
        """Move every chain along an ellipse through it and a new draw of the noise."""
        chains, centre = len(state), self.told
        away, new = state - centre, self._noise(chains, rng)
        level = self._log_weight(state, np.arange(chains)) + np.log(rng.random(chains))
        angle = rng.uniform(0.0, 2 * np.pi, chains)
        low, high = angle - 2 * np.pi, angle.copy()
        moved, left = state.copy(), np.arange(chains)
        while len(left):
            turn = angle[left, None, None]
            tried = centre[left] + away[left] * np.cos(turn) + new[left] * np.sin(turn)
            good = self._log_weight(tried, left) >= level[left]
            moved[left[good]] = tried[good]
            left = left[~good]
            # the bracket closes on where the chain is, which always serves
            low[left] = np.where(angle[left] < 0, angle[left], low[left])
            high[left] = np.where(angle[left] < 0, high[left], angle[left])
            angle[left] = rng.uniform(low[left], high[left])
        return moved

    def _noise(self, chains: int, rng: np.random.Generator) -> Matrices:
        """Return noise like that of the mechanism: σ on the diagonal, σ/√2 off it, none in T_ww."""
        p, q = self.noisy.ball.p, self.told.shape[-1]
        drawn = self.noisy.noise * rng.standard_normal((chains, q, q))
        drawn = 0.5 * (drawn + np.swapaxes(drawn, 1, 2))
        drawn[:, p:, p:] = 0.0
        return self._projected(drawn)

    def _projected(self, drawn: Matrices) -> Matrices:
        """Return matrices whose T_xw is 0 where the people's codes span nothing."""
        p = self.noisy.ball.p
        drawn[:, :p, p:] = drawn[:, :p, p:] @ self.within
        drawn[:, p:, :p] = np.swapaxes(drawn[:, :p, p:], 1, 2)
        return drawn

    def _log_weight(self, state: Matrices, chains: Any) -> Float[np.ndarray, " left"]:
        """Return log p(T | T_ww) without its constant; −∞ where no records have such moments."""
        n, p = self.noisy.people, self.noisy.ball.p
        own = _log_determinant(state + self.beyond[chains])
        both = np.where(own > -np.inf, _log_determinant(state + self._prior), 0.0)
        return 0.5 * (n - p - self.rank[chains] - 1) * own - 0.5 * (n - p) * both

    @property
    def _prior(self) -> Float[np.ndarray, "q q"]:
        """M₀: a record's worth of the guess; every effect is of the size of the spread."""
        ball = self.noisy.ball
        return np.diag(np.r_[np.full(ball.p, ball.spread**2), ball.code_sizes**2])

    def parameters(self, drawn: Matrices, rng: np.random.Generator) -> tuple[Any, Any]:
        """Draw effects and covariance from the posterior of each matrix, by the usual regression of x on w."""
        n, p, both = self.noisy.people, self.noisy.ball.p, drawn + self._prior
        root = np.swapaxes(np.linalg.cholesky(both[:, p:, p:]), 1, 2)
        effects = np.linalg.solve(both[:, p:, p:], both[:, p:, :p])
        scale = both[:, :p, :p] - both[:, :p, p:] @ effects
        scale = 0.5 * (scale + np.swapaxes(scale, 1, 2))
        found, covariances = Regression(effects, root, float(n - p), scale).draw(rng, 1)
        return found[0], covariances[0]


@dataclass(frozen=True, eq=False)
class _WithGaps(_GivenCounts):
    """The same where the noisy matrix is of observed values: `told` is where the ellipses have their centre.

    there: who has which values. noise: that of what is observed. precision, root: of the ellipses' normal
    distribution, and what takes standard normals to it.
    """

    there: PeopleWithGaps
    noise: GapNoise
    precision: Float[np.ndarray, "k d d"]
    root: Float[np.ndarray, "k d d"]

    @classmethod
    def of(cls, noisy: NoisyMoments, people: Any, estimate: Estimate | None = None) -> "_WithGaps":
        """Take effects and covariance that tell what chance makes of who is missing; at first a rough guess."""
        base = _GivenCounts.of(noisy, people)
        noise = GapNoise.of(noisy, people, estimate)
        centre, precision = noise.around(base.within)
        told = noise.matrix(centre)
        told[:, noisy.ball.p :, noisy.ball.p :] = base.told[:, noisy.ball.p :, noisy.ball.p :]
        root = np.swapaxes(np.linalg.inv(np.linalg.cholesky(precision)), 1, 2)
        there = PeopleWithGaps(noisy, people.astype(float))
        return cls(
            noisy, base._projected(told), base.within, base.rank, base.beyond, there, noise, precision, root
        )

    def estimated(self, rng: np.random.Generator) -> Estimate:
        """Return effects and covariance, from a short run."""
        state, total = self.start(), np.zeros_like(self.told[0])
        for place in range(FIRST_SWEEPS):
            state = self.sweep(state, rng)
            total += state.mean(axis=0) * (2 * place >= FIRST_SWEEPS)
        return estimate_of(total / (FIRST_SWEEPS // 2), self.noisy)

    def start(self) -> Matrices:
        """Start every chain at the estimate."""
        return self.noise.moments(self.there.whole)

    def _noise(self, chains: int, rng: np.random.Generator) -> Matrices:
        normal = rng.standard_normal((chains, self.root.shape[-1], 1))
        return self._projected(self.noise.matrix((self.root @ normal)[..., 0]))

    def _log_weight(self, state: Matrices, chains: Any) -> Float[np.ndarray, " left"]:
        """Return log p(T | T_ww) and the likelihood of what was told, less the ellipses' own density."""
        own, row = super()._log_weight(state, chains), self.noise.row
        off = row(self.noisy.matrix[None]) - row(self.there.expected(state, chains))
        away = row(state - self.told[chains])[..., None]
        precision = self.precision if len(self.precision) == 1 else self.precision[chains]
        around = np.sum(away * (precision @ away), axis=(1, 2))
        return own - 0.5 * np.sum(off @ self.noise.precision * off, axis=1) + 0.5 * around


def _log_determinant(matrices: Float[np.ndarray, "batch q q"]) -> Float[np.ndarray, " batch"]:
    """Return the log determinants of positive definite matrices, −∞ for others: pivots, for all at once."""
    left, logs = matrices.copy(), np.zeros(len(matrices))
    least = 1e-13 * np.max(np.abs(np.diagonal(matrices, axis1=1, axis2=2)), axis=1)
    for k in range(matrices.shape[-1]):
        good = left[:, k, k] > least
        pivot = np.where(good, left[:, k, k], 1.0)
        logs += np.where(good, np.log(pivot), -np.inf)
        row = left[:, k, k + 1 :] * good[:, None]  # nothing more of one that is lost
        left[:, k + 1 :, k + 1 :] -= row[:, :, None] * (row / pivot[:, None])[:, None, :]
    return logs
