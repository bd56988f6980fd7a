"""The exact adversary under an assumed mechanism: a fitted normal, a draw from a posterior, or classes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
from scipy.special import chdtrc, fdtrc

from allbutone.adversary.plug_in import PlugInTable
from allbutone.adversary.who import Adversary
from allbutone.disclosure.risk import risk_columns
from allbutone.disclosure.rule import Rule
from allbutone.model.moments import Moments
from allbutone.other_tools.fitted_normal import UNLIKELY, audit_columns, departure, fitted_table
from allbutone.releases.mechanism import CLASSES, KEEP_GAPS
from allbutone.releases.release import Release
from allbutone.releases.synthesizer import Synthesizer
from allbutone.support.errors import Cure, InputError, describe_value
from allbutone.support.text import bell_curves, counted, joined
from allbutone.tables.files import read_table
from allbutone.tables.names import chosen_frame
from allbutone.tables.records import Records

PLUG_IN, POSTERIOR, UNKNOWN = "plug-in", "posterior", "unknown"
MECHANISMS = (PLUG_IN, POSTERIOR, CLASSES, UNKNOWN)
MADE = {
    PLUG_IN: "mean and covariance fitted once, and all rows drawn from that normal",
    POSTERIOR: "each table of rows drawn from its own draw of the model's parameters, as allbutone draws",
    CLASSES: "each table of rows drawn from its own draw of a mixture of classes, as allbutone draws",
}


@dataclass(frozen=True, eq=False)
class Assumed:
    """What an adversary learns who knows that the rows were made in this way, as columns of a risk table.

    doubt: why the rows hardly were made so, if that shows; "" where it does not. fitted: where a normal was
    fitted.
    """

    mechanism: str
    columns: dict[str, np.ndarray]
    words: str
    doubt: str = ""
    fitted: PlugInTable | None = None


def checked_mechanism(mechanism: str) -> str:
    """Refuse a mechanism that nobody knows here."""
    if mechanism not in MECHANISMS:
        raise InputError(
            f"the mechanism is {joined(MECHANISMS, 'or')}, got {describe_value(mechanism)}",
            Cure("say that it is not known", "mechanism", UNKNOWN),
        )
    return mechanism


def can_be_fitted(records: Records) -> bool:
    """Say whether a normal could have been fitted to the table: measurements alone, of enough people."""
    n, p = records.values.shape
    return not records.categories.columns and not records.has_gaps and p > 0 and n >= p + 3


def assume(
    records: Records,
    synthetic: Sequence[Any],
    mechanism: str,
    *,
    divisor: str | None = None,
    rule: Rule | None = None,
    known: Sequence[str] | None = None,
    rng: np.random.Generator | None = None,
    watch: Callable[[int], None] = lambda records: None,
) -> Assumed:
    """Attack everybody as if the rows had been made by this mechanism."""
    how: dict[str, Any] = {"rule": rule, "mass": False, "rng": rng, "watch": watch}
    people = counted(len(records.values), "record")
    normal = bell_curves(len(records.columns)) + records.schema.scales_in_words
    if mechanism == PLUG_IN:
        if not can_be_fitted(records):
            raise InputError(
                "a fitted normal has measurements alone, without gaps, of at least three people more than columns",
                Cure("leave categories out", "drop"),
                Cure("keep only the rows without gaps", "complete_cases", True),
                Cure("say that the mechanism is not known", "mechanism", UNKNOWN),
            )
        fitted = fitted_table(records, synthetic, divisor)
        columns = audit_columns(records, fitted, known=known or (), **how)
        by = "n" if fitted.divisor == len(records.values) else "n − 1"
        said = "as asked" if divisor else "which fits the rows better"
        words = (
            f"{normal}; mean and covariance (divided by {by}, {said}) fitted to these {people} and all "
            f"{fitted.released.count:,.0f} rows drawn from that fit, neither limited nor coarsely rounded"
        )
        return Assumed(mechanism, columns, words, departure(fitted), fitted)
    if records.schema.visits is not None:
        raise InputError(
            "rows of visits that were drawn from a posterior are judged as a release, not as loose files",
            "judge its folder (allbutone risk)",
            Cure("say that the mechanism is not known", "mechanism", UNKNOWN),
        )
    has_classes = mechanism == CLASSES
    frames = [_frame(each, records) for each in synthetic]
    with_gaps = records.has_gaps and any(nw.from_native(each).null_count().to_numpy().any() for each in frames)
    missing = KEEP_GAPS if with_gaps else "impute" if records.has_gaps else "refuse"
    synthesizer = Synthesizer(model="classes" if has_classes else "general location", missing=missing)
    made_by = synthesizer.fit(records).mechanism
    tables = tuple(Records.of_synthetic(each, made_by.schema, gaps=with_gaps) for each in frames)
    release = Release(made_by, tables)
    columns = risk_columns(records, release, Adversary(known=known), **how)
    if made_by.categories and not has_classes:
        normal = bell_curves(len(records.columns), "measurement") + records.schema.scales_in_words
        normal = f"in each of {counted(made_by.prior.cells.count, 'cell')} {normal}"
    model = "each person is of one of at most ten classes" if has_classes else normal
    words = f"{model}; {MADE[mechanism]}, with allbutone's usual prior, from these {people}"
    doubt = ""
    if made_by.is_normal:
        doubt = different(records.values, [each.values for each in tables])
    return Assumed(mechanism, columns, words, doubt)


def _frame(table: Any, records: Records) -> Any:
    """Return a synthetic table with the columns of the records alone."""
    if isinstance(table, str | PathLike):
        table = read_table(Path(table))
    elif isinstance(table, Records):
        table = table.to_frame()
    return chosen_frame(table, list(records.schema.released_order), None).to_native()


def different(records: np.ndarray, tables: Sequence[np.ndarray]) -> str:
    """Say, if so, that rows do not look as if they came from the posterior of the table; else nothing.

    Under the flat prior rows and records are as two samples of one normal: Hotelling's T² compares their means,
    Box's M their covariances.
    """
    chances = []
    mine = Moments.of(records)
    for each in tables:
        theirs = Moments.of(each)
        n, m, p = mine.count, theirs.count, records.shape[1]
        pooled = (mine.scatter + theirs.scatter) / (n + m - 2)
        apart = mine.mean - theirs.mean
        squared = n * m / (n + m) * float(apart @ np.linalg.solve(pooled, apart))
        chances.append(fdtrc(p, n + m - p - 1, squared * (n + m - p - 1) / (p * (n + m - 2))))
        if m > p + 1:
            parts = [(count - 1, np.linalg.slogdet(scatter / (count - 1))[1])
                     for count, scatter in ((n, mine.scatter), (m, theirs.scatter))]  # fmt: skip
            box = (n + m - 2) * np.linalg.slogdet(pooled)[1] - sum(df * log for df, log in parts)
            less = sum(1 / df for df, _ in parts) - 1 / (n + m - 2)
            less *= (2 * p**2 + 3 * p - 1) / (6 * (p + 1))
            chances.append(chdtrc(p * (p + 1) / 2, max(0.0, (1 - less) * box)))
    chance = min(1.0, float(np.min(chances)) * len(chances))
    if chance >= UNLIKELY:
        return ""
    return (
        f"the synthetic rows hardly come from the posterior of this table (chance {chance:.1g}): they were drawn "
        "in another way or from other records. Then the adversary here is misled; one who knows how they were "
        "really made may learn more, and a pass means nothing"
    )
