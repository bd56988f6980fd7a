"""The thin facade users of this field expect: fit, sample, save, load."""

import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.model.prior import (
    AnyPrior,
    PriorScaleWarning,
    declared_prior,
    prior_conflict,
    prior_entries,
    prior_from,
    prior_of,
)
from allbutone.model.sites import SiteMoments
from allbutone.releases.description import read_json
from allbutone.releases.joined import draw_both
from allbutone.releases.release import (
    MOST_DATASETS,
    DatasetRelease,
    ParameterRelease,
    PlainRelease,
    dataset_sizes,
    generator_for,
)
from allbutone.support.errors import Cure, InputError, count_of
from allbutone.support.parallel import one_thread
from allbutone.support.text import counted, listed
from allbutone.tables.admission import ColumnsError, refusal
from allbutone.tables.engines.lazy_records import LazyRecords, is_lazy
from allbutone.tables.records import Records
from allbutone.tables.safe_io import NOT_AS_WRITTEN, fresh_file
from allbutone.tables.schema import Schema

_NOTICE = (
    "CONFIDENTIAL: this file holds the fitted posterior, which is computed from the confidential records. "
    "Keep it with the data; release only what sample() draws."
)
MIXED = 'fit a Synthesizer instead, which takes categories and, with missing="impute" or "keep", gaps'


@dataclass(frozen=True, eq=False)
class _Fit:
    """What fitting leaves: the posterior is confidential, the rest but the number of people is public."""

    columns: tuple[str, ...]
    prior: NIW
    posterior: NIW
    people: int
    schema: Schema


class NIWSynthesizer:
    """Fits the normal-inverse-Wishart model to a table and draws releases from it.

    `prior` is a `NIW`, the path of a prior file, a dict of its entries, or None for what the table file declares,
    else the flat prior, `NIW.flat(p)`, which has no units. It must not be computed from the confidential data:
    that would void every risk figure.

    >>> import allbutone as abo
    >>> synthesizer = abo.NIWSynthesizer().fit(abo.demo_cohort())
    >>> synthesizer.sample(datasets=3, rows=500)
    DatasetRelease: 3 datasets of 500 rows, columns T2D, CAD, HT, BMI, HBA1C
    """

    def __init__(self, prior: AnyPrior | None = None) -> None:
        self._given = prior
        self._fitted: _Fit | None = None

    def fit(self, table: Any, **how_to_read: Any) -> "NIWSynthesizer":
        """Fit to a file, dataframe, matrix or `Records`; returns itself.

        A lazy frame (polars, DuckDB, Dask, Ibis, …) stays in its engine: only its moments come here. So do those
        of several sites (`SiteMoments`), whose records are nowhere together.
        How to read the table is said as to `Records.of`: columns, drop, schema, complete_cases, drop_unusable.
        """
        records, moments = _records_and_moments(table, how_to_read)
        if isinstance(records, Records):
            records.warn(table)
        if self._given is None:
            prior = declared_prior(records.schema)
        else:
            prior = prior_of(self._given, records.columns, records.schema)
        if prior.is_flat:
            _require_enough(int(moments.count), prior.p)
        if message := prior_conflict(prior, moments, records.columns):
            warnings.warn(message, PriorScaleWarning, stacklevel=2)
        with one_thread():
            posterior = prior.update(moments)
        self._fitted = _Fit(records.columns, prior, posterior, int(moments.count), records.schema)
        return self

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the fitted columns."""
        return self._require_fit().columns

    @property
    def prior(self) -> NIW:
        """The prior in use; public."""
        return self._require_fit().prior

    @property
    def posterior(self) -> NIW:
        """The posterior given the table; confidential."""
        return self._require_fit().posterior

    @property
    def schema(self) -> Schema:
        """What is declared of the columns; public."""
        return self._require_fit().schema

    def __repr__(self) -> str:
        """Return what it was fitted to by size and names alone: the posterior is confidential."""
        if self._fitted is None:
            return "NIWSynthesizer, not fitted"
        return f"NIWSynthesizer, fitted to {counted(self._fitted.people, 'record')} of {listed(self.columns)}"

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>"

    def sample(
        self,
        *,
        datasets: int | None = None,
        rows: int | Sequence[int] | np.ndarray | None = None,
        parameters: bool = False,
        repeat_key: Any = None,
        rng_for_tests: Any = None,
    ) -> PlainRelease:
        """Draw synthetic datasets; `rows` is a size for all, one for each, or as many as the table has.

        Both are named, so that a number of rows cannot be mistaken for one of datasets.
        With `parameters` they come with the mean and covariance that each was drawn from: what such a release
        gives away is what its parameters alone would.
        The randomness is the operating system's. With a `repeat_key` from `new_repeat_key()`, as secret as the
        table, the same call draws the same release again. What is drawn with `rng_for_tests`, a NumPy generator,
        must not be given to anyone: who finds its seed by trying has the missing record.
        """
        sizes = self.sizes(datasets, rows)
        rng = self.generator("both" if parameters else "datasets", sizes, repeat_key, rng_for_tests)
        draw: Callable[..., PlainRelease] = draw_both if parameters else DatasetRelease.draw
        return draw(self.posterior, sizes, rng, **self._public)

    def sample_parameters(
        self,
        draws: int = 1,
        *,
        repeat_key: Any = None,
        rng_for_tests: Any = None,
    ) -> ParameterRelease:
        """Draw means and covariances of the model; where the randomness comes from, `sample` says."""
        draws = count_of("draws", draws, MOST_DATASETS)
        rng = self.generator("parameters", [draws], repeat_key, rng_for_tests)
        return ParameterRelease.draw(self.posterior, draws, rng, **self._public)

    @property
    def _public(self) -> dict[str, Any]:
        return {"columns": self.columns, "prior": self.prior, "schema": self.schema}

    def generator(
        self,
        kind: str,
        sizes: Sequence[int],
        repeat_key: Any = None,
        rng_for_tests: Any = None,
    ) -> np.random.Generator:
        """Return what draws a release of this kind and these sizes: fresh, or for this release by a repeat key."""
        models = (self.prior, self.posterior)
        return generator_for(kind, sizes, self.columns, models, repeat_key, rng_for_tests)

    def sizes(self, datasets: int | None, rows: Any) -> list[int]:
        """Return the number of rows of each dataset to draw."""
        return dataset_sizes(datasets, rows, self._require_fit().people)

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the fitted synthesizer to a JSON file that only its owner can read. It is confidential."""
        fit = self._require_fit()
        content = {
            "notice": _NOTICE,
            "columns": fit.columns,
            "records": fit.people,
            "prior": prior_entries(fit.prior),
            "posterior": prior_entries(fit.posterior),
            "declared": fit.schema.entries()["columns"],
        }
        with fresh_file(Path(path), force=force, private=True) as work:
            work.write_text(json.dumps(content, indent=2, ensure_ascii=False), encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> "NIWSynthesizer":
        """Read a synthesizer that `save` wrote."""
        content = read_json(Path(path))
        try:
            columns = tuple(content["columns"])
            prior, posterior = (prior_from(content[key], columns) for key in ("prior", "posterior"))
            count = count_of("records", content["records"])
            schema = Schema.of_entries({"columns": content.get("declared", {})}, str(path)).for_columns(columns)
        except NOT_AS_WRITTEN as error:
            raise InputError(f"this is not a saved synthesizer: {error!r}", where=str(path)) from error
        loaded = cls(prior)
        loaded._fitted = _Fit(columns, prior, posterior, count, schema)
        return loaded

    def _require_fit(self) -> _Fit:
        if self._fitted is None:
            raise InputError("the synthesizer is not fitted", "call fit(table) first")
        return self._fitted


def _records_and_moments(table: Any, how_to_read: dict[str, Any]) -> tuple[Any, Moments]:
    """Return what is known of the columns, by records that are here or elsewhere, and the moments."""
    if isinstance(table, SiteMoments):
        return table, table.total
    try:
        if is_lazy(table):
            lazy = LazyRecords.of(table, **how_to_read)
            return lazy, Moments.of(lazy)
        records = Records.of(table, **how_to_read)
    except ColumnsError as error:
        mixed = [MIXED] if any(each.is_category or each.is_gap for each in error.problems) else []
        raise refusal(error.problems, *mixed, closed=("missing",)) from error
    with one_thread():
        return records, Moments.of(records.values)


def _require_enough(people: int, p: int) -> None:
    """Ask for a prior where the flat one leaves an adversary, who has one record less, without a posterior."""
    if people <= p + 1:
        raise InputError(
            f"{people} rows are too few for {counted(p, 'column')} without a prior: at least {p + 2} are needed",
            Cure("give a prior from public knowledge", "prior"),
            Cure("use fewer columns", "columns"),
        )
