"""What was given cannot be used: the one exception that says so, with its cure, and common checks."""

import operator
import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Cure:
    """One way out: in words and, where an argument does it, that argument's name and the value to give it.

    The name is Python's (`drop`); the command line writes it as a flag, the app as the label of a control. With no
    value the user has to choose one.
    """

    words: str
    argument: str = ""
    value: Any = None

    def in_python(self) -> str:
        """Return the cure as someone who writes Python reads it."""
        if not self.argument:
            return self.words
        return f"{self.words} ({self.argument}={'…' if self.value is None else repr(self.value)})"


class InputError(ValueError):
    """Input that cannot be used: what is wrong, where, and the ways out, each apart.

    `problem` says what is wrong in a sentence without a full stop, `where` names the file, column or argument if
    the problem does not, `cures` are the ways out. The message is all of it as Python's users read it; the command
    line and the app word the cures in their own terms (`worded`). Nothing may depend on the text of a message.

    >>> import allbutone as abo
    >>> try:
    ...     abo.Synthesizer(model="log-normal")
    ... except abo.InputError as error:
    ...     print(error)
    the model is 'normal', 'general location' or 'classes', got 'log-normal'
    """

    def __init__(self, problem: str, *cures: Cure | str, where: str = "") -> None:
        self.problem: str = problem
        self.where: str = where
        self.cures: tuple[Cure, ...] = tuple(Cure(cure) if isinstance(cure, str) else cure for cure in cures)
        super().__init__(self.worded(Cure.in_python))

    def worded(self, say: Callable[[Cure], str]) -> str:
        """Return the whole, each cure in the words that `say` has for it: in one line, or a list as a list."""
        problem = f"{self.where}: {self.problem}" if self.where else self.problem
        if "\n" in problem:
            return "\n".join([problem, *(f"- {say(cure)}" for cure in self.cures)])
        return "; ".join([problem, *([", or ".join(map(say, self.cures))] if self.cures else [])])


class Caution(UserWarning):
    """A warning: the result stands, but something about the table, the prior, rows or draws should be known.

    >>> import warnings
    >>> import allbutone as abo
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", abo.Caution)  # stop where there is anything to know
    ...     abo.Synthesizer().fit(abo.demo_cohort()).sample().columns
    ('T2D', 'CAD', 'HT', 'BMI', 'HBA1C')
    """


def describe_value(value: object) -> str:
    """Say in one short line what came: a name or a number itself, anything larger by its type."""
    if isinstance(value, str | os.PathLike):
        return f"{value!r:.60}"
    if value is None or isinstance(value, int | float):
        return str(value)
    return f"a {type(value).__name__}"


def reason(error: OSError) -> str:
    """Return the operating system's own words; libraries wrap them in theirs."""
    return os.strerror(error.errno) if error.errno else str(error)


def optional_module(module: str, extra: str, what: str, *others: Cure | str) -> Any:
    """Return a module that not everybody has installed, or say that `what` needs it and which extra has it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        install = f'install it: pip install "allbutone[{extra}]"'
        raise InputError(f"{what} is not installed", install, *others) from error


# Checks that every floor may need: counts, and what fits into memory.


MOST_VALUES = 10**9  # numbers held in memory at once: 8 GB


def count_of(name: str, count: Any, most: int | None = None) -> int:
    """Return a count as an int, or say that it is not a whole number from 1 to `most`."""
    try:
        number = operator.index(count)
    except TypeError as error:
        raise InputError(f"{name} must be a whole number, got {describe_value(count)}") from error
    if number < 1:
        raise InputError(f"{name} must be at least 1, got {number}")
    if most is not None and number > most:
        raise InputError(f"{name} must be at most {most:,}, got {number}")
    return number


def require_memory(values: int) -> None:
    """Refuse to hold more than 10⁹ numbers in memory."""
    if values > MOST_VALUES:
        raise InputError(
            f"{values:,} numbers are more than the {MOST_VALUES:,} that are held in memory",
            "ask for fewer",
            "write datasets straight to a folder (allbutone synthesize)",
        )
