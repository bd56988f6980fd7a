"""Measurements given covariates: the conjugate regression, of which the normal-inverse-Wishart model is a case."""

from dataclasses import dataclass
from math import log, pi
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import multigammaln

from allbutone.model.distributions import StudentT
from allbutone.model.niw import NIW
from allbutone.support.arrays import (
    array_namespace,
    cholesky,
    half_log_det,
    real_array,
    solve_rows,
    squared_length,
    to_numpy,
)
from allbutone.support.errors import InputError

Array = Any


@dataclass(frozen=True, eq=False)
class Regression:
    """x | z ~ N(Bᵀz, Σ) with B | Σ ~ MN(B₀, K⁻¹, Σ), Σ ~ IW(Λ, ν): p measurements x given r covariates z.

    Fields: `coefficients` B₀, `root` R with K = RᵀR (r, r), `df` ν, `scale` Λ. R counts what is known of B in
    records, in units of Σ, and may be 0 where nothing is: then the model is a prior, known only by its posteriors.
    The normal model is z = 1 with R = √κ. Given z, (Bᵀz, Σ) is an `NIW` (`at`); all else follows from that.
    """

    coefficients: Float[Array, "r p"]
    root: Float[Array, "r r"]
    df: float
    scale: Float[Array, "p p"]

    @classmethod
    def flat(cls, covariates: int, p: int) -> "Regression":
        """Return the prior that says nothing: p(B, Σ) ∝ |Σ|^(−(p+1)/2), so ν = −r; proper after r + p records."""
        return cls(
            np.zeros((covariates, p)), np.zeros((covariates, covariates)), -float(covariates), np.zeros((p, p))
        )

    @classmethod
    def flat_intercept(cls, covariates: int, p: int) -> "Regression":
        """Return the prior that has no units and is soon proper: the first covariate, always 1, and Σ are flat.

        All other effects are N(0, Σ): a covariate that is 0 or 1 moves a column by about a standard deviation. So
        a level that only one person has, whom the others lack, still has a predictive.
        """
        known = np.diag(np.append(0.0, np.ones(covariates - 1)))
        return cls(np.zeros((covariates, p)), known, -1.0, np.zeros((p, p)))

    @classmethod
    def of_normal(cls, prior: NIW) -> "Regression":
        """Return the normal model as a regression on z = 1."""
        root = np.atleast_2d(np.sqrt(to_numpy(prior.mean_weight)))
        return cls(prior.mean[None, :], root, float(prior.df), prior.scale)

    @property
    def p(self) -> int:
        """The number of measurements."""
        return int(self.coefficients.shape[1])

    @property
    def covariates(self) -> int:
        """The number of covariates."""
        return int(self.coefficients.shape[0])

    def update(self, records: Any, covariates: Any) -> "Regression":
        """Return the posterior given records (n, p) and their covariates (n, r).

        K′ = K + ZᵀZ,  B′ = K′⁻¹(KB + ZᵀX),  ν′ = ν + n,  Λ′ = Λ + (X − ZB′)ᵀ(X − ZB′) + (B′ − B)ᵀK(B′ − B)

        All by one QR decomposition of (R; Z): K′ is never formed, so no digits are lost to squares.
        """
        values, known = real_array(records, "records"), real_array(covariates, "covariates")
        n = values.shape[0] if values.ndim else 0
        if tuple(values.shape) != (n, self.p) or tuple(known.shape) != (n, self.covariates):
            raise InputError(
                f"records have shape (n, {self.p}) and covariates (n, {self.covariates}), got "
                f"{tuple(values.shape)} and {tuple(known.shape)}"
            )
        xp = array_namespace(values, known, self.coefficients)
        rows = xp.concat([self.root, known])
        basis, root = xp.linalg.qr(rows)
        if not _is_regular(root):
            raise InputError(
                "the records do not tell the covariates' effects apart: one is determined by others",
                "leave it out",
                "start from Regression.flat_intercept",
            )
        targets = xp.concat([self.root @ self.coefficients, values])
        coefficients = xp.linalg.solve(root, basis.T @ targets)
        left = targets - rows @ coefficients
        return Regression(coefficients, root, self.df + n, self.scale + left.T @ left)

    def is_told_by(self, covariates: Float[Array, "n r"]) -> bool:
        """Say whether records with these covariates tell all effects apart."""
        xp = array_namespace(covariates, self.root)
        _, root = xp.linalg.qr(xp.concat([self.root, covariates]))
        return _is_regular(root)

    def at(self, covariates: Any) -> NIW:
        """Return the distribution of mean and covariance of a record with covariates z: an NIW; batch axes lead.

        Bᵀz | Σ ~ N(B₀ᵀz, h·Σ), h = zᵀK⁻¹z, so mean B₀ᵀz, mean_weight 1/h, df ν and scale Λ.
        """
        known = self._covariates(covariates)
        xp, white = array_namespace(known, self.coefficients), self._whiten(known)
        weight = 1 / xp.sum(white * white, axis=-1)
        return NIW(known @ self.coefficients, weight if known.ndim > 1 else float(weight), self.df, self.scale)

    def without_each(
        self, records: Float[Array, "n p"], covariates: Float[Array, "n r"], candidates: Float[Array, "n r"]
    ) -> NIW:
        """Return, for each of the records (x, z) in this posterior, what the others say at a candidate's z̃.

        With residual e = x − Bᵀz, h = zᵀK⁻¹z, g = z̃ᵀK⁻¹z and h̃ = z̃ᵀK⁻¹z̃, without the record
        Bᵀz̃ loses g·e/(1 − h), h̃ gains g²/(1 − h), Λ loses eeᵀ/(1 − h), and ν loses 1.
        """
        xp = array_namespace(records, self.coefficients)
        own, other = self._whiten(self._covariates(covariates)), self._whiten(self._covariates(candidates))
        left = 1 - xp.sum(own * own, axis=-1)
        cross = xp.sum(own * other, axis=-1)
        away = records - covariates @ self.coefficients
        mean = candidates @ self.coefficients - (cross / left)[:, None] * away
        spread = xp.sum(other * other, axis=-1) + cross**2 / left
        scale = self.scale - (away / left[:, None])[:, :, None] * away[:, None, :]
        return NIW(mean, 1 / spread, self.df - 1, (scale + xp.matrix_transpose(scale)) / 2)

    def hat(self, records: Float[Array, "n p"], covariates: Float[Array, "n r"]) -> Float[Array, " n"]:
        """Return how much of its own direction each record supplies: 1 − (1 − h)(1 − eᵀΛ⁻¹e/(1 − h))."""
        xp, own = array_namespace(records), self._whiten(self._covariates(covariates))
        away = records - covariates @ self.coefficients
        return xp.sum(own * own, axis=-1) + squared_length(cholesky(self.scale, "scale"), away)

    def _covariates(self, covariates: Any) -> Float[Array, "*n r"]:
        known = real_array(covariates, "covariates")
        if known.ndim == 0 or known.shape[-1] != self.covariates:
            raise InputError(f"covariates are {self.covariates} values, got shape {tuple(known.shape)}")
        return known

    def _whiten(self, covariates: Float[Array, "*n r"]) -> Float[Array, "*n r"]:
        """Return R⁻ᵀz, whose squared length is h = zᵀK⁻¹z."""
        self._require_proper()
        return solve_rows(self.root.T, covariates)

    def predictive(self, covariates: Any) -> StudentT:
        """Return the distribution of the next record with covariates z: T_δ(B₀ᵀz, (1 + h)/δ·Λ), δ = ν − p + 1."""
        return self.at(covariates).predictive()

    def log_evidence(self, records: Any, covariates: Any) -> float:
        """Return log p(X | Z), normalised; this model must be proper.

        −½np·log π + log Γ_p(ν′/2) − log Γ_p(ν/2) + ½ν·log|Λ| − ½ν′·log|Λ′| + ½p·(log|K| − log|K′|)
        """
        self._require_proper()
        after = self.update(records, covariates)
        before, later = (cholesky(each.scale, "scale") for each in (self, after))
        gammas = multigammaln(after.df / 2, self.p) - multigammaln(self.df / 2, self.p)
        scales = self.df * half_log_det(before) - after.df * half_log_det(later)
        weights = self.p * (_log_size(self.root) - _log_size(after.root))
        return float(gammas + scales + weights - 0.5 * (after.df - self.df) * self.p * log(pi))

    def draw(
        self, rng: np.random.Generator, count: int
    ) -> tuple[Float[np.ndarray, "count r p"], Float[np.ndarray, "count p p"]]:
        """Draw `count` pairs (B, Σ): with Σ = FFᵀ, B = B₀ + R⁻¹·N(0, I)·Fᵀ."""
        shape = (count, self.covariates, self.p)
        _, roots = NIW(np.zeros(self.p), 1.0, self.df, self.scale).draw_roots(rng, count)
        away = np.linalg.solve(to_numpy(self.root), rng.standard_normal(shape)) @ roots.swapaxes(-1, -2)
        return to_numpy(self.coefficients) + away, roots @ roots.swapaxes(-1, -2)

    def _require_proper(self) -> None:
        if not _is_regular(self.root):
            raise InputError("a flat prior predicts nothing", "update it with records first")


def _is_regular(root: Float[Array, "r r"]) -> bool:
    """Say whether every effect is known of: no pivot vanishes beside its column."""
    size = np.sqrt(np.sum(to_numpy(root) ** 2, axis=0))
    return bool(np.all(np.abs(np.diagonal(to_numpy(root))) > 1e-12 * size) and np.all(size > 0))


def _log_size(root: Float[Array, "r r"]) -> float:
    """Return ½·log|K|, K = RᵀR."""
    return float(np.sum(np.log(np.abs(np.diagonal(to_numpy(root))))))
