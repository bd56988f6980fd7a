"""NumPy's random numbers handed to another library of arrays: the same draws, computed with elsewhere."""

import numpy as np

from allbutone.support.devices import chi_squares


class Replayed:
    """Streams of random numbers that draw here and move what they drew there."""

    def __init__(self, seeds, move):
        self.each, self.move = [np.random.Generator(np.random.SFC64(seed)) for seed in seeds], move

    def normals(self, shape, axis):
        return self.move(np.concatenate([rng.standard_normal(shape) for rng in self.each], axis=axis))

    def chi_squares(self, df, size):
        drawn = [chi_squares(rng, row, size) for rng, row in zip(self.each, df, strict=True)]
        return self.move(np.concatenate(drawn, axis=-1))


def assert_same_replicates(ours, theirs):
    """To 1e-8, except where both modes are as high and rounding tosses the coin."""
    for name in ("distance", "candidate", "exposure", "baseline", "leverage", "unconverged"):
        one, other = getattr(ours, name), getattr(theirs, name)
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-8 * np.max(np.abs(other)), err_msg=name)
