"""Fidelity over a thousand datasets, and the whole application, on the embedded cohort."""

import numpy as np
from scipy.stats import ks_2samp

import allbutone as abo
from benchmarks.clock import compare, in_own_process, seconds

WHOLE = """
import tempfile, subprocess, sys
with tempfile.TemporaryDirectory() as folder:
    subprocess.run([sys.executable, "-m", "allbutone", "application", "--out", folder + "/a"], check=True,
                   stdout=subprocess.DEVNULL)
"""


def run() -> None:
    cohort, prior = abo.demo_cohort(), abo.NIW.default(5)
    rng = np.random.default_rng(1)
    release = abo.DatasetRelease.draw(
        prior.update(cohort.values), [503] * 1000, rng, columns=cohort.columns, prior=prior
    )
    ours = seconds(lambda: abo.fidelity(cohort, release), 3)
    print(f"fidelity of 1000 datasets of 503 × 5: {ours:.2f} s (bar: 5 s)", flush=True)

    def one_by_one() -> None:
        for data in release.datasets[:20]:
            for place in range(5):
                ks_2samp(cohort.values[:, place], data[:, place])

    compare("  all measures", ours, seconds(one_by_one, 1) * 50, "SciPy's ks_2samp alone, 20 datasets scaled")
    took, _ = in_own_process(WHOLE)
    print(f"the whole application, 1000 datasets, counts to 1000: {took:.1f} s (bar: 20 s)", flush=True)
