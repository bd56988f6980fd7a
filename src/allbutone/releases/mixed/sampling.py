"""Drawing synthetic mixed tables: each from its own draw of the model's parameters."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from allbutone.model.cells import UNKNOWN, Cells
from allbutone.model.location import LocationModel, MixedRecords, Parameters
from allbutone.support.checks import count_of, require_memory
from allbutone.support.parallel import in_parallel, one_thread


def draw_mixed(
    posteriors: Sequence[LocationModel],
    rows: Sequence[int],
    rng: np.random.Generator,
    *,
    kept: Int[np.ndarray, "n q"] | None = None,
    covariates: Float[np.ndarray, "n s"] | None = None,
) -> tuple[list[MixedRecords], Parameters]:
    """Draw one dataset for each entry of `rows`, in parallel; return also the parameters that each came from.

    `posteriors`: one for all, or, after missing values were drawn, one for each dataset. With `kept` levels
    (−1: to be drawn) and covariates a dataset has a record for each person, given what is kept of that person.
    """
    rows = [count_of("rows", count) for count in rows]
    require_memory(sum(rows) * (posteriors[0].p + 2))
    with one_thread():
        each = [posteriors[number % len(posteriors)].draw(rng, 1) for number in range(len(rows))]
    seeds = rng.integers(0, 1 << 32, size=(len(rows), 8), dtype=np.uint32)

    def draw(number: int) -> MixedRecords:
        stream = np.random.Generator(np.random.SFC64(seeds[number]))
        return _draw_records(posteriors[0], each[number], stream, rows[number], kept, covariates)

    drawn = in_parallel(draw, list(range(len(rows))))
    names = Parameters.__dataclass_fields__
    return drawn, Parameters(*(np.concatenate([getattr(one, name) for one in each]) for name in names))


def _draw_records(
    model: LocationModel,
    parameters: Parameters,
    rng: np.random.Generator,
    rows: int,
    kept: Int[np.ndarray, "n q"] | None,
    covariates: Float[np.ndarray, "n s"] | None,
) -> MixedRecords:
    shares, known = parameters.shares[0], np.zeros((rows, 0)) if covariates is None else covariates
    if kept is None:
        cells = rng.choice(len(shares), size=rows, p=shares)
    else:
        cells = _given_levels(model.cells, shares, kept, rng)
    (means,) = model.means(parameters, cells, known)
    roots, white = np.linalg.cholesky(parameters.covariances[0]), rng.standard_normal((rows, model.p))
    if len(roots) == 1:
        return MixedRecords(cells, means + white @ roots[0].T, known)
    return MixedRecords(cells, means + (roots[cells] @ white[..., None])[..., 0], known)


def _given_levels(
    cells: Cells, shares: Float[np.ndarray, " cells"], kept: Int[np.ndarray, "n q"], rng: np.random.Generator
) -> Int[np.ndarray, " n"]:
    """Draw the cell of each record among those that agree with what is kept of it."""
    if not np.any(kept == UNKNOWN):
        return cells.of_codes(kept)
    found = np.empty(len(kept), dtype=np.int64)
    patterns, which = np.unique(kept, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        (rows,) = np.nonzero(which.ravel() == number)
        (possible,) = np.nonzero(cells.agree_with(pattern))
        some = shares[possible] / shares[possible].sum()
        found[rows] = rng.choice(possible, size=len(rows), p=some)
    return found
