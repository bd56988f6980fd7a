"""Valid inference from synthetic datasets: means, proportions and regressions, with their intervals."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from scipy.linalg import solve_triangular
from scipy.special import expit, log_ndtr, ndtri, stdtrit

from allbutone.model.moments import UNKNOWN
from allbutone.releases.folder import with_tables
from allbutone.releases.release import Release
from allbutone.releases.several import Released
from allbutone.support.arrays import real_array
from allbutone.support.errors import Cure, InputError, count_of, describe_value
from allbutone.support.text import ShowsItself, joined, listed
from allbutone.tables.categories import Categories

# Valid inference from synthetic datasets: estimates and intervals for the population behind the real table.


RULES = ("within", "between")
ROUNDS = 500  # of expectation and maximisation
OF_GAPS = "Values that are missing are left out; the intervals know how many are."
MOST_CUT = 0.5  # of the values at a limit: with more, the normal behind them is hardly known


@dataclass(frozen=True, eq=False, repr=False)
class Combined(ShowsItself):
    """An estimate of a population value from m synthetic datasets, its variance T, and an interval.

    `within` is the mean v̄ of the datasets' own variances, `between` the variance b of their estimates (NaN for one
    dataset). `adjusted` says where the rule `between` came out negative and was replaced. `names`: of what was
    estimated, where it has names. `note`: what the interval does not know of, or nothing.

    >>> import allbutone as abo
    >>> mean = abo.combine([1.2, 0.9, 1.1], [0.04, 0.05, 0.04], people=100, rows=100)
    >>> bool(mean.low < mean.estimate < mean.high)
    True
    """

    estimate: Float[np.ndarray, "*q"]
    variance: Float[np.ndarray, "*q"]
    df: Float[np.ndarray, "*q"]
    low: Float[np.ndarray, "*q"]
    high: Float[np.ndarray, "*q"]
    within: Float[np.ndarray, "*q"]
    between: Float[np.ndarray, "*q"]
    adjusted: Bool[np.ndarray, "*q"]
    level: float
    rule: str
    names: tuple[str, ...] = ()
    note: str = ""

    def table(self) -> dict[str, np.ndarray]:
        """Return a row for each name: estimate, standard error √T, and the interval's ends."""
        return {
            "name": np.array(self.names),
            "estimate": self.estimate,
            "standard_error": np.sqrt(self.variance),
            "low": self.low,
            "high": self.high,
        }


def combine(
    given: Any,
    what: Any = "means",
    *,
    people: int,
    rows: Any = None,
    rule: str | None = None,
    level: float = 0.95,
    on_model_scale: bool = False,
) -> Combined:
    """Estimate a population's values from synthetic tables, with intervals.

    `given`: a release, its folder, or several. `what`: its "means" of measurements, "proportions" of levels, or
    a regression, "bmi ~ age + sex" (or the outcome and a list of predictors); `Combined.names` says of what. Or,
    for anything else, estimates q and as `what` their variances v, shape (m, …) each, computed on every dataset as
    if it were real, with `rows`, k, the size of the datasets, one for all or one for each.

    `people` is n, the number of real records. With w̄ the mean of v·k/n, what v would be in a table of n records, q̄
    varies about the population's value by

        within:   T = w̄ + (w̄ + v̄)/m                  Raab, Nowok and Dibben (2016), v̄·(k/n + (1 + k/n)/m)
        between:  T = (1 + 1/m)·b − v̄, or w̄ if T < 0    Raghunathan, Reiter and Rubin (2003); Reiter (2002)

    for datasets that have parameters of their own, drawn from the posterior. The first part is the real table's
    own error, the second that of the m draws. `within` serves one dataset or many and is the steadier; `between`
    does without n unless T < 0, but needs many datasets, say 100: with fewer it covers more than it says. Of
    releases with a guarantee only `between` knows of the noise: it is the rule there, and elsewhere `within` is.

    Intervals are Student t.
        within:   1/df = (w̄/T)²·(1 + 1/m)/(n − 1) + 1/(m·(k − 1)), the noise that T does not share with q̄
                  (a departure: Raab et al. take the normal, its limit)
        between:  df = (m − 1)·(1 − v̄/((1 + 1/m)·b))², or m − 1 where T < 0
    Both hold if the model is right and the prior weak beside n records.

    A regression is of natural units, or of what the model sees (`on_model_scale`: logarithms, say).

    Where synthetic tables have gaps, they come by chance and as often as the real table's: of k rows k·g have a
    value, of n people n·g had one. So v is of what is there, s²/(k·g), and v·k/n is s²/(n·g), the real table's.

    >>> import allbutone as abo
    >>> release = abo.Synthesizer().fit(abo.demo_cohort()).sample(datasets=5)
    >>> abo.combine(release, "T2D ~ BMI + HT", people=503).names
    ('intercept', 'BMI', 'HT')
    >>> abo.combine([1.2, 0.9, 1.1], [0.04, 0.05, 0.04], people=100, rows=100).estimate.item()
    1.0666666666666667
    """
    by_rule: dict[str, Any] = {"people": people, "rule": rule or "within", "level": level}
    if not _is_release(given):
        if rows is None:
            raise InputError("estimates are combined with the sizes of their datasets", Cure("give them", "rows"))
        return _combined(given, what, rows=rows, **by_rule)
    if rows is not None:
        raise InputError("a release says itself how many rows its datasets have", Cure("leave it out", "rows"))
    release = with_tables(given)
    if release.noisy is not None:
        by_rule["rule"] = _rule_of_noise(release, rule)
    for number, table in enumerate(release.tables, start=1):
        if len(table.values) < 2:
            raise InputError(f"dataset {number} has one row, which has no variance", "leave it out")
    if what == "means":
        combined = _of_means(release, **by_rule)
    elif what == "proportions":
        combined = _of_proportions(release, **by_rule)
    else:
        combined = _of_regression(release, *_formula(what), on_model_scale=on_model_scale, **by_rule)
    if any(table.has_gaps for table in release.tables):
        combined = replace(combined, note=f"{combined.note} {OF_GAPS}".strip())
    return combined


def _rule_of_noise(release: Release, rule: str | None) -> str:
    """Return the rule for a release with a guarantee, or say why another one, or one dataset, does not serve."""
    if rule == "within":
        raise InputError(
            "the release has a guarantee, whose noise differs between datasets and is not seen within one",
            Cure("use the other rule", "rule", "between"),
        )
    if len(release.tables) == 1:
        raise InputError(
            "one dataset of a release with a guarantee does not say how much its noise matters",
            "draw more from the same noisy moments, which costs nothing: release.draw_more(datasets=100)",
        )
    return rule or "between"


def _is_release(given: Any) -> bool:
    """Say whether this is a release, its folder, or several of these."""
    if isinstance(given, list | tuple):
        return bool(given) and all(_is_release(each) for each in given)
    return isinstance(given, Released | str | Path)


def _formula(what: Any) -> tuple[str, tuple[str, ...]]:
    """Return the outcome and the predictors of a regression."""
    if isinstance(what, str) and "~" in what:
        outcome, _, predictors = what.partition("~")
        return outcome.strip(), tuple(name.strip() for name in predictors.split("+"))
    if isinstance(what, tuple) and len(what) == 2 and isinstance(what[0], str):
        outcome, given = what
        return outcome, (given,) if isinstance(given, str) else tuple(given)
    raise InputError(
        f"what is estimated cannot be {describe_value(what)}",
        'ask for "means", "proportions" or a regression such as "bmi ~ age + sex"',
    )


def _combined(
    estimates: Any, variances: Any, *, people: int, rows: Any, rule: str = "within", level: float = 0.95
) -> Combined:
    """Combine estimates and their variances by a rule."""
    q, v, sizes = _checked(estimates, variances, people, rows)
    m = len(q)
    if rule not in RULES:
        raise InputError(f"rule must be 'within' or 'between', got {rule!r}")
    if not 0 < level < 1:
        raise InputError(f"level must lie between 0 and 1, got {level}", Cure("0.95 is usual", "level", 0.95))
    if rule == "between" and m == 1:
        raise InputError(
            "one dataset has no variance between datasets", Cure("use the other rule", "rule", "within")
        )
    estimate, within = np.mean(q, axis=0), np.mean(v, axis=0)
    between = np.var(q, axis=0, ddof=1) if m > 1 else np.full(estimate.shape, np.nan)
    real = np.mean(v * sizes.reshape(-1, *(1,) * (v.ndim - 1)), axis=0) / people
    if rule == "within":
        variance, adjusted = real + (real + within) / m, np.zeros(estimate.shape, dtype=bool)
        df = 1 / (_ratio(real, variance) ** 2 * (1 + 1 / m) / (people - 1) + np.mean(1 / (sizes - 1)) / m)
    else:
        spread = (1 + 1 / m) * between
        adjusted = spread < within
        variance = np.where(adjusted, real, spread - within)
        df = (m - 1) * np.where(adjusted, 1.0, (1 - _ratio(within, spread)) ** 2)
    # df near 0 stands for no knowledge of the variance at all: the interval is then unbounded
    reach = np.where(df > 1e-3, stdtrit(np.maximum(df, 1e-3), (1 + level) / 2), np.inf)
    half = np.where(variance > 0, reach * np.sqrt(np.where(variance > 0, variance, 1.0)), 0.0)
    ends = {"low": estimate - half, "high": estimate + half}
    parts = {"estimate": estimate, "variance": variance, "df": df, "within": within, "between": between} | ends
    arrays: dict[str, Any] = {name: np.asarray(value) for name, value in parts.items()}
    return Combined(adjusted=np.asarray(adjusted), level=level, rule=rule, **arrays)


def _ratio(part: Any, whole: Any) -> Any:
    """Return part/whole, 1 where both are 0."""
    return np.divide(part, whole, out=np.ones(part.shape), where=np.asarray(whole > 0))


def _of_means(release: Release, *, people: int, rule: str, level: float) -> Combined:
    """Estimate the population mean of each measurement, (p,): q = z̄ and v = s²/k of every dataset of a release.

    Values drawn beyond a limit were moved to it. Of a column that was drawn as a normal, on its own scale, mean
    and variance are those of the normal that was cut there (maximum likelihood); `note` says which these are, and
    of which others the limit biases the mean.
    """
    there = np.stack([np.sum(~np.isnan(values), axis=0) for values in release.values])  # in natural units
    for number, place in np.argwhere(there < 2)[:1]:
        few, name = there[number, place], release.columns[place]
        raise InputError(
            f"dataset {number + 1} has {few} values of {name!r}, which have no variance", "leave it out"
        )
    estimates = np.stack([np.nanmean(values, axis=0) for values in release.values])
    variances = np.stack([np.nanvar(values, axis=0, ddof=1) for values in release.values]) / there
    columns, shares = release.schema.measurements, release.schema.clipped(np.concatenate(release.values))
    # given categories a column is a mixture of normals
    cut = [
        place
        for place, share in enumerate(shares)
        if 0 < share < MOST_CUT and columns[place].scale.is_plain and not release.mechanism.categories
    ]
    for number, values in enumerate(release.values):
        for place in cut:
            column = values[~np.isnan(values[:, place]), place]
            mean, variance = _mean_of_cut_normal(column, *columns[place].bounds)
            estimates[number, place], variances[number, place] = mean, variance
    note = []
    if limited := release.schema.clipped_in_words(release.values):
        named = [columns[place].name for place in cut]
        biased = [each.name for each, share in zip(columns, shares, strict=True) if share > 0]
        biased = [name for name in biased if name not in named]
        note.append(f"{limited}, moved there from beyond it.")
        if named:
            note.append(f"The means of {joined(named)} are of normals that were cut there: what was drawn before.")
        if biased:
            note.append(f"That biases the means of {joined(biased)}; their intervals do not know.")
    combined = _combined(estimates, variances, people=people, rows=release.rows, rule=rule, level=level)
    dates = release.schema.dates
    note += [
        f"{name} counts {dates[name].counts}: its mean is {dates[name].text(mean)}."
        for name, mean in zip(release.columns, combined.estimate, strict=True)
        if name in dates
    ]
    return replace(combined, names=release.columns, note=" ".join(note))


def _mean_of_cut_normal(values: Float[np.ndarray, " n"], low: float, high: float) -> tuple[float, float]:
    """Return the mean μ of the normal whose draws beyond the limits were moved to them, and its variance.

    Σ log φ((x − μ)/σ)/σ over what lies between, and log Φ(a) of each at a limit, a = (low − μ)/σ, (μ − high)/σ, is
    highest where μ and σ² are the means of x and (x − μ)² with those at a limit at their expectations: E[x | x <
    low] = μ − σλ and Var = σ²(1 − aλ − λ²), λ = φ(a)/Φ(a). The variance is the inverse of the curvature there.
    """
    ends = [(low, -1.0, values <= low), (high, 1.0, values >= high)]
    between = values[(values > low) & (values < high)]
    if len(np.unique(between)) < 2:
        return float(np.mean(values)), float(np.var(values, ddof=1) / len(values))  # nothing tells a spread
    mean, spread, n = float(np.mean(values)), float(np.std(values)), len(values)
    for _ in range(ROUNDS):
        total, squares, parts = np.sum(between), 0.0, []
        for end, side, there in ends:
            if count := int(np.sum(there)):
                a = side * (mean - end) / spread
                tail = float(np.exp(-0.5 * a * a - log_ndtr(a))) / np.sqrt(2 * np.pi)
                centre = mean + side * spread * tail
                parts.append((count, side, a, tail, centre))
                total += count * centre
                squares += count * spread**2 * (1 - a * tail - tail**2)
        new = total / n
        squares += np.sum((between - new) ** 2) + sum(part[0] * (part[4] - new) ** 2 for part in parts)
        moved = max(abs(new - mean), abs(np.sqrt(squares / n) - spread))
        mean, spread = float(new), float(np.sqrt(squares / n))
        if moved < 1e-10 * spread:
            break
    away = between - mean
    first, cross, second = len(between), 2 * np.sum(away) / spread, 2 * np.sum(away**2) / spread**2
    for count, side, a, tail, _ in parts:  # of μ/σ, of both, and of log σ
        bend = tail * (tail + a)
        first += count * bend
        cross += side * count * (tail - a * bend)
        second += count * (a * a * bend - a * tail)
    return mean, float(spread**2 / (first - cross**2 / second)) * n / (n - 1)


def _checked(
    estimates: Any, variances: Any, people: int, rows: Any
) -> tuple[Float[np.ndarray, "m *q"], Float[np.ndarray, "m *q"], Float[np.ndarray, " m"]]:
    """Return estimates, variances and sizes as arrays that agree, or say which does not."""
    q = np.asarray(real_array(estimates, "estimates"))
    v = np.asarray(real_array(variances, "variances"))
    if q.ndim == 0 or len(q) == 0 or q.shape != v.shape:
        raise InputError(
            f"estimates and variances have shape (datasets, …), the same for both, got {q.shape} and {v.shape}"
        )
    if not np.all(np.isfinite(q)) or not np.all(np.isfinite(v)) or not np.all(v >= 0):
        raise InputError("estimates must be finite and variances finite and not negative", "give squared errors")
    given = [rows] * len(q) if np.ndim(rows) == 0 else list(rows)
    if len(given) != len(q):
        raise InputError(
            f"rows names {len(given)} sizes for {len(q)} datasets", "give one for all or one for each"
        )
    sizes = np.array([count_of("rows", size) for size in given], dtype=float)
    if np.min(sizes) < 2 or count_of("people", people) < 2:
        raise InputError(f"people and rows must be at least 2, got {people} and {int(np.min(sizes))}")
    return q, v, sizes


# Regressions on one table: least squares and logistic, by coefficients and their variances.


INTERCEPT = "intercept"
DEPENDENT = 1e-10  # of a term's length, left when the terms before it are taken out, that counts as nothing
STEPS = 100  # Newton steps at most; six or seven are the rule
LAST_STEP = 1e-8  # no log odds moves by more in the last step
CERTAIN = 30.0  # log odds that only a sample whose levels the predictors tell apart gives


class NotEstimable(Exception):
    """Why a table has no estimate of some coefficient, in words that follow the table's name."""


def term_names(predictors: Sequence[str], columns: Sequence[str], categories: Categories) -> tuple[str, ...]:
    """Return the names of a regression's terms: intercept, `age`, and `sex[m]` for each level but the first."""
    names = [INTERCEPT]
    for name in predictors:
        levels = () if name in columns else categories.levels[categories.columns.index(name)]
        names += [level_term(name, level) for level in levels[1:]] if levels else [name]
    return tuple(names)


def level_term(column: str, level: str) -> str:
    """Return how a level of a column is named among others: `sex[m]`."""
    return f"{column}[{level}]"


def coded(
    predictors: Sequence[str], values: Float[np.ndarray, "n p"], columns: Sequence[str], categories: Categories
) -> Float[np.ndarray, "n d"]:
    """Return the terms as columns: 1, measurements as they are, and 1 where a category has the term's level."""
    parts = [np.ones((len(values), 1))]
    for name in predictors:
        if name in columns:
            parts.append(values[:, [columns.index(name)]])
        else:
            place = categories.columns.index(name)
            levels = np.arange(1, len(categories.levels[place]))
            parts.append((categories.codes[:, place, None] == levels).astype(float))
    return np.concatenate(parts, axis=1)


def least_squares(
    design: Float[np.ndarray, "n d"], outcome: Float[np.ndarray, " n"], terms: Sequence[str]
) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
    """Return β̂ = (AᵀA)⁻¹Aᵀy and its variances s²·diag (AᵀA)⁻¹, s² = ‖y − Aβ̂‖²/(n − d)."""
    n, d = design.shape
    if n <= d:
        raise NotEstimable(f"has {n} rows, too few for {d} coefficients")
    basis, root = _factor(design, terms)
    estimate = solve_triangular(root, basis.T @ outcome)
    residual = outcome - design @ estimate
    return estimate, residual @ residual / (n - d) * _inverse_diagonal(root)


def logistic(
    design: Float[np.ndarray, "n d"], outcome: Bool[np.ndarray, " n"], terms: Sequence[str]
) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
    """Return the log odds ratios of greatest likelihood and their variances diag (AᵀWA)⁻¹, W = p̂(1 − p̂)."""
    n, d = design.shape
    if n <= d:
        raise NotEstimable(f"has {n} rows, too few for {d} coefficients")
    # steps are taken in an orthonormal basis of the terms, which have any units; coefficients follow at the end
    basis, root = _factor(design, terms)
    basis = basis * np.sqrt(n)
    place = np.zeros(d)
    for _ in range(STEPS):
        odds = basis @ place
        weight = np.sqrt(expit(odds) * expit(-odds))
        weighted = np.linalg.qr(basis * weight[:, None], mode="r")
        if np.max(np.abs(odds)) > CERTAIN or np.min(np.abs(np.diagonal(weighted))) < DEPENDENT * np.sqrt(n):
            break
        score = basis.T @ (outcome - expit(odds))
        step = solve_triangular(weighted, solve_triangular(weighted, score, trans="T"))
        reach = float(np.max(np.abs(basis @ step)))
        if reach <= LAST_STEP:
            own = weighted @ root / np.sqrt(n)
            return solve_triangular(root, place + step) * np.sqrt(n), _inverse_diagonal(own)
        place = place + step * (
            np.log1p(reach) / reach
        )  # damped so, a step never lowers the likelihood (Bach 2010)
    raise NotEstimable("has no finite coefficients, for its predictors tell some of the outcome's levels apart")


def _factor(
    design: Float[np.ndarray, "n d"], terms: Sequence[str]
) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "d d"]]:
    """Return A = QR; name the first term that those before it determine."""
    basis, root = np.linalg.qr(design)
    lost = np.abs(np.diagonal(root)) <= DEPENDENT * np.linalg.norm(root, axis=0)
    if lost.any():
        place = int(np.argmax(lost))
        why = "no row has it" if not design[:, place].any() else "the terms before it determine it"
        raise NotEstimable(f"has no coefficient of {terms[place]!r}: {why}")
    return basis, root


def _inverse_diagonal(root: Float[np.ndarray, "d d"]) -> Float[np.ndarray, " d"]:
    """Return diag (RᵀR)⁻¹."""
    return np.sum(solve_triangular(root, np.eye(len(root))) ** 2, axis=1)


# Valid inference from synthetic tables with categories: proportions, and regressions with intervals.


def _of_proportions(release: Release, *, people: int, rule: str, level: float) -> Combined:
    """Estimate the population's share of every level, `names` such as `sex[m]`, from a release with categories.

    q is a dataset's share, v = q(1 − q)/k, combined by the rule `within` of `combine`: T = q̄(1 − q̄)·c,
    c = 1/n + (1/n + 1/k)/m. The interval is Wilson's, all π with (q̄ − π)² ≤ z²·c·π(1 − π): unlike q̄ ± z·√T it
    stays within 0 and 1 and covers as often as it says where a level is rare (but needs one person or more to have
    it, n·π ≥ 1 or so).
    Of a release with a guarantee the rule is `between`, which tells T: c = T/(q̄(1 − q̄)), at least 1/n; t for z.
    """
    if rule != "within" and release.noisy is None:
        raise InputError("shares are combined by the rule 'within'", Cure("use it", "rule", "within"))
    tables = [table.categories for table in release.tables]
    categories = tables[0]
    if not categories.columns:
        raise InputError("the release has no columns of categories", "ask for the means of measurements")
    shares, there = (np.stack(each) for each in zip(*map(_shares, tables), strict=True))
    rows = np.array(release.rows)
    binomial = shares * (1 - shares) / there
    combined = _combined(shares, binomial, people=people, rows=rows, rule=rule, level=level)
    real = np.mean(rows[:, None] / there, axis=0) / people  # one over the people who had a value
    if rule == "within":
        factor, df = real + (real + np.mean(1 / there, axis=0)) / len(rows), np.full(combined.df.shape, np.inf)
        widest = ndtri((1 + level) / 2)
    else:
        one = combined.estimate * (1 - combined.estimate)
        factor, df = np.maximum(real, combined.variance / np.where(one > 0, one, np.inf)), combined.df
        widest = stdtrit(np.maximum(df, 1e-3), (1 + level) / 2)
    reach = widest**2 * factor
    middle = (combined.estimate + reach / 2) / (1 + reach)
    half = np.sqrt(reach * combined.estimate * (1 - combined.estimate) + reach**2 / 4) / (1 + reach)
    levels = zip(categories.columns, categories.levels, strict=True)
    return replace(
        combined,
        df=df,
        low=np.maximum(middle - half, 0.0),
        high=np.minimum(middle + half, 1.0),
        names=tuple(level_term(column, each) for column, all_levels in levels for each in all_levels),
    )


def _shares(categories: Categories) -> tuple[Float[np.ndarray, " levels"], Float[np.ndarray, " levels"]]:
    """Return the share of every level of every column, one after the other, and how many rows have a value."""
    shares, there = [], []
    for name, codes, levels in zip(categories.columns, categories.codes.T, categories.levels, strict=True):
        counts = np.bincount(codes[codes != UNKNOWN], minlength=len(levels))
        if not counts.any():
            raise InputError(f"a dataset has no value of {name!r}", "leave the dataset out")
        shares.append(counts / counts.sum())
        there.append(np.full(len(levels), float(counts.sum())))
    return np.concatenate(shares), np.concatenate(there)


def _of_regression(
    release: Release,
    outcome: str,
    predictors: tuple[str, ...],
    *,
    people: int,
    rule: str,
    level: float,
    on_model_scale: bool,
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
    Rows that lack any of these columns are left out. If the real table had gaps and the synthetic ones do not, it
    knew less than n records do: use `between`, and many datasets.
    """
    columns, categories = release.columns, release.tables[0].categories
    _check_names(outcome, predictors, columns, categories)
    terms = term_names(predictors, columns, categories)
    fewer = len(terms) - 1
    if people < fewer + 2:
        raise InputError(f"{people} people are too few for {len(terms)} coefficients", "choose fewer predictors")

    def fitted(values: Float[np.ndarray, "n p"], each: Categories) -> tuple[Any, Any]:
        used = [name in (outcome, *predictors) for name in (*columns, *each.columns)]
        lacking = np.column_stack([np.isnan(values), each.codes == UNKNOWN])[:, used].any(axis=1)
        values, each = values[~lacking], each.take(~lacking)
        design = coded(predictors, values, columns, each)
        if outcome in columns:
            return least_squares(design, values[:, columns.index(outcome)], terms)
        return logistic(design, each.codes[:, each.columns.index(outcome)] == 1, terms)

    found = []
    for number, table in enumerate(release.tables, start=1):
        try:
            found.append(fitted(table.values if on_model_scale else table.natural, table.categories))
        except NotEstimable as error:
            raise InputError(f"dataset {number} {error}", "choose other predictors", "release more rows") from None
    estimates, variances = (np.stack(part) for part in zip(*found, strict=True))
    rows = [size - fewer for size in release.rows]
    combined = _combined(estimates, variances, people=people - fewer, rows=rows, rule=rule, level=level)
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
