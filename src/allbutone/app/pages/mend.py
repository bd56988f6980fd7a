"""Mend, the second step: all that stands in a table's way, each with what would help, and what is declared."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import narwhals as nw
from starlette.datastructures import QueryParams

from allbutone.app import forms
from allbutone.app.jobs import Answer, Download, Progress
from allbutone.app.page import Page, RequestContext, Source, piece
from allbutone.app.pages import columns as declared
from allbutone.app.pages import guaranteed, source
from allbutone.app.pages.forecast import CARRIED, CHIP_IF_KNOWN, normality_of
from allbutone.app.pages.upload import about
from allbutone.figures.shapes import distance_qq_figure, qq_figure
from allbutone.releases.mechanism import CLASSES
from allbutone.reports.findings import model_finding
from allbutone.support.errors import Cure, InputError
from allbutone.support.text import joined, listed
from allbutone.tables.admission import AS_VISITS, ColumnsError, Problem, refusal
from allbutone.tables.column import CATEGORY, DERIVED, LEFT_OUT, Column
from allbutone.tables.described import described
from allbutone.tables.formats import labels_in
from allbutone.tables.long_tables import SeenRows, coded, require_person_and_visit
from allbutone.tables.look import AS_CATEGORY, DAYS, MANY_GAPS, Look, draft, left_out_because, table_file
from allbutone.tables.names import looks_like_identifier
from allbutone.tables.safe_io import parse
from allbutone.tables.schema import Schema
from allbutone.tables.visits import KEYS

NAMED = 6  # columns that a line names

Fields = dict[str, str | list[str]]


@dataclass(frozen=True)
class Button:
    """What one click does: the fields that it sets."""

    label: str
    fields: Fields


@dataclass(frozen=True)
class Line:
    """One thing that stands in the way, is proposed, or was chosen, and what can be done about it."""

    words: str
    buttons: tuple[Button, ...] = ()
    note: str = ""


@dataclass(frozen=True, eq=False)
class Mending:
    """A table that is not ready: what is declared of it, how an address reads it, and what can be changed."""

    query: QueryParams
    held: Any
    asked: Mapping[str, Any]
    said: declared.Declaration

    @classmethod
    def of(cls, query: QueryParams, context: RequestContext) -> "Mending":
        """Read an address."""
        held, asked = source.table_of(query, context), forms.read(source.SOURCE_GROUPS, query)
        return cls(query, held, asked, declared.declaration(query, held, asked))

    @property
    def ticked(self) -> list[str]:
        """The columns that are used."""
        return self.query.getlist(source.COLUMNS) or list(self.held.value.names)

    @property
    def rows(self) -> int:
        """How many the table has."""
        return self.held.value.content.num_rows

    @cached_property
    def seen(self) -> SeenRows | None:
        """Whose row is which, where people have several."""
        visits = self.said.schema.visits
        return (
            None
            if visits is None
            else SeenRows.of(nw.from_native(self.held.value.content, eager_only=True), visits)
        )

    def look(self, name: str) -> Look:
        """Return what a column looks like; of one at a visit, what it looks like at all of them."""
        return self.said.looks[self.held.value.names.index(self.said.schema.of_file(name))]

    def lacking(self, name: str) -> int:
        """Return how many people have no value of a column of their record."""
        if self.seen is None:
            return self.look(name).missing
        column = self.said.schema.of_file(name)
        series = nw.from_native(self.held.value.content.column(column), series_only=True)
        codes, _ = coded(series, self.said.schema.column(column).missing)
        return self.seen.lacking(name, codes >= 0)

    def shown(self, name: str) -> str:
        """Return what a column is called: crp at month 6."""
        return self.said.schema.told_as(name) if name.strip() else "(no name)"

    def without(self, names: Iterable[str]) -> Fields:
        """Return the ticks without some columns, at whatever visit these are."""
        gone = {self.said.schema.of_file(name) for name in names}
        return {source.COLUMNS: [name for name in self.ticked if name not in gone] or [""]}

    def lines(self, error: InputError) -> list[Line]:
        """Return all that stands in the way, as an error has it."""
        if not isinstance(error, ColumnsError):
            if any(cure.argument == "rows_are_people" for cure in error.cures):
                error = _undrafted(self.held) or error  # which says why these are no visits
            cures = [cure if isinstance(cure, Cure) else Cure(cure) for cure in error.cures]
            buttons = [button for cure in cures for button in self._of_cure(cure)]
            several = any(cure.argument == "rows_are_people" for cure in cures)
            visits = self._of_visits() if several else []
            buttons = [*visits, *buttons]
            rest = [cure.words for cure in cures if not self._of_cure(cure)]
            rest = [
                _AT_VISITS if words == AS_VISITS else words for words in rest if words != AS_VISITS or not visits
            ]
            where = f"{error.where}: " if error.where else ""
            return [Line(f"{where}{error.problem}.", tuple(buttons), ", or ".join(rest))]
        gaps = [problem for problem in error.problems if problem.is_gap]
        unknown = [problem for problem in error.problems if source.CENTRE_AND_SPREAD in problem.cures]
        others = [problem for problem in error.problems if not problem.is_gap and problem not in unknown]
        found = [self._of_column(problem) for problem in others]
        alone = [problem for problem, line in zip(others, found, strict=True) if len(line.buttons) == 1]
        if len(alone) > 1:  # all that can only be left out goes by one click
            found = [line for line in found if len(line.buttons) > 1]
            words = "; ".join(f"{self.shown(problem.column)} {problem.words}" for problem in alone)
            every = [*dict.fromkeys(self.said.schema.of_file(problem.column) for problem in alone)]
            button = Button(f"Leave out {_all_of([*map(self.shown, every)])}", self.without(every))
            found.insert(0, Line(f"{words}.", (button,)))
        if len(found) > 1:
            every = [*dict.fromkeys(self.said.schema.of_file(problem.column) for problem in others)]
            button = Button(f"Leave out {_all_of([*map(self.shown, every)])}", self.without(every))
            found[-1] = replace(found[-1], buttons=(*found[-1].buttons, button))
        found += [self._of_gaps(gaps)] if gaps else []
        return found + ([_of_prior(unknown)] if unknown else [])

    def _of_gaps(self, problems: Sequence[Problem]) -> Line:
        """Say how many rows lack a value, and what can be done about all of them at once."""
        lacking = {problem.column: self.lacking(problem.column) for problem in problems}
        complete, rows = self._complete_rows(), self.rows if self.seen is None else self.seen.people
        most = sorted(lacking, key=lambda name: -lacking[name])
        named = listed([f"{self.shown(name)} ({lacking[name]:,})" for name in most], NAMED)
        noun, use = "rows", f"Use the {complete:,} complete rows of {rows:,}"
        if self.seen is not None:
            noun, use = "people", f"Use the {complete:,} of {rows:,} people who lack nothing"
        buttons = [Button(use, {"gaps": "leave-out"})]
        buttons = buttons if complete > len(self.ticked) + 1 and not guaranteed.is_asked(self.query) else []
        buttons += [
            Button("Impute what is missing", {"gaps": "impute"}),
            Button("Keep the gaps", {"gaps": "keep"}),
        ]
        files = {self.said.schema.of_file(name) for name, count in lacking.items() if count > MANY_GAPS * rows}
        if many := [name for name in self.held.value.names if name in files]:
            buttons.append(Button(f"Leave out {_all_of(many)}", self.without(many)))
        lack = f"{rows - complete:,} of {rows:,} {noun} lack" if complete else f"{noun.capitalize()} lack"
        return Line(f"{lack} a value: {named}.", tuple(buttons))

    def _complete_rows(self) -> int:
        """Return how many rows lack nothing, in the columns that can be used."""
        columns = tuple(self.query.getlist(source.COLUMNS))
        reading = source.reading_of(columns, self.held, self.asked, self.said)
        whole = replace(reading, complete_cases=True, drop_unusable=True, gaps=False)
        try:
            return len(source.records_of(self.held, whole).values)
        except InputError:
            return 0

    def _of_visits(self) -> list[Button]:
        """Return the button that says that rows are visits of fewer people, as a draft has them."""
        drafted, names = _drafted(self.held), self.held.value.names
        if drafted is None or drafted.visits is None:
            return []
        visits, fields = drafted.visits, declared.fields_of(drafted, names)
        own: Fields = {key: fields[key] for key in KEYS}
        for place, name in enumerate(names, start=1):
            if visits.course_of(name):  # how far beside its line a column is, is said on its scale
                own |= {f"{one.name}-{place}": fields[f"{one.name}-{place}"] for one in declared.FIELDS}
            elif said := visits.of_column(name):
                own[f"{declared.MORE.name}-{place}"] = declared.more_in_words(said)
        told = f"{visits.visit} {visits.in_words}"
        return [Button(f"Rows are visits ({told}) of people ({visits.person})", own)]

    @property
    def beside(self) -> dict[str, tuple[str, Fields]]:
        """How columns of which nothing is declared seem to belong together, in words and as fields; dates, too."""
        drafted, names = _drafted(self.held), self.held.value.names
        if drafted is None:
            return {}
        if drafted.visits is not None and self.said.schema.visits is None:
            return {}
        fields, found = declared.fields_of(drafted, names), dict[str, tuple[str, Fields]]()
        for place, name in enumerate(names, start=1):
            own = {f"{one.name}-{place}": fields[f"{one.name}-{place}"] for one in declared.FIELDS}
            words, more = declared.beside_in_words(drafted.column(name)), f"{declared.MORE.name}-{place}"
            if drafted.visits and words and (start := drafted.visits.start_of(name)) is not None:
                words += f", at other visits after that at {drafted.visits.visit} {start}"
            silent = not any(self.query.get(key) for key in own if key != more)
            if words and silent and declared.only_of_visits(self.query.get(more, "")):
                found[name] = (words, own)
        return found

    def _of_column(self, problem: Problem) -> Line:
        name, names = problem.column, self.held.value.names
        place = names.index(self.said.schema.of_file(name)) + 1 if self.said.schema.of_file(name) in names else 0
        out = self.said.schema.of_file(name)
        buttons, notes = [Button(f"Leave out {self.shown(out)}", self.without([out]))], list[str]()
        if name in self.beside:
            words, fields = self.beside[name]
            buttons.append(Button(f"Take it as {words}", fields))
        for cure in problem.cures:
            if cure == AS_CATEGORY and not problem.is_name:
                buttons.append(Button("Take it as a category", {f"{declared.KIND.name}-{place}": CATEGORY}))
            elif isinstance(cure, Cure):
                buttons += self._of_cure(cure, name)
            elif cure != AS_CATEGORY and not (cure == DAYS and name in self.beside):  # which a button does
                notes.append(cure)
        return Line(f"{self.shown(name)} {problem.words}.", tuple(buttons), ", or ".join(notes))

    def _of_cure(self, cure: Cure, column: str = "") -> list[Button]:
        """Return the button that does what a cure says, if there is one."""
        if cure.argument == "columns" and column:
            # only numbers that are not called after people can be what somebody measured
            named = looks_like_identifier(column) or self.look(column).is_category
            numeric = str(self.held.value.content.column(self.said.schema.of_file(column)).type) not in (
                "string",
                "large_string",
            )
            return [Button("It is a measurement, keep it", {"measured": "yes"})] if numeric and not named else []
        if cure.argument == "missing_codes":
            codes = dict.fromkeys([*self.asked["codes"], *(cure.value or ())])
            value = ", ".join(f"{code:g}" for code in codes)
            return (
                [Button(f"{cure.value[0]:g} stands for a missing value", {"codes": value})] if cure.value else []
            )
        if cure.argument == "drop" and cure.value:
            return [Button(f"Leave out {_all_of(cure.value)}", self.without(cure.value))]
        words, fields = _CURES.get(cure.argument, ("", {}))
        return [Button(words, fields)] if words else []

    @property
    def chosen(self) -> list[Line]:
        """What was chosen of the ways out, each with a button that takes it back."""
        asked, table = self.asked, self.held.value
        back = "Take it back"
        gaps = {
            "leave-out": "Rows with gaps are left out.",
            "impute": "What is missing is imputed.",
            "keep": "Gaps are kept.",
        }
        found = [Line(gaps[asked["gaps"]], (Button(back, {"gaps": "refuse"}),))] if asked["gaps"] in gaps else []
        if (visits := self.said.schema.visits) is not None:
            words = (
                f"Each person ({visits.person}) is one record, at the visits {visits.in_words} ({visits.visit})."
            )
            found.append(Line(words, (Button(back, self._without_visits()),)))
        if unticked := [name for name in table.names if name not in self.ticked]:
            found.append(Line(f"Not used: {listed(unticked, NAMED)}.", (Button(back, {source.COLUMNS: []}),)))
        for name, value, usual, words in (
            ("unusable", "leave-out", "refuse", "Every column that cannot be used is left out."),
            ("repeats", "people", "refuse", "Each row is another person, as you said."),
            ("measured", "yes", "no", "Columns that look like identifiers are kept, as you said."),
            ("model", CLASSES, "", "Drawn through classes of people."),
        ):
            if asked[name] == value:
                found.append(Line(words, (Button(back, {name: usual}),)))
        if asked["leave"]:
            noun = "row" if self.seen is None else "person"
            found.append(Line(f"Left out: {noun} {self._left_out()}.", (Button(back, {"leave": ""}),)))
        return found

    def _left_out(self) -> str:
        """Name those who are left out by choice, as the table does."""
        rows = source.rows_in(self.asked["leave"], self.rows)
        if self.seen is None:
            return ", ".join(map(str, rows))
        return ", ".join(str(self.seen.rows.people[row - 1]) for row in rows if row <= self.seen.people)

    def _without_visits(self) -> Fields:
        """Return the fields that say nothing of visits any more."""
        found: Fields = dict.fromkeys(KEYS, "")
        for place in range(1, len(self.held.value.names) + 1):
            name = f"{declared.MORE.name}-{place}"
            if text := self.query.get(name, ""):
                found[name] = declared.without_what_is_of_visits(text)
        return found

    @property
    def proposed(self) -> list[Line]:
        """What a draft of a table file would declare of the columns that are used: one line for all alike."""
        drafted = _drafted(self.held)
        several = drafted is not None and drafted.visits is not None and self.asked["repeats"] == "refuse"
        if several and self.said.schema.visits is None:  # whose rows these are comes first
            return []
        fields, names = proposals(self.held.value, self.said.looks), self.held.value.names
        beside = self.beside
        alike: dict[str, tuple[list[str], Fields]] = {}
        for place, (column, look) in enumerate(zip(self.said.columns, self.said.looks, strict=True), start=1):
            name = names[place - 1]
            words = declared.proposed_in_words(look, column)
            if name in beside:
                words, more = beside[name]
                fields |= more
            if words and name in self.ticked and name not in self.said.keys:
                columns, own = alike.setdefault(words, ([], {}))
                columns.append(column.name)
                own |= {name: text for name, text in fields.items() if name.endswith(f"-{place}")}
        return [
            Line(f"{listed(columns, NAMED)}: {words}.", (Button("Apply", own),))
            for words, (columns, own) in alike.items()
        ]


def _of_prior(problems: Sequence[Problem]) -> Line:
    """Say of which columns a prior from public knowledge lacks the numbers."""
    words = f"{_all_of([problem.column for problem in problems])}: {problems[0].words}."
    return Line(
        words, (Button("Use the flat prior", {"prior": "flat"}),), f"at “The columns”: {problems[0].cures[0]}"
    )


def _all_of(names: Sequence[str]) -> str:
    return joined(names) if len(names) <= NAMED else listed(names, NAMED)


_AT_VISITS = "if they are visits, say whose and which under “How it is read and modelled”"
_OF_KEYS = ("Names people: numbered anew in every release.", "Tells the visit: which there are is public.")
_CURES: dict[str, tuple[str, Fields]] = {
    "complete_cases": ("Use the complete rows", {"gaps": "leave-out"}),
    "missing": ("Impute what is missing", {"gaps": "impute"}),
    "drop_unusable": ("Leave out all that cannot be used", {"unusable": "leave-out"}),
    "rows_are_people": ("Each row is another person", {"repeats": "people"}),
    "model": ("Draw through classes of people", {"model": CLASSES}),
    "prior": ("Give a prior from public knowledge", {"prior": "public"}),
}


def _drafted(held: Any) -> Schema | None:
    """Return what a draft of a table file declares, once for each table; nothing of an unusable one."""
    found = _draft(held)
    return None if isinstance(found, InputError) else found


def _undrafted(held: Any) -> InputError | None:
    """Return why no draft can be made of a table, if none can."""
    found = _draft(held)
    return found if isinstance(found, InputError) else None


def _draft(held: Any) -> Schema | InputError:
    def look() -> Schema | InputError:
        content = held.value.content
        try:
            found = described(content, labels=labels_in(content))
        except InputError as error:  # which the list of what stands in the way says
            return error
        return Schema.of_entries(parse(found.text, "TOML", "the draft"), "the draft")

    return held.get_or_compute(("drafted",), look)


def proposals(table: declared.Uploaded, looks: Sequence[Look]) -> Fields:
    """Return the fields that a draft of a table file proposes of the columns; the rest is left as it is."""
    text = draft(looks, table.content.num_rows, {}, labels=labels_in(table.content))
    schema = Schema.of_entries(parse(text, "TOML", "the draft"), "the draft")
    proposed = ("scale-", "low-", "high-", "decimals-", "step-", "step_of-", "label-")
    fields = declared.fields_of(schema, table.names).items()
    return {name: text for name, text in fields if forms.takes(proposed, name)}


def _gate(query: QueryParams, context: RequestContext) -> source.Chosen:
    """Return the table as the release that is asked for takes it: a guarantee has a gate of its own."""
    if guaranteed.is_asked(query):
        return guaranteed.admitted(query, context)[0]
    return source.chosen(query, context)


def _standing(query: QueryParams, context: RequestContext, step: Progress) -> Answer:
    """Say all that stands in the way, with what helps; or that nothing does, and what there is to know."""
    mending, table, hindrances = Mending.of(query, context), None, list[Line]()
    with step("Looking at the table", None):
        try:
            table = _gate(query, context)
        except InputError as error:
            told = mending.said.schema.widened().plainly
            hindrances = [replace(line, words=told(line.words)) for line in mending.lines(error)]
    proposed = mending.proposed
    every: Fields = {name: text for line in proposed for name, text in line.buttons[0].fields.items()}
    part = piece(
        "mend_standing.html", table=table, hindrances=hindrances, chosen=mending.chosen, proposed=proposed,
        every=Button(f"Apply all {len(proposed)}", every), name=mending.held.value.name,
    )  # fmt: skip
    return Answer({"standing": part})


def _table(query: QueryParams, context: RequestContext, step: Progress) -> Answer:
    """Name the table and say of each of its columns what there is to know, whatever the gate says of them."""
    with step("Looking at the columns", None):
        mending = Mending.of(query, context)
        return Answer({"about": about(mending.held.value), **_columns(mending, context)})


def _columns(mending: Mending, context: RequestContext) -> dict[str, str]:
    """Return the table of columns, and what is said beside each: all problems of all columns at once."""
    said, problems = mending.said, dict[str, Problem]()
    try:
        _gate(mending.query, context)
    except ColumnsError as error:
        problems = {said.schema.of_file(problem.column): problem for problem in reversed(error.problems)}
    except InputError:  # of the table or the prior as a whole, which the list of what stands in the way says
        pass
    fields: dict[str, Any] = {"kind": declared.KIND, "keep": declared.KEEP, "levels": declared.LEVELS}
    fields |= {
        "measured": declared.OF_A_MEASUREMENT,
        "lacks": declared.MAY_LACK,
        "words": declared.WORDS,
        "more": declared.MORE,
    }
    parts = {"columns": piece("mend_columns.html", columns=said.columns, **fields)}
    for place, (column, look) in enumerate(zip(said.columns, said.looks, strict=True), start=1):
        if column.name in said.keys:
            parts[f"what-{place}"] = piece("mend_kind.html", kind=declared.kind_in_words(look), more="")
            parts[f"said-{place}"] = _OF_KEYS[said.keys.index(column.name)]
            continue
        more = declared.declared_in_words(column, mending.asked["codes"])
        parts[f"what-{place}"] = piece("mend_kind.html", kind=declared.kind_in_words(look), more=more)
        proposed = declared.proposed_in_words(look, column)
        parts[f"said-{place}"] = piece(
            "mend_said.html", problem=problems.get(column.name), look=look, proposed=proposed
        )
    return parts


def _model(query: QueryParams, context: RequestContext, step: Progress) -> Answer:
    """Judge whether the normal model fits; what is wrong with the table another answer says."""
    try:
        table = source.chosen(query, context)
    except InputError:
        return Answer({"fit": ""})
    found = normality_of(table, step)
    if found is None:
        return Answer({"fit": piece("mend_model.html", finding=None, doubtful=[], fit=[], classes=None)})
    doubtful = [verdict for verdict in found.every if verdict.level != "fit"]
    fit = [verdict.subject for verdict in found.every if verdict.level == "fit"]
    classes = Button("Draw through classes of people", {"model": CLASSES}) if doubtful and not table.keep else None
    finding = model_finding(found, table.records.has_gaps, say=forms.in_app_words)
    part = piece("mend_model.html", finding=finding, doubtful=doubtful, fit=fit, classes=classes)
    figures = {"qq": qq_figure(found)}
    if len(found.squared_distances):
        figures["distances"] = distance_qq_figure(found)
    return Answer({"fit": table.records.schema.plainly(part)}, figures)


def _read_table_file(query: QueryParams, context: RequestContext, place: Path) -> Answer:
    """Fill the fields from a table file that was sent, and say what of it and of the table does not meet."""
    path = declared.sent_file(query, place, ".toml")
    names, schema = source.table_of(query, context).value.names, Schema.of(path)
    said = {column.name for column in (*schema.columns, *schema.derived)}
    if schema.visits is not None:
        require_person_and_visit(names, schema.visits)
        said |= {schema.visits.person, schema.visits.visit}
    of_one = sorted(name for name in said - set(names) if schema.of_file(name) in names)  # visit: crp@6
    absent, silent = sorted(said - {*names, *of_one}), [name for name in names if name not in said]
    told = {
        "absent": listed(absent),
        "silent": listed(silent),
        "of_one": listed(list(map(schema.told_as, of_one))),
    }
    note = piece("mend_declared.html", file=path.name, **told)
    return Answer({"declared-note": note}, fields=declared.fields_of(schema, names))


def write_table_file(query: QueryParams, context: RequestContext, step: Progress) -> Download:
    """Return what is declared now as a table file; columns that are not ticked are left out in it."""
    mending = Mending.of(query, context)
    said, ticked = mending.said, query.getlist(source.COLUMNS)
    said.require_visits()
    if wrong := [fault for fault in said.problems if not ticked or fault.column in ticked]:
        raise refusal(wrong)
    columns, levels = [], {}
    for look, column in zip(said.looks, said.columns, strict=True):
        if look.name in said.keys:
            continue
        if ticked and look.name not in ticked:
            column = Column(look.name, LEFT_OUT, why=left_out_because(look, mending.rows) or "not used")
        elif look.is_category and not column.levels and column.kind != DERIVED:
            levels[look.name] = look.levels
        columns.append(column)
    plain = tuple(column for column in columns if column.kind != DERIVED)
    derived = tuple(column for column in columns if column.kind == DERIVED)
    text = table_file(Schema(plain, derived=derived, visits=said.schema.visits), levels)
    return Download("table.toml", text.encode(), "application/toml; charset=utf-8")


GROUPS = (source.TABLE, declared.VISITS, declared.GAPS, source.MODEL, source.PRIOR, source.PUBLIC, source.WITHOUT)
PAGE = Page(
    "mend",
    "Mend",
    GROUPS,
    answers={
        "standing": Source(_standing, (*source.CARRIED, "guarantee")),
        "table": Source(_table, (*source.READ, "prior", "centre-", "spread-", "guarantee")),
        "model": Source(_model, source.CARRIED, slow=True),
        **CHIP_IF_KNOWN,
    },
    files={"table.toml": write_table_file},
    takes={"declare": _read_table_file},
    carried=CARRIED,
    step=2,
)
