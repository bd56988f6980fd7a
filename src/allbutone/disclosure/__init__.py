"""What the posterior means for each person: measures, exposure, budgets. Knows the adversary, shows nothing."""
