"""Results in, pictures out; computes only where to put the ink. Knows results, not where they are shown."""
