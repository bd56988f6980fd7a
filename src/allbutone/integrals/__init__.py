"""The posterior of a missing record in numbers: totals, masses, draws. Knows the adversary, not what is risky."""
