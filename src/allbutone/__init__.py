"""Synthetic continuous data, with what each person in it stands to lose.

`__init__.pyi` lists the public names and their homes. Each is loaded when it is first used, so that the command
line can start, and be stopped, before NumPy and the rest have loaded.
"""

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

_HOMES = {
    name.name: line.module
    for line in ast.parse(Path(__file__).with_suffix(".pyi").read_bytes()).body
    if isinstance(line, ast.ImportFrom) and line.module
    for name in line.names
}
__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        globals()[name] = found = import_module("importlib.metadata").version("allbutone")
    elif name in _HOMES:
        globals()[name] = found = getattr(import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module 'allbutone' has no attribute {name!r}")
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
