"""What stands beside a budget: the other measures, other sizes of the datasets, other tables."""

from typing import Any

import numpy as np
from jaxtyping import Float

from allbutone.disclosure.exposure_law import ExposureLaw, leverages
from allbutone.disclosure.limits import Limit
from allbutone.disclosure.measures import RADIUS
from allbutone.disclosure.simulation import simulate
from allbutone.model.niw import NIW

QUANTILE = 0.95  # shown beside the median


def every_measure(law: ExposureLaw, leverage: float, count: int, rng: np.random.Generator) -> list[dict[str, Any]]:
    """Return every measure for a record of this leverage, after one dataset and after `count`: none tells all."""
    found = {k: simulate(law, np.array([leverage]), k, 100, rng, RADIUS) for k in {1, count}}
    names = {
        "exposure": "exposure",
        "information_gain": "information gain (nats)",
        "mass_gained": f"mass gained within {RADIUS:g}",
    }
    table = []
    for measure, name in names.items():
        row: dict[str, Any] = {"measure": name}
        for label, k in (("one", 1), ("budget", count)):
            values = getattr(found[k], measure)[0]
            row[f"{label}_median"] = float(np.median(values))
            row[f"{label}_95"] = float(np.quantile(values, QUANTILE))
        table.append(row)
    return table


def row_tradeoff(law: ExposureLaw, leverage: float, limit: Limit) -> list[dict[str, Any]]:
    """Return how many datasets are expected to keep a record below an exposure, for fewer and for more rows."""
    assert law.rows is not None
    table = []
    for rows in sorted({max(1, law.rows // 10), max(1, law.rows // 2), law.rows, 2 * law.rows, 10 * law.rows}):
        most = expected_count(ExposureLaw(law.p, law.mean_weight, law.df, rows), leverage, limit)
        table.append({"rows": rows, "datasets": most, "total_rows": most * rows})
    return table


def what_if(
    values: Float[np.ndarray, "n p"], prior: NIW, rows: int | None, limit: Limit, order: np.ndarray
) -> list[dict[str, Any]]:
    """Return what dropping, or pulling in, the most exposed records would allow, recomputed from the table.

    `order` holds the records' places from the most exposed down.
    """
    table = []
    for k in (1, 5):
        fewest = values.shape[1] + 2 if prior.is_flat else 3
        if len(values) - k < fewest:
            break
        worst = order[:k]
        kept = np.delete(values, worst, axis=0)
        table.append({"change": f"drop the {k} most exposed", "datasets": _of_table(kept, prior, rows, limit)})
        others = prior.update(kept)
        distance = _distances(others, values[order[k]][None])[0]
        pulled = values.copy()
        steps = values[worst] - others.mean
        pulled[worst] = others.mean + steps * np.minimum(1, distance / _distances(others, values[worst]))[:, None]
        change = f"pull the {k} most exposed in to the next one's Mahalanobis distance ({distance:.3g})"
        table.append({"change": change, "datasets": _of_table(pulled, prior, rows, limit)})
    return table


def expected_count(law: ExposureLaw, leverage: float, limit: Limit) -> int:
    """Return the most datasets, or draws, that keep the expected exposure at or below the limit (closed form)."""
    return int(min(law.most(leverage, limit.value), 1e15))


def _of_table(values: Float[np.ndarray, "n p"], prior: NIW, rows: int | None, limit: Limit) -> int:
    highest = float(np.max(leverages(values, prior)))
    return expected_count(ExposureLaw.of(prior, len(values), rows), highest, limit)


def _distances(others: NIW, values: Float[np.ndarray, "k p"]) -> Float[np.ndarray, " k"]:
    """Return Mahalanobis distances from the others' centre, by their E[Σ⁻¹] = νΛ⁻¹."""
    white = np.linalg.solve(others.root, (values - others.mean).T)
    return np.sqrt(others.df * np.sum(white * white, axis=0))
