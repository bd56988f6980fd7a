"""The files of a release: those that its description lists, as allbutone writes them, and nothing besides."""

import io
import lzma
import os
import re
import zipfile
import zlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet

from allbutone.releases.description import (
    MADE_BY,
    MANIFEST,
    MECHANISMS,
    PARAMETERS,
    json_text,
    parameters_from,
    parameters_text,
    shapes_of_parameters,
)
from allbutone.releases.mechanism import GENERAL_LOCATION, KEEP_GAPS, NORMAL, REFUSE, Mechanism
from allbutone.releases.private_release import MODEL as GUARANTEED
from allbutone.releases.private_release import guaranteed_entries, guaranteed_from
from allbutone.support.errors import InputError
from allbutone.tables.column import CATEGORY, Column
from allbutone.tables.files import LIMITS
from allbutone.tables.names import check_names, looks_like_identifier
from allbutone.tables.safe_io import NOT_AS_WRITTEN, read_bytes
from allbutone.tables.schema import Schema

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
class DescribedRelease:
    """A release as its description has it: the entries, the columns, and the files of datasets that are there."""

    content: dict[str, Any]
    parameters: dict[str, Any]
    columns: tuple[Column, ...]
    datasets: tuple[str, ...]
    schema: Schema = field(default_factory=Schema)

    @property
    def kept(self) -> tuple[str, ...]:
        """The columns that go out as they are."""
        return tuple(self.content.get("keep", ()))

    @property
    def derived(self) -> tuple[str, ...]:
        """The columns that are computed from others of their row."""
        return tuple(column.name for column in self.schema.derived)

    @property
    def not_drawn(self) -> tuple[str, ...]:
        """The columns that are kept or computed."""
        return (*self.kept, *self.derived)

    @property
    def in_files(self) -> tuple[Column, ...]:
        """The columns of its files: of a long table those, the person and the visit among them."""
        return self.columns if self.schema.visits is None else self.schema.visits.as_written(self.columns)

    @property
    def gaps(self) -> bool:
        """Whether synthetic values may be missing."""
        return self.content.get("missing") == KEEP_GAPS


# A release as one zip file that tells nothing of the computer it was made on, and whether another one does.


_PACK_ANEW = "unpack it, and let allbutone check FOLDER --zip FILE write it again"
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


def unpack(path: Path, place: Path) -> list[Flaw]:
    """Put an archive's files into a folder, and return what the archive tells besides."""
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            LIMITS.require(path.name, 0, 0, sum(entry.file_size for entry in entries))
            # files of the folder itself: nothing deeper, above or elsewhere
            flat = [
                each
                for each in entries
                if each.filename not in ("", "..") and Path(each.filename).name == each.filename
            ]
            for entry in flat:
                (place / entry.filename).write_bytes(archive.read(entry))
            return list(_archive_findings(path, archive, len(entries) - len(flat)))
    except InputError:
        raise
    except _UNREADABLE as error:
        raise InputError(f"{path.name} is not a zip file that can be read ({error})", "zip it again") from error


def _archive_findings(path: Path, archive: zipfile.ZipFile, deeper: int) -> Iterator[Flaw]:
    entries = archive.infolist()
    if archive.comment or any(entry.comment for entry in entries):
        yield Flaw(path.name, "the archive holds a comment", _PACK_ANEW)
    if any(entry.date_time != _EPOCH for entry in entries):
        yield Flaw(path.name, "the archive tells when each file was written", _PACK_ANEW)
    if any(entry.extra for entry in entries):
        yield Flaw(path.name, "the archive holds extra fields, such as numbers of a user and a group", _PACK_ANEW)
    if deeper:
        yield Flaw(path.name, "the archive holds folders, whose names tell a path", _PACK_ANEW)
    if len({entry.filename for entry in entries}) < len(entries):
        yield Flaw(path.name, "the archive holds a file twice", _PACK_ANEW)
    told = sum(entry.compress_size for entry in entries)
    # a local header of 30 bytes, an entry of the directory of 46, both with the name, and an end of 22
    frame = sum(30 + 46 + 2 * len(entry.filename.encode()) for entry in entries) + 22
    if path.stat().st_size != told + frame and not any(entry.extra or entry.comment for entry in entries):
        yield Flaw(path.name, "the archive holds bytes that belong to none of its files", _PACK_ANEW)


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
        else:
            yield from attribute_findings(Path(entry.path))
    for name in listed:
        if not is_release_name(name):
            told = "a name that allbutone does not give, and a name can tell whose data it is"
            yield Flaw(MANIFEST, f"it lists {name!r:.80}, {told}", AS_WRITTEN)
        elif name not in found:
            yield Flaw(MANIFEST, f"it lists {name}, which is not there", AS_WRITTEN)


def is_release_name(name: str) -> bool:
    """Say whether a file of a release may be called so."""
    return name == PARAMETERS or bool(_DATASET.fullmatch(name))


def attribute_findings(path: Path) -> Iterator[Flaw]:
    """Find what programs and people attached to a file, such as where it came from."""
    try:
        attached = [name for name in os.listxattr(path) if name.startswith("user.")]
    except (OSError, AttributeError):  # this file system, or this system, keeps none
        return
    if attached:
        problem = f"the file carries attributes beside its content: {', '.join(attached):.200}"
        yield Flaw(path.name, problem, "remove them (setfattr -x), or copy the file without them")


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
    counts = [content[name] for name in ("datasets", "draws") if name in content]
    for name in ("rows", "parts"):
        value = content.get(name, [])
        counts += value if isinstance(value, list) else ["no list"]
    if not all(type(count) is int and count >= 0 for count in counts):
        yield Flaw(MANIFEST, "its sizes are not all whole numbers")
    yield from name_findings(content["columns"], MANIFEST)


def rebuilt(content: dict[str, Any]) -> dict[str, Any]:
    """Return what allbutone would write for the release described here; refuse what describes none."""
    try:
        if content.get("model") == GUARANTEED:
            return guaranteed_entries(guaranteed_from(content, MANIFEST), content.get("missing", REFUSE))
        if not isinstance(content["columns"], list):
            raise TypeError("columns must be a list of text")
        entries = Mechanism.of_entries(content, MANIFEST).entries(general="model" in content)
        words, files = MECHANISMS[entries.get("model", NORMAL)], content["files"]
        kind = "datasets" if PARAMETERS not in files else "both" if len(files) > 1 else "parameters"
        return {"release": kind, "mechanism": words} | entries
    except NOT_AS_WRITTEN as error:  # an InputError is a ValueError
        if isinstance(error, InputError):
            raise
        raise InputError(f"an entry is missing or wrong: {error!r:.120}", AS_WRITTEN) from error


def _reason(name: str) -> str:
    found = (why for words, why in _REASONS if re.search(words, name.lower()))
    return next(found, "nothing that a release's description holds")


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
        mechanism, parameters = Mechanism.of_entries(manifest, MANIFEST), parameters_from(content)
        arrays = list(vars(parameters).values())
        wanted = shapes_of_parameters(mechanism, manifest["draws"])
        if [each.shape for each in arrays] != wanted or not all(np.isfinite(each).all() for each in arrays):
            raise ValueError(f"{len(parameters)} draws")
    except NOT_AS_WRITTEN as error:
        yield Flaw(PARAMETERS, f"it does not hold the draws that {MANIFEST} announces ({error!r:.120})")
        return
    general = manifest.get("model") == GENERAL_LOCATION
    if text != "".join(parameters_text(mechanism, parameters, general=general)):
        yield Flaw(PARAMETERS, "it holds more than draws of the parameters, or not as allbutone writes them")


# The form of a dataset's file: nothing in it but its values, written as allbutone writes them.


_ARROW = b"ARROW:schema"  # the types of the columns once more, in Arrow's own words
_CREATED_BY = re.compile(r"parquet-cpp-arrow version \d+(\.\d+)*(-\w+)?")
_ENDS = 12  # bytes of a Parquet file besides its pages and footer: PAR1 twice, and the footer's length
_MADE_AGAIN = "write it again with allbutone (save_release), not with another program"


def form_findings(path: Path, columns: Sequence[Column]) -> Iterator[Flaw]:
    """Find, without reading its values, what a file holds besides the columns of the release."""
    names = [column.name for column in columns]
    try:
        if path.suffix == ".parquet":
            yield from _footer_findings(path, names)
        else:
            expected = _first_line(tuple(names))
            with path.open("rb") as file:
                if file.read(len(expected)) != expected:
                    yield Flaw(
                        path.name, "its first line is not the names of the release's columns, and only these"
                    )
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        yield Flaw(path.name, f"it cannot be read as the release's columns ({str(error).splitlines()[0]:.120})")


def read_values(path: Path, columns: Sequence[Column]) -> tuple[pa.Table | None, list[Flaw]]:
    """Read a dataset's file, and find what its text or pages tell besides the values."""
    try:
        if path.suffix == ".parquet":
            content = pyarrow.parquet.ParquetFile(path)
            LIMITS.require(path.name, len(columns), content.metadata.num_rows * len(columns), 0)
            table = content.read()
            return table, list(_statistics_findings(path, content.metadata, table))
        text = read_bytes(path, "name a release")
        types = {each.name: _written_as(each) for each in columns}
        how = pa.csv.ConvertOptions(column_types=types, null_values=[""], strings_can_be_null=True)
        table = pa.csv.read_csv(io.BytesIO(text), convert_options=how)
        _ = table.column_names  # decodes them
        if text == (expected := _as_text(table)):
            return table, []
        # its text says more than its values: comments, spaces, digits in another form, a mark at its start
        pairs = enumerate(zip(text.split(b"\n"), expected.split(b"\n"), strict=False), start=1)
        line = next((number for number, (found, wanted) in pairs if found != wanted), text.count(b"\n") + 1)
        problem = (
            "its text is not as allbutone writes these values: comments, spaces, quotes or digits can carry more"
        )
        return table, [Flaw(f"{path.name}, line {line}", problem, _MADE_AGAIN)]
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        problem = f"it cannot be read as the release's columns ({str(error).splitlines()[0]:.120})"
        return None, [Flaw(path.name, problem)]


def _written_as(column: Column) -> pa.DataType:
    """Return what a column stands as in a text file: dates in the types that they are written by."""
    if column.calendar is not None:
        kind = column.calendar.written(np.zeros(1)).type
        return pa.timestamp("s") if pa.types.is_timestamp(kind) else kind
    return pa.string() if column.kind == CATEGORY else pa.float64()


@lru_cache(maxsize=1)  # the same for every dataset of a release
def _first_line(names: tuple[str, ...]) -> bytes:
    return _as_text(pa.table({name: pa.array([], pa.float64()) for name in names}))


def _as_text(table: pa.Table) -> bytes:
    file = io.BytesIO()
    pa.csv.write_csv(table, file)
    return file.getvalue()


def _footer_findings(path: Path, names: list[str]) -> Iterator[Flaw]:
    """Find what a Parquet file tells beside its pages: Parquet has many pockets, and programs fill them."""
    with pyarrow.parquet.ParquetFile(path) as content:
        footer, schema = content.metadata, content.schema_arrow
        # begin to read every group of rows, which refuses a damaged footer: asked for a part of it about a single
        # column, Arrow would end the whole process
        for group in range(footer.num_row_groups):
            next(content.iter_batches(batch_size=1, row_groups=[group]), None)
    if schema.names != names:
        yield Flaw(path.name, f"its columns are {', '.join(schema.names):.200}, not those of the release")
    told = [*(footer.metadata or {}), *(schema.metadata or {})]
    for column in schema:
        told += [key for key in column.metadata or {} if key != b"PARQUET:field_id"]
    if extra := sorted({key.decode(errors="replace") for key in told if key != _ARROW}):
        why = "; pandas puts the table's row labels there" if "pandas" in extra else ""
        yield Flaw(path.name, f"its footer holds metadata: {', '.join(extra):.200}{why}", _MADE_AGAIN)
    if not _CREATED_BY.fullmatch(footer.created_by or ""):
        problem = f"its footer says that {footer.created_by!r:.80} created it, which is not how allbutone writes"
        yield Flaw(path.name, problem, _MADE_AGAIN)
    places = np.ndindex(footer.num_row_groups, footer.num_columns)
    chunks = [footer.row_group(group).column(place) for group, place in places]
    if any(chunk.file_path for chunk in chunks):
        yield Flaw(path.name, "its footer holds paths of other files", _MADE_AGAIN)
    used = sum(chunk.total_compressed_size for chunk in chunks) + footer.serialized_size + _ENDS
    if path.stat().st_size != used:
        problem = f"it holds {path.stat().st_size - used:,} bytes that belong to none of its columns"
        yield Flaw(path.name, problem, _MADE_AGAIN)


def _statistics_findings(path: Path, footer: Any, table: pa.Table) -> Iterator[Flaw]:
    """Find smallest and largest values in the footer that are not those of the synthetic values."""
    start = 0
    for group in range(footer.num_row_groups):
        about = footer.row_group(group)
        part = table.slice(start, about.num_rows)
        start += about.num_rows
        for place, name in enumerate(table.column_names):
            told, values = about.column(place).statistics, part.column(place)
            if told is None or not told.has_min_max or len(values) == values.null_count:
                continue
            values = values.cast(pa.string()) if pa.types.is_dictionary(values.type) else values
            found = pa.compute.min_max(values)
            if (told.min, told.max) != (found["min"].as_py(), found["max"].as_py()):
                problem = f"its footer tells other smallest and largest values of {name!r} than the column has"
                yield Flaw(path.name, problem, _MADE_AGAIN)
