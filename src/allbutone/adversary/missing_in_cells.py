"""An adversary who misses several records of any table: their cells and measurements are drawn in turn.

Given the other missing records each has the posterior of a single missing one (`MixedLeaveOneOut`), so a Gibbs
sampler draws them in turn; what is believed of the target is averaged over its draws of the others:

    p(c, x | X₋, R) = E[p(c, x | X₋, u, R)],   u the other missing records given X₋ and the releases R
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from allbutone.adversary.integrate import Ball, Intervals, integrate
from allbutone.adversary.log_quadratic import LogQuadratic
from allbutone.adversary.missing import PROPOSAL_DF, _log_shares
from allbutone.adversary.mixed import MixedLeaveOneOut, Term, from_terms
from allbutone.adversary.modes import Modes, find_modes
from allbutone.adversary.proposal import Points, Proposal, values_at
from allbutone.model.location import LocationModel, MixedRecords, Regression
from allbutone.model.niw import NIW
from allbutone.support.arrays import append_axes, log_sum_exp

CHAINS = 16  # of each table
WARM_UP, STATES, APART = (
    12,
    4,
    3,
)  # sweeps before the first state that is kept, how many are, and sweeps between them
SIZE = 64  # points, four times, of a total


@dataclass(frozen=True, eq=False)
class Unknown:
    """The missing records of b chains, m each; `tables`: the table that each chain's are missing from."""

    tables: Int[np.ndarray, " b"]
    cells: Int[np.ndarray, "b m"]
    values: Float[np.ndarray, "b m p"]
    covariates: Float[np.ndarray, "b m s"]

    def take(self, chains: np.ndarray) -> "Unknown":
        """Return some chains, perhaps several times."""
        return Unknown(self.tables[chains], self.cells[chains], self.values[chains], self.covariates[chains])

    def without(self, which: int) -> "Unknown":
        """Return all but one of the records of each chain."""
        cells, values, known = (
            np.delete(each, which, axis=1) for each in (self.cells, self.values, self.covariates)
        )
        return Unknown(self.tables, cells, values, known)


@dataclass(frozen=True, eq=False)
class TableModels:
    """The same model given the records of several tables, to which each chain's own records are added."""

    models: tuple[LocationModel, ...]

    @cached_property
    def weights(self) -> Float[np.ndarray, "tables cells"]:
        """The weights of the cells."""
        return np.stack([model.weights for model in self.models])

    @cached_property
    def _regressions(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
        measured = [model.measured for model in self.models if isinstance(model.measured, Regression)]
        halves = np.linalg.inv(np.stack([np.asarray(each.root) for each in measured]))
        coefficients, scales = (
            np.stack([np.asarray(getattr(each, name)) for each in measured]) for name in ("coefficients", "scale")
        )
        return coefficients, halves, scales, float(measured[0].df)

    @cached_property
    def _separate(self) -> tuple[np.ndarray, ...]:
        every = np.arange(self.models[0].cells.count)
        each = [model.at(every, np.zeros((len(every), 0))) for model in self.models]
        names = ("mean", "mean_weight", "df", "scale")
        n, p = len(every), each[0].p
        shapes: tuple[tuple[int, ...], ...] = ((n, p), (n,), (n,), (n, p, p))
        return tuple(
            np.stack([np.broadcast_to(np.asarray(getattr(one, name), dtype=float), shape) for one in each])
            for name, shape in zip(names, shapes, strict=True)
        )

    def given(
        self,
        cells: Int[np.ndarray, " b"],
        covariates: Float[np.ndarray, "b s"],
        others: Unknown,
        told: Bool[np.ndarray, "b k"],
    ) -> NIW:
        """Return what a record of each chain has in a cell, given the other missing ones that the model knows of.

        With z the record's covariates, Z and U those and the values of the k others, V the effects' covariance in
        units of Σ, E = U − ZB and A = I + ZVZᵀ: the mean is zᵀB + zᵀVZᵀA⁻¹E, h = zᵀVz − zᵀVZᵀA⁻¹ZVz, and Λ gains
        EᵀA⁻¹E. In separate cells those of the same cell count, with z = 1 and V = 1/κ.
        """
        table = others.tables
        if self.models[0].is_separate:
            mean, weight, df, scale = (each[table, cells] for each in self._separate)
            told = told & (others.cells == cells[:, None])
            white = 1 / np.sqrt(weight)[:, None]
            beside = np.where(told, white, 0.0)[..., None]
            away = others.values - mean[:, None]
        else:
            coefficients, halves, scales, freedom = self._regressions
            scale, df, model = scales[table], np.full(len(cells), freedom), self.models[0]
            coded, b, k = model.coded(cells, covariates), len(cells), told.shape[1]
            flat = others.covariates.reshape(b * k, covariates.shape[1])
            known = model.coded(others.cells.ravel(), flat).reshape(b, k, coded.shape[1])
            white = (coded[:, None] @ halves[table])[:, 0]
            beside = np.where(told[..., None], known @ halves[table], 0.0)
            mean = (coded[:, None] @ coefficients[table])[:, 0]
            away = others.values - known @ coefficients[table]
        away = np.where(told[..., None], away, 0.0)
        cross = (beside @ white[..., None])[..., 0]
        inner = np.eye(told.shape[1]) + beside @ beside.mT
        solved = np.linalg.solve(inner, np.concatenate([cross[..., None], away], axis=-1))
        spread = np.sum(white * white, axis=-1) - np.sum(cross * solved[..., 0], axis=-1)
        gained = away.mT @ solved[..., 1:]
        return NIW(
            mean + np.einsum("bk,bkp->bp", cross, solved[..., 1:]),
            1 / spread,
            df + np.sum(told, axis=1),
            scale + (gained + gained.mT) / 2,
        )


@dataclass(frozen=True, eq=False)
class Opinions:
    """What one mechanism's releases say, of several tables: its models before and after each dataset.

    holds: whether a missing record of each table is among those that the releases were made from.
    """

    everyone: MixedLeaveOneOut
    before: TableModels
    after: tuple[TableModels, ...]
    own: TableModels | None
    holds: Bool[np.ndarray, "tables m"]

    @classmethod
    def of(cls, part: MixedLeaveOneOut, missing: Sequence[Int[np.ndarray, " m"]]) -> "Opinions":
        """Fit what is left of each table when these of its records are missing."""
        holds = np.stack([part.places_of(rows)[1] for rows in missing])
        known = [_without(part, rows) for rows in missing]
        after = tuple(TableModels(each) for each in zip(*(one.after for one in known), strict=True))
        own = None if part.own is None else TableModels(tuple(one.believed for one in known))
        return cls(known[0], TableModels(tuple(one.whole for one in known)), after, own, holds)


@dataclass(frozen=True, eq=False)
class MissingInCells:
    """All that attacks on records missing together share: who is missing, and what all are told."""

    parts: tuple[Opinions, ...]
    missing: tuple[Int[np.ndarray, " m"], ...]
    truth: tuple[MixedRecords, ...]
    possible: Bool[np.ndarray, "tables m cells"]

    @classmethod
    def of(
        cls, everyone: MixedLeaveOneOut, missing: Sequence[Int[np.ndarray, " m"]], known: Sequence[int]
    ) -> "MissingInCells":
        """Take the missing ones out of each table; known: categories that are known of everybody."""
        parts = tuple(Opinions.of(part, missing) for part in (replace(everyone, rest=()), *everyone.rest))
        possible = np.stack([everyone.possible(rows, known) for rows in missing])
        truth = tuple(everyone.records.take(rows) for rows in missing)
        return cls(parts, tuple(missing), truth, possible)

    @property
    def cells(self) -> int:
        """The number of cells."""
        return self.possible.shape[-1]

    @property
    def believed(self) -> TableModels:
        """What the adversary believes before any release."""
        first = self.parts[0]
        return first.before if first.own is None else first.own

    def posteriors(
        self, which: int, cells: Int[np.ndarray, " b"], unknown: Unknown
    ) -> tuple[LogQuadratic, Float[np.ndarray, " b"]]:
        """Return the posteriors of one missing record of each chain in these cells, given its others, and offsets.

        Offsets hold all that ℓ leaves out, which matters between cells, and what was counted of the cells.
        """
        beside, known, table = unknown.without(which), unknown.covariates[:, which], unknown.tables
        first, terms, power = self.parts[0], list[Term](), 0
        everybody = np.ones(beside.cells.shape, dtype=bool)
        others = first.before.given(cells, known, beside, everybody)
        normals = [np.zeros((len(cells), *[others.p] * rank)) for rank in (2, 1, 0)]
        odds = np.zeros(len(cells))
        for number, part in enumerate(self.parts):
            mine = part.holds[table, which].astype(float)
            seen = np.delete(part.holds[table], which, axis=1)
            count = np.sum(seen & (beside.cells == cells[:, None]), axis=1)
            opinions = part.everyone.opinions
            if number == 0:
                power = -opinions
            else:
                terms.append((part.before.given(cells, known, beside, seen), -opinions * mine))
            odds = odds - mine * opinions * np.log(part.before.weights[table, cells] + count)
            for model in part.after:
                terms.append((model.given(cells, known, beside, seen), mine))
                odds = odds + mine * np.log(model.weights[table, cells] + count)
            if part.everyone.parameters is not None:
                with np.errstate(divide="ignore"):  # a share can be drawn as 0
                    odds = odds + mine * np.sum(np.log(part.everyone.parameters.shares), axis=0)[cells]
            told = part.everyone._normals(others, cells, known)
            normals = [one + append_axes(mine, two.ndim - 1) * two for one, two in zip(normals, told, strict=True)]
        among = np.sum(beside.cells == cells[:, None], axis=1)
        odds = odds + np.log(self.believed.weights[table, cells] + among)
        if first.own is not None:
            terms.append((first.own.given(cells, known, beside, everybody), 1))
        else:
            power += 1
        posterior, offset = from_terms(
            others, power, terms, (normals[0], normals[1], normals[2]), first.own is not None
        )
        return posterior, offset + odds

    def draw(self, rng: np.random.Generator, chains: int = CHAINS) -> list[Unknown]:
        """Draw the missing records of all tables; return states of the chains, far apart."""
        tables = np.repeat(np.arange(len(self.missing)), chains)
        covariates = np.stack([each.covariates for each in self.truth])[tables]
        unknown = self._first(tables, covariates, rng)
        kept = []
        for sweep in range(WARM_UP + (STATES - 1) * APART + 1):
            for which in range(unknown.cells.shape[1]):
                unknown = self._updated(unknown, which, rng)
            if self._are_alike:
                unknown = _shuffled(unknown, rng)
            if sweep >= WARM_UP and (sweep - WARM_UP) % APART == 0:
                kept.append(unknown)
        return kept

    @cached_property
    def _are_alike(self) -> bool:
        """Whether nothing tells the missing records apart: then any order of them is as probable."""
        told = [self.possible, *(part.holds for part in self.parts)]
        covariates = np.stack([each.covariates for each in self.truth])
        return not covariates.size and all(bool(np.all(each == each[:, :1])) for each in told)

    def _first(
        self, tables: Int[np.ndarray, " b"], covariates: Float[np.ndarray, "b m s"], rng: np.random.Generator
    ) -> Unknown:
        """Draw every missing record as if nothing had been released."""
        b, m = covariates.shape[:2]
        weights = np.where(self.possible[tables], self.believed.weights[tables][:, None], 0.0)
        cells = _chosen(np.log(np.maximum(weights, 1e-300)).reshape(b * m, -1), rng).reshape(b, m)
        values, nobody = [], Unknown(tables, cells[:, :0], np.zeros((b, 0, self.parts[0].before.models[0].p)),
                                     covariates[:, :0])  # fmt: skip
        for which in range(m):
            t = self.believed.given(
                cells[:, which], covariates[:, which], nobody, np.ones((b, 0), dtype=bool)
            ).predictive()
            df = np.broadcast_to(np.asarray(t.df, dtype=float), b)
            stretch = np.sqrt(df / rng.chisquare(df))
            white = rng.standard_normal(t.location.shape)
            values.append(t.location + stretch[:, None] * (t.root @ white[..., None])[..., 0])
        return Unknown(tables, cells, np.stack(values, axis=1), covariates)

    def _updated(self, unknown: Unknown, which: int, rng: np.random.Generator) -> Unknown:
        """Draw one missing record of every chain anew by a step of an independence sampler, cell and all.

        In half of the steps the cell stays; otherwise it is proposed by what was counted.
        """
        b, now = len(unknown.tables), unknown.cells[:, which]
        log_q = self._log_counted(unknown, which)
        cells = np.where(rng.random(b) < 0.5, now, _chosen(log_q, rng))
        both, twice = np.concatenate([cells, now]), np.tile(np.arange(b), 2)
        target, offset = self.posteriors(which, both, unknown.take(twice))
        modes = find_modes(target)
        proposal = Proposal.around(target, modes, lightest=PROPOSAL_DF, spread=1.0)
        log_shares = _log_shares(proposal, modes)
        part = _chosen(log_shares, rng)
        df = np.array(proposal.dfs)[part, None]
        white = rng.standard_normal((2 * b, target.p)) * np.sqrt(df / rng.chisquare(df))
        drawn = np.stack([proposal.place(each, white[:, None])[:, 0] for each in range(3)])
        point = drawn[part, np.arange(2 * b)]
        point[b:] = target.whiten(np.concatenate([unknown.values[:, which]] * 2))[b:]
        each = proposal.log_densities(point[:, None])[..., 0].T + log_shares
        height = target.value(point) + offset + target.log_volume - np.logaddexp.reduce(each, axis=1)
        same = cells == now
        with np.errstate(divide="ignore"):
            chance = np.log(0.5 * np.where(same, 1.0, 0.0) + 0.5 * np.exp(log_q[np.arange(b), cells]))
            back = np.log(0.5 * np.where(same, 1.0, 0.0) + 0.5 * np.exp(log_q[np.arange(b), now]))
        accept = np.log(rng.random(b)) < height[:b] - chance - height[b:] + back
        values, kept = unknown.values.copy(), unknown.cells.copy()
        values[:, which] = np.where(accept[:, None], target.unwhiten(point)[:b], values[:, which])
        kept[:, which] = np.where(accept, cells, now)
        return replace(unknown, values=values, cells=kept)

    def _log_counted(self, unknown: Unknown, which: int) -> Float[np.ndarray, "b cells"]:
        """Return the log share of each cell by the weights before any release, with the others counted in."""
        beside, table = unknown.without(which), unknown.tables
        among = np.sum(beside.cells[..., None] == np.arange(self.cells), axis=1)
        weights = np.where(self.possible[table, which], self.believed.weights[table] + among, 0.0)
        with np.errstate(divide="ignore"):
            return np.log(weights / weights.sum(axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class TargetBeliefs:
    """What is believed of a missing record, averaged over draws of the others; errors are by independent chains.

    `probability` of each cell; `log_density` of the record as it is, cell and measurements; in its own cell the
    `guess`, the probability `within` intervals and the `mass` near it.
    """

    probability: Float[np.ndarray, " cells"]
    probability_by_chain: Float[np.ndarray, "chains cells"]
    log_density: float
    log_density_error: float
    guess: Float[np.ndarray, " p"]
    within: Float[np.ndarray, " p"]
    within_error: Float[np.ndarray, " p"]
    mass: float
    mass_error: float


def beliefs_of(
    shared: MissingInCells,
    states: Sequence[Unknown],
    table: int,
    which: int,
    near: Intervals,
    radius: float | None,
    points: Points,
) -> TargetBeliefs:
    """Return what is believed of one of the missing records of a table, given states of the chains."""
    unknown = _joined([each.take(np.flatnonzero(each.tables == table)) for each in states])
    chains, truth = len(unknown.tables) // len(states), shared.truth[table].take([which])
    (cells,) = np.nonzero(shared.possible[table, which])
    s, own = len(unknown.tables), int(np.flatnonzero(cells == truth.cells[0])[0])
    every = np.repeat(np.arange(s), len(cells))
    target, offset = shared.posteriors(which, np.tile(cells, s), unknown.take(every))
    modes = find_modes(target)
    total = integrate(target, modes, None, points, SIZE).log_total + target.log_volume + offset
    log_z = total.reshape(s, len(cells))
    whole = log_sum_exp(log_z, axis=1)
    shares = np.exp(log_z - whole[:, None])
    mine = np.arange(s) * len(cells) + own
    at, hills = target.take(mine), modes.take(mine)
    white = at.whiten(np.repeat(truth.values, s, axis=0))
    ball = None
    if radius is not None:
        ball = Ball(white, np.broadcast_to(radius / np.sqrt(np.asarray(at.df)), s))
    close = Intervals(*(np.repeat(end, s, axis=0) for end in (near.low, near.high)))
    integrals = integrate(at, hills, ball, points, SIZE, intervals=close)
    logs = at.value(white) + offset[mine] - whole
    density = np.exp(logs - logs.max())
    probability = np.zeros((s, shared.cells))
    probability[:, cells] = shares
    weights = shares[:, own]
    within, within_error = _weighed(integrals.within, weights, chains)
    mass, mass_error = _weighed(integrals.mass[:, None], weights, chains)
    return TargetBeliefs(
        probability.mean(axis=0),
        _by_chain(probability, chains),
        float(np.log(density.mean()) + logs.max()),
        float(_by_chain(density[:, None], chains).std(ddof=1) / density.mean() / np.sqrt(chains)),
        _highest(at, hills, weights, log_z[:, own]),
        within,
        within_error,
        float(mass[0]),
        float(mass_error[0]),
    )


def _joined(states: Sequence[Unknown]) -> Unknown:
    """Put states one after the other."""
    return Unknown(*(np.concatenate([getattr(each, field.name) for each in states]) for field in fields(Unknown)))


def _by_chain(values: Float[np.ndarray, "s n"], chains: int) -> Float[np.ndarray, "chains n"]:
    return values.reshape(-1, chains, values.shape[1]).mean(axis=0)


def _weighed(
    values: Float[np.ndarray, "s n"], weights: Float[np.ndarray, " s"], chains: int
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Return the weighted mean, and its error by independent chains."""
    mean = weights @ values / np.sum(weights)
    off = _by_chain(weights[:, None] * (values - mean), chains) / np.mean(weights)
    return mean, off.std(axis=0, ddof=1) / np.sqrt(chains)


def _highest(
    posteriors: LogQuadratic, modes: Modes, weights: Float[np.ndarray, " s"], log_totals: Float[np.ndarray, " s"]
) -> Float[np.ndarray, " p"]:
    """Return the mode, of all draws' modes, at which their average is highest."""
    starts = posteriors.unwhiten(modes.best)
    white = np.linalg.solve(posteriors.root, (starts[None] - posteriors.centre[:, None]).mT).mT
    with np.errstate(divide="ignore"):
        each = values_at(posteriors, white) + (np.log(weights) - log_totals)[:, None]
    return starts[int(np.argmax(log_sum_exp(each, axis=0)))]


def _shuffled(unknown: Unknown, rng: np.random.Generator) -> Unknown:
    """Put the missing records of each chain into another order: who is far out may be any of them."""
    order = rng.permuted(np.tile(np.arange(unknown.cells.shape[1]), (len(unknown.tables), 1)), axis=1)
    cells = np.take_along_axis(unknown.cells, order, axis=1)
    return replace(unknown, cells=cells, values=np.take_along_axis(unknown.values, order[..., None], axis=1))


def _without(part: MixedLeaveOneOut, rows: Int[np.ndarray, " m"]) -> MixedLeaveOneOut:
    """Return the model of a part's table without these records of the whole table."""
    places, among = part.places_of(rows)
    left = part.records.take(np.delete(np.arange(len(part.records)), places[among]))
    datasets = [data for data in part.datasets if isinstance(data, MixedRecords)]
    return MixedLeaveOneOut.of(left, part.prior, datasets, part.parameters, part.elsewhere, part.own)


def _chosen(log_shares: Float[np.ndarray, "b n"], rng: np.random.Generator) -> Int[np.ndarray, " b"]:
    """Draw one of n by its log share, which need not add up to 1."""
    shares = np.exp(log_shares - np.max(log_shares, axis=1, keepdims=True))
    below = np.cumsum(shares, axis=1)
    return np.sum(rng.random((len(shares), 1)) * below[:, -1:] >= below, axis=1).clip(0, shares.shape[1] - 1)
