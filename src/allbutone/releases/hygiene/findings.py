"""What was found in a release that may not go out, where, and what to do about it."""

from collections.abc import Iterable
from dataclasses import dataclass

from allbutone.support.errors import InputError
from allbutone.support.text import counted

AS_WRITTEN = "release the files as allbutone wrote them, or draw the release again"


@dataclass(frozen=True)
class Flaw:
    """One thing that may not be released: the file it is in, what is wrong, and the cure."""

    where: str
    problem: str
    cure: str = AS_WRITTEN

    def __str__(self) -> str:
        """Return it as one line."""
        return f"{self.where}: {self.problem}; {self.cure}"


@dataclass(frozen=True)
class ReleaseCheck:
    """What `check_release` found.

    findings: all that may not be released; none where the release is clean. checked: what was looked at, in words.
    notes: what is no fault, but worth a thought.
    """

    findings: tuple[Flaw, ...]
    checked: str
    notes: tuple[str, ...] = ()

    @property
    def is_clean(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    @property
    def verdict(self) -> str:
        """The answer in a sentence."""
        if self.is_clean:
            return "Clean: it holds only what may be released."
        return f"Not to be released as it is: {counted(len(self.findings), 'thing')} found."

    def __str__(self) -> str:
        """Return the answer and all that was found, a line each."""
        return "\n".join([self.verdict, *(f"- {each}" for each in self.findings)])

    def require_clean(self) -> None:
        """Refuse a release in which something was found."""
        if self.findings:
            first = self.findings[0]
            more = f" ({counted(len(self.findings) - 1, 'more thing')})" if len(self.findings) > 1 else ""
            raise InputError(f"{first.problem}{more}", first.cure, where=first.where)


def merged(findings: Iterable[Flaw]) -> tuple[Flaw, ...]:
    """Say once what is wrong in the same way with several files."""
    places: dict[tuple[str, str], list[str]] = {}
    for each in findings:
        places.setdefault((each.problem, each.cure), []).append(each.where)
    found = []
    for (problem, cure), where in places.items():
        names = list(dict.fromkeys(where))
        found.append(Flaw(names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else ""), problem, cure))
    return tuple(found)
