"""What came of the replicates of a cell, and its row in the table of results."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from allbutone.disclosure.measures import Measures
from allbutone.studies.design import Cell
from allbutone.studies.journal import QUANTILES
from allbutone.studies.published import another_thousand
from allbutone.support.arrays import to_numpy

_MEASURED = ("guess", "distance", "exposure", "baseline_distance", "leverage")


@dataclass(frozen=True, eq=False)
class Replicates:
    """What came of each replicate of a cell: the adversary's guess, its distance from the target, and baselines.

    `baseline`: the distance of the others' centre, which needs no release.
    """

    candidate: Float[np.ndarray, "r p"]
    distance: Float[np.ndarray, " r"]
    exposure: Float[np.ndarray, " r"]
    baseline: Float[np.ndarray, " r"]
    leverage: Float[np.ndarray, " r"]
    unconverged: Int[np.ndarray, " r"]

    @classmethod
    def of(cls, found: Mapping[str, np.ndarray], rows: slice = slice(None)) -> "Replicates":
        """Return what was measured (`measured`), or some rows of it, as the replicates of a cell."""
        guess, distance, exposure, baseline, leverage = (found[name][rows] for name in _MEASURED)
        return cls(
            candidate=guess,
            distance=distance,
            exposure=exposure,
            baseline=baseline,
            leverage=leverage,
            unconverged=found["unconverged"][rows],
        )

    @classmethod
    def joined(cls, blocks: list["Replicates"]) -> "Replicates":
        """Put the blocks of a cell one after the other."""
        if len(blocks) == 1:
            return blocks[0]
        return cls(
            *(np.concatenate([getattr(block, name) for block in blocks]) for name in cls.__dataclass_fields__)
        )


def measured(found: Measures) -> dict[str, np.ndarray]:
    """Return what a study keeps of the measures, as NumPy's arrays from whatever device they are on."""
    kept = {name: to_numpy(getattr(found, name)) for name in _MEASURED}
    lost = np.zeros(len(kept["distance"])) if found.modes is None else ~to_numpy(found.modes.converged)
    return kept | {"unconverged": lost.astype(int)}


def summarize(cells: Sequence[Cell], found: Sequence[Replicates]) -> list[tuple[dict[str, Any], list[float]]]:
    """Return, of cells with as many replicates each, the row in the table of results and quantiles of distance."""
    distance, exposure, *rest = (
        np.sort([getattr(one, name) for one in found], axis=1)
        for name in ("distance", "exposure", "baseline", "leverage")
    )
    quarters = np.array([0.25, 0.5, 0.75])
    quantiles = _quantiles(distance, np.linspace(0, 1, QUANTILES))
    columns = {
        **_named(("q25", "median", "q75"), _quantiles(distance, quarters)),
        "min": distance[:, 0],
        "max": distance[:, -1],
        **_named(("baseline_median", "leverage_median"), [_median(each) for each in rest]),
        **_named(("exposure_q25", "exposure_median", "exposure_q75"), _quantiles(exposure, quarters)),
        "right_mode": np.mean(exposure > 0, axis=1),
    }
    rows = (dict(zip(columns, row, strict=True)) for row in np.stack([*columns.values()], axis=1).tolist())
    return [
        ({**_setting(cell), "replicates": len(one.distance), **row, **_of_records(one)}, each)
        for cell, one, row, each in zip(cells, found, rows, quantiles.T.tolist(), strict=True)
    ]


def _quantiles(ordered: Float[np.ndarray, "c r"], levels: Float[np.ndarray, " q"]) -> Float[np.ndarray, "q c"]:
    """Return NumPy's quantiles of rows that are sorted already, to the bit."""
    place = levels * (ordered.shape[1] - 1)
    below = np.floor(place).astype(int)
    share, low = (place - below)[:, None], ordered[:, below].T
    high = ordered[:, np.minimum(below + 1, ordered.shape[1] - 1)].T
    return np.where(share < 0.5, low + (high - low) * share, high - (high - low) * (1 - share))


def _median(ordered: Float[np.ndarray, "c r"]) -> Float[np.ndarray, " c"]:
    count = ordered.shape[1]
    return ordered[:, [(count - 1) // 2, count // 2]].mean(axis=1)


def _named(names: Sequence[str], columns: Iterable[np.ndarray]) -> dict[str, np.ndarray]:
    return dict(zip(names, columns, strict=True))


def _setting(cell: Cell) -> dict[str, Any]:
    names = ("release", "p", "n", "count", "rows", "structure", "correlation", "position")
    return {name: getattr(cell, name) for name in (*names, "lacking_columns", "lacking_records")}


def _of_records(found: Replicates) -> dict[str, Any]:
    means = found.candidate.mean(axis=0).tolist()
    return {
        "unconverged": int(found.unconverged.sum()),
        **another_thousand(found.candidate, found.distance),
        **{f"mean_x{place}": value for place, value in enumerate(means, 1)},
    }
