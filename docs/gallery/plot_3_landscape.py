"""
What the adversary believes of one person
=========================================

The posterior of the missing record in two columns, the other three held at the best guess. The person stands
out most in the simulated cohort; twenty datasets were released.
"""

import allbutone as abo
from allbutone.disclosure.record_view import of_record, view_attack
from allbutone.figures.attack_view import view_figure

cohort = abo.demo_cohort()
release = abo.Synthesizer().fit(cohort).sample(datasets=20)
attack = of_record(cohort, 212, release)
figure = view_figure(view_attack(attack, 20, shown=(0, 3)), cohort.columns)
