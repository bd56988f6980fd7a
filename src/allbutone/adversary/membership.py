"""Membership: how much more probable a release is with a person in the table than without, in closed form.

By Bayes' rule p(Z | X₋, x)/p(Z | X₋) = p(x | X₋, Z)/p(x | X₋), and releases are independent given the table. So
the log likelihood ratio of the best test between "this person is in the table" and "they are not" is

    Σⱼ [log p(x | X₋, Z⁽ʲ⁾) − log p(x | X₋)] + Σₗ [log f(x | θ⁽ˡ⁾) − log p(x | X₋)],

the privacy loss of the person's record in this very release: no integral, no maximiser.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int
from scipy.special import gammaln

from allbutone.adversary.log_quadratic import LogQuadratic
from allbutone.adversary.mixed import MixedLeaveOneOut
from allbutone.model.location import Parameters
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW, Normal
from allbutone.support.arrays import half_log_det, squared_length

TINY = np.finfo(np.float64).tiny


def log_predictive_without(model: NIW, records: Float[np.ndarray, "n p"]) -> Float[np.ndarray, " n"]:
    """Return log p(x | all others) of records that a model knows already, each without itself.

    With δ = x − μ and 1 − h = |Λ₋|/|Λ| = 1 − κ/(κ−1)·δᵀΛ⁻¹δ it is the ratio of the evidences with and without x,

        −½p·log π + ½p·log((κ−1)/κ) + log Γ(ν/2) − log Γ((ν−p)/2) − ½·log|Λ| + ½(ν−1)·log(1 − h).
    """
    kappa, df, p = float(model.mean_weight), float(model.df), model.p
    left = 1 - kappa / (kappa - 1) * squared_length(model.root, records - model.mean)
    constant = gammaln(df / 2) - gammaln((df - p) / 2) + 0.5 * p * (np.log1p(-1 / kappa) - np.log(np.pi))
    return constant - half_log_det(model.root) + 0.5 * (df - 1) * np.log(np.maximum(left, TINY))


def evidence_of_measurements(
    prior: NIW,
    records: Float[np.ndarray, "n p"],
    datasets: Sequence[Float[np.ndarray, "_ p"]],
    parameters: Parameters | None = None,
    elsewhere: Moments | None = None,
) -> Float[np.ndarray, " n"]:
    """Return the log likelihood ratio of each record's membership, of a table of measurements in one cell."""
    moments = Moments.of(records)
    whole = prior.update(moments if elsewhere is None else moments.merge(elsewhere))
    before = log_predictive_without(whole, records)
    evidence = np.zeros(len(records))
    for each in datasets:
        evidence += log_predictive_without(whole.update(Moments.of(each)), records) - before
    if parameters is not None:
        for (mean,), (covariance,) in zip(parameters.coefficients, parameters.covariances, strict=True):
            evidence += Normal(mean, covariance).log_density(records) - before
    return evidence


def evidence_in_cells(
    everyone: MixedLeaveOneOut,
    rows: Int[np.ndarray, " b"],
    posteriors: LogQuadratic,
    offset: Float[np.ndarray, " b"],
) -> Float[np.ndarray, " b"]:
    """Return the same of a table with categories; `posteriors` and `offset`: of the records in their own cells.

    What the measurements say is ℓ + offset less the adversary's own predictive; what the counts of the cells say
    is log[(α_c + n_c + m_cj)/(α₊ + n + n_z)] less the same without the dataset, with the others' counts.
    """
    cells, truth = everyone.records.cells[rows], everyone.records.values[rows]
    own = everyone.before(rows, cells).predictive().log_density(truth)
    evidence = posteriors.log_density_unnormalized(truth) + offset - own
    for part in (everyone, *everyone.rest):
        places, among = part.places_of(rows)
        counted = part.cell_opinions(places, cells[:, None])[:, 0]
        totals = part.opinions * np.log(np.sum(part.whole.weights) - 1)
        totals -= sum(np.log(np.sum(model.weights) - 1) for model in part.after)
        evidence = evidence + among * (counted + totals)
    return evidence
