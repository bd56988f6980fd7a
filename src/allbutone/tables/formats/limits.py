"""How large a table may be: decided before it is read, since a small file can hold a very large one."""

from dataclasses import dataclass

from allbutone.support.errors import InputError


@dataclass(frozen=True)
class Limits:
    """The most that is read of a file: columns, values (rows × columns), and bytes in memory."""

    columns: int
    values: int
    bytes: int

    def require(self, name: str, columns: int, values: int, size: int) -> None:
        """Refuse a table larger than this; `name` says which."""
        if columns > self.columns:
            raise InputError(
                f"{name} has {columns:,} columns, and at most {self.columns:,} are read",
                "write the columns you need to a file of their own",
            )
        if values > self.values:
            raise InputError(
                f"{name} holds {values:,} values, and at most {self.values:,} are read",
                "write fewer rows or columns to a file of their own",
            )
        if size > self.bytes:
            raise InputError(
                f"{name} would take {size / 1e9:,.1f} GB of memory; {self.bytes / 1e9:,.1f} GB is the most",
                "write the columns you need, as numbers, to a file of their own",
            )


# The model keeps several matrices of p × p numbers: at 5,000 columns each takes 200 MB and a minute to factor.
# 200 million values are 10 million people with 20 columns: 1.6 GB as a matrix, and as much again while being read.
LIMITS = Limits(columns=5_000, values=200_000_000, bytes=4_000_000_000)
