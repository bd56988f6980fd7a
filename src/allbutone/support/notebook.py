"""What a notebook shows of a result: escaped HTML, a few lines of it."""

from collections.abc import Iterable, Sequence
from html import escape


def paragraphs(first: str, *others: str) -> str:
    """Return text as paragraphs, the first in bold."""
    return f"<p><b>{escape(first)}</b></p>" + "".join(f"<p>{escape(each)}</p>" for each in others)


def table(headings: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a table of texts."""
    rows = [("th", headings), *(("td", line) for line in lines)]
    cells = ("".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in line) for tag, line in rows)
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in cells)}</table>"
