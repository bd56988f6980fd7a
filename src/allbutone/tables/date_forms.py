"""Forms in which dates stand: types of dataframes, texts, digits, numbers of programs; read, and written again."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from typing import Any

import narwhals as nw
import numpy as np
from jaxtyping import Bool

from allbutone.support.errors import InputError
from allbutone.support.text import counted

Stamps = np.ndarray  # of datetime64

PRECISIONS = ("year", "month", "day", "hour", "minute", "second")
NOTHING = np.datetime64("NaT", "s")
SHOWN = 3  # rows that are named
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

# Forms of dates in text: letters that stand for parts, everything else for itself.

_PART = re.compile(r"YYYY|MMM|MM|DD|hh|mm|ss|M|D")
_READ = {
    "YYYY": r"(?P<year>\d{4})", "MMM": r"(?P<name>[A-Za-z]{3})", "MM": r"(?P<month>\d{2})",
    "M": r"(?P<month>\d{1,2})", "DD": r"(?P<day>\d{2})", "D": r"(?P<day>\d{1,2})", "hh": r"(?P<hour>\d{2})",
    "mm": r"(?P<minute>\d{2})", "ss": r"(?P<second>\d{2})",
}  # fmt: skip
_WRITTEN = {
    "YYYY": "{0.year:04d}", "MMM": "{1}", "MM": "{0.month:02d}", "M": "{0.month}", "DD": "{0.day:02d}",
    "D": "{0.day}", "hh": "{0.hour:02d}", "mm": "{0.minute:02d}", "ss": "{0.second:02d}",
}  # fmt: skip
_OF_DAYS = (
    "YYYY-MM-DD", "DD.MM.YYYY", "DD/MM/YYYY", "MM/DD/YYYY", "DD-MM-YYYY", "MM-DD-YYYY", "YYYY/MM/DD", "YYYY.MM.DD",
    "YYYYMMDD", "D.M.YYYY", "D/M/YYYY", "M/D/YYYY", "D-M-YYYY", "M-D-YYYY", "DDMMMYYYY", "DD-MMM-YYYY",
    "DD MMM YYYY", "D MMM YYYY",
)  # fmt: skip
_TIMES = (" hh:mm:ss", "Thh:mm:ss", " hh:mm", "Thh:mm", "Thh:mm:ssZ")
FORMS = (
    *_OF_DAYS,
    *(day + time for day in _OF_DAYS for time in _TIMES),
    "YYYY-MM",
    "MM/YYYY",
    "MM.YYYY",
    "YYYY/MM",
)
# Numbers of programs: how many seconds each counts, and since when.
NUMBERED = {
    "Excel": (86_400, date(1899, 12, 30)), "SAS": (86_400, date(1960, 1, 1)), "SAS times": (1, date(1960, 1, 1)),
    "SPSS": (1, date(1582, 10, 14)), "Stata": (86_400, date(1960, 1, 1)),
}  # fmt: skip
TYPED = re.compile(r"date|datetime\[(s|ms|us|ns)(?:, ([\w/+:-]+))?\]")
EXAMPLES = (
    'write it as one value is written: "YYYY-MM-DD", "DD.MM.YYYY", "DD/MM/YYYY hh:mm", "YYYY-MM", or "YYYYMMDD"; '
    f"{', '.join(map(repr, NUMBERED))} are numbers of those programs"
)
ONE_FORM = "write all in one form, and declare it where it is another (form = …)"
LOOKS_LIKE = re.compile(
    r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([T ]\d{1,2}:\d{2}.*)?|\d{4}[-/]\d{2}|\d{2}[./]\d{4}"
    r"|\d{1,2}[ -]?[A-Za-z]{3}[ -]?\d{4}"
)


def check_form(form: Any) -> None:
    """Refuse a form that names no year, or the same part twice."""
    if not isinstance(form, str):
        raise InputError(f"a form is a text, got {form!r:.60}", EXAMPLES)
    plain = form.removeprefix("number ")
    if not form or form in NUMBERED or TYPED.fullmatch(form):
        return
    parts = [_same(part) for part in _PART.findall(plain)]
    rest = _PART.sub("", plain)
    day = {"month", "day"} if {"day", "hour"} & set(parts) else set()
    if (
        "year" not in parts
        or len(set(parts)) < len(parts)
        or not day <= set(parts)
        or re.search(r"[A-SU-Ya-z\\]", rest)
    ):
        raise InputError(f"{form!r:.60} is no form of a date", EXAMPLES)


def _same(part: str) -> str:
    return {"YYYY": "year", "hh": "hour", "mm": "minute", "ss": "second"}.get(part) or (
        "day" if "D" in part else "month"
    )


@dataclass(frozen=True)
class Form:
    """A form of text, as what reads and what writes it."""

    text: str
    pattern: re.Pattern[str]

    @classmethod
    def of(cls, text: str) -> "Form":
        """Return what reads and writes a form."""
        pieces, last = [], 0
        for part in _PART.finditer(text):
            pieces += [re.escape(text[last : part.start()]), _READ[part[0]]]
            last = part.end()
        return cls(text, re.compile("".join(pieces) + re.escape(text[last:]), re.ASCII))

    @property
    def finest(self) -> str:
        """The finest part that it tells."""
        return PRECISIONS[max(PRECISIONS.index(_same(part)) for part in _PART.findall(self.text))]

    def read(self, text: str) -> np.datetime64 | None:
        """Read a date; None where it is in another form, NaT where it is in this one and does not exist."""
        if (match := self.pattern.fullmatch(text)) is None:
            return None
        parts = match.groupdict()
        if name := parts.pop("name", None):
            known = name.capitalize()
            parts["month"] = str(MONTHS.index(known) + 1) if known in MONTHS else "0"
        try:
            told = {"month": 1, "day": 1} | {key: int(each) for key, each in parts.items()}
            year, month, day, hour, minute, second = (told.get(part, 0) for part in PRECISIONS)
            moment = datetime(year, month, day, hour, minute, second)
        except ValueError:
            return NOTHING
        return np.datetime64(moment, "s")

    def write(self, stamps: Stamps, mask: Bool[np.ndarray, " n"]) -> list[str | None]:
        """Write dates."""
        layout = _PART.sub(lambda part: _WRITTEN[part[0]], self.text.replace("{", "{{").replace("}", "}}"))
        upper = "DDMMMYYYY" in self.text  # as SAS writes it
        names = [name.upper() for name in MONTHS] if upper else MONTHS
        moments = stamps.astype(datetime).tolist()
        return [
            None if gap else layout.format(moment, names[moment.month - 1])
            for moment, gap in zip(moments, mask.tolist(), strict=True)
        ]


# Columns of dates in a table: types that are dates, texts, digits, numbers of programs.


@dataclass(frozen=True)
class Dates:
    """The dates of a column, the form that they stand in, and what is wrong with them, in words for its holder."""

    stamps: Stamps
    form: str
    problem: str = ""
    quietly: str = ""
    cures: tuple[str, ...] = ()


def read_dates(column: nw.Series[Any], form: str = "") -> Dates:
    """Read a column of dates in the form that is declared, or in the one that all of its values stand in."""
    if column.dtype == nw.Date:
        return Dates(column.to_numpy().astype("M8[s]"), "date")
    if isinstance(column.dtype, nw.Datetime):
        return _datetimes(column)
    if column.dtype == nw.Object or column.dtype == nw.Unknown:
        return _objects(column, form)
    if column.dtype.is_numeric():
        return _numbers(column, form)
    if column.dtype in (nw.String, nw.Categorical, nw.Enum):
        return _texts(column.cast(nw.String).to_list(), form)
    return _nothing(
        len(column),
        NO_DATES if column.dtype.is_temporal() else "holds no dates",
        TIME_OF_DAY,
    )


NO_DATES = "holds no dates, but times of a day or lengths of time"
TIME_OF_DAY = "put the minutes since midnight, or the length in one unit, in their place"


def _nothing(rows: int, problem: str, *cures: str, quietly: str = "") -> Dates:
    return Dates(np.full(rows, NOTHING), "", problem, quietly, cures)


def _datetimes(column: nw.Series[Any]) -> Dates:
    kind: Any = column.dtype
    zone = kind.time_zone
    if zone is not None:
        column = column.dt.replace_time_zone(None)
    unit = kind.time_unit
    return Dates(column.to_numpy().astype("M8[s]"), f"datetime[{unit}{', ' + zone if zone else ''}]")


def _objects(column: nw.Series[Any], form: str) -> Dates:
    """Read Python's own dates, which pandas holds as objects, and its periods."""
    values = [None if each is None or each != each else each for each in column.to_list()]
    there = [each for each in values if each is not None]
    if all(isinstance(each, str) for each in there):
        return _texts(values, form)
    if all(hasattr(each, "to_timestamp") for each in there):
        return _texts([None if each is None else str(each) for each in values], form)
    if there and all(isinstance(each, time | timedelta) for each in there):
        return _nothing(len(values), NO_DATES, TIME_OF_DAY)
    if not all(isinstance(each, date) for each in there):
        return _nothing(len(values), "holds dates and other values", "correct them")
    stamps = np.array([np.datetime64("NaT") if each is None else np.datetime64(each) for each in values], "M8[s]")
    return Dates(stamps, "datetime[us]" if any(isinstance(each, datetime) for each in there) else "date")


def _numbers(column: nw.Series[Any], form: str) -> Dates:
    """Read digits such as 20200131, or days and seconds as some program counts them."""
    values = column.to_numpy().astype(np.float64)
    gaps = np.isnan(values)
    if form in NUMBERED:
        seconds, start = NUMBERED[form]
        whole = np.round(np.clip(np.nan_to_num(values) * seconds, -1e12, 1e12)).astype(np.int64)
        return Dates(np.where(gaps, NOTHING, np.datetime64(start, "s") + whole.astype("m8[s]")), form)
    if not np.all(gaps | (values == np.round(values))) or np.any(np.abs(values[~gaps]) > 1e17):
        return _nothing(
            len(values),
            "holds numbers that are no dates",
            f'say how they count (form = "Excel", or {", ".join(list(NUMBERED)[1:])})',
        )
    texts = [None if gap else str(int(each)) for each, gap in zip(values.tolist(), gaps.tolist(), strict=True)]
    read = _texts(texts, (form or "YYYYMMDD").removeprefix("number "))
    return replace(
        read,
        form=f"number {read.form}" if read.form else "",
        cures=(
            *read.cures,
            *(
                (f'say how they count (form = "Excel", {", ".join(list(NUMBERED)[1:])})',)
                if read.problem and not form
                else ()
            ),
        ),
    )


def _texts(values: Sequence[str | None], form: str) -> Dates:
    """Read texts, each different one once."""
    values = [
        each.strip() or None if isinstance(each, str) else None for each in values
    ]  # pandas has NaN for none
    different = list(dict.fromkeys(each for each in values if each is not None))
    if not different:
        return _nothing(len(values), "has no value at all")
    fitting = _fitting(different, form)
    if isinstance(fitting, Dates):
        return replace(fitting, stamps=np.full(len(values), NOTHING))
    known, read = fitting, Form.of(fitting).read
    table: dict[str, Any] = {each: read(each) for each in different}
    lost = {each for each, stamp in table.items() if stamp is None}
    never = {each for each, stamp in table.items() if stamp is not None and np.isnat(stamp)}
    if lost or never:
        return _wrong(values, known, lost, never)
    return Dates(np.array([NOTHING if each is None else table[each] for each in values], "M8[s]"), known)


def _fitting(different: Sequence[str], form: str) -> str | Dates:
    """Return the form in which all texts stand, or most of them; what stands against it where two do."""
    if form and form not in NUMBERED and not TYPED.fullmatch(form):
        return form.removeprefix("number ")
    few, whole = different[:200], list[str]()
    matches: dict[str, int] = {}
    for each in FORMS:
        read = Form.of(each).read
        stamps = [read(text) for text in few]
        fit = sum(stamp is not None and not np.isnat(stamp) for stamp in stamps)
        matches[each] = fit + sum(stamp is not None for stamp in stamps)
        if fit == len(few) and (
            len(few) == len(different) or all(_exists(read(text)) for text in different[200:])
        ):
            whole.append(each)
    # 01.02.2020 is D.M.YYYY, too: of forms of the same parts the first, which has all digits, counts
    orders = list(dict.fromkeys(re.sub(r"(?<![A-Z])([MD])(?![A-Z])", r"\1\1", each) for each in whole))
    if len(orders) > 1:
        return _nothing(
            0, f"could be {' or '.join(orders)} in every row",
            *(f'if it is {_told_first(each)}, declare form = "{each}"' for each in whole if each in orders),
        )  # fmt: skip
    if whole:
        return whole[0]
    best = max(matches, key=lambda each: matches[each])
    if not matches[best]:
        two = any(re.fullmatch(r"\d{1,2}[-/.]\d{1,2}[-/.]\d{2}", text) for text in few)
        return _nothing(
            0, "holds years of two digits" if two else "holds dates in no form that is known here",
            "write years with four digits" if two else EXAMPLES,
        )  # fmt: skip
    return best


def _exists(stamp: np.datetime64 | None) -> bool:
    return stamp is not None and not np.isnat(stamp)


def _told_first(form: str) -> str:
    return "the day that comes first" if form.startswith("D") else "the month that comes first"


def _wrong(values: Sequence[str | None], form: str, lost: set[str], never: set[str]) -> Dates:
    """Say which rows hold dates that do not exist, and which hold another form."""
    kinds = (
        (never, "no date", "dates that do not exist", "correct those that do not exist"),
        (lost, f"in another form than {form}", f"values in another form than {form}", ONE_FORM),
    )
    parts, quiet, cures = [], [], []
    for some, what, quietly, cure in kinds:
        places = [row for row, value in enumerate(values, start=1) if value in some]
        if places:
            named = "; ".join(f"row {row}: {values[row - 1]!r:.40}" for row in places[:SHOWN])
            more = "; …" if len(places) > SHOWN else ""
            are = "that is" if len(places) == 1 else "that are"
            parts.append(f"{counted(len(places), 'value')} {are} {what} ({named}{more})")
            quiet.append(quietly)
            cures.append(cure)
    return _nothing(len(values), f"holds {', and '.join(parts)}", *cures, quietly=f"holds {', and '.join(quiet)}")


def too_coarse(form: str, precision: str) -> str:
    """Return the finest part that a form tells, where that is less than the precision; else nothing."""
    if form in NUMBERED or TYPED.fullmatch(form):
        finest = "day" if form in ("date", "Excel", "SAS", "Stata") else "second"
        finest = "second" if form == "Excel" else finest  # parts of a day
    else:
        finest = Form.of(form.removeprefix("number ")).finest
    return finest if PRECISIONS.index(finest) < PRECISIONS.index(precision) else ""


def could_be_swapped(form: str) -> bool:
    """Say whether day and month could change places in a form, so that other rows tell which is which."""
    swapped = form.translate(str.maketrans("DM", "MD"))
    return swapped != form and swapped in FORMS


def reads_as_date(column: nw.Series[Any]) -> bool:
    """Say whether a column of which nothing is declared holds dates, good or bad."""
    if column.dtype == nw.Date or isinstance(column.dtype, nw.Datetime):
        return True
    if column.dtype not in (nw.String, nw.Object):
        return False
    first = [each for each in column.head(50).to_list() if each is not None]
    shown = [str(each).strip() for each in first if isinstance(each, str)]
    return bool(first) and (
        sum(bool(LOOKS_LIKE.fullmatch(each)) for each in shown) > len(first) / 2
        or all(isinstance(each, date) for each in first)
    )
