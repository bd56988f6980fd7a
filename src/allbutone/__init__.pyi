from allbutone.adversary.attack import Attack, attack, attack_many
from allbutone.adversary.leave_one_out import attack_all
from allbutone.adversary.missing import posterior_missing
from allbutone.adversary.posterior import PoorSampling, Posterior, posterior
from allbutone.adversary.who import Adversary
from allbutone.disclosure.audit import MechanismWarning, audit
from allbutone.disclosure.budget import Budget, budget
from allbutone.disclosure.epsilon import privacy
from allbutone.disclosure.guarantee import guarantee
from allbutone.disclosure.guarantee_plan import (
    certificate_for,
    expected_errors,
    plan_guarantee,
    prior_for,
    weight_for,
)
from allbutone.disclosure.one_record import attack_record
from allbutone.disclosure.risk import risk
from allbutone.disclosure.rule import Rule
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.model.prior import PriorScaleWarning
from allbutone.releases.check import check_release
from allbutone.releases.combining import Combined, combine
from allbutone.releases.folder import load_release, save_release
from allbutone.releases.ledger import Ledger, ledger_path, read_ledger, record_release, void_release
from allbutone.releases.mechanism import Mechanism
from allbutone.releases.release import Release
from allbutone.releases.sampling import new_repeat_key
from allbutone.releases.several import without_columns
from allbutone.releases.synthesizer import Synthesizer
from allbutone.releases.together import with_earlier
from allbutone.reports.findings import Finding
from allbutone.reports.report import Report, report
from allbutone.reports.verdict import Verdict
from allbutone.support.errors import InputError
from allbutone.tables.records import Records, TableWarning, demo_cohort
from allbutone.tables.schema import Schema
from allbutone.utility.fidelity import Fidelity, fidelity
from allbutone.utility.normality import check_normality
from allbutone.utility.shapes import densities

__version__: str

__all__ = [
    "NIW",
    "Adversary",
    "Attack",
    "Budget",
    "Combined",
    "Fidelity",
    "Finding",
    "InputError",
    "Ledger",
    "Mechanism",
    "MechanismWarning",
    "Moments",
    "PoorSampling",
    "Posterior",
    "PriorScaleWarning",
    "Records",
    "Release",
    "Report",
    "Rule",
    "Schema",
    "Synthesizer",
    "TableWarning",
    "Verdict",
    "__version__",
    "attack",
    "attack_all",
    "attack_many",
    "attack_record",
    "audit",
    "budget",
    "certificate_for",
    "check_normality",
    "check_release",
    "combine",
    "demo_cohort",
    "densities",
    "expected_errors",
    "fidelity",
    "guarantee",
    "ledger_path",
    "load_release",
    "new_repeat_key",
    "plan_guarantee",
    "posterior",
    "posterior_missing",
    "prior_for",
    "privacy",
    "read_ledger",
    "record_release",
    "report",
    "risk",
    "save_release",
    "void_release",
    "weight_for",
    "with_earlier",
    "without_columns",
]
