"""Whether a release holds only what may be released: all of it looked at as an adversary would."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from allbutone.releases.archive import unpacked
from allbutone.releases.description import MANIFEST, PARAMETERS
from allbutone.releases.hygiene.against_table import Table, dataset_against_table
from allbutone.releases.hygiene.contents import attribute_finding, attributes_of, content_findings, is_release_name
from allbutone.releases.hygiene.dataset_values import Values, declared_findings, order_findings
from allbutone.releases.hygiene.findings import Flaw, ReleaseCheck, merged
from allbutone.releases.hygiene.manifest import (
    manifest_findings,
    name_findings,
    names_of_people,
    parameter_findings,
    rebuilt,
)
from allbutone.releases.hygiene.table import table_of
from allbutone.releases.hygiene.told_of_table import (
    lonely_levels,
    names_of_table,
    people_told,
    statistics_of_table,
)
from allbutone.releases.mixed.mechanism import KEEP_GAPS
from allbutone.support.errors import InputError
from allbutone.tables.declared.column import CATEGORY, Column
from allbutone.tables.declared.schema import Schema
from allbutone.tables.safe_read import parse, read_text


def check_release(
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
    >>> release = abo.NIWSynthesizer().fit(abo.demo_cohort()).sample(datasets=1)
    >>> abo.save_release(release, "release")
    >>> abo.check_release("release", abo.demo_cohort()).findings
    ()
    """
    path, how = Path(release), _Terms(table, Schema.of(schema), people_confidential)
    if path.is_dir():
        return _check_folder(path, path.resolve().name, how)
    if path.suffix.lower() == ".zip" and path.is_file():
        with unpacked(path) as (folder, outside):
            found = _check_folder(folder, path.stem, how)
        return ReleaseCheck((*outside, *found.findings), found.checked, found.notes)
    if path.suffix.lower() in (".csv", ".parquet") and path.is_file():
        return _check_file(path, how)
    raise InputError(f"{path} is no release", "name its folder, its zip file, or a .csv or .parquet file of it")


def require_clean(folder: Path) -> None:
    """Refuse what was just written if it holds anything but a release; its values are not read again."""
    from allbutone.releases.hygiene.dataset_form import form_findings

    found, release = _described(folder, parameters=False)
    if release is not None:
        for name in release.datasets:
            found += form_findings(folder / name, release.columns)
    ReleaseCheck(merged(found), "").require_clean()


@dataclass(frozen=True)
class _Release:
    """A release as its description has it: the entries, the columns, and the files of datasets that are there."""

    content: dict[str, Any]
    parameters: dict[str, Any]
    columns: tuple[Column, ...]
    datasets: tuple[str, ...]

    @property
    def kept(self) -> tuple[str, ...]:
        return tuple(self.content.get("keep", ()))

    @property
    def gaps(self) -> bool:
        return self.content.get("missing") == KEEP_GAPS


def _described(folder: Path, *, parameters: bool = True) -> tuple[list[Flaw], _Release | None]:
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
    found = list(content_findings(folder, files))
    try:
        schema = Schema.of_entries({"columns": rebuilt(content).get("declared", {})}, MANIFEST)
    except InputError as error:
        return [Flaw(MANIFEST, f"it is not the description of a release ({error.problem})"), *found], None
    found += manifest_findings(text, content)
    there = [name for name in files if is_release_name(name) and (folder / name).is_file()]
    draws: dict[str, Any] = {}
    if parameters and PARAMETERS in there:
        text = read_text(folder / PARAMETERS, "name a release")
        draws = parse(text, "JSON", str(folder / PARAMETERS))
        found += parameter_findings(text, draws, content)
    columns = schema.for_columns(content["columns"]).columns
    return found, _Release(content, draws, columns, tuple(name for name in there if name != PARAMETERS))


@dataclass(frozen=True)
class _Terms:
    """What the release is compared with, and what may be told."""

    table: Any
    schema: Schema
    people_confidential: bool

    def table_for(self, columns: Sequence[Column], kept: Sequence[str]) -> Table | None:
        return None if self.table is None else table_of(self.table, columns, kept, self.schema)


def _check_folder(folder: Path, name: str, terms: _Terms) -> ReleaseCheck:
    found, release = _described(folder)
    if release is None:
        return ReleaseCheck(merged(found), "its files")
    table = terms.table_for(release.columns, release.kept)
    rows, measured = [], []
    for each in release.datasets:
        more, count, data = _dataset_findings(folder / each, release, table)
        found += more
        rows.append(count)
        if data is not None:
            measured.append(data.measurements(release.kept))
    announced = release.content.get("rows", [])
    if not isinstance(announced, list) or not all(type(count) is int for count in announced):
        found.append(Flaw(MANIFEST, "what it announces as rows are no whole numbers"))
    elif sum(rows) != sum(announced):
        problem = f"it announces {sum(announced):,} rows, and the datasets have {sum(rows):,}"
        found.append(Flaw(MANIFEST, problem))
    notes = names_of_people(release.content["columns"])
    drawn = [column for column in release.columns if column.kind != CATEGORY and column.name not in release.kept]
    if limited := Schema(tuple(drawn)).clipped_in_words(measured):
        notes.append(f"{limited}. Who attacks knows that these were drawn beyond it, and `risk` judges them so.")
    if table is not None:
        found += _told_findings(name, release, table)
        found += _people_findings(people_told(release.content, table), terms.people_confidential, notes)
    looked = "its files and their metadata, the entries of release.json, the values and the order of their rows"
    looked += ", and what of the table is in it" if table is not None else ""
    return ReleaseCheck(merged(found), looked, tuple(notes))


def _check_file(path: Path, terms: _Terms) -> ReleaseCheck:
    """Check one dataset by itself."""
    from allbutone.releases.hygiene.loose_file import columns_in

    columns = columns_in(path)
    names = [column.name for column in columns]
    release = _Release({"columns": names, "missing": KEEP_GAPS}, {}, columns, (path.name,))
    table = terms.table_for(columns, ())
    found = list(name_findings(names, path.name))
    if attached := attributes_of(path):
        found.append(attribute_finding(path.name, attached))
    more, rows, _ = _dataset_findings(path, release, table)
    found += more
    notes = names_of_people(names)
    notes += ["One dataset by itself: how it was made, and what was declared of its columns, is not known here."]
    if table is not None:
        found += [*names_of_table(path.stem, release.content, columns, table), *lonely_levels(table)]
        told = people_told({"rows": [rows]}, table)
        found += _people_findings(told, terms.people_confidential, notes)
    return ReleaseCheck(merged(found), "the file, its values and the order of its rows", tuple(notes))


def _dataset_findings(path: Path, release: _Release, table: Table | None) -> tuple[list[Flaw], int, Values | None]:
    """Return what is wrong with one file of a dataset, how many rows it has, and its values where it has such."""
    from allbutone.releases.hygiene.dataset_form import form_findings, read_values

    found = list(form_findings(path, release.columns))
    frame, more = read_values(path, release.columns)
    found += more
    if frame is None or frame.column_names != [column.name for column in release.columns]:
        return found, 0 if frame is None else frame.num_rows, None
    try:
        data = Values.of_frame(frame, release.columns)
    except (ValueError, TypeError):
        return [*found, Flaw(path.name, "some of its values are no numbers")], frame.num_rows, None
    # along the rows, from one to the next, and beside the table
    tests = 3 * len(release.columns) * len(release.datasets)
    found += declared_findings(path.name, data, release.gaps, release.kept)
    found += order_findings(path.name, data, tests)
    if table is not None:
        found += dataset_against_table(path.name, data, table, tests)
    return found, frame.num_rows, data


def _told_findings(name: str, release: _Release, table: Table) -> Iterator[Flaw]:
    yield from names_of_table(name, release.content, release.columns, table)
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
