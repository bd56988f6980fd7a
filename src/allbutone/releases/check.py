"""Whether a release holds only what may be released: all of it looked at as an adversary would."""

import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from allbutone.releases.check_files import (
    DescribedRelease,
    Flaw,
    attribute_findings,
    content_findings,
    form_findings,
    is_release_name,
    manifest_findings,
    name_findings,
    names_of_people,
    parameter_findings,
    read_values,
    rebuilt,
    unpack,
)
from allbutone.releases.check_values import (
    Table,
    Values,
    columns_in,
    dataset_against_table,
    declared_findings,
    derived_findings,
    lonely_levels,
    names_of_table,
    order_findings,
    people_told,
    statistics_of_table,
    table_beside,
)
from allbutone.releases.description import (
    MANIFEST,
    PARAMETERS,
)
from allbutone.releases.mechanism import KEEP_GAPS, declared_in
from allbutone.support.errors import InputError
from allbutone.support.text import ShowsItself, counted
from allbutone.tables.column import CATEGORY
from allbutone.tables.long_tables import widen
from allbutone.tables.safe_io import parse, read_text
from allbutone.tables.schema import Schema


@dataclass(frozen=True, repr=False)
class ReleaseCheck(ShowsItself):
    """What `check` found.

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
    merged = []
    for (problem, cure), where in places.items():
        names = list(dict.fromkeys(where))
        merged.append(Flaw(names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else ""), problem, cure))
    return tuple(merged)


def check(
    release: str | PathLike[str],
    table: Any = None,
    *,
    schema: Any = None,
    people_confidential: bool = False,
) -> ReleaseCheck:
    """Look at a release's folder, its zip file or one of its datasets for all that may not be released.

    That is: a repeat key, the posterior, statistics of the data, more files, columns or digits than declared,
    metadata of files, an order of rows, data as names. With the `table`, in a file, a frame or `Records`: rows,
    values, order and statistics that were carried over, names and levels that tell of a person. `schema` (a table
    file) says which levels were public before, `people_confidential` that the number of people may not be told.

    >>> import allbutone as abo
    >>> release = abo.Synthesizer().fit(abo.demo_cohort()).sample(datasets=1)
    >>> abo.save_release(release, "release")
    >>> abo.check("release", abo.demo_cohort()).findings
    ()
    """
    path, how = Path(release), _Terms(table, Schema.of(schema), people_confidential)
    if path.is_dir():
        return _check_folder(path, path.resolve().name, how)
    if path.suffix.lower() == ".zip" and path.is_file():
        with tempfile.TemporaryDirectory(prefix="allbutone-") as place:
            outside = unpack(path, Path(place))
            inside = _check_folder(Path(place), path.stem, how)
        return ReleaseCheck((*outside, *inside.findings), inside.checked, inside.notes)
    if path.suffix.lower() in (".csv", ".parquet") and path.is_file():
        return _check_file(path, how)
    raise InputError(f"{path} is no release", "name its folder, its zip file, or a .csv or .parquet file of it")


def require_clean(folder: Path) -> None:
    """Refuse what was just written if it holds anything but a release; its values are not read again."""
    findings, release = _described(folder, parameters=False)
    if release is not None:
        for name in release.datasets:
            findings += form_findings(folder / name, release.in_files)
    ReleaseCheck(merged(findings), "").require_clean()


def _described(folder: Path, *, parameters: bool = True) -> tuple[list[Flaw], DescribedRelease | None]:
    """Return what is wrong with a folder's files and their description, and the release if they describe one.

    `parameters`: whether their draws are read, too.
    """
    if not (folder / MANIFEST).is_file():
        problem = "it is not there, so nobody can tell how the data were made"
        return [Flaw(MANIFEST, problem, "name the folder that allbutone wrote")], None
    text = read_text(folder / MANIFEST, "name a release")
    content = parse(text, "JSON", str(folder / MANIFEST))
    files = content.get("files") if isinstance(content, dict) else None
    if not isinstance(files, list) or not all(isinstance(name, str) for name in files):
        return [Flaw(MANIFEST, "it is not the description of a release")], None
    findings = list(content_findings(folder, files))
    try:
        schema = declared_in(rebuilt(content), MANIFEST)
    except InputError as error:
        return [Flaw(MANIFEST, f"it is not the description of a release ({error.problem})"), *findings], None
    findings += manifest_findings(text, content)
    there = [name for name in files if is_release_name(name) and (folder / name).is_file()]
    draws: dict[str, Any] = {}
    if parameters and PARAMETERS in there:
        text = read_text(folder / PARAMETERS, "name a release")
        draws = parse(text, "JSON", str(folder / PARAMETERS))
        findings += parameter_findings(text, draws, content)
    layout = content.get("layout", ())
    schema = replace(schema, layout=tuple(layout)).for_columns(content["columns"])
    files = tuple(name for name in there if name != PARAMETERS)
    return findings, DescribedRelease(content, draws, schema.released_columns, files, schema)


@dataclass(frozen=True)
class _Terms:
    """What the release is compared with, and what may be told."""

    table: Any
    schema: Schema
    people_confidential: bool

    def table_for(self, release: DescribedRelease) -> Table | None:
        return None if self.table is None else table_beside(self.table, release, self.schema)


def _check_folder(folder: Path, name: str, terms: _Terms) -> ReleaseCheck:
    findings, release = _described(folder)
    if release is None:
        return ReleaseCheck(merged(findings), "its files")
    table = terms.table_for(release)
    rows, measured = [], []
    for each in release.datasets:
        more, count, data = _dataset_findings(folder / each, release, table)
        findings += more
        rows.append(count)
        if data is not None:
            measured.append(data.measurements(release.not_drawn))
    announced = release.content.get("rows", [])
    if not isinstance(announced, list) or not all(type(count) is int for count in announced):
        findings.append(Flaw(MANIFEST, "what it announces as rows are no whole numbers"))
    elif sum(rows) != sum(announced):
        problem = f"it announces {sum(announced):,} rows, and the datasets have {sum(rows):,}"
        findings.append(Flaw(MANIFEST, problem))
    notes = names_of_people([column.name for column in release.columns])
    drawn = [
        column for column in release.columns if column.kind != CATEGORY and column.name not in release.not_drawn
    ]
    if limited := Schema(tuple(drawn)).clipped_in_words(measured):
        notes.append(f"{limited}. Who attacks knows that these were drawn beyond it, and `risk` judges them so.")
    if table is not None:
        findings += _told_findings(name, release, table)
        findings += _people_findings(people_told(release.content, table), terms.people_confidential, notes)
    looked = "its files and their metadata, the entries of release.json, the values and the order of their rows"
    looked += ", and what of the table is in it" if table is not None else ""
    return ReleaseCheck(merged(findings), looked, tuple(notes))


def _check_file(path: Path, terms: _Terms) -> ReleaseCheck:
    """Check one dataset by itself."""
    columns, schema = columns_in(path), Schema()
    names = [column.name for column in columns]
    if (visits := terms.schema.visits) is not None:
        columns = visits.widened([each for each in columns if each.name not in (visits.person, visits.visit)])
        schema = Schema(columns, visits=visits)
    release = DescribedRelease({"columns": names, "missing": KEEP_GAPS}, {}, columns, (path.name,), schema)
    table = terms.table_for(release)
    findings = list(name_findings(names, path.name))
    findings += attribute_findings(path)
    more, rows, _ = _dataset_findings(path, release, table)
    findings += more
    notes = names_of_people(names)
    notes += ["One dataset by itself: how it was made, and what was declared of its columns, is not known here."]
    if table is not None:
        findings += [*names_of_table(path.stem, columns, table), *lonely_levels(table)]
        told = people_told({"rows": [rows]}, table)
        findings += _people_findings(told, terms.people_confidential, notes)
    return ReleaseCheck(merged(findings), "the file, its values and the order of its rows", tuple(notes))


def _dataset_findings(
    path: Path, release: DescribedRelease, table: Table | None
) -> tuple[list[Flaw], int, Values | None]:
    """Return what is wrong with one file of a dataset, how many rows it has, and its values where it has such."""
    findings = list(form_findings(path, release.in_files))
    frame, more = read_values(path, release.in_files)
    findings += more
    if frame is None or frame.column_names != [column.name for column in release.in_files]:
        return findings, 0 if frame is None else frame.num_rows, None
    if (visits := release.schema.visits) is not None:
        try:
            long = widen(frame, release.schema, [column.name for column in release.columns])
        except InputError as error:
            return [*findings, Flaw(path.name, f"it is no table of visits: {error.problem}")], 0, None
        if not np.array_equal(long.people, np.arange(1, len(long.people) + 1)):
            problem = f"{visits.person!r} does not number people 1, 2, 3, …, as new ones are numbered"
            findings.append(Flaw(path.name, f"{problem}: identifiers of the table may never go out"))
        frame = long.table
    try:
        data = Values.of_frame(frame, release.columns)
    except (ValueError, TypeError):
        return [*findings, Flaw(path.name, "some of its values are no numbers")], frame.num_rows, None
    # along the rows, from one to the next, and beside the table
    tests = 3 * len(release.columns) * len(release.datasets)
    findings += declared_findings(path.name, data, release.gaps, release)
    findings += derived_findings(path.name, data, release.schema)
    findings += order_findings(path.name, data, tests)
    if table is not None:
        findings += dataset_against_table(path.name, data, table, tests)
    return findings, frame.num_rows, data


def _told_findings(name: str, release: DescribedRelease, table: Table) -> Iterator[Flaw]:
    yield from names_of_table(name, release.columns, table)
    yield from lonely_levels(table)
    drawn = [place for place in table.drawn if release.columns[place].kind != CATEGORY]
    schema = Schema(tuple(release.columns[place] for place in drawn))
    with np.errstate(all="ignore"):  # values outside a scale are left out below
        model = schema.to_model(table.values.numbers[:, drawn])
    yield from statistics_of_table(release.content, release.parameters, table, model)


def _people_findings(ways: list[str], confidential: bool, notes: list[str]) -> Iterator[Flaw]:
    """Tell how a release tells the number of people: a fault where that is confidential, else a note."""
    for way in ways:
        if confidential:
            cure = "draw the release again with another number of rows (--rows), and a cell weight (--cell-weight)"
            yield Flaw(MANIFEST, f"it tells how many people the table has: {way}", cure)
        else:
            notes.append(f"It tells how many people the table has: {way}. Fine where that is public.")
