"""The thin facade users of this field expect: fit, sample, save, load, for every kind of table."""

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from allbutone.model.augmentation import FEWEST_CHAINS, augment
from allbutone.model.incomplete import GapPatterns, IncompleteRecords
from allbutone.model.location import MAIN_EFFECTS, LocationModel, Regression, default_weight
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
from allbutone.releases.mechanism import (
    GENERAL_LOCATION,
    KEEP_GAPS,
    LEAST_WEIGHT,
    NORMAL,
    REFUSE,
    Mechanism,
    require_measurements,
    require_nothing_kept,
)
from allbutone.releases.private_mechanism import DELTA, NoisyMoments, epsilon_of
from allbutone.releases.private_release import draw_guaranteed, refuse_seed, spend
from allbutone.releases.release import MOST_DATASETS, Release, dataset_sizes, generator_for
from allbutone.releases.sampling import draw_tables
from allbutone.releases.several import joined_parameters
from allbutone.support.errors import Cure, InputError, count_of
from allbutone.support.parallel import one_thread
from allbutone.support.text import counted, listed
from allbutone.tables.admission import ColumnsError, refusal
from allbutone.tables.engines.lazy_records import LazyRecords, is_lazy
from allbutone.tables.names import split_names
from allbutone.tables.records import Records
from allbutone.tables.safe_io import NOT_AS_WRITTEN, fresh_file
from allbutone.tables.schema import Schema

MOST_CHAINS = 16  # more draws come from the same chains, far enough apart
_NOTICE = (
    "CONFIDENTIAL: this file holds the fitted posterior, which is computed from the confidential records, and the "
    "columns that are kept. Keep it with the data; release only what sample() draws."
)


@dataclass(frozen=True, eq=False)
class _Fit:
    """What fitting leaves: the mechanism is public, and so are noisy moments; the rest is confidential.

    posterior: of the normal model of measurements alone, or of the model with cells; none where values are missing
    (`incomplete`), or where there is a guarantee (`noisy`). kept, covariates: of each record, what is kept.
    """

    mechanism: Mechanism
    people: int
    posterior: NIW | LocationModel | None = None
    incomplete: IncompleteRecords | None = None
    kept: Int[np.ndarray, "n q"] | None = None
    covariates: Float[np.ndarray, "n s"] | None = None
    noisy: NoisyMoments | None = None


class Synthesizer:
    """Fits a model to a table and draws releases from it.

    Measurements are multivariate normal with a normal-inverse-Wishart prior. Where the table has categories, they
    are so within each cell of these (the general location model); `model="normal"` refuses categories instead.

    `prior`: of the measurements; a `NIW`, the path of a prior file, a dict of its entries, or None for what the
    table file declares, else the flat prior, which has no units. `cells`: "main effects" (one spread, each level
    moves the means) or "separate" (a normal in each cell). `cell_weight`: what the prior is worth in each cell, in
    records; by default all cells together are worth one. `keep`: columns that are public and go out as they are,
    the others drawn given each person's own. `missing`: "refuse" gaps, or "impute" them: the missing values are
    drawn given the observed ones, anew for each dataset, and synthetic tables are complete, or "keep" them: the
    synthetic tables have gaps of their own, in patterns as frequent as the table's. `schema`: a table file, its
    entries, or a `Schema`. Nothing of it may be computed from the confidential data: that would void every risk
    figure.

    With `epsilon` noise is added to the table's moments so that (ε, δ)-differential privacy holds, one of n
    records replaced; n and each column's limits, centre and spread (`schema`) are public. Every `fit` spends ε
    again; `sample` costs nothing, however often it is called. Nothing can be repeated: that would void the
    guarantee.

    >>> import allbutone as abo
    >>> synthesizer = abo.Synthesizer().fit(abo.demo_cohort())
    >>> synthesizer.sample(datasets=3, rows=500)
    Release: 3 datasets of 500 rows, columns T2D, CAD, HT, BMI, HBA1C
    """

    def __init__(
        self,
        prior: AnyPrior | None = None,
        *,
        model: str | None = None,
        cells: str = MAIN_EFFECTS,
        cell_weight: float | None = None,
        keep: str | Sequence[str] = (),
        missing: str = REFUSE,
        schema: Any = None,
        epsilon: float | None = None,
        delta: float = DELTA,
    ) -> None:
        if model not in (None, NORMAL, GENERAL_LOCATION):
            raise InputError(f"the model is {NORMAL!r} or {GENERAL_LOCATION!r}, got {model!r}")
        self._given, self._model, self._cells, self._weight = prior, model, cells, cell_weight
        self._keep, self._missing, self._schema = keep, missing, schema
        self._epsilon, self._delta = None if epsilon is None else epsilon_of(epsilon), delta
        self._fitted: _Fit | None = None
        self._gaps_in_words = ""
        if epsilon is not None and (prior is not None or keep or missing != REFUSE or model == GENERAL_LOCATION):
            raise InputError(
                "with a guarantee measurements are drawn by the table file's centres, spreads and limits alone",
                "leave out prior, keep, missing and model",
            )

    def fit(self, table: Any, **how_to_read: Any) -> "Synthesizer":
        """Fit to a file, dataframe, matrix or `Records`; returns itself.

        A lazy frame (polars, DuckDB, Dask, Ibis, …) stays in its engine: only its moments come here. So do those
        of several sites (`SiteMoments`), whose records are nowhere together.
        How to read the table is said as to `Records.of`: columns, drop, schema, complete_cases, drop_unusable.
        """
        if self._schema is not None:
            how_to_read = {"schema": self._schema, **how_to_read}
        if self._epsilon is not None:
            noisy = spend(table, self._epsilon, self._delta, **how_to_read)
            self._fitted = _Fit(Mechanism.of_measurements(noisy.ball.schema, None), noisy.people, noisy=noisy)
            return self
        records = self._read(table, how_to_read)
        mechanism, people = self._mechanism(records), _people(records)
        normal = mechanism.require_prior()
        if normal.is_flat:
            _require_enough(people, normal.p + len(mechanism.covariates))
        if mechanism.is_normal:
            self._fitted = self._fit_normal(records, mechanism)
        elif isinstance(records, Records):
            self._fitted = _fit_records(records, mechanism)
        else:
            self._fitted = _fit_cells(records, mechanism)
        return self

    def _read(self, table: Any, how_to_read: dict[str, Any]) -> Records | LazyRecords | SiteMoments:
        """Return the table through the gate; `model="normal"` takes measurements alone."""
        if isinstance(table, SiteMoments):
            return table
        how = {"categories": self._model != NORMAL, **how_to_read}
        try:
            if is_lazy(table):
                return LazyRecords.of(table, **how)
            records = Records.of(table, **{"gaps": self._missing != REFUSE, **how})
        except ColumnsError as error:
            if self._model == NORMAL and any(each.is_category for each in error.problems):
                raise refusal(error.problems, Cure('leave out model="normal"', "model")) from error
            raise
        records.warn(table)
        return records

    def _mechanism(self, records: Records | LazyRecords | SiteMoments) -> Mechanism:
        schema = records.schema
        keep = tuple(split_names(self._keep, set(records.order))) if self._keep else ()
        drawn = [name for name in records.columns if name not in keep]
        require_measurements(drawn)
        of_drawn = schema.for_columns(drawn)
        normal = declared_prior(of_drawn) if self._given is None else prior_of(self._given, drawn, of_drawn)
        if not (schema.categories or keep or self._missing != REFUSE):
            return Mechanism.of_measurements(schema, normal)
        weight = self._weight
        if weight is None:
            weight = max(LEAST_WEIGHT, default_weight(prod(len(column.levels) for column in schema.categories)))
        return Mechanism(schema, normal, weight, self._cells, keep, self._missing)

    def _fit_normal(self, records: Records | LazyRecords | SiteMoments, mechanism: Mechanism) -> _Fit:
        """Fit to moments, all that the normal model needs."""
        prior = mechanism.require_prior()
        with one_thread():
            moments = _moments(records)
            if message := prior_conflict(prior, moments, records.columns):
                warnings.warn(message, PriorScaleWarning, stacklevel=3)
            return _Fit(mechanism, int(moments.count), prior.update(moments))

    @property
    def mechanism(self) -> Mechanism:
        """The public part of what draws."""
        return self._require_fit().mechanism

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the measurements."""
        return self.mechanism.columns

    @property
    def prior(self) -> NIW:
        """The prior of the measurements; public."""
        return self.mechanism.require_prior()

    @property
    def schema(self) -> Schema:
        """What is declared of the columns; public."""
        return self.mechanism.schema

    @property
    def posterior(self) -> Any:
        """The model given the table; confidential. A `NIW` of measurements alone."""
        posterior = self._require_fit().posterior
        if posterior is None:
            raise InputError("values are missing or noisy, so there is no closed form", "draw with sample")
        return posterior

    @property
    def noisy(self) -> NoisyMoments:
        """With a guarantee, the noisy moments: all that is told of the table; public."""
        noisy = self._require_fit().noisy
        if noisy is None:
            raise InputError("without a guarantee there are no noisy moments", Cure("ask for one", "epsilon"))
        return noisy

    @property
    def gaps_in_words(self) -> str:
        """What was done about missing values by the last draw, and how surely; confidential."""
        return self._gaps_in_words

    def __repr__(self) -> str:
        """Return what it was fitted to by size and names alone: the posterior is confidential."""
        spent = "" if self._epsilon is None else f", ε = {self._epsilon:g}"
        if self._fitted is None:
            return f"Synthesizer{spent}, not fitted"
        people = counted(self._fitted.people, "record")
        return f"Synthesizer{spent}, fitted to {people} of {listed(self.mechanism.order)}"

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
    ) -> Release:
        """Draw synthetic tables; `rows` is a size for all, one for each, or as many as the table has.

        Both are named, so that a number of rows cannot be mistaken for one of datasets. With columns to keep there
        is a row for each person.
        With `parameters` they come with those that each was drawn from: what such a release gives away is what its
        parameters alone would.
        The randomness is the operating system's. With a `repeat_key` from `new_repeat_key()`, as secret as the
        table, the same call draws the same release again. What is drawn with `rng_for_tests`, a NumPy generator,
        must not be given to anyone: who finds its seed by trying has the missing record.
        """
        fit, sizes = self._require_fit(), self.sizes(datasets, rows)
        if fit.noisy is not None:
            _require_noise_alone(parameters, repeat_key, rng_for_tests)
            return draw_guaranteed(fit.noisy, len(sizes), sizes)
        rng = self.generator("both" if parameters else "datasets", sizes, repeat_key, rng_for_tests)
        if isinstance(fit.posterior, NIW):  # many at a time
            return Release.draw(fit.posterior, sizes, rng, parameters=parameters, **self._public)
        drawn, behind = draw_tables(
            self._posteriors(len(sizes), rng), sizes, rng, kept=fit.kept, covariates=fit.covariates
        )
        # rows in an order of their own: kept columns need not tell in which order the table has them
        mixed = [each.take(rng.permutation(len(each))) if fit.kept is not None else each for each in drawn]
        tables = tuple(fit.mechanism.released(each, self._gaps_of(len(each), rng)) for each in mixed)
        if parameters:
            return Release(fit.mechanism, (), behind, tables)
        return Release(fit.mechanism, tables)

    def sample_parameters(self, draws: int = 1, *, repeat_key: Any = None, rng_for_tests: Any = None) -> Release:
        """Draw the model's parameters alone; where the randomness comes from, `sample` says."""
        fit, draws = self._require_fit(), count_of("draws", draws, MOST_DATASETS)
        if fit.noisy is not None:
            _require_noise_alone(True, repeat_key, rng_for_tests)
        rng = self.generator("parameters", [draws], repeat_key, rng_for_tests)
        if isinstance(fit.posterior, NIW):
            return Release.draw_parameters(fit.posterior, draws, rng, **self._public)
        posteriors = self._posteriors(draws, rng)
        if len(posteriors) == 1:
            return Release(fit.mechanism, (), posteriors[0].draw(rng, draws))
        return Release(fit.mechanism, (), joined_parameters([each.draw(rng, 1) for each in posteriors]))

    @property
    def _public(self) -> dict[str, Any]:
        return {"columns": self.columns, "prior": self.prior, "schema": self.schema}

    def _gaps_of(self, rows: int, rng: np.random.Generator) -> Bool[np.ndarray, "rows d"] | None:
        """Draw which values of a synthetic table are missing, where such gaps are asked for."""
        fit = self._require_fit()
        if fit.incomplete is None or fit.mechanism.missing != KEEP_GAPS:
            return None
        return GapPatterns.of(fit.incomplete).draw(rng, rows)

    def _posteriors(self, count: int, rng: np.random.Generator) -> Sequence[LocationModel]:
        """Return the posterior, or, where values are missing, one for each draw from its own draw of them."""
        fit = self._require_fit()
        if fit.incomplete is None:
            return [self.posterior]
        chains = min(max(count, FEWEST_CHAINS), MOST_CHAINS)
        augmented = augment(
            fit.incomplete,
            fit.mechanism.prior,
            rng,
            chains=chains,
            draws=-(-count // chains),
            columns=fit.mechanism.measurements,
            categories=fit.mechanism.categories,
        )
        self._gaps_in_words = augmented.words
        return augmented.posteriors[:count]

    def sizes(self, datasets: int | None, rows: Any) -> list[int]:
        """Return the number of rows of each dataset to draw."""
        fit = self._require_fit()
        if rows is not None and fit.kept is not None:
            raise InputError("with columns to keep there is a row for each person", Cure("leave rows out", "rows"))
        return dataset_sizes(datasets, rows, fit.people)

    def generator(
        self, kind: str, sizes: Sequence[int], repeat_key: Any = None, rng_for_tests: Any = None
    ) -> np.random.Generator:
        """Return what draws a release of this kind and these sizes: fresh, or for this release by a repeat key."""
        fit, models = self._require_fit(), list[Any]()
        if isinstance(fit.posterior, NIW):
            models = [self.prior, fit.posterior]
        elif repeat_key is not None:
            both = fit.kept is not None and fit.covariates is not None
            kept = [fit.kept.tolist(), fit.covariates.tolist()] if both else []  # type: ignore[union-attr]
            models = [fit.mechanism.entries(), _table_entries(fit), kept]
        return generator_for(kind, sizes, fit.mechanism.order, models, repeat_key, rng_for_tests)

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the fitted synthesizer to a JSON file that only its owner can read. It is confidential."""
        fit = self._require_fit()
        if fit.noisy is not None:
            raise InputError("with a guarantee nothing is confidential but the table", "save a release of it")
        content = {
            "notice": _NOTICE,
            "records": fit.people,
            "mechanism": fit.mechanism.entries(),
            **_table_entries(fit),
            "kept": None if fit.kept is None else fit.kept.tolist(),
            "covariates": None if fit.covariates is None else fit.covariates.tolist(),
        }
        with fresh_file(Path(path), force=force, private=True) as work:
            work.write_text(json.dumps(content, indent=2, ensure_ascii=False), encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> "Synthesizer":
        """Read a synthesizer that `save` wrote."""
        content = read_json(Path(path))
        try:
            # of measurements alone 0.2 wrote the mechanism's entries beside the others
            mechanism = Mechanism.of_entries(content.get("mechanism", content), str(path))
            fit = _fit_from(content, mechanism)
        except NOT_AS_WRITTEN as error:
            raise InputError(f"this is not a saved synthesizer: {error!r:.200}", where=str(path)) from error
        loaded = cls(
            mechanism.normal,
            cells=mechanism.cells,
            cell_weight=mechanism.cell_weight,
            keep=mechanism.keep,
            missing=mechanism.missing,
        )
        loaded._fitted = fit
        return loaded

    def _require_fit(self) -> _Fit:
        if self._fitted is None:
            raise InputError("the synthesizer is not fitted", "call fit(table) first")
        return self._fitted


def _people(records: Records | LazyRecords | SiteMoments) -> int:
    if isinstance(records, Records):
        return len(records.values)
    return int(records.total.count) if isinstance(records, SiteMoments) else len(records)


def _moments(records: Records | LazyRecords | SiteMoments) -> Moments:
    if isinstance(records, SiteMoments):
        return records.total
    return Moments.of(records.values if isinstance(records, Records) else records)


def _fit_records(records: Records, mechanism: Mechanism) -> _Fit:
    """Fit to records with categories, kept columns or gaps."""
    model, table = mechanism.prior, mechanism.incomplete(records)
    with one_thread():
        posterior = None if records.has_gaps else model.update(table.complete(model.cells))
    return _Fit(
        mechanism,
        len(records.values),
        posterior,
        table if records.has_gaps else None,
        mechanism.kept_levels(records),
        table.covariates if mechanism.keep else None,
    )


def _fit_cells(records: Any, mechanism: Mechanism) -> _Fit:
    """Fit to counts and sums by cell, all that comes from a table that stays in its engine."""
    require_nothing_kept(mechanism)
    model = mechanism.prior
    with one_thread():
        return _Fit(mechanism, len(records), model.update(model.moments(records.sums)))


def _require_enough(people: int, columns: int) -> None:
    """Ask for a prior where the flat one leaves an adversary, who has one record less, without a posterior."""
    if people <= columns + 1:
        raise InputError(
            f"{people} rows are too few for {counted(columns, 'measurement')} without a prior: at least "
            f"{columns + 2} are needed",
            Cure("give a prior from public knowledge", "prior"),
            Cure("use fewer columns", "columns"),
        )


def _require_noise_alone(parameters: bool, repeat_key: Any, rng_for_tests: Any) -> None:
    """Refuse, with a guarantee, what would let the noise be taken away, and parameters of their own."""
    if repeat_key is not None or rng_for_tests is not None:
        refuse_seed()
    if parameters:
        raise InputError(
            "with a guarantee datasets are released, and the noisy moments themselves, which are its parameters",
            Cure("leave parameters out", "parameters", False),
        )


def _table_entries(fit: _Fit) -> dict[str, Any]:
    """Return what stands for the table: the posterior, or the table itself where values are missing."""
    content: dict[str, Any] = {"posterior": None, "incomplete": None}
    if isinstance(fit.posterior, NIW):
        content["posterior"] = prior_entries(fit.posterior)
    elif fit.posterior is not None:
        measured, names = fit.posterior.measured, ["mean", "mean_weight", "df", "scale"]
        if isinstance(measured, Regression):
            names = ["coefficients", "root", "df", "scale"]
        numbers = {name: np.asarray(getattr(measured, name)).tolist() for name in names}
        content["posterior"] = {"weights": fit.posterior.weights.tolist()} | numbers
    if fit.incomplete is not None:
        values = [[None if np.isnan(value) else value for value in row] for row in fit.incomplete.values.tolist()]
        content["incomplete"] = {"codes": fit.incomplete.codes.tolist(), "values": values}
    return content


def _fit_from(content: dict[str, Any], mechanism: Mechanism) -> _Fit:
    """Read what `Synthesizer.save` wrote."""
    people, given = count_of("records", content["records"]), content["posterior"]
    kept, covariates = (
        None if content.get(name) is None else np.array(content[name], dtype=kind).reshape(people, -1)
        for name, kind in (("kept", np.int64), ("covariates", np.float64))
    )
    posterior: NIW | LocationModel | None = None
    if given is not None and "weights" not in given:
        posterior = prior_from(given, mechanism.columns)
    elif given is not None:
        posterior = _location_model(given, mechanism.prior)
    incomplete = None
    if (table := content.get("incomplete")) is not None:
        values = np.array(table["values"], dtype=np.float64).reshape(-1, len(mechanism.measurements))
        codes = np.array(table["codes"], dtype=np.int64).reshape(len(values), -1)
        incomplete = IncompleteRecords.of(codes, values, covariates)
    return _Fit(mechanism, people, posterior, incomplete, kept, covariates)


def _location_model(entries: dict[str, Any], prior: LocationModel) -> LocationModel:
    numbers = {name: np.array(value, dtype=np.float64) for name, value in entries.items()}
    weights, scale = numbers["weights"], numbers["scale"]
    measured: Regression | NIW
    if "root" in numbers:
        measured = Regression(numbers["coefficients"], numbers["root"], float(numbers["df"]), scale)
    else:
        measured = NIW(numbers["mean"], numbers["mean_weight"], numbers["df"], scale)
    return LocationModel(prior.cells, weights, measured, prior.covariates)
