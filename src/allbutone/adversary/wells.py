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


def stretched(
    shapes: Float[Array, "p p k"],
    own: tuple[Float[Array, " b"], Float[Array, "b p"], Float[Array, "b p p"]],
    normal: Float[Array, "b p k"],
    left: Float[Array, "b 1 k"],
) -> Float[Array, "b k p p"]:
    """Return RMR + nnᵀ/l of each posterior's wells, in the layout that suits their number.

    `own`: a, ê and R = I + a·êêᵀ. Of many wells, products with R do it for all at once; of few,
    RMR = M + êzᵀ + zêᵀ, z = a·Mê + ½a²(êᵀMê)·ê: outer products, and no p³.
    """
    xp, (p, _, k), (shrink, unit, root) = array_namespace(normal), shapes.shape, own
    flat, share = xp.reshape(shapes, (p, p * k)), normal / left
    if _many(shapes):
        found = root[:, None] @ (root @ flat).reshape(-1, p, p, k)
        for row in range(p):  # of the matrices
            found[:, row] += share * normal[:, row, None]
        return np.moveaxis(found, -1, 1)
    met, axis, shrink = xp.reshape(unit @ flat, (-1, p, k)), unit[:, :, None], shrink[:, None, None]
    along = shrink * met + (0.5 * shrink**2 * (axis.mT @ met)) * axis
    axis = xp.broadcast_to(axis, met.shape)
    columns, rows = xp.stack([share, along, axis], axis=-1), xp.stack([normal, axis, along], axis=-1)
    return xp.moveaxis(shapes, -1, 0) + xp.moveaxis(columns, 1, 2) @ xp.moveaxis(rows, 1, 2).mT


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
