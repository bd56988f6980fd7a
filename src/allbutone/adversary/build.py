"""What the adversary knows, turned into the posterior of the missing record."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from array_api_compat import is_array_api_obj
from jaxtyping import Float

from allbutone.adversary.log_quadratic import LogQuadratic, chain_wells
from allbutone.adversary.who import USUAL, Adversary, Reading, admit, known_values
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW, Density, Model
from allbutone.model.prior import AnyPrior
from allbutone.releases.folder import AnyRelease
from allbutone.releases.several import Released, Releases
from allbutone.releases.statistics import JoinedStatistics, ParameterStatistics, Statistics
from allbutone.support.arrays import all_true, append_axes, array_namespace, as_array, attempt, eye, zeros
from allbutone.support.errors import Cure, InputError

# Releases of one table that were made with different priors, attacked together.


Array = Any


def with_another_prior(whole: LogQuadratic, part: LogQuadratic) -> LogQuadratic:
    """Add what releases of another prior say; `part` is the posterior after those alone, batch axes lead.

    ℓ + log p_r(x | X₋, releases) − log p_r(x | X₋): the part's own Student t is taken out again, so its outward
    term is (number of releases)·ν′_r·log(1 + c_r‖v_r‖²). It becomes a well of negative weight, and quadratic and
    wells move to the whole's coordinates, v_r = Tv + s. Both have one ν and one κ for all targets. The new wells
    stand before those there are, of which the last may be the adversary's own prior.
    """
    xp, batch, p = array_namespace(whole.centre), whole.centre.shape[:-1], whole.p
    push = as_array([-(part.outward + part.df + 1.0)], like=whole.centre)
    levels = chain_wells(batch, part.levels, xp.ones_like(push), 0)
    slopes = chain_wells(batch, part.slopes, zeros((1, p), like=push), 1)
    shapes = chain_wells(batch, part.shapes, part.inflation * eye(p, like=push)[None, :, :], 2)
    turn, shift = xp.linalg.solve(part.root, whole.root), part.whiten(whole.centre)
    back = turn.mT
    bent = (shapes @ shift[..., None, :, None])[..., 0]
    pull = part.pull - (part.precision @ shift[..., None])[..., 0]
    return replace(
        whole,
        precision=whole.precision + back @ part.precision @ turn,
        pull=whole.pull + (back @ pull[..., None])[..., 0],
        weights=xp.concat([part.weights, push, whole.weights]),
        levels=chain_wells(batch, levels + xp.vecdot(bent - 2 * slopes, shift[..., None, :]), whole.levels, 0),
        slopes=chain_wells(batch, (slopes - bent) @ turn, whole.slopes, 1),
        shapes=chain_wells(batch, back[..., None, :, :] @ shapes @ turn[..., None, :, :], whole.shapes, 2),
    )


def log_posterior(
    others: Any,
    release: AnyRelease,
    adversary: Adversary = USUAL,
    *,
    prior: AnyPrior | None = None,
    reading: Reading = "record",
) -> LogQuadratic:
    """Return the log posterior of the one record missing from `others`; the arguments are those of `posterior`."""
    values, released, taken, own = admit(others, release, adversary, prior, reading)
    whole = posterior_of(Moments.of(values), released, taken, own)
    positions, known = known_values(adversary, released)
    return whole.given(positions, as_array(known, like=whole.centre)) if positions else whole


def posterior_of(moments: Moments, release: Released, prior: NIW, own_prior: NIW | None) -> LogQuadratic:
    """Return the log posterior from the others' moments, the mechanism's prior and the adversary's own, if any."""
    if isinstance(release, Releases):
        first, *rest = release.parts
        whole = posterior_of(moments, first.release, prior, own_prior)
        for part in rest:
            if part.people is not None:
                raise InputError(
                    "a release was made when the table had fewer records, and which of the others were among them "
                    "is not known here",
                    "attack all records of the table at once",
                )
            own = part.release.mechanism.require_prior()
            whole = with_another_prior(whole, posterior_of(moments, part.release, own, None))
        return whole
    others = prior.update(moments)
    whole = from_whitened(others, *release.normal.whitened(others))
    return whole if own_prior is None else with_own_prior(whole, own_prior.update(moments))


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
    xp = array_namespace(location)
    half = xp.linalg.inv(_root(scale))
    shapes = append_axes(weight / (weight + 1), 2) * (xp.matrix_transpose(half) @ half)
    slopes = (shapes @ location[..., None])[..., 0]
    return LogQuadratic(
        centre=others.mean,
        root=root,
        df=others.df,
        outward=(rows.shape[-1] - 1) * (others.df + 1),
        inflation=others.mean_weight / (others.mean_weight + 1),
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
    kappa = others.mean_weight
    return LogQuadratic(
        centre=others.mean,
        root=root,
        df=others.df,
        outward=(draws - 1) * (others.df + 1),
        inflation=kappa / (kappa + 1),
        precision=precision,
        pull=pull,
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


# The posterior of a missing record for any model: a product of predictives.


def log_posterior_of_model(
    candidates: Array,
    others: Model,
    *,
    datasets: Iterable[Any] = (),
    parameters: Iterable[Density] = (),
    own: Density | None = None,
) -> Array:
    """Return the log posterior of a missing record at candidates, up to a constant; `others`: the model given X₋.

    log p(x) + Σⱼ [log p(x | X₋, Z⁽ʲ⁾) − log p(x | X₋)] + Σⱼ [log f(x | θ⁽ʲ⁾) − log p(x | X₋)]

    Each released dataset, and each released draw of the parameters (given as the distribution of a record that it
    stands for), is one more opinion on x; the differences take out what the opinions share. `own`: what the
    adversary thinks of x before any release, p(x | X₋) by default. It holds for every exchangeable model, since
    p(Z | X₋, x) = p(Z | X₋)·p(x | X₋, Z)/p(x | X₋), and likewise for θ. `log_posterior` is this for the `NIW`, in
    a closed form that can be maximised and integrated.
    """
    before = others.predictive()
    known = before.log_density(candidates)
    total = known if own is None else own.log_density(candidates)
    for dataset in datasets:
        total = total + others.update(dataset).predictive().log_density(candidates) - known
    for density in parameters:
        total = total + density.log_density(candidates) - known
    return total
