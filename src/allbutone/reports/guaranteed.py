"""The case for or against a release with a guarantee: what it is, what an adversary finds, how like it is."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from allbutone.disclosure.private_risk import limited_records
from allbutone.disclosure.risk import risk_columns
from allbutone.disclosure.rule import Rule
from allbutone.model.niw import NIW
from allbutone.releases.private_mechanism import NoisyMoments
from allbutone.releases.public_ball import PublicBall
from allbutone.releases.release import Release
from allbutone.reports.findings import Finding, fidelity_finding, model_finding
from allbutone.reports.verdict import Verdict, verdict_of
from allbutone.support.errors import Cure, InputError
from allbutone.support.text import counted, listed
from allbutone.tables.records import Records
from allbutone.utility.fidelity import Fidelity, fidelity
from allbutone.utility.normality import Normality, check_normality, completed, given_categories
from allbutone.utility.shapes import Densities, densities


@dataclass(frozen=True, eq=False)
class GuaranteedCase:
    """A release with a guarantee beside its table. Confidential: it describes individual records.

    left: what a declared total still allows, in words, where one was declared.
    """

    records: Records
    release: Release
    risk: dict[str, np.ndarray]
    rule: Rule
    normality: Normality | None  # none of categories alone
    fidelity: Fidelity | None
    densities: Densities | None
    left: str = ""

    @property
    def people(self) -> int:
        """How many records the table has."""
        return self.noisy.people

    @property
    def source(self) -> str:
        """What it was made from, in words."""
        return f"a table of {self.people:,} people"

    @property
    def noisy(self) -> NoisyMoments:
        """What was told of the table."""
        assert self.release.noisy is not None
        return self.release.noisy

    @cached_property
    def verdict(self) -> Verdict:
        """What the rule says of this very release, whatever is guaranteed, against who knows all the rest too."""
        return verdict_of(self.risk, self.rule, schema=self.records.schema)

    @cached_property
    def findings(self) -> list[Finding]:
        """What else to know before it goes out."""
        found = [] if self.normality is None else [model_finding(self.normality, self.records.has_gaps)]
        return [*found, fidelity_finding(self.fidelity, None)] if self.fidelity else found


def assess_guaranteed(wide: Records, release: Release, rule: Rule, left: str = "") -> GuaranteedCase:
    """Attack every record, and judge model and fidelity; `wide`: the table, read without the limits.

    left: what a declared total still allows, in words.
    """
    risk, records = risk_columns(wide, release, rule=rule), limited_records(wide, release)
    compared: tuple[Fidelity | None, Densities | None] = (None, None)
    if min(release.rows) > 1:
        compared = fidelity(records, release), densities(records, release) if release.p else None
    found = GuaranteedCase(records, release, risk, rule, _normality(records, release), *compared)
    return replace(found, left=left)


def require_declared_prior(prior: object) -> None:
    """Refuse a prior for a release with a guarantee."""
    if prior is not None:
        raise InputError(
            "with a guarantee measurements are drawn by the table file's centres, spreads and limits alone",
            Cure("leave the prior out", "prior"),
        )


def _normality(records: Records, release: Release) -> Normality | None:
    """Judge the normal model, by what categories leave of the measurements."""
    if release.mechanism.is_normal:
        return check_normality(records)
    if not release.p:
        return None
    # a prior plays no part in what least squares leaves
    mechanism = replace(release.mechanism, normal=NIW.flat(release.p))
    whole = completed(records, mechanism)
    return check_normality(given_categories(whole, mechanism), of=whole)


def guarantee_facts(noisy: NoisyMoments) -> list[tuple[str, str]]:
    """Return what a guarantee is and rests on, from the top of NIST's pyramid (SP 800-226) to its base."""
    ball = noisy.ball
    declared = all(column.centre is not None for column in ball.schema.measurements)
    unit = "spreads from the declared centres" if declared else "half widths from the middles of the limits"
    noises = [f"σ = {noisy.noise:.3g} on the moments, in squares of these units"] if ball.p else []
    if noisy.counts:
        spread = [each.noise for each in noisy.counts]
        what = "what is missing" if not ball.schema.categories else "categories"
        what += " and of what is missing" * (ball.has_gaps and bool(ball.schema.categories))
        noises += [
            f"σ from {min(spread):.3g} to {max(spread):.3g} people on the counts of {what}, alone and in pairs"
        ]
    limits = [
        f"{column.name} {column.order.in_words}"
        if column.order
        else f"{column.name} {column.low:g} to {column.high:g}"
        for column in ball.schema.measurements
    ]
    limits += [f"{column.name} {counted(len(column.levels), 'level')}" for column in ball.schema.categories]
    farthest = [f"{ball.radius:.3g} {unit}"] if ball.p else []
    return [
        ("ε", f"{noisy.epsilon:.3g} (ρ = {noisy.rho:.3g}, μ = {noisy.mu:.3g})"),
        ("δ", f"{noisy.delta:g}"),
        (
            "What is protected",
            f"one person's whole record{', of all visits' if ball.schema.visits else ''}, replaced by any other; "
            f"not the number {noisy.people:,}",
        ),
        ("Bounds", "; and at most ".join([listed(limits, 12), *farthest])),
        ("Where they come from", "the table file, fixed before anyone looked at the table, as its author says"),
        ("Mechanism", f"Gaussian noise on sums of records: {'; '.join(noises)}; datasets drawn from these alone"),
        ("Account", "exact for Gaussian noise; several releases add by μ² in the ledger"),
        ("Noise", "OpenDP's discrete Gaussian, drawn exactly, in whole numbers"),
        (
            "Its random numbers",
            "OpenDP's cryptographic one (OpenSSL's, by version), seeded by the operating system; never stored",
        ),
        (
            "Trust",
            "the data holder sees the table, adds the noise and keeps the table; nobody else needs to be trusted",
        ),
        (
            "Side channels",
            "how long it took and what it refused are not protected: they are for the data holder alone; that "
            "there is a release says that the table passed the checks: the guarantee is between tables that do",
        ),
        ("Public, and not paid for", "; ".join(_public(ball))),
    ]


def _public(ball: PublicBall) -> list[str]:
    """Return what is public of a release and its table besides what the noise was paid for."""
    schema = ball.schema
    declared = {
        "limits, scales, centres, spreads and rounding of the measurements, as declared": ball.p,
        "the levels of the categories": schema.categories,
        "formulas, and orders between columns": schema.derived or schema.orders,
        "which columns may have gaps, and whether synthetic rows have some": ball.has_gaps,
        "which visits there are, and which columns stand once": schema.visits,
    }
    return [
        "the names of the columns and their order",
        *(words for words, there in declared.items() if there),
        "the number of people",
        "how many datasets were drawn, and of how many rows",
        "ε, δ and the design of the noise, which follows from these alone",
        "that the table passed the checks",
    ]
