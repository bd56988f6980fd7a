"""What is released: draws of the model's parameters (Θ), whole synthetic datasets (Φ), or both together."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from typing import Any, ClassVar

import narwhals as nw
import numpy as np
from array_api_compat import is_array_api_obj
from jaxtyping import Float

from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.releases.sampling import draw_datasets, fresh_generator, keyed_generator
from allbutone.releases.statistics import (
    About,
    ParameterStatistics,
    means_and_deviations,
    parameters_in,
    whitened_datasets,
    whitened_parameters,
    whitened_sums,
)
from allbutone.support.arrays import array_namespace, as_array, cholesky, eye, real_array, require_symmetric, zeros
from allbutone.support.errors import Cure, InputError, count_of, describe_value, require_memory
from allbutone.support.parallel import one_thread
from allbutone.support.text import counted, listed, number, table
from allbutone.tables.names import check_names
from allbutone.tables.records import Records
from allbutone.tables.schema import Schema

# A release as a notebook shows it: its size, its columns and the first rows. All of it is released anyway.


SHOWN = 5  # rows of the first dataset, or draws


class Shown:
    """What both kinds of releases show of themselves."""

    def __repr__(self) -> str:
        """Return what is counted, how large it is, and the columns."""
        release: Any = self
        sizes = sorted(set(release.rows))
        several = f"{sizes[0]:,} to {sizes[-1]:,} rows" if len(sizes) > 1 else ""
        of_rows = f" of {several or counted(sizes[0], 'row')}" if sizes else ""
        with_datasets = " with datasets" if sizes and release.noun != "dataset" else ""
        what = f"{counted(release.count, release.noun)}{with_datasets}{of_rows}"
        return f"{type(release).__name__}: {what}, columns {listed(release.column_names)}"

    def _repr_html_(self) -> str:
        release: Any = self
        if release.datasets:
            words, values = "The first rows of the first dataset:", np.asarray(release.datasets[0])[:SHOWN]
        else:
            words, values = "The first draws' means:", np.asarray(release.means)[:SHOWN]
        lines = [[number(value) for value in row] for row in values]
        return f"<p>{escape(repr(self))}. {words}</p>{table(release.column_names, lines)}"


# The gate of releases: names, shapes and finite numbers, checked once.


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


MOST_DATASETS = 1_000_000  # datasets, or parameter draws, of one release


@dataclass(frozen=True, eq=False, repr=False)
class ParameterRelease(Shown):
    """Θ: `draws` pairs of mean (draws, p) and covariance (draws, p, p); `datasets`: one drawn from each, or none.

    Means and covariances are on the scales that `schema` declares, datasets in natural units.
    Given its mean and covariance a dataset says nothing more of the records, so an attack on both together is the
    attack on the parameters. `prior` and `schema` are the mechanism's public part; they travel with the release.
    """

    noun: ClassVar[str] = "parameter draw"  # what is counted

    means: Float[Any, "draws p"]
    covariances: Float[Any, "draws p p"]
    columns: tuple[str, ...] | None = None
    prior: NIW | None = None
    datasets: tuple[Float[Any, "_ p"], ...] = ()
    schema: Schema = field(default_factory=Schema)

    def __init__(
        self,
        means: Any,
        covariances: Any,
        columns: Sequence[str] | None = None,
        prior: NIW | None = None,
        datasets: Sequence[Any] = (),
        schema: Any = None,
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
        object.__setattr__(self, "columns", names_of(columns))
        object.__setattr__(self, "prior", prior)
        object.__setattr__(self, "schema", Schema.of(schema).for_columns(self.column_names))
        check_release(self.draws, self.p, self.columns, prior)
        require_finite(means, "released means")
        require_symmetric(covariances, "a released covariance")
        cholesky(covariances, "a released covariance")
        drawn = DatasetRelease(datasets, self.columns, prior, self.schema).datasets if len(datasets) else ()
        if drawn and (len(drawn), drawn[0].shape[1]) != (self.draws, self.p):
            words = f"{self.draws} parameter draws came with {len(drawn)} datasets"
            raise InputError(words, "give each draw its own dataset, of the same columns")
        object.__setattr__(self, "datasets", drawn)

    @cached_property
    def modelled(self) -> tuple[Float[Any, "_ p"], ...]:
        """The datasets on the scales of the model."""
        return modelled(self.datasets, self.schema)

    @property
    def rows(self) -> tuple[int, ...]:
        """The number of rows of each dataset; none where parameters alone are released."""
        return tuple(int(dataset.shape[0]) for dataset in self.datasets)

    @property
    def draws(self) -> int:
        """How many parameter draws are released."""
        return int(self.means.shape[0])

    @property
    def count(self) -> int:
        """How many of what is counted."""
        return self.draws

    @property
    def column_names(self) -> tuple[str, ...]:
        """The columns' names, x1, x2, … where they have none."""
        return column_names(self.columns, self.p)

    @property
    def p(self) -> int:
        """The number of columns."""
        return int(self.means.shape[-1])

    def statistics(self) -> ParameterStatistics:
        """Return all that an attack sees of the release."""
        centre, root = zeros(self.p, like=self.means), eye(self.p, like=self.means)
        return parameters_in(centre, root, self.means, self.covariances)

    def whitened(self, others: NIW) -> tuple[Float[Any, "p p"], ParameterStatistics]:
        """Return a root of the others' scale along the release's own axes, and the statistics whitened by it."""
        return whitened_sums(self._about, others) or whitened_parameters(self.means, self.covariances, others)

    @cached_property
    def _about(self) -> About:
        return About.of_parameters(self.means, self.covariances)

    def means_and_deviations(self) -> tuple[Float[np.ndarray, " p"], Float[np.ndarray, " p"]]:
        """Return each column's mean and standard deviation by the release alone: the averages of the draws."""
        variances = np.diagonal(np.asarray(self.covariances), axis1=1, axis2=2)
        return np.mean(np.asarray(self.means), axis=0), np.sqrt(np.mean(variances, axis=0))

    def first(self, count: int) -> "ParameterRelease":
        """Return a release of the first so many draws."""
        release = ParameterRelease.__new__(ParameterRelease)
        count = count_of("count", count, self.draws)
        held = {"means": self.means[:count, ...], "covariances": self.covariances[:count, ...]}
        held |= {"columns": self.columns, "prior": self.prior, "schema": self.schema}
        held |= {"datasets": self.datasets[:count]}
        for name, value in held.items():
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
        schema: Schema | None = None,
    ) -> "ParameterRelease":
        """Draw (μ*, Σ*) from the posterior `draws` times (Algorithm 1, lines 7 and 8)."""
        draws = count_of("draws", draws, MOST_DATASETS)
        require_memory(draws * posterior.p * (posterior.p + 1))
        with one_thread():
            means, covariances = posterior.draw(rng, draws)
        return cls(means, covariances, columns, prior, schema=schema)


@dataclass(frozen=True, eq=False, repr=False)
class DatasetRelease(Shown):
    """Φ: synthetic datasets, each of shape (rows, p); sizes may differ.

    datasets: as they go out, in natural units. modelled: the same on the scales of the model.
    `prior` and `schema` are the mechanism's public part; they travel with the release.
    """

    noun: ClassVar[str] = "dataset"  # what is counted

    datasets: tuple[Float[Any, "_ p"], ...]
    columns: tuple[str, ...] | None = None
    prior: NIW | None = None
    schema: Schema = field(default_factory=Schema)

    def __init__(
        self,
        datasets: Sequence[Any],
        columns: Sequence[str] | None = None,
        prior: NIW | None = None,
        schema: Any = None,
    ) -> None:
        """Take arrays as they are and any other table through the gate; tables must share their names."""
        arrays, names = checked_datasets(datasets, names_of(columns))
        self._hold(arrays, names, prior, Schema.of(schema))
        for place, array in enumerate(arrays if not self.schema.is_plain else (), start=1):
            require_allowed(array, self.schema, f"dataset {place}")

    def _hold(
        self, datasets: list[Any], columns: tuple[str, ...] | None, prior: NIW | None, schema: Schema | None
    ) -> None:
        object.__setattr__(self, "datasets", tuple(datasets))
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "prior", prior)
        check_release(len(datasets), int(datasets[0].shape[1]) if datasets else 0, columns, prior)
        object.__setattr__(self, "schema", (schema or Schema()).for_columns(self.column_names))

    @cached_property
    def modelled(self) -> tuple[Float[Any, "_ p"], ...]:
        """The datasets on the scales of the model, on which the attack is exact."""
        return modelled(self.datasets, self.schema)

    @classmethod
    def of_array(
        cls, datasets: Float[Any, "k rows p"], columns: tuple[str, ...] | None = None, prior: NIW | None = None
    ) -> "DatasetRelease":
        """Take datasets of one size that lie in one array, and check them all at once."""
        datasets = real_array(datasets, "datasets")
        if datasets.ndim != 3 or 0 in datasets.shape:
            raise InputError(f"datasets have shape (k, rows, p), none of them 0, got {tuple(datasets.shape)}")
        require_finite(datasets, "datasets")
        release = cls.__new__(cls)
        release._hold([datasets[place, ...] for place in range(datasets.shape[0])], columns, prior, None)
        return release

    @property
    def rows(self) -> tuple[int, ...]:
        """The number of rows of each dataset."""
        return tuple(int(dataset.shape[0]) for dataset in self.datasets)

    @property
    def count(self) -> int:
        """How many of what is counted: datasets."""
        return len(self.datasets)

    @property
    def column_names(self) -> tuple[str, ...]:
        """The columns' names, x1, x2, … where they have none."""
        return column_names(self.columns, self.p)

    @property
    def p(self) -> int:
        """The number of columns."""
        return int(self.datasets[0].shape[1])

    def statistics(self) -> Moments:
        """Return all that an attack sees of the release: the datasets' moments, stacked along a leading axis."""
        each, xp = self.moments(), array_namespace(self.datasets[0])
        counts = as_array([float(one.count) for one in each], like=self.datasets[0])
        return Moments(counts, xp.stack([one.mean for one in each]), xp.stack([one.scatter for one in each]))

    def whitened(self, others: NIW) -> tuple[Float[Any, "p p"], Moments]:
        """Return a root of the others' scale along the release's own axes, and the statistics whitened by it."""
        return whitened_sums(self._about, others) or whitened_datasets(self.modelled, others)

    @cached_property
    def _about(self) -> About:
        return About.of_datasets(self.modelled)

    def means_and_deviations(self) -> tuple[Float[np.ndarray, " p"], Float[np.ndarray, " p"]]:
        """Return each column's mean and deviation by the release alone, in natural units; NaN of single rows."""
        return means_and_deviations(self.datasets)

    def as_if_drawn(self, modelled: Sequence[Float[Any, "_ p"]]) -> "DatasetRelease":
        """Return the same release with these values, on the scales of the model, as what was drawn."""
        release = DatasetRelease(self.datasets, self.columns, self.prior, self.schema)
        vars(release)["modelled"] = tuple(modelled)
        vars(release)["is_as_drawn"] = True
        return release

    @cached_property
    def is_as_drawn(self) -> bool:
        """Whether what was drawn is known as it was before limits and rounding."""
        return False

    def first(self, count: int) -> "DatasetRelease":
        """Return a release of the first so many datasets."""
        release = DatasetRelease.__new__(DatasetRelease)
        count = count_of("count", count, len(self.datasets))
        release._hold(list(self.datasets[:count]), self.columns, self.prior, self.schema)
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
        schema: Schema | None = None,
    ) -> "DatasetRelease":
        """Draw one dataset for each entry of `rows` (Algorithm 1), in parallel."""
        declared = (schema or Schema()).for_columns(column_names(columns, posterior.p))
        datasets = [declared.released(drawn) for drawn in draw_datasets(posterior, rows, rng)[0]]
        release = cls.__new__(cls)  # not through the gate, which takes half as long as drawing
        release._hold(datasets, columns, prior, declared)
        return release

    def to_frames(self, backend: Any = "pandas") -> list[Any]:
        """Return the datasets as dataframes of the library named (pandas, polars, pyarrow)."""
        names = list(self.column_names)
        return [nw.from_numpy(np.asarray(data), names, backend=backend).to_native() for data in self.datasets]

    def moments(self) -> list[Moments]:
        """Return each dataset's count, mean and scatter: all that the adversary needs of it."""
        return [Moments.of(dataset) for dataset in self.modelled]


PlainRelease = ParameterRelease | DatasetRelease

# What a caller of sample() asks for: how many datasets of how many rows, and where the randomness comes from.


def dataset_sizes(datasets: int | None, rows: Any, people: int) -> list[int]:
    """Return the number of rows of each dataset to draw: a size for all, one for each, or as many as people."""
    if rows is not None and np.ndim(rows) > 0:
        if datasets is not None and len(rows) != datasets:
            raise InputError(
                f"rows names {len(rows)} sizes for {datasets} datasets", "give one for all or one for each"
            )
        return [count_of("rows", count) for count in rows]
    count = people if rows is None else count_of("rows", rows)
    return [count] * count_of("datasets", 1 if datasets is None else datasets, MOST_DATASETS)


def generator_for(
    kind: str,
    sizes: Sequence[int],
    columns: Sequence[str],
    models: Sequence[Any],
    repeat_key: Any,
    rng_for_tests: Any,
) -> np.random.Generator:
    """Return what draws a release of this kind and these sizes: fresh, or for this release by a repeat key."""
    if repeat_key is not None and rng_for_tests is not None:
        raise InputError("a release is drawn by a repeat key or by a generator, not by both")
    if repeat_key is not None:
        return keyed_generator(repeat_key, kind, sizes, columns, *models)
    if rng_for_tests is None:
        return fresh_generator()
    if not isinstance(rng_for_tests, np.random.Generator):
        raise InputError(
            f"rng_for_tests must be a numpy.random.Generator, got {describe_value(rng_for_tests)}",
            Cure("to repeat a release that is given to others, use a repeat key", "repeat_key"),
        )
    return rng_for_tests
