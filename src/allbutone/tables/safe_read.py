"""Reading files that may be anything: a folder, a pipe that never ends, text in another encoding, bad syntax."""

import json
import stat
import tomllib
from io import BufferedIOBase
from pathlib import Path
from typing import Any

from allbutone.support.errors import InputError, reason

# what becomes of reading entries, of the right syntax, that are not as this program writes them
NOT_AS_WRITTEN = (KeyError, TypeError, ValueError, OverflowError, AttributeError)


def open_file(path: Path, cure: str) -> BufferedIOBase:
    """Open an ordinary file; refuse folders, and pipes and devices, on which reading could wait forever."""
    try:
        ordinary = stat.S_ISREG(path.stat().st_mode)
        file = path.open("rb") if ordinary else None
    except OSError as error:
        raise InputError(f"cannot read {path}: {reason(error)}", cure) from error
    except ValueError as error:  # a name with a zero byte in it
        raise InputError(f"{str(path)!r} cannot be the name of a file", cure) from error
    if file is None:
        raise InputError(f"{path} is not an ordinary file", cure)
    return file


def read_bytes(path: Path, cure: str) -> bytes:
    """Return the content of an ordinary file."""
    with open_file(path, cure) as file:
        try:
            return file.read()
        except OSError as error:
            raise InputError(f"cannot read {path}: {reason(error)}", cure) from error


def read_text(path: Path, cure: str) -> str:
    """Return the text of an ordinary file in UTF-8."""
    try:
        return read_bytes(path, cure).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text", "save it again with UTF-8 encoding") from error


def parse(text: str, language: str, where: str) -> Any:
    """Return what the text of a file says in TOML or JSON; `where` names the file."""
    try:
        return tomllib.loads(text) if language == "TOML" else json.loads(text)
    except (ValueError, RecursionError) as error:
        fault = (
            "it is nested too deep" if isinstance(error, RecursionError) else "a number has thousands of digits"
        )
        if isinstance(error, tomllib.TOMLDecodeError | json.JSONDecodeError):
            fault = str(error)
        raise InputError(f"not valid {language}: {fault}", "correct it", where=where) from error
