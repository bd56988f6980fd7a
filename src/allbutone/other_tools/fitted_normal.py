"""Rows drawn from a fitted normal: what they give away of each record that it was fitted to."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import chdtrc

from allbutone.adversary.plug_in import PlugInTable, log_likelihood
from allbutone.adversary.proposal import Points
from allbutone.adversary.who import Adversary
from allbutone.disclosure.measures import RADIUS
from allbutone.disclosure.question import EVIDENCE, MEASURES, SAMPLED, Asked, Learned, names_of_measures
from allbutone.disclosure.risk import columns_of, measure_block
from allbutone.disclosure.rule import MEMBERSHIP, Rule, near_truth, require_free_names
from allbutone.model.moments import Moments
from allbutone.other_tools.side_by_side import with_dates_counted
from allbutone.support.arrays import half_log_det, solve_rows
from allbutone.support.errors import Cure, InputError, describe_value
from allbutone.support.parallel import in_parallel
from allbutone.support.text import joined, listed
from allbutone.tables.files import read_table
from allbutone.tables.long_tables import widen
from allbutone.tables.names import chosen_frame, names_of
from allbutone.tables.records import Records

DIVISORS = ("n", "n-1")
UNLIKELY = 1e-4  # a chance below which rows are taken not to come from the fit


@contextmanager
def _computable() -> Iterator[None]:
    """Refuse rows that no fitted normal would have drawn, and of which rounding leaves nothing to compute with."""
    try:
        yield
    except np.linalg.LinAlgError as error:
        raise InputError(
            "the synthetic rows vary too little in some direction for rows of a normal fitted to this table",
            "see that their columns and units are the table's",
        ) from error


@_computable()
def audit_columns(
    records: Records,
    fitted: PlugInTable,
    *,
    rule: Rule | None = None,
    known: Sequence[str] = (),
    mass: bool = True,
    rng: np.random.Generator | None = None,
    watch: Callable[[int], None] = lambda records: None,
) -> dict[str, np.ndarray]:
    """Return the measures of `risk` as columns; `watch` is called with the number of records finished."""
    given = Adversary(known=known).of(records.columns).known_columns
    judged = [name for name in records.columns if name not in given]
    require_free_names(judged)
    near, reach = near_truth(records), RADIUS if mass else None
    asked = Asked(near, Points.of(rng), reach, rule or Rule(), len(records.values))
    unknown = [records.columns.index(name) for name in judged]
    places = tuple(place for place in range(len(records.columns)) if place not in unknown)
    work = list(fitted.blocks(places, np.arange(len(records.values))))
    learned = Learned.nothing(records.values, names_of_measures((*MEASURES, *SAMPLED), reach))
    attack = partial(measure_block, fitted, asked)
    for rows, found in in_parallel(attack, work, watch=lambda block: watch(len(block[0])), anywhere=True):
        learned.put(rows, unknown, found)
    learned.measures[EVIDENCE] = np.concatenate([fitted.evidence(rows) for rows, _ in work])
    learned.measures[MEMBERSHIP] = asked.rule.membership_of(learned.measures[EVIDENCE])
    return columns_of(records, near, asked.rule, learned, judged)


def fitted_table(records: Records, synthetic: Sequence[Any], divisor: str | None) -> PlugInTable:
    """Return the attacks on all records, from synthetic tables that have the records' columns."""
    n, p = records.values.shape
    if n < p + 3:
        raise InputError(
            f"{n} records do not determine the spread of {p} columns without one of them",
            "give at least three records more than columns",
            Cure("leave columns out", "drop"),
        )
    released = [Moments.of(_rows(records, each)) for each in synthetic]
    total = released[0]
    for more in released[1:]:
        total = total.merge(more)
    if divisor is not None:
        if divisor not in DIVISORS:
            raise InputError(f"divisor is {joined(DIVISORS, 'or')}, got {describe_value(divisor)}")
        return PlugInTable(records.values, total, float(n if divisor == "n" else n - 1))
    both = [PlugInTable(records.values, total, float(each)) for each in (n, n - 1)]
    return max(both, key=lambda each: float(log_likelihood(total, each.whole, each.divisor)))


def _rows(records: Records, synthetic: Any) -> Float[np.ndarray, "rows p"]:
    """Return synthetic rows in the table's columns, on its scales."""
    if isinstance(synthetic, str | PathLike):
        synthetic = read_table(Path(synthetic))
    elif isinstance(synthetic, Records):
        synthetic = synthetic.to_frame()
    if records.schema.visits is not None:
        synthetic = widen(synthetic, records.schema, records.columns).table
    if absent := [name for name in records.columns if name not in names_of(synthetic)]:
        raise InputError(
            f"the synthetic table has no {listed(absent)}",
            Cure("leave out of the table what was not released", "drop", absent),
        )
    frame = chosen_frame(synthetic, list(records.columns), None)
    counted = with_dates_counted(records, frame, "the synthetic table").to_native()
    natural = Records.of_numbers(counted, columns=list(records.columns)).values
    for place, column in enumerate(records.schema.measurements):
        if column.order is not None:
            continue  # its scale is that of the gap
        low, high, closed = column.scale.domain
        values = natural[:, place]
        inside = (values >= low) & (values <= high) if closed else (values > low) & (values < high)
        if not inside.all():
            raise InputError(
                f"the synthetic {column.name} has values that the scale declared for it cannot have, such as "
                f"{column.calendar.text(values[~inside][0]) if column.calendar else f'{values[~inside][0]:g}'}",
                "declare the scale that the synthesizer had",
            )
    with np.errstate(divide="ignore", invalid="ignore"):
        values = records.schema.to_model(natural)
    if not np.isfinite(values).all():
        raise InputError(
            "the synthetic rows break an order that is declared between columns",
            "declare what the synthesizer had",
        )
    return values


def law_of_means(people: float, rows: Any) -> Any:
    """Return n/√N: the error, in standard deviations, of n·z̄ − Σ others, which anybody can compute.

    The rows' mean z̄ is that of all n records plus noise σ/√N.
    """
    return people / np.sqrt(rows)


def law_of_everything(people: float, rows: Any, distance: Any) -> Any:
    """Return about what error, in standard deviations, the exact attack leaves of a record so far from the others.

    The rows' scatter tells of the record, too. At the Mahalanobis distance D the information about it is
    (N/n²)·((1 + D²)Σ⁻¹ + Σ⁻¹ddᵀΣ⁻¹), and what the others say of it is Σ⁻¹, so across d the error is

        1/√(1 + (1 + D²)·N/n²)
    """
    return 1 / np.sqrt(1 + (1 + np.asarray(distance) ** 2) * rows / people**2)


def error_of_differencing(fitted: PlugInTable) -> Float[np.ndarray, " p"]:
    """Return n·(z̄ − mean)/σ, column by column: how far off n·z̄ − Σ others is, for every record the same."""
    whole, released = fitted.whole, fitted.released
    apart = (released.mean - whole.mean) + (released.mean_tail - whole.mean_tail)
    return whole.count * apart / np.sqrt(np.diagonal(whole.scatter) / (whole.count - 1))


@_computable()
def departure(fitted: PlugInTable) -> str:
    """Say, if so, that the rows do not look as if they came from the normal fitted to the table; else nothing.

    Given the fit, N(z̄ − m)ᵀΣ⁻¹(z̄ − m) is χ² with p degrees of freedom and S_Z a Wishart matrix, whose likelihood
    ratio is nearly χ² with p(p+1)/2 (Bartlett's correction).
    """
    lean, white = _whitened(fitted)
    rows, p = fitted.released.count, len(lean)
    off, freedom, extra = rows * float(lean @ lean), float(p), rows - 1
    if extra >= 2 * p:
        root = np.linalg.cholesky(white / extra)
        ratio = extra * (np.trace(white) / extra - 2 * float(half_log_det(root)) - p)
        off += ratio * (1 - (2 * p + 1 - 2 / (p + 1)) / (6 * extra))
        freedom += p * (p + 1) / 2
    chance = float(chdtrc(freedom, off))
    if chance >= UNLIKELY:
        return ""
    means = np.max(np.abs(error_of_differencing(fitted))) / law_of_means(fitted.whole.count, rows)
    return (
        f"the {rows:,.0f} synthetic rows hardly come from the normal fitted to this table (chance "
        f"{chance:.1g}; a mean is {means:.1f} standard errors off): they were drawn in another way, from other "
        "records, or limited or rounded. Then the adversary here is misled; one who knows how they were really "
        "made may learn more, and a pass means nothing"
    )


def _whitened(fitted: PlugInTable) -> tuple[Float[np.ndarray, " p"], Float[np.ndarray, "p p"]]:
    """Return the rows' mean and scatter in coordinates where the fit is standard normal."""
    whole, released = fitted.whole, fitted.released
    root = np.linalg.cholesky(whole.scatter / fitted.divisor)
    lean = solve_rows(root, (released.mean - whole.mean) + (released.mean_tail - whole.mean_tail))
    half = np.linalg.solve(root, released.scatter)
    return lean, np.linalg.solve(root, half.T)
