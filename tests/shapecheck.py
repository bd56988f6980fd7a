"""Beartype as the tests use it: an int is a float, as everywhere in Python's type hints."""

from beartype import BeartypeConf, beartype

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
