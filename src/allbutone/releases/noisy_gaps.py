"""Noisy sums of what is observed: what they tell of the moments of everybody, as if no value were missing."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from allbutone.releases.private_mechanism import NoisyMoments

# Values are missing for reasons that the categories tell, or for none. Let T be the moments of all n people as if
# nothing were missing, B = T_xw·T_ww⁻¹ the effects of the codes w, and e = x − Bw what is left, of covariance Σ.
# Of those who have x_j let W_j be Σwwᵀ, of those who have x_j and x_k W_jk, and N_jk their number: all known,
# given the people of all cells. The sums O of what is observed are then, o_ij telling who has x_j,
#
#     O_jw = B_j·W_j + Σᵢ e_ij·(o_ij − W_j·T_ww⁻¹)wᵢ
#     O_jk = (T_jk − B_j·T_ww·B_kᵀ)·N_jk/n + B_j·W_jk·B_kᵀ + Σᵢ e_ij·e_ik·(o_ijk − N_jk/n)
#            + Σᵢ (e_ik·B_j + e_ij·B_k)(o_ijk − W_jk·T_ww⁻¹)wᵢ
#
# The first parts follow from T. The sums over people are what chance makes of who is missing: 0 on average, and
# uncorrelated with T, so that for many people they are further normal noise, whose covariance V is known from Σ, B
# and the people of all cells. So what is missing is noise more, and all else is as without gaps.


LEAST_SPREAD = 0.05  # of the guessed variance: no direction of the estimate varies by less
WIDE = 4.0  # times what moments can be expected to be: what nothing is told of is about as free as that

Matrices = Float[np.ndarray, "chains q q"]
Estimate = tuple[Float[np.ndarray, "p r"], Float[np.ndarray, "p p"]]  # effects and covariance


@dataclass(frozen=True, eq=False)
class PeopleWithGaps:
    """Who has which values, in each chain: W = T_ww and its inverse, W_j, W_jk, and N_jk/n."""

    noisy: NoisyMoments
    people: Float[np.ndarray, "chains cells"]

    @cached_property
    def own(self) -> Float[np.ndarray, "chains p r r"]:
        """W_j."""
        return self._codes(self.noisy.ball.observed)

    @cached_property
    def both(self) -> Float[np.ndarray, "chains p p r r"]:
        """W_jk."""
        p = self.noisy.ball.p
        found = self._codes(self._pairs)
        return found.reshape(len(found), p, p, *found.shape[2:])

    @cached_property
    def whole(self) -> Float[np.ndarray, "chains r r"]:
        """W = T_ww."""
        return self._codes(np.ones((self.people.shape[1], 1)))[:, 0]

    @cached_property
    def inverse(self) -> Float[np.ndarray, "chains r r"]:
        """W⁻¹, of what its people span."""
        return np.linalg.pinv(self.whole, rcond=1e-9, hermitian=True)

    @cached_property
    def share(self) -> Float[np.ndarray, "chains p p"]:
        """N_jk/n."""
        p = self.noisy.ball.p
        return (self.people @ self._pairs).reshape(-1, p, p) / self.noisy.people

    @property
    def _pairs(self) -> Float[np.ndarray, "cells pp"]:
        """Who has both of two values."""
        there = self.noisy.ball.observed.astype(float)
        return (there[:, :, None] * there[:, None, :]).reshape(len(there), -1)

    def _codes(self, there: Any) -> Float[np.ndarray, "chains k r r"]:
        """Return Σwwᵀ over those for whom each of these is so."""
        codes = self.noisy.ball.codes
        squares = np.einsum("cr,cs->crs", codes, codes).reshape(len(codes), -1)
        found = np.einsum("xc,ck,cs->xks", self.people, there.astype(float), squares, optimize=True)
        return found.reshape(*found.shape[:2], codes.shape[1], codes.shape[1])

    def expected(self, state: Matrices, chains: Any) -> Matrices:
        """Return what is expected to be observed, given the moments of everybody; of w alone nothing."""
        p, found = self.noisy.ball.p, np.zeros_like(state)
        whole, inverse = self.whole[chains], self.inverse[chains]
        effects = state[:, :p, p:] @ inverse
        found[:, :p, p:] = np.einsum("kjr,kjrs->kjs", effects, self.own[chains])
        found[:, p:, :p] = np.swapaxes(found[:, :p, p:], 1, 2)
        share = self.share[chains]
        bent = self.both[chains] - share[..., None, None] * whole[:, None, None]
        found[:, :p, :p] = share * state[:, :p, :p] + np.einsum(
            "kjr,kjlrs,kls->kjl", effects, bent, effects, optimize=True
        )
        return found


@dataclass(frozen=True, eq=False)
class GapNoise:
    """All noise of what is observed as numbers in a row: the upper half of T_xx, then T_xw.

    precision: V⁻¹, of the mechanism's noise and of what chance makes of who is missing. slope, rest: what is
    expected to be observed of moments T is slope·T + rest, nearly. told: what was observed, with noise.
    """

    noisy: NoisyMoments
    average: PeopleWithGaps
    estimate: Estimate

    @classmethod
    def of(
        cls, noisy: NoisyMoments, people: Int[np.ndarray, "chains cells"], estimate: Estimate | None = None
    ) -> "GapNoise":
        """Take the average chain, and effects and covariance, by default those of what is observed."""
        average = PeopleWithGaps(noisy, np.mean(people, axis=0, keepdims=True))
        return cls(noisy, average, estimate or _observed(average))

    @cached_property
    def places(self) -> tuple[Int[np.ndarray, " d"], Int[np.ndarray, " d"]]:
        """Where the numbers stand in a matrix."""
        p, r = self.noisy.ball.p, self.noisy.ball.codes.shape[1]
        first, second = np.triu_indices(p)
        return np.r_[first, np.repeat(np.arange(p), r)], np.r_[second, np.tile(np.arange(p, p + r), p)]

    def row(self, matrices: Matrices) -> Float[np.ndarray, "chains d"]:
        """Return matrices as rows of numbers."""
        return matrices[:, *self.places]

    def matrix(self, rows: Float[np.ndarray, "chains d"]) -> Matrices:
        """Return rows of numbers as matrices, with nothing in T_ww."""
        size = self.noisy.ball.p + self.noisy.ball.codes.shape[1]
        matrices = np.zeros((len(rows), size, size))
        matrices[:, *self.places] = rows
        matrices[:, *reversed(self.places)] = rows
        return matrices

    @cached_property
    def precision(self) -> Float[np.ndarray, "d d"]:
        """V⁻¹."""
        return np.linalg.inv(self.covariance)

    @cached_property
    def covariance(self) -> Float[np.ndarray, "d d"]:
        """V: Σ_c N_c times the covariance of what one person of cell c adds, and the mechanism's own noise."""
        ball, (effects, covariance) = self.noisy.ball, self.estimate
        p, (cells, r), people = ball.p, ball.codes.shape, self.average.people[0]
        first, second = self.places[0][: p * (p + 1) // 2], self.places[1][: p * (p + 1) // 2]
        there, share = ball.observed.astype(float), self.average.share[0]
        of_pairs = there[:, first] * there[:, second] - share[first, second]
        products = covariance[np.ix_(first, first)] * covariance[np.ix_(second, second)]
        products = products + covariance[np.ix_(first, second)] * covariance[np.ix_(second, first)]
        found = np.zeros((len(self.places[0]),) * 2)
        many = len(first)
        found[:many, :many] = (people[:, None] * of_pairs).T @ of_pairs * products
        # what is linear in e: for each number, the weight of each e_j
        linear, inverse = np.zeros((cells, len(found), p)), self.average.inverse[0]
        both = self.average.both[0][first, second]
        away = (there[:, first] * there[:, second])[..., None] * ball.codes[:, None] - np.einsum(
            "drs,st,ct->cdr", both, inverse, ball.codes, optimize=True
        )
        for one, other in ((first, second), (second, first)):
            linear[:, np.arange(many), other] += np.einsum("cdr,dr->cd", away, effects[one])
        of_codes = there[..., None] * ball.codes[:, None] - np.einsum(
            "jrs,st,ct->cjr", self.average.own[0], inverse, ball.codes, optimize=True
        )
        for j in range(p):
            linear[:, many + j * r : many + (j + 1) * r, j] = of_codes[:, j]
        weighted = np.sqrt(people)[:, None, None] * (linear @ np.linalg.cholesky(covariance))
        flat = np.swapaxes(weighted, 1, 2).reshape(cells * p, -1)
        own = np.where(self.places[0] == self.places[1], 1.0, 0.5) * self.noisy.noise**2
        return found + flat.T @ flat + np.diag(own)

    @cached_property
    def slope(self) -> Float[np.ndarray, "d d"]:
        """By how much what is expected changes with T, effects in T_xx left aside."""
        p, r = self.noisy.ball.p, self.noisy.ball.codes.shape[1]
        many = p * (p + 1) // 2
        slope = np.zeros((many + p * r,) * 2)
        first, second = np.triu_indices(p)
        slope[np.arange(many), np.arange(many)] = self.average.share[0][first, second]
        for j in range(p):
            some = slice(many + j * r, many + (j + 1) * r)
            slope[some, some] = (self.average.inverse[0] @ self.average.own[0, j]).T
        return slope

    @property
    def start(self) -> Matrices:
        """The moments by the estimate: nΣ + B·W·Bᵀ and B·W, of the average chain."""
        return self.moments(self.average.whole)

    def moments(self, whole: Float[np.ndarray, "chains r r"]) -> Matrices:
        """Return those of the estimate for chains with these W."""
        (effects, covariance), p = self.estimate, self.noisy.ball.p
        moments = np.zeros((len(whole), p + whole.shape[1], p + whole.shape[1]))
        moments[:, :p, p:] = effects @ whole
        moments[:, p:, :p] = np.swapaxes(moments[:, :p, p:], 1, 2)
        moments[:, p:, p:] = whole
        moments[:, :p, :p] = self.noisy.people * covariance + moments[:, :p, p:] @ effects.T
        return moments

    def around(self, within: Float[np.ndarray, "chains r r"]) -> tuple[np.ndarray, np.ndarray]:
        """Return centre and precision of T by what was told, nearly: where people's codes span nothing, none."""
        ball, people = self.noisy.ball, self.noisy.people
        many, p = ball.p * (ball.p + 1) // 2, ball.p
        told = self.row(self.noisy.matrix[None])[0]
        rest = self.row(self.average.expected(self.start, slice(None)))[0] - self.slope @ self.row(self.start)[0]
        wide = (
            WIDE
            * people
            * ball.spread
            * np.r_[np.full(many, ball.spread), np.full(len(told) - many, ball.code_sizes.max())]
        )
        inside = np.zeros((len(within), len(told), len(told)))
        inside[:, :many, :many] = np.eye(many)
        for j in range(p):
            some = slice(many + j * within.shape[1], many + (j + 1) * within.shape[1])
            inside[:, some, some] = within
        if np.all(np.abs(within - np.eye(within.shape[1])) < 1e-9):
            inside = inside[:1]  # the same for all
        from_told = inside @ self.slope.T @ self.precision
        precision = from_told @ self.slope @ inside + np.diag(wide**-2.0)
        centre = np.linalg.solve(precision, (from_told @ (told - rest))[..., None])[..., 0]
        return np.broadcast_to(centre, (len(within), len(told))), precision


def estimate_of(moments: Float[np.ndarray, "q q"], noisy: NoisyMoments) -> Estimate:
    """Return effects and covariance of moments of everybody."""
    p, people = noisy.ball.p, noisy.people
    effects = moments[:p, p:] @ np.linalg.pinv(moments[p:, p:], rcond=1e-9, hermitian=True)
    return effects, _possible((moments[:p, :p] - effects @ moments[p:, :p]) / people, noisy)


def _observed(average: PeopleWithGaps) -> Estimate:
    """Return effects and covariance of what is observed, column by column and pair by pair."""
    noisy = average.noisy
    ball, p = noisy.ball, noisy.ball.p
    prior = np.diag(ball.code_sizes**2)
    effects = np.linalg.solve(average.own[0] + prior, noisy.matrix[:p, p:, None])[..., 0]
    explained = np.einsum("jr,jlrs,ls->jl", effects, average.both[0], effects, optimize=True)
    people = noisy.people * average.share[0] + 1
    return effects, _possible((noisy.matrix[:p, :p] - explained + ball.spread**2 * np.eye(p)) / people, noisy)


def _possible(covariance: Float[np.ndarray, "p p"], noisy: NoisyMoments) -> Float[np.ndarray, "p p"]:
    """Return the nearest covariance that records in the ball can have."""
    values, axes = np.linalg.eigh(0.5 * (covariance + covariance.T))
    ball = noisy.ball
    return (axes * np.clip(values, LEAST_SPREAD * ball.spread**2, ball.radius**2)) @ axes.T
