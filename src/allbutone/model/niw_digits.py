"""The digits of an updated normal-inverse-Wishart: its root from factors, and refusals where none are left."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from allbutone.model.moments import ENOUGH_LEFT, Moments
from allbutone.support.arrays import (
    LEAST_LEFT,
    LEAST_VARIANCE,
    all_true,
    append_axes,
    array_namespace,
    attempt,
    cholesky,
    leaves,
    require_digits,
    require_variance,
    to_numpy,
)
from allbutone.support.errors import Cure, InputError

Array = Any
Scalar = Any

LEAST_LEFT_OF_FACTOR = LEAST_LEFT**1.5  # a factor has twice the digits; the deviations it is made of do not
MOST_OFFSET = 1e12  # standard deviations: a mean in float64 is then off by 1e-4 of one


def updated_root(
    scale: Float[Array, "*batch p p"],
    moments: Moments,
    far: Float[Array, "*batch p"],
    before: Sequence[Array],
) -> Float[Array, "p p"] | None:
    """Return the root of an updated scale, from the factors of its parts where its own squares lose digits.

    Λ' = HHᵀ with H = [C, F, √(κn/κ')·(x̄ − m)], so the triangle of Hᵀ's QR is the root: no squares are added, and
    a part that is 1e14 times another does not drown it. `before`: C, if there is one; `far`: the last
    column. None where the scale itself must serve: of a batch, or of moments without a factor.
    """
    xp = array_namespace(scale)
    if scale.ndim > 2 or not all_true(xp.isfinite(scale)):
        return None
    plain = attempt(xp.linalg.cholesky, scale)
    if plain is not None and leaves(ENOUGH_LEFT, plain):
        require_variance(plain, "scale")
        return plain
    half = moments.half
    if half is None:
        return None
    triangle = xp.linalg.qr(xp.concat([*before, half, far[:, None]], axis=1).T, mode="reduced")[1]
    pivots = xp.linalg.diagonal(triangle)
    root = (triangle * xp.where(pivots < 0, -1.0, 1.0)[:, None]).T
    require_digits(root, "scale", LEAST_LEFT_OF_FACTOR)
    return root


def why_not_updated(
    before: Float[Array, "p p"], flat: bool, moments: Moments, scale: Array, error: InputError
) -> InputError:
    """Return what to say of an update whose scale was refused, with the prior's scale `before` it."""
    if np.any(np.diagonal(to_numpy(scale), axis1=-2, axis2=-1) < LEAST_VARIANCE):
        return error
    if flat:
        return InputError(
            "the records do not vary in every direction: a column is determined by others, or one person "
            "alone has a value in it",
            Cure("leave that column out", "drop"),
            Cure("give a prior from public knowledge", "prior"),
        )
    xp = array_namespace(moments.mean, moments.scatter)
    if not bool(xp.all(xp.isfinite(moments.mean)) & xp.all(xp.isfinite(moments.scatter))):
        return InputError("the records' moments hold values that are missing or infinite")
    cholesky(before + moments.scatter, "the prior's scale plus the records' scatter")
    return InputError(
        "the prior's mean is too far from the records, relative to their spread, to compute with",
        Cure("write a prior with means from public knowledge", "prior"),
    )


def require_small_mean(mean: Float[Array, "*batch p"], scale: Float[Array, "*batch p p"], df: Scalar) -> None:
    """Refuse columns so far from zero, relative to their spread, that sixteen digits hold little of it."""
    xp = array_namespace(mean, scale)
    spread = xp.sqrt(xp.abs(xp.linalg.diagonal(scale)) / append_axes(df, 1))
    if not all_true(~((xp.abs(mean) > MOST_OFFSET * spread) & (spread > 0))):
        raise InputError(
            f"a column's mean is over {MOST_OFFSET:g} times its standard deviation, which leaves too few digits",
            "subtract a constant from the column",
            Cure("leave it out", "drop"),
        )


def require_more_records_than_columns(moments: Moments, p: float) -> None:
    """Refuse too few records for the flat prior."""
    count = np.min(to_numpy(moments.count))
    if count <= p:
        raise InputError(
            f"the flat prior, the default, needs more records than columns; {count:g} for {p:g} do not suffice",
            Cure("give a prior from public knowledge", "prior"),
            Cure("use fewer columns", "drop"),
        )
