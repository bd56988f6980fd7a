"""The command about words: what each means, for a board and for experts."""

from typing import Annotated

import typer
from rich.markup import escape

from allbutone.cli.output import console, show_next
from allbutone.reports.glossary import GLOSSARY, find_term

Word = Annotated[
    list[str] | None, typer.Argument(help="A word, such as disclosed or budget; all, if none is given.")
]


def explain(word: Word = None) -> None:
    """Say what a word of this program means, in a sentence for everybody and by its definition."""
    if word:
        term = find_term(" ".join(word))
        console.print(f"[bold]{escape(term.name)}[/bold]: {escape(term.plain)}")
        console.print(f"For experts: {escape(term.expert)}")
        return
    for term in sorted(GLOSSARY.values(), key=lambda term: term.name.lower()):
        console.print(f"[bold]{escape(term.name)}[/bold]: {escape(term.plain)}")
    show_next("the definition of one of them:", ["explain", "disclosed"])
