"""The app command: explore, assess and release in a browser."""

from pathlib import Path

from rich.markup import escape

from allbutone.cli import options as ask
from allbutone.cli.output import console, notes
from allbutone.paper.run import load_study
from allbutone.releases.ledger import ENDING, Ledger
from allbutone.support.errors import InputError


@ask.command
def app(
    *,
    port: int = ask.option("The port to listen on.", 8503, min=1, max=65535),
    host: str = ask.option(
        "The address to listen on; any but this computer's own can be reached by others.", "127.0.0.1"
    ),
    study: list[Path] | None = ask.option("The folder of a study to show beside the paper's. May be repeated."),
    ledger: list[Path] | None = ask.option(
        "The ledger of a table, TABLE.ledger.toml: what is released of a table uploaded as TABLE is recorded "
        "in it, and judged with all that it names. May be repeated."
    ),
    upload_limit: int = ask.option("The largest file to take, in megabytes.", 200, min=1),
    browser: bool = ask.option("Open the app in a browser.", True, "--browser/--no-browser"),
) -> None:
    """Open the app: see the adversary think, judge your own table, release from it, look at studies."""
    # not above: a web server is not for every command to load
    from allbutone.app.page import MEGABYTE, Settings
    from allbutone.app.server import is_this_machine, serve

    for folder in study or ():
        load_study(folder)
    for path in ledger or ():
        if not path.name.endswith(ENDING):
            raise InputError(f"{path} is not named as a ledger", f"name it after its table: TABLE{ENDING}")
        Ledger.at(path).require_writable()
    if not is_this_machine(host):
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

    serve(settings, host, port, browser=browser, ready=ready)
