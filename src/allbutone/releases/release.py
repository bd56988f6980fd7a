"""What is released of a table, synthetic tables, draws of the model's parameters or both, and how it was made."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj
from jaxtyping import Float

from allbutone.model.augmentation import Convergence
from allbutone.model.location import MixedRecords, Parameters
from allbutone.model.niw import NIW
from allbutone.releases.description import contents_in_words
from allbutone.releases.mechanism import REFUSE, MadeByMechanism, Mechanism
from allbutone.releases.private_mechanism import NoisyMoments
from allbutone.releases.sampling import draw_datasets
from allbutone.releases.statistics import NormalDraws, means_and_deviations
from allbutone.support.arrays import array_namespace, cholesky, real_array, require_symmetric, to_numpy
from allbutone.support.errors import InputError, count_of, require_memory
from allbutone.support.parallel import one_thread
from allbutone.support.text import ShowsItself, listed
from allbutone.tables.names import check_names
from allbutone.tables.records import Records
from allbutone.tables.schema import Schema

# The gate of releases: names, shapes and finite numbers, checked once.


def _checked_datasets(
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
        _require_finite(arrays[-1], f"dataset {len(arrays)}")
    widths = {int(array.shape[1]) for array in arrays}
    if len(widths) > 1:
        raise InputError(f"the datasets have different numbers of columns: {sorted(widths)}", "give all the same")
    return arrays, names


def _require_finite(array: Any, what: str) -> None:
    """Refuse values that are missing or infinite."""
    xp = array_namespace(array)
    if not bool(xp.all(xp.isfinite(array))):
        raise InputError("there are values that are missing or infinite", "correct them", where=what)


def _require_allowed(array: Any, schema: Schema, what: str) -> None:
    """Refuse values outside what is declared of their columns."""
    for place, column in enumerate(schema.measurements):
        if not column.allows(np.asarray(array)[:, place]).all():
            raise InputError(f"{column.name!r} has values outside its limits or scale", "correct them", where=what)


MOST_DATASETS = 1_000_000  # datasets, or parameter draws, of one release


@dataclass(frozen=True, eq=False, repr=False)
class Release(ShowsItself, MadeByMechanism):
    """Synthetic tables, draws of the model's parameters, or both, and the mechanism that made them.

    datasets: tables, each from a draw of the parameters that is not released. parameters: released draws, if any.
    illustrating: tables drawn from those; given the parameters they say nothing more of the records.
    noisy: where there is a guarantee, the moments that all tables were drawn from; `convergence`: how surely.
    as_drawn: whether the tables hold what was drawn, before limits and rounding.

    >>> import numpy as np, allbutone as abo
    >>> abo.Release.of([np.zeros((4, 2)) + [[1], [2], [3], [5]]], prior=abo.NIW.flat(2))
    Release: 1 dataset of 4 rows, columns x1, x2
    """

    mechanism: Mechanism
    datasets: tuple[Records, ...] = ()
    parameters: Parameters | None = None
    illustrating: tuple[Records, ...] = ()
    noisy: NoisyMoments | None = None
    convergence: Convergence | None = None
    as_drawn: bool = False

    def __post_init__(self) -> None:
        """Refuse an empty release, tables of other columns, and draws some of which have a dataset."""
        if not self.count:
            raise InputError("a release holds at least one draw or dataset, got none")
        if self.illustrating and len(self.illustrating) != self.draws:
            words = f"{self.draws} parameter draws came with {len(self.illustrating)} datasets"
            raise InputError(words, "give each draw its own dataset, of the same columns")
        order = self.mechanism.order
        for place, each in enumerate(self.tables, 1):
            if each.order != order:
                raise InputError(f"dataset {place} has columns {', '.join(each.order)}", "give the mechanism's")

    @classmethod
    def of(
        cls,
        datasets: Iterable[Any],
        columns: Sequence[str] | None = None,
        prior: NIW | None = None,
        schema: Any = None,
    ) -> "Release":
        """Take datasets of measurements: arrays of any library as they are, any other table through the gate.

        Without names the columns are x1, x2, …; `prior` is the one that they were made with, where it is known.
        """
        arrays, names = _checked_datasets(list(datasets), _names(columns))
        if not arrays:
            raise InputError("a release holds at least one draw or dataset, got none")
        mechanism = _of_measurements(names, int(arrays[0].shape[1]), prior, schema)
        tables = _tables(arrays, mechanism)
        return cls(mechanism, tables)._with_arrays(None, None, arrays)

    @classmethod
    def of_parameters(
        cls,
        means: Any,
        covariances: Any,
        columns: Sequence[str] | None = None,
        prior: NIW | None = None,
        datasets: Sequence[Any] = (),
        schema: Any = None,
    ) -> "Release":
        """Take draws of a normal's means (draws, p) and covariances (draws, p, p); one dataset from each, or none.

        Means and covariances are on the scales that `schema` declares, datasets in natural units.
        """
        means, covariances = real_array(means, "means"), real_array(covariances, "covariances")
        if means.ndim != 2 or tuple(covariances.shape) != (*means.shape, means.shape[-1]):
            raise InputError(
                "a parameter release has means (draws, p) and covariances (draws, p, p), "
                f"got {tuple(means.shape)} and {tuple(covariances.shape)}"
            )
        names = _names(columns)
        mechanism = _of_measurements(names, int(means.shape[1]), prior, schema)
        _require_finite(means, "released means")
        require_symmetric(covariances, "a released covariance")
        cholesky(covariances, "a released covariance")
        arrays, _ = _checked_datasets(datasets, names)
        release = cls(mechanism, (), _parameters(means, covariances), _tables(arrays, mechanism))
        return release._with_arrays(means, covariances, [])

    def _with_arrays(self, means: Any, covariances: Any, datasets: Sequence[Any]) -> "Release":
        """Hold draws as they were given, of any array library: they are attacked where they are."""
        if self.schema.is_plain or not datasets:
            vars(self)["normal"] = NormalDraws(means, covariances, tuple(datasets))
        return self

    @classmethod
    def draw(
        cls,
        posterior: NIW,
        rows: Sequence[int],
        rng: np.random.Generator,
        *,
        columns: Sequence[str] | None = None,
        prior: NIW | None = None,
        schema: Schema | None = None,
        parameters: bool = False,
    ) -> "Release":
        """Draw one dataset of measurements for each entry of `rows` (Algorithm 1), in parallel.

        With `parameters` they come with the mean and covariance that each was drawn from: all that Algorithm 1
        returns. The same generator gives the same datasets.
        """
        mechanism = _of_measurements(_names(columns), posterior.p, prior, schema)
        drawn, means, roots = draw_datasets(posterior, rows, rng)
        tables = _drawn_tables([mechanism.schema.released(each) for each in drawn], mechanism)
        if not parameters:
            return cls(mechanism, tables)
        return cls(mechanism, (), _parameters(means, roots @ roots.swapaxes(-1, -2)), tables)

    @classmethod
    def draw_parameters(
        cls,
        posterior: NIW,
        draws: int,
        rng: np.random.Generator,
        *,
        columns: Sequence[str] | None = None,
        prior: NIW | None = None,
        schema: Schema | None = None,
    ) -> "Release":
        """Draw (μ*, Σ*) from the posterior `draws` times (Algorithm 1, lines 7 and 8)."""
        draws = count_of("draws", draws, MOST_DATASETS)
        require_memory(draws * posterior.p * (posterior.p + 1))
        with one_thread():
            means, covariances = posterior.draw(rng, draws)
        return cls.of_parameters(means, covariances, columns, prior, schema=schema)

    @property
    def tables(self) -> tuple[Records, ...]:
        """All synthetic tables."""
        return (*self.datasets, *self.illustrating)

    @property
    def values(self) -> tuple[Float[np.ndarray, "_ p"], ...]:
        """The measurements of all synthetic tables, in natural units."""
        return tuple(each.natural for each in self.tables)

    @property
    def draws(self) -> int:
        """How many draws of the parameters are released."""
        return 0 if self.parameters is None else len(self.parameters)

    @property
    def count(self) -> int:
        """How many of what is counted: datasets, and draws of the parameters."""
        return len(self.datasets) + self.draws

    @property
    def noun(self) -> str:
        """What is counted."""
        return "dataset" if self.parameters is None else "parameter draw" if not self.datasets else "release"

    @property
    def rows(self) -> tuple[int, ...]:
        """The number of rows of each synthetic table."""
        return tuple(len(each.values) for each in self.tables)

    @cached_property
    def normal(self) -> NormalDraws:
        """All that an attack sees of a release of measurements, as arrays on the model's scale."""
        if not self.mechanism.is_normal:
            raise InputError(
                "the release is of a table with categories, kept columns or gaps, which this does not take",
                "use risk, fidelity or report",
            )
        self.require_no_guarantee()
        datasets = tuple(each.values for each in self.datasets)
        if self.parameters is None:
            return NormalDraws(datasets=datasets)
        return NormalDraws(self.parameters.coefficients[:, 0], self.parameters.covariances[:, 0], datasets)

    def opinions(self) -> tuple[list[MixedRecords], Parameters | None]:
        """Return all that an attack sees: the datasets as the model sees them, and the parameters."""
        return [self.mechanism.split(each) for each in self.datasets], self.parameters

    def require_no_guarantee(self) -> None:
        """Refuse a release with a guarantee, of which another mechanism must be asked."""
        if self.noisy is not None:
            raise InputError(
                "the release was made with a guarantee, which this does not take", "use risk or fidelity"
            )

    def means_and_deviations(self) -> tuple[Float[np.ndarray, " p"], Float[np.ndarray, " p"]]:
        """Return each measurement's mean and deviation by the release alone; NaN of single rows.

        In natural units by the datasets, on the model's scale by the averages of the draws.
        """
        if self.parameters is None:
            return means_and_deviations([each.natural for each in self.datasets])
        drawn = self.normal
        variances = np.diagonal(to_numpy(drawn.covariances), axis1=1, axis2=2)
        return np.mean(to_numpy(drawn.means), axis=0), np.sqrt(np.mean(variances, axis=0))

    def first(self, count: int) -> "Release":
        """Return a release of the first so many draws or datasets."""
        if self.parameters is None:
            count = count_of("count", count, len(self.datasets))
            return replace(self, datasets=self.datasets[:count])
        count = count_of("count", count, self.draws)
        some = Parameters(*(each[:count] for each in vars(self.parameters).values()))
        return replace(self, parameters=some, illustrating=self.illustrating[:count])

    def draw_more(self, datasets: int | None = None, rows: Any = None) -> "Release":
        """Draw further datasets from the noisy moments of a release with a guarantee, which costs no privacy."""
        from allbutone.releases.private_release import draw_guaranteed  # which makes releases

        if self.noisy is None:
            raise InputError(
                "only noisy moments tell what to draw more datasets from", "draw them with the synthesizer"
            )
        return draw_guaranteed(self.noisy, datasets, rows, self.mechanism.missing)

    def as_if_drawn(self, values: Sequence[Float[np.ndarray, "_ p"]]) -> "Release":
        """Return the same release with these values, on the scales of the model, as what was drawn."""
        datasets = tuple(replace(each, values=drawn) for each, drawn in zip(self.datasets, values, strict=True))
        return replace(self, datasets=datasets, as_drawn=True)

    def to_frames(self, backend: Any = "pandas") -> list[Any]:
        """Return the tables as dataframes of the library named (pandas, polars, pyarrow)."""
        return [each.to_frame(backend) for each in self.tables]

    def __repr__(self) -> str:
        """Return what is counted, how large it is, and the columns."""
        drawn_from = bool(self.illustrating and not self.datasets)
        what = contents_in_words(self.count, self.noun, self.rows, with_datasets=drawn_from)
        return f"Release: {what}, columns {listed(self.released_order)}"


def _names(columns: str | Sequence[str] | None) -> tuple[str, ...] | None:
    return None if columns is None else (columns,) if isinstance(columns, str) else tuple(columns)


def _of_measurements(names: tuple[str, ...] | None, p: int, prior: NIW | None, schema: Any) -> Mechanism:
    """Return the mechanism of p measurements, x1, x2, … without names; refuse names or a prior of others."""
    names = names or tuple(f"x{place + 1}" for place in range(p))
    if len(names) != p:
        raise InputError(f"the release has {p} columns but {len(names)} names")
    check_names(names)
    if prior is not None and prior.p != p:
        raise InputError(f"the release has {p} columns but its prior is for {prior.p}")
    return Mechanism.of_measurements(Schema.of(schema).for_columns(names), prior)


def _tables(arrays: Sequence[Any], mechanism: Mechanism) -> tuple[Records, ...]:
    """Return datasets as tables, whose values must be such as the mechanism can release."""
    for place, array in enumerate(arrays if not mechanism.schema.is_plain else (), start=1):
        _require_allowed(array, mechanism.schema, f"dataset {place}")
    return _drawn_tables([to_numpy(each) for each in arrays], mechanism)


def _drawn_tables(arrays: Sequence[Float[np.ndarray, "_ p"]], mechanism: Mechanism) -> tuple[Records, ...]:
    """Return what was drawn as tables; past the first not through the gate, which takes longer than drawing."""
    if not arrays:
        return ()
    first = mechanism.table(arrays[0])
    return (first, *(first.with_measurements(each) for each in arrays[1:]))


def _parameters(means: Float[Any, "draws p"], covariances: Float[Any, "draws p p"]) -> Parameters:
    """Return draws of a normal as those of a model with one cell."""
    means, covariances = to_numpy(means), to_numpy(covariances)
    return Parameters(np.ones((len(means), 1)), means[:, None], covariances[:, None])


def reading_of(release: Any, how_to_read: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return how the table of a release is read: its columns, as it declares them, gaps where it took them.

    What is asked besides comes on top; a schema must be the release's own. That there is one row a
    person was seen to when the release was made.
    """
    reading = {"columns": release.released_order, "schema": release.schema, "rows_are_people": True}
    if not release.mechanism.is_normal:
        reading |= {"categories": True, "gaps": release.mechanism.missing != REFUSE}
        reading |= {"many_cells": True} if release.mechanism.has_classes else {}
    asked = dict(how_to_read or {})
    if (schema := asked.pop("schema", None)) is not None:
        reading["schema"] = release.schema.completed_by(Schema.of(schema))
    return reading | asked


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
