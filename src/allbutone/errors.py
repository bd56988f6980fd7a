"""The one exception that means: what you gave me cannot be used, and here is the cure."""


class InputError(ValueError):
    """Input that cannot be used; the message names the place, the value and the cure, in one line."""
