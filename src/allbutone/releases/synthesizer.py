"""The thin facade users of this field expect: fit, sample, save, load."""

import json
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.model.prior_file import PriorScaleWarning, prior_entries, prior_from, read_prior, scale_warning
from allbutone.releases.entropy import fresh_generator, keyed_generator
from allbutone.releases.folder import read_json
from allbutone.releases.parts import draw_both
from allbutone.releases.release import MOST_DATASETS, DatasetRelease, ParameterRelease, Release
from allbutone.support.checks import count_of
from allbutone.support.errors import Cure, InputError, describe_value
from allbutone.support.parallel import one_thread
from allbutone.tables.records import Records
from allbutone.tables.safe_write import fresh_file

_NOTICE = (
    "CONFIDENTIAL: this file holds the fitted posterior, which is computed from the confidential records. "
    "Keep it with the data; release only what sample() draws."
)


class NIWSynthesizer:
    """Fits the normal-inverse-Wishart model to a table and draws releases from it.

    `prior` is a `NIW`, the path of a prior file, or None for `NIW.default(p)`. It must not be computed from the
    confidential data: that would void every risk figure.
    """

    def __init__(self, prior: NIW | str | Path | None = None) -> None:
        self._given = prior
        self._fitted: tuple[tuple[str, ...], NIW, NIW, int] | None = None

    def fit(
        self, table: Any, *, columns: str | Sequence[str] | None = None, drop: str | Sequence[str] | None = None
    ) -> "NIWSynthesizer":
        """Fit to a file, dataframe, matrix or `Records`; returns itself."""
        records = Records.of(table, columns=columns, drop=drop)
        with one_thread():
            moments = Moments.of(records.values)
        if self._given is None:
            prior = NIW.default(len(records.columns))
            if message := scale_warning(moments, records.columns):
                warnings.warn(message, PriorScaleWarning, stacklevel=2)
        elif isinstance(self._given, NIW):
            prior = self._given
        else:
            prior = read_prior(self._given, records.columns)
        with one_thread():
            posterior = prior.update(moments)
        self._fitted = (records.columns, prior, posterior, len(records.values))
        return self

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the fitted columns."""
        return self._require_fit()[0]

    @property
    def prior(self) -> NIW:
        """The prior in use; public."""
        return self._require_fit()[1]

    @property
    def posterior(self) -> NIW:
        """The posterior given the table; confidential."""
        return self._require_fit()[2]

    def sample(
        self,
        datasets: int | None = None,
        rows: int | Sequence[int] | np.ndarray | None = None,
        *,
        parameters: bool = False,
        repeat_key: Any = None,
        rng_for_tests: Any = None,
    ) -> Release:
        """Draw synthetic datasets; `rows` is a size for all, one for each, or as many as the table has.

        With `parameters` they come with the mean and covariance that each was drawn from: what such a release
        gives away is what its parameters alone would.
        The randomness is the operating system's. With a `repeat_key` from `new_repeat_key()`, as secret as the
        table, the same call draws the same release again. What is drawn with `rng_for_tests`, a NumPy generator,
        must not be given to anyone: who finds its seed by trying has the missing record.
        """
        sizes = self.sizes(datasets, rows)
        rng = self.generator("both" if parameters else "datasets", sizes, repeat_key, rng_for_tests)
        draw: Callable[..., Release] = draw_both if parameters else DatasetRelease.draw
        return draw(self.posterior, sizes, rng, columns=self.columns, prior=self.prior)

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
        return ParameterRelease.draw(self.posterior, draws, rng, columns=self.columns, prior=self.prior)

    def generator(
        self,
        kind: str,
        sizes: Sequence[int],
        repeat_key: Any = None,
        rng_for_tests: Any = None,
    ) -> np.random.Generator:
        """Return what draws a release of this kind and these sizes: fresh, or for this release by a repeat key."""
        if repeat_key is not None and rng_for_tests is not None:
            raise InputError("a release is drawn by a repeat key or by a generator, not by both")
        if repeat_key is not None:
            return keyed_generator(repeat_key, kind, sizes, self.columns, self.prior, self.posterior)
        if rng_for_tests is None:
            return fresh_generator()
        if not isinstance(rng_for_tests, np.random.Generator):
            raise InputError(
                f"rng_for_tests must be a numpy.random.Generator, got {describe_value(rng_for_tests)}",
                Cure("to repeat a release that is given to others, use a repeat key", "repeat_key"),
            )
        return rng_for_tests

    def sizes(self, datasets: int | None, rows: Any) -> list[int]:
        """Return the number of rows of each dataset to draw."""
        if rows is not None and np.ndim(rows) > 0:
            if datasets is not None and len(rows) != datasets:
                raise InputError(
                    f"rows names {len(rows)} sizes for {datasets} datasets", "give one for all or one for each"
                )
            return [count_of("rows", count) for count in rows]
        count = self._require_fit()[3] if rows is None else count_of("rows", rows)
        return [count] * count_of("datasets", 1 if datasets is None else datasets, MOST_DATASETS)

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the fitted synthesizer to a JSON file that only its owner can read. It is confidential."""
        columns, prior, posterior, count = self._require_fit()
        content = {
            "notice": _NOTICE,
            "columns": columns,
            "records": count,
            "prior": prior_entries(prior),
            "posterior": prior_entries(posterior),
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
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"this is not a saved synthesizer: {error!r}", where=str(path)) from error
        loaded = cls(prior)
        loaded._fitted = (columns, prior, posterior, count)
        return loaded

    def _require_fit(self) -> tuple[tuple[str, ...], NIW, NIW, int]:
        if self._fitted is None:
            raise InputError("the synthesizer is not fitted", "call fit(table) first")
        return self._fitted
