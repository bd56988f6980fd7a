"""Results in words: what a board reads first."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from allbutone.disclosure.budget import Budget
from allbutone.disclosure.mixed_budget import MixedBudget
from allbutone.disclosure.mixed_risk import is_found, judged_categories, rise_in_odds
from allbutone.disclosure.per_record import is_exposed, not_computed
from allbutone.plots.categories import category_message
from allbutone.support.errors import Cure
from allbutone.support.text import counted
from allbutone.utility.column_shape import LEVELS
from allbutone.utility.fidelity import MEAN_BAND, Fidelity
from allbutone.utility.normality import Normality
from allbutone.utility.released_values import Oddity

MUCH = float(np.log(20))  # nats: true values made more than twenty times as likely


@dataclass(frozen=True)
class Finding:
    """One of the things a decision rests on: does it speak against the release, and what it says."""

    subject: str
    against: bool
    words: str


def most_exposed(found: dict[str, np.ndarray]) -> np.ndarray:
    """Return the records from the most exposed down: those that lead by either measure, named or known, first."""
    # what could not be computed comes first: nobody knows that it is harmless
    error, gain = (found[name] for name in ("relative_error", "information_gain"))
    unknown = np.where(not_computed(found), -np.inf, np.inf)
    by_guess = np.argsort(np.argsort(np.where(np.isfinite(error), error, unknown), kind="stable"))
    by_gain = np.argsort(np.argsort(np.where(np.isfinite(gain), -gain, -np.inf), kind="stable"))
    return np.lexsort((by_gain, np.minimum(by_guess, by_gain)))


def risk_sentence(found: dict[str, np.ndarray]) -> str:
    """Return the verdict for a board: can they name the record, and how much closer did they get?"""
    findings: list[Finding | None] = []
    if "relative_error" in found:
        findings += [exposure_finding(found), gain_finding(found)]
    return " ".join(finding.words for finding in (*findings, categories_finding(found)) if finding)


def exposure_finding(found: dict[str, np.ndarray]) -> Finding:
    """Judge whether the adversary could name anyone's values from this very release."""
    people, error, flags = len(found["row"]), found["relative_error"], is_exposed(found)
    exposed = int(np.sum(flags))
    if not exposed:
        words = f"No record is exposed by half or more: no guess comes halfway to any of {people:,}, but by luck."
        return Finding("Exposure", False, words)
    closest = int(np.argmin(np.where(flags & np.isfinite(error), error, np.inf)))
    words = (
        f"{exposed:,} of {people:,} records {'is' if exposed == 1 else 'are'} exposed by half or more, row "
        f"{found['row'][closest]} the most: the adversary's guess closes {1 - error[closest]:.0%} of the distance "
        "from the centre of the other records to it."
    )
    return Finding("Exposure", True, words + _lost(found))


def _lost(found: dict[str, np.ndarray]) -> str:
    """Name the records whose measures could not be computed, if any."""
    lost = not_computed(found)
    rows = [str(row) for row in found["row"][lost][:5]]
    more = f" and {np.sum(lost) - 5:,} more" if np.sum(lost) > 5 else ""
    counted_as = "they count as exposed" if np.sum(lost) > 1 else "it counts as exposed"
    noun = "rows" if np.sum(lost) > 1 else "row"
    return (
        f" What the release tells of {noun} {', '.join(rows)}{more} could not be computed: {counted_as}."
        * bool(rows)
    )


def _times(gain: float) -> str:
    """Say in words how many times as likely a gain makes a record's values."""
    factor = float(np.exp(min(gain, 100.0)))
    for size, word in ((1e15, "thousand trillion"), (1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if factor >= size:
            return f"more than {np.floor(min(factor / size, 999)):,.0f} {word} times"
    return f"{factor:,.0f} times" if factor >= 10 else f"{factor:.2g} times"


def gain_finding(found: dict[str, np.ndarray]) -> Finding:
    """Judge how much more likely this very release makes anyone's true values, named or not."""
    gain = np.where(np.isfinite(found["information_gain"]), found["information_gain"], -np.inf)
    best, much = int(np.argmax(gain)), int(np.sum(gain > MUCH))
    if gain[best] <= 0:
        return Finding("Information", False, "The release makes no record's true values more likely.")
    words = (
        f"The most is told of row {found['row'][best]}: the release makes its true values {_times(gain[best])} as "
        "likely as they were without it."
    )
    if much:
        words += f" {much:,} record{'’s' if much == 1 else 's’'} values become more than twenty times as likely."
    return Finding("Information", much > 0, words)


def most_told(found: dict[str, np.ndarray], category: str) -> np.ndarray:
    """Return the records whose level of a category is found out, then the others, by how much its odds grew."""
    return np.lexsort((-rise_in_odds(found, category), ~is_found(found, category)))


def categories_finding(found: dict[str, np.ndarray]) -> Finding | None:
    """Judge whose category the adversary could tell from this very release; None where there are none to tell."""
    names = judged_categories(found)
    told = [name for name in names if is_found(found, name).any()]
    quiet = [name for name in names if name not in told]
    words = [category_message(found, name) for name in told]
    if quiet:
        words.append(f"Nobody’s {' or '.join(filter(None, [', '.join(quiet[:-1]), quiet[-1]]))} is found out.")
    return Finding("Categories", bool(told), " ".join(words)) if names else None


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
