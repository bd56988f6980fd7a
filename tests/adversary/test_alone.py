"""What a release keeps of itself gives the posterior of its rows and draws; one posterior is a batch of one."""

import numpy as np
import pytest
from hypothesis import given, settings

import allbutone as abo
from allbutone.adversary.build import from_whitened, log_posterior
from allbutone.adversary.modes import find_modes
from allbutone.releases.statistics import whitened_datasets, whitened_parameters, whitened_sums
from cases import LONG
from targets import make, recipes

EXAMPLES = settings(max_examples=100 if LONG else 20)


@EXAMPLES
@given(recipes(max_p=6, max_releases=10))
def test_sums_that_a_release_keeps_give_the_posterior_of_its_rows_and_draws(recipe):
    target = recipe.make()
    others = target.prior.update(target.others)
    sums = whitened_sums(target.release.normal._about, others)
    if sums is None:  # far longer in one direction
        return
    if recipe.kind == "parameters":
        rows = whitened_parameters(target.release.normal.means, target.release.normal.covariances, others)
    else:
        rows = whitened_datasets(target.release.normal.datasets, others)
    points = target.candidates(5)
    ours, theirs = (from_whitened(others, *each).log_density_unnormalized(points) for each in (sums, rows))
    scale = 1 + np.abs(theirs).max()
    np.testing.assert_allclose(ours - ours[0], theirs - theirs[0], rtol=1e-9, atol=1e-10 * scale)


@pytest.mark.parametrize("kind", ["parameters", "datasets"])
def test_where_sums_would_cost_digits_they_are_not_used(kind):
    """A column that nearly repeats another, and one person a million deviations out."""
    rng, prior = np.random.default_rng(1), abo.NIW.default(3)
    table = rng.standard_normal((50, 3))
    twins, stretched = table.copy(), table.copy()
    twins[:, 1] = twins[:, 0] + 1e-4 * table[:, 1]
    stretched[0] = 1e6
    for each in (twins, stretched):
        others = prior.update(each[1:] * 1e6) if each is twins else prior.update(each[1:])
        whole = prior.update(each * 1e6) if each is twins else prior.update(each)
        draw = abo.Release.draw_parameters if kind == "parameters" else abo.Release.draw
        release = draw(whole, 4 if kind == "parameters" else [50] * 4, rng)
        assert whitened_sums(release.normal._about, others) is None
    release = draw(prior.update(table), 4 if kind == "parameters" else [50] * 4, rng)
    assert whitened_sums(release.normal._about, prior.update(table[1:])) is not None


@pytest.mark.parametrize("kind", ["parameters", "datasets"])
def test_many_that_share_their_quadratic_have_the_modes_of_each(kind):
    """One feature is known, with one value or another: what was released is the same for all."""
    target = make(np.random.default_rng(5), kind, 3, 40, 6, outlying=4.0)
    one = log_posterior(target.others, target.release, prior=target.prior)
    values = target.record[0] + np.linspace(-1, 1, 4)[:, None]
    together = find_modes(one.given((0,), values))
    for row, value in enumerate(values):
        single = find_modes(one.given((0,), value))
        np.testing.assert_allclose(together.best[row], single.best, atol=1e-7)
        np.testing.assert_allclose(together.other[row], single.other, atol=1e-7)
