"""Risk: what each person in a table stands to lose by a release."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np
from jaxtyping import Bool

from allbutone.adversary.inputs import known_mask, known_patterns, require_same_prior
from allbutone.adversary.leave_one_out import LeaveOneOut
from allbutone.adversary.log_quadratic import LogQuadratic
from allbutone.disclosure.measures import HALF, RADIUS, TWICE, Effort, measure
from allbutone.integrals.proposal import Points
from allbutone.model.niw import NIW
from allbutone.model.prior_file import AnyPrior, prior_of
from allbutone.releases.folder import AnyRelease, release_of
from allbutone.releases.release import Release
from allbutone.support.errors import Cure, InputError
from allbutone.support.parallel import in_parallel
from allbutone.tables.records import Records

FOR_TOTALS = 9  # 2⁹ points, four times: a gain to about 0.01 nats
COLUMNS = (
    "distance", "baseline_distance", "relative_error", "exposure", "mass", "prior_mass", "information_gain",
)  # fmt: skip


def risk(
    table: Any,
    release: AnyRelease,
    prior: AnyPrior | None = None,
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
    The release may be its folder; the prior, if given, a prior file or its entries.

    >>> import allbutone as abo
    >>> cohort = abo.demo_cohort()
    >>> release = abo.NIWSynthesizer().fit(cohort).sample(datasets=1)
    >>> found = abo.risk(cohort, release, mass=False)
    >>> found.column_names[:4]
    ['row', 'distance', 'baseline_distance', 'relative_error']
    >>> len(found)
    503
    """
    release = release_of(release)
    records = Records.of(table, columns=release.columns, schema=release.schema)
    prior = None if prior is None else prior_of(prior, records.columns, records.schema)
    columns = risk_columns(records, release, prior, known=known, radius=radius, mass=mass, rng=rng)
    return nw.from_dict(columns, backend=records.backend).to_native()  # type: ignore[arg-type]


def is_exposed(found: Mapping[str, np.ndarray]) -> Bool[np.ndarray, " n"]:
    """Say who is exposed: the guess comes more than halfway, and the release makes it at least twice as likely.

    Without the second part records next to the others' centre would count, which any guess is near. A measure that
    could not be computed counts against the release.
    """
    error, gain = found["relative_error"], found["information_gain"]
    return ((error <= HALF) & (gain >= TWICE)) | ~np.isfinite(error) | ~np.isfinite(gain)


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
    everyone = LeaveOneOut.of(values, release, prior, None, "record")
    mask = known_mask(list(known) or None, records.columns, values.shape)
    work = [block for pattern in known_patterns(mask) for block in everyone.blocks(*pattern)]
    # the same points for every record: no result depends on how records are cut into blocks
    points, within = Points.of(rng), radius if mass else None
    found: dict[str, np.ndarray] = {}

    def attack(block: tuple[np.ndarray, tuple[int, ...]]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        return block[0], _attacked(everyone, *block, within, points)

    for rows, part in in_parallel(attack, work, watch=lambda block: watch(len(block[0]))):
        for name, column in part.items():
            found.setdefault(name, np.empty(len(values)))[rows] = column
    # the errors of the guess in each column's units come last, under the columns' own names
    guesses = np.column_stack([found.pop(f"guess {place}") for place in range(len(records.columns))])
    errors = records.schema.to_natural(guesses) - records.natural
    named = {f"error_{name}": errors[:, place] for place, name in enumerate(records.columns)}
    return {"row": records.rows, **found, **named}


def _attacked(
    everyone: LeaveOneOut, rows: np.ndarray, known: tuple[int, ...], radius: float | None, points: Points
) -> dict[str, np.ndarray]:
    """Return the measures of a block of records as columns."""
    targets, posteriors = everyone.records[rows], everyone.problem(rows, known)
    unknown = [place for place in range(targets.shape[1]) if place not in known]
    records = targets[:, unknown]
    effort = Effort(points, _points_each(posteriors, len(everyone.records), radius is not None))
    found = measure(posteriors, records, effort, radius=radius)
    names = [name for name in COLUMNS if radius is not None or not name.endswith("mass")]
    guesses = targets.copy()
    guesses[:, unknown] = found.guess
    columns = {f"guess {place}": column for place, column in enumerate(guesses.T)}
    return {name: getattr(found, name) for name in names} | columns


def _points_each(posteriors: LogQuadratic, people: int, mass: bool) -> int:
    """Return how many points a posterior may have, so that the work on all people stays bounded."""
    # drawing and weighing a point costs as much as ten wells
    each = (1 << 28 if mass else 1 << 26) / (people * (posteriors.wells + 10) * posteriors.p)
    most = (13 if posteriors.p <= 2 else 11) if mass else FOR_TOTALS
    return 1 << int(np.clip(np.log2(max(each, 1)), 5, most))


def require_same_mechanism(records: Records, release: Release, prior: NIW | None) -> NIW:
    """Return the mechanism's prior, refusing a release of other columns or made with another prior."""
    if release.columns is not None and release.columns != records.columns:
        raise InputError(
            f"the release is of the columns {', '.join(release.columns)}, the table of "
            f"{', '.join(records.columns)}",
            Cure("choose the same columns in the same order", "columns", list(release.columns)),
        )
    if not records.schema.same_mechanism(release.schema):
        raise InputError(
            "the release was made with other scales, limits or decimals than the table is read with",
            Cure("read the table as the release declares it", "schema"),
        )
    if prior is None:
        if release.prior is None:
            raise InputError("the release does not say which prior it was made with", Cure("give it", "prior"))
        return release.prior
    require_same_prior(release, prior)
    return prior
