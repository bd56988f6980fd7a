"""Released datasets drawn as the adversary sees them: of each dataset the scatter and the mean, never a record.

In the coordinates of `simulated_releases` a dataset's covariance is Σ ~ IW(D², ν′), its scatter is
S | Σ ~ W(n_z − 1, Σ) and its mean z̄ | Σ ~ N(l, gΣ), g = 1/κ′ + 1/n_z. Nothing but S and z̄ is seen, so Σ is
integrated out: S = D·S₀·D, and S₀, of density ∝ |S₀|^((n_z − p − 2)/2)·|I + S₀|^(−(ν′ + n_z − 1)/2), grows by a
column at a time. Let CCᵀ = I + S₋, S₋ the scatter of some columns given the next one. Then, with independent
A ~ χ²(a), B ~ χ²(b) and ε ~ N(0, I), the next column has the diagonal entry s = A/B and beside it √(s(1 + s))·Cw,
w = ε/√(A + B).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import device
from jaxtyping import Float

from allbutone.disclosure.exposure_law import ExposureLaw
from allbutone.support.arrays import append_axes, array_namespace, contiguous, sum_of_products, zeros
from allbutone.support.streams import Stream, chi_squares, normals

Array = Any


@dataclass(frozen=True, eq=False)
class SimulatedDatasets:
    """The random part of m datasets, the same for a record of any leverage; the last axis runs over the datasets.

    The record lies on the last axis, so leverage enters with the last column alone. `root` is Y, YᵀY = (I + S₋)⁻¹,
    of all columns but that one, whose ε, A and B are `noise`, `scatter` and `precision`. `mean`: a vector t for z̄.
    """

    root: Float[Array, "q q m"]
    noise: Float[Array, "q m"]
    scatter: Float[Array, " m"]
    precision: Float[Array, " m"]
    mean: Float[Array, "p m"]

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
        noises = [drawn[i * (i - 1) // 2 : i * (i + 1) // 2, :] for i in range(1, p + 1)]
        mean, noises = noises[-1] / xp.sqrt(spread), [drawn[:0, :], *noises[:-1]]
        if np.any(freedom <= 0):
            noises = [xp.where(scatter[i, :] > 0, noise, 0.0) for i, noise in enumerate(noises)]
        root = zeros((p - 1, p - 1, drawn.shape[1]), like=drawn)
        for i in range(p - 1):
            total = scatter[i, :] + precision[i, :]
            white = noises[i] / xp.sqrt(total)
            root[:i, i, :] = -white * xp.sqrt(scatter[i, :] / total) / _divide(root[:i, :i, :], white)
            root[i, i, :] = xp.sqrt(precision[i, :] / total)
        return cls(root, noises[-1], scatter[-1, :], precision[-1, :], mean)

    def wells(
        self, leverage: Float[Array, " m"], lean: Float[Array, " m"], spread: Any, eta: Any
    ) -> tuple[Float[Array, "m p p"], Float[Array, "m p"]]:
        """Return W and f with B⁻¹ = WᵀW, B⁻¹z̄ = Wᵀf and z̄ᵀB⁻¹z̄ = fᵀf, where B = I + S + ηz̄z̄ᵀ, η = κn_z/(κ + n_z).

        D stretches the last axis by √(1 + q), which multiplies the last column's A by 1 + q. With YᵀY = (I + S)⁻¹,
        c = Ye_p and y = Yz̄: given S, z̄ − l is a Student t of scale g(D² + S), and Y(D² + S)Yᵀ = I + q·ccᵀ, so
        y = l_p·c + √g·(I + q·ccᵀ)^½·t. `lean` is l_p, `spread` √g.
        """
        xp, p = array_namespace(self.noise), self.mean.shape[0]
        scatter = (1 + leverage) * self.scatter
        total = scatter + self.precision
        white = self.noise / xp.sqrt(total)
        stacked = xp.empty((p, p, total.shape[0]), dtype=xp.float64, device=device(total))
        inner, column = stacked[:-1, :-1, :], stacked[:, -1, :]
        inner[...], stacked[-1, :-1, :] = self.root, 0.0
        column[:-1, :] = -white * xp.sqrt(scatter / total) / _divide(inner, white)
        column[-1, :] = xp.sqrt(self.precision / total)
        longer = xp.sqrt(1 + leverage * sum_of_products(column, column, axis=0))
        along = leverage / (longer + 1) * sum_of_products(column, self.mean, axis=0)
        y = spread * self.mean + (lean + spread * along) * column
        f = y / _divide(stacked, eta**0.5 * y)
        return contiguous(xp.moveaxis(stacked, 2, 0)), f.T


def _divide(root: Float[Array, "q c m"], white: Float[Array, "q m"]) -> Float[Array, " m"]:
    """Turn a matrix, in place, into (I + wwᵀ)^(−½) times it; return √τ, τ = 1 + wᵀw, which divides w itself.

    The factor is I − wwᵀ/(τ + √τ).
    """
    xp = array_namespace(root)
    tau = 1 + sum_of_products(white, white, axis=0)
    length = xp.sqrt(tau)
    along = sum_of_products(xp.permute_dims(root, (1, 0, 2)), white, axis=1)
    root -= (white / (tau + length))[:, None, :] * along
    return length
