"""Priors as files: what is publicly known of each column, and whether it goes with the data."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.support.errors import InputError
from allbutone.support.text import listed
from allbutone.tables.safe_io import parse, read_text
from allbutone.tables.schema import Schema

# Prior files: what is publicly known of each column's centre and spread, written down before seeing data.


AnyPrior = NIW | Mapping[str, Any] | str | Path  # a prior, the entries of a prior file, or its path
KEYS = ("mean", "mean_weight", "df", "scale", "centre", "spread")


def read_prior(path: str | Path, columns: Sequence[str], schema: Schema | None = None) -> NIW:
    """Read a TOML or JSON prior file for these columns.

    `mean` with `scale` (a number, a list for the diagonal, or a matrix), or `centre` with `spread`: what public
    sources say of each column's mean and standard deviation; lists in column order or tables by column name
    (of a matrix a table of tables).
    Without `centre` it is 0, without `spread` 1.
    `mean_weight` (default 1) and `df` (default p + 2) say how many records the prior is worth.
    Where `schema` declares another scale, centre and spread are in natural units, mean and scale on that scale.

    >>> import pathlib
    >>> from allbutone.model.prior import read_prior
    >>> _ = pathlib.Path("prior.toml").write_text("centre = [25.0, 3.4]\\nspread = [4.5, 0.9]")
    >>> read_prior("prior.toml", ["bmi", "ldl"]).mean
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
    with np.errstate(over="ignore", invalid="ignore"):  # refused by NIW, in words
        return NIW.from_spread(centre, spread, mean_weight=weight, df=df)


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


def _in_order(name: str, value: dict[str, Any], columns: Sequence[str]) -> list[Any]:
    unknown = [key for key in value if key not in columns]
    absent = [column for column in columns if column not in value]
    if unknown or absent:
        fault = f"names {unknown[0]!r:.60}, no such column" if unknown else f"leaves out {absent[0]!r}"
        raise InputError(f"the prior's {name} {fault}", f"the columns are {', '.join(columns)}")
    return [value[column] for column in columns]


def _vector(name: str, value: Any, columns: Sequence[str]) -> np.ndarray:
    """Read a number for all columns, a list in column order, or a table by column name."""
    if isinstance(value, dict):
        value = _in_order(name, value, columns)
    if not isinstance(value, list):
        value = [value] * len(columns)
    if len(value) != len(columns):
        raise InputError(f"the prior's {name} has {len(value)} values for {len(columns)} columns")
    return np.array([_number(name, entry) for entry in value])


def _matrix(value: Any, columns: Sequence[str]) -> np.ndarray:
    if isinstance(value, dict) and any(isinstance(row, dict) for row in value.values()):
        rows = _in_order("scale", value, columns)
        value = [_in_order("scale", row, columns) if isinstance(row, dict) else row for row in rows]
    if not (isinstance(value, list) and value and isinstance(value[0], list)):
        return np.diag(_vector("scale", value, columns))
    p = len(columns)
    if len(value) != p or any(not isinstance(row, list) or len(row) != p for row in value):
        raise InputError(f"the prior's scale must be a {p} × {p} matrix, one row and one column a variable")
    return np.array([[_number("scale", entry) for entry in row] for row in value])


# Does a given prior go with the data? Asked in words that tell nothing of the data.


FAR = 10.0  # times too wide, too narrow, or that many spreads away: no honest public source is so wrong
SHOWN = 10  # columns that are named
MOVED = 0.05  # of a standard deviation, or of a correlation: what the synthetic data should keep


def prior_conflict(prior: NIW, moments: Moments, columns: Sequence[str]) -> str | None:
    """Question a prior whose centre or spread is out of all proportion to the data's; names columns, no number."""
    if prior.is_flat:
        return None
    centre, width = np.asarray(prior.mean), np.sqrt(np.diagonal(prior.scale) / max(prior.df - prior.p + 1, 1.0))
    deviation = np.sqrt(np.diagonal(moments.scatter) / max(moments.count - 1, 1))
    away = np.abs(np.asarray(moments.mean) - centre) > FAR * np.maximum(deviation, width)
    far = (deviation > FAR * width) | (width > FAR * deviation) | away
    if not far.any():
        return None
    return (
        f"The prior's centre or spread is far from what the table holds in {_named(columns, far)}. Are both in "
        "the same unit? Synthetic data can be distorted by such a prior. Correct it from public knowledge, never "
        "from this table, or leave it out: the flat prior, the default, needs no units."
    )


def prior_pull(prior: NIW, moments: Moments, columns: Sequence[str]) -> str | None:
    """Say where the prior itself moves the expected synthetic data away from the flat prior's; None where nowhere.

    Compared are the posteriors' expected means and covariances, E[Σ] = Λ′/(ν′ − p − 1), so chance has no part.
    """
    p = prior.p
    if prior.is_flat or moments.count <= p + 2:
        return None
    given, flat = prior.update(moments), NIW.flat(p).update(moments)
    (spread, related), (plain, as_related) = (_spread_and_correlation(each) for each in (given, flat))
    shift = np.abs(np.asarray(given.mean - flat.mean)) / plain
    moved = (shift > MOVED) | (np.abs(spread / plain - 1) > MOVED)
    moved |= np.any(np.abs(related - as_related) > MOVED, axis=1)
    if not moved.any():
        return None
    return (
        f"The prior, not chance, moves the synthetic {_named(columns, moved)} away from the data: a prior worth "
        "fewer records, one with better public centres and spreads, or none would be closer."
    )


def _spread_and_correlation(posterior: NIW) -> tuple[Float[np.ndarray, " p"], Float[np.ndarray, "p p"]]:
    covariance = np.asarray(posterior.scale) / (posterior.df - posterior.p - 1)
    spread = np.sqrt(np.diagonal(covariance))
    return spread, covariance / np.outer(spread, spread)


def _named(columns: Sequence[str], flags: Bool[np.ndarray, " p"]) -> str:
    return listed([repr(name) for name, flag in zip(columns, flags, strict=True) if flag], SHOWN)
