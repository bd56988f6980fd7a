from allbutone.adversary.attack import Attack
from allbutone.adversary.missing import posterior
from allbutone.adversary.posterior import Posterior
from allbutone.adversary.who import Adversary
from allbutone.disclosure.attack import attack
from allbutone.disclosure.budget import Budget, budget
from allbutone.disclosure.guarantee import guarantee
from allbutone.disclosure.guarantee_plan import plan_guarantee
from allbutone.disclosure.rule import Rule
from allbutone.disclosure.table_loss import privacy
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.releases.check import check
from allbutone.releases.combining import Combined, combine
from allbutone.releases.folder import load_release, save_release
from allbutone.releases.ledger import Ledger
from allbutone.releases.mechanism import Mechanism
from allbutone.releases.release import Release
from allbutone.releases.synthesizer import Synthesizer
from allbutone.reports.audit import Audit, audit
from allbutone.reports.findings import Finding
from allbutone.reports.report import Report, report
from allbutone.reports.risk import RiskTable, risk
from allbutone.reports.verdict import Verdict
from allbutone.support.errors import Caution, InputError
from allbutone.tables.records import Records, demo_cohort
from allbutone.tables.schema import Schema
from allbutone.utility.fidelity import Fidelity, fidelity
from allbutone.utility.normality import check_normality

__version__: str

__all__ = [
    "NIW",
    "Adversary",
    "Attack",
    "Audit",
    "Budget",
    "Caution",
    "Combined",
    "Fidelity",
    "Finding",
    "InputError",
    "Ledger",
    "Mechanism",
    "Moments",
    "Posterior",
    "Records",
    "Release",
    "Report",
    "RiskTable",
    "Rule",
    "Schema",
    "Synthesizer",
    "Verdict",
    "__version__",
    "attack",
    "audit",
    "budget",
    "check",
    "check_normality",
    "combine",
    "demo_cohort",
    "fidelity",
    "guarantee",
    "load_release",
    "plan_guarantee",
    "posterior",
    "privacy",
    "report",
    "risk",
    "save_release",
]
