"""Run the causes on every published cell, show what came of it, or set Table A.4 beside normal columns.

`study` writes the part of the paper's study that the package brings along, for the app to show.
"""

import argparse
import json
import sys
from pathlib import Path

from replication import pages, subsets
from replication.kolmogorov import print_kolmogorov
from replication.shipped import write_shipped_study

FOUND = Path(__file__).with_name("found.json")


def main() -> None:
    """Do what was asked."""
    line = argparse.ArgumentParser(prog="python -m replication", description=__doc__)
    line.add_argument("what", choices=("causes", "show", "page", "ks", "study"))
    line.add_argument(
        "--out", type=Path, default=FOUND, help="the file of results, written by causes, read by the others"
    )
    line.add_argument("--replicates", type=int, default=200_000, help="with none and with all of the causes")
    line.add_argument("--few", type=int, default=20_000, help="with some of them")
    asked = line.parse_args()
    if asked.what == "ks":
        print_kolmogorov()
        return
    if asked.what == "study":
        write_shipped_study()
        return
    if asked.what == "causes":
        subsets.run(asked.out, asked.replicates, asked.few, sys.stderr)
    if asked.what == "page":
        print(pages.explained_page(json.loads(asked.out.read_text(encoding="utf-8"))), end="")
    else:
        print(pages.show(asked.out))


if __name__ == "__main__":
    main()
