"""Results in words: what a board reads first."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from allbutone.disclosure.budget import Budget
from allbutone.disclosure.engine_budget import EngineBudget
from allbutone.disclosure.mixed_budget import MixedBudget
from allbutone.support.errors import Cure
from allbutone.support.text import counted, joined, listed, number
from allbutone.utility.column_shape import LEVELS
from allbutone.utility.fidelity import MEAN_BAND, Differences, Fidelity
from allbutone.utility.normality import Normality
from allbutone.utility.released_values import Oddity

AnyBudget = Budget | MixedBudget | EngineBudget


@dataclass(frozen=True)
class Finding:
    """What else to know before a release goes out: does it need attention, is it worth knowing, what it says."""

    subject: str
    against: bool
    words: str
    noted: bool = False

    @property
    def heading(self) -> str:
        """How much it matters."""
        return "needs attention" if self.against else "worth knowing" if self.noted else "in order"


def budget_words(budget: AnyBudget, released: int, earlier: int = 0) -> str:
    """Say how much may be given out in all, and what this release, and what went out earlier, leave of it."""
    noun = "parameter draw" if budget.what == "parameter draws" else "dataset"
    has, left = counted(released, noun), budget.confident_count - released - earlier
    if earlier:
        has += f", and {earlier:,} went out earlier"
    if left > 0:
        return f"{budget.sentence} This release has {has}; {left:,} more may follow."
    if left == 0:
        return f"{budget.sentence} This release has {has}, which is all of it.{_as_planned(budget)}"
    return (
        f"{budget.sentence} This release has {has}, which is more: in more than one of twenty cases as much as "
        f"this discloses somebody.{_as_planned(budget)}"
    )


def _as_planned(budget: AnyBudget) -> str:
    """Say why the budget command, which goes by what earlier releases really tell, may answer otherwise."""
    if not isinstance(budget, Budget):
        return ""
    return " This was planned as if nothing had been drawn; allbutone budget goes by what was, and may allow more."


def remedies(budget: AnyBudget | None, released: int) -> list[str]:
    """Say what would pass in place of a release that does not, each with the number that it allows."""
    if budget is None:
        return ["Fewer or smaller datasets tell less; draw them anew, and judge them again."]
    noun = "parameter draw" if budget.what == "parameter draws" else "dataset"
    found = []
    if released <= budget.confident_count:
        found.append(
            "Another draw of the same size: fewer than one of twenty such releases disclose anybody, and this is "
            "one of them. Do not give it out, and draw another."
        )
    elif budget.confident_count:
        found.append(f"Fewer: up to {budget.confident_count:,} {budget.what}, drawn anew.")
    for each in getattr(budget, "alternatives", ()):
        if each.datasets > budget.confident_count:
            enough = ", which is enough for as many as these" * (each.datasets >= released)
            why = f" ({each.why})" if each.why else ""
            found.append(
                f"{each.change[0].upper()}{each.change[1:]}: up to {counted(each.datasets, noun)}{enough}{why}."
            )
    if not isinstance(budget, EngineBudget):  # noise is added to tables that are read, not where they lie
        found.append(
            "A guarantee, which adds noise and holds whatever anybody knows: "
            "allbutone guarantee says what it costs."
        )
    return found


def model_finding(normality: Normality) -> Finding:
    """Judge whether the normal model is fit to be used on this table."""
    if normality.level == "fit":
        some = "The column has" if len(normality.columns) == 1 else "The columns have"
        words = f"{some} the bell shape that the model assumes, and on which the probabilities rest."
        return Finding("Model", False, words)
    every = normality.every
    # of a doubtful column, of what columns do together and of single records it is good to know; a shape that will
    # not come out as it is needs attention
    against = any(verdict.level == "not fit" for verdict in normality.verdicts)
    worst = max(every, key=lambda verdict: LEVELS.index(verdict.level))
    groups = [
        f"{name}: {_some([verdict.subject for verdict in every if verdict.level == level])}."
        for level, name in (("not fit", "Not bell-shaped"), ("doubtful", "Doubtful"))
        if any(verdict.level == level for verdict in every)
    ]
    said = [
        f"The model assumes bell-shaped columns. {' '.join(groups)} Why, for {worst.subject}: {worst.reason}.",
        f"What to do: {worst.advice}. As it is, synthetic values there look different from real ones, and",
        "somebody who knows the true shape may find out more than the probabilities say.",
    ]
    return Finding("Model", against, " ".join(said), noted=True)


def fidelity_finding(fidelity: Fidelity, of_prior: str | None = None) -> Finding:
    """Judge whether the synthetic data look like the real, beyond what chance does to a right model.

    `of_prior`: what `prior_pull` says of the prior, which is told where something is wrong.
    """
    far = fidelity.beyond_noise()
    if faults := _faults(fidelity, far):
        words = f"More than chance would explain, the synthetic data differ from the real in {joined(faults)}."
        return Finding("Likeness", True, " ".join(filter(None, [words, of_prior])))
    same = "averages, spreads, relations and shapes of the columns"
    if fidelity.natural is not None:
        same = "averages, spreads, extremes, relations and shapes of the columns"
    if fidelity.categories.columns:
        same = f"shares of the categories, {same}"
    words = f"The synthetic data look like the real: {same} differ by no more than chance explains."
    if len(fidelity.columns) > 1:
        widest = float(np.max(np.abs(np.median(fidelity.correlation_differences, axis=0))))
        words += f" Correlations are off by at most {number(widest, 2)} (median over the datasets)."
    return Finding("Likeness", False, words)


def _faults(fidelity: Fidelity, far: Differences) -> list[str]:
    """Say what differs, and by how much: what anybody would see first, then what an analysis would."""
    means = np.abs(np.median(fidelity.mean_differences, axis=0))
    ratios, distances = np.median(fidelity.spread_ratios, axis=0), np.median(fidelity.ks, axis=0)
    beyond = f"(by more than {MEAN_BAND:g}, "
    parts = (
        ("the averages of ", _sized(fidelity, far.means, means, "{:.2f} SD"), ""),
        ("the spreads of ", _sized(fidelity, far.spreads, ratios, "{:.2f} times the real SD"), ""),
        ("the SDs, in their own units, of ", far.natural_spreads, ""),
        ("the extremes: ", far.tails, ""),
        ("the frequencies of ", far.categories.levels, ""),
        ("the shares of ", far.categories.shares, f" {beyond}Cohen’s w)"),
        ("the correlations of ", far.correlations, f" {beyond}Fisher’s z)"),
        ("the joint counts of ", far.categories.tables, f" {beyond}Cohen’s w)"),
        ("the associations of ", far.categories.associations, f" {beyond}Cramér’s V or η)"),
        ("the averages by category of ", far.categories.level_means, f" {beyond}SD)"),
        ("the shapes of ", _sized(fidelity, far.distributions, 100 * distances, "{:.0f} % of rows misplaced"), ""),
    )
    return [f"{what}{_some(names)}{unit}" for what, names, unit in parts if names]


def _sized(fidelity: Fidelity, names: Sequence[str], sizes: np.ndarray, words: str) -> list[str]:
    """Put the size of each column's difference behind its name."""
    return [f"{name} ({words.format(sizes[fidelity.columns.index(name)])})" for name in names]


def values_finding(oddities: Sequence[Oddity], say: Callable[[Cure], str]) -> Finding | None:
    """Say what synthetic values have and real ones do not, each with its cure; None where there is nothing."""
    if not oddities:
        return None
    words = " ".join(f"{oddity.words}: {say(oddity.cure)}." for oddity in oddities)
    return Finding("Values", any(oddity.against for oddity in oddities), words, noted=True)


def _some(names: Sequence[str]) -> str:
    return listed(names, 5)
