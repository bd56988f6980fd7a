"""Why printed numbers differ from ours: each plausible cause tried as a run (docs/differences.md)."""
