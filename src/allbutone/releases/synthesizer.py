"""The thin facade users of this field expect: fit, sample, save, load, for every kind of table."""

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from allbutone.model.augmentation import FEWEST_CHAINS, augment
from allbutone.model.classes import CLASSES as CLASSES_BY_DEFAULT
from allbutone.model.classes import require_enough_records, require_values
from allbutone.model.incomplete import GapPatterns, IncompleteRecords
from allbutone.model.location import MAIN_EFFECTS, LocationModel, Regression, default_weight
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.model.prior import (
    AnyPrior,
    declared_prior,
    prior_conflict,
    prior_entries,
    prior_from,
    prior_of,
)
from allbutone.model.sites import SiteMoments
from allbutone.releases.class_tables import draw_class_tables
from allbutone.releases.description import read_json
from allbutone.releases.gaussian_account import DELTA, epsilon_of
from allbutone.releases.mechanism import (
    CLASSES,
    GENERAL_LOCATION,
    KEEP_GAPS,
    LEAST_WEIGHT,
    NORMAL,
    REFUSE,
    Mechanism,
    require_measurements,
    require_nothing_kept,
)
from allbutone.releases.private_mechanism import NoisyMoments
from allbutone.releases.private_release import draw_guaranteed, private_mechanism_of, refuse_seed, spend
from allbutone.releases.release import MOST_DATASETS, Release, dataset_sizes
from allbutone.releases.sampling import draw_tables, fresh_generator, keyed_generator, new_repeat_key
from allbutone.releases.several import joined_parameters
from allbutone.support.devices import HERE, device_of, require_processor
from allbutone.support.errors import Caution, Cure, InputError, count_of, describe_value
from allbutone.support.parallel import one_thread
from allbutone.support.text import ShowsItself, counted, listed
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


class Synthesizer(ShowsItself):
    """Fits a model to a table and draws releases from it.

    Measurements are multivariate normal with a normal-inverse-Wishart prior. Where the table has categories, they
    are so within each cell of these (the general location model); `model="normal"` refuses categories instead.
    With `model="classes"` each record is of a class that nobody has observed, `classes` of them at most (10 by
    default): within a class measurements are normal and categories independent, which leaves tables of any shape.

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
    records replaced; n and each column's limits, centre and spread (`schema`) are public, and so is which columns
    may have gaps (`gaps = true`), where `missing` is "keep" or "impute". Every `fit` spends ε
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
        classes: int | None = None,
        cells: str = MAIN_EFFECTS,
        cell_weight: float | None = None,
        keep: str | Sequence[str] = (),
        missing: str = REFUSE,
        schema: Any = None,
        epsilon: float | None = None,
        delta: float = DELTA,
    ) -> None:
        models = (NORMAL, GENERAL_LOCATION, CLASSES)
        if model not in (None, *models):
            raise InputError(f"the model is {', '.join(map(repr, models[:-1]))} or {CLASSES!r}, got {model!r}")
        if classes is not None and model not in (None, CLASSES):
            raise InputError(f"the model {model!r} has no classes", Cure("use classes", "model", CLASSES))
        self._classes = CLASSES_BY_DEFAULT if classes is None and model == CLASSES else classes or 0
        self._given, self._model, self._cells, self._weight = prior, model, cells, cell_weight
        self._keep, self._missing, self._schema = keep, missing, schema
        self._epsilon, self._delta = None if epsilon is None else epsilon_of(epsilon), delta
        self._fitted: _Fit | None = None
        self._gaps_in_words = ""
        if epsilon is not None:
            require_possible_guarantee(prior, model, self._classes, keep)

    def fit(self, table: Any, **how_to_read: Any) -> "Synthesizer":
        """Fit to a file, dataframe, matrix or `Records`; returns itself.

        A lazy frame (polars, DuckDB, Dask, Ibis, …) stays in its engine: only its moments come here. So do those
        of several sites (`SiteMoments`), whose records are nowhere together.
        How to read the table is said as to `Records.of`: columns, drop, schema, complete_cases, drop_unusable.
        """
        if self._schema is not None:
            how_to_read = {"schema": self._schema, **how_to_read}
        if self._epsilon is not None:
            noisy = spend(table, self._epsilon, self._delta, missing=self._missing, **how_to_read)
            mechanism = private_mechanism_of(noisy.ball.schema, self._missing)
            self._fitted = _Fit(mechanism, noisy.people, noisy=noisy)
            return self
        records = self._read(table, how_to_read)
        mechanism = self._mechanism(records)
        if mechanism.has_classes:
            self._fitted = _fit_classes(records, mechanism)
            return self
        normal = mechanism.require_prior()
        people, columns = _people(records), normal.p + len(mechanism.covariates)
        # the flat prior would leave an adversary, who has one record less, without a posterior
        if normal.is_flat and people <= columns + 1:
            raise InputError(
                f"{records.schema.counted(people)} are too few for {counted(columns, 'measurement')} "
                f"without a prior: at least {columns + 2} are needed",
                Cure("give a prior from public knowledge", "prior"),
                *records.schema.fewer_columns,
            )
        with one_thread():
            self._fitted = _fit(records, mechanism)
        return self

    def _read(self, table: Any, how_to_read: dict[str, Any]) -> Records | LazyRecords | SiteMoments:
        """Return the table through the gate; `model="normal"` takes measurements alone."""
        if isinstance(table, SiteMoments):
            return table
        how = {"categories": self._model != NORMAL, **how_to_read}
        if self._classes and not is_lazy(table):
            how = {"many_cells": True, **how}
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
        if self._classes:
            given = None if self._given is None else prior_of(self._given, records.columns, schema)
            return Mechanism(schema, given, keep=keep, missing=self._missing, classes=self._classes)
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
        """What the last draw did about missing values, or found of classes, and how surely; confidential."""
        return self._gaps_in_words

    def __repr__(self) -> str:
        """Return what it was fitted to by size and names alone: the posterior is confidential."""
        spent = "" if self._epsilon is None else f", ε = {self._epsilon:g}"
        if self._fitted is None:
            return f"Synthesizer{spent}, not fitted"
        people = counted(self._fitted.people, "record")
        return f"Synthesizer{spent}, fitted to {people} of {listed(self.mechanism.order)}"

    def sample(
        self,
        *,
        datasets: int | None = None,
        rows: int | Sequence[int] | np.ndarray | None = None,
        parameters: bool = False,
        repeat_key: Any = None,
        rng_for_tests: Any = None,
        device: str = HERE,
    ) -> Release:
        """Draw synthetic tables; `rows` is a size for all, one for each, or as many as the table has.

        Both are named, so that a number of rows cannot be mistaken for one of datasets. With columns to keep there
        is a row for each person.
        With `parameters` they come with those that each was drawn from: what such a release gives away is what its
        parameters alone would.
        The randomness is the operating system's. With a `repeat_key` from `new_repeat_key()`, as secret as the
        table, the same call draws the same release again. What is drawn with `rng_for_tests`, a NumPy generator,
        must not be given to anyone: who finds its seed by trying has the missing record.
        Classes are drawn on a graphics card with `device="cuda"`, by PyTorch.
        """
        fit, sizes = self._require_fit(), self.sizes(datasets, rows)
        if not fit.mechanism.has_classes:
            require_processor(device, "what is drawn without classes")
        if fit.noisy is not None:
            _require_noise_alone(parameters, repeat_key, rng_for_tests)
            return draw_guaranteed(fit.noisy, len(sizes), sizes, fit.mechanism.missing)
        if fit.mechanism.has_classes and parameters:
            refuse_class_parameters()
        rng = self.generator("both" if parameters else "datasets", sizes, repeat_key, rng_for_tests)
        if fit.mechanism.has_classes:
            assert fit.incomplete is not None
            where = device_of(device)
            made, self._gaps_in_words = draw_class_tables(fit.mechanism, fit.incomplete, sizes, rng, where)
            return Release(fit.mechanism, tuple(made))
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

    @staticmethod
    def new_repeat_key() -> str:
        """Return a key to draw a release with that can be repeated: 128 bits from the operating system.

        Keep it as you keep the table. It is stored nowhere, and neither a release nor its folder knows it.
        """
        return new_repeat_key()

    def sample_parameters(self, draws: int = 1, *, repeat_key: Any = None, rng_for_tests: Any = None) -> Release:
        """Draw the model's parameters alone; where the randomness comes from, `sample` says."""
        fit, draws = self._require_fit(), count_of("draws", draws, MOST_DATASETS)
        if fit.noisy is not None:
            _require_noise_alone(True, repeat_key, rng_for_tests)
        if fit.mechanism.has_classes:
            refuse_class_parameters()
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
        if repeat_key is not None and rng_for_tests is not None:
            raise InputError("a release is drawn by a repeat key or by a generator, not by both")
        if rng_for_tests is not None:
            if isinstance(rng_for_tests, np.random.Generator):
                return rng_for_tests
            raise InputError(
                f"rng_for_tests must be a numpy.random.Generator, got {describe_value(rng_for_tests)}",
                Cure("to repeat a release that is given to others, use a repeat key", "repeat_key"),
            )
        if repeat_key is None:
            return fresh_generator()
        fit = self._require_fit()
        if isinstance(fit.posterior, NIW):
            return keyed_generator(repeat_key, kind, sizes, fit.mechanism.order, self.prior, fit.posterior)
        kept = [each.tolist() for each in (fit.kept, fit.covariates) if each is not None]
        stands_for_table = fit.mechanism.entries(), _table_entries(fit), kept
        return keyed_generator(repeat_key, kind, sizes, fit.mechanism.order, *stands_for_table)

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
            classes=mechanism.classes or None,
        )
        loaded._fitted = fit
        return loaded

    def _require_fit(self) -> _Fit:
        if self._fitted is None:
            raise InputError("the synthesizer is not fitted", "call fit(table) first")
        return self._fitted


def _people(records: Records | LazyRecords | SiteMoments) -> int:
    return len(records.values) if isinstance(records, Records) else len(records)


def _fit(records: Records | LazyRecords | SiteMoments, mechanism: Mechanism) -> _Fit:
    """Fit to moments, all that the normal model needs; to those of each cell; or to the records themselves."""
    if mechanism.is_normal:
        prior = mechanism.require_prior()
        known = records.values if isinstance(records, Records) else records
        moments = Moments.of(known.total if isinstance(known, SiteMoments) else known)
        if message := prior_conflict(prior, moments, records.columns):
            warnings.warn(message, Caution, stacklevel=3)
        return _Fit(mechanism, int(moments.count), prior.update(moments))
    model = mechanism.prior
    if not isinstance(records, Records):
        require_nothing_kept(mechanism)
        return _Fit(mechanism, len(records), model.update(model.moments(records.sums)))  # type: ignore[union-attr]
    table = mechanism.incomplete(records)
    return _Fit(
        mechanism,
        len(table),
        None if records.has_gaps else model.update(table.complete(model.cells)),
        table if records.has_gaps else None,
        mechanism.kept_levels(records),
        table.covariates if mechanism.keep else None,
    )


def _fit_classes(records: Records | LazyRecords | SiteMoments, mechanism: Mechanism) -> _Fit:
    """Fit classes, for which the table itself is what is needed to draw."""
    if not isinstance(records, Records):
        raise InputError(
            "classes take the records themselves, and these stay where they are", "read the table as a file"
        )
    table = mechanism.seen_by_classes(mechanism.incomplete(records))
    require_enough_records(table)
    require_values(table, mechanism.modelled, mechanism.classes)
    return _Fit(mechanism, len(table), incomplete=table, kept=mechanism.kept_levels(records))


def require_possible_guarantee(prior: Any, model: str | None, classes: int, keep: str | Sequence[str]) -> None:
    """Refuse what has no guarantee, each with its reason."""
    faults, cures = list[str](), list[str | Cure]()
    if prior is not None or model == GENERAL_LOCATION:
        faults.append("measurements are drawn by the table file's centres, spreads and limits alone")
        cures.append("leave out prior and model")
    if classes or model == CLASSES:
        faults.append(
            "classes are found by looking at all records again and again, and what comes of it tells of one "
            "person by no known bound: noise is added to moments and counts alone"
        )
        cures.append(Cure("leave out the classes", "model"))
    if keep:
        faults.append(
            "columns that are kept go out as they are, person by person, so that no ε holds for a whole record"
        )
        cures.append(Cure("let them be drawn, too", "keep", []))
    if faults:
        raise InputError(f"with a guarantee {'; '.join(faults)}", *cures)


def refuse_class_parameters() -> None:
    """Say why parameters of classes are not released."""
    raise InputError(
        "with classes datasets alone are released: the shares, means and spreads of classes of few people would "
        "tell more of these than any dataset does, and no law for what they tell is known",
        Cure("release datasets", "parameters", False),
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
        measured = fit.posterior.measured
        numbers = {each: np.asarray(getattr(measured, each)).tolist() for each in measured.__dataclass_fields__}
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
        values = np.array(table["values"], dtype=np.float64).reshape(people, len(mechanism.modelled))
        codes = np.array(table["codes"], dtype=np.int64).reshape(people, -1)
        incomplete = IncompleteRecords.of(codes, values, covariates)
        incomplete = mechanism.seen_by_classes(incomplete) if mechanism.has_classes else incomplete
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
