"""Figures of tables with categories, drawn from the general location model."""

import numpy as np

import allbutone as abo
import location
from allbutone.figures.shapes import association_figure, share_figure

# names that are templates or too long; those with markup do not pass the gate
NAMES = (
    ("age & more %{x}", "body mass index at the first visit, rounded"),
    ("sex %{y}", "an event of any kind whatsoever before the end", "stage"),
    (("f", "m & %{z}"), ("no" * 20, "yes"), ("1", "2", "x" * 50)),
)


def compared(datasets, names=(), seed=1):
    rng = np.random.default_rng(seed)
    real = location.population_table(rng, 200)
    tables = location.synthetic(rng, *real, [200] * datasets)
    return abo.fidelity(location.records(*real, *names), location.release_of(tables, *names))


def mixed(datasets, names=()):
    found = compared(datasets, names)
    return share_figure(found), association_figure(found)
