"""Random numbers from one generator of NumPy's, or from several streams on a device; batches are last axes."""

from typing import Any

import numpy as np
from jaxtyping import Float

from allbutone.support.arrays import array_namespace, zeros

Array = Any
Stream = Any  # np.random.Generator, or several streams on a device (support.devices)
Triangle = Float[Array, "p p m"]


def normals(rng: Stream, shape: tuple[int, ...], axis: int) -> Array:
    """Draw standard normal numbers; those of several streams one after the other along the axis."""
    if isinstance(rng, np.random.Generator):
        return rng.standard_normal(shape)
    return rng.normals(shape, axis)


def chi_squares(rng: Stream, df: Float[np.ndarray, "*streams rows"], size: int) -> Float[Array, "rows m"]:
    """Draw so many numbers from each χ²(df), zeros where df is not positive; streams have a row of df each."""
    if not isinstance(rng, np.random.Generator):
        return rng.chi_squares(df, size)
    drawn = np.empty((len(df), size))
    for row, degrees in zip(drawn, df, strict=True):
        if degrees > 0:
            rng.standard_gamma(degrees / 2, out=row)
        else:
            row[:] = 0
    drawn *= 2
    return drawn


def triangle(rng: Stream, df: Float[np.ndarray, "*streams p"], size: int) -> Triangle:
    """Draw lower triangles T by Bartlett: χ(dfᵢ) on the diagonal, standard normal below it.

    TTᵀ ~ W(m, I) if dfᵢ = m − i, TᵀT if dfᵢ = m − p + 1 + i, i from 0.
    """
    p = df.shape[-1]
    below, chi = normals(rng, (p * (p - 1) // 2, size), axis=1), chi_squares(rng, df, size)
    triangle = zeros((p, p, chi.shape[1]), like=chi)
    for row in range(p):
        triangle[row, :row, :] = below[row * (row - 1) // 2 : row * (row + 1) // 2, :]
        triangle[row, row, :] = array_namespace(chi).sqrt(chi[row, :])
    return triangle
