"""Programs of the system that some tests need."""

import shutil
from pathlib import Path


def program(name):
    """Return the path of a program, or None; Debian keeps those of PostgreSQL out of the search path."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return shutil.which(name) or (str(found[-1]) if found else None)
