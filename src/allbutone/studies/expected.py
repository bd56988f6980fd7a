"""What the closed form expects of the cells of a study, beside what their simulation found."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from allbutone.disclosure.spiked_exposure import SpikedExposure
from allbutone.studies.design import Cell

AT_ONCE = 1000  # cells


def by_law(held: Sequence[tuple[Cell, Mapping[str, Any]]]) -> list[dict[str, float]]:
    """Return, for cells with their rows of results, the expected exposure and distance at the median leverage."""
    found = []
    for start in range(0, len(held), AT_ONCE):
        part = held[start : start + AT_ONCE]
        laws = [cell.law for cell, _ in part]
        leverage, baseline = (
            np.array([row[name] for _, row in part], dtype=float)
            for name in ("leverage_median", "baseline_median")
        )
        exposure, error = SpikedExposure.of(
            np.array([law.p for law in laws]),
            np.array([law.mean_weight for law in laws]),
            np.array([law.df for law in laws]),
            np.array([0.0 if law.rows is None else 1 / law.rows for law in laws]),
            np.maximum(leverage, 1e-12),
            np.array([float(cell.count) for cell, _ in part]),
        ).over_releases()
        medians = zip(np.median(exposure, axis=0), np.median(error, axis=0) * baseline, strict=True)
        found += [{"law_exposure": float(one), "law_median": float(other)} for one, other in medians]
    return found
