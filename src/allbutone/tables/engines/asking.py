"""Asking an engine: one query, a small answer, and one clear line when there is none."""

import os
from collections.abc import Sequence
from typing import Any

import narwhals as nw

from allbutone.support.errors import InputError

SECRETS = ("PGPASSWORD",)  # where credentials may be in the environment: never to be shown
CURES = ("see that the table is there and that each of its columns holds values of one kind, and try again",)


def ask(frame: nw.LazyFrame[Any]) -> Any:
    """Run a query and return its answer, a small Arrow table; what the engine says against it becomes one line."""
    options: dict[str, Any] = {"engine": "streaming"} if frame.implementation.is_polars() else {}
    try:
        return frame.collect(**options).to_arrow()
    except Exception as error:  # whatever an engine raises: each has exceptions of its own
        raise refused(error, "the engine could not answer") from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # of polars, where a file changes under it
            raise
        raise refused(error, "the engine could not answer") from error


def names_in(frame: nw.LazyFrame[Any]) -> dict[str, Any]:
    """Return the names and kinds of all columns."""
    try:
        return dict(frame.collect_schema())
    except Exception as error:
        raise refused(error, "the columns of the table cannot be read") from error


def refused(error: BaseException, what: str, cures: Sequence[str] = CURES) -> InputError:
    """Put what an engine said into one line without credentials."""
    if isinstance(error, InputError):
        return error
    said = " ".join((str(error).strip().splitlines() or [type(error).__name__])[0].split())
    for name in SECRETS:
        if secret := os.environ.get(name):
            said = said.replace(secret, "…")
    return InputError(f"{what}: {said[:300]}", *cures)
