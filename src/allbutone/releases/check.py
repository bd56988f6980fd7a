"""Whether a release holds only what may be released: all of it looked at as an adversary would."""

import io
import lzma
import os
import re
import tempfile
import zipfile
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from allbutone.model.location import Parameters
from allbutone.releases.check_against_table import (
    Table,
    dataset_against_table,
    lonely_levels,
    names_of_table,
    people_told,
    statistics_of_table,
    table_of,
)
from allbutone.releases.check_values import (
    AS_WRITTEN,
    Flaw,
    ReleaseCheck,
    Values,
    declared_findings,
    merged,
    order_findings,
)
from allbutone.releases.description import (
    MADE_BY,
    MANIFEST,
    MECHANISMS,
    PARAMETERS,
    json_text,
    parameters_text,
    terms_of,
)
from allbutone.releases.mechanism import GENERAL_LOCATION, KEEP_GAPS, NORMAL, Mechanism
from allbutone.releases.private_release import MODEL as GUARANTEED
from allbutone.releases.private_release import guaranteed_entries, guaranteed_from
from allbutone.support.errors import InputError
from allbutone.tables.column import CATEGORY, Column
from allbutone.tables.files import LIMITS
from allbutone.tables.names import check_names, looks_like_identifier
from allbutone.tables.safe_io import NOT_AS_WRITTEN, parse, read_text
from allbutone.tables.schema import Schema

# A release as one zip file that tells nothing of the computer it was made on, and whether another one does.


_AGAIN = "unpack it, and let allbutone check FOLDER --zip FILE write it again"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the first time that a zip file can tell
# what zipfile says of damage, of a password or compression that it does not know, of names that no file can have
_UNREADABLE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, RuntimeError, OSError, ValueError)
_LINUX, _READABLE = 3, 0o644 << 16


def zip_release(folder: Path) -> bytes:
    """Return a folder's files as a zip file: names and content, without times, users or paths."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for path in sorted(folder.iterdir()):
            about = zipfile.ZipInfo(path.name, _EPOCH)  # whatever the clock says
            about.create_system, about.external_attr = _LINUX, _READABLE
            archive.writestr(about, path.read_bytes(), zipfile.ZIP_DEFLATED, compresslevel=3)
    return content.getvalue()


@contextmanager
def unpacked(path: Path) -> Iterator[tuple[Path, list[Flaw]]]:
    """Yield a folder with an archive's files, and what the archive tells besides."""
    with tempfile.TemporaryDirectory(prefix="allbutone-") as place:
        yield Path(place), _unpack(path, Path(place))


def _unpack(path: Path, place: Path) -> list[Flaw]:
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            LIMITS.require(path.name, 0, 0, sum(entry.file_size for entry in entries))
            flat = [entry for entry in entries if _is_plain(entry.filename)]
            for entry in flat:
                (place / entry.filename).write_bytes(archive.read(entry))
            return list(_archive_findings(path, archive, len(entries) - len(flat)))
    except InputError:
        raise
    except _UNREADABLE as error:
        raise InputError(f"{path.name} is not a zip file that can be read ({error})", "zip it again") from error


def _is_plain(name: str) -> bool:
    """Return whether it names a file in the folder itself: nothing deeper, above or elsewhere."""
    return name not in ("", "..") and Path(name).name == name


def _archive_findings(path: Path, archive: zipfile.ZipFile, deeper: int) -> Iterator[Flaw]:
    entries = archive.infolist()
    if archive.comment or any(entry.comment for entry in entries):
        yield Flaw(path.name, "the archive holds a comment", _AGAIN)
    if any(entry.date_time != _EPOCH for entry in entries):
        yield Flaw(path.name, "the archive tells when each file was written", _AGAIN)
    if any(entry.extra for entry in entries):
        yield Flaw(path.name, "the archive holds extra fields, such as the numbers of a user and a group", _AGAIN)
    if deeper:
        yield Flaw(path.name, "the archive holds folders, whose names tell a path", _AGAIN)
    if len({entry.filename for entry in entries}) < len(entries):
        yield Flaw(path.name, "the archive holds a file twice", _AGAIN)
    told = sum(entry.compress_size for entry in entries)
    # a local header of 30 bytes, an entry of the directory of 46, both with the name, and an end of 22
    frame = sum(30 + 46 + 2 * len(entry.filename.encode()) for entry in entries) + 22
    if path.stat().st_size != told + frame and not any(entry.extra or entry.comment for entry in entries):
        yield Flaw(path.name, "the archive holds bytes that belong to none of its files", _AGAIN)


# The files of a release: those that its description lists, under names that allbutone gives, and no others.


_DATASET = re.compile(r"dataset-\d{3,}(\.part-\d{4})?\.(csv|parquet)")
_OUT = "move it out of the folder"
# what people put beside a release, by the end of the name, and why it may not go out
_KNOWN = {
    ".ledger.toml": "it is the ledger, which tells how many people the table has and what was drawn of it",
    ".html": "it is a page; a report describes individual records, and even a public one goes beside the folder",
    ".toml": "it may be a table file or a prior",
    ".json": "it may be a fitted synthesizer or moments, which are statistics of the table",
    ".csv": "it is a table that the release does not list; it may hold records, or their risk",
    ".parquet": "it is a table that the release does not list; it may hold records",
    ".pkl": "nobody can see what it holds, and opening it can run a program",
    ".zip": "nobody can see what it holds",
}


def content_findings(folder: Path, listed: Collection[str]) -> Iterator[Flaw]:
    """Find what a folder holds besides what its description lists, and what is not as allbutone writes it.

    Times of files are not judged: they tell when a release was drawn or copied, and nothing of the table.
    """
    found = set()
    for entry in os.scandir(folder):
        found.add(entry.name)
        if entry.is_symlink():
            yield Flaw(entry.name, "it is a link, which leads elsewhere and tells a path", _OUT)
        elif not entry.is_file():
            yield Flaw(entry.name, "it is a folder, and a release has none", _OUT)
        elif entry.name not in listed and entry.name != MANIFEST:
            yield Flaw(entry.name, f"it is no part of the release: {_because(entry.name)}", _OUT)
        elif attached := attributes_of(entry.path):
            yield attribute_finding(entry.name, attached)
    for name in listed:
        if not is_release_name(name):
            told = "a name that allbutone does not give, and a name can tell whose data it is"
            yield Flaw(MANIFEST, f"it lists {name!r:.80}, {told}", AS_WRITTEN)
        elif name not in found:
            yield Flaw(MANIFEST, f"it lists {name}, which is not there", AS_WRITTEN)


def is_release_name(name: str) -> bool:
    """Say whether a file of a release may be called so."""
    return name == PARAMETERS or bool(_DATASET.fullmatch(name))


def attributes_of(path: str | Path) -> list[str]:
    """Return the names of what programs and people attached to a file, such as where it came from."""
    if not hasattr(os, "listxattr"):
        return []
    try:
        return [name for name in os.listxattr(path) if name.startswith("user.")]
    except OSError:  # this file system keeps none
        return []


def attribute_finding(name: str, attached: list[str]) -> Flaw:
    """Say that something is attached to a file."""
    problem = f"the file carries attributes beside its content: {', '.join(attached):.200}"
    return Flaw(name, problem, "remove them (setfattr -x), or copy the file without them")


def _because(name: str) -> str:
    if name.startswith("."):
        return "it is a hidden file, which some program left there"
    ways = (why for ending, why in _KNOWN.items() if name.lower().endswith(ending))
    return next(ways, "nobody has said what it holds")


# release.json and parameters.json: every entry is one that allbutone writes, as it writes it.


_SIZES = frozenset({"datasets", "rows", "files", "parts", "draws"})
_REASONS = (  # why an entry of such a name may not go out
    (r"seed|key|random|rng|entropy|state", "with it the release can be drawn again, and a missing record found"),
    (
        r"posterior|mean|covarian|moment|statistic|people|records|count|n$|min|max",
        "it tells a statistic of the data",
    ),
    (r"path|user|host|author|file|folder|table|date|time|created", "it tells who made the release, where or when"),
)
_MADE_BY = re.compile(r"allbutone \d+(\.\d+)*([a-z]+\d*)*(\+[\w.]+)?")


def manifest_findings(text: str, content: dict[str, Any]) -> Iterator[Flaw]:
    """Find what release.json says beyond the public part of the mechanism."""
    if text != json_text(content):
        yield Flaw(MANIFEST, "it is not written as allbutone writes it: spaces, order or entries given twice")
    made_by, expected = str(content.get("made_by")), rebuilt(content)
    if not _MADE_BY.fullmatch(made_by):
        yield Flaw(MANIFEST, "it does not say which version of allbutone made it, or says more")
    for name in content:
        if name not in expected and name not in {"made_by", *_SIZES}:
            yield Flaw(MANIFEST, f"it has an entry {name!r:.60}: {_reason(name)}", "remove the entry")
    for name, value in expected.items():
        if name != "made_by" and content.get(name) != value:
            other = _MADE_BY.fullmatch(made_by) and made_by != MADE_BY
            cure = f"check it with the version that made it, {made_by}" if other else AS_WRITTEN
            yield Flaw(MANIFEST, f"its entry {name!r} is not as allbutone writes it", cure)
    yield from _size_findings(content)
    yield from name_findings(content["columns"], MANIFEST)


def rebuilt(content: dict[str, Any]) -> dict[str, Any]:
    """Return what allbutone would write for the release described here; refuse what describes none."""
    try:
        if content.get("model") == GUARANTEED:
            return guaranteed_entries(guaranteed_from(content, MANIFEST))
        if not isinstance(content["columns"], list):
            raise TypeError("columns must be a list of text")
        entries = Mechanism.of_entries(content, MANIFEST).entries(general="model" in content)
        words = MECHANISMS[entries.get("model", NORMAL)]
        return {"release": _kind(content), "mechanism": words} | entries
    except NOT_AS_WRITTEN as error:  # an InputError is a ValueError
        if isinstance(error, InputError):
            raise
        raise InputError(f"an entry is missing or wrong: {error!r:.120}", AS_WRITTEN) from error


def _kind(content: dict[str, Any]) -> str:
    files = content["files"]
    return "datasets" if PARAMETERS not in files else "both" if len(files) > 1 else "parameters"


def _reason(name: str) -> str:
    found = (why for words, why in _REASONS if re.search(words, name.lower()))
    return next(found, "nothing that a release's description holds")


def _size_findings(content: dict[str, Any]) -> Iterator[Flaw]:
    """Find sizes that are anything else than whole numbers."""
    counts = [content[name] for name in ("datasets", "draws") if name in content]
    for name in ("rows", "parts"):
        value = content.get(name, [])
        counts += value if isinstance(value, list) else ["no list"]
    if not all(type(count) is int and count >= 0 for count in counts):
        yield Flaw(MANIFEST, "its sizes are not all whole numbers")


def name_findings(names: list[str], where: str) -> Iterator[Flaw]:
    """Find names of columns that read as data."""
    try:
        check_names(names)
    except InputError as error:
        yield Flaw(where, error.problem, "rename the column in the table, and draw the release again")


def names_of_people(names: list[str]) -> list[str]:
    """Return a note on each column that is named as what tells people apart."""
    odd = [name for name in names if looks_like_identifier(name)]
    return [f"The column {name!r} is named as what tells people apart: leave it out if it does." for name in odd]


def parameter_findings(text: str, content: dict[str, Any], manifest: dict[str, Any]) -> Iterator[Flaw]:
    """Find what parameters.json holds beyond the draws that release.json announces."""
    try:
        expected = (
            _mixed_text(content, manifest)
            if manifest.get("model") == GENERAL_LOCATION
            else _text(content, manifest)
        )
    except NOT_AS_WRITTEN as error:
        yield Flaw(PARAMETERS, f"it does not hold the draws that {MANIFEST} announces ({error!r:.120})")
        return
    if text != expected:
        problem = "it holds more than draws of the parameters, or not as allbutone writes them"
        yield Flaw(PARAMETERS, problem)


def _text(content: dict[str, Any], manifest: dict[str, Any]) -> str:
    columns, p = manifest["columns"], len(manifest["columns"])
    shapes = {"mean": (p,), "covariance": (p, p)}
    draws = [{name: _numbers(draw[name], shape) for name, shape in shapes.items()} for draw in content["draws"]]
    if len(draws) != manifest["draws"]:
        raise ValueError(f"{len(draws)} draws")
    return "".join(parameters_text(columns, draws))


def _mixed_text(content: dict[str, Any], manifest: dict[str, Any]) -> str:
    mechanism = Mechanism.of_entries(manifest, MANIFEST)
    model, m = mechanism.prior, manifest["draws"]
    own = model.cells.count if model.is_separate else 1
    shapes = [(m, model.cells.count), (m, model.terms, model.p), (m, own, model.p, model.p)]
    names = Parameters.__dataclass_fields__
    told = {name: _numbers(content[name], shape) for name, shape in zip(names, shapes, strict=True)}
    return json_text({"columns": list(mechanism.measurements), "terms": terms_of(mechanism)} | told)


def _numbers(given: Any, shape: tuple[int, ...]) -> Any:
    found = np.array(given, dtype=np.float64)
    if found.shape != shape or not np.isfinite(found).all():
        raise ValueError(f"shape {found.shape}")
    return found.tolist()


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
    >>> release = abo.Synthesizer().fit(abo.demo_cohort()).sample(datasets=1)
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
    from allbutone.releases.check_values import form_findings

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
    from allbutone.releases.check_values import columns_in

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
    from allbutone.releases.check_values import form_findings, read_values

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
