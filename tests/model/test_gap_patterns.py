"""Synthetic gaps: their patterns, drawn and attacked."""

from itertools import product

import numpy as np
import pytest

import allbutone as abo
from allbutone.adversary.gaps import GapAdversary
from allbutone.disclosure.gap_risk import risk_with_gaps
from allbutone.model.augmentation import augment
from allbutone.model.incomplete import GapPatterns, IncompleteRecords, log_pattern_posterior, with_gaps
from allbutone.model.location import LocationModel
from allbutone.releases.sampling import draw_tables


def table(rng, n, rates):
    values = rng.standard_normal((n, len(rates)))
    return IncompleteRecords.of(None, np.where(rng.random(values.shape) < rates, np.nan, values))


def every_pattern(width):
    return np.array(list(product([False, True], repeat=width)))


def test_the_patterns_of_columns_with_gaps_have_probabilities_that_add_up(rng):
    records = table(rng, 30, [0.3, 0.0, 0.3])
    found = GapPatterns.of(records)
    assert found.columns.tolist() == [0, 2]
    every = every_pattern(3)[~every_pattern(3)[:, 1]]
    np.testing.assert_allclose(np.exp(found.log_probability(every)).sum(), 1)


def test_adding_and_removing_records_is_counting(rng):
    first, second = table(rng, 20, [0.4, 0.4]), table(rng, 10, [0.4, 0.4])
    together = GapPatterns.of(first.joined(second))
    every = every_pattern(2)
    np.testing.assert_allclose(
        GapPatterns.of(first).update(second).log_probability(every), together.log_probability(every)
    )
    without = GapPatterns.of(first.joined(second)).without(second.gaps[0])
    exact = GapPatterns.of(first).update(second.take(slice(1, None)))
    np.testing.assert_allclose(without.log_probability(every), exact.log_probability(every))


def test_drawn_patterns_have_the_frequencies_of_the_table(rng):
    records = table(rng, 400, [0.2, 0.5, 0.0])
    found = GapPatterns.of(records)
    drawn = np.array([found.draw(rng, 400).mean(axis=0) for _ in range(60)])
    # a dataset's share has twice the variance of the table's: one draw of the parameters, one of the rows
    error = np.sqrt(2 * 0.25 / 400 / 60)
    assert np.all(np.abs(drawn.mean(axis=0) - records.gaps.mean(axis=0)) < 5 * error + 1 / 400)
    assert not np.any(drawn[:, 2])


def test_patterns_that_nobody_has_are_drawn_as_often_as_the_prior_says(rng):
    """Pooled, they follow the same Dirichlet-multinomial: the chance of each at any row is its predictive."""
    records = IncompleteRecords.of(None, np.array([[1.0, np.nan, 1.0], [np.nan, 1.0, 1.0], [1.0, 1.0, np.nan]]))
    found, every = GapPatterns.of(records), every_pattern(3)
    drawn = np.concatenate([found.draw(rng, 5) for _ in range(3000)])
    shares = np.array([np.mean(np.all(drawn == pattern, axis=1)) for pattern in every])
    exact = np.exp(found.log_probability(every))
    # rows of a dataset hang together: at worst a dataset counts once
    assert np.all(np.abs(shares - exact) < 5 * np.sqrt(exact / 3000))


def test_the_patterns_posterior_is_bayes_rule(rng):
    """log p(pattern | X₋) + Σⱼ log p(Z⁽ʲ⁾ | X₋, pattern), the evidence by the chain of predictives."""
    others, datasets = table(rng, 12, [0.4, 0.4]), [table(rng, 5, [0.4, 0.4]), table(rng, 8, [0.4, 0.4])]
    known, every = GapPatterns.of(others), every_pattern(2)

    def evidence(model, records):
        total = 0.0
        for at in range(len(records)):
            total += model.log_probability(records.gaps[at : at + 1])[0]
            model = model.update(records.take([at]))
        return total

    literal = []
    for pattern in every:
        record = IncompleteRecords.of(None, np.where(pattern, np.nan, 0.0)[None])
        literal.append(
            known.log_probability(pattern[None])[0]
            + sum(evidence(known.update(record), data) for data in datasets)
        )
    ours = log_pattern_posterior(known, datasets, every)
    np.testing.assert_allclose(ours - ours[0], np.array(literal) - literal[0], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("sizes", [(), (2,)])
def test_synthetic_tables_with_gaps_are_made_and_attacked(sizes, rng):
    """From a table with gaps to datasets with gaps, whose own gaps the attack draws, too."""
    n = 40
    codes = rng.integers(0, 2, (n, len(sizes)))
    values = rng.standard_normal((n, 2)) + codes.sum(axis=1)[:, None]
    values[rng.random(values.shape) < 0.15] = np.nan
    records, prior = IncompleteRecords.of(codes, values), LocationModel.prior(sizes, abo.NIW.flat(2))
    filled, patterns = augment(records, prior, rng, chains=4), GapPatterns.of(records)
    drawn, _ = draw_tables(filled.posteriors, [n] * 2, rng)
    datasets = [with_gaps(each, prior.cells, patterns.draw(rng, n)) for each in drawn]
    assert any(np.any(each.gaps) for each in datasets)
    for complete, masked in zip(drawn, datasets, strict=True):
        seen = ~np.isnan(masked.values)
        np.testing.assert_array_equal(masked.values[seen], complete.values[seen])
        np.testing.assert_array_equal(masked.codes, prior.cells.codes[complete.cells])
    adversary = GapAdversary.of(records, prior, rng, datasets=datasets, chains=4, draws=8)
    found = risk_with_gaps(adversary, rng, rows=np.arange(5))
    has = np.any(~records.gaps[:5], axis=1)
    assert np.all(np.isfinite(found.gain[:5][has]))
