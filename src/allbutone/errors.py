"""The one exception that means: what you gave me cannot be used, and here is the cure."""

import os


class InputError(ValueError):
    """Input that cannot be used; the message names the place, the value and the cure, in one line."""


def reason(error: OSError) -> str:
    """Return the operating system's own words; libraries wrap them in theirs."""
    return os.strerror(error.errno) if error.errno else str(error)
