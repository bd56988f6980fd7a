"""The gate of releases: names, shapes and finite numbers, checked once."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj

from allbutone.model.niw import NIW
from allbutone.support.arrays import array_namespace, real_array
from allbutone.support.errors import InputError
from allbutone.tables.declared.schema import Schema
from allbutone.tables.names import check_names
from allbutone.tables.records import Records


def checked_datasets(
    datasets: Sequence[Any], names: tuple[str, ...] | None
) -> tuple[list[Any], tuple[str, ...] | None]:
    """Return arrays as they are and any other table through the gate, and the names that all share."""
    arrays: list[Any] = []
    for dataset in datasets:
        if not is_array_api_obj(dataset):
            table = Records.of_numbers(dataset)
            names = names or table.columns
            if sorted(table.columns) != sorted(names):
                raise InputError(
                    f"dataset {len(arrays) + 1} has columns {', '.join(table.columns)}, not {', '.join(names)}"
                )
            dataset = Records.of_numbers(table, columns=names).values
        if dataset.ndim != 2 or 0 in dataset.shape:
            raise InputError(f"a dataset has shape (rows, p), none of them 0, got {tuple(dataset.shape)}")
        arrays.append(real_array(dataset, f"dataset {len(arrays) + 1}"))
        require_finite(arrays[-1], f"dataset {len(arrays)}")
    widths = {int(array.shape[1]) for array in arrays}
    if len(widths) > 1:
        raise InputError(f"the datasets have different numbers of columns: {sorted(widths)}", "give all the same")
    return arrays, names


def modelled(datasets: tuple[Any, ...], schema: Schema) -> tuple[Any, ...]:
    """Return datasets on the scales of the model; as they are, of any array library, where none is declared."""
    return datasets if schema.is_plain else tuple(schema.to_model(np.asarray(dataset)) for dataset in datasets)


def names_of(columns: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """Return names as a tuple; one name may come by itself."""
    return None if columns is None else (columns,) if isinstance(columns, str) else tuple(columns)


def column_names(columns: tuple[str, ...] | None, p: int) -> tuple[str, ...]:
    """Return the names, or x1, x2, … where there are none."""
    return columns or tuple(f"x{place + 1}" for place in range(p))


def require_finite(array: Any, what: str) -> None:
    """Refuse values that are missing or infinite."""
    xp = array_namespace(array)
    if not bool(xp.all(xp.isfinite(array))):
        raise InputError("there are values that are missing or infinite", "correct them", where=what)


def require_allowed(array: Any, schema: Schema, what: str) -> None:
    """Refuse values outside what is declared of their columns."""
    for place, column in enumerate(schema.measurements):
        if not column.allows(np.asarray(array)[:, place]).all():
            raise InputError(f"{column.name!r} has values outside its limits or scale", "correct them", where=what)


def check_release(count: int, p: int, columns: tuple[str, ...] | None, prior: NIW | None) -> None:
    """Refuse an empty release, and names or a prior for other columns than it has."""
    if count < 1:
        raise InputError("a release holds at least one draw or dataset, got none")
    if columns is not None:
        if len(columns) != p:
            raise InputError(f"the release has {p} columns but {len(columns)} names")
        check_names(columns)
    if prior is not None and prior.p != p:
        raise InputError(f"the release has {p} columns but its prior is for {prior.p}")
