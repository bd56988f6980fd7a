"""Readers that are installed only where they are wanted."""

from importlib import import_module
from typing import Any

from allbutone.support.errors import InputError


def reader(module: str, extra: str, name: str) -> Any:
    """Return the module that reads the file of this name, or say how to install it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise InputError(
            f"what reads {name} is not installed",
            f'install it: pip install "allbutone[{extra}]"',
            "save it as .csv",
        ) from error
