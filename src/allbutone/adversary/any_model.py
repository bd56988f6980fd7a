"""The posterior of a missing record for any model: a product of predictives."""

from collections.abc import Iterable
from typing import Any

from allbutone.model.protocol import Density, Model

Array = Any


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
