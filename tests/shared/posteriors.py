"""Posteriors of a missing record, alone, in a batch, and of one feature with wells where one wants them."""

from dataclasses import replace

import numpy as np

import allbutone as abo
from allbutone.adversary.attack import describe
from allbutone.adversary.build import from_statistics, log_posterior
from allbutone.adversary.log_quadratic import LogQuadratic
from allbutone.adversary.missing import sampled_posterior
from allbutone.adversary.modes import find_modes
from allbutone.adversary.who import admit
from allbutone.disclosure.exposure_law import ExposureLaw
from allbutone.disclosure.simulation import SimulatedReleases
from targets import make

KINDS = ["parameters", "datasets"]


def who(known=None, adversary_prior=None, **further):
    """Keywords of an attack by an adversary who knows, or believes, this."""
    return {"adversary": abo.Adversary(known=known, prior=adversary_prior), **further}


def attack_statistics(others, released):
    """Attack many targets of many tables at once, from sufficient statistics."""
    problem = from_statistics(others, released)
    return describe(problem, find_modes(problem))


def sampled(others, release, prior, missing, rng, own=None, reading="record", **length):
    """The posterior when `missing` records are, by sampling even where there is but one."""
    given = admit(others, release, abo.Adversary(prior=own), prior, reading)
    return sampled_posterior(*given, missing, rng, **{"chains": 32, "sweeps": 200, "warm_up": 50} | length)


def posterior_of(seed, kind, releases=6, p=3):
    target = make(np.random.default_rng(seed), kind, p, 25, releases, outlying=8.0)
    return log_posterior(target.others, target.release, prior=target.prior)


def many(kind, replicates=40, p=3, count=8, leverage=2.0, people=60):
    """A batch of posteriors of releases of the same size."""
    law = ExposureLaw.of(abo.NIW.default(p), people, None if kind == "parameters" else 20)
    return SimulatedReleases.of(law, count, replicates, np.random.default_rng(5)).problem(leverage)[0]


def single(posterior, row):
    """Return one of a batch of posteriors, without its axis."""
    own = {
        name: np.asarray(getattr(posterior, name))
        for name in ("centre", "root", "precision", "pull", "levels", "slopes", "shapes")
    }
    axes = {"centre": 1, "root": 2, "precision": 2, "pull": 1, "levels": 1, "slopes": 2, "shapes": 3}
    return replace(
        posterior, **{name: array[row] if array.ndim > axes[name] else array for name, array in own.items()}
    )


def wells(places, weights, widths, df=9.0, own_well=False, outward=0.0):
    """A posterior of one feature: outward·log(1 + v²/2) − Σ w·log(width² + (v − place)²), halved."""
    places, weights, widths = (np.atleast_1d(np.asarray(each, dtype=float)) for each in (places, weights, widths))
    count, one = len(places), np.eye(1)
    return LogQuadratic(
        np.zeros(1), one, df, outward, 0.5, 0 * one, np.zeros(1), weights, places**2 + widths**2,
        places[:, None], np.ones((count, 1, 1)), own_well,
    )  # fmt: skip


def well_at(place, df):
    return wells(place, 3.0, 1.0, df)
