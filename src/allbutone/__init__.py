"""Synthetic continuous data, with what each person in it stands to lose."""

from importlib.metadata import version

from allbutone.adversary import ParameterStatistics
from allbutone.attack import Attack, attack, attack_many
from allbutone.budget import Budget, budget, plan_budget
from allbutone.cohort import demo_cohort
from allbutone.combine import Combined, combine, combine_means
from allbutone.densities import Densities, densities
from allbutone.distributions import Normal, StudentT
from allbutone.errors import InputError
from allbutone.everyone import attack_all
from allbutone.fidelity import Fidelity, fidelity
from allbutone.folder import load_release, save_release
from allbutone.missing import posterior_missing
from allbutone.moments import Moments
from allbutone.niw import NIW
from allbutone.normality import Normality, Verdict, check_normality
from allbutone.posterior import PoorSampling, Posterior, posterior
from allbutone.prior import PriorScaleWarning, read_prior
from allbutone.records import Records
from allbutone.release import DatasetRelease, ParameterRelease
from allbutone.risk import risk
from allbutone.synthesizer import NIWSynthesizer
from allbutone.verify import verify_budget

__version__ = version("allbutone")

__all__ = [
    "NIW",
    "Attack",
    "Budget",
    "Combined",
    "DatasetRelease",
    "Densities",
    "Fidelity",
    "InputError",
    "Moments",
    "NIWSynthesizer",
    "Normal",
    "Normality",
    "ParameterRelease",
    "ParameterStatistics",
    "PoorSampling",
    "Posterior",
    "PriorScaleWarning",
    "Records",
    "StudentT",
    "Verdict",
    "__version__",
    "attack",
    "attack_all",
    "attack_many",
    "budget",
    "check_normality",
    "combine",
    "combine_means",
    "demo_cohort",
    "densities",
    "fidelity",
    "load_release",
    "plan_budget",
    "posterior",
    "posterior_missing",
    "read_prior",
    "risk",
    "save_release",
    "verify_budget",
]
