"""Values known between bounds: points spread there by a density, and what they say of a box's probability."""

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import norm

from allbutone.adversary.boxes import Boxes
from allbutone.model.incomplete import IncompleteRecords, draw_between

BOUNDS = {"narrow": (0.9, 1.1), "wide": (-0.5, 3.0), "below": (-np.inf, -1.0), "above": (0.5, np.inf)}


@pytest.fixture(params=BOUNDS)
def boxed(request, rng):
    """A value of which bounds are known, and what it was in each of many draws, by a normal."""
    low, high = (np.array([[each]]) for each in BOUNDS[request.param])
    value = np.where(np.isfinite(low), low, high)
    drawn = draw_between(np.zeros((4000, 1, 1)), np.ones((1, 1, 1)), low, high, rng)
    return Boxes.of(IncompleteRecords.of(None, value, None, low, high), drawn)


def density_over_h(boxes):
    return np.stack([np.exp(norm.logpdf(points[..., 0]) - log_h) for points, log_h in boxes.lattice])


def test_a_lattice_lies_in_its_box_and_tells_its_probability(boxed):
    evenly = boxed.drawn_evenly(4000)
    for points, _ in evenly.lattice:
        assert np.all((points > boxed.low) & (points < boxed.high))
    each = np.mean(density_over_h(evenly), axis=0)
    expected = ndtr(boxed.high[0, 0]) - ndtr(boxed.low[0, 0])
    assert abs(np.mean(each) - expected) < 4.5 * np.std(each) / np.sqrt(len(each)) + 1e-9


def test_its_inverse_is_right_on_average_where_one_point_was_drawn(boxed):
    inverse = 1 / np.mean(density_over_h(boxed), axis=0)
    expected = 1 / (ndtr(boxed.high[0, 0]) - ndtr(boxed.low[0, 0]))
    assert abs(np.mean(inverse) - expected) < 4.5 * np.std(inverse) / np.sqrt(len(inverse)) + 1e-9
    assert np.std(inverse) < expected / 2  # nobody's draw outweighs all others, be it far out


def test_values_that_are_known_are_where_they_are():
    values = np.arange(6.0).reshape(3, 2)
    boxes = Boxes.of(IncompleteRecords.of(None, values), values[None])
    ((points, log_h),) = boxes.drawn_evenly(4).lattice
    np.testing.assert_array_equal(points, values[None])
    assert not log_h.any()
