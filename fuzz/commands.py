"""Command lines: each command as it is meant, with each of its options, and how one is run under watch."""

import shutil
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from allbutone.support.errors import InputError
from fuzz.seeds import run_command

COMMAND_LINES = (
    "describe table.csv",
    "synthesize table.csv --out out --datasets 2 --rows 5",
    "demo --out out",
    "check datasets",
    "risk table.csv datasets",
    "budget table.csv --rows 10",
    "adversaries table.csv datasets --people 2 --lacking 1",
    "audit table.csv datasets/dataset-001.csv",
    "ledger show table.csv",
    "moments table.csv --site B --out b.json",
    "pool site.json --out all.json",
    "guarantee limits.toml --people 1000 --epsilon 1",
    "report table.csv datasets --out report.html",
    "application table.csv --out applied --datasets 2",
    "study design.toml --out again --replicates 2",
    "explain leverage",
)
MORE_LINES = (
    "--version",
    "describe --help",
    "describe table.csv --out out.toml",
    "synthesize mixed.csv --out out --missing impute",
    "synthesize mixed.csv --out out --missing keep --datasets 2 --keep sex",
    "synthesize table.csv --out out --prior prior.toml --force",
    "synthesize table.csv --out out --release parameters --datasets 2",
    "synthesize table.csv --out out --epsilon 1 --delta 1e-6 --table-file limits.toml --rows 20",
    "synthesize site.json --moments --out out --rows 5",
    "check datasets --table table.csv --zip out.zip",
    "check archive.zip",
    "check datasets/dataset-001.csv --table table.csv --people-confidential",
    "risk table.csv both --known bmi",
    "risk mixed.csv mixed",
    "budget mixed.csv --rows 10 --complete-cases",
    "ledger void table.csv 1 --reason x",
    "study design.toml --out study --resume",
)
# what an option is given; the name of a column where nothing else is said
VALUES = {
    "prior": "prior.toml", "table_file": "table.toml", "like": "datasets", "ledger": "table.csv.ledger.toml",
    "out": "elsewhere.csv", "table": "table.csv", "zip": "out.zip", "pooled": "site.json", "counts": "1,2",
    "delta": "1e-6", "only": "p=1", "cells": "separate", "repeat_key": "a key that is long enough to be one",
    "pair": "bmi ldl", "release": "both", "correlation": "0.2", "encoding": "latin-1", "sheet": "1",
    "epsilon": "1", "engine": "duckdb", "round": "1", "device": "cpu", "lacking": "1,2", "probability": "0.3",
    "radius": "0.5", "cell_weight": "0.5", "rho": "0.1", "images": "svg", "format": "parquet", "missing": "keep",
    "divisor": "n", "mechanism": "plug-in",
    **dict.fromkeys(("datasets", "rows", "worst", "seed", "verify", "people", "threads", "replicates"), "2"),
    "lacking_records": "2",
}  # fmt: skip


def command_lines() -> tuple[bytes, ...]:
    """Return the commands as they are meant, and each with each of its options: as many lines of every command."""
    import typer

    from allbutone.cli.main import command_line

    commands: Any = typer.main.get_command(command_line())
    lines = [line.split() for line in (*COMMAND_LINES, *MORE_LINES)]
    with_options = [_with_each_option(line.split(), commands) for line in COMMAND_LINES]
    most = max(map(len, with_options))
    lines += [line for each in with_options for line in islice(cycle(each), most)]
    return tuple("\x00".join(words).encode() for words in lines)


def _with_each_option(line: list[str], commands: Any) -> list[list[str]]:
    lines = [line]
    for option in commands.commands[line[0]].params:
        if option.param_type_name == "option" and option.opts[0] not in line:
            value = [] if option.is_flag else [VALUES.get(option.name, "bmi")]
            lines.append([*line, option.opts[0], *value])
    return lines


def run_line(valid: Path, data: bytes, folder: Path) -> object:
    """Run a command in a copy of the valid files: it ends with a code that is meant, and says why."""
    arguments = data.decode("utf-8", "replace").split("\x00")
    # the app would serve until it is stopped, and no system hands over arguments of this size
    if "app" in arguments or any(len(each) > 4000 for each in arguments):
        return None
    place = folder / "here"
    shutil.copytree(valid, place)
    code, _, errors = run_command(arguments, place)
    assert code in (0, 1, 2, 130), code
    assert "Traceback" not in errors, errors[-2000:]
    assert code != 2 or "Error:" in errors, errors[-500:]
    if code == 2:
        raise InputError(errors.strip()[:200])
    return code
