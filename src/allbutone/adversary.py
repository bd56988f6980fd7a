"""What the adversary knows, turned into the posterior of the missing record."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from array_api_compat import array_namespace, is_array_api_obj
from jaxtyping import Float

from allbutone.distributions import real_array, solve_rows
from allbutone.errors import InputError, given
from allbutone.logquadratic import LogQuadratic
from allbutone.moments import Moments
from allbutone.niw import NIW
from allbutone.records import Records
from allbutone.release import DatasetRelease, ParameterRelease, Release

Array = Any
Reading = Literal["record", "mechanism"]

SMALL_DATASET = 1 << 16  # numbers; larger datasets are summarized one by one, in blocks


def log_posterior(
    others: Any,
    release: Release,
    prior: NIW,
    *,
    known: Any = None,
    adversary_prior: NIW | None = None,
    reading: Reading = "record",
) -> LogQuadratic:
    """Return the log posterior of the one record missing from `others`; the arguments are those of `posterior`."""
    moments = Moments.of(admit(others, release, prior, adversary_prior, reading))
    positions, values = split_known(known, release)
    whole = posterior_of(moments, release, *believed(prior, adversary_prior, reading))
    return whole.given(positions, array_namespace(whole.centre).asarray(values)) if positions else whole


def posterior_of(moments: Moments, release: Release, prior: NIW, own_prior: NIW | None) -> LogQuadratic:
    """Return the log posterior from the others' moments, the mechanism's prior and the adversary's own, if any."""
    crowd = prior.update(moments)
    if isinstance(release, ParameterRelease):
        root, precision, pull = whitened_parameters(crowd, release)
        whole = from_parameters(crowd, root, release.draws, precision, pull)
    else:
        whole = from_datasets(crowd, *whitened_datasets(crowd, release))
    return whole if own_prior is None else with_own_prior(whole, own_prior.update(moments))


def believed(prior: NIW, adversary_prior: NIW | None, reading: Reading) -> tuple[NIW, NIW | None]:
    """Return the prior the adversary takes for the mechanism's, and their own of the record where it differs."""
    if adversary_prior is not None and reading == "mechanism":
        return adversary_prior, None
    return prior, adversary_prior


@dataclass(frozen=True, eq=False)
class ParameterStatistics:
    """All that the attack sees of released parameters: their number, Σⱼ Σⱼ⁻¹ and Σⱼ Σⱼ⁻¹μⱼ; batch axes lead."""

    draws: int
    precision: Float[Array, "*batch p p"]
    pull: Float[Array, "*batch p"]

    @classmethod
    def of(cls, release: ParameterRelease) -> "ParameterStatistics":
        """Summarize a release."""
        xp, p = array_namespace(release.means), release.p
        centre, root = xp.zeros(p, dtype=xp.float64), xp.eye(p, dtype=xp.float64)
        return cls(release.draws, *_parameters_in(centre, root, release))


Statistics = ParameterStatistics | Moments


def from_statistics(crowd: NIW, released: Statistics) -> LogQuadratic:
    """Return the posteriors of many targets at once, from sufficient statistics; batch axes lead.

    `crowd`: each adversary's own posterior (*batch). `released`: `ParameterStatistics` (*batch), or the moments of
    k datasets, mean (*batch, k, p), whose counts (k,) are shared by the batch.
    """
    xp, root = array_namespace(crowd.mean), crowd.root
    turned = xp.matrix_transpose(root)
    if isinstance(released, ParameterStatistics):
        moved = released.pull - (released.precision @ crowd.mean[..., None])[..., 0]
        pull = (turned @ moved[..., None])[..., 0]
        return from_parameters(crowd, root, released.draws, turned @ released.precision @ root, pull)
    centred = released.mean - crowd.mean[..., None, :]
    mean = xp.matrix_transpose(xp.linalg.solve(root, xp.matrix_transpose(centred)))
    half = xp.linalg.solve(root[..., None, :, :], released.scatter)
    scatter = xp.linalg.solve(root[..., None, :, :], xp.matrix_transpose(half))
    return from_datasets(crowd, root, Moments(released.count, mean, scatter))


def from_datasets(crowd: NIW, root: Float[Array, "*#batch p p"], released: Moments) -> LogQuadratic:
    """Return the posterior after datasets whose whitened moments are given, shapes (*batch, k, …).

    Add Z first and the candidate last: with X₋ᵢ ∪ Z⁽ʲ⁾ ~ NIW(rⱼ, kⱼ, ·, Bⱼ) and hⱼ = kⱼ/(kⱼ+1),
    s(x) = (n_k − 1)ν′·log(1 + c·q₀) − Σⱼ (ν′ + n_z)·log(1 + hⱼ(x − rⱼ)ᵀBⱼ⁻¹(x − rⱼ))
    """
    xp = array_namespace(released.mean)
    p, kappa, df = crowd.p, crowd.mean_weight, crowd.df + 1
    rows = released.count
    weight = kappa + rows
    z = released.mean
    scale = xp.eye(p, dtype=z.dtype) + released.scatter
    scale = scale + (kappa * rows / weight)[:, None, None] * (z[..., :, None] * z[..., None, :])
    half = xp.linalg.solve(xp.linalg.cholesky(scale), xp.broadcast_to(xp.eye(p, dtype=z.dtype), scale.shape))
    shapes = (weight / (weight + 1))[:, None, None] * (xp.matrix_transpose(half) @ half)
    location = (rows / weight)[:, None] * z
    slopes = (shapes @ location[..., None])[..., 0]
    return LogQuadratic(
        centre=crowd.mean,
        root=root,
        df=crowd.df,
        outward=(rows.shape[0] - 1) * df,
        inflation=kappa / (kappa + 1),
        precision=xp.zeros((p, p), dtype=z.dtype),
        pull=xp.zeros(p, dtype=z.dtype),
        weights=df + rows,
        levels=1 + xp.sum(location * slopes, axis=-1),
        slopes=slopes,
        shapes=shapes,
    )


def from_parameters(
    crowd: NIW,
    root: Float[Array, "*#batch p p"],
    draws: int,
    precision: Float[Array, "*batch p p"],
    pull: Float[Array, "*batch p"],
) -> LogQuadratic:
    """Return the posterior after parameter draws whose whitened A and b are given.

    s(x) = (n_θ − 1)ν′·log(1 + c·q₀) − dᵀAd + 2bᵀd,  A = Σⱼ Σⱼ*⁻¹,  b = Σⱼ Σⱼ*⁻¹(μⱼ* − μ)
    (the paper's two quadratic terms merge because c + 1/κ′ = 1)
    """
    xp, p, kappa = array_namespace(precision), crowd.p, crowd.mean_weight
    return LogQuadratic(
        centre=crowd.mean,
        root=root,
        df=crowd.df,
        outward=(draws - 1) * (crowd.df + 1),
        inflation=kappa / (kappa + 1),
        precision=precision,
        pull=pull,
        weights=xp.zeros(0, dtype=precision.dtype),
        levels=xp.zeros(0, dtype=precision.dtype),
        slopes=xp.zeros((0, p), dtype=precision.dtype),
        shapes=xp.zeros((0, p, p), dtype=precision.dtype),
    )


def with_own_prior(whole: LogQuadratic, own: NIW) -> LogQuadratic:
    """Replace the Student t term of the holder's prior by that of the adversary's own."""
    xp = array_namespace(whole.centre)
    half = xp.linalg.solve(own.root, whole.root)
    inflation = own.mean_weight / (own.mean_weight + 1)
    return add_own_well(whole, own.df, inflation * (xp.matrix_transpose(half) @ half), whole.whiten(own.mean))


def add_own_well(
    whole: LogQuadratic, df: float, shape: Float[Array, "*batch p p"], place: Float[Array, "*batch p"]
) -> LogQuadratic:
    """Add −(ν_a + 1)·log(1 + (v − place)ᵀM(v − place)), the adversary's own Student t, to the wells.

    The holder's t term had cancelled one copy of the determinant; it comes back.
    """
    xp = array_namespace(whole.centre)
    slope = (shape @ place[..., None])[..., 0]
    level = 1 + xp.sum(place * slope, axis=-1)
    batch = whole.centre.shape[:-1]
    k, p = whole.wells, whole.p

    def joined(wells: Array, well: Array, tail: tuple[int, ...]) -> Array:
        many = xp.broadcast_to(wells, (*batch, k, *tail))
        return xp.concat(
            [many, xp.broadcast_to(well, (*batch, *tail))[..., None, *(slice(None),) * len(tail)]], axis=len(batch)
        )

    return LogQuadratic(
        centre=whole.centre,
        root=whole.root,
        df=whole.df,
        outward=whole.outward + whole.df + 1,
        inflation=whole.inflation,
        precision=whole.precision,
        pull=whole.pull,
        weights=xp.concat([whole.weights, xp.full(1, df + 1, dtype=whole.weights.dtype)]),
        levels=joined(whole.levels, level, ()),
        slopes=joined(whole.slopes, slope, (p,)),
        shapes=joined(whole.shapes, shape, (p, p)),
        own_well=True,
    )


def whitened_datasets(crowd: NIW, release: DatasetRelease) -> tuple[Float[Array, "p p"], Moments]:
    """Return a root of the crowd's scale and the datasets' moments in its coordinates, stacked along k.

    Any C·Q with Q orthogonal is a root. It is turned to the release's own axes, so that one direction in which an
    outlier has stretched the release a million times cannot drown the digits of the others; rows are whitened
    first and summarized second, so that neither a large mean nor near-collinear columns cost any.
    """
    xp = array_namespace(crowd.scale)
    moments = _moments_in(crowd.mean, crowd.root, release)
    weighted = moments.count[:, None] * moments.mean
    spread, axes = xp.linalg.eigh(xp.sum(moments.scatter, axis=0) + weighted.T @ moments.mean)
    root = crowd.root @ axes
    if bool(spread[-1] > 1e6 * spread[0]):
        return root, _moments_in(crowd.mean, root, release)
    return root, Moments(moments.count, moments.mean @ axes, axes.T @ moments.scatter @ axes)


def _moments_in(centre: Float[Array, " p"], root: Float[Array, "p p"], release: DatasetRelease) -> Moments:
    """Return the moments of root⁻¹(z − centre), shapes (k,), (k, p), (k, p, p); equal sizes in one batch."""
    xp, p = array_namespace(root), release.p
    sizes = release.rows
    counts = xp.asarray([float(size) for size in sizes], dtype=xp.float64)
    if len(set(sizes)) > 1 or sizes[0] * p > SMALL_DATASET:
        each = [Moments.of(solve_rows(root, xp.astype(z, xp.float64) - centre)) for z in release.datasets]
        return Moments(counts, xp.stack([one.mean for one in each]), xp.stack([one.scatter for one in each]))
    white = solve_rows(root, xp.astype(xp.stack(release.datasets), xp.float64) - centre)
    mean = xp.mean(white, axis=1)
    centred = white - mean[:, None, :]
    return Moments(counts, mean, xp.matrix_transpose(centred) @ centred)


def whitened_parameters(
    crowd: NIW, release: ParameterRelease
) -> tuple[Float[Array, "p p"], Float[Array, "p p"], Float[Array, " p"]]:
    """Return a root of the crowd's scale along the release's own axes, and A and b in its coordinates."""
    xp = array_namespace(crowd.scale)
    precision, _ = _parameters_in(crowd.mean, crowd.root, release)
    _, axes = xp.linalg.eigh(precision)
    root = crowd.root @ axes
    return root, *_parameters_in(crowd.mean, root, release)


def _parameters_in(
    centre: Float[Array, " p"], root: Float[Array, "p p"], release: ParameterRelease
) -> tuple[Float[Array, "p p"], Float[Array, " p"]]:
    """Return A = Σⱼ Σⱼ⁻¹ and b = Σⱼ Σⱼ⁻¹(μⱼ − centre) in the coordinates of root."""
    xp = array_namespace(root)
    roots = xp.linalg.cholesky(release.covariances)
    half = xp.linalg.solve(roots, xp.broadcast_to(root, roots.shape))
    shift = xp.linalg.solve(roots, (release.means - centre)[..., None])
    turned = xp.matrix_transpose(half)
    return xp.sum(turned @ half, axis=0), xp.sum((turned @ shift)[..., 0], axis=0)


def admit(
    records: Any,
    release: Release,
    prior: NIW,
    adversary_prior: NIW | None = None,
    reading: Reading = "record",
) -> Array:
    """Check all that an attack is given; return the records in the release's column order, or their moments."""
    if not isinstance(release, ParameterRelease | DatasetRelease):
        raise InputError(
            f"the release must be a ParameterRelease or a DatasetRelease, got {given(release)}; "
            "read a folder with load_release"
        )
    if reading not in get_args(Reading):
        raise InputError(f"reading must be {' or '.join(map(repr, get_args(Reading)))}, got {given(reading)}")
    if isinstance(records, Moments):
        records.require_possible()
        p = records.mean.shape[-1]
    else:
        if not is_array_api_obj(records):
            records = Records.in_order(records, release.columns).values
        records = real_array(records, "records")
        p = records.shape[-1] if records.ndim == 2 else 0
        if p == 0:
            raise InputError(f"records have shape (n, p) with p > 0, got {tuple(records.shape)}")
    _check_prior("prior", prior, release, p)
    require_same_prior(release, prior)
    if adversary_prior is not None:
        _check_prior("adversary_prior", adversary_prior, release, p)
    return records


def _check_prior(name: str, prior: Any, release: Release, p: int) -> None:
    """Refuse what is no prior, or one for other columns than the release's and the records'."""
    if not isinstance(prior, NIW) or prior.mean.ndim != 1:
        raise InputError(
            f"{name} must be one NIW, got {given(prior)}; give release.prior, or read a prior file with read_prior"
        )
    if prior.p != p or release.p != p:
        raise InputError(
            f"the records have {p} columns, the release {release.p}, the {name} {prior.p}; "
            "give all three for the same columns"
        )


def require_same_prior(release: Release, prior: NIW) -> None:
    """Refuse a prior other than the one that the release says it was made with."""
    if release.prior is None or release.prior is prior:
        return
    if prior.p != release.p:
        raise InputError(f"the release has {release.p} columns, the prior is for {prior.p}; give release.prior")
    for field in ("mean", "mean_weight", "df", "scale"):
        ours, theirs = (np.asarray(getattr(each, field)) for each in (prior, release.prior))
        for place in np.argwhere(~np.isclose(ours, theirs, rtol=1e-12, atol=0))[:1]:
            raise InputError(
                f"the release was made with another prior: its {field} is {theirs[tuple(place)]}"
                f"{f' in place {place.tolist()}' if len(place) else ''}, the one given has {ours[tuple(place)]}; "
                "give release.prior itself (on the command line leave --prior out), or adversary_prior=… for an "
                "adversary who believes another"
            )


def split_known(known: Any, release: Release) -> tuple[tuple[int, ...], Float[np.ndarray, " known"]]:
    """Split what is known of the target, by name or as a vector with NaN, into positions and their values."""
    if known is None:
        return (), np.zeros(0)
    named = by_name(known)
    known = known if named is None else _in_order(named, release.columns or ())
    vector = np.asarray(real_array(known, "known"))
    if vector.shape != (release.p,):
        raise InputError(
            f"known must be a vector of {release.p} values, NaN where unknown; got shape {vector.shape}"
        )
    if np.isinf(vector).any():
        raise InputError(f"known holds {vector[np.isinf(vector)][0]}; give finite values, NaN where unknown")
    positions = np.flatnonzero(~np.isnan(vector))
    if len(positions) == release.p:
        raise InputError("every feature is known; leave at least one NaN for the adversary to infer")
    return tuple(int(position) for position in positions), vector[positions]


def by_name(known: Any) -> Mapping[Any, Any] | None:
    """Return a dict, or a pandas Series whose labels are names, as a mapping; None where there are no names."""
    if hasattr(known, "iloc") and any(isinstance(label, str) for label in known.index):
        return dict(known.items())
    return known if isinstance(known, Mapping) else None


def _in_order(known: Mapping[Any, Any], names: Sequence[str]) -> list[Any]:
    """Return values by name as a vector, NaN where a name is absent."""
    for name in known:
        if name not in names:
            found = f"the columns are {', '.join(names)}" if names else "the release has no names; give a vector"
            raise InputError(f"there is no column {name!r} to know; {found}")
    return [known.get(name, np.nan) for name in names]
