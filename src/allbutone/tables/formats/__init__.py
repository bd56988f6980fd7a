"""Kinds of files that tables come in, each read within limits. Knows only `support`."""
