from allbutone.adversary.leave_one_out import attack_all
from allbutone.adversary.one_target import Attack, attack, attack_many
from allbutone.adversary.who import Adversary
from allbutone.disclosure.audit import MechanismWarning, audit
from allbutone.disclosure.budget import Budget, budget, plan_budget
from allbutone.disclosure.budget_check import verify_budget
from allbutone.disclosure.engine_budget import EngineBudget, plan_engine_budget
from allbutone.disclosure.guarantee import Guarantee, guarantee
from allbutone.disclosure.guarantee_plan import GuaranteePlan, plan_guarantee
from allbutone.disclosure.guarantee_routes import (
    Certificate,
    certificate_for,
    expected_errors,
    prior_for,
    weight_for,
)
from allbutone.disclosure.mixed_budget import MixedBudget, plan_mixed_budget
from allbutone.disclosure.mixed_record import attack_mixed
from allbutone.disclosure.per_record import risk
from allbutone.disclosure.privacy_loss import privacy
from allbutone.disclosure.rule import Rule
from allbutone.integrals.posterior import PoorSampling, Posterior, posterior
from allbutone.integrals.several_missing import posterior_missing
from allbutone.model.distributions import Normal, StudentT
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.model.prior_check import PriorScaleWarning
from allbutone.model.prior_file import read_prior
from allbutone.releases.combining import Combined, combine, combine_means
from allbutone.releases.combining_tables import combine_proportions, combine_regression
from allbutone.releases.entropy import new_repeat_key
from allbutone.releases.folder import load_release, save_release
from allbutone.releases.hygiene.check import check_release
from allbutone.releases.hygiene.findings import Flaw, ReleaseCheck
from allbutone.releases.ledger.entries import Ledger
from allbutone.releases.ledger.file import ledger_path, read_ledger, record_release, void_release
from allbutone.releases.ledger.together import Together, with_earlier
from allbutone.releases.mixed.release import Release
from allbutone.releases.mixed.synthesizer import Synthesizer
from allbutone.releases.parts import without_columns
from allbutone.releases.private.release import PrivateRelease
from allbutone.releases.private.synthesizer import PrivateSynthesizer
from allbutone.releases.release import DatasetRelease, ParameterRelease
from allbutone.releases.statistics import ParameterStatistics
from allbutone.releases.synthesizer import NIWSynthesizer
from allbutone.reports.findings import Finding
from allbutone.reports.report import Report, report
from allbutone.reports.verdict import Verdict
from allbutone.support.errors import InputError
from allbutone.tables.declared.schema import Schema
from allbutone.tables.demo import demo_cohort
from allbutone.tables.records import Records, TableWarning
from allbutone.utility.fidelity import Fidelity, fidelity
from allbutone.utility.marginal_densities import Densities, densities
from allbutone.utility.normality import Fitness, Normality, check_normality

__version__: str

__all__ = [
    "NIW",
    "Adversary",
    "Attack",
    "Budget",
    "Certificate",
    "Combined",
    "DatasetRelease",
    "Densities",
    "EngineBudget",
    "Fidelity",
    "Finding",
    "Fitness",
    "Flaw",
    "Guarantee",
    "GuaranteePlan",
    "InputError",
    "Ledger",
    "MechanismWarning",
    "MixedBudget",
    "Moments",
    "NIWSynthesizer",
    "Normal",
    "Normality",
    "ParameterRelease",
    "ParameterStatistics",
    "PoorSampling",
    "Posterior",
    "PriorScaleWarning",
    "PrivateRelease",
    "PrivateSynthesizer",
    "Records",
    "Release",
    "ReleaseCheck",
    "Report",
    "Rule",
    "Schema",
    "StudentT",
    "Synthesizer",
    "TableWarning",
    "Together",
    "Verdict",
    "__version__",
    "attack",
    "attack_all",
    "attack_many",
    "attack_mixed",
    "audit",
    "budget",
    "certificate_for",
    "check_normality",
    "check_release",
    "combine",
    "combine_means",
    "combine_proportions",
    "combine_regression",
    "demo_cohort",
    "densities",
    "expected_errors",
    "fidelity",
    "guarantee",
    "ledger_path",
    "load_release",
    "new_repeat_key",
    "plan_budget",
    "plan_engine_budget",
    "plan_guarantee",
    "plan_mixed_budget",
    "posterior",
    "posterior_missing",
    "prior_for",
    "privacy",
    "read_ledger",
    "read_prior",
    "record_release",
    "report",
    "risk",
    "save_release",
    "verify_budget",
    "void_release",
    "weight_for",
    "with_earlier",
    "without_columns",
]
