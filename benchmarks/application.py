"""Fidelity over a thousand datasets, and the whole application, on the embedded cohort."""

from collections.abc import Iterator

import numpy as np
from scipy.stats import ks_2samp

import allbutone as abo
from benchmarks.clock import Row, in_own_process, seconds

WHOLE = """
import tempfile, subprocess, sys
with tempfile.TemporaryDirectory() as folder:
    subprocess.run([sys.executable, "-m", "allbutone", "application", "--out", folder + "/a"], check=True,
                   stdout=subprocess.DEVNULL)
"""


def rows() -> Iterator[Row]:
    cohort, prior = abo.demo_cohort(), abo.NIW.default(5)
    rng = np.random.default_rng(1)
    release = abo.Release.draw(prior.update(cohort.values), [503] * 1000, rng, columns=cohort.columns, prior=prior)
    ours = seconds(lambda: abo.fidelity(cohort, release), 3)

    def one_by_one() -> None:
        for data in release.values[:20]:
            for place in range(5):
                ks_2samp(cohort.values[:, place], data[:, place])

    theirs = seconds(one_by_one, 1) * 50
    yield Row("fidelity of 1000 datasets of 503 × 5", ours, "SciPy's ks_2samp alone (20, scaled)", theirs, most=5)
    yield Row("the whole application, 1000 datasets", in_own_process(WHOLE)[0], most=20)
