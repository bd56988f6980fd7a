"""The case for or against a release with a guarantee: what it is, what an adversary finds, how like it is."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from allbutone.disclosure.private_risk import limited_records
from allbutone.disclosure.risk import risk_columns
from allbutone.disclosure.rule import Rule
from allbutone.model.niw import NIW
from allbutone.releases.private_mechanism import NoisyMoments
from allbutone.releases.release import Release
from allbutone.reports.findings import Finding, fidelity_finding, model_finding
from allbutone.reports.verdict import Verdict, verdict_of
from allbutone.support.errors import Cure, InputError
from allbutone.support.text import listed
from allbutone.tables.records import Records
from allbutone.utility.fidelity import Fidelity, fidelity
from allbutone.utility.normality import Normality, check_normality, given_categories
from allbutone.utility.shapes import Densities, densities

PUBLIC = (
    "the names of the columns",
    "limits, scales, centres and spreads of the measurements, as the table file declares them",
    "the levels of the categories",
    "the number of people",
    "how many datasets were drawn, and of how many rows",
    "ε, δ and the design of the noise, which follows from these alone",
)


@dataclass(frozen=True, eq=False)
class GuaranteedCase:
    """A release with a guarantee beside its table. Confidential: it describes individual records.

    left: what a declared total still allows, in words, where one was declared.
    """

    records: Records
    release: Release
    risk: dict[str, np.ndarray]
    rule: Rule
    normality: Normality
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
        """What the rule says of this very release, whatever is guaranteed."""
        return verdict_of(self.risk, self.rule, outside=self.records.schema.known, schema=self.records.schema)

    @cached_property
    def findings(self) -> list[Finding]:
        """What else to know before it goes out."""
        of_model = model_finding(self.normality, gaps=False)
        return [of_model, fidelity_finding(self.fidelity, None)] if self.fidelity else [of_model]


def assess_guaranteed(wide: Records, release: Release, rule: Rule, left: str = "") -> GuaranteedCase:
    """Attack every record, and judge model and fidelity; `wide`: the table, read without the limits.

    left: what a declared total still allows, in words.
    """
    risk, records = risk_columns(wide, release, rule=rule), limited_records(wide, release)
    compared = (
        (None, None) if min(release.rows) <= 1 else (fidelity(records, release), densities(records, release))
    )
    found = GuaranteedCase(records, release, risk, rule, _normality(records, release), *compared)
    return replace(found, left=left)


def require_declared_prior(prior: object) -> None:
    """Refuse a prior for a release with a guarantee."""
    if prior is not None:
        raise InputError(
            "with a guarantee measurements are drawn by the table file's centres, spreads and limits alone",
            Cure("leave the prior out", "prior"),
        )


def _normality(records: Records, release: Release) -> Normality:
    """Judge the normal model, by what categories leave of the measurements."""
    if release.mechanism.is_normal:
        return check_normality(records)
    # a prior plays no part in what least squares leaves
    mechanism = replace(release.mechanism, normal=NIW.flat(release.p))
    return check_normality(given_categories(records, mechanism), of=records)


def guarantee_facts(noisy: NoisyMoments) -> list[tuple[str, str]]:
    """Return what a guarantee is and rests on, from the top of NIST's pyramid (SP 800-226) to its base."""
    ball = noisy.ball
    declared = all(column.centre is not None for column in ball.schema.measurements)
    unit = "spreads from the declared centres" if declared else "half widths from the middles of the limits"
    noises = f"σ = {noisy.noise:.3g} on the moments, in squares of these units"
    if noisy.counts:
        counted = ", ".join(dict.fromkeys(f"{each.noise:.3g}" for each in noisy.counts))
        noises += f"; on the counts of categories, alone and in pairs, {counted} people"
    limits = [f"{column.name} {column.low:g} to {column.high:g}" for column in ball.schema.measurements]
    return [
        ("ε", f"{noisy.epsilon:.3g} (ρ = {noisy.rho:.3g}, μ = {noisy.mu:.3g})"),
        ("δ", f"{noisy.delta:g}"),
        (
            "What is protected",
            f"one person's whole record, replaced by any other; not the number {noisy.people:,}",
        ),
        ("Bounds", f"{listed(limits, 12)}; and {ball.radius:.3g} {unit}"),
        ("Where they come from", "the table file, fixed before anyone looked at the table, as its author says"),
        ("Mechanism", f"Gaussian noise on sums of records: {noises}; datasets drawn from these alone"),
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
            "how long it took and what it refused are not protected: they are for the data holder alone",
        ),
        ("Public, and not paid for", "; ".join(PUBLIC if noisy.counts else (*PUBLIC[:2], *PUBLIC[3:]))),
    ]
