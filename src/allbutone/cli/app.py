"""The app command: explore, assess and release in a browser."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from allbutone.cli.output import console, notes, program
from allbutone.paper.run import load_study
from allbutone.releases.ledger import ENDING, require_recordable
from allbutone.support.errors import InputError

Port = Annotated[int, typer.Option(min=1, max=65535, help="The port to listen on.")]
Host = Annotated[
    str, typer.Option(help="The address to listen on; any but this computer's own can be reached by others.")
]
Studies = Annotated[
    list[Path] | None, typer.Option("--study", help="The folder of a study to show. May be repeated.")
]
Ledgers = Annotated[
    list[Path] | None,
    typer.Option(
        "--ledger",
        help="The ledger of a table, TABLE.ledger.toml: what is released of a table uploaded as TABLE is recorded "
        "in it, and judged with all that it names. May be repeated.",
    ),
]
UploadLimit = Annotated[int, typer.Option(min=1, help="The largest file to take, in megabytes.")]
Browser = Annotated[bool, typer.Option("--browser/--no-browser", help="Open the app in a browser.")]


def app(
    port: Port = 8503,
    host: Host = "127.0.0.1",
    study: Studies = None,
    ledger: Ledgers = None,
    upload_limit: UploadLimit = 200,
    browser: Browser = True,
) -> None:
    """Open the app: see the adversary think, judge your own table, release from it, look at studies."""
    from allbutone.app.page import (
        MEGABYTE,
        Settings,  # not above: a web server is not for every command to load
    )
    from allbutone.app.server import is_home, serve

    for folder in study or ():
        load_study(folder)
    for path in ledger or ():
        if not path.name.endswith(ENDING):
            raise InputError(f"{path} is not named as a ledger", f"name it after its table: TABLE{ENDING}")
        require_recordable(path)
    if not is_home(host):
        notes.print(
            f"[yellow]Warning:[/yellow] {escape(host)} can be reached from other computers. Whoever reaches it "
            "can use the app, and what is uploaded travels unencrypted. Use this only on a network you trust, "
            "behind a server that encrypts and asks who is there."
        )
    settings = Settings(upload_limit * MEGABYTE, tuple(study or ()), tuple(map(Path.absolute, ledger or ())))

    def ready(address: str) -> None:
        console.print(
            f"[bold]{escape(address)}[/bold] (Ctrl-C to stop)\n"
            f"Files up to {upload_limit:,} MB are taken, seen only by the browser they came from, and gone when "
            "its pages are closed. Nothing is sent anywhere."
        )
        if not study:
            console.print(
                f"No study to show: make one with [bold]{escape(program())} study paper --out study[/bold] "
                "and add --study study."
            )

    serve(settings, host, port, browser=browser, ready=ready)
