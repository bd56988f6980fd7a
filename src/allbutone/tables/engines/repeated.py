"""People who have several rows in a table that stays in its engine: one query for each column that may tell."""

from collections.abc import Mapping
from typing import Any

import narwhals as nw
import numpy as np

from allbutone.tables.engines.asking import ask
from allbutone.tables.repeated import is_person, several_rows, told_by_counts


def require_one_row_each_there(frame: nw.LazyFrame[Any], kinds: Mapping[str, Any]) -> None:
    """Refuse a table in which a column that is named as people are, used or not, has some of them twice."""
    for name, kind in kinds.items():
        if not is_person(name) or not (kind == nw.String or kind.is_integer()):
            continue
        values = frame.select(nw.col(name).alias("value")).filter(~nw.col("value").is_null())
        times = values.group_by("value").agg(nw.len().alias("rows"))
        spread = times.group_by("rows").agg(nw.len().alias("values"))  # how many occur once, twice, …
        found = ask(spread)
        counts = np.repeat(found["rows"].to_numpy().astype(np.int64), found["values"].to_numpy())
        if told := told_by_counts(name, counts):
            raise several_rows(told)
