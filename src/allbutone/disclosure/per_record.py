"""Risk: what each person in a table stands to lose by a release."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np
from jaxtyping import Bool

from allbutone.adversary.exact_integrals import (
    exposure_of,
    information_gain,
    integrate_many,
    points_for,
    prior_mass,
    relative_error,
)
from allbutone.adversary.inputs import known_mask, known_patterns, require_same_prior
from allbutone.adversary.leave_one_out import LeaveOneOut
from allbutone.adversary.modes import find_modes
from allbutone.model.niw import NIW
from allbutone.releases.release import Release
from allbutone.support.errors import InputError
from allbutone.support.parallel import in_parallel
from allbutone.tables.records import Records

RADIUS = 1.0
FOR_TOTALS = 512  # points, four times: a gain to about 0.01 nats
HALF = 0.5  # of the way from the crowd to a record: nearer than that, it counts as exposed
TWICE = float(np.log(2))  # nats: a guess near a record that the release made no more likely is luck


def risk(
    table: Any,
    release: Release,
    prior: NIW | None = None,
    *,
    known: Sequence[str] = (),
    radius: float = RADIUS,
    mass: bool = True,
    rng: np.random.Generator | None = None,
) -> Any:
    """Return a dataframe, in the table's own library, with what the release gives away of each record.

    One row a record (`row` counts from 1): the paper's `distance` of the adversary's guess beside
    `baseline_distance`, that of guessing the centre of the others; `relative_error` and `exposure` in the others'
    metric; the posterior `mass` within a Mahalanobis `radius` of the truth beside `prior_mass`;
    `information_gain` at the truth in nats; and the error of the guess in each column's units.
    """
    records = Records.of(table, columns=release.columns)
    columns = risk_columns(records, release, prior, known=known, radius=radius, mass=mass, rng=rng)
    return nw.from_dict(columns, backend=records.backend).to_native()  # type: ignore[arg-type]


def is_exposed(found: Mapping[str, np.ndarray]) -> Bool[np.ndarray, " n"]:
    """Say who is exposed: the guess comes more than halfway, and the release makes it at least twice as likely.

    Without the second part records next to the crowd's centre would count, which any guess is near.
    """
    return (found["relative_error"] <= HALF) & (found["information_gain"] >= TWICE)


def risk_columns(
    records: Records,
    release: Release,
    prior: NIW | None = None,
    *,
    known: Sequence[str] = (),
    radius: float = RADIUS,
    mass: bool = True,
    rng: np.random.Generator | None = None,
    watch: Callable[[int], None] = lambda records: None,
) -> dict[str, np.ndarray]:
    """Return the measures of `risk` as columns; `watch` is called with the number of records finished."""
    prior = require_same_mechanism(records, release, prior)
    if not radius > 0:
        raise InputError(f"radius must exceed 0, got {radius}")
    values = records.values
    problem = LeaveOneOut.of(values, release, prior, None, "record")
    mask = known_mask(list(known) or None, records.columns, values.shape)
    work = [block for pattern in known_patterns(mask) for block in problem.blocks(*pattern)]
    streams = np.random.default_rng(rng).spawn(len(work))
    found: dict[str, np.ndarray] = {}

    def measure(job: tuple[tuple[np.ndarray, tuple[int, ...]], np.random.Generator]) -> Any:
        (rows, features), stream = job
        return rows, _measure(problem, rows, features, radius if mass else None, len(values), stream)

    jobs = zip(work, streams, strict=True)
    for rows, part in in_parallel(measure, jobs, watch=lambda block: watch(len(block[0]))):
        for name, column in part.items():
            found.setdefault(name, np.empty(len(values)))[rows] = column
    # the integrals of all blocks done, the attributes' errors come last and under the columns' own names
    errors = {f"error_{name}": found.pop(f"error {place}") for place, name in enumerate(records.columns)}
    return {"row": np.arange(1, len(values) + 1), **found, **errors}


def _measure(
    problem: LeaveOneOut,
    rows: np.ndarray,
    known: tuple[int, ...],
    radius: float | None,
    people: int,
    rng: np.random.Generator,
) -> dict[str, np.ndarray]:
    targets, posterior = problem.records[rows], problem.problem(rows, known)
    unknown = [place for place in range(targets.shape[1]) if place not in known]
    records = targets[:, unknown]
    truth, modes = posterior.whiten(records), find_modes(posterior)
    guess = posterior.unwhiten(modes.best)
    # every record has its share of the work, whatever the size of its block
    work = (1 << 28 if radius is not None else 1 << 26) * len(rows) / people
    points = points_for(work, len(rows), posterior)
    points = points if radius is not None else min(points, FOR_TOTALS)
    learned = integrate_many(posterior, modes, truth, radius, rng, points)
    found = {
        "distance": np.linalg.norm(guess - records, axis=1),
        "baseline_distance": np.linalg.norm(posterior.centre - records, axis=1),
        "relative_error": relative_error(modes.best, truth),
        "exposure": exposure_of(modes.best, truth),
    }
    if radius is not None and learned.mass is not None:
        found["mass"], found["prior_mass"] = learned.mass, prior_mass(posterior, truth, radius)
    found["information_gain"] = information_gain(posterior, truth, learned.log_total)
    errors = np.zeros_like(targets)
    errors[:, unknown] = guess - records
    return found | {f"error {place}": column for place, column in enumerate(errors.T)}


def require_same_mechanism(records: Records, release: Release, prior: NIW | None) -> NIW:
    """Return the mechanism's prior, refusing a release of other columns or made with another prior."""
    if release.columns is not None and release.columns != records.columns:
        raise InputError(
            f"the release is of the columns {', '.join(release.columns)}, the table of "
            f"{', '.join(records.columns)}; choose the same columns in the same order (--columns)"
        )
    if prior is None:
        if release.prior is None:
            raise InputError("the release does not say which prior it was made with; give it (--prior)")
        return release.prior
    require_same_prior(release, prior)
    return prior
