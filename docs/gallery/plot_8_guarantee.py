"""
What a guarantee costs
======================

Expected errors of a release with differential privacy, by ε and by the way it is reached. Only what is public
goes in: limits, centres, spreads, the number of people.
"""

import allbutone as abo
from allbutone.figures.budget import guarantee_figure

registry = {
    "columns": {
        "sbp": {"low": 60, "high": 260, "centre": 128, "spread": 17},
        "bmi": {"low": 10, "high": 80, "centre": 26, "spread": 4.5},
    }
}
figure = guarantee_figure(abo.plan_guarantee(registry, people=2000))
