"""The words of those who decide: which questions of which text a report answers, and which it does not."""

import numpy as np

from allbutone.disclosure.derived_risk import not_judged
from allbutone.disclosure.rule import MEMBERSHIP, Rule
from allbutone.reports.assessment import Assessment
from allbutone.reports.board import released_words
from allbutone.reports.guaranteed import GuaranteedCase
from allbutone.reports.verdict import Verdict
from allbutone.support.text import chance, counted, joined

# docs/answers.md has the same at length, with dates, sources, and what is to be confirmed
ANSWERS = (
    (
        "Article 29 Working Party, Opinion 05/2014 (2014): singling out, linkability, inference",
        "inference by the probabilities of values, with the release and without; linkability by membership",
        "whether the result is anonymous in law",
    ),
    (
        "Court of Justice, C-582/14 (2016) and C-413/23 P (2025): means reasonably likely to be used",
        "more than these: the adversary has every other record",
        "what is reasonably likely for your recipient",
    ),
    (
        "European Health Data Space, Regulation (EU) 2025/327, Article 66: an anonymised format",
        "the verdict and the budget, for what is to leave a secure environment",
        "the decision of the access body",
    ),
    (
        "EMA Policy 0070, Health Canada: 0.09 (to be confirmed)",
        "nothing that can be equated: theirs is of identity, these are of values and of membership",
        "re-identification: there are no records of people in it",
    ),
    (
        "ISO/IEC 27559:2022: maximum or average risk, adversarial testing",
        "the maximum over people, by an exact attack on each",
        "environment, contracts and motives",
    ),
    (
        "ISO/IEC 20889:2018: technique and formal model",
        "synthetic data from a Bayesian model; differential privacy where a release has a guarantee, else none",
        "whether that suffices: a classification sets no limit",
    ),
    (
        "NIST SP 800-226 (2025): guarantees",
        "only where a release has one (ε, δ; the unit is a person)",
        "everything, for a release without one",
    ),
    (
        "ICO (United Kingdom): the motivated intruder",
        "an adversary who is stronger",
        "what an intruder finds in public sources",
    ),
    (
        "HIPAA, expert determination, 45 CFR 164.514(b)(1)",
        "methods and results for the expert’s file",
        "the determination itself",
    ),
)


def impact_sentences(case: Assessment | GuaranteedCase, chance_words: str) -> dict[str, str]:
    """Return what an impact assessment asks for, in sentences with the figures of this report.

    chance_words: how often such releases disclose somebody, as a budget tells it, or what is guaranteed.
    """
    risk, schema, verdict = case.risk, case.records.schema, case.verdict
    people, public = len(risk["row"]), [column.name for column in schema.columns if not column.secret]
    rest = f"the person’s {joined(verdict.outside)}" if verdict.outside else "all values of the person but one"
    apart = f" Not judged, as public of people anyway: {joined(public)}." if public else ""
    apart += f" {computed}" if (computed := not_judged(schema, risk)) else ""
    after, before = _surest(verdict)
    call = "the surest is known" if verdict.disclosed else "the closest call is a value that is known"
    guaranteed = isinstance(case, GuaranteedCase)
    found = {
        "The processing": f"{released_words(case)} from {case.source}, by a Bayesian model.{_before(case)}",
        "Who is taken to attack": (
            "Somebody who has every other record and all that was released, and knows nothing of the person, or "
            f"{rest}."
        ),
        "What a person stands to lose: their values": (
            f"A value is disclosed by the rule ({chance(case.rule.probability)}) of "
            f"{_of_so_many(int(np.sum(risk['disclosed'])), people)}; {call} with a probability of {after}, "
            f"without the release {before}.{apart}"
        ),
    }
    if MEMBERSHIP in risk:
        found["What a person stands to lose: that they are in the table"] = (
            f"Membership is disclosed by the rule ({chance(case.rule.membership)}) of "
            f"{_of_so_many(int(np.sum(risk['membership_disclosed'])), people)}; the highest probability is "
            f"{chance(float(np.max(risk[MEMBERSHIP])))}, from {chance(_odds(case.rule))} without the release."
        )
    found["What is guaranteed" if guaranteed else "How often chance would decide otherwise"] = chance_words
    found["What was done against it"] = _measures_taken(case)
    one = "one row a person" if schema.visits is None else "all rows of a person together"
    figures = "The guarantee holds whatever the data are; all other figures" if guaranteed else "All figures"
    model = [each.words for each in case.findings if each.subject == "Model" and each.against]
    found["What remains"] = " ".join(
        [f"{figures} hold under the model and its prior, for {one}: a measurement, no guarantee.", *model]
    )
    return {heading: words for heading, words in found.items() if words}


def _of_so_many(count: int, people: int) -> str:
    return f"{count:,} of {people:,} people" if count else f"nobody of {people:,} people"


def _odds(rule: Rule) -> float:
    """Return the probability of membership that the rule takes as given without a release."""
    return rule.membership_odds / (1 + rule.membership_odds)


def _surest(verdict: Verdict) -> tuple[str, str]:
    """Return how well the surest value, or the closest call, is known with the release, and without."""
    value = verdict.disclosed[0] if verdict.disclosed else verdict.nearest
    return "not computed" if np.isnan(value.after) else chance(value.after), chance(value.before)


def _before(case: Assessment | GuaranteedCase) -> str:
    """Say what was given out earlier."""
    earlier = 0 if isinstance(case, GuaranteedCase) else case.earlier_count
    return f" Given out before, and counted in: {counted(earlier, 'dataset')} or draws." if earlier else ""


def _measures_taken(case: Assessment | GuaranteedCase) -> str:
    """Say what is declared, what was drawn before it and kept, and what would pass where this does not."""
    limited = [
        column.name
        for column in case.records.schema.measurements
        if column.low is not None or column.high is not None or column.decimals is not None
    ]
    said = [f"Limits or decimals were declared for {joined(limited)}."] if limited else []
    if isinstance(case, GuaranteedCase):
        return " ".join([*said, case.left]).strip()
    if case.judged is not None and case.judged.attempts:
        said.append(
            f"It is attempt {len(case.judged.attempts) + 1}: see the first page. {case.verdict.remark}".strip()
        )
    elif case.judged is not None:
        said.append("By its ledger no release was drawn before it, judged and not given out.")
    return " ".join([*said, *case.remedies])
