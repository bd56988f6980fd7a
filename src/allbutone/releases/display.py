"""A release as a notebook shows it: its size, its columns and the first rows. All of it is released anyway."""

from html import escape
from typing import Any

import numpy as np

from allbutone.support.notebook import table
from allbutone.support.text import counted, listed, number

SHOWN = 5  # rows of the first dataset, or draws


class Shown:
    """What both kinds of releases show of themselves."""

    def __repr__(self) -> str:
        """Return what is counted, how large it is, and the columns."""
        release: Any = self
        sizes = sorted(set(release.rows))
        several = f"{sizes[0]:,} to {sizes[-1]:,} rows" if len(sizes) > 1 else ""
        of_rows = f" of {several or counted(sizes[0], 'row')}" if sizes else ""
        with_datasets = " with datasets" if sizes and release.noun != "dataset" else ""
        what = f"{counted(release.count, release.noun)}{with_datasets}{of_rows}"
        return f"{type(release).__name__}: {what}, columns {listed(release.column_names)}"

    def _repr_html_(self) -> str:
        release: Any = self
        if release.datasets:
            words, values = "The first rows of the first dataset:", np.asarray(release.datasets[0])[:SHOWN]
        else:
            words, values = "The first draws' means:", np.asarray(release.means)[:SHOWN]
        lines = [[number(value) for value in row] for row in values]
        return f"<p>{escape(repr(self))}. {words}</p>{table(release.column_names, lines)}"
