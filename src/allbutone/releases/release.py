"""What is released: draws of the model's parameters (Θ), or whole synthetic datasets (Φ)."""

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from array_api_compat import array_namespace, is_array_api_obj
from jaxtyping import Float

from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.support.arrays import cholesky, real_array, require_symmetric
from allbutone.support.errors import InputError
from allbutone.support.parallel import in_parallel, one_thread
from allbutone.tables.records import Records, check_names

PIECE_VALUES = 1 << 17  # how many numbers a thread draws at a time: 1 MB, which stays in its cache
MOST_DATASETS = 1_000_000  # datasets, or parameter draws, of one release
MOST_VALUES = 10**9  # numbers of a release that is held in memory: 8 GB


@dataclass(frozen=True, eq=False)
class ParameterRelease:
    """Θ: `draws` pairs of mean (draws, p) and covariance (draws, p, p).

    `prior` is the mechanism's public part; it travels with the release.
    """

    means: Float[Any, "draws p"]
    covariances: Float[Any, "draws p p"]
    columns: tuple[str, ...] | None = None
    prior: NIW | None = None

    def __init__(
        self, means: Any, covariances: Any, columns: Sequence[str] | None = None, prior: NIW | None = None
    ) -> None:
        """Check that there is at least one draw, that shapes agree and covariances are positive definite."""
        means, covariances = real_array(means, "means"), real_array(covariances, "covariances")
        if means.ndim != 2 or tuple(covariances.shape) != (*means.shape, means.shape[-1]):
            raise InputError(
                "a parameter release has means (draws, p) and covariances (draws, p, p), "
                f"got {tuple(means.shape)} and {tuple(covariances.shape)}"
            )
        object.__setattr__(self, "means", means)
        object.__setattr__(self, "covariances", covariances)
        object.__setattr__(self, "columns", _names(columns))
        object.__setattr__(self, "prior", prior)
        _check_release(self.draws, self.p, self.columns, prior)
        _require_finite(means, "released means")
        require_symmetric(covariances, "a released covariance")
        cholesky(covariances, "a released covariance")

    @property
    def draws(self) -> int:
        """How many parameter draws are released."""
        return int(self.means.shape[0])

    @property
    def p(self) -> int:
        """The number of columns."""
        return int(self.means.shape[-1])

    def first(self, count: int) -> "ParameterRelease":
        """Return a release of the first so many draws."""
        release = ParameterRelease.__new__(ParameterRelease)
        count = count_of("count", count, self.draws)
        held = {"means": self.means[:count, ...], "covariances": self.covariances[:count, ...]}
        for name, value in (held | {"columns": self.columns, "prior": self.prior}).items():
            object.__setattr__(release, name, value)  # checked already, with the whole
        return release

    @classmethod
    def draw(
        cls,
        posterior: NIW,
        draws: int,
        rng: np.random.Generator,
        *,
        columns: tuple[str, ...] | None = None,
        prior: NIW | None = None,
    ) -> "ParameterRelease":
        """Draw (μ*, Σ*) from the posterior `draws` times (Algorithm 1, lines 7 and 8)."""
        draws = count_of("draws", draws, MOST_DATASETS)
        require_memory(draws * posterior.p * (posterior.p + 1))
        with one_thread():
            means, covariances = posterior.draw(rng, draws)
        return cls(means, covariances, columns, prior)


@dataclass(frozen=True, eq=False)
class DatasetRelease:
    """Φ: synthetic datasets, each of shape (rows, p); sizes may differ.

    `prior` is the mechanism's public part; it travels with the release.
    """

    datasets: tuple[Float[Any, "_ p"], ...]
    columns: tuple[str, ...] | None = None
    prior: NIW | None = None

    def __init__(
        self, datasets: Sequence[Any], columns: Sequence[str] | None = None, prior: NIW | None = None
    ) -> None:
        """Take arrays as they are and any other table through the gate; tables must share their names."""
        names = _names(columns)
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
            _require_finite(arrays[-1], f"dataset {len(arrays)}")
        widths = {int(array.shape[1]) for array in arrays}
        if len(widths) > 1:
            raise InputError(f"the datasets have different numbers of columns: {sorted(widths)}")
        self._hold(arrays, names, prior)

    def _hold(self, datasets: list[Any], columns: tuple[str, ...] | None, prior: NIW | None) -> None:
        object.__setattr__(self, "datasets", tuple(datasets))
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "prior", prior)
        _check_release(len(datasets), int(datasets[0].shape[1]) if datasets else 0, columns, prior)

    @classmethod
    def of_array(
        cls, datasets: Float[Any, "k rows p"], columns: tuple[str, ...] | None = None, prior: NIW | None = None
    ) -> "DatasetRelease":
        """Take datasets of one size that lie in one array, and check them all at once."""
        datasets = real_array(datasets, "datasets")
        if datasets.ndim != 3 or 0 in datasets.shape:
            raise InputError(f"datasets have shape (k, rows, p), none of them 0, got {tuple(datasets.shape)}")
        _require_finite(datasets, "datasets")
        release = cls.__new__(cls)
        release._hold([datasets[place, ...] for place in range(datasets.shape[0])], columns, prior)
        return release

    @property
    def rows(self) -> tuple[int, ...]:
        """The number of rows of each dataset."""
        return tuple(int(dataset.shape[0]) for dataset in self.datasets)

    @property
    def p(self) -> int:
        """The number of columns."""
        return int(self.datasets[0].shape[1])

    def first(self, count: int) -> "DatasetRelease":
        """Return a release of the first so many datasets."""
        release = DatasetRelease.__new__(DatasetRelease)
        count = count_of("count", count, len(self.datasets))
        release._hold(list(self.datasets[:count]), self.columns, self.prior)
        return release

    @classmethod
    def draw(
        cls,
        posterior: NIW,
        rows: Sequence[int],
        rng: np.random.Generator,
        *,
        columns: tuple[str, ...] | None = None,
        prior: NIW | None = None,
    ) -> "DatasetRelease":
        """Draw one dataset for each entry of `rows` (Algorithm 1), in parallel.

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
        datasets = [
            memory[p * (end - count) : p * end].reshape(p, count).T for count, end in zip(rows, ends, strict=True)
        ]
        release = cls.__new__(cls)
        release._hold(datasets, columns, prior)  # not through the gate, which takes half as long as drawing
        return release

    def to_frames(self, backend: Any = "pandas") -> list[Any]:
        """Return the datasets as dataframes of the library named (pandas, polars, pyarrow)."""
        names = list(self.columns or (f"x{i + 1}" for i in range(self.p)))
        frames = (nw.from_numpy(np.asarray(data), names, backend=backend) for data in self.datasets)
        return [frame.to_native() for frame in frames]

    def moments(self) -> list[Moments]:
        """Return each dataset's count, mean and scatter: all that the adversary needs of it."""
        return [Moments.of(dataset) for dataset in self.datasets]


Release = ParameterRelease | DatasetRelease


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


def rows_at_once(p: int) -> int:
    """Return how many rows of a dataset are drawn, and written, at a time."""
    return max(1, PIECE_VALUES // p)


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


def count_of(name: str, count: Any, most: int | None = None) -> int:
    """Return a count as an int, or say that it is not a whole number from 1 to `most`."""
    try:
        number = operator.index(count)
    except TypeError as error:
        raise InputError(f"{name} must be a whole number, got {count!r}") from error
    if number < 1:
        raise InputError(f"{name} must be at least 1, got {number}")
    if most is not None and number > most:
        raise InputError(f"{name} must be at most {most:,}, got {number}")
    return number


def require_memory(values: int) -> None:
    """Refuse to hold more than 10⁹ numbers in memory."""
    if values > MOST_VALUES:
        raise InputError(
            f"{values:,} numbers are more than the {MOST_VALUES:,} that are held in memory; "
            "ask for fewer, or write datasets straight to a folder (allbutone synthesize)"
        )


def _names(columns: str | Sequence[str] | None) -> tuple[str, ...] | None:
    return None if columns is None else (columns,) if isinstance(columns, str) else tuple(columns)


def _require_finite(array: Any, what: str) -> None:
    xp = array_namespace(array)
    if not bool(xp.all(xp.isfinite(array))):
        raise InputError(f"{what}: there are values that are missing or infinite; correct them")


def _check_release(count: int, p: int, columns: tuple[str, ...] | None, prior: NIW | None) -> None:
    if count < 1:
        raise InputError("a release holds at least one draw or dataset, got none")
    if columns is not None:
        if len(columns) != p:
            raise InputError(f"the release has {p} columns but {len(columns)} names")
        check_names(columns)
    if prior is not None and prior.p != p:
        raise InputError(f"the release has {p} columns but its prior is for {prior.p}")
