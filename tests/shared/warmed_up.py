"""What processes that are made to be killed begin with: all that fitting and saving load is loaded once."""

import tempfile

import numpy as np

import allbutone as abo

fitted = abo.Synthesizer(abo.NIW.default(1)).fit(np.arange(5.0)[:, None] ** 1.5)
with tempfile.TemporaryDirectory() as place:
    abo.save_release(fitted.sample(), f"{place}/r")
