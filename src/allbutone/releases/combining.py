"""Valid inference from synthetic datasets: estimates and intervals for the population behind the real table."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import stdtrit

from allbutone.model.moments import Moments
from allbutone.releases.synthetic_tables import synthetic_tables
from allbutone.support.arrays import real_array
from allbutone.support.checks import count_of
from allbutone.support.errors import Cure, InputError

RULES = ("within", "between")


@dataclass(frozen=True, eq=False)
class Combined:
    """An estimate of a population value from m synthetic datasets, its variance T, and an interval.

    `within` is the mean v̄ of the datasets' own variances, `between` the variance b of their estimates (NaN for one
    dataset). `adjusted` says where the rule `between` came out negative and was replaced. `names`: of what was
    estimated, where it has names. `note`: what the interval does not know of, or nothing.
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
    estimates: Any, variances: Any, *, people: int, rows: Any, rule: str = "within", level: float = 0.95
) -> Combined:
    """Combine estimates q and their variances v, shape (m, …) each, computed on every dataset as if it were real.

    `people` is n, the number of real records; `rows` is k, the size of the datasets, one for all or one for each.
    With w̄ the mean of v·k/n, what v would be in a table of n records, q̄ varies about the population's value by

        within:   T = w̄ + (w̄ + v̄)/m                  Raab, Nowok and Dibben (2016), v̄·(k/n + (1 + k/n)/m)
        between:  T = (1 + 1/m)·b − v̄, or w̄ if T < 0    Raghunathan, Reiter and Rubin (2003); Reiter (2002)

    for datasets that have parameters of their own, drawn from the posterior. The first part is the real table's
    own error, the second that of the m draws. `within` serves one dataset or many and is the steadier; `between`
    does without n unless T < 0, but needs many datasets, say 100: with fewer it covers more than it says.

    Intervals are Student t.
        within:   1/df = (w̄/T)²·(1 + 1/m)/(n − 1) + 1/(m·(k − 1)), the noise that T does not share with q̄
                  (a departure: Raab et al. take the normal, its limit)
        between:  df = (m − 1)·(1 − v̄/((1 + 1/m)·b))², or m − 1 where T < 0
    Both hold if the model is right and the prior weak beside n records.

    >>> import allbutone as abo
    >>> abo.combine([1.2, 0.9, 1.1], [0.04, 0.05, 0.04], people=100, rows=100).estimate.item()
    1.0666666666666667
    """
    q, v, sizes = _checked(estimates, variances, people, rows)
    _check_rule(rule, level, len(q))
    estimate, within = np.mean(q, axis=0), np.mean(v, axis=0)
    between = np.var(q, axis=0, ddof=1) if len(q) > 1 else np.full(estimate.shape, np.nan)
    real = np.mean(v * sizes.reshape(-1, *(1,) * (v.ndim - 1)), axis=0) / people
    if rule == "within":
        variance, df = _by_within(real, within, people, sizes)
        adjusted = np.zeros(estimate.shape, dtype=bool)
    else:
        variance, df, adjusted = _by_between(real, within, between, len(q))
    # df near 0 stands for no knowledge of the variance at all: the interval is then unbounded
    reach = np.where(df > 1e-3, stdtrit(np.maximum(df, 1e-3), (1 + level) / 2), np.inf)
    half = np.where(variance > 0, reach * np.sqrt(np.where(variance > 0, variance, 1.0)), 0.0)
    return Combined(
        estimate=np.asarray(estimate),
        variance=np.asarray(variance),
        df=np.asarray(df),
        low=np.asarray(estimate - half),
        high=np.asarray(estimate + half),
        within=np.asarray(within),
        between=np.asarray(between),
        adjusted=np.asarray(adjusted),
        level=level,
        rule=rule,
    )


def _by_within(real: Any, within: Any, people: int, sizes: Float[np.ndarray, " m"]) -> tuple[Any, Any]:
    """Return T and df by the rule `within`."""
    m = len(sizes)
    variance = real + (real + within) / m
    df = 1 / (_ratio(real, variance) ** 2 * (1 + 1 / m) / (people - 1) + np.mean(1 / (sizes - 1)) / m)
    return variance, df


def _by_between(real: Any, within: Any, between: Any, m: int) -> tuple[Any, Any, Any]:
    """Return T and df by the rule `between`, and where T came out negative and was replaced."""
    spread = (1 + 1 / m) * between
    adjusted = spread < within
    df = (m - 1) * np.where(adjusted, 1.0, (1 - _ratio(within, spread)) ** 2)
    return np.where(adjusted, real, spread - within), df, adjusted


def _ratio(part: Any, whole: Any) -> Any:
    """Return part/whole, 1 where both are 0."""
    return np.divide(part, whole, out=np.ones(part.shape), where=np.asarray(whole > 0))


def combine_means(release: Any, *, people: int, rule: str = "within", level: float = 0.95) -> Combined:
    """Estimate the population mean of each measurement, (p,): q = z̄ and v = s²/k of every dataset of a release.

    Values drawn beyond a limit were moved to it, which biases the mean of such a column; `note` says which.

    >>> import allbutone as abo
    >>> cohort = abo.demo_cohort()
    >>> release = abo.NIWSynthesizer().fit(cohort).sample(datasets=2)
    >>> abo.combine_means(release, people=503).names
    ('T2D', 'CAD', 'HT', 'BMI', 'HBA1C')
    """
    tables = synthetic_tables(release)  # in natural units, as the datasets are
    tables.require_whole()
    moments = [Moments.of(values) for values in tables.values]
    estimates = np.stack([np.asarray(each.mean) for each in moments])
    scatter = np.stack([np.diagonal(np.asarray(each.scatter)) for each in moments])
    rows = np.array(tables.rows)
    variances = scatter / (rows * (rows - 1))[:, None]
    found = combine(estimates, variances, people=people, rows=rows, rule=rule, level=level)
    limited = tables.schema.clipped_in_words(tables.values)
    note = (
        f"{limited}: moved there from beyond it, which biases these means; the intervals do not know."
        if limited
        else ""
    )
    return replace(found, names=tables.columns, note=note)


def _check_rule(rule: str, level: float, datasets: int) -> None:
    if rule not in RULES:
        raise InputError(f"rule must be 'within' or 'between', got {rule!r}")
    if not 0 < level < 1:
        raise InputError(f"level must lie between 0 and 1, got {level}", Cure("0.95 is usual", "level", 0.95))
    if rule == "between" and datasets == 1:
        raise InputError(
            "one dataset has no variance between datasets", Cure("use the other rule", "rule", "within")
        )


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
