"""Risk: what each person in a table stands to lose by a release, wherever the table lies and whoever attacks."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from typing import Any

import narwhals as nw
import numpy as np
from jaxtyping import Bool

from allbutone.adversary.gaps import before_limits
from allbutone.adversary.integrate import Intervals
from allbutone.adversary.leave_one_out import LeaveOneOut
from allbutone.adversary.log_quadratic import LogQuadratic
from allbutone.adversary.plug_in import PlugInTable
from allbutone.adversary.proposal import Points
from allbutone.adversary.who import known_mask, known_patterns, require_same_prior
from allbutone.disclosure.gap_risk import any_risk_columns, can_be_averaged, gap_risk_columns, has_bounds
from allbutone.disclosure.measures import (
    RADIUS,
    Effort,
    Lacking,
    Measures,
    groups_of,
    lacks_records,
    measure,
    measure_groups,
)
from allbutone.disclosure.mixed_risk import require_usual_adversary
from allbutone.disclosure.private_risk import private_risk
from allbutone.disclosure.rule import (
    Among,
    Known,
    Rule,
    ToldValues,
    belief_columns,
    near_truth,
    require_free_names,
    with_verdicts,
)
from allbutone.disclosure.standing import far_out
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.model.prior import AnyPrior, prior_of
from allbutone.releases.folder import AnyRelease, release_of
from allbutone.releases.release import Release, reading_of
from allbutone.releases.several import AReleased, Released, in_columns, known_columns
from allbutone.support.devices import HERE, require_processor
from allbutone.support.errors import Cure, InputError
from allbutone.support.parallel import in_parallel
from allbutone.tables.engines.lazy_records import BLOCK_ROWS, LazyRecords, is_lazy
from allbutone.tables.records import Records

# Risk: what each person in a table stands to lose by a release.


FOR_TOTALS = 9  # 2⁹ points, four times: a gain to about 0.01 nats
COLUMNS = (
    "distance", "baseline_distance", "relative_error", "exposure", "mass", "prior_mass", "information_gain",
)  # fmt: skip
SAMPLED = ("mass_error", "information_gain_error")  # of an adversary whose posterior is sampled


def risk(
    table: Any,
    release: AnyRelease,
    prior: AnyPrior | None = None,
    *,
    probability: float = 0.5,
    known: Sequence[str] = (),
    lacking_columns: Sequence[str] = (),
    lacking_records: Lacking = 0,
    radius: float = RADIUS,
    mass: bool = True,
    rng: np.random.Generator | None = None,
    device: str = HERE,
    **how_to_read: Any,
) -> Any:
    """Return a dataframe, in the table's own library, with what the release gives away of each record.

    One row a record (`row` counts from 1): whether a value of it is `disclosed`, the `risk`, which is the
    probability that the adversary gives to the true value of the `riskiest` column, within its tolerance;
    disclosed means that this is at least `probability`, and by the release (see `Rule`). Then the measures: the
    paper's `distance` of the adversary's guess beside `baseline_distance`, that of guessing the centre of the
    others; `relative_error` and `exposure` in the others' metric; the posterior `mass` within a Mahalanobis
    `radius` of the truth beside `prior_mass`; `information_gain` at the truth in nats. And for each column the
    `probability_…` of the true value within `tolerance_…` (natural units) beside `baseline_…`, without the
    release, its standard error, and the error of the guess. The release may be its folder; the prior, if given, a
    prior file or its entries. Several releases of the table, in a list, are attacked together. How the table is
    read is said as to `Records.of` (complete_cases, missing_codes, …).

    The adversary has every record but one, and knows the columns `known` of that one, too. Weaker ones lack
    `lacking_columns` of everyone and attack by the others (exactly, given what the release says of those), or lack
    `lacking_records` besides the target: so many chosen at random, or rows (from 1) by a list. These are inferred
    together with it by sampling, and the standard errors of mass and gain come as columns.

    A lazy frame (polars, DuckDB, Dask, …) without categories stays in its engine: its records come here in blocks.
    With `device="cuda"` the attacks and integrals run on a graphics card, by PyTorch.

    Of a table with categories, `probability_…` is that of each record's own level, beside `baseline_…`, without
    the release; the measurements are judged as if the adversary had the categories right, and the gain is of
    everything at once. With gaps, what is observed of each record is judged, and standard errors come as columns.

    >>> import allbutone as abo
    >>> cohort = abo.demo_cohort()
    >>> release = abo.Synthesizer().fit(cohort).sample(datasets=1)
    >>> found = abo.risk(cohort, release, mass=False)
    >>> found.column_names[:4]
    ['row', 'disclosed', 'risk', 'riskiest']
    >>> len(found)
    503
    """
    release = release_of(release)
    if isinstance(release, Release) and release.noisy is not None:
        require_processor(device, "a release with a guarantee")
        return private_risk(table, release, Rule.of(probability), **how_to_read)
    asked: dict[str, Any] = {
        "rule": Rule.of(probability), "known": known, "radius": radius, "mass": mass, "rng": rng,
    }  # fmt: skip
    if isinstance(release, Release) and not release.mechanism.is_normal:
        require_processor(device, "a table with categories or gaps")
        require_usual_adversary(prior, lacking_columns, lacks_records(lacking_records))
        records = Records.of(table, **reading_of(release, how_to_read))
        columns = any_risk_columns(records, release, **asked)
        return nw.from_dict(columns, backend=records.backend).to_native()  # type: ignore[arg-type]
    asked |= {"lacking_columns": lacking_columns, "lacking_records": lacking_records, "device": device}
    if is_lazy(table):
        return risk_where_it_lies(table, release, prior, how_to_read, **asked)
    records = Records.of(table, **reading_of(release, how_to_read))
    prior = None if prior is None else prior_of(prior, records.columns, records.schema)
    columns = risk_columns(records, release, prior, **asked)
    return nw.from_dict(columns, backend=records.backend).to_native()  # type: ignore[arg-type]


def risk_columns(
    records: Records,
    release: Released,
    prior: NIW | None = None,
    *,
    rule: Rule | None = None,
    known: Sequence[str] = (),
    lacking_columns: Sequence[str] = (),
    lacking_records: Lacking = 0,
    radius: float = RADIUS,
    mass: bool = True,
    rng: np.random.Generator | None = None,
    device: str = HERE,
    elsewhere: Moments | None = None,
    judged: int | None = None,
    watch: Callable[[int], None] = lambda records: None,
) -> dict[str, np.ndarray]:
    """Return the measures of `risk` as columns; `watch` is called with the number of records finished.

    elsewhere: the moments of records of the table that are not among these, which the adversary has, too.
    judged: of how many records that are judged these are a part, if they are: more take fewer points each.
    """
    prior = require_same_mechanism(records, release, prior)
    if not radius > 0:
        raise InputError(f"radius must exceed 0, got {radius}")
    all_columns = records.columns
    if lacking_columns:
        records, release, prior = in_known_columns(records, release, prior, lacking_columns)
        if elsewhere is not None:
            elsewhere = elsewhere.select([all_columns.index(name) for name in records.columns])
    usual = device == HERE and not lacks_records(lacking_records) and records.schema.is_limited
    if usual and isinstance(release, Release) and release.datasets and not release.as_drawn:
        told = replace(release, mechanism=replace(release.mechanism, normal=prior))
        if can_be_averaged(records, told) and has_bounds(records, told, elsewhere):
            asked: dict[str, Any] = {"rule": rule, "known": known, "radius": radius, "mass": mass, "rng": rng}
            return gap_risk_columns(records, told, elsewhere=elsewhere, watch=watch, **asked)
    release = before_limits(release, records.values, elsewhere)
    values, within = records.values, radius if mass else None
    mask = known_mask(list(known) or None, records.columns, values.shape)
    require_free_names(unknown_names(records, mask))
    if lacks_records(lacking_records):
        _require_nothing_known(known)
        _require_all_here(elsewhere)
        require_processor(device, "an adversary who lacks several records")
    near = near_truth(records, elsewhere)
    parts = _measured(
        records, release, prior, mask, lacking_records, (within, near), rng, watch, elsewhere, device, judged, rule
    )
    names = (*COLUMNS, *(SAMPLED if lacks_records(lacking_records) else ()))
    return as_columns(records, parts, mask, near, rule, names if mass else without_mass(names))


def as_columns(
    records: Records,
    parts: list[tuple[np.ndarray, Any]],
    mask: Bool[np.ndarray, "n p"],
    near: Known,
    rule: Rule | None,
    names: Sequence[str] = COLUMNS,
) -> dict[str, np.ndarray]:
    """Put blocks of rows and their measures together as the columns of `risk`; `mask`: what was known."""
    values = records.values
    found = {name: np.empty(len(values)) for name in names}
    guesses = values.copy()  # of what is known there is no error
    beliefs = {name: np.full(values.shape, np.nan) for name in ("probability", "probability_error", "baseline")}
    for rows, part in parts:
        for name, column in found.items():
            column[rows] = getattr(part, name)
        unknown = np.ix_(rows, ~mask[rows[0]])
        guesses[unknown] = part.guess
        for name, matrix in beliefs.items():
            matrix[unknown] = getattr(part, name)
    # the errors of the guess in each column's units come last, under the columns' own names
    off = records.schema.to_natural(guesses) - records.natural
    named = {f"error_{name}": off[:, place] for place, name in enumerate(records.columns)}
    judged = belief_columns(records, near, beliefs, unknown_names(records, mask))
    return with_verdicts(records, rule, found, judged, named)


def without_mass(names: Sequence[str]) -> list[str]:
    """Return the measures that need no mass near the truth."""
    return [name for name in names if "mass" not in name]


def unknown_names(records: Records, mask: Bool[np.ndarray, "n p"]) -> list[str]:
    """Return the columns that the adversary does not know of everyone."""
    return [name for place, name in enumerate(records.columns) if not mask[:, place].all()]


def _measured(
    records: Records,
    release: Released,
    prior: NIW,
    mask: Bool[np.ndarray, "n p"],
    lacking_records: Lacking,
    inside: tuple[float | None, Intervals],
    rng: np.random.Generator | None,
    watch: Callable[[int], None],
    elsewhere: Moments | None,
    device: str,
    judged: int | None,
    rule: Rule | None,
) -> list[tuple[np.ndarray, Any]]:
    """Return blocks of rows with their measures; the same points for every record, however they are cut."""
    values = records.values
    if lacks_records(lacking_records):
        stream = np.random.default_rng(rng)
        if not isinstance(lacking_records, int | np.integer):  # rows of the table, which may have lost some
            lacking_records = [records.place_of(row) + 1 for row in lacking_records]
        groups = groups_of(len(values), lacking_records, np.arange(len(values)), stream)
        return measure_groups(values, release, prior, groups, stream, *inside, watch)
    everyone = LeaveOneOut.of(values, release, prior, None, "record", elsewhere).on(device)
    work = [block for pattern in known_patterns(mask) for block in everyone.blocks(*pattern)]
    attack = partial(measure_block, everyone, inside, Points.of(rng), judged=judged, rule=rule)
    here = device == HERE  # a device is this computer's own
    threads = None if here else everyone.threads
    return in_parallel(attack, work, threads=threads, watch=lambda block: watch(len(block[0])), anywhere=here)


def measure_block(
    everyone: LeaveOneOut | PlugInTable,
    inside: tuple[float | None, Intervals],
    points: Points,
    block: tuple[np.ndarray, tuple[int, ...]],
    judged: int | None = None,
    rule: Rule | None = None,
) -> tuple[np.ndarray, Measures]:
    """Measure a block of records that share their known features; `judged`: how many are in all."""
    (rows, known), (radius, near) = block, inside
    with everyone.queue():
        targets, posteriors = everyone.targets(rows), everyone.problem(rows, known)
        unknown = [place for place in range(targets.shape[1]) if place not in known]
        effort = Effort(points, _points_each(posteriors, judged or len(everyone.records), radius is not None))
        around = near.take(rows, unknown)
        found = measure(posteriors, targets[:, unknown], effort, radius=radius, near=around, rule=rule or Rule())
        return rows, found if everyone.device is None else found.in_numpy()


def in_known_columns(
    records: Records, release: AReleased, prior: NIW, lacking: Sequence[str]
) -> tuple[Records, AReleased, NIW]:
    """Return the table, the release and the prior in the columns that an adversary has who lacks some."""
    kept = known_columns(records.columns, lacking)
    some = records.select([records.columns[place] for place in kept])
    return some, in_columns(release, kept), prior.marginal(kept)


def _require_nothing_known(known: Sequence[str]) -> None:
    if known:
        raise InputError(
            "an adversary who lacks several records is taken to know nothing of the target",
            Cure("leave out what is known", "known", []),
            Cure("leave out what is lacking", "lacking_records", 0),
        )


def _require_all_here(elsewhere: Moments | None) -> None:
    if elsewhere is not None:
        raise InputError(
            "an adversary who lacks records is sampled with all records at hand, and most of these are elsewhere",
            Cure("leave out what is lacking", "lacking_records", 0),
        )


def _points_each(posteriors: LogQuadratic, people: int, mass: bool) -> int:
    """Return how many points a posterior may have, so that the work on all people stays bounded."""
    # drawing and weighing a point costs as much as ten wells
    each = (1 << 28 if mass else 1 << 26) / (people * (posteriors.wells + 10) * posteriors.p)
    most = (13 if posteriors.p <= 2 else 11 if posteriors.p <= 10 else 10) if mass else FOR_TOTALS
    return 1 << int(np.clip(np.log2(max(each, 1)), 5, most))


def require_same_mechanism(records: Records | LazyRecords, release: Released, prior: NIW | None) -> NIW:
    """Return the mechanism's prior, refusing a release of other columns or made with another prior."""
    if release.columns != records.columns:
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


# Risk of all records of a table that stays in its engine: one block after another, never more than that.


KEPT = 3000  # people of whom all is held to the end: as many as a figure shows


def stream_risk(
    records: LazyRecords,
    release: Released,
    prior: NIW | None = None,
    *,
    key: str | None = None,
    block_rows: int = BLOCK_ROWS,
    rng: np.random.Generator | None = None,
    **asked: Any,
) -> Iterator[dict[str, np.ndarray]]:
    """Yield the columns of `risk_columns`, of which `asked` are arguments, for one block of records after another.

    The adversary has all other records, of all blocks: these enter by their moments, which the engine has added
    up, less the block's own. Those of the records that make up nearly all of a direction are kept apart, so that
    nothing is lost by taking them out. The same random points serve every block. Values that limits or coarse
    rounding changed enter as one draw of what they were (`before_limits`).
    """
    prior = require_same_mechanism(records, release, prior)
    far, near = far_out(records, prior)
    release = before_limits(release, far, near)
    seen, seed = 0, 0 if rng is None else int(rng.integers(2**63))
    for block, keys in records.blocks(block_rows, key):
        found = risk_columns(
            block,
            release,
            prior,
            rng=np.random.default_rng(seed),
            elsewhere=_others(block, far, near),
            judged=len(records),
            **asked,
        )
        seen += len(block.values)
        yield found if keys is None else {"key": keys, **found}
    if seen != len(records):
        raise InputError(
            f"the table had {len(records):,} records when it was added up and {seen:,} when they were judged",
            "see that nobody writes to it, and try again",
        )


def risk_where_it_lies(
    table: Any, release: Released, prior: AnyPrior | None, how: dict[str, Any], **asked: Any
) -> Any:
    """Return the dataframe of `risk` for a table that stays in its engine, read as `how` says."""
    records = LazyRecords.of(table, **reading_of(release, how))
    given = None if prior is None else prior_of(prior, records.columns, records.schema)
    blocks = list(stream_risk(records, release, given, **asked))
    columns = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
    return nw.from_dict(columns, backend=records.library).to_native()  # type: ignore[arg-type]


def _others(block: Records, far: np.ndarray, near: Moments) -> Moments:
    """Return the moments of all records that are not in the block, given those far out and of all others."""
    same = (block.values[:, None, :] == far).all(axis=2)  # no two of these are the same
    others = near.without(Moments.of(block.values[~same.any(axis=1)]))
    return others.merge(Moments.of(far[~same.any(axis=0)]))


@dataclass
class WorstSoFar:
    """What is held of the blocks that have passed: how many are disclosed, and those who come closest to it.

    found: as `risk_columns` has it, of these people.
    """

    rule: Rule
    people: int = 0
    disclosed: int = 0
    found: dict[str, np.ndarray] = field(default_factory=dict)

    def add(self, block: dict[str, np.ndarray]) -> None:
        """Count a block, and keep of it and of those kept so far the people first in order."""
        self.people += len(block["row"])
        self.disclosed += int(np.sum(block["disclosed"]))
        both = {
            name: np.concatenate([self.found[name], column]) if self.found else column
            for name, column in block.items()
        }
        kept = np.sort(ToldValues.of(both, self.rule).order[:KEPT])
        self.found = {name: column[kept] for name, column in both.items()}

    @property
    def among(self) -> Among:
        """Of how many these are the worst."""
        return Among(self.people, self.disclosed)


# How the risk of some records falls with what the adversary lacks: other records, or columns of everyone.


NUMBERS = (1, 2, 5, 10, 20)  # of records lacking besides the target
SUBSETS = 12  # of columns, over which the median of a measure is taken
MEASURED = ("distance", "relative_error", "exposure", "information_gain")


def risk_by_lacking(
    records: Records,
    release: Released,
    prior: NIW | None,
    rows: Sequence[int],
    *,
    numbers: Sequence[int] = NUMBERS,
    rng: np.random.Generator | None = None,
    watch: Callable[[int], None] = lambda settings: None,
) -> dict[str, np.ndarray]:
    """Return what adversaries who lack ever more learn of some records (`rows`, from 1), as columns.

    One line for each kind of what is `lacking` (records, columns), `number` of them and `row`. Records besides the
    target are chosen at random for each target and number. For columns the measures are medians over all, or
    twelve random, choices of so many. `watch` is called after every number.
    """
    prior, stream = require_same_mechanism(records, release, prior), np.random.default_rng(rng)
    targets = np.array([records.place_of(row) for row in rows])
    p, people = len(records.columns), len(records.values)
    everything = _lacking_columns(records, release, prior, [()], targets)
    lines = [("records", 0, everything)]
    for number in (number for number in numbers if number + 2 <= people):
        groups = groups_of(people, number, targets, stream)
        parts = measure_groups(records.values, release, prior, groups, stream)
        lines.append(("records", number, {name: _in_order(parts, name, targets) for name in MEASURED}))
        watch(1)
    lines.append(("columns", 0, everything))
    for number in range(1, p):
        choices = list(combinations(records.columns, number)) if p <= 12 else []
        if not 0 < len(choices) <= SUBSETS:
            choices = [tuple(stream.choice(records.columns, number, replace=False)) for _ in range(SUBSETS)]
        lines.append(("columns", number, _lacking_columns(records, release, prior, choices, targets)))
        watch(1)
    return {
        "lacking": np.repeat([kind for kind, _, _ in lines], len(targets)),
        "number": np.repeat([number for _, number, _ in lines], len(targets)),
        "row": np.tile(records.rows[targets], len(lines)),
        **{name: np.concatenate([found[name] for _, _, found in lines]) for name in MEASURED},
    }


def _lacking_columns(
    records: Records, release: Released, prior: NIW, choices: Sequence[Sequence[str]], targets: np.ndarray
) -> dict[str, np.ndarray]:
    """Return the measures of the targets, the medians over the choices of columns that are lacking."""
    found = []
    for lacking in choices:
        some, part, own = in_known_columns(records, release, prior, lacking)
        everyone, near = LeaveOneOut.of(some.values, part, own, None, "record"), near_truth(some)
        blocks = [measure_block(everyone, (None, near), Points(), block) for block in everyone.blocks((), targets)]
        found.append({name: _in_order(blocks, name, targets) for name in MEASURED})
    return {name: np.median([each[name] for each in found], axis=0) for name in MEASURED}


def _in_order(parts: Sequence[tuple[np.ndarray, object]], name: str, targets: np.ndarray) -> np.ndarray:
    """Return a measure of the targets in their own order; the parts come in any."""
    values = dict(zip(
        np.concatenate([places for places, _ in parts]).tolist(),
        np.concatenate([getattr(part, name) for _, part in parts]).tolist(),
        strict=True,
    ))  # fmt: skip
    return np.array([values[place] for place in targets.tolist()])
