"""Runs the command line as `python -m allbutone`."""

from allbutone.cli import main

main()
