"""What the adversary knows, turned into the posterior of the missing record."""

from dataclasses import dataclass
from typing import Any

from array_api_compat import array_namespace, is_array_api_obj
from jaxtyping import Float

from allbutone.adversary.inputs import Reading, split_known, validate_inputs
from allbutone.adversary.log_quadratic import LogQuadratic
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.releases.release import DatasetRelease, ParameterRelease, Release
from allbutone.support.arrays import append_axes, as_array, eye, solve_rows, zeros

Array = Any

SMALL_DATASETS = 1 << 18  # numbers of datasets that are summarized together: 2 MB, and as much for each copy


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
    moments = Moments.of(validate_inputs(others, release, prior, adversary_prior, reading))
    positions, values = split_known(known, release)
    whole = posterior_of(moments, release, *split_priors(prior, adversary_prior, reading))
    return whole.given(positions, as_array(values, like=whole.centre)) if positions else whole


def posterior_of(moments: Moments, release: Release, prior: NIW, own_prior: NIW | None) -> LogQuadratic:
    """Return the log posterior from the others' moments, the mechanism's prior and the adversary's own, if any."""
    others = prior.update(moments)
    if isinstance(release, ParameterRelease):
        root, precision, pull = whitened_parameters(others, release)
        whole = from_parameters(others, root, release.draws, precision, pull)
    else:
        whole = from_datasets(others, *whitened_datasets(others, release))
    return whole if own_prior is None else with_own_prior(whole, own_prior.update(moments))


def split_priors(prior: NIW, adversary_prior: NIW | None, reading: Reading) -> tuple[NIW, NIW | None]:
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
        centre, root = zeros(release.p, like=release.means), eye(release.p, like=release.means)
        return cls(release.draws, *_parameters_in(centre, root, release))


Statistics = ParameterStatistics | Moments


def from_statistics(others: NIW, released: Statistics) -> LogQuadratic:
    """Return the posteriors of many targets at once, from sufficient statistics; batch axes lead.

    `others`: each adversary's own posterior (*batch). `released`: `ParameterStatistics` (*batch), or the moments
    of k datasets, mean (*batch, k, p), whose counts are (*batch, k), or (k,) if the whole batch shares them.
    """
    xp, root = array_namespace(others.mean), others.root
    turned = xp.matrix_transpose(root)
    if isinstance(released, ParameterStatistics):
        moved = released.pull - (released.precision @ others.mean[..., None])[..., 0]
        pull = (turned @ moved[..., None])[..., 0]
        return from_parameters(others, root, released.draws, turned @ released.precision @ root, pull)
    centred = released.mean - others.mean[..., None, :]
    mean = xp.matrix_transpose(xp.linalg.solve(root, xp.matrix_transpose(centred)))
    half = xp.linalg.solve(root[..., None, :, :], released.scatter)
    scatter = xp.linalg.solve(root[..., None, :, :], xp.matrix_transpose(half))
    return from_datasets(others, root, Moments(released.count, mean, scatter))


def from_datasets(others: NIW, root: Float[Array, "*#batch p p"], released: Moments) -> LogQuadratic:
    """Return the posterior after datasets whose whitened moments are given, shapes (*batch, k, …).

    Add Z first and the candidate last: with X₋ᵢ ∪ Z⁽ʲ⁾ ~ NIW(rⱼ, kⱼ, ·, Bⱼ) and hⱼ = kⱼ/(kⱼ+1),
    s(x) = (n_k − 1)ν′·log(1 + c·q₀) − Σⱼ (ν′ + n_z)·log(1 + hⱼ(x − rⱼ)ᵀBⱼ⁻¹(x − rⱼ))
    """
    xp, p, z, rows = array_namespace(released.mean), others.p, released.mean, released.count
    # one κ and ν a target, but one number of rows a dataset of a target
    kappa, df = append_axes(others.mean_weight, 1), append_axes(others.df, 1) + 1
    weight, unit = kappa + rows, eye(p, like=z)
    scale = unit + released.scatter + append_axes(kappa * rows / weight, 2) * (z[..., :, None] * z[..., None, :])
    half = xp.linalg.solve(xp.linalg.cholesky(scale), xp.broadcast_to(unit, scale.shape))
    shapes = append_axes(weight / (weight + 1), 2) * (xp.matrix_transpose(half) @ half)
    location = append_axes(rows / weight, 1) * z
    slopes = (shapes @ location[..., None])[..., 0]
    return LogQuadratic(
        centre=others.mean,
        root=root,
        df=others.df,
        outward=(rows.shape[-1] - 1) * (others.df + 1),
        inflation=others.mean_weight / (others.mean_weight + 1),
        precision=zeros((p, p), like=z),
        pull=zeros(p, like=z),
        weights=df + rows,
        levels=1 + xp.sum(location * slopes, axis=-1),
        slopes=slopes,
        shapes=shapes,
    )


def from_parameters(
    others: NIW,
    root: Float[Array, "*#batch p p"],
    draws: int,
    precision: Float[Array, "*batch p p"],
    pull: Float[Array, "*batch p"],
) -> LogQuadratic:
    """Return the posterior after parameter draws whose whitened A and b are given.

    s(x) = (n_θ − 1)ν′·log(1 + c·q₀) − dᵀAd + 2bᵀd,  A = Σⱼ Σⱼ*⁻¹,  b = Σⱼ Σⱼ*⁻¹(μⱼ* − μ)
    (the paper's two quadratic terms merge because c + 1/κ′ = 1)
    """
    p, kappa = others.p, others.mean_weight
    return LogQuadratic(
        centre=others.mean,
        root=root,
        df=others.df,
        outward=(draws - 1) * (others.df + 1),
        inflation=kappa / (kappa + 1),
        precision=precision,
        pull=pull,
        weights=zeros(0, like=precision),
        levels=zeros(0, like=precision),
        slopes=zeros((0, p), like=precision),
        shapes=zeros((0, p, p), like=precision),
    )


def with_own_prior(whole: LogQuadratic, own: NIW) -> LogQuadratic:
    """Replace the Student t term of the holder's prior by that of the adversary's own."""
    xp = array_namespace(whole.centre)
    half = xp.linalg.solve(own.root, whole.root)
    inflation = append_axes(own.mean_weight / (own.mean_weight + 1), 2)
    return add_own_well(whole, own.df, inflation * (xp.matrix_transpose(half) @ half), whole.whiten(own.mean))


def add_own_well(
    whole: LogQuadratic, df: Any, shape: Float[Array, "*batch p p"], place: Float[Array, "*batch p"]
) -> LogQuadratic:
    """Add −(ν_a + 1)·log(1 + (v − place)ᵀM(v − place)), the adversary's own Student t, to the wells.

    The holder's t term had cancelled one copy of the determinant; it comes back.
    """
    xp = array_namespace(whole.centre)
    slope = (shape @ place[..., None])[..., 0]
    level = 1 + xp.sum(place * slope, axis=-1)
    batch = whole.centre.shape[:-1]
    k, p = whole.wells, whole.p
    weight = append_axes(df + 1, 1) if is_array_api_obj(df) else as_array([df + 1.0], like=whole.centre)
    shared = whole.weights.ndim == 1 and weight.ndim == 1
    wells = whole.weights if shared else xp.broadcast_to(whole.weights, (*batch, k))

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
        weights=xp.concat([wells, xp.broadcast_to(weight, (*wells.shape[:-1], 1))], axis=-1),
        levels=joined(whole.levels, level, ()),
        slopes=joined(whole.slopes, slope, (p,)),
        shapes=joined(whole.shapes, shape, (p, p)),
        own_well=True,
    )


def whitened_datasets(others: NIW, release: DatasetRelease) -> tuple[Float[Array, "p p"], Moments]:
    """Return a root of the other records' scale and the datasets' moments in its coordinates, stacked along k.

    Any C·Q with Q orthogonal is a root. It is turned to the release's own axes, so that one direction in which an
    outlier has stretched the release a million times cannot drown the digits of the others; rows are whitened
    first and summarized second, so that neither a large mean nor near-collinear columns cost any.
    """
    xp = array_namespace(others.scale)
    moments = _moments_in(others.mean, others.root, release)
    weighted = moments.count[:, None] * moments.mean
    spread, axes = xp.linalg.eigh(xp.sum(moments.scatter, axis=0) + weighted.T @ moments.mean)
    root = others.root @ axes
    if bool(spread[-1] > 1e6 * spread[0]):
        return root, _moments_in(others.mean, root, release)
    return root, Moments(moments.count, moments.mean @ axes, axes.T @ moments.scatter @ axes)


def _moments_in(centre: Float[Array, " p"], root: Float[Array, "p p"], release: DatasetRelease) -> Moments:
    """Return the moments of root⁻¹(z − centre), shapes (k,), (k, p), (k, p, p).

    Small datasets of one size are summarized many at a time, within a few megabytes; large ones one by one.
    """
    xp, sizes = array_namespace(root), release.rows
    together = max(1, SMALL_DATASETS // (max(sizes) * release.p)) if len(set(sizes)) == 1 else 1
    found = []
    for start in range(0, len(sizes), together):
        some = release.datasets[start : start + together]
        if len(some) == 1:
            one = Moments.of(solve_rows(root, xp.astype(some[0], xp.float64) - centre))
            found.append((one.mean[None, ...], one.scatter[None, ...]))
            continue
        white = solve_rows(root, xp.astype(xp.stack(some), xp.float64) - centre)
        mean = xp.mean(white, axis=1)
        centred = white - mean[:, None, :]
        found.append((mean, xp.matrix_transpose(centred) @ centred))
    counts = as_array([float(size) for size in sizes], like=root)
    return Moments(counts, *(found[0] if len(found) == 1 else map(xp.concat, zip(*found, strict=True))))


def whitened_parameters(
    others: NIW, release: ParameterRelease
) -> tuple[Float[Array, "p p"], Float[Array, "p p"], Float[Array, " p"]]:
    """Return a root of the other records' scale along the release's own axes, and A and b in its coordinates."""
    xp = array_namespace(others.scale)
    precision, _ = _parameters_in(others.mean, others.root, release)
    _, axes = xp.linalg.eigh(precision)
    root = others.root @ axes
    return root, *_parameters_in(others.mean, root, release)


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
