"""
Do the columns keep their shape
===============================

The density of each column in the table and in the synthetic datasets.
"""

import allbutone as abo
from allbutone.figures.shapes import density_figure
from allbutone.utility.shapes import densities

cohort = abo.demo_cohort()
release = abo.Synthesizer().fit(cohort).sample(datasets=5)
figure = density_figure(densities(cohort, release))
