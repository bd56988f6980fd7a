"""Valid inference from synthetic tables with categories: proportions, and regressions with intervals."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri

from allbutone.releases.combining import Combined, combine
from allbutone.releases.regressions import NotEstimable, coded, least_squares, level_term, logistic, term_names
from allbutone.releases.synthetic_tables import synthetic_tables
from allbutone.support.errors import InputError
from allbutone.support.text import listed
from allbutone.tables.categories import Categories


def combine_proportions(release: Any, *, people: int, level: float = 0.95) -> Combined:
    """Estimate the population's share of every level, `names` such as `sex[m]`, from a release with categories.

    q is a dataset's share, v = q(1 − q)/k, combined by the rule `within` of `combine`: T = q̄(1 − q̄)·c,
    c = 1/n + (1/n + 1/k)/m. The interval is Wilson's, all π with (q̄ − π)² ≤ z²·c·π(1 − π): unlike q̄ ± z·√T it
    stays within 0 and 1 and covers as often as it says where a level is rare (but needs one person or more to have
    it, n·π ≥ 1 or so).

    >>> import pyarrow as pa, allbutone as abo
    >>> table = pa.table({"age": [50.0, 61, 47, 70, 66, 58], "sex": ["f", "m", "f", "m", "f", "m"]})
    >>> release = abo.Synthesizer().fit(table).sample(datasets=3)
    >>> abo.combine_proportions(release, people=6).names
    ('sex[f]', 'sex[m]')
    """
    tables = synthetic_tables(release)
    tables.require_whole()
    categories = tables.categories[0]
    if not categories.columns:
        raise InputError("the release has no columns of categories", "combine_means has the means of measurements")
    shares, rows = np.stack([_shares(each) for each in tables.categories]), np.array(tables.rows)
    found = combine(shares, shares * (1 - shares) / rows[:, None], people=people, rows=rows, level=level)
    factor = 1 / people + (1 / people + np.mean(1 / rows)) / len(rows)
    reach = ndtri((1 + level) / 2) ** 2 * factor
    middle = (found.estimate + reach / 2) / (1 + reach)
    half = np.sqrt(reach * found.estimate * (1 - found.estimate) + reach**2 / 4) / (1 + reach)
    levels = zip(categories.columns, categories.levels, strict=True)
    return replace(
        found,
        df=np.full(found.df.shape, np.inf),
        low=np.maximum(middle - half, 0.0),
        high=np.minimum(middle + half, 1.0),
        names=tuple(level_term(column, each) for column, all_levels in levels for each in all_levels),
    )


def _shares(categories: Categories) -> Float[np.ndarray, " levels"]:
    """Return the share of every level of every column, one after the other."""
    columns = zip(categories.codes.T, categories.levels, strict=True)
    return np.concatenate([np.bincount(codes, minlength=len(levels)) for codes, levels in columns]) / len(
        categories
    )


def combine_regression(
    release: Any,
    outcome: str,
    predictors: str | Sequence[str],
    *,
    people: int,
    rule: str = "within",
    level: float = 0.95,
    on_model_scale: bool = False,
) -> Combined:
    """Estimate the coefficients of a regression in the population, with intervals, from synthetic tables.

    A measurement as `outcome` is regressed by least squares; a category of two levels by logistic regression, with
    coefficients that are log odds ratios of its second level. `predictors` are measurements and categories; a
    category has a term for each level but the first, which is the reference: `names` are `intercept`, `age`,
    `sex[m]`. Measurements are in natural units, or as the model sees them (`on_model_scale`: logarithms, say).

    The coefficients and variances of every table are combined by `combine`. With d terms besides the intercept a
    table of n records has the error of n − d (the degrees of freedom that are left), so `people` and rows count d
    fewer. A logistic regression knows less than the model that drew the tables (Efron 1975): where categories lie
    far apart, `within` covers somewhat more than it says.
    If the real table had gaps, it knew less than n records do: use `between`, and many datasets.

    >>> import allbutone as abo
    >>> release = abo.NIWSynthesizer().fit(abo.demo_cohort()).sample(datasets=5)
    >>> abo.combine_regression(release, "T2D", ["BMI", "HT"], people=503).names
    ('intercept', 'BMI', 'HT')
    """
    tables = synthetic_tables(release, on_model_scale=on_model_scale)
    tables.require_whole()
    columns, categories = tables.columns, tables.categories[0]
    predictors = (predictors,) if isinstance(predictors, str) else tuple(predictors)
    _check_names(outcome, predictors, columns, categories)
    terms = term_names(predictors, columns, categories)
    fewer = len(terms) - 1
    if people < fewer + 2:
        raise InputError(f"{people} people are too few for {len(terms)} coefficients", "choose fewer predictors")

    def fitted(values: Float[np.ndarray, "n p"], each: Categories) -> tuple[Any, Any]:
        design = coded(predictors, values, columns, each)
        if outcome in columns:
            return least_squares(design, values[:, columns.index(outcome)], terms)
        return logistic(design, each.codes[:, each.columns.index(outcome)] == 1, terms)

    found = []
    for number, table in enumerate(zip(tables.values, tables.categories, strict=True), start=1):
        try:
            found.append(fitted(*table))
        except NotEstimable as error:
            raise InputError(f"dataset {number} {error}", "choose other predictors", "release more rows") from None
    estimates, variances = (np.stack(part) for part in zip(*found, strict=True))
    rows = [size - fewer for size in tables.rows]
    combined = combine(estimates, variances, people=people - fewer, rows=rows, rule=rule, level=level)
    return replace(combined, names=terms)


def _check_names(
    outcome: str, predictors: tuple[str, ...], columns: tuple[str, ...], categories: Categories
) -> None:
    """Refuse names that the release does not have, and outcomes that neither regression is for."""
    known = (*columns, *categories.columns)
    for name in (outcome, *predictors):
        if name not in known:
            raise InputError(f"the release has no column {name!r}", f"its columns are {listed(known)}")
    if not predictors or outcome in predictors or len(set(predictors)) < len(predictors):
        raise InputError("predictors are columns other than the outcome, one or more, each once", "name them so")
    if outcome in categories.columns:
        levels = categories.levels[categories.columns.index(outcome)]
        if len(levels) != 2:
            raise InputError(
                f"{outcome!r} has {len(levels)} levels, and logistic regression is for two",
                "choose another outcome",
            )
