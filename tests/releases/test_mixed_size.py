"""Mixed tables with many cells: what is computed once, and what is never held."""

import tracemalloc

import numpy as np

import allbutone as abo
from allbutone.adversary.mixed import CellIntegrals, MixedLeaveOneOut
from allbutone.adversary.proposal import Points
from allbutone.model.location import LocationModel, MixedRecords
from allbutone.releases.sampling import draw_tables


def test_many_separate_cells_are_drawn_and_attacked_in_little_memory(rng):
    """No array has a number for every record and every cell, nor for every pair of cells."""
    prior = LocationModel.prior((2000,), abo.NIW.default(1), separate=True)
    records = MixedRecords.of(rng.integers(0, 2000, 5000), rng.standard_normal((5000, 1)))
    tracemalloc.start()
    try:
        posterior = prior.update(records)
        _, drawn = draw_tables([posterior], [5000], rng)
        everyone = MixedLeaveOneOut.of(records, prior, [], drawn)
        everyone.problem(np.arange(5000), records.cells)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * 2000 * 2000


def test_what_records_share_grows_with_cells_not_with_their_pairs(rng):
    prior = LocationModel.prior((20, 30), abo.NIW.flat(1))
    records = MixedRecords.of(rng.integers(0, 600, 900), rng.standard_normal((900, 1)))
    datasets, _ = draw_tables([prior.update(records)], [900, 900], rng)
    integrals = CellIntegrals.of(MixedLeaveOneOut.of(records, prior, datasets), Points(1))
    sizes = [np.size(each) for model in integrals.shared.models for each in vars(model).values()]
    assert max(sizes) < 600 * 600


def test_a_record_that_stands_far_out_is_taken_out_once_for_all_cells(rng):
    class Counting(MixedLeaveOneOut):
        refits = 0

        def _refitted(self, *asked):
            Counting.refits += 1
            return super()._refitted(*asked)

    prior = LocationModel.prior((2, 3), abo.NIW.flat(2))
    records = MixedRecords.of(rng.integers(0, 6, 30), rng.standard_normal((30, 2)))
    records.values[0] = 1e4
    datasets, _ = draw_tables([prior.update(records)], [20, 35], rng)
    everyone = Counting.of(records, prior, datasets)
    problem, _ = everyone.problem(np.zeros(6, dtype=int), np.arange(6))
    assert Counting.refits == 1 + len(datasets)
    others = prior.update(records.take(slice(1, None))).at(np.arange(6), np.zeros((6, 0)))
    np.testing.assert_allclose(problem.centre, others.mean, rtol=1e-9)
