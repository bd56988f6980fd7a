"""Inputs that nobody should send: valid files of every kind, spoiled; `python -m fuzz` counts what goes wrong."""
