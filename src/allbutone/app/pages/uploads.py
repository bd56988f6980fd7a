"""Files that are sent: a table is read at once, kept for the session, and the file goes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from starlette.datastructures import QueryParams

from allbutone.app.answer import Answer
from allbutone.app.page import RequestContext, templates
from allbutone.support.errors import InputError
from allbutone.tables.files import FORMATS, READABLE, format_of, read_table
from allbutone.tables.formats.limits import Limits
from allbutone.tables.names import check_names, reads_as_data, row_names_left_out

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
