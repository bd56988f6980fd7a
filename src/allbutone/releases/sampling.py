"""Drawing synthetic datasets from a posterior: all at once, or as a stream of blocks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from allbutone.model.niw import NIW
from allbutone.support.checks import count_of, require_memory
from allbutone.support.errors import InputError
from allbutone.support.parallel import in_parallel, one_thread

PIECE_VALUES = 1 << 17  # how many numbers a thread draws at a time: 1 MB, which stays in its cache


def draw_datasets(
    posterior: NIW, rows: Sequence[int], rng: np.random.Generator
) -> tuple[list[Float[np.ndarray, "_ p"]], Float[np.ndarray, "k p"], Float[np.ndarray, "k p p"]]:
    """Draw one dataset for each entry of `rows`, in parallel; return also the mean and root that each came from.

    The same generator gives the same datasets as `stream_datasets`, whatever the number of threads.
    """
    rows = [count_of("rows", count) for count in rows]
    require_memory(sum(rows) * posterior.p)
    with one_thread():
        work = list(_pieces(posterior, rows, rng))
    p, ends = posterior.p, np.cumsum(rows)
    # one allocation for all: many small ones would have the threads wait for each other in the kernel
    memory = np.empty(p * int(ends[-1]))

    def draw(piece: _Piece) -> None:
        first, last = piece.numbers[0], piece.numbers[-1]
        group = memory[p * (ends[first] - rows[first]) : p * ends[last]]
        piece.draw(group.reshape(len(piece.numbers), p, rows[first])[:, :, piece.start : piece.stop])

    in_parallel(draw, work)
    drawn = [
        memory[p * (end - count) : p * end].reshape(p, count).T for count, end in zip(rows, ends, strict=True)
    ]
    first = [piece for piece in work if piece.start == 0]  # a large dataset's other pieces have the same
    return drawn, np.concatenate([one.means for one in first]), np.concatenate([one.roots for one in first])


def stream_datasets(
    posterior: NIW, rows: Sequence[int], rng: np.random.Generator
) -> Iterator[tuple[int, Float[np.ndarray, "_ p"]]]:
    """Yield (dataset number, block of its rows), in order, holding a megabyte of rows at a time."""
    pieces = _pieces(posterior, [count_of("rows", count) for count in rows], rng)
    while True:
        with one_thread():  # while drawing, not while what was drawn is used
            piece = next(pieces, None)
            if piece is None:
                return
            drawn = piece.draw(np.empty((len(piece.numbers), posterior.p, piece.stop - piece.start)))
        yield from zip(piece.numbers, drawn, strict=True)


def rows_at_once(p: int) -> int:
    """Return how many rows of a dataset are drawn, and written, at a time."""
    return max(1, PIECE_VALUES // p)


@dataclass(frozen=True, eq=False)
class _Piece:
    """Rows `start` to `stop` of the datasets `numbers`, all drawn from one random stream."""

    numbers: range
    start: int
    stop: int
    means: Float[np.ndarray, "g p"]
    roots: Float[np.ndarray, "g p p"]
    seed: np.ndarray

    def draw(self, out: Float[np.ndarray, "g p rows"]) -> Float[np.ndarray, "g rows p"]:
        """Draw z = μ* + F·N(0, I), Σ* = FFᵀ, into `out`; return it with records as rows.

        Columns lie together in memory: faster to draw, and how files want them.
        """
        stream = np.random.Generator(np.random.SFC64(self.seed))
        np.matmul(self.roots, stream.standard_normal(out.shape), out=out)
        out += self.means[:, :, None]
        return out.swapaxes(-1, -2)


def _pieces(posterior: NIW, rows: Sequence[int], rng: np.random.Generator) -> Iterator[_Piece]:
    """Cut a release into pieces: several small datasets of one size, or a slice of a large one.

    The cut depends only on the sizes, so a seed gives the same release however it is drawn or written.
    """
    if len(rows) == 0:
        raise InputError("datasets must be at least 1, got 0")
    room = rows_at_once(posterior.p)
    most = max(1, room // posterior.p)  # a piece's covariances must not outgrow its rows
    number = 0
    while number < len(rows):
        count, last = rows[number], number + 1
        while last - number < min(most, room // count) and last < len(rows) and rows[last] == count:
            last += 1
        means, roots = posterior.draw_roots(rng, last - number)
        for start in range(0, count, room):
            seed = rng.integers(0, 1 << 32, size=8, dtype=np.uint32)
            yield _Piece(range(number, last), start, min(start + room, count), means, roots, seed)
        number = last
