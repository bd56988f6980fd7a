"""The privacy loss of a record of any table: of its cell, of its measurements there, averaged over others' gaps.

Without the record, the shares π of the cells and the parameters θ of the measurements are independent given the
others, and of a record x in cell c

    E[(π_c·f(x; θ_c))^s] = exp(K(s) + s·log p(c, x | others)),    K = K of the share + K of the draw of θ_c

where θ_c at the record's own covariates z is the normal model with 1/κ = zᵀVz, so that the second is `DrawLoss`.
Where others have gaps, this is averaged over draws of these. Measurements alone are one cell, whose share tells
nothing, and a table without gaps is one draw. What a dataset tells of the cells are their counts; of measurements
it tells no more than the parameters that it was drawn from, which bounds its ε.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from jaxtyping import Bool, Complex, Float, Int
from scipy.special import digamma, gammaln, ndtr, ndtri, polygamma

from allbutone.adversary.gaps import FilledTable
from allbutone.adversary.mixed import MixedLeaveOneOut, downdated
from allbutone.disclosure.draw_loss import DrawLoss, curved_log_gamma
from allbutone.disclosure.epsilon import (
    ALARMS,
    LEAST_APART,
    MOST_AUGMENTED,
    BestTest,
    PrivacyLoss,
    looked_up,
    releases_of,
)
from allbutone.disclosure.exposure_law import ExposureLaw, leverages
from allbutone.disclosure.loss_profile import Loss, epsilon, separation, separation_by_area
from allbutone.disclosure.table_risk import blocks_and_others
from allbutone.model.location import LocationModel, MixedRecords
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.model.prior import AnyPrior, declared_prior, prior_of
from allbutone.releases.gaussian_account import DELTA, delta_of
from allbutone.releases.mechanism import CLASSES, REFUSE, Mechanism
from allbutone.releases.synthesizer import Synthesizer
from allbutone.support.arrays import log_sum_exp
from allbutone.support.errors import Cure, InputError
from allbutone.support.parallel import one_thread
from allbutone.tables.engines.lazy_records import LazyRecords, is_lazy
from allbutone.tables.records import Records

CHAINS, DRAWS = 4, 1  # of what others lack


def privacy(
    table: Any,
    prior: AnyPrior | None = None,
    *,
    draws: int | None = None,
    datasets: int | None = None,
    rows: int | None = None,
    delta: float = DELTA,
    rng: np.random.Generator | int | None = None,
    cells: str = "main effects",
    cell_weight: float | None = None,
    keep: str | Sequence[str] = (),
    missing: str = REFUSE,
    model: str | None = None,
    classes: int | None = None,
    **how_to_read: Any,
) -> Any:
    """Return a dataframe, in the table's own library, with the exact ε of each record: confidential, no guarantee.

    Of `draws` parameter draws, or of `datasets` of `rows` rows each (as many as the table has unless said).
    `epsilon` is the smallest ε for which no event becomes more than e^ε times, plus `delta`, as likely or
    unlikely by the record's presence, given all other records. `exact` is false where a dataset's own ε could
    not be had: there it is that of its parameters, which is never smaller. `gain_of_one` and `gain_of_one_sd`
    are the mean and standard deviation of the information gained at the truth from one draw or one dataset, in
    nats. `membership_hits_1_percent` and `membership_hits_5_percent`: how often the best test says of somebody in
    the table that they are, at so many false alarms; `membership_area`: under the curve of such hits, ½ where
    nothing is told. prior, cells, cell_weight, keep and missing are those of `Synthesizer`; how the table is read
    is said as to `Records.of`.

    Of datasets with categories it is the ε of the counts of all combinations and of the parameters of the
    measurements, so `exact` is false. With gaps the loss is averaged over draws (`rng`) of what others lack, which
    leaves `epsilon_error`; a record that lacks a category has none. Which values are missing is no part of it.

    >>> import allbutone as abo
    >>> found = abo.privacy(abo.demo_cohort(), draws=1)
    >>> found.column_names[:6]
    ['row', 'leverage', 'epsilon', 'exact', 'gain_of_one', 'gain_of_one_sd']
    >>> found.column_names[6:]
    ['membership_hits_1_percent', 'membership_hits_5_percent', 'membership_area']
    """
    if model == CLASSES or classes is not None:
        raise InputError(
            "the loss of classes that nobody has observed has no closed form",
            Cure("ask for that of the normal model", "model", None),
        )
    if is_lazy(table):
        if keep or missing != REFUSE:
            problem = "where a table stays in its engine, ε is told of measurements, none kept or missing"
            raise InputError(problem, "collect the table first")
        lazy = LazyRecords.of(table, **how_to_read)
        columns = _by_leverage(lazy, len(lazy), prior, releases_of(draws, datasets, rows, len(lazy)), delta)
        return nw.from_dict(columns, backend=lazy.library).to_native()  # type: ignore[arg-type]
    records = Records.of(table, **{"categories": True, "gaps": missing != REFUSE, **how_to_read})
    people = len(records.values)
    released = releases_of(draws, datasets, rows, people)
    if records.schema.categories or keep or records.has_gaps:
        how = {"cells": cells, "cell_weight": cell_weight, "keep": keep, "missing": missing}
        mechanism = Synthesizer(prior, **how).fit(records).mechanism  # type: ignore[arg-type]
        losses = RecordLosses.of(records, mechanism, np.random.default_rng(rng))
        columns = records.named | losses.columns(*released, delta_of(delta, people), ALARMS)
    else:
        columns = _by_leverage(records, people, prior, released, delta)
    return nw.from_dict(columns, backend=records.backend).to_native()  # type: ignore[arg-type]


def _by_leverage(
    records: Records | LazyRecords,
    people: int,
    prior: AnyPrior | None,
    released: tuple[int, int | None],
    delta: float,
) -> dict[str, np.ndarray]:
    """Return the columns of `privacy` for measurements alone, of which leverage is all that matters."""
    given = declared_prior(records.schema) if prior is None else prior_of(prior, records.columns, records.schema)
    if given.is_flat and people < given.p + 2:
        raise InputError(
            f"without one of them, {people} records leave the flat prior no distribution of {given.p} columns",
            Cure("give a prior from public knowledge", "prior"),
            Cure("use fewer columns", "drop"),
        )
    if isinstance(records, Records):
        named, leverage = records.named, leverages(records.values, given)
    else:
        named, leverage = {"row": np.arange(1, people + 1)}, _leverages(records, given)
    count, rows = released
    loss = PrivacyLoss(ExposureLaw.of(given, people, rows), count, delta_of(delta, people))
    return named | {"leverage": leverage} | loss.columns(leverage) | loss.best_test(leverage, ALARMS).columns


def _leverages(records: LazyRecords, prior: NIW) -> Float[np.ndarray, " n"]:
    """Return the leverages of records that stay in their engine, block by block."""
    mechanism = Mechanism.of_measurements(records.schema.for_columns(records.columns), prior)
    every = []
    for block, _, others in blocks_and_others(records, mechanism):
        elsewhere = Moments(float(others.count[0]), others.mean[0], others.scatter[0]) if others.count[0] else None
        every.append(leverages(block.values, prior, elsewhere))
    return np.concatenate(every)


@dataclass(frozen=True)
class ShareLoss(Loss):
    """The loss of a draw of the cells' shares, for records of cells of weight α: π ~ Beta(α, total − α).

    K(s) = log E[π^s] − s·log E[π].
    """

    weight: Float[np.ndarray, " batch"]
    total: Float[np.ndarray, " batch"]
    reverse: bool = False

    @property
    def lean(self) -> float:
        """As that of draws of the other parameters."""
        return np.pi / 6 if self.reverse else 0.0

    @property
    def end(self) -> Float[np.ndarray, " batch"]:
        """In reverse E[π^(1 − s)] is finite for s < 1 + α; an only cell tells nothing."""
        return np.where(self.reverse & ~self._is_only, 1 + self.weight, np.inf)

    def at(self, s: Complex[np.ndarray, "batch points"]) -> Complex[np.ndarray, "batch points"]:
        """Return K(s) at complex s."""
        a = np.where(self._is_only[:, None], 0.0, 1 - s if self.reverse else s)
        return curved_log_gamma(self.weight[:, None], a) - curved_log_gamma(self.total[:, None], a)

    def slopes(self, s: Float[np.ndarray, " batch"]) -> tuple[Any, Any, Any]:
        """Return K, K′ and K″ at real s."""
        sign, a = (-1, 1 - s) if self.reverse else (1, s)
        a = np.where(self._is_only, 0.0, a)
        value = curved_log_gamma(self.weight, a) - curved_log_gamma(self.total, a)
        first = digamma(self.weight + a) - digamma(self.total + a) + np.log(self.total / self.weight)
        second = polygamma(1, self.weight + a) - polygamma(1, self.total + a)
        return value, sign * first, second

    @property
    def _is_only(self) -> Bool[np.ndarray, " batch"]:
        """Whether a record can be in no other cell, so that its share tells nothing."""
        return self.weight >= self.total


@dataclass(frozen=True)
class CountLoss(Loss):
    """The loss of how many, m, of `rows` records are in a cell of weight α of a total W: beta-binomial.

    L = log ((α + m)/(W + rows)) − log (α/W); more rows than it has are no outcome.
    """

    weight: Float[np.ndarray, " batch"]
    total: Float[np.ndarray, " batch"]
    rows: Int[np.ndarray, " batch"]
    reverse: bool = False

    @property
    def end(self) -> Float[np.ndarray, " batch"]:
        """There are finitely many outcomes."""
        return np.full(self.weight.shape, np.inf)

    @property
    def _outcomes(self) -> tuple[np.ndarray, np.ndarray]:
        """The loss and the log probability of each count."""
        m = np.arange(np.max(self.rows) + 1)
        one, whole, n = self.weight[:, None], self.total[:, None], self.rows[:, None]
        only = one >= whole
        rest, left = np.where(only, 1.0, whole - one), np.maximum(n - m, 0)
        log = gammaln(n + 1) - gammaln(m + 1) - gammaln(left + 1)
        log = log + gammaln(one + m) - gammaln(one) + gammaln(rest + left) - gammaln(rest)
        log = log - gammaln(one + rest + n) + gammaln(one + rest)
        loss = np.log((one + m) / (whole + n)) - np.log(one / whole)
        return np.where(only, 0.0, loss), np.where(
            m > n, -np.inf, np.where(only, np.where(m == n, 0.0, -np.inf), log)
        )

    def at(self, s: Complex[np.ndarray, "batch points"]) -> Complex[np.ndarray, "batch points"]:
        """Return K(s) at complex s."""
        a = 1 - s if self.reverse else s
        loss, log = self._outcomes
        return np.stack([_log_mean(a[:, place, None] * loss + log) for place in range(s.shape[1])], axis=1)

    def slopes(self, s: Float[np.ndarray, " batch"]) -> tuple[Any, Any, Any]:
        """Return K, K′ and K″ at real s."""
        sign, a = (-1, 1 - s) if self.reverse else (1, s)
        loss, log = self._outcomes
        return _slopes(a[:, None] * loss + log, sign * loss, 0.0)


@dataclass(frozen=True)
class SumLoss(Loss):
    """The loss of what tells independent things: losses add up."""

    parts: tuple[Loss, ...]

    @property
    def lean(self) -> float:
        """As far as all of them allow."""
        return min(part.lean for part in self.parts)

    @property
    def end(self) -> Float[np.ndarray, " batch"]:
        """The first of their ends."""
        return np.min([part.end for part in self.parts], axis=0)

    def at(self, s: Complex[np.ndarray, "batch points"]) -> Complex[np.ndarray, "batch points"]:
        """Return K(s) at complex s."""
        return np.sum([part.at(s) for part in self.parts], axis=0)

    def slopes(self, s: Float[np.ndarray, " batch"]) -> tuple[Any, Any, Any]:
        """Return K, K′ and K″ at real s."""
        value, first, second = (
            np.sum(each, axis=0) for each in zip(*(part.slopes(s) for part in self.parts), strict=True)
        )
        return value, first, second


@dataclass(frozen=True)
class AveragedLoss(Loss):
    """The loss where what others lack was drawn many times, each draw g with log p_g(x | others) and a loss.

    exp K(s) = Σ w_g·exp(K_g(s) + s·log p_g)/(Σ w_g·p_g)^s. Draws were made with the record there, so w_g ∝ 1/p_g.
    """

    parts: tuple[Loss, ...]
    log_density: Float[np.ndarray, "draws batch"]
    reverse: bool = False

    @property
    def lean(self) -> float:
        """As far as all of them allow."""
        return min(part.lean for part in self.parts)

    @property
    def end(self) -> Float[np.ndarray, " batch"]:
        """The first of their ends."""
        return np.min([part.end for part in self.parts], axis=0)

    @property
    def _weights(self) -> tuple[np.ndarray, np.ndarray]:
        """Log weights of the draws, and how each one's log density differs from that of all."""
        weights = -self.log_density - log_sum_exp(-self.log_density, axis=0)
        return weights, self.log_density - log_sum_exp(weights + self.log_density, axis=0)

    def at(self, s: Complex[np.ndarray, "batch points"]) -> Complex[np.ndarray, "batch points"]:
        """Return K(s) at complex s."""
        a, (weights, off) = 1 - s if self.reverse else s, self._weights
        parts = np.stack([part.at(s) for part in self.parts])
        return _log_mean(np.moveaxis(weights[..., None] + parts + a * off[..., None], 0, -1))

    def slopes(self, s: Float[np.ndarray, " batch"]) -> tuple[Any, Any, Any]:
        """Return K, K′ and K″ at real s."""
        sign, a, (weights, off) = (-1, 1 - s, self._weights) if self.reverse else (1, s, self._weights)
        value, first, second = (
            np.stack(each) for each in zip(*(part.slopes(s) for part in self.parts), strict=True)
        )
        return _slopes((weights + value + a * off).T, (first + sign * off).T, second.T)


def _log_mean(logs: Complex[np.ndarray, "*batch m"]) -> Complex[np.ndarray, "*batch"]:
    """Return the log of a sum of complex numbers of which the logs are given."""
    top = np.max(logs.real, axis=-1, keepdims=True)
    return np.log(np.sum(np.exp(logs - top), axis=-1)) + top[..., 0]


def _slopes(logs: np.ndarray, first: np.ndarray, second: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return log Σ exp of logs, and its first and second derivative, given theirs."""
    value = log_sum_exp(logs, axis=-1)
    share = np.exp(logs - value[..., None])
    mean = np.sum(share * first, axis=-1)
    return value, mean, np.sum(share * (second + (first - mean[..., None]) ** 2), axis=-1)


@dataclass(frozen=True, eq=False)
class RecordLosses:
    """All that the losses of n records follow from, for each draw of what others lack.

    measured: how many measurements a record has. mean_weight, df, augmented: κ, ν and ℓ of these. weight, total:
    of its cell, and of all that it can be in. log_density: of the record. kept_rows: of a dataset in these cells,
    where kept columns decide it. has_cell: whether all its levels are known, without which nothing is closed.
    """

    measured: Int[np.ndarray, " n"]
    mean_weight: Float[np.ndarray, "g n"]
    df: Float[np.ndarray, "g n"]
    augmented: Float[np.ndarray, "g n"]
    weight: Float[np.ndarray, "g n"]
    total: Float[np.ndarray, "g n"]
    log_density: Float[np.ndarray, "g n"]
    has_cell: Bool[np.ndarray, " n"]
    kept_rows: Int[np.ndarray, " n"] | None = None

    @classmethod
    def of(cls, records: Records, mechanism: Mechanism, rng: np.random.Generator) -> "RecordLosses":
        """Take each record out of its table in turn."""
        kept, prior = mechanism.kept_levels(records), mechanism.prior
        if not records.has_gaps:
            split = mechanism.split(records)
            everyone = MixedLeaveOneOut.of(split, prior)
            others = [everyone.before(np.arange(len(split)), split.cells)]
            filled: Sequence[MixedRecords] = [split]
            models: Sequence[LocationModel] = [everyone.whole]
            codes = prior.cells.codes[split.cells]
            observed = np.ones(split.values.shape, dtype=bool)
        else:
            table = mechanism.incomplete(records)
            drawn = FilledTable.of(table, prior, rng, chains=CHAINS, draws=DRAWS)
            filled, models, codes, observed = drawn.tables, drawn.models, table.codes, np.isfinite(table.values)
            others = [downdated(model, each, each.cells) for model, each in zip(models, filled, strict=True)]
        allowed = prior.cells.agree_with(np.full_like(codes, -1) if kept is None else kept)
        parts = []
        for model, table_of, without in zip(models, filled, others, strict=True):
            weight, total = model.weights[table_of.cells] - 1, allowed @ model.weights - 1
            parts.append((*_distances(without, table_of.values, observed), weight, total))
        weight, df, augmented, density, share, total = (np.stack(each) for each in zip(*parts, strict=True))
        rows = None
        if kept is not None:
            rows = np.sum(allowed[:, filled[0].cells], axis=1)
        return cls(
            np.sum(observed, axis=1), weight, df, augmented, share, total, density + np.log(share / total),
            np.all(codes >= 0, axis=1), rows,
        )  # fmt: skip

    @property
    def leverage(self) -> Float[np.ndarray, " n"]:
        """q = κ/(κ + 1)·(ℓ − 1/κ), on average."""
        return np.mean((self.mean_weight * self.augmented - 1) / (self.mean_weight + 1), axis=0)

    def loss(
        self, rows: int | None, which: Any, reverse: bool = False, augmented: Any = None, draws: Any = slice(None)
    ) -> Loss:
        """Return the loss of some records, all with as many measurements; `augmented`: of others like the first.

        By a dataset of so many rows, or by a draw of the parameters (None).
        """
        every = [
            getattr(self, name)[draws][:, which]
            for name in ("mean_weight", "df", "augmented", "weight", "total", "log_density")
        ]
        if augmented is not None:
            every = [np.repeat(each, len(augmented), axis=1) for each in every]
            every[2] = augmented[None]
        count = None
        if rows is not None and len(self.weight) == 1:  # with gaps counts and parameters are not independent
            count = np.full(every[0].shape[1], rows) if self.kept_rows is None else self.kept_rows[which]
            count = np.broadcast_to(count, every[0].shape[1:])
        p = int(np.max(self.measured[which]))
        parts = []
        for weight, df, ell, share, total in zip(*every[:-1], strict=True):
            of_cell = (
                ShareLoss(share, total, reverse) if count is None else CountLoss(share, total, count, reverse)
            )
            parts.append(SumLoss((of_cell, DrawLoss(p, weight, df, ell, reverse))))
        return parts[0] if len(parts) == 1 else AveragedLoss(tuple(parts), every[-1], reverse)

    @one_thread()
    def columns(
        self, count: int, rows: int | None, delta: float, alarms: Float[np.ndarray, " k"]
    ) -> dict[str, np.ndarray]:
        """Return the columns of `privacy`; those of a record that lacks a category are NaN."""
        n, k = len(self.measured), len(alarms)
        columns = {
            name: np.full(n, np.nan) for name in ("epsilon", "gain_of_one", "gain_of_one_sd", "epsilon_error")
        }
        apart = np.full((n, k + 1), np.nan)
        for which in self._alike():
            numbers = self._judged(rows, which, count, delta, alarms)
            columns["epsilon"][which] = np.max(numbers[:2], axis=0)
            apart[which] = numbers[2:].T
            some = self.loss(rows, which)
            _, mean, variance = some.slopes(np.ones(len(which)))
            columns["gain_of_one"][which], columns["gain_of_one_sd"][which] = mean, np.sqrt(variance)
            if len(self.weight) > 1:
                columns["epsilon_error"][which] = self._errors(rows, which, count, delta)
        test = BestTest(alarms, ndtr(-ndtri(alarms) - apart[:, :-1]), ndtr(apart[:, -1] / np.sqrt(2)),
                        self.has_cell, np.zeros(n))  # fmt: skip
        errors = {"epsilon_error": columns.pop("epsilon_error")} if len(self.weight) > 1 else {}
        exact = self.has_cell & ((rows is None) | (self.measured == 0))
        first = {"leverage": self.leverage, "epsilon": columns.pop("epsilon"), "exact": exact}
        return {**first, **columns, **test.columns, **errors}

    def _alike(self) -> list[Int[np.ndarray, " m"]]:
        """Return the records that differ in ℓ alone, or with gaps have as many measurements, group by group."""
        names = ("mean_weight", "df", "weight", "total") if len(self.weight) == 1 else ()
        keys = np.stack([self.measured, *(np.round(getattr(self, name)[0], 9) for name in names)], axis=1)
        _, group = np.unique(keys, axis=0, return_inverse=True)
        group = np.where(self.has_cell, group.ravel(), -1)
        return [np.flatnonzero(group == each) for each in range(np.max(group) + 1) if np.any(group == each)]

    def _judged(
        self, rows: int | None, which: np.ndarray, count: int, delta: float, alarms: np.ndarray
    ) -> Float[np.ndarray, "5 m"]:
        """Return ε in both directions, and how far the worlds are apart at each share of false alarms."""

        def values(augmented: Any = None) -> np.ndarray:
            those = which if augmented is None else which[:1]
            both = [self.loss(rows, those, reverse, augmented) for reverse in (False, True)]
            every = [np.maximum(epsilon(each, delta, count), 0.0) + 2 * delta for each in both]
            if rows is not None and np.isnan(every).any():  # then what the shares themselves would tell, no less
                drawn = (self.loss(None, those, reverse, augmented) for reverse in (False, True))
                bounds = [np.maximum(epsilon(each, delta, count), 0.0) + 2 * delta for each in drawn]
                every = [np.where(np.isnan(own), bound, own) for own, bound in zip(every, bounds, strict=True)]
            far = [separation(both[0], np.full(len(every[0]), alarm), count) for alarm in alarms]
            return np.stack([*every, *(each + LEAST_APART for each in (*far, separation_by_area(both[0], count)))])

        if len(self.weight) > 1 or len(which) == 1:
            judged = values()
        else:
            ell = self.augmented[0, which]
            near = np.minimum(ell, MOST_AUGMENTED)
            judged = looked_up(values, near)
            judged[:2] *= ell / near
        judged[:2] -= 2 * delta
        judged[2:] -= LEAST_APART
        return np.maximum(judged, 0.0)

    def _errors(self, rows: int | None, which: np.ndarray, count: int, delta: float) -> Float[np.ndarray, " m"]:
        """Return the standard error of ε: each chain of draws is left out in turn."""
        chain = np.arange(len(self.weight)) * CHAINS // len(self.weight)
        without: list[np.ndarray] = []
        for each in range(CHAINS):
            losses = (self.loss(rows, which, reverse, draws=chain != each) for reverse in (False, True))
            without.append(np.max([epsilon(loss, delta, count) for loss in losses], axis=0))
        return np.std(without, axis=0) * np.sqrt(CHAINS - 1)


def _distances(
    others: NIW, values: Float[np.ndarray, "n p"], observed: Bool[np.ndarray, "n p"]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return κ, ν and ℓ of the measurements that each record has, and their log density, by its own others."""
    n, p = values.shape
    weight, df = (np.broadcast_to(np.asarray(each, dtype=float), n) for each in (others.mean_weight, others.df))
    mean, scale = np.asarray(others.mean), np.asarray(others.scale)
    length, density, left = np.zeros(n), np.zeros(n), df - p + np.sum(observed, axis=1)
    for pattern in np.unique(observed, axis=0):
        (these,), some = np.nonzero(np.all(observed == pattern, axis=1)), np.flatnonzero(pattern)
        if not len(some):
            continue
        part = NIW(mean[these][:, some], weight[these], left[these], scale[these][:, some[:, None], some])
        away = values[these][:, some] - part.mean
        white = np.linalg.solve(part.root, away[..., None])[..., 0]
        length[these] = np.sum(white * white, axis=1)
        density[these] = part.predictive().log_density(values[these][:, some])
    return weight, left, length + 1 / weight, density
