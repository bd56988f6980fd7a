"""Results in words: what a board reads first."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from allbutone.disclosure.budget import Budget
from allbutone.disclosure.mixed_budget import MixedBudget
from allbutone.disclosure.rule import BASELINE, PROBABILITY, TOLERANCE
from allbutone.support.errors import Cure
from allbutone.support.text import counted, number
from allbutone.utility.column_shape import LEVELS
from allbutone.utility.fidelity import MEAN_BAND, Fidelity
from allbutone.utility.normality import Normality
from allbutone.utility.released_values import Oddity


@dataclass(frozen=True)
class Finding:
    """One of the things a decision rests on: does it speak against the release, and what it says."""

    subject: str
    against: bool
    words: str


def most_at_risk(found: dict[str, np.ndarray]) -> np.ndarray:
    """Return the records from those at most risk down; of equal risk, those first whose odds rose most."""
    return np.lexsort((-_rise(found), -found["risk"], ~found["disclosed"]))


def risk_sentence(found: dict[str, np.ndarray]) -> str:
    """Return the verdict for a board: whose values are disclosed, and how surely."""
    return disclosure_finding(found).words


def disclosure_finding(found: dict[str, np.ndarray]) -> Finding:
    """Judge whether this very release, with all that count with it, discloses a value of anyone."""
    people, flags, order = len(found["row"]), found["disclosed"], most_at_risk(found)
    disclosed = int(np.sum(flags))
    if not disclosed:
        words = f"No value of any of {people:,} people is disclosed. {_of_one(found, int(order[0]))}"
        return Finding("Disclosure", False, words)
    shown = [int(place) for place in order[: min(disclosed, 3)]]
    who = "1 person" if disclosed == 1 else f"{disclosed:,} people"
    words = f"Values of {who} of {people:,} are disclosed. " + " ".join(_of_one(found, place) for place in shown)
    more = disclosed - len(shown)
    return Finding("Disclosure", True, words + f" And {more:,} more." * (more > 0))


def _of_one(found: dict[str, np.ndarray], place: int) -> str:
    """Say how surely the riskiest value of a record is known, with the release and without it."""
    column, row = str(found["riskiest"][place]), found["row"][place]
    after, before = found[PROBABILITY + column][place], found[BASELINE + column][place]
    if np.isnan(after):
        return f"What the release tells of {column} of row {row} could not be computed: it counts as disclosed."
    within = f" within {number(found[TOLERANCE + column][place])}" if TOLERANCE + column in found else ""
    if after <= before:
        return "Of nobody more is known than without the release."
    return (
        f"Row {row}: the adversary is {_percent(after)} sure of {column}{within}, without the release "
        f"{_percent(before)}."
    )


def _percent(probability: float) -> str:
    if probability > 0.995:
        return "over 99 %"
    return "under 1 %" if probability < 0.01 else f"{100 * probability:.0f} %"


def _rise(found: dict[str, np.ndarray]) -> np.ndarray:
    """Return by how much the probability of each record's riskiest value rose."""
    names = found["riskiest"]
    rise = np.zeros(len(names))
    for name in np.unique(names):
        here = names == name
        rise[here] = (found[PROBABILITY + str(name)] - found[BASELINE + str(name)])[here]
    return np.nan_to_num(rise, nan=1.0)


def budget_finding(budget: Budget | MixedBudget, released: int) -> Finding:
    """Judge whether more is released than the budget allows."""
    has = counted(released, "parameter draw" if budget.what == "parameter draws" else "dataset")
    beyond = released > budget.confident_count
    words = f"{budget.sentence} The release has {has}: {'beyond' if beyond else 'within'} the budget."
    return Finding("Budget", beyond, words)


def model_finding(normality: Normality) -> Finding:
    """Judge whether the normal model is fit to be used on this table."""
    if normality.level == "fit":
        words = "Every column, and all together, are near enough to normal for this model."
        if len(normality.columns) == 1:
            words = "The column is near enough to normal for this model."
        return Finding("Model", False, words)
    every = (*normality.verdicts, normality.together)
    worst = max(every, key=lambda verdict: LEVELS.index(verdict.level))
    groups = [
        f"{level}: {', '.join(verdict.subject for verdict in every if verdict.level == level)}"
        for level in reversed(LEVELS[1:])
        if any(verdict.level == level for verdict in every)
    ]
    words = f"{'; '.join(groups)}. The reason: {worst.reason}. What to do: {worst.advice}."
    return Finding("Model", True, words[0].upper() + words[1:])


def fidelity_finding(fidelity: Fidelity, of_prior: str | None = None) -> Finding:
    """Judge whether the synthetic data look like the real, beyond what chance does to a right model.

    `of_prior`: what `prior_pull` says of the prior, which is told where something is wrong.
    """
    far = fidelity.beyond_noise()
    faults = [
        f"{what} differ by more than {MEAN_BAND:g}{unit}: {_some(names)}"
        for what, unit, names in (
            ("means", " standard deviations", far.means),
            ("spreads", " (logarithm of the ratio)", far.spreads),
            ("correlations", " (Fisher's z)", far.correlations),
            ("shares of levels", " (Cohen's w)", far.categories.shares),
            ("counts of levels together", " (Cohen's w)", far.categories.tables),
            ("associations", " (Cramér's V or η)", far.categories.associations),
            ("means by level", " standard deviations", far.categories.level_means),
        )
        if names
    ]
    if far.distributions:
        faults.append(f"too many Kolmogorov-Smirnov tests of {_some(far.distributions)} reject")
    widest = float(np.max(np.abs(np.median(fidelity.correlation_differences, axis=0))))
    rest = f"the median correlation differs by at most {widest:.2g}" if len(fidelity.columns) > 1 else ""
    if not faults:
        words = "Means, spreads, correlations and distributions agree, but for what chance does"
        if fidelity.categories.columns:
            words = f"Shares of levels and their associations agree; {words[0].lower()}{words[1:]}"
        return Finding("Fidelity", False, "; ".join(filter(None, [words, rest])) + ".")
    words = "; ".join(filter(None, [*faults, rest]))
    return Finding("Fidelity", True, " ".join(filter(None, [f"Beyond what chance does, {words}.", of_prior])))


def values_finding(oddities: Sequence[Oddity], say: Callable[[Cure], str]) -> Finding | None:
    """Say what synthetic values have and real ones do not, each with its cure; None where there is nothing."""
    if not oddities:
        return None
    words = " ".join(f"{oddity.words}: {say(oddity.cure)}." for oddity in oddities)
    return Finding("Values", any(oddity.against for oddity in oddities), words)


def _some(names: tuple[str, ...], most: int = 5) -> str:
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def verdict(findings: list[Finding]) -> str:
    """Return the headline. Nothing is ever called safe."""
    against = [finding.subject.lower() for finding in findings if finding.against]
    if not against:
        return "Nothing measured here speaks against this release"
    named = against[0] if len(against) == 1 else f"{', '.join(against[:-1])} and {against[-1]}"
    return f"{named[0].upper()}{named[1:]} {'speaks' if len(against) == 1 else 'speak'} against this release"
