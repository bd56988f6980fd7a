"""What is sent and what is declared of each column: table files in and out, fields by the column's place."""

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa
from starlette.datastructures import QueryParams

from allbutone.app.forms import Choice, Field, Group, Hidden, Numbers, Switch
from allbutone.app.jobs import Answer
from allbutone.app.page import RequestContext, templates
from allbutone.support.errors import InputError
from allbutone.support.text import counted, listed
from allbutone.tables.admission import Problem
from allbutone.tables.column import CATEGORY, DERIVED, MEASUREMENT, Column, Scale, column_from
from allbutone.tables.dates import DATE_KIND
from allbutone.tables.files import FORMATS, READABLE, Limits, format_of, read_table
from allbutone.tables.long_tables import require_person_and_visit
from allbutone.tables.look import Look, as_toml, look_at_column
from allbutone.tables.names import check_names, reads_as_data, row_names_left_out
from allbutone.tables.schema import Schema, faults_together, in_need
from allbutone.tables.visits import KEYS, OF_COLUMN, Time, Visits, times_from, times_in, without_visits

# Of every column one, in addresses under its place in the table: scale-3=log
KIND = Choice(
    "kind", "Kind", "",
    "Text of few levels and numbers of two values are taken as categories. Codes with more values are taken as "
    "measurements unless you say that they are a category. What is to be left out is unticked.",
    {"": "as it looks", MEASUREMENT: MEASUREMENT, CATEGORY: CATEGORY, DATE_KIND: DATE_KIND},
)  # fmt: skip
KEEP = Switch(
    "keep", "Keep",
    help="Public: it goes out as it is, a row for each person, and the other columns are drawn given it. The "
    "adversary knows it of everyone, the missing record included.",
)  # fmt: skip
MAY_LACK = Switch(
    "gaps", "May be missing",
    help="Public, too: values of this column may be missing, whether some are or not (gaps = true in a table "
    "file). A guarantee takes gaps in these columns alone.",
    only="guarantee=noise",
)  # fmt: skip
LEVELS = Field(
    "levels", "Levels", "",
    "All that there can be, in order, between commas. They go out with a release; left empty, those of this table "
    "do.",
)  # fmt: skip
OF_A_MEASUREMENT: tuple[Field, ...] = (
    Choice(
        "scale", "Scale", "as it is",
        "On which the column is near to normal. It must follow from what is publicly known of the column, as "
        "that it is positive and skewed. The risk is exact on this scale; what goes out is in the column's own "
        "units.",
        {
            "as it is": "as it is", "log": "log", "log(x + 1)": "log(x + 1)", "sqrt": "square root",
            "logit": "logit (between both limits)",
        },
    ),
    Field("low", "Lowest", "", "No released value is below it. From public knowledge, not from this table."),
    Field("high", "Highest", "", "No released value is above it; likewise."),
    Field(
        "decimals", "Decimals", "",
        'Released values are rounded to so many; {"0": 0.9, "2": 0.1} rounds nine of ten to whole numbers. Left '
        "empty: none is rounded.",
    ),
    Field(
        "centre", "Centre", "", "What public sources say of the column's middle value, in its own units.",
        only="prior=public",
    ),
    Field(
        "spread", "Spread", "", "And of its standard deviation, in its own units.", only="prior=public",
    ),
    Hidden("quantiles", "Quantiles"),
    Hidden("step", "Steps"),
    Hidden("step_of", "Steps of"),
)  # fmt: skip
MORE = Field(
    "more",
    "Beside others",
    "",
    'What a table file says of columns that belong together, between commas. derived = "weight / (height / 100) '
    '** 2" computes it again in every row; nothing but decimals is declared besides. above = "diastolic" is an '
    'order that every row keeps. event = "status" says to which event a time is. Of dates: precision = "month", '
    'form = "DD.MM.YYYY", since = "admitted". With visits: once = true where it changes in nobody, visits = '
    "[0, 12] where it is measured at some alone, after = 0 where at all others it is above what it is at visit 0, "
    'course = "line", deviation = 0.2 for a way from first to last.',
)
WORDS = (Hidden("label", "Label"), Hidden("unit", "Unit"), Hidden("missing", "Codes of its own"))
FIELDS = (KIND, *OF_A_MEASUREMENT, LEVELS, MORE, MAY_LACK, *WORDS)
OF_MORE = (
    "derived", "cut", "sum", "replaces", "above", "below", "between", "since", "event", "tolerance", "deviation",
    "origin", "precision", "form", "secret", "known", "once", "visits", "after", "course",
)  # fmt: skip
OF_THE_PRIOR = ("centre", "spread")
_NUMBERS, _LISTS = ("low", "high", "decimals", "step", *OF_THE_PRIOR), ("quantiles", "missing")
_BESIDE = ("derived", "cut", "sum", "above", "below", "between")
_NOT_OF = {
    CATEGORY: {one.name for one in OF_A_MEASUREMENT},
    MEASUREMENT: {"levels"},
    DATE_KIND: {"levels", "decimals", "step", "step_of", "quantiles"},
}
LEVELS_SHOWN = 8
_WRONGLY = "is declared wrongly: "
PUBLIC_FIELDS = tuple(f"{one.name}-" for one in FIELDS if one.name in OF_THE_PRIOR)
READ_FIELDS = tuple(f"{one.name}-" for one in FIELDS if one.name not in OF_THE_PRIOR)


OUT = {"refuse": "refuse the table", "leave-out": "leave them out"}
OF_GAPS = OUT | {
    "impute": "impute what is missing, anew for each dataset",
    "keep": "keep gaps: synthetic tables have gaps, too",
}
GAPS = Group(
    "Gaps, and columns that cannot be used",
    (
        Choice("gaps", "Rows with gaps", "refuse", "Of the columns that are used. What is missing is taken to be "
               "missing for reasons that the observed values tell.", OF_GAPS, reset_by="table"),
        Choice("unusable", "Columns that cannot be used", "refuse", "Text, dates, constants, copies of others, "
               "identifiers.", OUT, reset_by="table"),
        Choice("repeats", "The same person twice", "refuse", "Every figure is for one row a person. A column that "
               "names people, also one that is not ticked, tells who has several.",
               {"refuse": "refuse the table", "people": "each row is another person"}, reset_by="table"),
        Numbers("codes", "Codes for missing values", "", "Numbers that stand for no value in any column, such as "
              "-999, between commas.", -1e12, 1e12, reset_by="table", blank=()),
    ),
)  # fmt: skip
VISITS = Group(
    "Visits: people with several rows",
    (
        Field("person", "Who", "", "The column that names people, where each has a row for every visit. All rows "
              "of a person are one record then, which is what is judged. No name goes out: synthetic people are "
              "numbered.", reset_by="table"),
        Field("visit", "When", "", "The column that tells which visit a row is, such as month.",
              reset_by="table"),
        Field("visits", "Visits", "", "All that there are, in order, between commas: 0, 6, 12, or baseline, week "
              "4. They were planned, so everyone may know them. What changes in nobody stands once, which is said "
              "at “Beside others”.", reset_by="table"),
    ),
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Declaration:
    """What an address declares of a table's columns, each looked at beside it, and what is wrong with it.

    columns: one for each of the table, computed ones among them. In the schema a column of which nothing is
    declared has the kind that it looks like. fault: what is wrong with the visits; then the schema has none.
    """

    columns: tuple[Column, ...]
    schema: Schema
    looks: tuple[Look, ...]
    problems: tuple[Problem, ...]
    fault: InputError | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that name people and visits, where people have several rows: none of a record."""
        visits = self.schema.visits
        return () if visits is None else (visits.person, visits.visit)

    def require_visits(self) -> None:
        """Refuse visits that are declared wrongly."""
        if self.fault is not None:
            raise self.fault


def declaration(query: Mapping[str, str], held: Any, asked: Mapping[str, Any]) -> Declaration:
    """Read an address; `held`: the table, `asked`: how it is read besides, and whether the prior is public."""
    columns, looks, problems = [], [], []
    of_visits: dict[str, Any] = {}
    for place, name in enumerate(held.value.names, start=1):
        entries: dict[str, Any] = {}
        try:
            entries = _entries(query, place, asked["prior"] == "public")
            of_visits[name] = {key: entries[key] for key in OF_COLUMN if key in entries}
            entries = without_visits(entries)
            column = column_from(name, entries)
        except InputError as error:
            column = Column(name)
            problems.append(Problem(name, f"{_WRONGLY}{error.problem}", error.cures))
        column = replace(column, missing=tuple(dict.fromkeys((*column.missing, *asked["codes"]))))
        look = _look(held, column.as_released, asked["measured"] == "yes", not entries)
        if column.calendar is not None:
            column = replace(column, calendar=look.calendar or column.calendar)
        if look.is_category and column.kind not in (CATEGORY, DERIVED):
            if entries.get("kind") == MEASUREMENT:
                cure = "choose another at “Kind”, or untick it"
                problems.append(Problem(name, "is declared a measurement, and holds no numbers", (cure,)))
            column = column.as_category(())
        columns.append(column)
        looks.append(look)
    told = {key: text for key in KEYS if (text := asked[key].strip())}
    named = {told.get(key) for key in KEYS[:2]}
    schema, faults = _together([column for column in columns if column.name not in named])
    problems += [
        Problem(name, f"{_WRONGLY}{fault}", ("correct what stands at “Beside others”",)) for name, fault in faults
    ]
    found = Declaration(tuple(columns), schema, tuple(looks), tuple(problems))
    try:
        return replace(found, schema=_at_visits(schema, told, of_visits, held.value.names))
    except InputError as error:
        return replace(found, fault=error)


def _at_visits(
    schema: Schema, told: Mapping[str, str], of_visits: Mapping[str, Any], names: Sequence[str]
) -> Schema:
    """Return the schema with the visits that an address tells of, or say what is wrong with these."""
    entries: dict[str, Any] = dict(told)
    if "visits" in entries:
        entries["visits"] = _times(entries["visits"])
    derived = {column.name for column in schema.derived}
    said = {
        name: {key: each for key, each in of.items() if key != "deviation" or name not in derived}
        for name, of in of_visits.items()
    }
    visits = Visits.of_entries(entries, said)
    if visits is None:
        return schema
    require_person_and_visit(names, visits)
    if faults := visits.faults(schema.columns, schema.derived):
        raise InputError("; ".join(faults), "correct what stands at “Beside others”", where="Visits")
    return replace(schema, visits=visits.adding(schema.derived))


def _times(text: str) -> list[Time]:
    """Read what stands at “Visits”, between commas."""
    return times_in([part.strip() for part in text.split(",") if part.strip()])


def _together(columns: Sequence[Column]) -> tuple[Schema, list[tuple[str, str]]]:
    """Return the schema of some columns, and what is wrong with those that belong together, by name."""
    plain = [column for column in columns if column.kind != DERIVED]
    derived = [column for column in columns if column.kind == DERIVED]
    if faults := faults_together(plain, derived):
        wrong = {name for name, _ in faults}
        free = [replace(each, order=None, scale=Scale()) if each.name in wrong else each for each in plain]
        return Schema((*free, *(Column(column.name) for column in derived))), faults
    return Schema(tuple(plain), derived=tuple(in_need(derived))), []


def _entries(query: Mapping[str, str], place: int, public: bool) -> dict[str, Any]:
    """Return the entries of one column, without what its kind cannot have: no field shows that."""
    asked = {one.name: query.get(f"{one.name}-{place}", "").strip() for one in FIELDS}
    asked[MAY_LACK.name] = asked[MAY_LACK.name].replace(MAY_LACK.default, "")
    if asked["levels"] and not asked["kind"]:
        asked["kind"] = CATEGORY
    more = _more(asked.pop(MORE.name))
    silent = {*_NOT_OF.get(asked["kind"], ()), *(() if public else OF_THE_PRIOR)}
    if set(_BESIDE) & set(more):  # which has a scale of its own
        asked["scale"] = asked["scale"].removeprefix("as it is")
    if {"derived", "cut", "sum"} & set(more):
        asked["kind"] = ""
    return {key: _meant(key, text) for key, text in asked.items() if text and key not in silent} | more


def _more(text: str) -> dict[str, Any]:
    """Read what is said of a column beside others: entries as a table file has them, between commas."""
    if not text:
        return {}
    example = 'write above = "diastolic", or derived = "weight / (height / 100) ** 2", decimals aside'
    try:
        found = tomllib.loads(f"more = {{ {' '.join(text.split())} }}")["more"]
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"{text[:60]!r} at “Beside others” cannot be read", example) from error
    if unknown := [key for key in found if key not in OF_MORE]:
        raise InputError(f"there is no entry {unknown[0]!r:.60} here", f"known are {', '.join(OF_MORE)}")
    return found


def only_of_visits(text: str) -> bool:
    """Say whether all that is said of a column beside others tells of its visits."""
    try:
        return set(_more(text)) <= set(OF_COLUMN)
    except InputError:
        return False


def without_what_is_of_visits(text: str) -> str:
    """Return what is said of a column beside others but for its visits; what cannot be read stays as it is."""
    try:
        return more_in_words(without_visits(_more(text)))
    except InputError:
        return text


def without_visit(query: Mapping[str, str], column: int, visit: int) -> str:
    """Return what is said of a column beside others, measured at one visit less; both by their places from 1."""
    text = query.get(f"{MORE.name}-{column}", "").strip()
    try:
        found, told = _more(text), times_from(_times(query.get("visits", "")))
        left = [time for time in found.get("visits", told) if time != told[visit - 1]]
    except (InputError, IndexError):
        return text
    return more_in_words(found | {"visits": left})


def more_in_words(entries: Mapping[str, Any]) -> str:
    """Write what a table file says of a column as it stands at “Beside others”."""
    return ", ".join(f"{key} = {as_toml(value)}" for key, value in entries.items())


def _look(held: Any, column: Column, trusted: bool, two_valued: bool) -> Look:
    """Look at a column by itself, once for what is declared of it; its values are not kept."""

    def look() -> Look:
        content = held.value.content
        place = content.column_names.index(column.name)
        series = nw.from_native(content.column(place), series_only=True).alias(column.name)
        seen = look_at_column(series, column, trusted=trusted, categories=True, two_valued=two_valued)
        return replace(seen, numbers=np.zeros(0), codes=np.zeros(0, dtype=np.int64))

    return held.get_or_compute((f"look {column.name}", column, trusted, two_valued), look)


def kept_columns(query: Mapping[str, str], names: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that an address says to be kept as they are."""
    said = (query.get(f"{KEEP.name}-{place}", KEEP.default) for place in range(1, len(names) + 1))
    return tuple(name for name, text in zip(names, said, strict=True) if KEEP.value(text))


def _meant(key: str, text: str) -> Any:
    """Return what a field's text means; what means nothing stays text, which the check of the entries refuses."""
    try:
        if key in _LISTS or (key == "levels" and text.startswith("[")) or text.startswith("{"):
            return json.loads(text)
        if key == "levels":
            return [level.strip() for level in text.split(",")]
        if key == MAY_LACK.name:
            return MAY_LACK.value(text)
        number = float(text) if key in _NUMBERS else None
    except (ValueError, RecursionError):
        return text
    if number is None:
        return text
    return int(number) if key == "decimals" and number.is_integer() else number


def fields_of(schema: Schema, names: Sequence[str]) -> dict[str, str | list[str]]:
    """Return the fields that declare a schema of these columns: every field of every one, the ticks, the prior.

    Codes for missing values that all columns have stand in the one field for all.
    """
    visits = schema.visits
    keys = () if visits is None else (visits.person, visits.visit)
    shared = sorted(set.intersection(*(set(schema.column(name).missing) for name in names if name not in keys)))
    found: dict[str, str | list[str]] = {"codes": ", ".join(map(_text, shared))}
    told = visits.entries() if visits else {}
    found |= {key: _text(told.get(key, "")).strip("[]").replace('"', "") for key in KEYS}
    for place, name in enumerate(names, start=1):
        column = schema.column(name)
        entries = {"kind": column.kind if schema.declares(name) else ""} | column.entries()
        entries |= visits.of_column(name) if visits and name not in keys else {}
        more = {key: entries[key] for key in OF_MORE if key in entries}
        entries["more"] = more_in_words(more)
        if entries["kind"] not in KIND.options:
            entries["kind"] = ""
        if entries.get("label") == name:
            del entries["label"]
        if column.order is not None and not column.order.two_sided:  # the usual scale of a gap goes without saying
            usual = {key: entries[key] for key in ("decimals", "step", *OF_MORE) if key in entries}
            if column_from(name, {"kind": entries["kind"]} | usual).scale == column.scale:
                entries.pop("scale", None)
        if own := [code for code in entries.pop("missing", ()) if code not in shared]:
            entries["missing"] = own
        for one in FIELDS:
            found[f"{one.name}-{place}"] = _text(entries.get(one.name, one.default))
    kept = [name for name in names if name not in schema.left_out]
    found["columns"] = [] if len(kept) == len(names) else kept or [""]
    found["prior"] = "public" if any(schema.column(name).centre is not None for name in kept) else "flat"
    return found


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return json.dumps(value)
    if isinstance(value, list):
        plain = ", ".join(map(str, value))
        return plain if _meant("levels", plain) == value else json.dumps(value, ensure_ascii=False)
    return repr(value).removesuffix(".0")


def name_problems(names: Sequence[str], every_name: Sequence[str]) -> list[Problem]:
    """Say of every name that cannot be used why; `every_name` of the table, some perhaps twice."""
    found = []
    for name in names:
        try:
            check_names([each for each in every_name if each == name])
        except InputError as error:
            found.append(Problem(name, f"has a name that cannot be used: {error.problem}", ("rename it",)))
    return found


def kind_in_words(look: Look) -> str:
    """Say what a column is, its levels if it is a category, and how much of it is missing."""
    levels = f": {listed(look.levels, LEVELS_SHOWN)}" if look.is_category else ""
    return look.kind + levels + (f"; {counted(look.missing, 'gap')}" if look.missing else "")


def proposed_in_words(look: Look, column: Column) -> str:
    """Say what could be declared of a column of which nothing is; it is for the holder to confirm."""
    if not look.usable or look.is_category or not column.is_plain:
        return ""
    parts = [f"scale {look.scale}"] if look.scale != "as it is" else []
    if look.ends is not None:
        parts.append(f"from {look.ends[0]:g} to {look.ends[1]:g}")
    elif look.positive and look.scale not in ("log", "sqrt"):
        parts.append("lowest 0")
    if look.heaps is not None:
        parts.append(look.heaps.in_words)
    elif look.decimals is not None:
        parts.append(counted(look.decimals, "decimal"))
    return ", ".join(parts)


def beside_in_words(column: Column) -> str:
    """Say how a column belongs to others, or that it is a date; nothing of one that stands alone."""
    if column.kind == DERIVED:
        return column.in_words
    parts = ["a date"] if column.calendar is not None else []
    if column.calendar is not None and column.low > -np.inf and column.high < np.inf:
        parts = [f"a date from {column.shown(column.low)} to {column.shown(column.high)}"]
    parts += [column.order.in_words] if column.order is not None else []
    parts += [f"the time to {column.event.of} = {column.event.level}"] if column.event is not None else []
    return ", ".join(parts)


def declared_in_words(column: Column, codes: Sequence[float]) -> str:
    """Say what a table file has declared that no field shows; `codes` hold for all columns, and are shown."""
    parts = [column.label] if column.label not in ("", column.name) else []
    parts += [beside] if (beside := beside_in_words(column)) else []
    parts += [f"in {column.unit}"] if column.unit else []
    parts += ["published quantiles"] if column.scale.quantiles else []
    if own := [code for code in column.missing if code not in codes]:
        parts.append(f"{', '.join(f'{code:g}' for code in own)}: no value")
    return "; ".join(parts)


# Of an upload, known before it is read. At 200 columns the budget takes minutes; 20 million values are a million
# records of 20 columns, 160 MB, and as much again while they are read.
LIMITS = Limits(columns=200, values=20_000_000, bytes=400_000_000)
templates.globals |= {"LIMITS": LIMITS, "ENDINGS": ",".join(FORMATS)}


@dataclass(frozen=True, eq=False)
class Uploaded:
    """A table as it came; without a `header` its first line was a record, and its columns are x1, x2, …

    `asked`: the encoding or the sheet that was chosen, by name. `note`: what was left out of it at once.
    """

    name: str
    content: pa.Table
    header: bool = True
    asked: Mapping[str, str] = field(default_factory=dict)
    note: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its columns, each once: a column's place among them names its fields."""
        return tuple(dict.fromkeys(self.content.column_names))


def sent_file(query: QueryParams, place: Path, readable: str) -> Path:
    """Return the file that was sent under the name that it has with its owner."""
    name = Path(query.get("name", "")).name
    if not name:
        raise InputError("the file has no name", f"choose a {readable} file")
    try:
        return place.rename(place.with_name(name))
    except (OSError, ValueError) as error:
        raise InputError(f"a file cannot be called {name[:60]!r} here", "give it a short, plain name") from error


def upload(query: QueryParams, context: RequestContext, place: Path) -> Answer:
    """Read a file that was sent, and keep it for the session; the file itself goes at once."""
    named = sent_file(query, place, READABLE)
    # controls that this kind of file has no use for are left as they are
    takes = format_of(named).options
    header = query.get("header") != "no" or "header" not in takes
    asked: dict[str, str] = {
        option: query[option] for option in ("encoding", "sheet") if query.get(option) and option in takes
    }
    content = read_table(named, header=header, limits=LIMITS, **asked)
    # names are shown as ticks and stand in addresses, so what may be someone's data is refused at once
    check_names([column for column in content.column_names if reads_as_data(column)])
    note = " ".join(row_names_left_out(content.column_names, None, None))
    table = Uploaded(named.name, content.remove_column(0) if note else content, header, asked, note)
    return Answer(fields={"table": context.session.keep(table, content.nbytes)})
