"""The posterior of a missing record whose covariates are known: the normal model's, at those covariates."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from allbutone.adversary.build import from_parameters, with_own_prior
from allbutone.adversary.log_quadratic import LogQuadratic
from allbutone.model.regression import Regression
from allbutone.releases.statistics import whitened_parameters

Array = Any


def log_posterior_given(
    others: Regression,
    covariates: Any,
    *,
    datasets: Iterable[tuple[Any, Any]] = (),
    parameters: Sequence[tuple[Any, Any]] = (),
) -> LogQuadratic:
    """Return the log posterior of the measurements x of a missing record with covariates z.

    `others`: the regression given all other records; `datasets`: pairs of released measurements and covariates;
    `parameters`: pairs of released coefficients and covariance. With d = x − Bᵀz, h = zᵀK⁻¹z:

        s(x) = (m + k − 1)·ν′·log(1 + dᵀΛ⁻¹d/(1+h)) − dᵀAd + 2bᵀd − Σⱼ (ν′ + nⱼ)·log(1 + (x−rⱼ)ᵀBⱼ⁻¹(x−rⱼ)/(1+hⱼ))

    A = Σⱼ Σⱼ⁻¹, b = Σⱼ Σⱼ⁻¹(Bⱼ − B)ᵀz; rⱼ, Bⱼ, hⱼ at z after the j-th dataset. At z the regression is an NIW, so
    this is the usual family, and all that maximises, integrates and measures it holds as it is.
    """
    before, p = others.at(covariates), others.p
    if parameters:
        means = np.stack([np.asarray(covariates) @ coefficients for coefficients, _ in parameters])
        root, seen = whitened_parameters(means, np.stack([covariance for _, covariance in parameters]), before)
        whole = from_parameters(before, root, seen.draws, seen.precision, seen.pull)
    else:
        whole = from_parameters(before, before.root, 0, np.zeros((p, p)), np.zeros(p))
    for records, known in datasets:
        # one more Student t, and what it shares with the others' own comes back: as for a prior of one's own
        whole = with_own_prior(whole, others.update(records, known).at(covariates))
    return replace(whole, own_well=False)
