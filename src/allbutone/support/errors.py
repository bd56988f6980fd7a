"""The one exception that means: what you gave me cannot be used, and here is the cure."""

import os


class InputError(ValueError):
    """Input that cannot be used; the message names the place, the value and the cure, in one line."""


def given(value: object) -> str:
    """Say in one short line what came: a name or a number itself, anything larger by its type."""
    if isinstance(value, str | os.PathLike):
        return f"{value!r:.60}"
    if value is None or isinstance(value, int | float):
        return str(value)
    return f"a {type(value).__name__}"


def reason(error: OSError) -> str:
    """Return the operating system's own words; libraries wrap them in theirs."""
    return os.strerror(error.errno) if error.errno else str(error)
