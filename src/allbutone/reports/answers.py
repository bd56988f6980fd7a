"""The words of those who decide: which questions of which text a report answers, and which it does not."""

import numpy as np

from allbutone.disclosure.derived_risk import not_judged
from allbutone.disclosure.rule import MEMBERSHIP
from allbutone.reports.assessment import Assessment
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


def impact_sentences(assessment: Assessment, budget_words: str) -> dict[str, str]:
    """Return what an impact assessment asks for, in sentences with the figures of this report."""
    risk, schema, rule = assessment.risk, assessment.records.schema, assessment.rule
    release, people = assessment.release, len(assessment.risk["row"])
    what = f"{counted(release.count, release.noun)} of {assessment.source}, drawn from a Bayesian model."
    earlier = assessment.earlier_count
    before = f" {counted(earlier, 'dataset or draw')} given out before count." if earlier else ""
    rest = f"the person’s {joined(schema.known)}" if schema.known else "all values of the person but one"
    public = [column.name for column in schema.columns if not column.secret]
    apart = f" Not judged, as public of people anyway: {joined(public)}." if public else ""
    apart += f" {computed}" if (computed := not_judged(schema, risk)) else ""
    disclosed = int(np.sum(risk["disclosed"]))
    found = {
        "The processing": what + before,
        "Who is taken to attack": (
            "Somebody who has every other record and all that was released, and knows nothing of the person, or "
            f"{rest}."
        ),
        "Values": (
            f"Values of {disclosed:,} of {people:,} people are disclosed by the rule "
            f"({chance(rule.probability)}); the highest probability that the release brings about is "
            f"{chance(float(np.max(risk['risk'])))}.{apart}"
        ),
    }
    if MEMBERSHIP in risk:
        members = int(np.sum(risk["membership_disclosed"]))
        found["Membership"] = (
            f"That they are in the table is disclosed of {members:,} of {people:,} people by the rule "
            f"({chance(rule.membership)}); the highest probability is {chance(float(np.max(risk[MEMBERSHIP])))}."
        )
    found["Chance"] = budget_words
    found["What remains"] = (
        "All figures hold under the model and its prior, for one row a person: a measurement, no guarantee."
    )
    return {heading: words for heading, words in found.items() if words}
