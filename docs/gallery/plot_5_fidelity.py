"""
Do the correlations survive
===========================

Each pair of columns: its correlation in the table, and in the synthetic datasets.
"""

import allbutone as abo
from allbutone.figures.fidelity import correlation_figure

cohort = abo.demo_cohort()
release = abo.Synthesizer().fit(cohort).sample(datasets=5)
figure = correlation_figure(abo.fidelity(cohort, release))
