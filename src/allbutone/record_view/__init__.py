"""One record looked at closely: marginals, landscapes, measures. Knows the adversary and disclosure."""
