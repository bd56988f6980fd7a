"""Fit and sample for mixed tables: categories, columns to keep, and gaps."""

import json
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
from allbutone.model.location import MAIN_EFFECTS, LocationModel, default_weight
from allbutone.model.prior import AnyPrior, declared_prior, prior_of
from allbutone.releases.mechanism import (
    KEEP_GAPS,
    LEAST_WEIGHT,
    REFUSE,
    Mechanism,
    require_measurements,
    require_nothing_kept,
    table_entries,
    table_from,
)
from allbutone.releases.mixed_release import Release, draw_mixed, joined_parameters
from allbutone.releases.release import MOST_DATASETS, dataset_sizes, generator_for
from allbutone.support.errors import Cure, InputError, count_of
from allbutone.support.parallel import one_thread
from allbutone.support.text import counted, listed
from allbutone.tables.engines.lazy_records import LazyRecords, is_lazy
from allbutone.tables.names import split_names
from allbutone.tables.records import Records
from allbutone.tables.safe_io import fresh_file

MOST_CHAINS = 16  # more draws come from the same chains, far enough apart
NOTICE = (
    "CONFIDENTIAL: this file holds the fitted posterior, which is computed from the confidential records, and the "
    "columns that are kept. Keep it with the data; release only what sample() draws."
)


@dataclass(frozen=True, eq=False)
class _Fit:
    """What fitting leaves; the mechanism is public, the rest is confidential."""

    mechanism: Mechanism
    posterior: LocationModel | None  # none where values are missing
    incomplete: IncompleteRecords | None
    people: int
    kept: Int[np.ndarray, "n q"] | None
    covariates: Float[np.ndarray, "n s"] | None


class Synthesizer:
    """Fits the general location model to a table with categories, and draws releases from it.

    `prior`: of the measurements, as for `NIWSynthesizer`; flat by default. `cells`: "main effects" (one spread,
    each level moves the means) or "separate" (a normal in each cell). `cell_weight`: what the prior is worth in
    each cell, in records; by default all cells together are worth one. `keep`: columns that are public and go
    out as they are, the others drawn given each person's own. `missing`: "refuse" gaps, or "impute" them: the
    missing values are drawn given the observed ones, anew for each dataset, and synthetic tables are complete, or
    "keep" them: the synthetic tables have gaps of their own, in patterns as frequent as the table's.
    Nothing of it may be computed from the confidential data.

    >>> import allbutone as abo, pandas as pd, numpy as np
    >>> rng = np.random.default_rng(1)
    >>> table = pd.DataFrame({"sex": rng.choice(["f", "m"], 200), "ldl": rng.normal(3.4, 0.9, 200)})
    >>> abo.Synthesizer().fit(table).sample(datasets=3)
    Release: 3 datasets of 200 rows, columns sex, ldl
    """

    def __init__(
        self,
        prior: AnyPrior | None = None,
        *,
        cells: str = MAIN_EFFECTS,
        cell_weight: float | None = None,
        keep: str | Sequence[str] = (),
        missing: str = REFUSE,
    ) -> None:
        self._given, self._cells, self._weight = prior, cells, cell_weight
        self._keep, self._missing = keep, missing
        self._fitted: _Fit | None = None
        self._gaps_in_words = ""

    def fit(self, table: Any, **how_to_read: Any) -> "Synthesizer":
        """Fit to a file, dataframe or `Records`; how to read the table is said as to `Records.of`."""
        if is_lazy(table):
            return self._fit_cells(LazyRecords.of(table, **{"categories": True, **how_to_read}))
        gaps = self._missing != REFUSE
        records = Records.of(table, **{"categories": True, "gaps": gaps, **how_to_read})
        records.warn(table)
        people = len(records.values)
        mechanism = self._mechanism(records, people)
        model = mechanism.prior
        if mechanism.normal.is_flat:
            _require_enough(people, model.p + model.covariates)
        table = mechanism.incomplete(records)
        with one_thread():
            posterior = None if records.has_gaps else model.update(table.complete(model.cells))
        covariates = table.covariates if mechanism.keep else None
        self._fitted = _Fit(
            mechanism,
            posterior,
            table if records.has_gaps else None,
            people,
            mechanism.kept_levels(records),
            covariates,
        )
        return self

    def _fit_cells(self, records: LazyRecords) -> "Synthesizer":
        """Fit to counts and sums by cell, all that comes from a table that stays in its engine."""
        mechanism = self._mechanism(records, len(records))
        require_nothing_kept(mechanism)
        model = mechanism.prior
        if mechanism.normal.is_flat:
            _require_enough(len(records), model.p)
        with one_thread():
            posterior = model.update(model.moments(records.sums))
        self._fitted = _Fit(mechanism, posterior, None, len(records), None, None)
        return self

    def _mechanism(self, records: Records | LazyRecords, people: int) -> Mechanism:
        keep = tuple(split_names(self._keep, set(records.order))) if self._keep else ()
        drawn = [name for name in records.columns if name not in keep]
        require_measurements(drawn)
        schema = records.schema.for_columns(drawn)
        normal = declared_prior(schema) if self._given is None else prior_of(self._given, drawn, schema)
        weight = self._weight
        if weight is None:
            sizes = (len(column.levels) for column in records.schema.categories)
            weight = max(LEAST_WEIGHT, default_weight(prod(sizes)))
        return Mechanism(records.schema, normal, weight, self._cells, keep, self._missing)

    @property
    def mechanism(self) -> Mechanism:
        """The public part of what draws."""
        return self._require_fit().mechanism

    @property
    def posterior(self) -> LocationModel:
        """The model given the table; confidential."""
        posterior = self._require_fit().posterior
        if posterior is None:
            raise InputError("values are missing, so there is no closed form", "draw with sample")
        return posterior

    @property
    def gaps_in_words(self) -> str:
        """What was done about missing values by the last draw, and how surely; confidential."""
        return self._gaps_in_words

    def __repr__(self) -> str:
        """Return what it was fitted to by size and names alone."""
        if self._fitted is None:
            return "Synthesizer, not fitted"
        order = self._fitted.mechanism.order
        return f"Synthesizer, fitted to {counted(self._fitted.people, 'record')} of {listed(order)}"

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
        """Draw synthetic tables; with `parameters`, also those that each was drawn from.

        `rows` is a size for all, one for each, or as many as the table has; with columns to keep there is a row
        for each person. Where the randomness comes from, `NIWSynthesizer.sample` says.
        """
        fit, sizes = self._require_fit(), self.sizes(datasets, rows)
        rng = self._generator("both" if parameters else "datasets", sizes, repeat_key, rng_for_tests)
        posteriors = self._posteriors(len(sizes), rng)
        drawn, behind = draw_mixed(posteriors, sizes, rng, kept=fit.kept, covariates=fit.covariates)
        # rows in an order of their own: kept columns need not tell in which order the table has them
        mixed = [each.take(rng.permutation(len(each))) if fit.kept is not None else each for each in drawn]
        tables = tuple(fit.mechanism.released(each, self._gaps_of(len(each), rng)) for each in mixed)
        if parameters:
            return Release(fit.mechanism, (), behind, tables)
        return Release(fit.mechanism, tables)

    def sample_parameters(self, draws: int = 1, *, repeat_key: Any = None, rng_for_tests: Any = None) -> Release:
        """Draw parameters alone: shares of the cells, coefficients and covariances."""
        fit, draws = self._require_fit(), count_of("draws", draws, MOST_DATASETS)
        rng = self._generator("parameters", [draws], repeat_key, rng_for_tests)
        posteriors = self._posteriors(draws, rng)
        if len(posteriors) == 1:
            return Release(fit.mechanism, (), posteriors[0].draw(rng, draws))
        return Release(fit.mechanism, (), joined_parameters([each.draw(rng, 1) for each in posteriors]))

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
        found = augment(
            fit.incomplete,
            fit.mechanism.prior,
            rng,
            chains=chains,
            draws=-(-count // chains),
            columns=fit.mechanism.measurements,
            categories=fit.mechanism.categories,
        )
        self._gaps_in_words = found.words
        return found.posteriors[:count]

    def sizes(self, datasets: int | None, rows: Any) -> list[int]:
        """Return the number of rows of each dataset to draw."""
        fit = self._require_fit()
        if rows is not None and fit.kept is not None:
            raise InputError("with columns to keep there is a row for each person", Cure("leave rows out", "rows"))
        return dataset_sizes(datasets, rows, fit.people)

    def _generator(
        self, kind: str, sizes: Sequence[int], repeat_key: Any, rng_for_tests: Any
    ) -> np.random.Generator:
        fit, models = self._require_fit(), list[Any]()
        if repeat_key is not None:
            both = fit.kept is not None and fit.covariates is not None
            kept = [fit.kept.tolist(), fit.covariates.tolist()] if both else []  # type: ignore[union-attr]
            models = [fit.mechanism.entries(), table_entries(fit.posterior, fit.incomplete), kept]
        return generator_for(kind, sizes, fit.mechanism.order, models, repeat_key, rng_for_tests)

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the fitted synthesizer to a JSON file that only its owner can read. It is confidential."""
        fit = self._require_fit()
        content = {
            "notice": NOTICE,
            "records": fit.people,
            "mechanism": fit.mechanism.entries(),
            **table_entries(fit.posterior, fit.incomplete),
            "kept": None if fit.kept is None else fit.kept.tolist(),
            "covariates": None if fit.covariates is None else fit.covariates.tolist(),
        }
        with fresh_file(Path(path), force=force, private=True) as work:
            work.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> "Synthesizer":
        """Read a synthesizer that `save` wrote."""
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
            mechanism = Mechanism.of_entries(content["mechanism"], str(path))
            people = count_of("records", content["records"])
            kept, covariates = (
                None if content[name] is None else np.array(content[name], dtype=kind).reshape(people, -1)
                for name, kind in (("kept", np.int64), ("covariates", np.float64))
            )
            posterior, incomplete = table_from(content, mechanism.prior, covariates)
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise InputError(f"this is not a saved synthesizer: {error!r:.200}", where=str(path)) from error
        loaded = cls(
            mechanism.normal,
            cells=mechanism.cells,
            cell_weight=mechanism.cell_weight,
            keep=mechanism.keep,
            missing=mechanism.missing,
        )
        loaded._fitted = _Fit(mechanism, posterior, incomplete, people, kept, covariates)
        return loaded

    def _require_fit(self) -> _Fit:
        if self._fitted is None:
            raise InputError("the synthesizer is not fitted", "call fit(table) first")
        return self._fitted


def _require_enough(people: int, columns: int) -> None:
    """Ask for a prior where the flat one leaves an adversary, who has one record less, without a posterior."""
    if people <= columns + 1:
        raise InputError(
            f"{people} rows are too few for {counted(columns, 'measurement')} without a prior: at least "
            f"{columns + 2} are needed",
            Cure("give a prior from public knowledge", "prior"),
            Cure("use fewer columns", "columns"),
        )
