"""Conjugate models: updated by records, they predict the next one. Knows tables only as records."""
