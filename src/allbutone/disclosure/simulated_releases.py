"""Releases drawn as the adversary sees them: sufficient statistics only, where leverage is all there is.

Whitened by the adversary's own Λ and turned so that the record lies on the last axis, the model given the others
is NIW(0, κ, ν, I) and the record √(q/c)·e_p. The model that the release is drawn from is NIW(l, κ′, ν′, D²), with
l = √(q/c)·e_p/κ′ and D = diag(1, …, 1, √(1 + q)): of the record only the leverage q is left.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from array_api_compat import device
from jaxtyping import Float

from allbutone.adversary.build import from_parameters
from allbutone.adversary.log_quadratic import LogQuadratic
from allbutone.disclosure.exposure_law import ExposureLaw
from allbutone.model.niw import NIW
from allbutone.support.arrays import (
    append_axes,
    array_namespace,
    as_array,
    contiguous,
    eye,
    sum_of_products,
    zeros,
)

Array = Any
Stream = Any  # of random numbers: np.random.Generator, or several of them on a device (support.devices)

AT_ONCE = 1 << 19  # numbers in the wells that are held at a time: what a processor keeps close
Triangle = Float[Array, "p p m"]


def releases_at_once(law: ExposureLaw, count: int) -> int:
    """Return how many releases to draw and attack at a time."""
    return max(1, AT_ONCE // ((1 if law.rows is None else count) * law.p**2))


@dataclass(frozen=True, eq=False)
class SimulatedReleases:
    """The random part of some releases of `count` draws or datasets, the same for a record of any leverage.

    `precision` P and `scatter` T are lower triangles, `noise` ε is standard normal; the last axis runs over the
    replicates, and within each over its datasets. Released parameters need one triangle for all draws.
    After several laws, drawn from as many streams, the law's numbers (and a count of draws) are one a replicate.
    """

    law: ExposureLaw
    count: Any
    replicates: int
    noise: Float[Array, "p m"]
    precision: Triangle
    scatter: Triangle | None

    @classmethod
    def of(cls, law: ExposureLaw, count: Any, replicates: int, rng: Stream) -> "SimulatedReleases":
        """Draw sufficient statistics, not records.

        Released parameters are seen only through A ~ W(n_θν′, D⁻²) and b | A ~ N(Al, A/κ′): one Wishart and one
        normal draw replace n_θ of each. `law` may hold several laws' numbers (and `count` those of draws), where
        `rng` is as many streams: then there are so many replicates of each.
        """
        p, df, axes = law.p, append_axes(law.df + 1, 1), np.arange(float(law.p))
        size = replicates * (1 if law.rows is None else count)
        noise = normals(rng, (p, size), axis=1)
        if law.rows is None:
            precision, scatter = triangle(rng, append_axes(count, 1) * df - axes[::-1], size), None
        else:
            precision = triangle(rng, df - axes[::-1], size)
            scatter = triangle(rng, append_axes(law.rows, 1) - 1 - axes, size)

        def each(number: Any) -> Any:
            several = isinstance(number, np.ndarray)
            return as_array(np.repeat(1.0 * number, replicates), like=noise) if several else number

        numbers = {name: each(getattr(law, name)) for name in ("mean_weight", "df", "rows")}
        every = noise.shape[1] // (1 if law.rows is None else count)
        return cls(replace(law, **numbers), each(count), every, noise, precision, scatter)

    def problem(self, leverage: Any) -> tuple[LogQuadratic, Float[Array, "r p"]]:
        """Return the posteriors of records of this leverage (one for all, or one a replicate), and the records."""
        xp, p, kappa = array_namespace(self.noise), self.law.p, self.law.mean_weight
        leverage = xp.astype(as_array(leverage, like=self.noise), xp.float64, copy=False)
        leverage = xp.broadcast_to(leverage, (self.replicates,))
        truth = zeros((self.replicates, p), like=self.noise)
        truth[:, -1] = xp.sqrt(leverage * (kappa + 1) / kappa)
        lean, shrink = truth[:, -1] / (kappa + 1), 1 / xp.sqrt(1 + leverage)
        whole = self._after_parameters if self.scatter is None else self._after_datasets
        return whole(lean, shrink), truth

    def _after_parameters(self, lean: Float[Array, " r"], shrink: Float[Array, " r"]) -> LogQuadratic:
        """Return the quadratic of A = CCᵀ, C = D⁻¹Pᵀ, where PᵀP ~ W(n_θν′, I), and b = Al + Cε/√κ′."""
        xp, p, kappa = array_namespace(self.noise), self.law.p, self.law.mean_weight
        root = contiguous(xp.permute_dims(self.precision, (2, 1, 0)))
        root[:, -1, -1] *= shrink
        pushed = root[:, -1, :] * lean[:, None] + self.noise.T / append_axes((kappa + 1) ** 0.5, 1)
        pull = (root @ pushed[..., None])[..., 0]
        unit = eye(p, like=root)
        given_others = NIW(zeros((self.replicates, p), like=root), kappa, self.law.df, unit)
        return from_parameters(given_others, unit, self.count, root @ xp.matrix_transpose(root), pull)

    def _after_datasets(self, lean: Float[Array, " r"], shrink: Float[Array, " r"]) -> LogQuadratic:
        """Return the wells hⱼ(x − rⱼ)ᵀBⱼ⁻¹(x − rⱼ), all datasets at once.

        A dataset's scatter is (FT)(FT)ᵀ and its mean l + √g·Fε, with F = D·P⁻¹ and g = 1/κ′ + 1/n_z. So with
        R = F⁻¹ = PD⁻¹, which differs from P in one entry, and f = R·z̄ = Rl + √g·ε, the posterior of the others and
        the dataset has B = R⁻¹KR⁻ᵀ, K = RRᵀ + TTᵀ + ηffᵀ, η = κn_z/(κ + n_z). From K = LLᵀ and Y = L⁻¹[R f] follow
        B⁻¹ = YᵣᵀYᵣ, B⁻¹z̄ = YᵣᵀY_f and z̄ᵀB⁻¹z̄ = Y_fᵀY_f.
        """
        xp, p, count, kappa = array_namespace(self.noise), self.law.p, self.count, self.law.mean_weight
        df, rows, batch = self.law.df + 1, self.law.rows, (self.replicates, count)
        assert rows is not None
        assert self.scatter is not None
        each = self._each_dataset
        stacked = xp.empty((p, p + 1, self.noise.shape[1]), dtype=xp.float64, device=device(self.noise))
        stacked[:, :p, :] = self.precision
        stacked[:, p, :] = each((1 / (kappa + 1) + 1 / rows) ** 0.5) * self.noise
        stacked[-1, p - 1, :] *= each(shrink)
        stacked[-1, p, :] += stacked[-1, p - 1, :] * each(lean)
        height, share = 1 - 1 / (kappa + rows + 1), rows / (kappa + rows)
        white = _whitened(stacked, self.scatter, each(kappa * rows / (kappa + rows)))
        white *= each(height**0.5)
        root, f = contiguous(xp.moveaxis(white[:, :p, :], 2, 0)), (each(share) * white[:, p, :]).T
        # a copy: NumPy would take AᵀA for a case of its own, which is slower for small matrices
        turned = contiguous(xp.matrix_transpose(root))
        return LogQuadratic(
            centre=zeros((self.replicates, p), like=root),
            root=eye(p, like=root),
            df=self.law.df,
            outward=(count - 1) * df,
            inflation=kappa / (kappa + 1),
            precision=zeros((p, p), like=root),
            pull=zeros(p, like=root),
            weights=zeros(count, like=root) + append_axes(df + rows, 1),
            levels=xp.reshape(1 + xp.sum(f * f, axis=1), batch),
            slopes=xp.reshape(turned @ f[..., None], (*batch, p)),
            shapes=xp.reshape(turned @ root, (*batch, p, p)),
        )

    def _each_dataset(self, numbers: Any) -> Any:
        """Return numbers, where there is one a replicate, as one a dataset."""
        xp = array_namespace(self.noise)
        return xp.repeat(numbers, self.count) if getattr(numbers, "ndim", 0) else numbers


def normals(rng: Stream, shape: tuple[int, ...], axis: int) -> Array:
    """Draw standard normal numbers; those of several streams one after the other along the axis."""
    if isinstance(rng, np.random.Generator):
        return rng.standard_normal(shape)
    return rng.normals(shape, axis)


def triangle(rng: Stream, df: Float[np.ndarray, "*streams p"], size: int) -> Triangle:
    """Draw lower triangles T by Bartlett: χ(dfᵢ) on the diagonal, standard normal below it.

    TTᵀ ~ W(m, I) if dfᵢ = m − i, TᵀT if dfᵢ = m − p + 1 + i, i from 0. With m < p only m columns are not zero.
    Several streams have a row of df each.
    """
    if not isinstance(rng, np.random.Generator):
        return rng.triangle(df, size)
    triangle = np.zeros((len(df), len(df), size))
    for row, degrees in enumerate(df):
        below = min(row, int(np.sum(df > 0)))
        triangle[row, :below] = rng.standard_normal((below, size))
        if degrees > 0:
            triangle[row, row] = np.sqrt(rng.chisquare(degrees, size))
    return triangle


def _whitened(stacked: Float[Array, "p p+1 m"], scatter: Triangle, eta: Any) -> Float[Array, "p p+1 m"]:
    """Turn [R f] into L⁻¹[R f], where LLᵀ = RRᵀ + TTᵀ + ηffᵀ; in place.

    Cholesky and forward substitution, row by row for all matrices at once: for small ones several times faster
    than LAPACK, which is called once a matrix.
    """
    xp, p = array_namespace(stacked), stacked.shape[0]
    lower, root, f = xp.empty_like(scatter), stacked[:, :p, :], stacked[:, p, :]
    for i in range(p):
        upto = slice(i + 1)
        column = sum_of_products(root[i:, upto, :], root[i, upto, :], axis=1)
        column += sum_of_products(scatter[i:, upto, :], scatter[i, upto, :], axis=1)
        column += eta * f[i, :] * f[i:, :]
        column -= sum_of_products(lower[i:, :i, :], lower[i, :i, :], axis=1)
        scale = 1 / xp.sqrt(column[0, :])
        lower[i:, i, :] = column * scale
        # rows above i are done, so this is row i of L⁻¹[R f]; no row below has been touched
        root[i, :i, :] -= sum_of_products(xp.permute_dims(root[:i, :i, :], (1, 0, 2)), lower[i, :i, :], axis=1)
        f[i, :] -= sum_of_products(lower[i, :i, :], f[:i, :], axis=0)
        stacked[i, :, :] *= scale
    return stacked
