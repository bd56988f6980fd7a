"""Prior files: what is publicly known of each column's centre and spread, written down before seeing data."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from allbutone.model.niw import NIW
from allbutone.support.errors import InputError
from allbutone.tables.declared.schema import Schema
from allbutone.tables.safe_read import parse, read_text

AnyPrior = NIW | Mapping[str, Any] | str | Path  # a prior, the entries of a prior file, or its path
KEYS = ("mean", "mean_weight", "df", "scale", "centre", "spread")


def read_prior(path: str | Path, columns: Sequence[str], schema: Schema | None = None) -> NIW:
    """Read a TOML or JSON prior file for these columns.

    `mean` with `scale` (a number, a list for the diagonal, or a matrix), or `centre` with `spread`: what public
    sources say of each column's mean and standard deviation; lists in column order or tables by column name.
    Without `centre` it is 0, without `spread` 1.
    `mean_weight` (default 1) and `df` (default p + 2) say how many records the prior is worth.
    Where `schema` declares another scale, centre and spread are in natural units, mean and scale on that scale.

    >>> import pathlib, allbutone as abo
    >>> _ = pathlib.Path("prior.toml").write_text("centre = [25.0, 3.4]\\nspread = [4.5, 0.9]")
    >>> abo.read_prior("prior.toml", ["bmi", "ldl"]).mean
    array([25. ,  3.4])
    """
    path = Path(path)
    text = read_text(path, "give the path of a prior file, .toml or .json")
    language = "JSON" if path.suffix.lower() == ".json" else "TOML"
    return prior_from(parse(text, language, f"the prior file {path.name}"), columns, schema)


def declared_prior(schema: Schema) -> NIW:
    """Return the prior of the centres and spreads that a table file declares, or the flat one if it has none.

    All columns have them or none has: a prior of some columns only would not be conjugate.
    """
    absent = [column.name for column in schema.measurements if column.centre is None]
    if len(absent) == len(schema.measurements):
        return NIW.flat(len(schema.measurements))
    if absent:
        raise InputError(
            f"the table file gives a centre and a spread to some columns, and none to {', '.join(absent)}",
            "declare them for all columns or for none",
        )
    entries = {key: [getattr(column, key) for column in schema.measurements] for key in ("centre", "spread")}
    return prior_from(entries, [column.name for column in schema.measurements], schema)


def prior_from(entries: Any, columns: Sequence[str], schema: Schema | None = None) -> NIW:
    """Build the prior that the entries of a prior file describe."""
    p = len(columns)
    if not isinstance(entries, dict):
        raise InputError("a prior must name its entries", f"known are {', '.join(KEYS)}")
    for key in entries:
        if key not in KEYS:
            raise InputError(f"the prior has an unknown entry {key!r:.60}", f"known are {', '.join(KEYS)}")
    by_public = "centre" in entries or "spread" in entries
    if by_public and ("mean" in entries or "scale" in entries):
        raise InputError("the prior gives both centre/spread and mean/scale", "keep one pair")
    weight = _number("mean_weight", entries.get("mean_weight", 1.0))
    df = _number("df", entries.get("df", p + 2.0))
    if not by_public:
        mean = _vector("mean", entries.get("mean", 0.0), columns)
        return NIW(mean, weight, df, _matrix(entries.get("scale", 1.0), columns))
    spread = _vector("spread", entries.get("spread", 1.0), columns)
    for name, value in zip(columns, spread, strict=True):
        if not value > 0:
            raise InputError(f"the prior's spread of {name!r} must exceed 0, got {value:g}")
    centre = _vector("centre", entries.get("centre", 0.0), columns)
    if schema is not None:
        pairs = zip(columns, centre, spread, strict=True)
        moved = [schema.column(name).on_model_scale(middle, width) for name, middle, width in pairs]
        centre, spread = np.array(moved).T
    if df <= p + 1:
        raise InputError(f"with spread, df must exceed p + 1 = {p + 1}, got {df:g}", "raise df")
    # E[Σ] = Λ/(ν − p − 1), so that the prior's expected standard deviations are the spreads
    with np.errstate(over="ignore", invalid="ignore"):  # refused by NIW, in words
        scale = (df - p - 1) * np.diag(spread**2)
    return NIW(centre, weight, df, scale)


def prior_of(given: AnyPrior, columns: Sequence[str], schema: Schema | None = None) -> NIW:
    """Return a prior as it is, or that of a prior file or of a dict of its entries, for these columns."""
    if isinstance(given, Mapping):
        return prior_from(dict(given), columns, schema)
    return read_prior(given, columns, schema) if isinstance(given, str | Path) else given


def prior_entries(prior: NIW) -> dict[str, Any]:
    """Return the prior as the entries of a prior file, exact to the last bit."""
    return {
        "mean": np.asarray(prior.mean).tolist(),
        "mean_weight": float(prior.mean_weight),
        "df": float(prior.df),
        "scale": np.asarray(prior.scale).tolist(),
    }


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"the prior's {name} must be a number, got {value!r:.60}")
    try:
        return float(value)
    except OverflowError as error:
        raise InputError(f"the prior's {name} holds a whole number too large for a double") from error


def _vector(name: str, value: Any, columns: Sequence[str]) -> np.ndarray:
    """Read a number for all columns, a list in column order, or a table by column name."""
    if isinstance(value, dict):
        unknown = [key for key in value if key not in columns]
        absent = [column for column in columns if column not in value]
        if unknown or absent:
            fault = f"names {unknown[0]!r:.60}, no such column" if unknown else f"leaves out {absent[0]!r}"
            raise InputError(f"the prior's {name} {fault}", f"the columns are {', '.join(columns)}")
        value = [value[column] for column in columns]
    if not isinstance(value, list):
        value = [value] * len(columns)
    if len(value) != len(columns):
        raise InputError(f"the prior's {name} has {len(value)} values for {len(columns)} columns")
    return np.array([_number(name, entry) for entry in value])


def _matrix(value: Any, columns: Sequence[str]) -> np.ndarray:
    if not (isinstance(value, list) and value and isinstance(value[0], list)):
        return np.diag(_vector("scale", value, columns))
    p = len(columns)
    if len(value) != p or any(not isinstance(row, list) or len(row) != p for row in value):
        raise InputError(f"the prior's scale must be a {p} × {p} matrix, one row and one column a variable")
    return np.array([[_number("scale", entry) for entry in row] for row in value])
