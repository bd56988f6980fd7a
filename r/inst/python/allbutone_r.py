"""What the R package asks of Python: tables cross as bytes, calls give errors and warnings back as values.

Numbers cross as bytes because reticulate's own conversion loses `NA` and, in versions that are still about, cannot
read arrays of NumPy 2. A column is a dict: `name`, `kind`, `bytes` (float64 or int32, little endian) and `levels`.
"""

import contextlib
import inspect
import io
import json
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import allbutone as abo
from allbutone.disclosure.rule import MEMBERSHIP
from allbutone.figures.budget import budget_figure
from allbutone.figures.export import write_figure, write_images
from allbutone.figures.parts import Mark, parts_of
from allbutone.figures.risk import disclosure_figure, membership_figure
from allbutone.figures.style import titled
from allbutone.support.errors import Cure
from allbutone.support.text import listed
from allbutone.tables.described import described
from allbutone.tables.look import AS_CATEGORY, DAYS

OF_FILES = {"header", "encoding"}  # what no data frame needs to be told
MOST_CLOSEST = 100  # people whom R can show of those who come closest to being disclosed
# entries that say which values a column has
GRID = {"kind", "levels", "decimals", "derived", "cut", "sum", "step", "step_of", "quantiles"}
COMPUTED = {"derived", "cut"}  # entries of a column that need not be in the table
# what a cure of a column would have a table file say: the kind, and the words for it in R
DECLARED = ((DAYS, "date", "declare what is a date"), (AS_CATEGORY, "category", "if it is a category, say so"))
NA_INTEGER = -(2**31)  # what R holds where an integer, or the code of a factor, is missing
# letters that every device of R has: pdf() knows neither curved quotes nor the signs of marks
SIMPLE = str.maketrans(
    {"’": "'", "“": '"', "”": '"', "–": "-", "−": "-", "…": "...", "\u00a0": " ", "●": "dots:", "◆": "diamonds:"}
)

# Tables, there and back.


def table_of(columns: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return R's columns as an Arrow table; names may be repeated, which the gate refuses in its own words."""
    return pa.Table.from_arrays([_array_of(each) for each in columns], names=[each["name"] for each in columns])


def _array_of(column: Mapping[str, Any]) -> pa.Array:
    kind, levels = column["kind"], column.get("levels")
    if kind in ("number", "date", "time"):
        numbers = np.frombuffer(column["bytes"], dtype="<f8")
        gaps = np.isnan(numbers)
        if kind == "number":
            return pa.array(numbers, mask=gaps)
        unit = "D" if kind == "date" else "us"
        whole = np.rint(np.where(gaps, 0, numbers) * (1 if kind == "date" else 1e6)).astype("int64")
        return pa.array(whole.astype(f"M8[{unit}]"), mask=gaps)
    codes = np.frombuffer(column["bytes"], dtype="<i4")
    gaps = codes == NA_INTEGER
    if kind == "whole":
        return pa.array(codes.astype(np.int64), mask=gaps)
    places = pa.array(np.where(gaps, 0, codes - 1).astype(np.int32), mask=gaps)
    coded = pa.DictionaryArray.from_arrays(places, pa.array(list(levels or []), pa.string()))
    return coded.dictionary_decode() if kind == "text" else coded


def columns_of(table: pa.Table) -> list[dict[str, Any]]:
    """Return the columns of an Arrow table for R."""
    return [_column_of(name, table.column(name).combine_chunks()) for name in table.column_names]


def _column_of(name: str, array: Any) -> dict[str, Any]:
    kind = array.type
    if pa.types.is_dictionary(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind):
        is_levels = pa.types.is_dictionary(kind)
        coded = array if is_levels else array.dictionary_encode()
        codes = coded.indices.cast(pa.int32()).fill_null(-1).to_numpy(zero_copy_only=False)
        whole = np.where(codes < 0, NA_INTEGER, codes + 1)
        levels = [str(each) for each in coded.dictionary.to_pylist()]
        return _crossing(name, "levels" if is_levels else "text", whole, "<i4") | {"levels": levels}
    if pa.types.is_boolean(kind):
        flags = array.cast(pa.int32()).fill_null(NA_INTEGER)
        return _crossing(name, "flag", flags.to_numpy(zero_copy_only=False), "<i4")
    if pa.types.is_date(kind):
        days = array.cast(pa.date32()).cast(pa.int32()).cast(pa.float64())
        return _crossing(name, "date", days.to_numpy(zero_copy_only=False), "<f8")
    if pa.types.is_timestamp(kind):
        clock = array if kind.tz is None else pc.local_timestamp(array)
        stamps = clock.cast(pa.timestamp("us")).cast(pa.int64()).cast(pa.float64())
        return _crossing(name, "time", stamps.to_numpy(zero_copy_only=False) / 1e6, "<f8")
    numbers = array.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return _crossing(name, "whole" if pa.types.is_integer(kind) else "number", numbers, "<f8")


def _crossing(name: str, kind: str, values: np.ndarray, form: str) -> dict[str, Any]:
    return {"name": name, "kind": kind, "bytes": bytearray(np.ascontiguousarray(values).astype(form).tobytes())}


# Calls: what went wrong comes back in R's words, and what was warned of beside the answer.


def answered(name: str, *given: Any) -> dict[str, Any]:
    """Return what a function of this module answers: `value`, or `problem` with its cures; and `warnings`."""
    answer: dict[str, Any] = {}
    with warnings.catch_warnings(record=True) as noticed:
        warnings.simplefilter("always", UserWarning)
        try:
            answer["value"] = globals()[name](*given)
        except abo.InputError as error:
            ways = _ways(error)
            cures = [{"words": each.words, "argument": each.argument, "code": _code(each)} for each in ways]
            worded = abo.InputError(error.problem, *ways, where=error.where).worded(in_r)
            answer |= {"message": worded, "problem": error.problem, "cures": cures}
        except (MemoryError, OSError) as error:
            answer |= {"message": str(error) or type(error).__name__, "problem": str(error), "cures": []}
    ours = [each for each in noticed if issubclass(each.category, UserWarning)]
    answer["warnings"] = [{"kind": each.category.__name__, "words": str(each.message)} for each in ours]
    return answer


def _ways(error: abo.InputError) -> list[Cure]:
    """Return the cures that R has: what a table file would declare of columns is declared in a list, too."""
    cures = [each for each in error.cures if each.argument not in OF_FILES]
    for problem, kind, words in DECLARED:
        names = [each.column for each in getattr(error, "problems", ()) if problem in each.cures]
        if Cure(problem) in cures and names:
            listed_kinds = {name: {"kind": kind} for name in names}
            cures[cures.index(Cure(problem))] = Cure(words, "schema", listed_kinds)
            cures += [Cure("model all dates as days since 1970", "dates", "days")] * (kind == "date")
    return cures


def in_r(cure: Cure) -> str:
    """Return a cure as someone who writes R reads it."""
    return f"{cure.words} ({_code(cure)})" if cure.argument else cure.words


def _code(cure: Cure) -> str:
    return f"{cure.argument} = {'...' if cure.value is None else r_literal(cure.value)}" if cure.argument else ""


def r_literal(value: Any) -> str:
    """Return a value as R writes it."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, Mapping):
        return f"list({', '.join(f'{_r_name(key)} = {r_literal(each)}' for key, each in value.items())})"
    if isinstance(value, list | tuple):
        alone = len(value) == 1 and not isinstance(value[0], list | tuple)
        return r_literal(value[0]) if alone else f"c({', '.join(map(r_literal, value))})"
    if isinstance(value, float):
        return "NA" if math.isnan(value) else f"{value:g}" if math.isfinite(value) else f"{'-' * (value < 0)}Inf"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)


def _r_name(name: Any) -> str:
    return str(name) if str(name).replace(".", "_").isidentifier() else f"`{name}`"


def _named(given: Mapping[str, Any] | None, *functions: Callable[..., Any]) -> dict[str, Any]:
    """Return R's arguments as these functions take them: whole numbers as such, what may be several in a list."""
    named = {name: _argument(value) for name, value in (given or {}).items() if value is not None}
    _require_known(named, "argument", *functions)
    for name in ("columns", "drop", "keep", "missing_codes"):
        if isinstance(named.get(name), str | int | float):
            named[name] = [named[name]]  # one text would be taken apart at commas
    if "adversary" in named:
        named["adversary"] = _adversary(named["adversary"])
    return named


def _require_known(given: Mapping[str, Any], what: str, *functions: Callable[..., Any]) -> None:
    known = sorted(set().union(*map(_parameters, functions)))
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, 1)
            raise abo.InputError(f"there is no {what} `{name}`", *[f"did you mean `{each}`?" for each in near])


def _adversary(given: Any) -> abo.Adversary:
    if not isinstance(given, Mapping):
        example = Cure("name the columns that they know, say", "adversary", {"known": given})
        raise abo.InputError("an adversary is a list of what they know, and of what they lack", example)
    _require_known(given, "entry of an adversary", abo.Adversary)
    return abo.Adversary(**given)


def _argument(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)  # R writes 5 for five datasets
    if isinstance(value, list):
        return [_argument(each) for each in value]
    return {key: _argument(each) for key, each in value.items()} if isinstance(value, dict) else value


def _schema(given: Any, whole: Sequence[str], names: Sequence[str] | None = None) -> abo.Schema:
    """Return what is declared, with no decimals for the columns that R holds as whole numbers or dates.

    A list is typed for this very table, of these names: a column that it has not is a slip.
    """
    if isinstance(given, Mapping):
        is_long = isinstance(given.get("person"), str)  # what tells the visits, and the columns; else by column
        columns = given.get("columns", {}) if is_long else given
        computed = [name for name, each in columns.items() if isinstance(each, Mapping) and COMPUTED & each.keys()]
        if names is not None and (lost := sorted(set(columns) - {*names, *computed})):
            words = f"`schema` declares {listed(lost)}, which the table has not: nothing comes of it."
            warnings.warn(words, abo.Caution, stacklevel=2)
        columns = {name: _whole(each) if name in whole else each for name, each in columns.items()}
        given = {**(given if is_long else {}), "columns": columns}
    schema = abo.Schema.of(given)
    free = [name for name in whole if not schema.declares(name)]
    return schema.adjusted(decimals=dict.fromkeys(free, 0))


def _whole(entries: Any) -> Any:
    """Return what is declared of a column of whole numbers, with no decimals unless its values are declared."""
    return entries if not isinstance(entries, Mapping) or GRID & entries.keys() else {**entries, "decimals": 0}


def _reading(table: pa.Table, whole: Sequence[str], named: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments with what is declared, so that what is whole in R's table stays whole."""
    return {**named, "schema": _schema(named.get("schema"), whole, table.column_names)}


def _judging(
    table: pa.Table, whole: Sequence[str], given: Mapping[str, Any], function: Callable[..., Any]
) -> dict[str, Any]:
    """Return the arguments of what is asked of a release, which declares the table unless that is done here."""
    named = _named(given, function, abo.Records.of)
    return _reading(table, whole, named) if "schema" in named else named


def _parameters(function: Callable[..., Any]) -> set[str]:
    found = inspect.signature(function).parameters
    return {name for name, each in found.items() if each.kind != each.VAR_KEYWORD and name != "self"}


# What R's functions ask.


def version() -> str:
    """Return the version of the Python package."""
    return abo.__version__


def demo() -> pa.Table:
    """Return the embedded simulated cohort."""
    return abo.demo_cohort().to_frame("pyarrow")


def synthesize(table: pa.Table, whole: Sequence[str], given: Mapping[str, Any]) -> abo.Release:
    """Fit and draw; each argument goes where it is known."""
    named = _reading(table, whole, _named(given, abo.Synthesizer, abo.Synthesizer.sample, abo.Records.of))
    making, drawing = _parameters(abo.Synthesizer), _parameters(abo.Synthesizer.sample)
    parts: tuple[dict[str, Any], ...] = ({}, {}, {})
    for name, value in named.items():
        parts[0 if name in making else 1 if name in drawing else 2][name] = value
    return abo.Synthesizer(**parts[0]).fit(table, **parts[2]).sample(**parts[1])


def dataset(release: abo.Release, number: int) -> pa.Table:
    """Return one synthetic table, counted from 1."""
    return release.tables[number - 1].to_frame("pyarrow", released=False)


def about(release: abo.Release) -> dict[str, Any]:
    """Return what an R user sees of a release at once."""
    return {"words": repr(release), "datasets": len(release.tables), "columns": list(release.released_order)}


def save(release: abo.Release, folder: str, force: bool) -> None:
    """Write a release to a folder."""
    abo.save_release(release, folder, force=force)


def load(folder: str) -> abo.Release:
    """Read a release from a folder."""
    return abo.load_release(folder)


def risk(table: pa.Table, whole: Sequence[str], release: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the risk table, the verdict in words, the values that come closest, and the figures."""
    found = abo.risk(table, release, **_judging(table, whole, given, abo.risk))
    verdict = found.verdict
    names = ("passed", "people", "mark", "headline", "who", "how_sure", "membership", "rule_words")
    words = {name: getattr(verdict, name) for name in names}
    figures = {"values": titled(disclosure_figure(found.measures, found.rule))}
    if MEMBERSHIP in found:
        figures[MEMBERSHIP] = titled(membership_figure(found.measures, found.rule))
    closest = pa.Table.from_pylist(found.closest(MOST_CLOSEST))
    shorter = {"with the release": "with it", "without it": "without"}  # so that R's lines hold them
    closest = closest.rename_columns([shorter.get(name, name) for name in closest.column_names])
    return {"table": found.to_arrow(), "verdict": words, "closest": closest, "figures": figures}


def budget(table: pa.Table, whole: Sequence[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the budget, in words and numbers, its figure, and everybody's chances."""
    named = {"rows": None, **_named(given, abo.budget, abo.Records.of)}
    plan = abo.budget(table, **_reading(table, whole, named))
    people = pa.table({name: np.asarray(values) for name, values in plan.columns().items()})
    names = ("sentence", "assumptions", "confident_count", "in_all", "limiting_row", "limiting_column")
    words = {name: getattr(plan, name) for name in names}
    return {"words": words, "people": people, "figure": titled(budget_figure(plan))}


def report(table: pa.Table, whole: Sequence[str], release: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Write the report; return what it finds."""
    made = abo.report(table, release, **_judging(table, whole, given, abo.report))
    found = [{"subject": each.subject, "words": each.words} for each in made.findings]
    judged = made.verdict
    verdict = (
        None
        if judged is None
        else {name: getattr(judged, name) for name in ("may_go_out", "how_sure", "membership", "mark")}
    )
    return {"path": str(made.path), "headline": made.headline, "findings": found, "verdict": verdict}


def check(folder: str, table: pa.Table | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """Look at a release's folder, its zip file or one of its datasets."""
    named = _named(given, abo.check)
    if isinstance(named.get("schema"), Mapping):
        named["schema"] = _schema(named["schema"], ())
    done = abo.check(folder, table, **named)
    found = [{"where": each.where, "problem": each.problem, "cure": each.cure} for each in done.findings]
    return {"verdict": done.verdict, "checked": done.checked, "notes": list(done.notes), "findings": found}


def describe(
    table: pa.Table, labels: Mapping[str, str] | None, out: str | None, force: bool, given: Mapping[str, Any]
) -> dict[str, Any]:
    """Look at every column; write a draft of a table file where that is asked for."""
    found = described(table, **_reading(table, (), _named(given, described)), labels=labels)
    if out is not None:
        found.write(Path(out), force=force)
    return {"sentence": found.sentence, "columns": found.lines(), "notes": list(found.notes)}


def paper_study(out: str, given: Mapping[str, Any], force: bool) -> dict[str, Any]:
    """Make the paper again by its command; return where its page is."""
    from allbutone.cli.main import command_line

    options = [part for name, value in given.items() for part in (f"--{name}", str(_argument(value)))]
    with contextlib.redirect_stdout(io.StringIO()):  # it speaks of commands, not of R
        command_line()(["paper", "--out", out, *options, *["--force"] * force], standalone_mode=False)
    return {"page": str(Path(out, "paper.html")), "cells": str(Path(out, "study", "cells.csv"))}


# Figures: as pages and pictures of their own, or in parts that R's graphics draw.


def write(figure: Any, path: str) -> None:
    """Write a figure as a page (.html) or a picture (.png, .svg; needs Chromium)."""
    if path.endswith(".html"):
        write_figure(figure, Path(path))
    else:
        write_images({Path(path): figure})


def drawing(figure: Any) -> dict[str, Any]:
    """Return a figure's dots, lines, areas, bars and words, as numbers and simple texts."""
    parts = parts_of(figure)
    axes = {side: _plain(asdict(getattr(parts, side))) for side in "xy"}
    words, spans = ([_plain(asdict(each)) for each in some] for some in (parts.words, parts.spans))
    return {"message": _plain(parts.message), "axes": axes, "marks": list(map(_mark, parts.marks)),
            "words": words, "spans": spans}  # fmt: skip


def _mark(mark: Mark) -> dict[str, Any]:
    arrays = {name: getattr(mark, name) for name in ("x", "y", "base", "low", "high")}
    numbers = {
        name: _crossing(name, "number", each, "<f8")["bytes"] for name, each in arrays.items() if each is not None
    }
    names = ("kind", "colours", "opacity", "size", "dash", "symbol", "name")
    return numbers | {name: _plain(getattr(mark, name)) for name in names}


def _plain(part: Any) -> Any:
    """Return a part with its texts in simple letters, and its numbers in lists."""
    if isinstance(part, Mapping):
        return {name: _plain(each) for name, each in part.items()}
    if isinstance(part, list | tuple):
        return [_plain(each) for each in part]
    return part.translate(SIMPLE) if isinstance(part, str) else part
