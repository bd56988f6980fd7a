"""Real against synthetic tables; is the model fit to be used at all? Knows releases, not the adversary."""
