"""Releases drawn as the adversary sees them: sufficient statistics only, where leverage is all there is.

Whitened by the adversary's own Λ and turned so that the record lies on the last axis, the model given the others
is NIW(0, κ, ν, I) and the record √(q/c)·e_p. The model that the release is drawn from is NIW(l, κ′, ν′, D²), with
l = √(q/c)·e_p/κ′ and D = diag(1, …, 1, √(1 + q)): of the record only the leverage q is left.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from allbutone.adversary.build import from_parameters
from allbutone.adversary.log_quadratic import LogQuadratic
from allbutone.disclosure.exposure_law import ExposureLaw
from allbutone.model.niw import NIW

AT_ONCE = 1 << 19  # numbers in the wells that are held at a time: what a processor keeps close
Triangle = Float[np.ndarray, "p p m"]


def releases_at_once(law: ExposureLaw, count: int) -> int:
    """Return how many releases to draw and attack at a time."""
    return max(1, AT_ONCE // ((1 if law.rows is None else count) * law.p**2))


@dataclass(frozen=True, eq=False)
class SimulatedReleases:
    """The random part of some releases of `count` draws or datasets, the same for a record of any leverage.

    `precision` P and `scatter` T are lower triangles, `noise` ε is standard normal; the last axis runs over the
    replicates, and within each over its datasets. Released parameters need one triangle for all draws.
    """

    law: ExposureLaw
    count: int
    replicates: int
    noise: Float[np.ndarray, "p m"]
    precision: Triangle
    scatter: Triangle | None

    @classmethod
    def of(cls, law: ExposureLaw, count: int, replicates: int, rng: np.random.Generator) -> "SimulatedReleases":
        """Draw sufficient statistics, not records.

        Released parameters are seen only through A ~ W(n_θν′, D⁻²) and b | A ~ N(Al, A/κ′): one Wishart and one
        normal draw replace n_θ of each.
        """
        p, df, axes = law.p, law.df + 1, np.arange(float(law.p))
        size = replicates * (1 if law.rows is None else count)
        noise = rng.standard_normal((p, size))
        if law.rows is None:
            return cls(law, count, replicates, noise, triangle(rng, count * df - axes[::-1], size), None)
        precision = triangle(rng, df - axes[::-1], size)
        return cls(law, count, replicates, noise, precision, triangle(rng, law.rows - 1 - axes, size))

    def problem(self, leverage: Any) -> tuple[LogQuadratic, Float[np.ndarray, "r p"]]:
        """Return the posteriors of records of this leverage (one for all, or one a replicate), and the records."""
        p, kappa = self.law.p, self.law.mean_weight
        leverage = np.broadcast_to(np.asarray(leverage, dtype=float), (self.replicates,))
        truth = np.zeros((self.replicates, p))
        truth[:, -1] = np.sqrt(leverage * (kappa + 1) / kappa)
        lean, shrink = truth[:, -1] / (kappa + 1), 1 / np.sqrt(1 + leverage)
        whole = self._after_parameters if self.scatter is None else self._after_datasets
        return whole(lean, shrink), truth

    def _after_parameters(self, lean: Float[np.ndarray, " r"], shrink: Float[np.ndarray, " r"]) -> LogQuadratic:
        """Return the quadratic of A = CCᵀ, C = D⁻¹Pᵀ, where PᵀP ~ W(n_θν′, I), and b = Al + Cε/√κ′."""
        p, kappa = self.law.p, self.law.mean_weight
        root = self.precision.T.copy()
        root[:, -1, -1] *= shrink
        pushed = root[:, -1] * lean[:, None] + self.noise.T / np.sqrt(kappa + 1)
        pull = (root @ pushed[..., None])[..., 0]
        given_others = NIW(np.zeros((self.replicates, p)), kappa, self.law.df, np.eye(p))
        return from_parameters(given_others, np.eye(p), self.count, root @ root.swapaxes(1, 2), pull)

    def _after_datasets(self, lean: Float[np.ndarray, " r"], shrink: Float[np.ndarray, " r"]) -> LogQuadratic:
        """Return the wells hⱼ(x − rⱼ)ᵀBⱼ⁻¹(x − rⱼ), all datasets at once.

        A dataset's scatter is (FT)(FT)ᵀ and its mean l + √g·Fε, with F = D·P⁻¹ and g = 1/κ′ + 1/n_z. So with
        R = F⁻¹ = PD⁻¹, which differs from P in one entry, and f = R·z̄ = Rl + √g·ε, the posterior of the others and
        the dataset has B = R⁻¹KR⁻ᵀ, K = RRᵀ + TTᵀ + ηffᵀ, η = κn_z/(κ + n_z). From K = LLᵀ and Y = L⁻¹[R f] follow
        B⁻¹ = YᵣᵀYᵣ, B⁻¹z̄ = YᵣᵀY_f and z̄ᵀB⁻¹z̄ = Y_fᵀY_f.
        """
        p, kappa, df, rows = self.law.p, self.law.mean_weight, self.law.df + 1, self.law.rows
        assert rows is not None
        assert self.scatter is not None
        stacked = np.empty((p, p + 1, self.noise.shape[1]))
        stacked[:, :p] = self.precision
        stacked[:, p] = np.sqrt(1 / (kappa + 1) + 1 / rows) * self.noise
        stacked[-1, p - 1] *= np.repeat(shrink, self.count)
        stacked[-1, p] += stacked[-1, p - 1] * np.repeat(lean, self.count)
        height, share, batch = 1 - 1 / (kappa + rows + 1), rows / (kappa + rows), (self.replicates, self.count)
        white = _whitened(stacked, self.scatter, kappa * rows / (kappa + rows))
        white *= np.sqrt(height)
        root, f = np.moveaxis(white[:, :p], 2, 0).copy(), share * white[:, p].T
        # a copy: NumPy would take AᵀA for a case of its own, which is slower for small matrices
        turned = root.swapaxes(1, 2).copy()
        return LogQuadratic(
            centre=np.zeros((self.replicates, p)),
            root=np.eye(p),
            df=self.law.df,
            outward=(self.count - 1) * df,
            inflation=kappa / (kappa + 1),
            precision=np.zeros((p, p)),
            pull=np.zeros(p),
            weights=np.full(self.count, df + rows),
            levels=(1 + np.sum(f * f, axis=1)).reshape(batch),
            slopes=(turned @ f[..., None]).reshape(*batch, p),
            shapes=(turned @ root).reshape(*batch, p, p),
        )


def triangle(rng: np.random.Generator, df: Float[np.ndarray, " p"], size: int) -> Triangle:
    """Draw lower triangles T by Bartlett: χ(dfᵢ) on the diagonal, standard normal below it.

    TTᵀ ~ W(m, I) if dfᵢ = m − i, TᵀT if dfᵢ = m − p + 1 + i, i from 0. With m < p only m columns are not zero.
    """
    triangle = np.zeros((len(df), len(df), size))
    for row, degrees in enumerate(df):
        below = min(row, int(np.sum(df > 0)))
        triangle[row, :below] = rng.standard_normal((below, size))
        if degrees > 0:
            triangle[row, row] = np.sqrt(rng.chisquare(degrees, size))
    return triangle


def _whitened(
    stacked: Float[np.ndarray, "p p+1 m"], scatter: Triangle, eta: float
) -> Float[np.ndarray, "p p+1 m"]:
    """Turn [R f] into L⁻¹[R f], where LLᵀ = RRᵀ + TTᵀ + ηffᵀ; in place.

    Cholesky and forward substitution, row by row for all matrices at once: for small ones several times faster
    than LAPACK, which is called once a matrix.
    """
    p = len(stacked)
    lower, root, f = np.empty_like(scatter), stacked[:, :p], stacked[:, p]
    for i in range(p):
        upto = slice(i + 1)
        column = np.einsum("jkm,km->jm", root[i:, upto], root[i, upto])
        column += np.einsum("jkm,km->jm", scatter[i:, upto], scatter[i, upto])
        column += eta * f[i] * f[i:]
        column -= np.einsum("jkm,km->jm", lower[i:, :i], lower[i, :i])
        scale = 1 / np.sqrt(column[0])
        lower[i:, i] = column * scale
        # rows above i are done, so this is row i of L⁻¹[R f]; no row below has been touched
        root[i, :i] -= np.einsum("km,kjm->jm", lower[i, :i], root[:i, :i])
        f[i] -= np.einsum("km,km->m", lower[i, :i], f[:i])
        stacked[i] *= scale
    return stacked
