"""The adversary of plug-in synthesizers: a normal is fitted to the table once, and rows are drawn from the fit."""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

from allbutone.adversary.leave_one_out import BLOCK_ROWS, MOST_HAT
from allbutone.adversary.log_quadratic import LogQuadratic
from allbutone.model.moments import Moments
from allbutone.support.arrays import append_axes, cholesky, eigh_or_nan, half_log_det, solve_rows

HALVINGS = 64  # of a bracket of 300 in the logarithm: to rounding
SCATTER = "the scatter of the other records"
FAINT = 1e-100  # a component that breaks a tie and moves nothing


@dataclass(frozen=True, eq=False)
class PlugInPosterior(LogQuadratic):
    """The log posterior of the missing one of n records when N rows come from the normal fitted to all n.

        ℓ(v) = ½·[ a·log(1 + c‖v‖²) + (vᵀKv + 2kᵀv)/(1 + c‖v‖²) ],   a = −(N + n − 1)

    In the coordinates v the other records' scatter is the identity. `numerator` K and `slope` k are what the
    released rows' scatter and mean say of the record (docs/theory.md, section 8). NumPy only.
    """

    numerator: Float[np.ndarray, "*#batch p p"] = field(kw_only=True)
    slope: Float[np.ndarray, "*#batch p"] = field(kw_only=True)

    @property
    def falls_as_a_power(self) -> bool:
        """Whether the tails are a Student t's: they are, the fraction tends to a constant."""
        return True

    @property
    def closed_form(self) -> None:
        """No distribution that has a name."""

    def added_terms(self, white: Float[np.ndarray, "*batch n p"]) -> Float[np.ndarray, "*batch n"]:
        """Return ½(vᵀKv + 2kᵀv)/(1 + c‖v‖²) at n points of each posterior."""
        bent = np.vecdot(white, white @ self.numerator + 2 * self.slope[..., None, :])
        grown = 1 + np.asarray(self.inflation)[..., None] * np.vecdot(white, white)
        return 0.5 * bent / grown

    def value(self, white: Float[np.ndarray, "*points p"]) -> Float[np.ndarray, "*points"]:
        """Return ℓ(v)."""
        return super().value(white) + self.added_terms(white[..., None, :])[..., 0]

    def local(
        self, white: Float[np.ndarray, "*points p"]
    ) -> tuple[Any, Float[np.ndarray, "*points p"], Float[np.ndarray, "*points p p"]]:
        """Return value, gradient and Hessian of ℓ at v.

        With f = (vᵀKv + 2kᵀv)/g, g = 1 + c‖v‖² and h = (Kv + k − c·f·v)/g, half of f adds to them
        ½f,  h  and  (K − c·f·I − 2c·(vhᵀ + hvᵀ))/g
        """
        value, gradient, hessian = super().local(white)
        turned = (self.numerator @ white[..., None])[..., 0]
        grown = 1 + self.inflation * np.vecdot(white, white)
        share = np.vecdot(white, turned + 2 * self.slope) / grown
        pulled = turned + self.slope - (self.inflation * share)[..., None] * white
        slope = pulled / grown[..., None]
        crossed = white[..., :, None] * slope[..., None, :]
        bend = self.numerator - append_axes(self.inflation * share, 2) * np.eye(self.p)
        bend = bend - 2 * append_axes(self.inflation, 2) * (crossed + crossed.mT)
        return value + 0.5 * share, gradient + slope, hessian + bend / append_axes(grown, 2)

    def near_maximum(self) -> Float[np.ndarray, "*batch p"]:
        """Return the global maximiser, exactly.

        On a sphere the best v is (τ − K)⁻¹k with τ above K's largest eigenvalue κ₁. Where ∇ℓ = 0,

            τ = −a·c·(1 + c‖v‖²) + c·kᵀv

        whose left side rises and whose right side falls in τ: one root, no second maximum to be trapped in. It is
        sought over log(τ − κ₁). If k has no component on the first eigenvector the two modes tie.
        """
        kappa, vectors = eigh_or_nan(self.numerator)
        beta = (vectors.mT @ self.slope[..., None])[..., 0]
        size = np.max(np.abs(beta), axis=-1) + np.sqrt(np.max(np.abs(kappa), axis=-1)) + 1e-100
        last = np.where(np.abs(beta[..., -1]) > FAINT * size, beta[..., -1], FAINT * size)
        beta = np.concatenate([beta[..., :-1], last[..., None]], axis=-1)
        below, first = kappa[..., -1:] - kappa, kappa[..., -1]
        weight, c = -self.outward * self.inflation, self.inflation
        length = np.sum(beta * beta, axis=-1)
        # beyond this the left side is the larger
        most = 2 * (np.abs(first) + weight) + np.cbrt(4 * c * weight * length) + 2 * np.sqrt(c * length)
        high = np.log(most)
        low = high - 300
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            v = beta / (below + np.exp(middle)[..., None])
            right = weight * (1 + c * np.vecdot(v, v)) + c * np.vecdot(beta, v)
            less = first + np.exp(middle) < right
            low, high = np.where(less, middle, low), np.where(less, high, middle)
        return (vectors @ (beta / (below + np.exp((low + high) / 2)[..., None]))[..., None])[..., 0]

    def given(self, known: tuple[int, ...], values: Float[np.ndarray, "*batch known"]) -> "PlugInPosterior":
        """Return the posterior of the other features when these have these values: of the same family.

        With v = v₀ + Tz, e = 1 + c‖v₀‖² and f = v₀ᵀKv₀ + 2kᵀv₀: K ← (TᵀKT − (f·c/e)I)/e, k ← Tᵀ(k + Kv₀)/e.
        """
        start, across = self.split(known, values)
        turned = (self.numerator @ start[..., None])[..., 0]
        grown = 1 + self.inflation * np.vecdot(start, start)
        level = np.vecdot(start, turned + 2 * self.slope) * self.inflation / grown
        numerator = across.mT @ self.numerator @ across - append_axes(level, 2) * np.eye(across.shape[-1])
        slope = (across.mT @ (self.slope + turned)[..., None])[..., 0]
        rest = super().given(known, values)
        return PlugInPosterior(
            **{each.name: getattr(rest, each.name) for each in fields(rest)},
            numerator=numerator / append_axes(grown, 2),
            slope=slope / append_axes(grown, 1),
        )


@dataclass(frozen=True, eq=False)
class PlugInTable:
    """The attacks on all n records of a table to which a normal was fitted, and from which rows were drawn.

    The fit: the records' mean, and their scatter over `divisor`, which is n or n − 1.
    """

    records: Float[np.ndarray, "n p"]
    released: Moments
    divisor: float
    device: None = None  # on the processor alone

    @cached_property
    def whole(self) -> Moments:
        """The moments of all records: what was fitted."""
        return Moments.of(self.records)

    def blocks(self, known: tuple[int, ...], rows: np.ndarray) -> Iterator[tuple[np.ndarray, tuple[int, ...]]]:
        """Cut rows that share their known features into blocks."""
        yield from ((rows[start : start + BLOCK_ROWS], known) for start in range(0, len(rows), BLOCK_ROWS))

    def targets(self, rows: np.ndarray) -> Float[np.ndarray, "b p"]:
        """Return some of the records."""
        return self.records[rows]

    def problem(self, rows: np.ndarray, known: tuple[int, ...]) -> PlugInPosterior:
        """Return the posteriors of a block of records, each given all others and the released rows."""
        posterior = posterior_after_rows(self._others(rows), self.released, self.divisor)
        return posterior.given(known, self.records[rows][:, list(known)]) if known else posterior

    def _others(self, rows: np.ndarray) -> Moments:
        """Return the moments of the others of each record: by a downdate, or anew where that would cost digits."""
        others = self.whole.remove(self.records[rows])
        for place in np.flatnonzero(self.hat[rows] > MOST_HAT):
            alone = Moments.of(np.delete(self.records, rows[place], axis=0))
            others.mean[place], others.scatter[place] = alone.mean, alone.scatter
            others.mean_tail[place] = alone.mean_tail  # type: ignore[index]
        return others

    def evidence(self, rows: np.ndarray) -> Float[np.ndarray, " b"]:
        """Return how much likelier the released rows are with each of these people in the table than without.

        log p(Z | m, S/D) − log p(Z | m₋, S₋/(D − 1)),   D being n or n − 1
        """
        without = log_likelihood(self.released, self._others(rows), self.divisor - 1)
        return log_likelihood(self.released, self.whole, self.divisor) - without

    @cached_property
    def hat(self) -> Float[np.ndarray, " n"]:
        """The hat values (n/(n−1))·δᵀS⁻¹δ: the share of its direction that a record supplies."""
        white = solve_rows(cholesky(self.whole.scatter, SCATTER), self.records - self.whole.mean)
        return self.whole.count / (self.whole.count - 1) * np.vecdot(white, white)


def log_likelihood(released: Moments, fit: Moments, divisor: float) -> Any:
    """Return the log likelihood of N rows under normals of such means and scatters, without its constant.

    −½·[ N·log|S/D| + D·tr(S⁻¹S_Z) + N·D·(z̄ − m)ᵀS⁻¹(z̄ − m) ]
    """
    root, rows = cholesky(fit.scatter, SCATTER), released.count
    lean = solve_rows(root, (released.mean - fit.mean) + (released.mean_tail - fit.mean_tail))
    white = np.linalg.solve(root, np.linalg.solve(root, released.scatter).mT)
    apart = np.trace(white, axis1=-2, axis2=-1) + rows * np.vecdot(lean, lean)
    return -rows * half_log_det(root / divisor**0.5) - 0.5 * divisor * apart


def posterior_after_rows(others: Moments, released: Moments, divisor: float) -> PlugInPosterior:
    """Return the posterior of the record missing from n records when rows of the fitted normal are released.

    With d = x − m₋ the fit has the mean m₋ + d/n and the scatter S₋ + c·ddᵀ, c = (n−1)/n; S₋ = CCᵀ, d = Cv. For N
    rows of mean z̄ and scatter S_Z put W = C⁻¹S_Z C⁻ᵀ, u = C⁻¹(z̄ − m₋), and D for the divisor. By Sherman and
    Morrison their likelihood is

        −N·log(1 + c‖v‖²) + (vᵀKv + 2kᵀv)/(1 + c‖v‖²),   K = D·c·(W + N·uuᵀ) − (D·N/n²)·I,   k = (D·N/n)·u

    twice the logarithm, without constants. The adversary's own belief is the Student t of the others under the
    reference prior, −(n−1)·log(1 + c‖v‖²).
    """
    n, rows, p = others.count + 1, released.count, others.mean.shape[-1]
    share = (n - 1) / n
    root = cholesky(others.scatter, SCATTER)
    apart = (released.mean - others.mean) + (released.mean_tail - others.mean_tail)
    lean = solve_rows(root, apart)
    half = np.linalg.solve(root, released.scatter)
    white = np.linalg.solve(root, half.mT) + rows * lean[..., :, None] * lean[..., None, :]
    return PlugInPosterior(
        centre=others.mean,
        root=root,
        df=n - 2,
        outward=-(rows + n - 1),
        inflation=share,
        numerator=divisor * (share * (white + white.mT) / 2 - rows / n**2 * np.eye(p)),
        slope=divisor * rows / n * lean,
    )
