"""Whether a release holds only what may be released: all of it looked at as an adversary would."""

import io
import lzma
import os
import re
import tempfile
import zipfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import inf, isclose, lgamma, log, pi, sqrt
from os import PathLike
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet
from jaxtyping import Float, UInt
from scipy.special import ndtri, pdtrc

from allbutone.model.location import JEFFREYS
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
from allbutone.releases.mechanism import GENERAL_LOCATION, KEEP_GAPS, NORMAL, Mechanism
from allbutone.releases.private_release import MODEL as GUARANTEED
from allbutone.releases.private_release import guaranteed_entries, guaranteed_from
from allbutone.support.errors import InputError
from allbutone.support.text import ShowsItself, counted, listed
from allbutone.tables.admission import row_prints
from allbutone.tables.column import CATEGORY, Column, Scale, level_name
from allbutone.tables.files import LIMITS, read_table
from allbutone.tables.look import look_at_column
from allbutone.tables.names import check_names, chosen_frame, looks_like_identifier
from allbutone.tables.records import Records
from allbutone.tables.safe_io import NOT_AS_WRITTEN, parse, read_bytes, read_text
from allbutone.tables.schema import Schema

# What was found in a release that may not go out, where, and what to do about it.


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
    found = []
    for (problem, cure), where in places.items():
        names = list(dict.fromkeys(where))
        found.append(Flaw(names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else ""), problem, cure))
    return tuple(found)


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


def _unpack(path: Path, place: Path) -> list[Flaw]:
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


def _content_findings(folder: Path, listed: Collection[str]) -> Iterator[Flaw]:
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
            yield from _attribute_findings(Path(entry.path))
    for name in listed:
        if not _is_release_name(name):
            told = "a name that allbutone does not give, and a name can tell whose data it is"
            yield Flaw(MANIFEST, f"it lists {name!r:.80}, {told}", AS_WRITTEN)
        elif name not in found:
            yield Flaw(MANIFEST, f"it lists {name}, which is not there", AS_WRITTEN)


def _is_release_name(name: str) -> bool:
    """Say whether a file of a release may be called so."""
    return name == PARAMETERS or bool(_DATASET.fullmatch(name))


def _attribute_findings(path: Path) -> Iterator[Flaw]:
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


def _manifest_findings(text: str, content: dict[str, Any]) -> Iterator[Flaw]:
    """Find what release.json says beyond the public part of the mechanism."""
    if text != json_text(content):
        yield Flaw(MANIFEST, "it is not written as allbutone writes it: spaces, order or entries given twice")
    made_by, expected = str(content.get("made_by")), _rebuilt(content)
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
    yield from _name_findings(content["columns"], MANIFEST)


def _rebuilt(content: dict[str, Any]) -> dict[str, Any]:
    """Return what allbutone would write for the release described here; refuse what describes none."""
    try:
        if content.get("model") == GUARANTEED:
            return guaranteed_entries(guaranteed_from(content, MANIFEST))
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


def _name_findings(names: list[str], where: str) -> Iterator[Flaw]:
    """Find names of columns that read as data."""
    try:
        check_names(names)
    except InputError as error:
        yield Flaw(where, error.problem, "rename the column in the table, and draw the release again")


def _names_of_people(names: list[str]) -> list[str]:
    """Return a note on each column that is named as what tells people apart."""
    odd = [name for name in names if looks_like_identifier(name)]
    return [f"The column {name!r} is named as what tells people apart: leave it out if it does." for name in odd]


def _parameter_findings(text: str, content: dict[str, Any], manifest: dict[str, Any]) -> Iterator[Flaw]:
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


def _read_values(path: Path, columns: Sequence[Column]) -> tuple[pa.Table | None, list[Flaw]]:
    """Read a dataset's file, and find what its text or pages tell besides the values."""
    try:
        if path.suffix == ".parquet":
            content = pyarrow.parquet.ParquetFile(path)
            LIMITS.require(path.name, len(columns), content.metadata.num_rows * len(columns), 0)
            table = content.read()
            return table, list(_statistics_findings(path, content.metadata, table))
        text = read_bytes(path, "name a release")
        types = {each.name: pa.string() if each.kind == CATEGORY else pa.float64() for each in columns}
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


# The values of a synthetic dataset: as declared, and in an order that tells nothing.


FALSE_ALARM = 1e-9  # the probability that a clean release is found in order, all columns and datasets together
MOST_EQUAL = 0.8  # the share of one value beyond which a few rows decide, and a correlation is not normal
_UNORDERED = "draw the release again with allbutone, which draws rows in no order"


@dataclass(frozen=True, eq=False)
class Values:
    """The columns of a dataset or a table as numbers: measurements and level numbers; NaN where one is missing."""

    columns: tuple[Column, ...]
    numbers: Float[np.ndarray, "n d"]

    @classmethod
    def of_frame(cls, table: Any, columns: Sequence[Column]) -> "Values":
        """Take the columns of an Arrow table; a level that is not declared is −1."""
        arrays = [np.zeros((table.num_rows, 0))]
        for column in columns:
            values = table.column(column.name)
            if column.kind == CATEGORY:
                numbers = {level: number for number, level in enumerate(column.levels)}
                whole = values.combine_chunks().dictionary_encode()
                codes = [numbers.get(level_name(level), -1) for level in whole.dictionary.to_pylist()]
                places = whole.indices.to_numpy(zero_copy_only=False)
                taken = np.array([*codes, np.nan])[np.nan_to_num(places, nan=len(codes)).astype(int)]
                arrays.append(taken[:, None])
            else:
                arrays.append(values.to_numpy(zero_copy_only=False).astype(np.float64)[:, None])
        return cls(tuple(columns), np.hstack(arrays))

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.numbers)

    def measurements(self, kept: Sequence[str]) -> Float[np.ndarray, "n p"]:
        """Return the measurements that are not kept."""
        drawn = [column.kind != CATEGORY and column.name not in kept for column in self.columns]
        return self.numbers[:, np.array(drawn, dtype=bool)]


def _derived_findings(where: str, data: Values, schema: Schema) -> Iterator[Flaw]:
    """Find columns that are not what their formula says of the other values of the row, or beyond their ends."""
    places = {column.name: place for place, column in enumerate(data.columns)}
    natural = data.numbers[:, [places[column.name] for column in schema.measurements]]
    for each in schema.orders:
        if each.column.order is not None and not each.keeps(natural).all():
            yield Flaw(where, f"{each.column.name!r} is not {each.column.order.in_words} in some rows")
    for name, expected in schema.derive(natural).items():
        if name not in places:
            continue
        found = data.numbers[:, places[name]]
        if not np.allclose(found, expected, rtol=1e-9, atol=1e-12, equal_nan=True):
            yield Flaw(where, f"{name!r} is not what its formula says of the other columns")


def _declared_findings(where: str, data: Values, gaps: bool, release: "_Release") -> Iterator[Flaw]:
    """Find values that are not as declared: more digits, beyond the limits, levels that are not public, gaps."""
    kept, derived = release.kept, release.derived
    for column, values in zip(data.columns, data.numbers.T, strict=True):
        missing = np.isnan(values)
        if missing.any() and not gaps and column.name not in derived:
            yield Flaw(where, f"{column.name!r} has missing values, and the release says that there are none")
        there = values[~missing]
        if column.kind == CATEGORY:
            if np.any(there < 0):
                problem = f"{column.name!r} has levels that release.json does not list"
                yield Flaw(where, problem, AS_WRITTEN)
            continue
        low, high = column.bounds
        if np.any((there < low) | (there > high)):
            yield Flaw(where, f"{column.name!r} has values beyond its declared limits")
        digits = column.decimals
        if digits is not None and column.name not in kept and not _on_grid(there, digits, low, high):
            yield Flaw(where, f"{column.name!r} has more digits than the {digits} decimals declared")


def _on_grid(values: Float[np.ndarray, " n"], digits: int, low: float, high: float) -> bool:
    return bool(np.all((values == np.round(values, digits)) | (values == low) | (values == high)))


def order_findings(where: str, data: Values, tests: int) -> Iterator[Flaw]:
    """Find rows that are sorted, or that follow one another as rows of a table do; `tests`: columns in all."""
    for column, values in zip(data.columns, data.numbers.T, strict=True):
        whole = values[~np.isnan(values)]
        steps = np.diff(whole)
        if _arrangements(whole) > -log(FALSE_ALARM / tests) and (np.all(steps >= 0) or np.all(steps <= 0)):
            yield Flaw(where, f"its rows are sorted by {column.name!r}", _UNORDERED)
        elif _goes_with(whole, np.arange(float(len(whole))), tests) or _goes_with(whole[1:], whole[:-1], tests):
            problem = f"{column.name!r} changes along the rows, as in a table that is in some order"
            yield Flaw(where, problem, _UNORDERED)


def _arrangements(values: Float[np.ndarray, " n"]) -> float:
    """Return the log of the number of orders that these values can be in, log n!/∏ c!."""
    counts = np.unique(values, return_counts=True)[1]
    return lgamma(len(values) + 1) - sum(lgamma(count + 1) for count in counts.tolist() if count > 1)


def _goes_with(one: Float[np.ndarray, " n"], other: Float[np.ndarray, " n"], tests: int) -> bool:
    """Say whether two columns go together row by row, by the correlation r of their ranks, |r|√(n−1) normal."""
    if len(one) < 3 or max(_commonest(one), _commonest(other)) > MOST_EQUAL:
        return False
    ranks = [np.unique(each, return_inverse=True)[1].ravel() for each in (one, other)]
    parts = [each - each.mean() for each in ranks]
    size = sqrt(float(parts[0] @ parts[0]) * float(parts[1] @ parts[1]))
    far = -float(ndtri(FALSE_ALARM / (2 * tests)))
    return size > 0 and abs(float(parts[0] @ parts[1])) / size * sqrt(len(one) - 1) > far


def _commonest(values: Float[np.ndarray, " n"]) -> float:
    """Return the share of the most frequent value."""
    return float(np.unique(values, return_counts=True)[1].max() / len(values))


# A dataset by itself, without the description of its release: what its columns are is read off the values.


MOST_DECIMALS = 6  # values with more are taken to have all their digits


def _columns_in(path: Path) -> tuple[Column, ...]:
    """Return the columns of a file as a release would declare them: levels of text, decimals of numbers."""
    table = read_table(path, delimiter=",")
    return tuple(_column(name, table.column(place)) for place, name in enumerate(table.column_names))


def _column(name: str, values: Any) -> Column:
    if not (pa.types.is_floating(values.type) or pa.types.is_integer(values.type)):
        levels = sorted({level_name(level) for level in values.unique().to_pylist() if level is not None})
        return Column(name, CATEGORY, levels=tuple(levels))
    numbers = values.to_numpy().astype(np.float64)
    there = numbers[np.isfinite(numbers)]
    ways = (digits for digits in range(MOST_DECIMALS + 1) if np.array_equal(there, np.round(there, digits)))
    return Column(name, decimals=next(ways, None))


# A release beside the table it was made from: rows, values, order and statistics that were carried over.


_AGAIN = "draw the release again with allbutone; nothing of the table goes out as it is"
_CHANCE = 1e-6  # of so many equal rows, beyond which it is no coincidence


@dataclass(frozen=True, eq=False)
class Table:
    """The confidential table in the release's columns, all rows, and what else it holds in text.

    texts: every text in it, of all columns. kept: columns that go out as they are. public: columns whose levels
    were declared before anyone looked.
    """

    values: Values
    texts: frozenset[str]
    kept: tuple[str, ...] = ()
    public: tuple[str, ...] = ()

    @property
    def whole(self) -> Float[np.ndarray, "n d"]:
        """The rows without gaps."""
        return self.values.numbers[~np.isnan(self.values.numbers).any(axis=1)]

    @property
    def drawn(self) -> list[int]:
        """The places of the columns that are not kept."""
        return [place for place, each in enumerate(self.values.columns) if each.name not in self.kept]


def dataset_against_table(where: str, data: Values, table: Table, tests: int) -> Iterator[Flaw]:
    """Find rows and values of the table in a synthetic dataset, and its order."""
    yield from _equal_values(where, data, table)
    if equal := _equal_rows(data, table):
        yield Flaw(where, f"{equal:,} of its rows are rows of the table, more than chance explains", _AGAIN)
    # the table's rows, or those without gaps, where there are as many as in the dataset
    same_rows = {len(each): each for each in (table.whole, table.values.numbers)}
    if (real := same_rows.get(len(data))) is not None:
        for place, column in enumerate(data.columns):
            one, other = data.numbers[:, place], real[:, place]
            both = ~(np.isnan(one) | np.isnan(other))
            one, other = one[both], other[both]
            same = np.array_equal(one, other) and _arrangements(one) > -log(FALSE_ALARM / tests)
            if same or _goes_with(one, other, tests):
                yield Flaw(where, f"its rows are in the table's order: {column.name!r} tells so", _AGAIN)


def _equal_values(where: str, data: Values, table: Table) -> Iterator[Flaw]:
    """Find values of the table in columns that are drawn with all their digits: by chance there are none."""
    for place in table.drawn:
        column = data.columns[place]
        if column.kind == CATEGORY or column.decimals is not None:
            continue
        real, drawn = table.values.numbers[:, place], data.numbers[:, place]
        equal = int(np.isin(drawn[~np.isnan(drawn)], np.setdiff1d(real, column.bounds)).sum())
        if equal:
            problem = f"{counted(equal, 'value')} of {column.name!r} stand in the table, too, to the last digit"
            yield Flaw(where, problem, _AGAIN)


def _equal_rows(data: Values, table: Table) -> int:
    """Count rows of the dataset that the table has, too; 0 where no more than rounding explains."""
    places = table.drawn
    both = (data.numbers[:, places], table.values.numbers[:, places])
    mine, theirs = (each[~np.isnan(each).any(axis=1)] for each in both)
    if len(mine) < 2 or not len(theirs):
        return 0
    prints = row_prints([*mine.T])
    equal = int(np.isin(prints, row_prints([*theirs.T])).sum())
    expected = len(mine) * len(theirs) * _pair_chance(mine, prints, [data.columns[place] for place in places])
    # of pairs, which come in clumps: so four times as many are let pass
    return equal if equal and pdtrc(equal - 1, 4 * expected) < _CHANCE else 0


def _pair_chance(
    values: Float[np.ndarray, "n d"], prints: UInt[np.ndarray, " n"], columns: Sequence[Column]
) -> float:
    """Return how probable it is that two drawn rows are equal, from rounding and from what repeats.

    Two normals with covariance Σ fall into one cell of volume h of a grid with probability h (4π)^(−p/2) |Σ|^(−½);
    two levels agree with probability Σ share². Where the rows repeat one another more often, that often.
    """
    seen = _repeats(prints)
    measured = [place for place, each in enumerate(columns) if each.kind != CATEGORY]
    levels = [place for place, each in enumerate(columns) if each.kind == CATEGORY]
    chance = float(np.prod([_shares_squared(values[:, place]) for place in levels]))
    if any(columns[place].decimals is None for place in measured):
        return seen
    if measured:
        spread = np.atleast_2d(np.cov(values[:, measured].T))
        cell = float(np.prod([columns[place].coarsest for place in measured]))
        volume = sqrt(max(float(np.linalg.det(spread)), 0.0)) * (4 * pi) ** (len(measured) / 2)
        apart = float(np.prod([max(_repeats(values[:, place]), 1e-300) for place in measured]))
        chance *= min(1.0, max(cell / volume if volume else 1.0, apart))
    return max(chance, seen)


def _repeats(values: Any) -> float:
    """Return the share of pairs that are equal."""
    counts = np.unique(values, return_counts=True)[1].astype(float)
    return float((counts * (counts - 1)).sum() / (len(values) * (len(values) - 1)))


def _shares_squared(values: Float[np.ndarray, " n"]) -> float:
    shares = np.unique(values, return_counts=True)[1] / len(values)
    return float((shares**2).sum())


# The confidential table as a release is compared with it: read as it is, in the release's columns.


def _table_of(given: Any, columns: Sequence[Column], kept: Sequence[str], schema: Schema) -> Table:
    """Read the release's columns of a table, and the texts of all its columns.

    `schema`: what a table file declares; the levels that it lists were public before.
    """
    content = _content(given)
    frame = chosen_frame(content, [column.name for column in columns], None)
    parts = [np.zeros((len(frame), 0))]
    for column in columns:
        if column.kind == CATEGORY:
            parts.append(Values.of_frame(frame.select(column.name).to_arrow(), [column]).numbers)
            continue
        look = look_at_column(frame[column.name], replace(column, scale=Scale(), low=-inf, high=inf), trusted=True)
        if len(look.numbers) != len(frame):
            raise InputError(f"{column.name!r} {look.problem}", "give the table that the release was made from")
        parts.append(look.numbers[:, None])
    public = [column.name for column in schema.categories if column.levels]
    return Table(Values(tuple(columns), np.hstack(parts)), _texts(content), tuple(kept), tuple(public))


def _content(given: Any) -> Any:
    """Return a table with its values as they are, to the last bit: those carried over are found by being equal."""
    if isinstance(given, str | PathLike):
        return read_table(Path(given))
    if not isinstance(given, Records):
        return given
    if rounded := [column.name for column in given.schema.measurements if column.scale != Scale()]:
        raise InputError(
            f"these records hold {listed(rounded)} on the scale of the model, so that their values are rounded",
            "give the table itself",
        )
    return given.to_frame()


def _texts(content: Any) -> frozenset[str]:
    """Return every text in a table, as names are compared: without spaces around it, in small letters."""
    if isinstance(content, np.ndarray):
        return frozenset()
    frame = content if hasattr(content, "column_names") else nw.from_native(content, eager_only=True).to_arrow()
    found: set[str] = set()
    for column in frame.columns:  # by position: names may be repeated
        if "string" in str(column.type):  # of any kind, and of levels
            found |= {str(text).strip().casefold() for text in column.unique().to_pylist() if text is not None}
    return frozenset(found - {""})


# What a release's names, levels, sizes and numbers tell of the table it was made from.


MANY_DIGITS = 6  # a number with so many that equals a statistic of the table was not public knowledge
LIMIT_DIGITS = 4  # a limit with so many that equals the table's extreme value is a person's value
OLD_SHARE = 0.05  # of the records, which all cells were worth by default up to version 0.2.0
_PUBLIC = "take it from public knowledge, and draw the release again"


def _names_of_table(
    folder: str, content: dict[str, Any], columns: Sequence[Column], table: Table
) -> Iterator[Flaw]:
    """Find values of the table as names: of the folder, of columns, in labels."""
    labels = [text for each in columns for text in (each.label, each.unit, each.why) if text]
    named = {
        "the folder's name": [folder],
        "the column name": [each.name for each in columns],
        "the text": labels,
    }
    for what, names in named.items():
        for name in names:
            if name.strip().casefold() in table.texts:
                cure = "give it another name" if folder == name else "rename it, and draw the release again"
                yield Flaw(MANIFEST, f"{what} {name!r} is a value in the table", cure)


def _lonely_levels(table: Table) -> Iterator[Flaw]:
    """Find levels that only one person has: the list of levels tells that this person is in the table."""
    for column, codes in zip(table.values.columns, table.values.numbers.T, strict=True):
        if column.kind != CATEGORY or column.name in table.public:
            continue
        counts = np.bincount(codes[codes >= 0].astype(int), minlength=len(column.levels))
        if alone := [level for level, count in zip(column.levels, counts, strict=True) if count == 1]:
            told = ", ".join(repr(level) for level in alone[:5])
            cure = "declare the levels from public knowledge in the table file (and name it here), or merge them"
            yield Flaw(MANIFEST, f"only one person has the level {told} of {column.name!r}", cure)


def _people_told(content: dict[str, Any], table: Table) -> list[str]:
    """Return the ways in which a release tells how many people the table has."""
    ways, people = [], {len(table.values), len(table.whole)}
    told = set(content.get("rows", []))
    if len(table.values) in told:
        ways.append("its datasets have as many rows as the table")
    elif people & told:
        ways.append("its datasets have as many rows as the table has without gaps")
    if content.get("guarantee", {}).get("people") in people:
        ways.append("its guarantee names the number")
    cells = int(np.prod([len(each.levels) for each in table.values.columns if each.kind == CATEGORY]))
    weight = content.get("cell_weight", JEFFREYS)
    if weight < JEFFREYS and any(isclose(weight, OLD_SHARE * each / cells) for each in people):
        ways.append("its cell_weight follows from the number")
    return ways


def _statistics_of_table(
    content: dict[str, Any], parameters: dict[str, Any], table: Table, model: Float[np.ndarray, "n p"]
) -> Iterator[Flaw]:
    """Find numbers of the release that are the table's means, spreads, covariances or extremes.

    model: the values of the drawn measurements on the scale of the model.
    """
    if "mean" in content["prior"]:  # that of classes has no numbers of a table
        yield from _of_prior(content["prior"], parameters, model)
    for column, values in zip(table.values.columns, table.values.numbers.T, strict=True):
        if column.kind != CATEGORY:
            yield from _of_declared(column, values[~np.isnan(values)])


def _of_prior(
    prior: dict[str, Any], parameters: dict[str, Any], model: Float[np.ndarray, "n p"]
) -> Iterator[Flaw]:
    """Find a prior, or draws of the parameters, that have the table's means or covariances."""
    whole = model[np.isfinite(model).all(axis=1)]
    means, covariance = whole.mean(axis=0), np.atleast_2d(np.cov(whole.T))
    n = len(whole)
    df = float(prior["df"]) - len(means) - 1
    multiples = [
        covariance,
        covariance * (n - 1),
        covariance * (n - 1) / n,
        *([covariance * df] if df > 0 else []),
    ]
    if _equal(prior["mean"], [means, np.median(whole, axis=0)]):
        yield Flaw(MANIFEST, "the prior's mean is the table's", _PUBLIC)
    if prior["mean_weight"] and _equal(prior["scale"], multiples):
        yield Flaw(MANIFEST, "the prior's scale is the table's covariance", _PUBLIC)
    for draw in parameters.get("draws", []):
        if _equal(draw["mean"], [means]) or _equal(draw["covariance"], multiples):
            problem = "a draw of the parameters is the table's own mean or covariance, not drawn"
            yield Flaw(PARAMETERS, problem, "draw the release again with allbutone")


def _of_declared(column: Column, values: Any) -> Iterator[Flaw]:
    """Find declared limits that are someone's value, and a declared centre or spread that is the table's."""
    for name, extreme in (("low", values.min()), ("high", values.max())):
        if getattr(column, name) == extreme and _digits_of(extreme) >= LIMIT_DIGITS:
            problem = f"the limit {name} = {extreme:g} of {column.name!r} is the value of a person in the table"
            yield Flaw(MANIFEST, problem, "declare a limit from public knowledge, and draw the release again")
    told = {"centre": [values.mean(), np.median(values)], "spread": [values.std(), values.std(ddof=1)]}
    for name, statistics in told.items():
        if getattr(column, name) is not None and _equal(getattr(column, name), statistics):
            yield Flaw(MANIFEST, f"the {name} declared of {column.name!r} is the table's", _PUBLIC)
    for share, value in column.scale.quantiles:
        if _equal(value, [np.quantile(values, share)]):
            problem = f"the quantiles declared of {column.name!r} are the table's"
            yield Flaw(MANIFEST, problem, _PUBLIC)
            return


def _equal(given: Any, statistics: Sequence[Any]) -> bool:
    """Say whether any of these numbers, if it has many digits, is the statistic at its place."""
    numbers = np.asarray(given, dtype=float).ravel().tolist()
    for each in statistics:
        for number, real in zip(numbers, np.asarray(each, dtype=float).ravel().tolist(), strict=True):
            digits = _digits_of(number)
            if digits >= MANY_DIGITS and isclose(number, real, rel_tol=0.5 * 10.0 ** (1 - min(digits, 10))):
                return True
    return False


def _digits_of(number: float) -> int:
    """Return how many significant digits a number has, written as short as it can be."""
    return len(f"{float(number)!r}".split("e")[0].replace(".", "").replace("-", "").strip("0"))


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
            outside = _unpack(path, Path(place))
            found = _check_folder(Path(place), path.stem, how)
        return ReleaseCheck((*outside, *found.findings), found.checked, found.notes)
    if path.suffix.lower() in (".csv", ".parquet") and path.is_file():
        return _check_file(path, how)
    raise InputError(f"{path} is no release", "name its folder, its zip file, or a .csv or .parquet file of it")


def require_clean(folder: Path) -> None:
    """Refuse what was just written if it holds anything but a release; its values are not read again."""
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
    schema: Schema = field(default_factory=Schema)

    @property
    def kept(self) -> tuple[str, ...]:
        return tuple(self.content.get("keep", ()))

    @property
    def derived(self) -> tuple[str, ...]:
        """The columns that are computed from others of their row."""
        return tuple(column.name for column in self.schema.derived)

    @property
    def not_drawn(self) -> tuple[str, ...]:
        return (*self.kept, *self.derived)

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
    found = list(_content_findings(folder, files))
    try:
        schema = Schema.of_entries({"columns": _rebuilt(content).get("declared", {})}, MANIFEST)
    except InputError as error:
        return [Flaw(MANIFEST, f"it is not the description of a release ({error.problem})"), *found], None
    found += _manifest_findings(text, content)
    there = [name for name in files if _is_release_name(name) and (folder / name).is_file()]
    draws: dict[str, Any] = {}
    if parameters and PARAMETERS in there:
        text = read_text(folder / PARAMETERS, "name a release")
        draws = parse(text, "JSON", str(folder / PARAMETERS))
        found += _parameter_findings(text, draws, content)
    layout = content.get("layout", ())
    schema = replace(schema, layout=tuple(layout)).for_columns(content["columns"])
    files = tuple(name for name in there if name != PARAMETERS)
    return found, _Release(content, draws, schema.released_columns, files, schema)


@dataclass(frozen=True)
class _Terms:
    """What the release is compared with, and what may be told."""

    table: Any
    schema: Schema
    people_confidential: bool

    def table_for(self, columns: Sequence[Column], kept: Sequence[str]) -> Table | None:
        return None if self.table is None else _table_of(self.table, columns, kept, self.schema)


def _check_folder(folder: Path, name: str, terms: _Terms) -> ReleaseCheck:
    found, release = _described(folder)
    if release is None:
        return ReleaseCheck(merged(found), "its files")
    table = terms.table_for(release.columns, release.not_drawn)
    rows, measured = [], []
    for each in release.datasets:
        more, count, data = _dataset_findings(folder / each, release, table)
        found += more
        rows.append(count)
        if data is not None:
            measured.append(data.measurements(release.not_drawn))
    announced = release.content.get("rows", [])
    if not isinstance(announced, list) or not all(type(count) is int for count in announced):
        found.append(Flaw(MANIFEST, "what it announces as rows are no whole numbers"))
    elif sum(rows) != sum(announced):
        problem = f"it announces {sum(announced):,} rows, and the datasets have {sum(rows):,}"
        found.append(Flaw(MANIFEST, problem))
    notes = _names_of_people([column.name for column in release.columns])
    drawn = [
        column for column in release.columns if column.kind != CATEGORY and column.name not in release.not_drawn
    ]
    if limited := Schema(tuple(drawn)).clipped_in_words(measured):
        notes.append(f"{limited}. Who attacks knows that these were drawn beyond it, and `risk` judges them so.")
    if table is not None:
        found += _told_findings(name, release, table)
        found += _people_findings(_people_told(release.content, table), terms.people_confidential, notes)
    looked = "its files and their metadata, the entries of release.json, the values and the order of their rows"
    looked += ", and what of the table is in it" if table is not None else ""
    return ReleaseCheck(merged(found), looked, tuple(notes))


def _check_file(path: Path, terms: _Terms) -> ReleaseCheck:
    """Check one dataset by itself."""
    columns = _columns_in(path)
    names = [column.name for column in columns]
    release = _Release({"columns": names, "missing": KEEP_GAPS}, {}, columns, (path.name,))
    table = terms.table_for(columns, ())
    found = list(_name_findings(names, path.name))
    found += _attribute_findings(path)
    more, rows, _ = _dataset_findings(path, release, table)
    found += more
    notes = _names_of_people(names)
    notes += ["One dataset by itself: how it was made, and what was declared of its columns, is not known here."]
    if table is not None:
        found += [*_names_of_table(path.stem, release.content, columns, table), *_lonely_levels(table)]
        told = _people_told({"rows": [rows]}, table)
        found += _people_findings(told, terms.people_confidential, notes)
    return ReleaseCheck(merged(found), "the file, its values and the order of its rows", tuple(notes))


def _dataset_findings(path: Path, release: _Release, table: Table | None) -> tuple[list[Flaw], int, Values | None]:
    """Return what is wrong with one file of a dataset, how many rows it has, and its values where it has such."""
    found = list(form_findings(path, release.columns))
    frame, more = _read_values(path, release.columns)
    found += more
    if frame is None or frame.column_names != [column.name for column in release.columns]:
        return found, 0 if frame is None else frame.num_rows, None
    try:
        data = Values.of_frame(frame, release.columns)
    except (ValueError, TypeError):
        return [*found, Flaw(path.name, "some of its values are no numbers")], frame.num_rows, None
    # along the rows, from one to the next, and beside the table
    tests = 3 * len(release.columns) * len(release.datasets)
    found += _declared_findings(path.name, data, release.gaps, release)
    found += _derived_findings(path.name, data, release.schema)
    found += order_findings(path.name, data, tests)
    if table is not None:
        found += dataset_against_table(path.name, data, table, tests)
    return found, frame.num_rows, data


def _told_findings(name: str, release: _Release, table: Table) -> Iterator[Flaw]:
    yield from _names_of_table(name, release.content, release.columns, table)
    yield from _lonely_levels(table)
    drawn = [place for place in table.drawn if release.columns[place].kind != CATEGORY]
    schema = Schema(tuple(release.columns[place] for place in drawn))
    with np.errstate(all="ignore"):  # values outside a scale are left out below
        model = schema.to_model(table.values.numbers[:, drawn])
    yield from _statistics_of_table(release.content, release.parameters, table, model)


def _people_findings(ways: list[str], confidential: bool, notes: list[str]) -> Iterator[Flaw]:
    """Tell how a release tells the number of people: a fault where that is confidential, else a note."""
    for way in ways:
        if confidential:
            cure = "draw the release again with another number of rows (--rows), and a cell weight (--cell-weight)"
            yield Flaw(MANIFEST, f"it tells how many people the table has: {way}", cure)
        else:
            notes.append(f"It tells how many people the table has: {way}. Fine where that is public.")
