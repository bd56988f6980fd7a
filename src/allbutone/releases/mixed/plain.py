"""A release of measurements alone as a mixed one: a table without categories has one cell."""

import numpy as np

from allbutone.model.location import SEPARATE, Parameters
from allbutone.model.niw import NIW
from allbutone.releases.joined import JoinedRelease
from allbutone.releases.mixed.mechanism import Mechanism
from allbutone.releases.mixed.release import Release
from allbutone.releases.release import DatasetRelease, ParameterRelease
from allbutone.support.arrays import to_numpy


def as_mixed(release: DatasetRelease | ParameterRelease | JoinedRelease, prior: NIW) -> Release:
    """Return the same release as one of the model of cells, of which there is one, with the same normal prior."""
    mechanism = Mechanism(release.schema.for_columns(release.column_names), prior, 1.0, SEPARATE)
    drawn = release.first if isinstance(release, JoinedRelease) else release
    parameters = None
    if isinstance(drawn, ParameterRelease):
        means, covariances = to_numpy(drawn.means), to_numpy(drawn.covariances)
        parameters = Parameters(np.ones((len(means), 1)), means[:, None], covariances[:, None])
    # datasets that come with their parameters say nothing more of the records
    told = release.synthetic if isinstance(release, JoinedRelease) else release
    datasets = told.datasets if isinstance(told, DatasetRelease) else ()
    tables = (mechanism.table(to_numpy(each), np.zeros((len(each), 0), dtype=np.int64)) for each in datasets)
    return Release(mechanism, tuple(tables), parameters)
