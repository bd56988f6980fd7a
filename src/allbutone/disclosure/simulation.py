"""Releases drawn as the adversary sees them, by leverage alone, and a record's risk over them."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from array_api_compat import device, is_numpy_array
from jaxtyping import Float

from allbutone.adversary.log_quadratic import LogQuadratic
from allbutone.disclosure.exposure_law import ExposureLaw
from allbutone.disclosure.measures import measure
from allbutone.support.arrays import (
    append_axes,
    array_namespace,
    as_array,
    contiguous,
    eye,
    sum_of_products,
    zeros,
)
from allbutone.support.devices import Stream, Triangle, chi_squares, normals, triangle

# Released datasets drawn as the adversary sees them: of each dataset the scatter and the mean, never a record.
#
# In the coordinates of the releases below a dataset's covariance is Σ ~ IW(D², ν′), its scatter is S | Σ ~ W(n_z
# − 1, Σ) and its mean z̄ | Σ ~ N(l, gΣ), g = 1/κ′ + 1/n_z. Nothing but S and z̄ is seen, so Σ is integrated out: S
# = D·S₀·D, and S₀, of density ∝ |S₀|^((n_z − p − 2)/2)·|I + S₀|^(−(ν′ + n_z − 1)/2), grows by a column at a time.
# Let CCᵀ = I + S₋, S₋ the scatter of some columns given the next one. Then, with independent A ~ χ²(a), B ~ χ²(b)
# and ε ~ N(0, I), the next column has the diagonal entry s = A/B and beside it √(s(1 + s))·Cw, w = ε/√(A + B).
#
# (I + S)⁻¹ = YᵀY grows by a column as well, Y → [(I + wwᵀ)^(−½)·Y, −ρw/√τ; 0, δ] with ρ² = A/(A + B) = 1 − δ² and
# τ = 1 + wᵀw. With a = Yᵀw its blocks become YᵀY − aaᵀ/τ, −ρa/τ and δ² + ρ²wᵀw/τ: Y itself is never held, only
# Yᵀ times the noise of later columns.


Array = Any

# numbers in the matrices that a processor works on at a time, but not fewer datasets than that
DATASET_NUMBERS, LEAST = 1 << 17, 1024


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
        wells = [xp.empty((m, size), dtype=xp.float64, device=device(self.mean)) for size in (p * p, p, 1)]
        places = [max(i, j) * (max(i, j) + 1) // 2 + min(i, j) for i in range(p) for j in range(p)]
        index = as_array(np.array(places), like=self.mean)
        step = max(LEAST, DATASET_NUMBERS // p**2) if is_numpy_array(self.mean) else m
        for start in range(0, m, step):
            some = slice(start, start + step)
            triangle, *rest = self._wells(
                some, *(each[some] if getattr(each, "ndim", 0) else each for each in numbers)
            )
            for whole, part in zip(wells, (xp.take(triangle, index, axis=0), *rest), strict=True):
                whole[some, :] = part.T
        return xp.reshape(wells[0], (m, p, p)), wells[1], wells[2][:, 0]

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


# Releases drawn as the adversary sees them: sufficient statistics only, where leverage is all there is.
#
# Whitened by the adversary's own Λ and turned so that the record lies on the last axis, the model given the others
# is NIW(0, κ, ν, I) and the record √(q/c)·e_p. The model that the release is drawn from is NIW(l, κ′, ν′, D²),
# with l = √(q/c)·e_p/κ′ and D = diag(1, …, 1, √(1 + q)): of the record only the leverage q is left.


WELL_NUMBERS = 1 << 20  # numbers in the wells that are held at a time: what a processor keeps close


def releases_at_once(law: ExposureLaw, count: int) -> int:
    """Return how many releases to draw and attack at a time."""
    return max(1, WELL_NUMBERS // ((1 if law.rows is None else count) * law.p**2))


@dataclass(frozen=True, eq=False)
class SimulatedReleases:
    """The random part of some releases of `count` draws or datasets, the same for a record of any leverage.

    Released parameters need one lower triangle P and one standard normal ε for all draws of a replicate; datasets
    one part each. The last axis runs over the replicates, and within each over its datasets.
    After several laws, drawn from as many streams, the law's numbers (and a count of draws) are one a replicate.
    """

    law: ExposureLaw
    count: Any
    replicates: int
    parameters: "tuple[Triangle, Float[Array, 'p r']] | None"
    datasets: SimulatedDatasets | None

    @classmethod
    def of(cls, law: ExposureLaw, count: Any, replicates: int, rng: Stream) -> "SimulatedReleases":
        """Draw sufficient statistics, not records.

        Released parameters are seen only through A ~ W(n_θν′, D⁻²) and b | A ~ N(Al, A/κ′): one Wishart and one
        normal draw replace n_θ of each. `law` may hold several laws' numbers (and `count` those of draws), where
        `rng` is as many streams: then there are so many replicates of each.
        """
        parameters = datasets = None
        if law.rows is None:
            df = append_axes(count, 1) * append_axes(law.df + 1, 1) - np.arange(float(law.p))[::-1]
            parameters = triangle(rng, df, replicates), normals(rng, (law.p, replicates), axis=1)
            like = parameters[1]
        else:
            datasets = SimulatedDatasets.of(law, replicates * count, rng)
            like = datasets.mean

        def each(number: Any) -> Any:
            several = isinstance(number, np.ndarray)
            return as_array(np.repeat(1.0 * number, replicates), like=like) if several else number

        numbers = {name: each(getattr(law, name)) for name in ("mean_weight", "df", "rows")}
        every = like.shape[1] // (1 if law.rows is None else count)
        return cls(replace(law, **numbers), each(count), every, parameters, datasets)

    def problem(self, leverage: Any) -> tuple[LogQuadratic, Float[Array, "r p"]]:
        """Return the posteriors of records of this leverage (one for all, or one a replicate), and the records."""
        like = self.parameters[1] if self.datasets is None else self.datasets.mean  # type: ignore[index]
        xp, p, kappa = array_namespace(like), self.law.p, self.law.mean_weight
        leverage = xp.astype(as_array(leverage, like=like), xp.float64, copy=False)
        leverage = xp.broadcast_to(leverage, (self.replicates,))
        truth = zeros((self.replicates, p), like=like)
        truth[:, -1] = xp.sqrt(leverage * (kappa + 1) / kappa)
        whole = self._after_parameters if self.datasets is None else self._after_datasets
        return whole(leverage, truth[:, -1] / (kappa + 1)), truth

    def _after_parameters(self, leverage: Float[Array, " r"], lean: Float[Array, " r"]) -> LogQuadratic:
        """Return the quadratic of A = CCᵀ, C = D⁻¹Pᵀ, where PᵀP ~ W(n_θν′, I), and b = Al + Cε/√κ′."""
        assert self.parameters is not None
        precision, noise = self.parameters
        xp, p, kappa = array_namespace(noise), self.law.p, self.law.mean_weight
        root = contiguous(xp.permute_dims(precision, (2, 1, 0)))
        root[:, -1, -1] /= xp.sqrt(1 + leverage)
        pushed = root[:, -1, :] * lean[:, None] + noise.T / append_axes((kappa + 1) ** 0.5, 1)
        return self._posteriors(
            precision=root @ xp.matrix_transpose(root),
            pull=(root @ pushed[..., None])[..., 0],
            weights=zeros(0, like=root),
            levels=zeros(0, like=root),
            slopes=zeros((0, p), like=root),
            shapes=zeros((0, p, p), like=root),
        )

    def _after_datasets(self, leverage: Float[Array, " r"], lean: Float[Array, " r"]) -> LogQuadratic:
        """Return the wells hⱼ(x − rⱼ)ᵀBⱼ⁻¹(x − rⱼ), all datasets at once; rⱼ = n_z·z̄ⱼ/(κ + n_z)."""
        assert self.datasets is not None
        count, kappa, rows = self.count, self.law.mean_weight, self.law.rows
        assert rows is not None
        weight, each = kappa + rows, self._each_dataset
        spread, eta = each((1 / (kappa + 1) + 1 / rows) ** 0.5), each(kappa * rows / weight)
        height, share = each(1 - 1 / (weight + 1)), each(rows / weight)
        inverse, image, square = self.datasets.wells(each(leverage), each(lean), spread, eta, height)
        xp, p, batch = array_namespace(image), self.law.p, (self.replicates, count)
        return self._posteriors(
            precision=zeros((p, p), like=image),
            pull=zeros(p, like=image),
            weights=zeros(count, like=image) + append_axes(self.law.df + 1 + rows, 1),
            levels=xp.reshape(1 + share**2 * square, batch),
            slopes=xp.reshape(append_axes(share, 1) * image, (*batch, p)),
            shapes=xp.reshape(inverse, (*batch, p, p)),
        )

    def _posteriors(self, **terms: Any) -> LogQuadratic:
        """Return the posteriors of these terms, in the coordinates of the other records."""
        p, kappa, df, like = self.law.p, self.law.mean_weight, self.law.df, terms["pull"]
        return LogQuadratic(
            centre=zeros((self.replicates, p), like=like),
            root=eye(p, like=like),
            df=df,
            outward=(self.count - 1) * (df + 1),
            inflation=kappa / (kappa + 1),
            **terms,
        )

    def _each_dataset(self, numbers: Any) -> Any:
        """Return numbers, where there is one a replicate, as one a dataset."""
        return array_namespace(numbers).repeat(numbers, self.count) if getattr(numbers, "ndim", 0) else numbers


# What is expected of a record: given p, κ, ν and the sizes of the release, every affine-invariant measure of risk
# has a distribution that depends on the record's leverage q alone.


EXPECTED = 200  # releases that tell the median exposure of a record that does not stand out
WORK = 1e6  # numbers in their wells that are worth waiting for


def simulate(
    law: ExposureLaw, leverage: float, count: int, replicates: int, rng: np.random.Generator
) -> tuple[Float[np.ndarray, " r"], Float[np.ndarray, " r"]]:
    """Attack so many releases of `count` datasets (or draws): exposure and relative error of such a record."""
    size, parts = releases_at_once(law, count), []
    for start in range(0, replicates, size):
        drawn = SimulatedReleases.of(law, count, min(size, replicates - start), rng)
        measured = measure(*drawn.problem(leverage))
        parts.append((measured.exposure, measured.relative_error))
    exposure, relative_error = (np.concatenate(each) for each in zip(*parts, strict=True))
    return exposure, relative_error


def expected_exposure(law: ExposureLaw, leverage: float, count: int) -> tuple[float, int]:
    """Return a record's median exposure over releases, and how many were simulated for it: 0, the closed form.

    Simulated are those of records that do not stand out enough for it, where that does not take long.
    """
    numbers = EXPECTED * (1 if law.rows is None else count) * law.p**2
    if law.holds(leverage, count) or numbers > WORK:
        return float(law.exposure(leverage, count)), 0
    exposure, _ = simulate(law, leverage, count, EXPECTED, np.random.default_rng(1))
    return float(np.median(exposure)), EXPECTED
