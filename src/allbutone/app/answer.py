"""What a page answers: pieces of HTML and figures, as one line of JSON."""

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.csv
from starlette.responses import Response

from allbutone.plots.export import typed


@dataclass(frozen=True)
class Answer:
    """What to put into the page: HTML by the id of its place, figures by name, values of fields to set.

    `error` says what is wrong where there is something to show all the same.
    """

    parts: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[str, Any] = field(default_factory=dict)
    fields: Mapping[str, str | list[str]] = field(default_factory=dict)
    error: str = ""

    def to_json(self) -> str:
        """Return one line."""
        figures = ",".join(f"{json.dumps(name)}:{_as_json(figure)}" for name, figure in self.figures.items())
        rest = json.dumps(
            {"parts": dict(self.parts), "fields": dict(self.fields), "error": self.error}, ensure_ascii=False
        )
        return f'{rest[:-1]},"figures":{{{figures}}}}}\n'


def _as_json(figure: Any) -> str:
    """Return a figure, or its plain data and layout, as JSON."""
    return json.dumps(figure, default=typed) if isinstance(figure, dict) else figure.to_json()


@dataclass(frozen=True)
class Download:
    """A file for the user."""

    name: str
    content: bytes
    media_type: str = "text/csv; charset=utf-8"

    def response(self) -> Response:
        """Return it so that a browser saves it."""
        quoted = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "-_.") else "_"
                         for letter in self.name)  # fmt: skip
        headers = {"Content-Disposition": f'attachment; filename="{quoted}"'}
        return Response(self.content, media_type=self.media_type, headers=headers)


def as_csv(name: str, columns: Mapping[str, Sequence[Any]]) -> Download:
    """Return columns as a CSV file."""
    content = io.BytesIO()
    pyarrow.csv.write_csv(pa.table(dict(columns)), content)
    return Download(name, content.getvalue())
