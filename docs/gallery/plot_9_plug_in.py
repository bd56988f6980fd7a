"""
Rows of a fitted normal give everyone away
==========================================

Tools that fit mean and covariance once and sample rows from the fit: the more rows, the closer somebody who has
all other records comes to the missing one, outlier or not. The dots are exact attacks on everyone in a
simulated table of 100 people.
"""

import numpy as np

import allbutone as abo
from allbutone.figures.risk import Marks, rows_figure
from allbutone.figures.style import BLUE

rng = np.random.default_rng(7)
people = rng.standard_normal((100, 5))
mean, covariance = people.mean(axis=0), np.cov(people.T, ddof=0)
counts, errors = [100, 1_000, 10_000, 100_000], []
for count in counts:
    rows = rng.multivariate_normal(mean, covariance, count)
    found = abo.audit(people, rows, "plug-in")
    errors.append(np.sqrt(np.mean(np.square(found["distance"])) / 5))
marks = Marks("exact attacks on a fitted normal", counts, errors, BLUE)
figure = rows_figure(100, 5, [marks], f"With {counts[-1]:,} rows everyone is found to {errors[-1]:.2f} deviations")
