"""The embedded cohort: a simulated stand-in for real people, so that everything can be tried safely."""

import numpy as np

from allbutone.tables.records import Records

COLUMNS = ("T2D", "CAD", "HT", "BMI", "HBA1C")
PEOPLE = 503
OUTLIER = 212  # the 1-based row of the one deliberate outlier
_CORRELATION = np.array(
    [
        [1.00, 0.25, 0.30, 0.40, 0.45],
        [0.25, 1.00, 0.35, 0.20, 0.10],
        [0.30, 0.35, 1.00, 0.25, 0.10],
        [0.40, 0.20, 0.25, 1.00, 0.20],
        [0.45, 0.10, 0.10, 0.20, 1.00],
    ]
)
_OUTLYING = np.array([5.5, -4.0, 5.0, 6.0, -4.5])


def demo_cohort() -> Records:
    """Return 503 simulated people with five standardised polygenic scores, the same ones every time.

    Type 2 diabetes, coronary artery disease, hypertension, body mass index and glycated haemoglobin: correlated
    normal scores, and in row 212 one person far outside.

    >>> import allbutone as abo
    >>> abo.demo_cohort().columns
    ('T2D', 'CAD', 'HT', 'BMI', 'HBA1C')
    """
    rng = np.random.default_rng(503)
    values = rng.standard_normal((PEOPLE, len(COLUMNS))) @ np.linalg.cholesky(_CORRELATION).T
    values[OUTLIER - 1] = _OUTLYING
    return Records(np.round(values, 4), COLUMNS)
