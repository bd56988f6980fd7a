"""Synthetic continuous data, with what each person in it stands to lose."""

from importlib.metadata import version

from allbutone.adversary import ParameterStatistics
from allbutone.attack import Attack, attack, attack_many
from allbutone.budget import Budget, budget, plan_budget
from allbutone.cohort import demo_cohort
from allbutone.distributions import Normal, StudentT
from allbutone.errors import InputError
from allbutone.everyone import attack_all
from allbutone.folder import load_release, save_release
from allbutone.missing import posterior_missing
from allbutone.moments import Moments
from allbutone.niw import NIW
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
    "DatasetRelease",
    "InputError",
    "Moments",
    "NIWSynthesizer",
    "Normal",
    "ParameterRelease",
    "ParameterStatistics",
    "PoorSampling",
    "Posterior",
    "PriorScaleWarning",
    "Records",
    "StudentT",
    "__version__",
    "attack",
    "attack_all",
    "attack_many",
    "budget",
    "demo_cohort",
    "load_release",
    "plan_budget",
    "posterior",
    "posterior_missing",
    "read_prior",
    "risk",
    "save_release",
    "verify_budget",
]
