"""
Privacy loss of each record
===========================

The exact ε of every record for five draws of the parameters, at δ = 10⁻⁶. It is computed from the confidential
data, so it is confidential, and no guarantee.
"""

import numpy as np

import allbutone as abo
from allbutone.figures.risk import epsilon_figure

cohort = abo.demo_cohort()
loss = abo.privacy(cohort, abo.NIW.flat(5), draws=5)
figure = epsilon_figure(np.asarray(loss["epsilon"]), np.asarray(loss["row"]))
