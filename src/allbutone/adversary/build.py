"""What the adversary knows, turned into the posterior of the missing record."""

from dataclasses import replace
from typing import Any

from array_api_compat import is_array_api_obj
from jaxtyping import Float

from allbutone.adversary.inputs import Reading, as_given, split_known, validate_inputs
from allbutone.adversary.log_quadratic import LogQuadratic
from allbutone.adversary.several_priors import with_another_prior
from allbutone.adversary.wells import chain_wells
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.model.prior_file import AnyPrior
from allbutone.releases.folder import AnyRelease
from allbutone.releases.joined import OfFewer, Released, ReleasesByPrior
from allbutone.releases.statistics import JoinedStatistics, ParameterStatistics, Statistics
from allbutone.support.arrays import all_true, append_axes, array_namespace, as_array, attempt, eye, zeros
from allbutone.support.errors import Cure, InputError

Array = Any


def log_posterior(
    others: Any,
    release: AnyRelease,
    prior: AnyPrior,
    *,
    known: Any = None,
    adversary_prior: AnyPrior | None = None,
    reading: Reading = "record",
) -> LogQuadratic:
    """Return the log posterior of the one record missing from `others`; the arguments are those of `posterior`."""
    release, prior, adversary_prior = as_given(release, prior, adversary_prior)
    moments = Moments.of(validate_inputs(others, release, prior, adversary_prior, reading))
    positions, values = split_known(known, release)
    whole = posterior_of(moments, release, *split_priors(prior, adversary_prior, reading))
    return whole.given(positions, as_array(values, like=whole.centre)) if positions else whole


def posterior_of(moments: Moments, release: Released, prior: NIW, own_prior: NIW | None) -> LogQuadratic:
    """Return the log posterior from the others' moments, the mechanism's prior and the adversary's own, if any."""
    if isinstance(release, ReleasesByPrior):
        whole = posterior_of(moments, release.first, prior, own_prior)
        for part in release.rest:
            assert part.prior is not None
            if isinstance(part, OfFewer):
                raise InputError(
                    "a release was made when the table had fewer records, and which of the others were among them "
                    "is not known here",
                    "attack all records of the table at once",
                )
            whole = with_another_prior(whole, posterior_of(moments, part, part.prior, None))
        return whole
    others = prior.update(moments)
    whole = from_whitened(others, *release.whitened(others))
    return whole if own_prior is None else with_own_prior(whole, own_prior.update(moments))


def split_priors(prior: NIW, adversary_prior: NIW | None, reading: Reading) -> tuple[NIW, NIW | None]:
    """Return the prior the adversary takes for the mechanism's, and their own of the record where it differs."""
    if adversary_prior is not None and reading == "mechanism":
        return adversary_prior, None
    return prior, adversary_prior


def from_statistics(others: NIW, released: Statistics) -> LogQuadratic:
    """Return the posteriors of many targets at once, from sufficient statistics; batch axes lead.

    `others`: each adversary's own posterior (*batch). `released`: `ParameterStatistics` (*batch), the moments
    of k datasets, mean (*batch, k, p), whose counts are (*batch, k), or (k,) if the whole batch shares them; or
    both (`JoinedStatistics`).
    """
    if isinstance(released, JoinedStatistics):
        return together(*(from_statistics(others, part) for part in (released.parameters, released.datasets)))
    xp, root = array_namespace(others.mean), others.root
    turned = xp.matrix_transpose(root)
    if isinstance(released, ParameterStatistics):
        moved = released.pull - (released.precision @ others.mean[..., None])[..., 0]
        pull = (turned @ moved[..., None])[..., 0]
        precision = turned @ released.precision @ root
        return from_whitened(others, root, ParameterStatistics(released.draws, precision, pull))
    centred = released.mean - others.mean[..., None, :]
    mean = xp.matrix_transpose(xp.linalg.solve(root, xp.matrix_transpose(centred)))
    half = xp.linalg.solve(root[..., None, :, :], released.scatter)
    scatter = xp.linalg.solve(root[..., None, :, :], xp.matrix_transpose(half))
    return from_whitened(others, root, Moments(released.count, mean, scatter))


def from_whitened(others: NIW, root: Float[Array, "*#batch p p"], released: Statistics) -> LogQuadratic:
    """Return the posterior after a release whose statistics are given in the coordinates of `root`."""
    if isinstance(released, JoinedStatistics):
        return together(*(from_whitened(others, root, part) for part in (released.parameters, released.datasets)))
    if isinstance(released, ParameterStatistics):
        return from_parameters(others, root, released.draws, released.precision, released.pull)
    return from_datasets(others, root, released)


def from_datasets(others: NIW, root: Float[Array, "*#batch p p"], released: Moments) -> LogQuadratic:
    """Return the posterior after datasets whose whitened moments are given, shapes (*batch, k, …).

    Add Z first and the candidate last: with X₋ᵢ ∪ Z⁽ʲ⁾ ~ NIW(rⱼ, kⱼ, ·, Bⱼ) and hⱼ = kⱼ/(kⱼ+1),
    s(x) = (n_k − 1)ν′·log(1 + c·q₀) − Σⱼ (ν′ + n_z)·log(1 + hⱼ(x − rⱼ)ᵀBⱼ⁻¹(x − rⱼ))
    """
    z, rows = released.mean, released.count
    # one κ a target, but one number of rows a dataset of a target
    kappa = append_axes(others.mean_weight, 1)
    weight = kappa + rows
    outer = append_axes(kappa * rows / weight, 2) * (z[..., :, None] * z[..., None, :])
    scale = eye(others.p, like=z) + released.scatter + outer
    return from_updated(others, root, weight, append_axes(rows / weight, 1) * z, scale, rows)


def from_updated(
    others: NIW,
    root: Float[Array, "*#batch p p"],
    weight: Float[Array, "*#batch k"],
    location: Float[Array, "*batch k p"],
    scale: Float[Array, "*batch k p p"],
    rows: Float[Array, "*#batch k"],
) -> LogQuadratic:
    """Return the posterior from the others' model and that after each of k datasets, in the coordinates of root.

    `weight` kⱼ, `location` rⱼ, `scale` Bⱼ and `rows` are the mean weight, mean, scale and number of rows of the
    model given the others and the j-th dataset.
    """
    xp, p = array_namespace(location), others.p
    half = xp.linalg.inv(_root(scale))
    shapes = append_axes(weight / (weight + 1), 2) * (xp.matrix_transpose(half) @ half)
    slopes = (shapes @ location[..., None])[..., 0]
    return LogQuadratic(
        centre=others.mean,
        root=root,
        df=others.df,
        outward=(rows.shape[-1] - 1) * (others.df + 1),
        inflation=others.mean_weight / (others.mean_weight + 1),
        precision=zeros((p, p), like=location),
        pull=zeros(p, like=location),
        weights=append_axes(others.df, 1) + 1 + rows,
        levels=1 + xp.sum(location * slopes, axis=-1),
        slopes=slopes,
        shapes=shapes,
    )


def _root(scale: Float[Array, "*batch p p"]) -> Float[Array, "*batch p p"]:
    xp = array_namespace(scale)
    root = attempt(xp.linalg.cholesky, scale)
    if root is None or not all_true(xp.isfinite(root)):
        raise InputError(
            "the released datasets are too far from the other records, relative to their spread, to compute with",
            "correct values that are out of all proportion",
            Cure("write a prior with means and scale from public knowledge", "prior"),
        )
    return root


def from_parameters(
    others: NIW,
    root: Float[Array, "*#batch p p"],
    draws: Any,
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


def together(parameters: LogQuadratic, datasets: LogQuadratic) -> LogQuadratic:
    """Return the posterior after parameters and datasets of one table, from those after either alone.

    Both hold the adversary's own Student t, −ν′·log(1 + c·q₀) in s; it counts once, so one copy comes back:
    s(x) = (n_θ + n_k − 1)ν′·log(1 + c·q₀) − dᵀAd + 2bᵀd − Σⱼ (ν′ + n_z)·log(1 + hⱼ(x − rⱼ)ᵀBⱼ⁻¹(x − rⱼ))
    """
    outward = parameters.outward + datasets.outward + datasets.df + 1
    return replace(datasets, outward=outward, precision=parameters.precision, pull=parameters.pull)


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
    weight = append_axes(df + 1, 1) if is_array_api_obj(df) else as_array([df + 1.0], like=whole.centre)
    shared = whole.weights.ndim == 1 and weight.ndim == 1
    return replace(
        whole,
        outward=whole.outward + whole.df + 1,
        weights=chain_wells(() if shared else batch, whole.weights, weight, 0),
        levels=chain_wells(batch, whole.levels, level[..., None], 0),
        slopes=chain_wells(batch, whole.slopes, slope[..., None, :], 1),
        shapes=chain_wells(batch, whole.shapes, shape[..., None, :, :], 2),
        own_well=True,
    )
