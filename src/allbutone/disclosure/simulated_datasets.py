"""Released datasets drawn as the adversary sees them: of each dataset the scatter and the mean, never a record.

In the coordinates of `simulated_releases` a dataset's covariance is Σ ~ IW(D², ν′), its scatter is
S | Σ ~ W(n_z − 1, Σ) and its mean z̄ | Σ ~ N(l, gΣ), g = 1/κ′ + 1/n_z. Nothing but S and z̄ is seen, so Σ is
integrated out: S = D·S₀·D, and S₀, of density ∝ |S₀|^((n_z − p − 2)/2)·|I + S₀|^(−(ν′ + n_z − 1)/2), grows by a
column at a time. Let CCᵀ = I + S₋, S₋ the scatter of some columns given the next one. Then, with independent
A ~ χ²(a), B ~ χ²(b) and ε ~ N(0, I), the next column has the diagonal entry s = A/B and beside it √(s(1 + s))·Cw,
w = ε/√(A + B).

(I + S)⁻¹ = YᵀY grows by a column as well, Y → [(I + wwᵀ)^(−½)·Y, −ρw/√τ; 0, δ] with ρ² = A/(A + B) = 1 − δ² and
τ = 1 + wᵀw. With a = Yᵀw its blocks become YᵀY − aaᵀ/τ, −ρa/τ and δ² + ρ²wᵀw/τ: Y itself is never held, only
Yᵀ times the noise of later columns.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import device, is_numpy_array
from jaxtyping import Float

from allbutone.disclosure.exposure_law import ExposureLaw
from allbutone.support.arrays import append_axes, array_namespace, as_array, sum_of_products
from allbutone.support.streams import Stream, chi_squares, normals

Array = Any

# numbers in the matrices that a processor works on at a time, but not fewer datasets than that
AT_ONCE, LEAST = 1 << 17, 1024


@dataclass(frozen=True, eq=False)
class SimulatedDatasets:
    """The random part of m datasets, the same for a record of any leverage; the last axis runs over the datasets.

    The record lies on the last axis, so leverage enters with the last column alone. `inverse` is YᵀY = (I + S₋)⁻¹
    of all columns but that one, whose ε, A and B are `noise`, `scatter` and `precision`. `mean`: a vector t for z̄.
    `turned`: Yᵀ times ε, and times t without its last entry.
    """

    inverse: Float[Array, "t m"]
    noise: Float[Array, "q m"]
    scatter: Float[Array, " m"]
    precision: Float[Array, " m"]
    mean: Float[Array, "p m"]
    turned: Float[Array, "2 q m"]

    @classmethod
    def of(cls, law: ExposureLaw, size: int, rng: Stream) -> "SimulatedDatasets":
        """Draw so many datasets; `law` may hold the numbers of several laws, where `rng` is as many streams.

        The i-th column, i from 1, has a = n_z − 1 − p + i and b = ν′ + 1 − i; no scatter at all while a ≤ 0.
        """
        assert law.rows is not None
        p, df, rows = law.p, append_axes(law.df + 1, 1), append_axes(law.rows, 1)
        places = np.arange(1.0, p + 1)
        freedom = rows - 1 - p + places
        drawn = normals(rng, (p * (p + 1) // 2, size), axis=1)
        scatter, precision = chi_squares(rng, freedom, size), chi_squares(rng, df + 1 - places, size)
        spread = chi_squares(rng, df + rows - p + 0 * places[:1], size)
        xp = array_namespace(drawn)
        *noises, mean = (drawn[i * (i - 1) // 2 : i * (i + 1) // 2, :] for i in range(p + 1))
        mean /= xp.sqrt(spread)
        if np.any(freedom <= 0):
            noises = [xp.where(scatter[i, :] > 0, noise, 0.0) for i, noise in enumerate(noises)]
        inverse, turned = _grow(scatter[:-1, :], precision[:-1, :], [*noises, mean[:-1, :]])
        return cls(inverse, noises[-1], scatter[-1, :], precision[-1, :], mean, turned)

    def wells(
        self, leverage: Float[Array, " m"], lean: Float[Array, " m"], spread: Any, eta: Any, height: Any = 1.0
    ) -> tuple[Float[Array, "m p p"], Float[Array, "m p"], Float[Array, " m"]]:
        """Return B⁻¹, B⁻¹z̄ and z̄ᵀB⁻¹z̄, where B = I + S + ηz̄z̄ᵀ, η = κn_z/(κ + n_z); all times `height`.

        D stretches the last axis by √(1 + q), which multiplies the last column's A by 1 + q. With YᵀY = (I + S)⁻¹,
        c = Ye_p and y = Yz̄: given S, z̄ − l is a Student t of scale g(D² + S), and Y(D² + S)Yᵀ = I + q·ccᵀ, so
        y = l_p·c + √g·(I + q·ccᵀ)^½·t. `lean` is l_p, `spread` √g. B⁻¹ = YᵀY − η·uuᵀ/τ and B⁻¹z̄ = u/τ with
        u = Yᵀy and τ = 1 + η·yᵀy.
        """
        p, m = self.mean.shape
        xp, numbers = array_namespace(self.mean), (leverage, lean, spread, eta, height)
        found = [xp.empty((m, size), dtype=xp.float64, device=device(self.mean)) for size in (p * p, p, 1)]
        places = [max(i, j) * (max(i, j) + 1) // 2 + min(i, j) for i in range(p) for j in range(p)]
        index = as_array(np.array(places), like=self.mean)
        step = max(LEAST, AT_ONCE // p**2) if is_numpy_array(self.mean) else m
        for start in range(0, m, step):
            some = slice(start, start + step)
            triangle, *rest = self._wells(
                some, *(each[some] if getattr(each, "ndim", 0) else each for each in numbers)
            )
            for whole, part in zip(found, (xp.take(triangle, index, axis=0), *rest), strict=True):
                whole[some, :] = part.T
        return xp.reshape(found[0], (m, p, p)), found[1], found[2][:, 0]

    def _wells(
        self,
        some: slice,
        leverage: Float[Array, " m"],
        lean: Float[Array, " m"],
        spread: Any,
        eta: Any,
        height: Any,
    ) -> tuple[Float[Array, "t m"], Float[Array, "p m"], Float[Array, "1 m"]]:
        """Return the same of some datasets, which are the last axis, and of the matrices the upper triangles."""
        xp, p = array_namespace(self.mean), self.mean.shape[0]
        noise, mean, turned = self.noise[:, some], self.mean[:, some], self.turned[:, :, some]
        scatter, precision = (1 + leverage) * self.scatter[some], self.precision[some]
        total = scatter + precision
        share, squared = scatter / total, sum_of_products(noise, noise, axis=0) / total
        tau = 1 + squared
        along, length = turned[0, ...] / xp.sqrt(total), xp.sqrt(tau)
        whole = xp.empty((p * (p + 1) // 2, mean.shape[1]), dtype=xp.float64, device=device(mean))
        whole[:-p, :] = self.inverse[:, some]
        _subtract(whole, along, along / tau)
        last = whole[-p:, :]
        last[:-1, :] = -xp.sqrt(share) / tau * along
        last[-1, :] = precision / total + share * squared / tau
        beside, own = sum_of_products(noise, mean[:-1, :], axis=0) / xp.sqrt(total), last[-1, :]
        inner = xp.sqrt(precision / total) * mean[-1, :] - xp.sqrt(share) / length * beside  # cᵀt
        lean = lean + spread * leverage / (xp.sqrt(1 + leverage * own) + 1) * inner
        image = lean * last
        image[:-1, :] += spread * (turned[1, ...] - beside / (tau + length) * along)
        image[-1, :] += spread * inner
        square = spread**2 * sum_of_products(mean, mean, axis=0) + lean * (2 * spread * inner + lean * own)
        tau = 1 + eta * square
        _subtract(whole, image, eta / tau * image)
        whole *= height
        height = height / tau
        return whole, height * image, (height * square)[None, :]


def _column(i: int) -> slice:
    """Return where the i-th column of a symmetric matrix is held, from its first entry to the diagonal's."""
    return slice(i * (i + 1) // 2, (i + 1) * (i + 2) // 2)


def _subtract(matrix: Float[Array, "t m"], one: Float[Array, "q m"], two: Float[Array, "q m"]) -> None:
    """Subtract the symmetric matrix of one·twoᵀ from the first columns of a symmetric one, in place."""
    for i in range(one.shape[0]):
        matrix[_column(i), :] -= one[: i + 1, :] * two[i, :]


def _grow(
    scatter: Float[Array, "q m"], precision: Float[Array, "q m"], vectors: list[Float[Array, "_ m"]]
) -> tuple[Float[Array, "t m"], Float[Array, "2 q m"]]:
    """Return (I + S)⁻¹ of q columns whose ε come first among the vectors, and Yᵀ times the last two vectors."""
    (q, m), xp = scatter.shape, array_namespace(scatter)
    per = 1 / (scatter + precision)
    share, rest, shrunk = scatter * per, precision * per, xp.sqrt(per)
    turned = xp.empty((q + 2, q, m), dtype=xp.float64, device=device(scatter))  # w of each column, then the others
    for i, vector in enumerate(vectors):
        turned[i, : vector.shape[0], :] = vector * shrunk[i, :] if i < q else vector
    squared = xp.empty_like(per)
    for i in range(q):
        squared[i, :] = sum_of_products(turned[i, :i, :], turned[i, :i, :], axis=0)
    over = 1 / (1 + squared)  # 1/τ
    corner, down, across = rest + share * squared * over, xp.sqrt(rest), xp.sqrt(share * over)
    less = over / (1 + xp.sqrt(over))  # 1/(τ + √τ), since (I + wwᵀ)^(−½) = I − wwᵀ/(τ + √τ)
    for i in reversed(range(q)):
        white, later = turned[i, :i, :], turned[i + 1 :, :i, :]
        part = sum_of_products(later, white, axis=1)
        turned[i + 1 :, i, :] *= down[i, :]
        turned[i + 1 :, i, :] -= across[i, :] * part
        part *= less[i, :]
        later -= part[:, None, :] * white
    inverse = xp.empty((q * (q + 1) // 2, m), dtype=xp.float64, device=device(scatter))
    across = -xp.sqrt(share)
    for i in range(q):
        along, column = turned[i, :i, :], inverse[_column(i), :]
        scaled = along * over[i, :]
        _subtract(inverse, along, scaled)
        column[:-1, :] = across[i, :] * scaled
        column[-1, :] = corner[i, :]
    return inverse, turned[q:, :, :]
