"""The board's page: what those who decide read and sign, on one sheet; every other front end shows the same."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import numpy as np

from allbutone.disclosure.derived_risk import not_judged
from allbutone.disclosure.rule import Rule, ToldValues
from allbutone.releases.ledger import Ledger
from allbutone.releases.ledger_file import Entry, digest_of_release
from allbutone.reports.assessment import Assessment
from allbutone.reports.findings import KEEP_IT, Finding, budget_words, next_steps
from allbutone.reports.guaranteed import GuaranteedCase
from allbutone.reports.verdict import NAMED, Verdict
from allbutone.support.text import counted, joined, listed

STEPS = 5  # ways that the page names; the annex has all
FULL = 3100  # characters that fit a sheet of A4 or Letter in letters of the usual size
SMALLEST = 0.68  # of the usual size
SIGNATURES = ("For the data holder", "For the board")
DECISIONS = ("to be given out", "not to be given out", "to be changed, and judged again")


@dataclass(frozen=True)
class Origin:
    """Where a page comes from: the names of table and release, the release's digest, and its ledger.

    digest: of the release's files, as its ledger has it. entry: that of the release, where it has one; ledger: the
    name of its file, "" where none was looked at.
    """

    table: str = ""
    folder: str = ""
    digest: str = ""
    ledger: str = ""
    entry: Entry | None = None

    @classmethod
    def of(cls, table: object, folder: object, ledger: Ledger | None = None) -> "Origin":
        """Return the origin of a table and a release that lie in files; what does not has no name."""
        name = Path(table).name if isinstance(table, str | Path) else ""
        if not isinstance(folder, str | Path):
            return cls(name)
        known = (ledger.path.name, ledger.entry_of(folder)) if ledger else ("", None)
        return cls(name, Path(folder).name, digest_of_release(Path(folder)), *known)


@dataclass(frozen=True)
class BoardPage:
    """Page 1: five answers, what they leave open, where they come from, and lines to sign.

    what: what is to be given out, of what. who, sure, more, steps: the answers after the verdict's. attention:
    findings that stand against it; open: what could not be computed. facts: table, release, ledger, limits, date.
    """

    verdict: Verdict
    what: str
    who: tuple[str, ...]
    sure: tuple[str, ...]
    more: tuple[str, ...]
    steps: tuple[str, ...]
    attention: tuple[Finding, ...]
    open: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    note: str = ""
    guaranteed: bool = False
    decisions: tuple[str, ...] = DECISIONS
    signatures: tuple[str, ...] = SIGNATURES

    @property
    def size(self) -> float:
        """How large its letters are, of the usual size, so that one sheet holds all of it."""
        return float(np.clip(np.sqrt(FULL / self.length), SMALLEST, 1.0))

    @property
    def length(self) -> int:
        """How many characters it has, about; what begins a line takes half of one."""
        texts = [self.verdict.headline, self.verdict.remark, self.verdict.rule_words, self.what, self.note]
        parts = [*self.who, *self.sure, *self.more, *self.steps, *self.open]
        facts = [words for _, words in self.facts] + [each.words for each in self.attention]
        return sum(len(each) + 50 for each in [*texts, *parts, *facts])


def board_page(case: Assessment | GuaranteedCase, origin: Origin | None = None, note: str = "") -> BoardPage:
    """Answer what a board asks of a release: may it go out, who, how sure, how much more, what next."""
    verdict, origin = case.verdict, origin or Origin()
    more, steps = _of_guarantee(case) if isinstance(case, GuaranteedCase) else _of_budget(case)
    left = len(steps) - STEPS
    return BoardPage(
        verdict=verdict,
        what=f"{released_words(case)} from {case.source}.",
        who=tuple(filter(None, [_most_exposed(verdict), _membership(verdict)])),
        sure=(verdict.how_sure,),
        more=more,
        steps=(*steps[:STEPS], *([f"{counted(left, 'other way')}: see the annex."] if left > 0 else ())),
        attention=tuple(each for each in case.findings if each.against),
        open=tuple(open_questions(case, bool(origin.ledger))),
        facts=tuple(_facts(case, origin)),
        note=note,
        guaranteed=isinstance(case, GuaranteedCase),
    )


def released_words(case: Assessment | GuaranteedCase) -> str:
    """Say what is to be given out: how many datasets or draws, of which columns, and how they were made."""
    release = case.release
    sizes = sorted(set(release.rows))
    rows = " to ".join(f"{size:,}" for size in dict.fromkeys(sizes[:1] + sizes[-1:]))
    many = counted(release.count, "synthetic dataset" if release.tables else "draw")
    noun = f"row{'s' * (rows != '1')}" if release.schema.visits is None else "people"
    what = f"{many} of {rows} {noun}" if release.tables else f"{many} of the model’s parameters"
    names = release.released_order
    guaranteed = " with a guarantee" * (release.noisy is not None)
    return f"{what}, {counted(len(names), 'column')} ({listed(names, NAMED)}), made{guaranteed}"


def _most_exposed(verdict: Verdict) -> str:
    """Say who they are, or who comes closest."""
    if not verdict.passed:
        return verdict.who
    return f"Nobody. The person who comes closest is {verdict.nearest.person} ({verdict.nearest.column})."


def _membership(verdict: Verdict) -> str:
    told = verdict.membership or "not judged."
    return f"That a person is in the table (membership): {told[0].lower()}{told[1:]}"


def _of_budget(case: Assessment) -> tuple[tuple[str, ...], list[str]]:
    """Return how much more may be given out, and what to do next, of a release without a guarantee."""
    more = [budget_words(case.budget, case.count, case.earlier_count)]
    if case.judged and case.judged.counted:
        more.append(f"Judged together with what went out earlier: {_numbers(case.judged.counted)} of the ledger.")
    if case.judged and case.judged.attempts:
        said = f"Drawn before it, judged and not given out: {_numbers(case.judged.attempts)} of the ledger."
        more.append(f"{said} {case.selection.in_words}" if case.selection else said)
    return tuple(more), next_steps(case.verdict, case.remedies, case.earlier_count)


def _of_guarantee(case: GuaranteedCase) -> tuple[tuple[str, ...], list[str]]:
    """Return the same of a release with a guarantee, which has no budget but ε."""
    noisy = case.noisy
    more = [
        f"Any number of datasets from the same noisy moments, at no further cost. The guarantee of ε = "
        f"{noisy.epsilon:.3g} at δ = {noisy.delta:g} was paid for once; noise drawn again is paid for again.",
        case.left,
    ]
    if case.verdict.may_go_out:
        return tuple(filter(None, more)), [
            "This release may be given out; with it public.html, made of the release alone.",
            "Before noise is drawn again of this table, ask its ledger how much is left.",
        ]
    return tuple(filter(None, more)), [
        KEEP_IT,
        "Make it again with a smaller ε, or with narrower limits for who is far out, decided without the table.",
    ]


def _numbers(entries: Sequence[Entry]) -> str:
    noun = "release" if len(entries) == 1 else "releases"
    return f"{noun} {listed([f'{entry.number:,}' for entry in entries])}"


def open_questions(case: Assessment | GuaranteedCase, ledger: bool) -> list[str]:
    """Say what could not be computed, or was not looked at; ledger: whether one was."""
    told, schema = ToldValues.of(case.risk, case.rule), case.records.schema
    unknown = int(np.sum(np.isnan(told.after) & told.disclosed))
    are = f"{counted(unknown, 'value')} could not be computed, and {'counts' if unknown == 1 else 'count'}"
    public = [column.name for column in schema.columns if not column.secret]
    said = [
        f"{are} as disclosed." * bool(unknown),
        f"Not judged, as public of people anyway: {listed(public, NAMED)}." * bool(public),
        not_judged(schema, case.risk),
        "" if ledger else "No ledger was looked at: what was given out of the table earlier is not counted in.",
    ]
    return [*filter(None, said), *(_left_open(case) if isinstance(case, Assessment) else ())]


def _left_open(case: Assessment) -> list[str]:
    """Say what this kind of table or release leaves open."""
    judged, datasets = case.judged, bool(case.release.tables)
    said = []
    if case.leaves_people_out:
        rows = "that lack a value" if case.records.left_out else "that were left out"
        said.append(f"Rows {rows} have no part in it: nothing is said of these people.")
    if case.records.has_gaps:
        said.append("Of a value that is missing nothing is judged: there is nothing to find.")
    if case.standing is not None:
        said.append(f"{counted(case.standing.others, 'record')} that stand out less were not attacked.")
        said.append("Joint normality, ε, and spreads in natural units: the records stay where they are.")
    if judged is not None and judged.left_out:
        lost = _numbers([entry for entry, _ in judged.left_out])
        said.append(f"Not counted in: {lost} of the ledger, which could not be read; with it more may be known.")
    if case.fidelity is None:
        why = "datasets of one row have no spread" if datasets else "parameters were released, not datasets"
        said.append(f"How like the real data it is: {why}.")
    if case.normality is None and case.class_fit is None:
        said.append("Whether the measurements of each cell are normal.")
    return said


def limits_words(rule: Rule) -> str:
    """Say at which probabilities something counts as disclosed, and who set them: nobody, or the data holder."""
    usual = Rule()
    own = [name.replace("_", " ") for name, default in asdict(usual).items() if getattr(rule, name) != default]
    odds = "" if rule.membership_odds == 1 else f", from odds of {rule.membership_odds:g} to 1"
    limits = f"{100 * rule.probability:g} % for a value, {100 * rule.membership:g} % for membership{odds}"
    return f"{limits}: {joined(own)} set by the data holder" if own else f"{limits}: the program’s defaults"


def _facts(case: Assessment | GuaranteedCase, origin: Origin) -> list[tuple[str, str]]:
    """Return where the page comes from, so that it can be found again and compared."""
    now, entry = datetime.now(UTC), origin.entry
    release = " · ".join(filter(None, [origin.folder, origin.digest and f"digest {origin.digest}"]))
    if entry:
        recorded = f"entry {entry.number} of {origin.ledger}, {entry.date.day} {entry.date:%B %Y}, the same digest"
    else:
        recorded = f"not recorded in {origin.ledger}" if origin.ledger else "none was looked at"
    tolerances = [column.name for column in case.records.schema.columns if column.tolerance is not None]
    declared = f"declared for {listed(tolerances, NAMED)}, " if tolerances else ""
    return [
        ("Table", f"{origin.table or 'not a file'}, {case.people:,} people"),
        ("Release", release or "not in a folder"),
        ("Ledger", recorded),
        ("Limits", f"{limits_words(case.rule)}; tolerances: {declared}a quarter of an SD by default"),
        ("Written", f"{now.day} {now:%B %Y, %H:%M} UTC by allbutone {version('allbutone')}"),
    ]
