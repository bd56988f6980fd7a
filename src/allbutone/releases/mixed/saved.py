"""A fitted synthesizer's numbers as JSON holds them, exact to the last bit. All of it is confidential."""

from typing import Any

import numpy as np

from allbutone.model.incomplete import IncompleteRecords
from allbutone.model.location import LocationModel
from allbutone.model.niw import NIW
from allbutone.model.regression import Regression


def table_entries(posterior: LocationModel | None, table: IncompleteRecords | None) -> dict[str, Any]:
    """Return what stands for the table: the posterior, or the table itself where values are missing."""
    content = {"posterior": None if posterior is None else _model_entries(posterior), "incomplete": None}
    if table is not None:
        values = [[None if np.isnan(value) else value for value in row] for row in table.values.tolist()]
        content["incomplete"] = {"codes": table.codes.tolist(), "values": values}
    return content


def table_from(
    content: dict[str, Any], prior: LocationModel, covariates: Any
) -> tuple[LocationModel | None, IncompleteRecords | None]:
    """Read what `table_entries` wrote."""
    given, table = content["posterior"], content["incomplete"]
    posterior = None if given is None else _model_from(given, prior)
    if table is None:
        return posterior, None
    values = np.array(table["values"], dtype=np.float64).reshape(-1, prior.p)
    codes = np.array(table["codes"], dtype=np.int64).reshape(len(values), -1)
    return posterior, IncompleteRecords.of(codes, values, covariates)


def _model_entries(model: LocationModel) -> dict[str, Any]:
    measured = model.measured
    names = ["mean", "mean_weight", "df", "scale"]
    if isinstance(measured, Regression):
        names = ["coefficients", "root", "df", "scale"]
    numbers = {name: np.asarray(getattr(measured, name)).tolist() for name in names}
    return {"weights": model.weights.tolist()} | numbers


def _model_from(entries: dict[str, Any], prior: LocationModel) -> LocationModel:
    numbers = {name: np.array(value, dtype=np.float64) for name, value in entries.items()}
    weights, scale = numbers["weights"], numbers["scale"]
    measured: Regression | NIW
    if "root" in numbers:
        measured = Regression(numbers["coefficients"], numbers["root"], float(numbers["df"]), scale)
    else:
        measured = NIW(numbers["mean"], numbers["mean_weight"], numbers["df"], scale)
    return LocationModel(prior.cells, weights, measured, prior.covariates)
