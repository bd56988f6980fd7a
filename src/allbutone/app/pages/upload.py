"""Upload, the first step: which table it is about."""

from starlette.datastructures import QueryParams

from allbutone.app.jobs import Answer, Progress
from allbutone.app.page import Page, RequestContext, Source, piece
from allbutone.app.pages import columns, source
from allbutone.app.pages.forecast import CARRIED, CHIP_IF_KNOWN


def _table(query: QueryParams, context: RequestContext, step: Progress) -> Answer:
    """Name the table that is here."""
    return Answer({"about": about(source.table_of(query, context).value)})


def about(table: columns.Uploaded) -> str:
    """Return the table's name and size."""
    size = {"rows": table.content.num_rows, "columns": len(table.names)}
    return piece("about.html", name=table.name, note=table.note, **size)


PAGE = Page(
    "upload",
    "Upload",
    (source.TABLE,),
    answers={"table": Source(_table, ("table",)), **CHIP_IF_KNOWN},
    takes={"upload": columns.upload},
    carried=CARRIED,
    step=1,
)
