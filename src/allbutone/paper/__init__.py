"""The paper made again: its designs, its study, its own two methods, its figures, tables and printed numbers."""
