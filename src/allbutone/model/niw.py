"""The normal-inverse-Wishart model: prior, posterior, predictive and draws; and what any model must give."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log, pi
from typing import Any, Protocol, runtime_checkable

import numpy as np
from array_api_compat import device, is_array_api_obj
from jaxtyping import Float
from scipy.special import gammaln, multigammaln

from allbutone.model.moments import ENOUGH_LEFT, Moments
from allbutone.support.arrays import (
    LEAST_LEFT,
    LEAST_VARIANCE,
    all_true,
    append_axes,
    array_namespace,
    as_array,
    attempt,
    by_numpy,
    cholesky,
    eye,
    half_log_det,
    has_digits_left,
    real_array,
    require_digits,
    require_symmetric,
    require_variance,
    squared_length,
    to_numpy,
)
from allbutone.support.errors import Cure, InputError

# The two closed-form distributions a record can have: normal and Student t.


Array = Any


@dataclass(frozen=True, eq=False)
class Normal:
    """N(mean, covariance)."""

    mean: Float[Array, "*batch p"]
    covariance: Float[Array, "*batch p p"]

    @cached_property
    def root(self) -> Float[Array, "*batch p p"]:
        """The Cholesky factor of the covariance."""
        return cholesky(self.covariance, "covariance")

    def log_density(self, points: Float[Array, "*points p"]) -> Float[Array, "*points"]:
        """Return log N(x; m, Σ) = −½·(p·log 2π + log|Σ| + (x − m)ᵀΣ⁻¹(x − m))."""
        p = points.shape[-1]
        squared = squared_length(self.root, points - self.mean)
        return -0.5 * (p * log(2 * pi) + squared) - half_log_det(self.root)

    def draw(self, rng: np.random.Generator, count: int) -> Float[np.ndarray, "count p"]:
        """Draw `count` records."""
        white = rng.standard_normal((count, self.mean.shape[-1]))
        return to_numpy(self.mean) + white @ to_numpy(self.root).T


@dataclass(frozen=True, eq=False)
class StudentT:
    """The p-variate Student t with location m, scale matrix V and δ degrees of freedom (eq:post_t_dd)."""

    location: Float[Array, "*batch p"]
    scale: Float[Array, "*batch p p"]
    df: Any

    @cached_property
    def root(self) -> Float[Array, "*batch p p"]:
        """The Cholesky factor of the scale matrix."""
        return cholesky(self.scale, "scale")

    def log_density(self, points: Float[Array, "*points p"]) -> Float[Array, "*points"]:
        """Return log Γ((δ+p)/2) − log Γ(δ/2) − ½·log|δπV| − ½(δ+p)·log(1 + (x−m)ᵀV⁻¹(x−m)/δ)."""
        xp = array_namespace(points)
        p = points.shape[-1]
        half = (self.df + p) / 2
        constant = by_numpy(
            lambda df: gammaln((df + p) / 2) - gammaln(df / 2) - 0.5 * p * np.log(df * pi), self.df
        )
        squared = squared_length(self.root, points - self.location)
        return constant - half_log_det(self.root) - half * xp.log1p(squared / self.df)

    def draw(self, rng: np.random.Generator, count: int) -> Float[np.ndarray, "count p"]:
        """Draw `count` records: a normal over an independent √(χ²_δ/δ)."""
        white = rng.standard_normal((count, self.location.shape[-1]))
        stretch = np.sqrt(self.df / rng.chisquare(self.df, size=(count, 1)))
        return to_numpy(self.location) + stretch * (white @ to_numpy(self.root).T)


# The digits of an updated normal-inverse-Wishart: its root from factors, and refusals where none are left.


Scalar = Any

LEAST_LEFT_OF_FACTOR = LEAST_LEFT**1.5  # a factor has twice the digits; the deviations it is made of do not
MOST_OFFSET = 1e12  # standard deviations: a mean in float64 is then off by 1e-4 of one


def updated_root(
    scale: Float[Array, "*batch p p"],
    moments: Moments,
    far: Float[Array, "*batch p"],
    before: Sequence[Array],
) -> Float[Array, "p p"] | None:
    """Return the root of an updated scale, from the factors of its parts where its own squares lose digits.

    Λ' = HHᵀ with H = [C, F, √(κn/κ')·(x̄ − m)], so the triangle of Hᵀ's QR is the root: no squares are added, and
    a part that is 1e14 times another does not drown it. `before`: C, if there is one; `far`: the last
    column. None where the scale itself must serve: of a batch, or of moments without a factor.
    """
    xp = array_namespace(scale)
    if scale.ndim > 2 or not all_true(xp.isfinite(scale)):
        return None
    plain = attempt(xp.linalg.cholesky, scale)
    if plain is not None and has_digits_left(ENOUGH_LEFT, plain):
        require_variance(plain, "scale")
        return plain
    half = moments.half
    if half is None:
        return None
    triangle = xp.linalg.qr(xp.concat([*before, half, far[:, None]], axis=1).T, mode="reduced")[1]
    pivots = xp.linalg.diagonal(triangle)
    root = (triangle * xp.where(pivots < 0, -1.0, 1.0)[:, None]).T
    require_digits(root, "scale", LEAST_LEFT_OF_FACTOR)
    return root


def why_not_updated(
    before: Float[Array, "p p"], flat: bool, moments: Moments, scale: Array, error: InputError
) -> InputError:
    """Return what to say of an update whose scale was refused, with the prior's scale `before` it."""
    if np.any(np.diagonal(to_numpy(scale), axis1=-2, axis2=-1) < LEAST_VARIANCE):
        return error
    if flat:
        return InputError(
            "the records do not vary in every direction: a column is determined by others, or one person "
            "alone has a value in it",
            Cure("leave that column out", "drop"),
            Cure("give a prior from public knowledge", "prior"),
        )
    xp = array_namespace(moments.mean, moments.scatter)
    if not bool(xp.all(xp.isfinite(moments.mean)) & xp.all(xp.isfinite(moments.scatter))):
        return InputError("the records' moments hold values that are missing or infinite")
    cholesky(before + moments.scatter, "the prior's scale plus the records' scatter")
    return InputError(
        "the prior's mean is too far from the records, relative to their spread, to compute with",
        Cure("write a prior with means from public knowledge", "prior"),
    )


def require_small_mean(mean: Float[Array, "*batch p"], scale: Float[Array, "*batch p p"], df: Scalar) -> None:
    """Refuse columns so far from zero, relative to their spread, that sixteen digits hold little of it."""
    xp = array_namespace(mean, scale)
    spread = xp.sqrt(xp.abs(xp.linalg.diagonal(scale)) / append_axes(df, 1))
    if not all_true(~((xp.abs(mean) > MOST_OFFSET * spread) & (spread > 0))):
        raise InputError(
            f"a column's mean is over {MOST_OFFSET:g} times its standard deviation, which leaves too few digits",
            "subtract a constant from the column",
            Cure("leave it out", "drop"),
        )


def require_more_records_than_columns(moments: Moments, p: float) -> None:
    """Refuse too few records for the flat prior."""
    count = np.min(to_numpy(moments.count))
    if count <= p:
        raise InputError(
            f"the flat prior, the default, needs more records than columns; {count:g} for {p:g} do not suffice",
            Cure("give a prior from public knowledge", "prior"),
            Cure("use fewer columns", "drop"),
        )


# The normal-inverse-Wishart distribution: prior, posterior, predictive, evidence and draws.


# What a prior may be worth, in records: from there on, double precision does not see one record more.
MOST_RECORDS = 2.0**53


@dataclass(frozen=True, eq=False)
class NIW:
    """Σ ~ IW(Λ, ν), μ | Σ ~ N(m, Σ/κ); fields mean m, mean_weight κ, df ν, scale Λ; batch axes lead.

    The scale is Λ itself, density in tr(ΛΣ⁻¹), as in SciPy. (The paper's section 2.2 prints Λ⁻¹, but its
    updates, its scores and its Student t all need Λ.)
    """

    mean: Float[Array, "*batch p"]
    mean_weight: Scalar
    df: Scalar
    scale: Float[Array, "*batch p p"]

    def __init__(self, mean: Any, mean_weight: Scalar, df: Scalar, scale: Any, root: Any = None) -> None:
        """Check shapes, bounds and positive definiteness; lists become arrays, and batch shapes are broadcast.

        `root`: the scale's Cholesky factor, checked, where more of its digits are known than the scale tells.
        """
        mean, scale = real_array(mean, "mean"), real_array(scale, "scale")
        mean_weight, df = _scalar(mean_weight, "mean_weight"), _scalar(df, "df")
        p = mean.shape[-1] if mean.ndim else 0
        if p == 0 or tuple(scale.shape[-2:]) != (p, p):
            raise InputError(
                f"mean must have shape (p,) and scale (p, p), got {tuple(mean.shape)} and {tuple(scale.shape)}"
            )
        batch = _batch_shape(mean.shape[:-1], scale.shape[:-2], mean_weight, df)
        xp = array_namespace(mean, scale)
        mean = mean if mean.shape[:-1] == batch else xp.broadcast_to(mean, (*batch, p))
        scale = scale if scale.shape[:-2] == batch else xp.broadcast_to(scale, (*batch, p, p))
        for name, value in (("mean", mean), ("mean_weight", mean_weight), ("df", df), ("scale", scale)):
            object.__setattr__(self, name, value)
        if self.is_flat:
            return
        if not _all_between(mean_weight, 0, MOST_RECORDS):
            raise InputError(f"mean_weight must be a finite number above 0 and below 2⁵³, got {mean_weight}")
        if not _all_between(df, p - 1, MOST_RECORDS):
            raise InputError(f"df must exceed p - 1 = {p - 1} and be finite, below 2⁵³, got {df}")
        if not all_true(xp.isfinite(mean)):
            raise InputError("mean must hold finite numbers")
        require_symmetric(scale, "scale")
        if root is not None:
            object.__setattr__(self, "root", root)
        _ = self.root

    @classmethod
    def from_spread(cls, centre: Any, spread: Any, *, mean_weight: float = 1.0, df: float | None = None) -> "NIW":
        """Return a weak prior from guesses of each column's mean and standard deviation, in the table's own units.

        mean = centre, df = p + 2 unless given, scale = (df − p − 1)·diag(spread²), so that E[Σ] = diag(spread²).
        The guesses must come from public knowledge, never from the confidential table.

        >>> prior = NIW.from_spread(centre=[25, 3.4], spread=[4.5, 0.9])
        >>> prior.mean.tolist(), prior.mean_weight, prior.df
        ([25.0, 3.4], 1.0, 4.0)
        >>> prior.scale.round(2).tolist()
        [[20.25, 0.0], [0.0, 0.81]]
        """
        middle, width = real_array(centre, "centre"), real_array(spread, "spread")
        if middle.ndim != 1 or middle.shape != width.shape:
            shapes = f"{tuple(middle.shape)} and {tuple(width.shape)}"
            raise InputError(f"centre and spread have one value a column, got shapes {shapes}")
        xp, p = array_namespace(middle, width), middle.shape[0]
        if not bool(xp.all(width > 0)):
            raise InputError("every spread must exceed 0")
        df = p + 2.0 if df is None else _scalar(df, "df")
        if df <= p + 1:
            raise InputError(f"with spread, df must exceed p + 1 = {p + 1}, got {df:g}", "raise df")
        return cls(middle, mean_weight, df, (df - p - 1) * eye(p, like=middle) * width**2)

    @classmethod
    def default(cls, p: int) -> "NIW":
        """Return the prior for data already on a standard scale: mean 0, mean_weight 1, df p + 2, scale I.

        With df = p + 2 the expected covariance is the scale itself.
        """
        return cls(np.zeros(p), 1.0, p + 2.0, np.eye(p))

    @classmethod
    def flat(cls, p: int) -> "NIW":
        """Return the prior that has no units: mean_weight 0, df −1, scale 0, so that p(μ, Σ) ∝ |Σ|^(−(p+1)/2).

        Not a distribution itself, but its posterior NIW(x̄, n, n − 1, S) is one for n > p records. Synthesis and
        risk then commute with every change of units x → Ax + b, so the choice needs and tells nothing about data.
        """
        return cls(np.zeros(p), 0.0, -1.0, np.zeros((p, p)))

    @property
    def is_flat(self) -> bool:
        """Whether this is the flat prior, known only by its posteriors, or its marginal, with a df below −1."""
        weights_nothing = isinstance(self.mean_weight, float) and self.mean_weight == 0 and self.df <= -1
        return weights_nothing and not np.any(to_numpy(self.scale)) and not np.any(to_numpy(self.mean))

    @cached_property
    def root(self) -> Float[Array, "*batch p p"]:
        """The Cholesky factor C of the scale, Λ = CCᵀ."""
        if self.is_flat:
            raise InputError("the flat prior is no distribution", "update it with more records than columns first")
        return cholesky(self.scale, "scale")

    def update(self, records: Any) -> "NIW":
        """Return the posterior given records, or their moments (eq:bay_updates1 to 4).

        κ' = κ + n,  ν' = ν + n,  m' = m + (n/κ')(x̄ − m),  Λ' = Λ + S + (κn/κ')(x̄ − m)(x̄ − m)ᵀ
        """
        moments = Moments.of(records)
        if moments.mean.shape[-1] != self.p:
            raise InputError(f"the prior is for {self.p} columns, the records have {moments.mean.shape[-1]}")
        if self.is_flat:
            require_more_records_than_columns(moments, self.p - 1 - self.df)
        n, weight = moments.count, self.mean_weight + moments.count
        step = moments.mean - self.mean
        mean = self.mean + append_axes(n / weight, 1) * step
        outer = step[..., :, None] * step[..., None, :]
        scale = self.scale + moments.scatter + append_axes(self.mean_weight * n / weight, 2) * outer
        require_small_mean(mean, scale, self.df + n)
        far = (self.mean_weight * n / weight) ** 0.5 * step if step.ndim == 1 else step
        try:
            root = updated_root(scale, moments, far, () if self.is_flat else (self.root,))
            return NIW(mean, weight, self.df + n, scale, root)
        except InputError as error:
            raise why_not_updated(self.scale, self.is_flat, moments, scale, error) from error

    @property
    def p(self) -> int:
        """The number of columns."""
        return int(self.mean.shape[-1])

    def marginal(self, columns: Sequence[int]) -> "NIW":
        """Return the distribution of the mean and covariance of some columns A (positions), a of p.

        μ_A | Σ_AA ~ N(m_A, Σ_AA/κ), Σ_AA ~ IW(Λ_AA, ν − (p − a)): a column less is a degree of freedom less. So
        updating and leaving columns out may change places, and it is not the usual prior of a columns.
        """
        xp, p = array_namespace(self.scale), self.p
        if len(columns) == p and list(columns) == list(range(p)):
            return self
        places = xp.asarray(list(columns), device=device(self.scale))
        scale = xp.take(xp.take(self.scale, places, axis=-1), places, axis=-2)
        mean = xp.take(self.mean, places, axis=-1)
        return NIW(mean, self.mean_weight, self.df - (p - len(columns)), scale)

    def moved(self, *, like: Array) -> "NIW":
        """Return the same distribution in the namespace and on the device of `like`."""
        if isinstance(like, np.ndarray):
            return self
        return NIW(as_array(self.mean, like=like), self.mean_weight, self.df, as_array(self.scale, like=like))

    def predictive(self) -> StudentT:
        """Return the distribution of the next record (eq:z_follow_t_dist).

        T_δ(m, (κ+1)/(κδ)·Λ), δ = ν − p + 1.
        """
        _ = self.root  # which the flat prior refuses
        df = self.df - self.p + 1
        return StudentT(
            self.mean, append_axes((self.mean_weight + 1) / (self.mean_weight * df), 2) * self.scale, df
        )

    def log_density(
        self, means: Float[Array, "*draws p"], covariances: Float[Array, "*draws p p"]
    ) -> Float[Array, "*draws"]:
        """Return the normalised log density at (μ, Σ).

        log N(μ; m, Σ/κ) + ½ν·log|Λ| − ½νp·log 2 − log Γ_p(ν/2) − ½(ν+p+1)·log|Σ| − ½·tr(ΛΣ⁻¹)
        """
        xp = array_namespace(means, covariances)
        p, root = self.p, cholesky(covariances, "covariance")
        half_log = half_log_det(root)
        off_mean = squared_length(root, means - self.mean)
        white = xp.linalg.solve(root, xp.broadcast_to(self.root, root.shape))
        trace = xp.sum(white * white, axis=(-2, -1))
        normal = -0.5 * p * (log(2 * pi) - by_numpy(np.log, self.mean_weight)) - half_log
        inverse_wishart = (
            self.df * (half_log_det(self.root) - 0.5 * p * log(2))
            - by_numpy(_multigammaln(p), self.df)
            - (self.df + p + 1) * half_log
        )
        return normal + inverse_wishart - 0.5 * (self.mean_weight * off_mean + trace)

    def log_evidence(self, records: Any) -> Array:
        """Return log p(X), the normalised marginal likelihood of records or moments (eq:post_closed).

        −½np·log π + log Γ_p(ν'/2) − log Γ_p(ν/2) + ½ν·log|Λ| − ½ν'·log|Λ'| + ½p·log(κ/κ')
        (the paper prints 2π where π belongs)
        """
        moments = Moments.of(records)
        after, p, half_log = self.update(moments), self.p, half_log_det(self.root)
        return (
            -0.5 * moments.count * p * log(pi)
            + by_numpy(_multigammaln(p), after.df)
            - by_numpy(_multigammaln(p), self.df)
            + self.df * half_log
            - after.df * half_log_det(after.root)
            + 0.5 * p * by_numpy(np.log, self.mean_weight / after.mean_weight)
        )

    def draw_roots(
        self, rng: np.random.Generator, count: int
    ) -> tuple[Float[np.ndarray, "count *batch p"], Float[np.ndarray, "count *batch p p"]]:
        """Draw `count` pairs (μ, F) with Σ = FFᵀ.

        Bartlett: with A lower triangular, Aᵢᵢ² ~ χ²(ν − i), i from 0, and standard normal below the diagonal,
        AAᵀ ~ W(I, ν), so F = CA⁻ᵀ; then μ = m + F·N(0, I)/√κ.
        """
        p, root = self.p, to_numpy(self.root)
        shape = (count, *self.mean.shape[:-1])
        bartlett = np.tril(rng.standard_normal((*shape, p, p)), -1)
        df = to_numpy(self.df)[..., None] - np.arange(p)
        diagonal = np.arange(p)
        chi = np.sqrt(rng.chisquare(df, size=(*shape, p)))
        if not np.all(chi > 1e-60):  # 1/√χ² scales the draw, which must stay within what the gate admits
            raise InputError(f"df = {self.df} is so close to p - 1 = {p - 1} that draws overflow", "raise df")
        bartlett[..., diagonal, diagonal] = chi
        roots = np.linalg.solve(bartlett, np.swapaxes(root, -1, -2)).swapaxes(-1, -2)
        white = rng.standard_normal((*shape, p, 1))
        spread = (roots @ white)[..., 0] / np.sqrt(to_numpy(self.mean_weight))[..., None]
        return to_numpy(self.mean) + spread, roots

    def draw(
        self, rng: np.random.Generator, count: int
    ) -> tuple[Float[np.ndarray, "count *batch p"], Float[np.ndarray, "count *batch p p"]]:
        """Draw `count` pairs (μ, Σ) of mean and covariance."""
        means, roots = self.draw_roots(rng, count)
        return means, roots @ roots.swapaxes(-1, -2)


def _multigammaln(p: int) -> Callable[[Any], Any]:
    return lambda df: multigammaln(0.5 * df, p)


def _scalar(value: Any, name: str) -> Scalar:
    if type(value) is float:
        return value
    if is_array_api_obj(value) and not isinstance(value, np.generic):
        return real_array(value, name)
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.number):
        raise InputError(f"{name} must be a number, got {value!r}")
    return float(real_array(value, name))


def _batch_shape(mean: Any, scale: Any, *scalars: Scalar) -> tuple[int, ...]:
    shapes = [tuple(mean), tuple(scale), *(tuple(getattr(scalar, "shape", ())) for scalar in scalars)]
    if not any(shapes):  # the usual case, and asking NumPy takes longer
        return ()
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError as error:
        raise InputError(
            f"mean, scale, mean_weight and df have batch shapes {', '.join(map(str, shapes))}, which do not agree"
        ) from error


def _all_between(value: Scalar, low: float, high: float) -> bool:
    inside = (value > low) & (value < high)
    return bool(inside) if type(inside) is bool else all_true(inside)


# What a model must give so that what is released from it can be attacked: `update` and `predictive`.


@runtime_checkable
class Density(Protocol):
    """The distribution of one record."""

    def log_density(self, records: Any, /) -> Any:
        """Return the normalised log density at records, shape (*batch, p)."""
        ...


@runtime_checkable
class Model(Protocol):
    """A model of exchangeable records: they update it, and it predicts the next one. `NIW` is one."""

    def update(self, records: Any, /) -> "Model":
        """Return the model given these records, too; their order does not matter."""
        ...

    def predictive(self) -> Density:
        """Return the distribution of the next record."""
        ...
