"""docs/commands.md, written from the commands: each argument and option as `--help` has it, between words of ours.

    python docs/commands_page.py   writes the page anew (`make commands`)

The words are in docs/templates/commands.md, where `<!-- options of NAME -->` stands for the table of what a
command has of its own, and `<!-- options in common -->` for the groups of options that several commands share.
"""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

from typer.models import OptionInfo

from allbutone.cli.main import COMMANDS
from allbutone.cli.options import GROUPS, flag_of, parameters_of

HERE = Path(__file__).parent
TEMPLATE, PAGE = HERE / "templates" / "commands.md", HERE / "commands.md"
HEAD = "| argument | meaning | default |\n|---|---|---|\n"
KINDS = {Path: " FILE", int: " N", float: " X", str: " TEXT", list[str]: " A,B", bool: ""}


@dataclass(frozen=True)
class Asked:
    """An argument or option of a command: what is typed, what it means, its default, and the group it is of."""

    typed: tuple[str, ...]
    value: str
    meaning: str
    default: str
    group: str | None
    hidden: bool

    @property
    def row(self) -> str:
        """The line of a table."""
        typed = f"{', '.join(self.typed)}{self.value}".replace("|", "\\|")
        meaning = re.sub(r"([|<*])", r"\\\1", self.meaning)
        return f"| `{typed}` | {meaning} | {self.default} |\n"


def commands_page() -> str:
    """Return the page, with the tables that its markers stand for."""
    text = TEMPLATE.read_text(encoding="utf-8")
    if absent := [name for name in COMMANDS if f"<!-- options of {name} -->\n" not in text]:
        raise ValueError(f"{TEMPLATE.name} has no section for {', '.join(absent)}")
    shared = {
        group.title: [_asked(each) for each in parameters_of(group) if each.name != "table"] for group in GROUPS
    }
    for name, room in COMMANDS.items():
        command = getattr(import_module(f"allbutone.cli.{room}"), name)
        text = text.replace(f"<!-- options of {name} -->\n", _table(command, shared))
    groups = [
        f"### {title}\n\n{HEAD}" + "".join(each.row for each in options) for title, options in shared.items()
    ]
    return text.replace("<!-- options in common -->\n", "\n".join(groups))


def _table(command: Callable[..., None], shared: dict[str, list[Asked]]) -> str:
    """Return the table of what a command has of its own, and the names of what it shares with others."""
    # all but Typer's own context, arguments first
    declared = [each for each in inspect.signature(command).parameters.values() if get_args(each.annotation)]
    every = sorted(map(_asked, declared), key=lambda each: each.typed[0].startswith("-"))
    in_common = [each for options in shared.values() for each in options]
    table = HEAD + "".join(each.row for each in every if each not in in_common and not each.hidden)
    lines = []
    for title, options in shared.items():
        anchor = re.sub(r"[^a-z -]", "", title.lower()).replace(" ", "-")
        if names := ", ".join(f"`{each.typed[0]}`" for each in options if each in every):
            lines.append(f"- [{title}](#{anchor}): {names}\n")
    return table + "\n" * bool(lines) + "".join(lines)


def _asked(parameter: inspect.Parameter) -> Asked:
    kind, info = get_args(parameter.annotation)
    if type(None) in get_args(kind):
        kind = get_args(kind)[0]
    option, name = isinstance(info, OptionInfo), parameter.name
    # Typer keeps the first name that is declared where a default would be
    declared = "/".join(each for each in (info.default, *(info.param_decls or ())) if isinstance(each, str))
    typed = tuple(declared.split("/")) if declared else (flag_of(name),) if option else (name.upper(),)
    given = "" if parameter.default in (None, "", False, inspect.Parameter.empty) else f"`{parameter.default}`"
    needed = "required" if parameter.default is inspect.Parameter.empty else given
    return Asked(typed, _value(kind, info) if option else "", info.help, needed, info.rich_help_panel, info.hidden)


def _value(kind: Any, info: Any) -> str:
    """Return what is typed after an option."""
    if info.metavar:
        return f" {info.metavar}"
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return f" {'|'.join(kind)}"
    return KINDS.get(kind, " FILE")


if __name__ == "__main__":
    PAGE.write_text(commands_page(), encoding="utf-8")
