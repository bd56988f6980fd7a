"""The matrices of a posterior's wells: summed, chained, and applied to a point, all in one matrix product.

Of many wells the axis that counts them may be the last in memory, though not in the shape: then everything that is
done to each of them runs along it. Both layouts hold the same numbers and mix freely.
"""

from typing import Any

import numpy as np
from jaxtyping import Float

from allbutone.support.arrays import array_namespace, contiguous

Array = Any


def in_layout(vectors: Float[Array, "b p k"]) -> Float[Array, "b k p"]:
    """Return the vectors of each well in the layout that suits their number."""
    return vectors.mT if _many(vectors) else contiguous(vectors.mT)


def add_outer(
    shapes: Float[Array, "p p k"], *pairs: tuple[Float[Array, "b p #k"], Float[Array, "b p #k"]]
) -> Float[Array, "b k p p"]:
    """Return M + Σ xyᵀ of each posterior's wells, a symmetric sum, in the layout that suits their number."""
    xp, (first, *rest) = array_namespace(shapes), pairs
    whole = (*first[0].shape[:2], shapes.shape[-1])
    if not _many(shapes):
        columns, rows = (
            xp.stack([xp.broadcast_to(pair[side], whole).mT for pair in pairs], axis=axis)
            for side, axis in ((0, -1), (1, -2))
        )
        return xp.moveaxis(shapes, -1, 0) + columns @ rows
    found = np.empty((*whole[:2], *whole[1:]))
    for row, each in enumerate(shapes):  # of the matrices, which are symmetric
        part = found[:, row, row:]
        np.multiply(first[1][:, row:], first[0][:, row, None], out=part)
        part += each[row:]
        for one, other in rest:
            part += other[:, row:] * one[:, row, None]
        found[:, row + 1 :, row] = part[:, 1:]
    return np.moveaxis(found, -1, 1)


def _many(array: Float[Array, "*tail p k"]) -> bool:
    return isinstance(array, np.ndarray) and array.shape[-1] > array.shape[-2]


def times(matrix: Float[Array, "*#batch r p"], vector: Float[Array, "*#batch p"]) -> Float[Array, "*#batch r"]:
    """Return Mv of each; where one matrix serves all vectors, by one product."""
    if matrix.ndim == 2 and vector.ndim == 2:
        return vector @ matrix.T
    return (matrix @ vector[..., None])[..., 0]


def times_each(
    shapes: Float[Array, "*#batch k p p"], vector: Float[Array, "*batch p"]
) -> Float[Array, "*batch k p"]:
    """Return Mⱼv of each well, in the matrices' own layout."""
    xp, (k, p) = array_namespace(shapes, vector), shapes.shape[-3:-1]
    if not _wells_last(shapes):
        product = (xp.reshape(shapes, (*shapes.shape[:-3], k * p, p)) @ vector[..., None])[..., 0]
        return xp.reshape(product, (*product.shape[:-1], k, p))
    # M is symmetric: vᵀM is the same
    product = (vector[..., None, :] @ np.moveaxis(shapes, -3, -1).reshape(*shapes.shape[:-3], p, p * k))[..., 0, :]
    return product.reshape(*product.shape[:-1], p, k).mT


def weighted_sum(
    shapes: Float[Array, "*#batch k p p"], strength: Float[Array, "*batch k"]
) -> Float[Array, "*batch p p"]:
    """Return Σ ωⱼMⱼ."""
    xp, (k, p) = array_namespace(shapes, strength), shapes.shape[-3:-1]
    if _wells_last(shapes):
        flat = np.moveaxis(shapes, -3, -1).reshape(*shapes.shape[:-3], p * p, k)
        found = (flat @ strength[..., None])[..., 0]
    else:
        found = (strength[..., None, :] @ xp.reshape(shapes, (*shapes.shape[:-3], k, p * p)))[..., 0, :]
    return xp.reshape(found, (*found.shape[:-1], p, p))


def _wells_last(shapes: Float[Array, "*batch k p p"]) -> bool:
    return isinstance(shapes, np.ndarray) and shapes.itemsize == shapes.strides[-3] < shapes.strides[-1]


def taken_rows(array: Array, rows: Any) -> Array:
    """Return the array at these positions of its first axis, in its own layout; at a slice nothing is copied."""
    if isinstance(rows, slice) or (isinstance(array, np.ndarray) and not array.flags.c_contiguous):
        return array[rows, ...]
    return array_namespace(array).take(array, rows, axis=0)


def chain_wells(batch: tuple[int, ...], first: Array, then: Array, tail: int) -> Array:
    """Put numbers (`tail` 0), vectors (1) or matrices (2) of some wells before others', for every posterior."""
    xp = array_namespace(first, then)
    every = [xp.broadcast_to(each, (*batch, *each.shape[each.ndim - 1 - tail :])) for each in (first, then)]
    return xp.concat(every, axis=len(batch))
