"""Who attacks: what the adversary knows of the target, and what they lack."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from allbutone.model.prior_file import AnyPrior
from allbutone.support.checks import count_of
from allbutone.support.errors import Cure, InputError, describe_value
from allbutone.tables.names import split_names


@dataclass(frozen=True)
class Adversary:
    """Who attacks: usually somebody who has every record but the target's, and the mechanism's own prior.

    known: columns of the target that they know, too. lacking_columns: columns that they have of nobody.
    lacking_records: records that they lack besides the target, so many chosen at random or rows (from 1);
    all that are missing are inferred together. prior: what they believe of measurements before any record, where
    it is not the mechanism's: a prior, a prior file or its entries.

    >>> import allbutone as abo
    >>> abo.Adversary(known=["age", "sex"]).is_usual
    False
    """

    known: Sequence[str] = ()
    lacking_columns: Sequence[str] = ()
    lacking_records: int | Sequence[int] = 0
    prior: AnyPrior | None = None

    def __post_init__(self) -> None:
        """Take names in a list, or one alone, and rows in a list; refuse what is neither."""
        for name in ("known", "lacking_columns"):
            object.__setattr__(self, name, _names(name, getattr(self, name)))
        object.__setattr__(self, "lacking_records", _lacking(self.lacking_records))

    @property
    def is_usual(self) -> bool:
        """Whether they know no more and no less than the paper's adversary."""
        return not (self.known or self.lacking_columns or self.lacks_records) and self.prior is None

    @property
    def lacks_records(self) -> bool:
        """Whether any record is lacking besides the target."""
        return self.lacking_records not in (0, ())

    def of(self, columns: Sequence[str]) -> "Adversary":
        """Return the adversary on a table of these columns; names that came in one text are taken apart."""
        known, lacking = (
            tuple(dict.fromkeys(split_names(names, set(columns)))) for names in (self.known, self.lacking_columns)
        )
        for names, use in ((known, "know"), (lacking, "lack")):
            if absent := [name for name in names if name not in columns]:
                raise InputError(
                    f"there is no column {absent[0]!r} to {use}", f"the columns are {', '.join(columns)}"
                )
        if both := [name for name in known if name in lacking]:
            raise InputError(
                f"the adversary cannot know {both[0]!r} of the target and have it of nobody",
                Cure("leave it out of what is known", "known"),
                Cure("leave it out of what is lacking", "lacking_columns"),
            )
        if len(known) == len(columns):
            raise InputError("the adversary knows everything", Cure("leave something unknown", "known"))
        if len(lacking) == len(columns):
            raise InputError("the adversary lacks every column", Cure("leave one out", "lacking_columns"))
        return replace(self, known=known, lacking_columns=lacking)


def _names(what: str, given: Any) -> tuple[str, ...]:
    """Return names as they were given, each a text of its own."""
    if isinstance(given, str):
        return (given,)
    if not isinstance(given, Sequence) or not all(isinstance(name, str) for name in given):
        raise InputError(f"{what} must be names of columns, got {describe_value(given)}", "give them in a list")
    return tuple(given)


def _lacking(given: Any) -> int | tuple[int, ...]:
    """Return how many records are lacking, or their rows."""
    if isinstance(given, Sequence) and not isinstance(given, str):
        return tuple(sorted({count_of("a row of lacking_records", row) for row in given}))
    return 0 if isinstance(given, int | np.integer) and given == 0 else count_of("lacking_records", given)


USUAL = Adversary()
