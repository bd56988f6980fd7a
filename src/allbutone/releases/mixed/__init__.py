"""Releases of mixed tables: measurements, categories, columns that are kept as they are, and gaps."""
