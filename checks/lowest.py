"""Print constraints that ask for the lowest version of each direct dependency that pyproject.toml allows.

`pip install -c` takes them: python checks/lowest.py > lowest.txt.
"""

import re
import tomllib
from pathlib import Path


def lowest(requirements: list[str]) -> list[str]:
    """Return NAME==VERSION for every NAME>=VERSION; extras go, as constraints have none."""
    found = []
    for each in requirements:
        match = re.fullmatch(r"([\w.-]+)(?:\[[\w,-]+\])?>=([\w.]+)", each)
        if match is None:
            raise SystemExit(f"{each!r} has no lower bound of the form NAME>=VERSION")
        found.append(f"{match[1]}=={match[2]}")
    return found


if __name__ == "__main__":
    project = tomllib.loads(Path(__file__).parents[1].joinpath("pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    tested = [each for name in ("excel", "spss-sas-stata", "duckdb", "polars", "dp") for each in extras[name]]
    print("\n".join(lowest(project["dependencies"] + tested)))
