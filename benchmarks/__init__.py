"""Benchmarks: what was compared, on what machine, and the ratio. Run with `make bench`."""
