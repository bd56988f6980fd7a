"""Measurements without what categories and kept columns say of them: what a mixed model takes to be normal."""

import numpy as np

from allbutone.releases.mixed.mechanism import Mechanism
from allbutone.tables.records import Records


def given_categories(records: Records, mechanism: Mechanism) -> Records:
    """Return the drawn measurements less their effects of levels and kept measurements, by least squares.

    The model is of main effects, and no value may be missing. The columns keep their means and are on the model's
    scale.
    """
    parts = mechanism.split(records)
    known = mechanism.prior.coded(parts.cells, parts.covariates)
    known = known - known.mean(axis=0)
    spread = known.std(axis=0)
    known = known[:, spread > 0] / spread[spread > 0]
    effects = np.linalg.lstsq(known, parts.values - parts.values.mean(axis=0))[0]
    return Records(parts.values - known @ effects, mechanism.measurements)
