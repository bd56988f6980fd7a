"""Missing values: fit and synthesis of a large mixed table with gaps, and everyone's risk."""

from collections.abc import Iterator

import numpy as np

import allbutone as abo
from allbutone.adversary.gaps import GapAdversary
from allbutone.disclosure.gap_risk import risk_with_gaps
from allbutone.model.augmentation import augment
from allbutone.model.incomplete import IncompleteRecords
from allbutone.model.location import LocationModel
from allbutone.model.moments import Cells
from allbutone.releases.sampling import draw_tables
from benchmarks.clock import Row, seconds

SIZES, PEOPLE, COLUMNS, MISSING, DATASETS = (2, 2, 3, 4), 10_000, 8, 0.1, 10


def incomplete_table(rng: np.random.Generator) -> IncompleteRecords:
    cells = Cells(SIZES)
    which = rng.choice(cells.count, size=PEOPLE, p=rng.dirichlet(np.full(cells.count, 3.0)))
    effects = 0.7 * rng.standard_normal((cells.main_effects.shape[1], COLUMNS))
    values = cells.main_effects[which] @ effects + rng.standard_normal((PEOPLE, COLUMNS)) @ rng.standard_normal(
        (COLUMNS, COLUMNS)
    )
    values[rng.random(values.shape) < MISSING] = np.nan
    codes = cells.codes[which]
    return IncompleteRecords.of(np.where(rng.random(codes.shape) < MISSING, -1, codes), values)


def rows() -> Iterator[Row]:
    yield from fit_and_synthesis()
    yield everyones_risk()


def everyones_risk() -> Row:
    rng = np.random.default_rng(2)
    values = rng.standard_normal((300, 5)) @ rng.standard_normal((5, 5))
    values[rng.random(values.shape) < MISSING] = np.nan
    records, prior = IncompleteRecords.of(None, values), LocationModel.prior((), abo.NIW.flat(5))
    drawn, _ = draw_tables(augment(records, prior, rng, chains=5).posteriors, [300] * 5, rng)
    datasets = [IncompleteRecords.of(None, each.values) for each in drawn]
    took = seconds(lambda: risk_with_gaps(GapAdversary.of(records, prior, rng, datasets=datasets), rng), 1)
    return Row("risk of 300 × 5 with 10 % missing, against 5 datasets", took, most=60)


def fit_and_synthesis() -> Iterator[Row]:
    rng = np.random.default_rng(1)
    records = incomplete_table(rng)
    for separate, most in ((False, 30.0), (True, None)):
        normal = abo.NIW.default(COLUMNS) if separate else abo.NIW.flat(COLUMNS)
        prior = LocationModel.prior(SIZES, normal, separate=separate)

        def work(prior: LocationModel = prior) -> None:
            found = augment(records, prior, rng, chains=DATASETS)
            draw_tables(found.posteriors, [PEOPLE] * DATASETS, rng)

        kind = "separate combinations" if separate else "main effects"
        table = f"{PEOPLE:,} × ({COLUMNS} + {len(SIZES)} categories), 10 % missing"
        what = f"fit and {DATASETS} datasets of {table}, {kind}"
        yield Row(what, seconds(work, 1), most=most)
