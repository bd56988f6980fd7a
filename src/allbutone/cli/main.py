"""The command line: how it starts, how it words what went wrong, and how it ends."""

import ast
import os
import shutil
import signal
import sys
import textwrap
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

from allbutone.support.errors import InputError, reason

if TYPE_CHECKING:
    import typer

COMMANDS = {  # in the order of the help, each with the room it is in
    "describe": "describe",
    "synthesize": "synthesize",
    "demo": "synthesize",
    "check": "describe",
    "risk": "risk",
    "budget": "budget",
    "adversaries": "risk",
    "audit": "audit",
    "ledger": "ledger",
    "moments": "sites",
    "pool": "sites",
    "guarantee": "budget",
    "report": "report",
    "application": "study",
    "paper": "study",
    "study": "study",
    "explain": "describe",
    "app": "app",
}


def main() -> None:
    """Run the command line; bad input ends in one clear line and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    # nothing is begun while modules load, which takes a second: Ctrl-C ends it there and then
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: os._exit(128 + number))
    app = command_line(listed=not COMMANDS.keys() & set(sys.argv[1:]))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # as Ctrl-C does, so that what was written aside is removed
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    sys.exit(_run(app))


def command_line(*, listed: bool = False) -> "typer.Typer":
    """Return all commands; not made above: they load where Ctrl-C ends quietly.

    `listed`: only their names and help, without loading what they do, which takes longer than to show the list.
    """
    import typer
    import typer.core

    line = typer.Typer(
        help="Synthetic continuous data, with what each person in it stands to lose.",
        add_completion=False,
        pretty_exceptions_enable=False,
    )

    class Command(typer.core.TyperCommand):
        context_class = typer.Context  # what commands are promised, and would not get

    @line.callback(invoke_without_command=True)
    def about(version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False) -> None:
        """Synthetic continuous data, with what each person in it stands to lose."""
        if version:
            from allbutone import __version__

            print(f"allbutone {__version__}")
            raise typer.Exit

    for name, room in COMMANDS.items():
        command = _listed(name, room) if listed else getattr(import_module(f"allbutone.cli.{room}"), name)
        line.command(cls=Command)(command)
    return line


def _listed(name: str, room: str) -> Callable[[], None]:
    """Return a command that has its name and help, read from its room's text, and cannot run."""

    def command() -> None:
        raise NotImplementedError(name)  # never called: a command that is asked for by name is loaded whole

    (written,) = (each for each in _functions_of(room) if each.name == name)
    command.__name__, command.__doc__ = name, ast.get_docstring(written)
    return command


@cache  # several commands are in one room
def _functions_of(room: str) -> list[ast.FunctionDef]:
    tree = ast.parse(Path(__file__).with_name(f"{room}.py").read_bytes())
    return [each for each in tree.body if isinstance(each, ast.FunctionDef)]


def _run(app: "typer.Typer") -> int | None:
    import typer

    try:
        _require_text(sys.argv[1:])
        code = app(sys.argv[1:] or ["--help"], standalone_mode=False)
        sys.stdout.flush()
    except InputError as error:
        from allbutone.cli.output import in_flags

        options = _flags_that_help(typer.main.get_command(app), sys.argv[1:])
        _fail(error.worded(lambda cure: in_flags(cure, options)), keep_lines=True)
    except MemoryError as error:
        _fail(str(error) or "not enough memory for this table or release; ask for less")
    except typer.Abort:
        code = 130
    except OSError as error:
        # reading and writing files have words of their own: this is the terminal, or where it was sent
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _fail(f"cannot print: {reason(error)}; what was written to files before is complete")
    except Exception as error:
        # Typer's usage errors, which have no public base class in every version
        if not hasattr(error, "format_message"):
            raise
        context = getattr(error, "ctx", None)  # of the command, where one was understood
        command = f" {context.info_name}" if context is not None and context.parent is not None else ""
        _fail(f"{error.format_message()} (allbutone{command} --help shows what can be asked)")
    return code


def _flags_that_help(group: Any, arguments: list[str]) -> set[str]:
    """Return the options that may be added to what was asked."""
    asked = [group.commands[name] for name in arguments[:1] if name in group.commands]
    options = {parameter.name for command in asked for parameter in command.params}
    keeps = any(argument.split("=")[0] == "--columns" for argument in arguments)
    # a list of columns to keep goes with none to drop, but where it names those of a file without a header
    return options - {"drop"} if keeps and "--no-header" not in arguments else options


def _require_text(arguments: list[str]) -> None:
    """Refuse what is not UTF-8, which no report, table or figure can hold."""
    for argument in (*arguments, os.getcwd()):
        try:
            argument.encode()
        except UnicodeEncodeError as error:
            shown = os.fsencode(argument).decode(errors="replace")
            cure = "rename the file or folder, or write the text anew"
            raise InputError(f"{shown!r} is not UTF-8 text", cure) from error


def _fail(message: str, keep_lines: bool = False) -> NoReturn:
    """Print what went wrong; a list of columns keeps its lines, anything else is one line."""
    lines = message.splitlines()
    listed = keep_lines and all(line.startswith(("  ", "- ")) for line in lines[1:])
    shown = ["Error: " + lines[0], *lines[1:]] if listed else ["Error: " + " ".join(lines)]
    if _is_terminal():  # a file or a pipe gets whole lines
        width = shutil.get_terminal_size().columns
        wrap = textwrap.TextWrapper(width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        shown = [wrap.fill(line) for line in shown]
    print("\n".join(shown), file=sys.stderr)
    sys.exit(2)


def _is_terminal() -> bool:
    """Say whether what is wrong is shown to somebody."""
    return sys.stderr.isatty()
