"""A release with a guarantee: fit spends ε once; datasets are drawn from what the noisy moments say."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from allbutone.releases.cut_records import BeforeCut
from allbutone.releases.gaussian_account import delta_of, epsilon_of
from allbutone.releases.mechanism import IMPUTE, KEEP_GAPS, REFUSE, Mechanism, declared_in
from allbutone.releases.noise_aware import NoiseAware
from allbutone.releases.noisy_counts import NoisyMargin, margin_cells, margins_of
from allbutone.releases.private_mechanism import NoiseDesign, NoisyMoments, add_noise
from allbutone.releases.public_ball import PublicBall, model_limits, require_levels, require_public, without_limits
from allbutone.releases.release import Release, dataset_sizes
from allbutone.releases.sampling import fresh_generator
from allbutone.support.errors import Cure, InputError, require_memory
from allbutone.support.text import listed
from allbutone.tables.admission import ColumnsError, refusal
from allbutone.tables.date_forms import could_be_swapped
from allbutone.tables.records import Records
from allbutone.tables.schema import Schema

# A release with a guarantee: the noisy moments, and datasets drawn from what they say.


MODEL = "normal, of noisy moments"
ADJACENCY = "one of n records replaced, n public"
_MECHANISM = (
    "Records are brought into the public limits and ball below; the sum of their outer products, in whole "
    "numbers, gets OpenDP's discrete Gaussian noise. Every dataset is drawn from its own draw of the posterior "
    "given these noisy moments, which knows of the noise; so it tells no more of the records than they do."
)
_GAPS = (
    " Which values are missing is counted as categories are; the outer products are of what is observed, and the "
    "posterior takes values to be missing for reasons that the categories tell, or for none."
)
_COUNTS_ALONE = (
    "The levels of each category alone and of each pair are counted, and the counts get OpenDP's discrete "
    "Gaussian noise, in whole numbers. Every dataset is drawn from its own draw of the posterior given these "
    "noisy counts, which knows of the noise; so it tells no more of the records than they do."
)
_COUNTS = (
    " Categories: each alone and each pair are counted, with the same noise on the counts; in the outer products "
    "a level stands for a corner of a regular simplex. Measurements are normal around the sum of their levels' "
    "effects, with one covariance."
)


def mechanism_in_words(told: NoisyMoments) -> str:
    """Say how a release with a guarantee is made."""
    if not told.ball.p:
        return _COUNTS_ALONE
    counted = _COUNTS if told.ball.schema.categories else ""
    return _MECHANISM + counted + (_GAPS if told.ball.has_gaps else "")


def private_mechanism_of(schema: Schema, missing: str = REFUSE) -> Mechanism:
    """Return the mechanism of tables with these columns; its prior is what the table file declares."""
    if schema.categories or missing != REFUSE:
        return Mechanism(schema, None, missing=missing)
    return Mechanism.of_measurements(schema, None)


def draw_guaranteed(
    moments: NoisyMoments, datasets: int | None = None, rows: Any = None, missing: str = REFUSE
) -> Release:
    """Draw datasets with the operating system's randomness; as many rows as people unless said.

    Once the moments are told, datasets cost no privacy. `missing`: whether they have gaps of their own ("keep"),
    where values may be missing, or are complete ("impute").
    """
    sizes = dataset_sizes(datasets, rows, moments.people)
    ball, mechanism = moments.ball, private_mechanism_of(moments.ball.schema, missing)
    require_memory(sum(sizes) * len(mechanism.order))
    rng = fresh_generator()
    drawn, convergence = NoiseAware(moments).draw(len(sizes), rng)
    drawn = BeforeCut(ball).of(drawn) if ball.p else drawn
    means, covariances = ball.on_model_scale(drawn.coefficients, drawn.covariances[:, 0])
    roots, tables = np.linalg.cholesky(covariances), []
    for share, mean, root, size in zip(drawn.shares, means, roots, sizes, strict=True):
        cells = rng.choice(len(share), size=size, p=_without_missing(share, ball) if missing == IMPUTE else share)
        values = mean[cells] + rng.standard_normal((size, ball.p)) @ root.T
        if missing == KEEP_GAPS:
            values = np.where(ball.observed[cells], values, np.nan)
        table = mechanism.table(mechanism.schema.released(values), ball.levels_of(cells), missing == KEEP_GAPS)
        tables.append(table)
    return Release(mechanism, tuple(tables), noisy=moments, convergence=convergence)


def _without_missing(share: Any, ball: PublicBall) -> Any:
    """Return the shares of cells where nobody lacks a level: as those have them who agree in all other levels."""
    table = share.reshape(ball.cells.sizes)
    for place, column in enumerate(ball.schema.categories):
        if column.gaps:
            front = np.moveaxis(table, place, 0)
            there, lacking = front[:-1], front[-1:]
            among = there.sum(axis=0, keepdims=True)
            there = there + lacking * np.where(among > 0, there / np.maximum(among, 1e-300), 1 / len(there))
            table = np.moveaxis(np.concatenate([there, np.zeros_like(lacking)]), 0, place)
    return table.ravel() / table.sum()


def guaranteed_entries(told: NoisyMoments, missing: str = REFUSE) -> dict[str, Any]:
    """Return what release.json says besides its files."""
    ball, names = told.ball, _counted_names(told.ball)
    public = private_mechanism_of(ball.schema, missing)
    counts = [
        {"of": [names[place] for place in each.places], "noise": each.noise, "counts": each.counts.tolist()}
        for each in told.counts
    ]
    by_column = zip(ball.schema.measurements, ball.centre, ball.unit, strict=True)
    limits = {
        each.name: ({} if each.order else {"low": each.low, "high": each.high})
        | {"centre": float(middle), "unit": float(unit)}
        for each, middle, unit in by_column
    }
    return {
        "release": "datasets",
        "model": MODEL,
        "mechanism": mechanism_in_words(told),
        "columns": [column.name for column in ball.schema.columns],
        "guarantee": {
            "epsilon": told.epsilon,
            "delta": told.delta,
            "rho": told.rho,
            "adjacency": ADJACENCY,
            "people": told.people,
            "weight": 1.0,
            "limits": limits,
            "radius": ball.radius,
            "spread": ball.spread,
            "sensitivity": told.sensitivity,
            "noise": told.noise,
        },
        "noisy_moments": told.matrix.tolist(),
        **({"noisy_counts": counts} if counts else {}),
        **({"missing": missing} if ball.has_gaps else {}),
        **public.layout,
        # as of other releases: mode at the guess, worth one record, on the model's scale
        "prior": {
            "mean": ball.centre.tolist(),
            "mean_weight": 1.0,
            "df": -float(ball.p),
            "scale": np.diag((ball.spread * ball.unit) ** 2).tolist(),
        },
        "declared": public.declared,
    }


def guaranteed_from(entries: Mapping[str, Any], where: str) -> NoisyMoments:
    """Read what `guaranteed_entries` gives."""
    given, names = entries["guarantee"], entries["columns"]
    declared = declared_in(entries, where)
    # the table was checked against its formulas when ε was spent
    derived = tuple(replace(column, replaces=True) for column in declared.derived)
    layout = tuple(str(name) for name in entries.get("layout", ()))
    schema = replace(declared, derived=derived, layout=layout).for_columns(names)
    limits = given["limits"]
    measured = [column.name for column in schema.measurements]
    centre, unit = (np.array([float(limits[name][key]) for name in measured]) for key in ("centre", "unit"))
    ball = PublicBall(schema, centre, unit, float(given["radius"]), float(given["spread"]))
    matrix = np.array(entries["noisy_moments"], dtype=float)
    size = ball.p + ball.codes.shape[1]
    if matrix.shape != (size, size) or not np.all(np.isfinite(matrix)):
        raise InputError("its noisy moments do not fit its columns", where=where)
    told = {key: float(given[key]) for key in ("noise", "sensitivity", "epsilon", "delta", "rho")}
    counts = _counts_from(entries.get("noisy_counts", ()), ball, where)
    return NoisyMoments(ball, int(given["people"]), matrix, **told, counts=counts)


def _counts_from(entries: Any, ball: PublicBall, where: str) -> tuple[NoisyMargin, ...]:
    """Read the noisy counts, or say that they are not those of these categories."""
    names = _counted_names(ball)
    found = tuple(
        NoisyMargin(
            tuple(names.index(name) for name in each["of"]),
            np.array(each["counts"], dtype=float),
            float(each["noise"]),
        )
        for each in entries
    )
    expected = [(places, margin_cells(ball.cells.sizes, places)) for places in margins_of(len(names))]
    if [(each.places, each.counts.size) for each in found] != expected:
        raise InputError("its noisy counts do not fit its categories", where=where)
    return found


def _counted_names(ball: PublicBall) -> list[str]:
    """Return what the counts are of: categories, and measurements that are there or missing."""
    return [
        *(column.name for column in ball.schema.categories),
        *(ball.schema.measurements[place].name for place in ball.open),
    ]


# Where ε is spent: once, on the moments of a table; what is drawn from them afterwards is free.


def spend(
    table: Any, epsilon: float, delta: float, *, schema: Any = None, missing: str = REFUSE, **how_to_read: Any
) -> NoisyMoments:
    """Spend ε on a table, read as by `Records.of`; `schema` is the table file with limits and levels.

    Values outside the limits are brought inside. Gaps are refused unless `missing` says otherwise, and then in
    columns that are not declared to have any.
    """
    records, declared = read_private(table, schema, missing, **how_to_read)
    people, p = records.natural.shape
    delta = delta_of(delta, people)
    design = NoiseDesign.of(declared, people, epsilon_of(epsilon), delta)
    _require_enough(people, p, design.ball.codes.shape[1] if p else 0)
    require_public(declared, records.natural)
    return add_noise(design, records.natural, records.categories.codes)


def _require_enough(people: int, p: int, r: int) -> None:
    """Refuse, before any ε is spent, tables whose noisy moments no parameters could be drawn from."""
    # the prior has −p degrees of freedom, and n − p of the posterior must exceed p − 1
    least = max(p + r + 2, 2 * p)
    if people < least:
        raise InputError(
            f"{people} rows are too few for {p} columns{' and these categories' * (r > 1)}, which need {least}; "
            "no ε was spent",
            "give more rows",
            Cure("use fewer columns", "drop"),
        )


DECLARE_GAPS = Cure(
    "declare gaps = true of the columns that may have gaps, and have them kept", "missing", KEEP_GAPS
)


def with_gaps_of(schema: Schema, missing: str) -> Schema:
    """Return what is declared, with the columns that may have gaps where gaps are taken, and none elsewhere."""
    if missing == REFUSE:
        return replace(schema, columns=tuple(replace(column, gaps=False) for column in schema.columns))
    if not any(column.gaps for column in schema.columns):
        raise InputError(
            "which columns may have gaps must be public before anyone looks, and the table file names none",
            "declare gaps = true of the columns that may have some",
        )
    return schema


def read_private(table: Any, schema: Any, missing: str = REFUSE, **how_to_read: Any) -> tuple[Records, Schema]:
    """Read a table whose values may pass the limits; return it, and what is declared of its columns."""
    for option in ("complete_cases", "drop_unusable", "gaps"):
        if how_to_read.get(option):
            raise InputError(
                f"with a guarantee, nothing may depend on the table itself, as {option.replace('_', ' ')} does",
                "prepare the table before, by rules that are fixed beforehand",
            )
    given = table.schema if isinstance(table, Records) and schema is None else Schema.of(schema)
    if isinstance(table, Records):
        _require_as_it_came(table, schema)
    given = with_gaps_of(given, missing)
    # a refusal for what all records are together would tell of each of them that there is a release at all
    how_to_read |= {"categories": bool(given.categories), "gaps": missing != REFUSE, "one_by_one": True}
    try:
        wide = Records.of(table, schema=without_limits(given), **how_to_read)
    except ColumnsError as error:
        told = [DECLARE_GAPS] if any(problem.is_gap for problem in error.problems) else []
        raise refusal(error.problems, *told, closed=("complete_cases", "drop_unusable", "missing")) from error
    if wide.left_out:
        raise InputError(
            "rows without any value would be left out, and with them the number of people would tell of them",
            "give only people of whom something is known",
        )
    given = given.widened()  # with visits a person's rows are one record: the unit of privacy
    _require_declared_forms(wide, given)
    given = given.with_derived(wide.schema.derived_names, wide.schema.layout)
    declared = given.for_columns(wide.order)
    _require_declared_gaps(wide, declared)
    read_at, declared_at = (each.visits and each.visits.entries() for each in (wide.schema, given))
    if read_at != declared_at:
        raise InputError(
            "the records were read with other visits than the table file declares", "give the table itself"
        )
    undeclared = set(wide.categories.columns) - {column.name for column in declared.categories}
    if undeclared:
        raise InputError(
            f"the table file does not say that {listed(sorted(undeclared))} has categories, and which",
            'declare kind = "category" and its levels',
        )
    model_limits(declared)  # which refuses what has none
    require_levels(declared)
    if wide.categories.levels != tuple(column.levels for column in declared.categories):
        raise InputError("the table was read with other levels than the table file declares", "read it with these")
    return wide, declared


def _require_declared_forms(records: Records, declared: Schema) -> None:
    """Refuse dates of which other people's tell whether the day comes first: one record would change them all."""
    known = {name: calendar.form for name, calendar in declared.dates.items()}
    for name, calendar in records.schema.dates.items():
        if could_be_swapped(calendar.form) and known.get(name) != calendar.form:
            raise InputError(
                f"whether the day or the month comes first in {name!r} would be told by some of its dates",
                f'declare form = "{calendar.form}" in the table file, if that is so',
            )


def _require_declared_gaps(records: Records, declared: Schema) -> None:
    """Refuse gaps in columns that are not declared to have any."""
    lacking = dict(zip(records.columns, np.atleast_1d(np.isnan(records.values).any(axis=0)), strict=True))
    unknown = np.any(records.categories.codes < 0, axis=0)
    lacking |= dict(zip(records.categories.columns, np.atleast_1d(unknown), strict=True))
    if wrong := [column.name for column in declared.columns if lacking[column.name] and not column.gaps]:
        raise InputError(
            f"{listed(wrong)} lack values, and the table file does not say that they may",
            "declare gaps = true of every column that may have gaps, whether it has some or not",
        )


def _require_as_it_came(records: Records, schema: Any) -> None:
    """Refuse records of which the data themselves decided what is there: whoever is left out changes n."""
    wrong, cures = list[str](), list[str | Cure]()
    if records.left_out:
        wrong.append("rows or columns of them were left out because of what is in them")
        cures.append("prepare the table before, by rules that are fixed beforehand, and give the table itself")
    if records.categories.columns and schema is None:
        wrong.append("their levels may be those that are found in them")
        cures.append(Cure("give the table file with all levels that there can be", "schema"))
    if schema is None and any(could_be_swapped(each.form) for each in records.schema.dates.values()):
        wrong.append("whether day or month comes first in their dates may be what is found in them")
        cures.append(Cure("give the table file with the form of the dates", "schema"))
    if wrong:
        raise InputError(
            f"with a guarantee, nothing may depend on the records themselves: {'; '.join(wrong)}", *cures
        )


def refuse_seed() -> None:
    """Say that there is none."""
    raise InputError(
        "a seed or repeat key voids the guarantee: whoever has it can take the noise away",
        "leave it out: the operating system's randomness is used",
    )
