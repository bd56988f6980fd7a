"""Why printed numbers differ from ours: three causes, alone and together, tried as runs (docs/differences.md)."""
