"""
How far the guess travels as more is released
=============================================

Exposure is 0 where the adversary guesses the middle of the others and 1 where they guess the record itself. The
dots are attacks on this very release as it grows; the line is what the closed form expects, the band holds nine
of ten releases.
"""

import allbutone as abo
from allbutone.disclosure.record_view import exposure_curve, of_record
from allbutone.figures.attack_view import exposure_curve_figure

cohort = abo.demo_cohort()
release = abo.Synthesizer().fit(cohort).sample(datasets=100)
figure = exposure_curve_figure(exposure_curve(of_record(cohort, 212, release)), 20, "dataset")
