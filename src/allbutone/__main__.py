"""Runs the command line as `python -m allbutone`."""

from allbutone.cli.main import main

main()
