"""What the budget of a table with categories has of its own on the command line, wherever the table lies."""

import typer
from rich.markup import escape

from allbutone.cli.output import console, show
from allbutone.cli.results import whole_numbers
from allbutone.disclosure.engine_budget import COUNTS
from allbutone.disclosure.mixed_budget import MixedBudget
from allbutone.support.errors import InputError
from allbutone.support.text import number


def require_plain(context: typer.Context) -> None:
    """Refuse what can only be asked of tables of measurements alone."""
    only = "of a table with categories, or with columns to keep,"
    if whole_numbers("counts", context.params["counts"]) != list(COUNTS):
        raise InputError(f"the file {only} has no exposures at numbers of datasets", "leave --counts out")


def show_mixed(plan: MixedBudget) -> None:
    """Show who allows least."""
    columns = plan.columns()
    rows = [[escape(number(column[place])) for column in columns.values()] for place in plan.places[:10]]
    headings = (*list(columns)[:-1], "most allowed by its own chances")
    show("The ten rows that allow least, each looked at alone; all together allow fewer", headings, rows)
    console.print(f"\n{plan.parts}")
