"""Results in words: what a board reads first."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

import numpy as np

from allbutone.disclosure.budget import Alternative, Budget
from allbutone.disclosure.epsilon import usual_delta
from allbutone.disclosure.private_risk import BOUND
from allbutone.disclosure.rule import BASELINE, PROBABILITY
from allbutone.releases.private_mechanism import NoisyMoments
from allbutone.reports.verdict import Verdict
from allbutone.support.errors import Cure
from allbutone.support.text import counted, joined, listed, number, percent
from allbutone.utility.class_fit import ClassFit
from allbutone.utility.fidelity import MEAN_BAND, Differences, Fidelity
from allbutone.utility.natural_scale import Oddity
from allbutone.utility.normality import Normality
from allbutone.utility.shapes import LEVELS

SERIOUS = 0.5  # standard deviations, and in each measure's own scale: what would change a decision, not a digit
NOTED = 0.15  # likewise: what is more than a digit
ONE_BIT = "To choose the model after looking at the table tells one bit of it: choose once, and say so."
FEW_A_CELL = 4  # people in the mean cell of categories, at most, where rare combinations are many
NAMED = 5  # columns that a sentence names
KEEP_IT = "Do not give it out as it is: keep the folder closed, and void it in the ledger if nobody has it."
# what can differ, the field of `Differences` that names it, and the measure where the names do not say how much
DIFFERENCES = (
    ("the averages of ", "means", ""),
    ("the spreads of ", "spreads", ""),
    ("the SDs, in their own units, of ", "natural_spreads", ""),
    ("the extremes: ", "tails", ""),
    ("the frequencies of ", "categories.levels", ""),
    ("the shares of ", "categories.shares", "Cohen’s w"),
    ("the correlations of ", "correlations", "Fisher’s z"),
    ("the joint counts of ", "categories.tables", "Cohen’s w"),
    ("the associations of ", "categories.associations", "Cramér’s V or η"),
    ("the averages by category of ", "categories.level_means", "SD"),
    ("the shapes of ", "distributions", ""),
)


@dataclass(frozen=True)
class Finding:
    """What else to know before a release goes out: does it need attention, is it worth knowing, what it says.

    >>> import allbutone as abo
    >>> abo.Finding("means", True, "The averages of 'age' are far off.").heading
    'needs attention'
    """

    subject: str
    against: bool
    words: str
    noted: bool = False

    @property
    def heading(self) -> str:
        """How much it matters."""
        return "needs attention" if self.against else "worth knowing" if self.noted else "in order"


def budget_words(budget: Budget, released: int, earlier: int = 0) -> str:
    """Say how many more may be given out, the release and what went out earlier being counted in."""
    if not earlier:
        return f"{budget.sentence} This release is counted as out."
    return f"{budget.sentence} Counted in are this release ({released:,}) and what went out earlier ({earlier:,})."


def instead_of(budget: Budget, released: int) -> int:
    """Return how many may be drawn in place of a release that nobody has: what went out earlier stays out."""
    return max(0, budget.in_all - max(0, budget.before - released))


def passing(budget: Budget, released: int) -> list[Alternative]:
    """Return the changes that were tried and leave something to release, after what went out earlier."""
    earlier = max(0, budget.before - released)
    used = min(1.0, earlier / budget.in_all) if budget.in_all else float(earlier > 0)
    left = [replace(each, datasets=int(each.datasets * (1 - used))) for each in budget.alternatives]
    return [each for each in left if each.datasets > instead_of(budget, released)]


def remedies(budget: Budget, released: int) -> list[str]:
    """Say what would pass in place of a release that does not, each with the number it allows: all were tried."""
    ways, instead = [], instead_of(budget, released)
    if released <= instead:
        ways.append(
            "As many, drawn once more: so much is within the budget, fewer than one of twenty such releases "
            "disclose anybody, and this is one of them. Do not give it out."
        )
    elif instead:
        ways.append(f"Fewer: up to {instead:,} {budget.what}, drawn once, in place of this.")
    for each in passing(budget, released):
        enough = ", as many as this release has or more" * (each.datasets >= released)
        why = f" ({each.why})" if each.why else ""
        allowed = f"up to {counted(each.datasets, budget.noun)}{enough}{why}"
        ways.append(f"{each.change[0].upper()}{each.change[1:]}: {allowed}.")
    plain, mechanism = budget.case.is_plain and not budget.standing, budget.case.mechanism
    if not ways and plain:
        ways.append("Nothing else that was tried would pass: release nothing of this table as it is.")
    elif not ways and budget.alternatives:
        tried = "; ".join(each.change for each in budget.alternatives)
        ways.append(f"Nothing that was tried would pass ({tried}): release nothing of this table as it is.")
    elif not ways:
        kind = "that stays in its engine" if budget.standing else "of this kind"
        ways.append(
            f"Nothing is known to pass: other ways were not tried for a table {kind}. Release nothing of it as it "
            "is; smaller datasets, or fewer columns, may pass, and a budget of these says so before anything is "
            "drawn."
        )
    if not instead and not mechanism.has_classes and FEW_A_CELL * mechanism.prior.cells.count >= len(budget.rows):
        ways.append(
            "Another model: cells of categories copy rare combinations, and classes draw them from many people. "
            "What may be released of these, “allbutone budget … --model classes” tells beforehand."
        )
    if plain and len(budget.rows) >= 2 * mechanism.prior.p:
        # noise is added to measurements of tables that are read, and that have rows enough for it
        ways.append(
            "A guarantee, which adds noise and protects whatever anybody knows already: the command "
            "“allbutone guarantee” tells what it costs in accuracy."
        )
    return ways


def next_steps(verdict: Verdict, ways: Sequence[str], earlier: int = 0) -> list[str]:
    """Say what to do with a release: give it out, or what to do instead; `ways`: what would pass in its place."""
    if not verdict.may_go_out:
        return [KEEP_IT, *ways]
    whole = "together with what went out earlier, " if earlier else ""
    return [
        f"This release may be given out, {whole}this very one and no other drawn beside it; with it public.html, "
        "made of the release alone.",
        "Before more is drawn of this table, ask again how much is left: what is said here is as of today.",
    ]


def model_finding(
    normality: Normality,
    gaps: bool = False,
    classes: ClassFit | None = None,
    say: Callable[[Cure], str] = lambda cure: cure.words,
) -> Finding:
    """Judge whether the normal model is fit to be used on this table, whose gaps were filled by it, if any.

    `classes`: what they would draw, where that was tried.
    """
    filled = " Gaps were filled by one draw of the model, which hides a little of what is wrong." * gaps
    if normality.level == "fit":
        some = "The column has" if len(normality.columns) == 1 else "The columns have"
        words = f"{some} the bell shape that the model assumes, and on which the probabilities rest."
        return Finding("Model", False, words + filled)
    every = normality.every
    worst = max(every, key=lambda verdict: LEVELS.index(verdict.level))
    groups = [
        f"{name}: {listed([verdict.subject for verdict in every if verdict.level == level], NAMED)}."
        for level, name in (("not fit", "Not bell-shaped"), ("doubtful", "Doubtful"))
        if any(verdict.level == level for verdict in every)
    ]
    off = normality.middle_gaps
    said = [
        f"The model assumes bell-shaped columns. {' '.join(groups)} Why, for {worst.subject}: {worst.reason}.",
        f"What to do: {worst.advice}. As it is, the 10th to 90th percentiles of synthetic values lie up to",
        f"{np.max(off):.2f} SD from the real ones ({normality.columns[np.argmax(off)]}), and somebody who knows",
        "the true shape may find out more than the probabilities say.",
    ]
    if classes is not None and np.max(classes.gaps) < (now := float(np.max(normality.mean_gaps))):
        mend = say(Cure("draw it with classes", "model", "classes"))
        said.append(
            f"With classes: {classes.in_words} at most, where it is {now:.2f} SD as it is; {mend}. {ONE_BIT}"
        )
    return Finding("Model", bool(np.max(off) > SERIOUS), " ".join(said) + filled, noted=True)


def classes_finding(fit: ClassFit, classes: int) -> Finding:
    """Judge whether classes draw what the table has, column by column."""
    what = (
        f"The model is of at most {classes} classes that nobody has observed, in each of which measurements are "
        "jointly normal and categories independent."
    )
    if not fit.columns:
        return Finding("Model", False, what)
    off = float(np.max(fit.gaps))
    words = f"{what} The 10th to 90th percentiles of what it draws lie {fit.in_words} from the real ones."
    return Finding("Model", off > SERIOUS, words, noted=off > NOTED)


def fidelity_finding(fidelity: Fidelity, of_prior: str | None = None) -> Finding:
    """Judge whether the synthetic data look like the real, beyond what chance does to a right model.

    `of_prior`: what `prior_pull` says of the prior, which is told where something is wrong.
    """
    far, serious = fidelity.beyond_noise(), fidelity.beyond_noise(SERIOUS)
    large, small = _faults(fidelity, serious), _faults(fidelity, far, but=serious)
    small += [f"the time to {each.event} ({each.time})" for each in fidelity.survival if each.far]
    if large or small:
        differ = "the synthetic data differ from the real"
        said = [f"Enough to change findings, {differ} in {joined(large)}."] if large else []
        if small:
            said.append(f"Beyond chance, but too little to change findings, {differ} in {joined(small)}.")
        return Finding("Likeness", bool(large), " ".join(filter(None, [*said, of_prior])), noted=True)
    same = "averages, spreads, relations and shapes of the columns"
    if fidelity.natural is not None:
        same = "averages, spreads, extremes, relations and shapes of the columns"
    if fidelity.categories.columns:
        same = f"shares of the categories, {same}"
    words = f"The synthetic data look like the real: {same} differ by no more than chance explains."
    if len(fidelity.columns) > 1:
        widest = float(np.max(np.abs(np.median(fidelity.correlation_differences, axis=0))))
        k, p = len(fidelity.correlation_differences), len(fidelity.columns)
        pairs = p * (p - 1) // 2
        of = f"of {pairs:,} the one furthest off" if pairs > 1 else "the only one"
        median = f" (median over the {k:,} datasets)" * (k > 1)
        words += f" Chance moves correlations, too: {of} differs by {number(widest, 2)}{median}."
    return Finding("Likeness", False, words)


def _faults(fidelity: Fidelity, far: Differences, but: Differences | None = None) -> list[str]:
    """Say what differs, and by how much: what anybody would see first, then what an analysis would."""
    sizes = {
        "means": (np.abs(np.median(fidelity.mean_differences, axis=0)), "{:.2f} SD"),
        "spreads": (np.median(fidelity.spread_ratios, axis=0), "{:.2f} times the real SD"),
        "distributions": (100 * np.median(fidelity.ks, axis=0), "{:.0f} % of rows misplaced"),
    }
    beyond = f"(by more than {MEAN_BAND if but else SERIOUS:g}, "
    faults = []
    for what, of, unit in DIFFERENCES:
        names, known = (attrgetter(of)(each) if each else () for each in (far, but))
        names = [name for name in names if name not in known]
        if of in sizes:
            size, words = sizes[of]
            names = [f"{name} ({words.format(size[fidelity.columns.index(name)])})" for name in names]
        if names:
            faults.append(f"{what}{listed(names, NAMED)}{f' {beyond}{unit})' if unit else ''}")
    return faults


def values_finding(oddities: Sequence[Oddity], say: Callable[[Cure], str]) -> Finding:
    """Say what synthetic values have and real ones do not, each with its cure."""
    words = " ".join(f"{oddity.words}: {say(oddity.cure)}." for oddity in oddities)
    return Finding("Values", any(oddity.against for oddity in oddities), words, noted=True)


def epsilon_words(epsilon: Any) -> str:
    """Say what the ε of the records of a table are, and what they are not."""
    return (
        f"In the language of differential privacy, the epsilon of half of the records is at most "
        f"{number(float(np.median(epsilon)))}, and the highest of all is {number(float(np.max(epsilon)))} "
        f"(δ = {usual_delta(len(epsilon)):g}): per record, computed from the data, confidential, and not "
        "a guarantee."
    )


def private_risk_sentence(risk: Mapping[str, np.ndarray], told: NoisyMoments) -> str:
    """Say whether anyone was found out, and how that compares with what the guarantee allows."""
    people, disclosed = len(risk["row"]), int(np.sum(risk["disclosed"]))
    names = [key.removeprefix(BOUND) for key in risk if key.startswith(BOUND)]
    names = [name for name in names if PROBABILITY + name in risk]
    after, before, allowed = (
        percent(float(np.nanmean([risk[kind + name] for name in names])))
        for kind in (PROBABILITY, BASELINE, BOUND)
    )
    head = f"{disclosed:,} of {people:,} people have a value disclosed" if disclosed else "No value is disclosed"
    members = int(np.sum(risk.get("membership_disclosed", 0)))
    head += f", and the membership of {members:,} is" if members else ", and nobody’s membership"
    return (
        f"{head}. On average a value is guessed with probability {after}, {before} without "
        f"the release; the guarantee of ε = {told.epsilon:.3g} allows {allowed}."
    )
