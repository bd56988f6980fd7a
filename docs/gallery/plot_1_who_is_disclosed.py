"""
Whose value is disclosed
========================

Twenty synthetic datasets of a simulated cohort are attacked by somebody who has all records but one. Each dot
is a person in their riskiest value: how sure the adversary was without the release, and how sure with it.
"""

import numpy as np

import allbutone as abo
from allbutone.figures.risk import disclosure_figure

cohort = abo.demo_cohort()
release = abo.Synthesizer().fit(cohort).sample(datasets=20)
found = abo.risk(cohort, release, mass=False)
figure = disclosure_figure({name: np.asarray(found[name]) for name in found.column_names}, abo.Rule())

# %%
# The verdict is in the table as well, a row for each person.

found.sort_by([("risk", "descending")]).select(["row", "disclosed", "risk", "riskiest"]).slice(0, 3).to_pylist()
