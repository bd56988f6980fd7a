"""A fair comparison with other tools on the same public tables: `make compare` writes docs/records/compare.md."""
