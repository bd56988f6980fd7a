"""Drawing synthetic datasets from a posterior, and where the randomness comes from."""

import hashlib
import json
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from allbutone.model.location import LocationModel, MixedRecords, Parameters
from allbutone.model.moments import UNKNOWN, Cells
from allbutone.model.niw import NIW
from allbutone.model.prior import prior_entries
from allbutone.support.errors import InputError, count_of, require_memory
from allbutone.support.parallel import in_parallel, one_thread

# Drawing synthetic datasets from a posterior: all at once, or as a stream of blocks.


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
    return max(1, PIECE_VALUES // max(p, 1))


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


def draw_tables(
    posteriors: Sequence[LocationModel],
    rows: Sequence[int],
    rng: np.random.Generator,
    *,
    kept: Int[np.ndarray, "n q"] | None = None,
    covariates: Float[np.ndarray, "n s"] | None = None,
) -> tuple[list[MixedRecords], Parameters]:
    """Draw one table with categories for each entry of `rows`, in parallel, and the parameters behind each.

    `posteriors`: one for all, or, after missing values were drawn, one for each dataset. With `kept` levels
    (−1: to be drawn) and covariates a dataset has a record for each person, given what is kept of that person.
    """
    rows = [count_of("rows", count) for count in rows]
    require_memory(sum(rows) * (posteriors[0].p + 2))
    with one_thread():
        each = [posteriors[number % len(posteriors)].draw(rng, 1) for number in range(len(rows))]
    seeds = rng.integers(0, 1 << 32, size=(len(rows), 8), dtype=np.uint32)

    def draw(number: int) -> MixedRecords:
        stream = np.random.Generator(np.random.SFC64(seeds[number]))
        return _draw_records(posteriors[0], each[number], stream, rows[number], kept, covariates)

    drawn = in_parallel(draw, list(range(len(rows))))
    names = Parameters.__dataclass_fields__
    return drawn, Parameters(*(np.concatenate([getattr(one, name) for one in each]) for name in names))


def _draw_records(
    model: LocationModel,
    parameters: Parameters,
    rng: np.random.Generator,
    rows: int,
    kept: Int[np.ndarray, "n q"] | None,
    covariates: Float[np.ndarray, "n s"] | None,
) -> MixedRecords:
    shares, known = parameters.shares[0], np.zeros((rows, 0)) if covariates is None else covariates
    if kept is None:
        cells = rng.choice(len(shares), size=rows, p=shares)
    else:
        cells = _given_levels(model.cells, shares, kept, rng)
    (means,) = model.means(parameters, cells, known)
    roots, white = np.linalg.cholesky(parameters.covariances[0]), rng.standard_normal((rows, model.p))
    if len(roots) == 1:
        return MixedRecords(cells, means + white @ roots[0].T, known)
    return MixedRecords(cells, means + (roots[cells] @ white[..., None])[..., 0], known)


def _given_levels(
    cells: Cells, shares: Float[np.ndarray, " cells"], kept: Int[np.ndarray, "n q"], rng: np.random.Generator
) -> Int[np.ndarray, " n"]:
    """Draw the cell of each record among those that agree with what is kept of it."""
    if not np.any(kept == UNKNOWN):
        return cells.of_codes(kept)
    levels = np.empty(len(kept), dtype=np.int64)
    patterns, which = np.unique(kept, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        (rows,) = np.nonzero(which.ravel() == number)
        (possible,) = np.nonzero(cells.agree_with(pattern))
        some = shares[possible] / shares[possible].sum()
        levels[rows] = rng.choice(possible, size=len(rows), p=some)
    return levels


# Where the randomness of a release comes from: the operating system, or a repeat key of at least 128 bits.
#
# Whoever knows the random numbers behind a release can take them away, and what is left are the confidential
# table's own mean and covariance; with every other record in hand, the missing one follows to the last digit. A
# seed of a few digits is therefore as good as the table itself: the adversary tries all of them, and recognises
# the right one by a residual of zero. What a person makes up can be guessed; what the operating system makes
# cannot.


KEY_DIGITS = 32  # hexadecimal: 128 bits
FEWEST_DISTINCT = 7  # a random key has fewer distinct digits, or steps between digits, once in 10⁹


def fresh_generator() -> np.random.Generator:
    """Return a generator started with 128 bits of the operating system's entropy, which nobody can repeat."""
    return np.random.default_rng()


def new_repeat_key() -> str:
    """Return a repeat key of 128 bits from the operating system: to be shown once and stored nowhere by us."""
    while _made_up(key := secrets.token_hex(KEY_DIGITS // 2)):
        pass
    return key


def keyed_generator(
    repeat_key: Any, kind: str, sizes: Sequence[int], columns: Sequence[str], *models: Any
) -> np.random.Generator:
    """Return the generator that a repeat key stands for, for this one release and no other.

    The key alone is not the seed. If it were, two releases under one key would share their noise, and comparing
    them would take it away: for a table before and after one record was corrected, that shows the record. So the
    seed is a keyed hash, under the key, of all that decides the release: its kind and sizes, the columns, the
    models (the prior, and the posterior, which stands for the table), the versions of this package and of NumPy.
    The same release is repeated bit by bit; anything else gets unrelated noise. Without the key the hash tells
    nothing.
    """
    secret = bytes.fromhex(_checked_key(repeat_key))
    versions = [version("allbutone"), np.__version__]
    entries = [prior_entries(model) if isinstance(model, NIW) else model for model in models]
    decides = json.dumps([versions, kind, list(map(int, sizes)), list(columns), entries]).encode()
    # blake2b takes a key of up to 64 bytes; a longer one is hashed first
    short = secret if len(secret) <= hashlib.blake2b.MAX_KEY_SIZE else hashlib.blake2b(secret).digest()
    digest = hashlib.blake2b(decides, key=short, digest_size=32, person=b"allbutone").digest()
    return np.random.default_rng(np.random.SeedSequence(int.from_bytes(digest), pool_size=8))


def _checked_key(text: Any) -> str:
    """Return the key's digits, or say what is wrong with it without repeating it: it is a secret."""
    cures = (
        "let allbutone make one (--new-repeat-key; in Python Synthesizer.new_repeat_key())",
        "leave it out: then nobody can repeat the release",
    )
    key = text.strip().lower() if isinstance(text, str) else ""
    if len(key) < KEY_DIGITS or len(key) % 2 or not set(key) <= set("0123456789abcdef"):
        raise InputError(
            f"a repeat key has {KEY_DIGITS} hexadecimal digits, or more in pairs: a shorter one can be guessed",
            *cures,
        )
    if _made_up(key):
        raise InputError("this repeat key follows a pattern, so that it can be guessed", *cures)
    return key


def _made_up(key: str) -> bool:
    """Say whether a key evidently comes from a person: few digits, a repeated part, counting, or words."""
    data = bytes.fromhex(key)
    digits = np.array([int(digit, 16) for digit in key])
    few = [len(set(key)), len(set(np.diff(digits) % 16)), len(set(np.diff(np.frombuffer(data, np.uint8))))]
    repeated = key in (key + key)[1:-1]
    return min(few) < FEWEST_DISTINCT or repeated or (data.isascii() and data.decode().isprintable())
