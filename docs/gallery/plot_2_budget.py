"""
How much may be released
========================

The chance that a release discloses anybody, against the number of datasets in it, and where the budget ends.
"""

import allbutone as abo
from allbutone.figures.budget import budget_figure

cohort = abo.demo_cohort()
budget = abo.budget(cohort, abo.NIW.flat(5), rows=503)
figure = budget_figure(budget)

# %%
# The same in words:

print(budget.sentence)
