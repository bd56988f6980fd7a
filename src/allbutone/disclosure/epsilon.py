"""Per record, in the language of differential privacy: the exact ε of every record at a given δ."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import ndtr, ndtri

from allbutone.disclosure.dataset_loss import DatasetLoss
from allbutone.disclosure.draw_loss import DrawLoss
from allbutone.disclosure.exposure_law import ExposureLaw, leverages
from allbutone.disclosure.loss_profile import Loss, epsilon, separation, separation_by_area
from allbutone.model.niw import NIW
from allbutone.releases.gaussian_account import DELTA
from allbutone.support.errors import Cure, InputError, count_of
from allbutone.support.parallel import one_thread
from allbutone.tables.records import Records

# It depends on the data: it informs the data holder, is confidential, and is no guarantee (`guarantee` gives one).


FIRST_NODES, MOST_NODES = 8, 1024
# what new nodes may differ by from the interpolation of the old: with twice as many the error is about its square
CLOSE = 2e-4
PROBES = 6
MOST_AUGMENTED = 1e9
MOST_TESTED = 1e6  # ℓ beyond which a record counts as here: the best test misses nobody who is so far out
DENSE = 1 << 14  # points of the table that is looked up
ALARMS = np.array([0.01, 0.05])  # shares of false alarms at which hits are told
LEAST_APART = 1e-3  # separations are tabulated to a share of this at least


def epsilons_of(records: Records, release: Any, prior: NIW) -> Float[np.ndarray, " n"] | None:
    """Return the ε of each record by this release: from the data, confidential, not a guarantee.

    Datasets of several sizes count as of the largest. None for releases of other kinds, or of too few records.
    """
    people, p = records.values.shape
    if not release.mechanism.is_normal or people < p + 3:
        return None
    rows = max(release.rows) if release.parameters is None else None
    loss = PrivacyLoss(ExposureLaw.of(prior, people, rows), release.count, usual_delta(people))
    return loss.columns(leverages(records.values, prior))["epsilon"]


def epsilon_of_one(law: ExposureLaw, leverage: float, count: int, people: int) -> float:
    """Return the ε of one record by so many draws or datasets: from the data, confidential, not a guarantee."""
    return float(PrivacyLoss(law, count, usual_delta(people)).columns(np.array([leverage]))["epsilon"][0])


def usual_delta(people: int) -> float:
    """Return the δ of figures for which none was asked: 1e-6, or a hundredth of one over the people."""
    return min(DELTA, 0.01 / people)


def releases_of(draws: Any, datasets: Any, rows: Any, people: int) -> tuple[int, int | None]:
    """Return the number of releases and the rows of each, None for parameter draws."""
    if (draws is None) == (datasets is None):
        raise InputError(
            "say what is released: either parameter draws or datasets",
            Cure("so many draws", "draws", 1),
            Cure("so many datasets", "datasets", 1),
        )
    if draws is not None:
        if rows is not None:
            raise InputError("parameter draws have no rows", Cure("leave them out", "rows"))
        return count_of("draws", draws), None
    return count_of("datasets", datasets), people if rows is None else count_of("rows", rows)


@dataclass(frozen=True, eq=False)
class BestTest:
    """The best test of "this record is in the table", for n records, by who knows all others and the release.

    misses: of someone who is in it, at each of k shares of false alarms. area: under the curve of hits, that is
    1 − misses, against false alarms: ½ where nothing is told. exact: else it is the test of who has the parameters
    that the datasets were drawn from, and with the datasets alone there are no fewer misses. error: the largest
    standard error of all these, above 0 where they are of simulated releases.
    """

    false_alarms: Float[np.ndarray, " k"]
    misses: Float[np.ndarray, "n k"]
    area: Float[np.ndarray, " n"]
    exact: Bool[np.ndarray, " n"]
    error: Float[np.ndarray, " n"]

    @classmethod
    def unknown(cls, people: int, false_alarms: Float[np.ndarray, " k"]) -> "BestTest":
        """Return it of people of whom nothing is known yet: all NaN."""
        nothing = np.full(people, np.nan)
        return cls(
            false_alarms, np.tile(nothing[:, None], len(false_alarms)), nothing, np.isfinite(nothing), nothing
        )

    @classmethod
    def of_losses(cls, losses: Float[np.ndarray, "r n"], false_alarms: Float[np.ndarray, " k"]) -> "BestTest":
        """Return it from the losses of n records in r simulated releases of the table that they are in.

        Releases without a record need not be drawn: P(L > t | without) is E[exp(−L); L > t | with]. Where the
        threshold t has α false alarms, the hits have the influence function 1[L > t]·(1 − exp(t − L)).
        """
        (r, n), alarms = losses.shape, np.asarray(false_alarms, dtype=float)
        hits, area, error = np.empty((n, len(alarms))), np.empty(n), np.empty(n)
        steps = np.arange(r + 2) / r
        for place, loss in enumerate(-np.sort(-losses.T, axis=1)):
            without = np.exp(-loss) / r
            alarmed = np.cumsum(without)
            curve = np.append([0.0, *(alarmed / max(1.0, alarmed[-1]))], 1.0)
            shares = np.minimum(steps, 1.0)
            hits[place] = np.interp(alarms, curve, shares)
            area[place] = np.sum(np.diff(curve) * (shares[1:] + shares[:-1])) / 2
            threshold = np.interp(alarms, curve[1:-1], loss)[:, None]
            away = np.where(loss > threshold, -np.expm1(np.minimum(threshold - loss, 0.0)), 0.0)
            of_area = curve[1:-1] + without * r * (1 - np.arange(1, r + 1) / r)  # what a release adds, either way
            error[place] = max(*np.std(away, axis=1), np.std(of_area)) / np.sqrt(r)
        return cls(alarms, 1 - hits, area, np.ones(n, dtype=bool), error)

    def having(self, people: Int[np.ndarray, " m"], test: "BestTest") -> "BestTest":
        """Return it with the `test` of these people, which is of simulated releases, in the place of their own."""
        changed = {name: getattr(self, name).copy() for name in ("misses", "area", "exact", "error")}
        for name, column in changed.items():
            column[people] = getattr(test, name)
        return replace(self, **changed)

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """Hits at each share of false alarms, and the area, for a table."""
        hits = {
            f"membership_hits_{100 * alarm:g}_percent": 1 - missed
            for alarm, missed in zip(self.false_alarms, self.misses.T, strict=True)
        }
        return hits | {"membership_area": self.area}


@dataclass(frozen=True)
class PrivacyLoss:
    """What ε and information gain depend on besides the leverage: p, κ, ν, rows, number released, and δ."""

    law: ExposureLaw
    count: int = 1
    delta: float = DELTA

    @one_thread()  # thousands of small products: threads of the linear algebra's own take ten times as long
    def columns(self, leverage: Float[np.ndarray, " n"]) -> dict[str, np.ndarray]:
        """Return for each leverage ε, whether it is exact, and mean and spread of one release's gain."""
        augmented = self.law.augmented(leverage)
        # Without the record, L goes down to about −ν·ℓ: as ℓ grows, ε(ℓ)/ℓ settles, and is the same to nine digits
        # from 10⁹ on, where 1 + 1/ℓ has none left.
        near = np.minimum(augmented, MOST_AUGMENTED)
        epsilons = np.max(looked_up(partial(self._epsilons, None), near), axis=0) * (augmented / near)
        exact = np.ones(len(augmented), dtype=bool)
        if self.law.rows is not None:
            own, exact = looked_up_while_known(partial(self._epsilons, self.law.rows), near)
            exact = exact & (augmented == near)
            epsilons = np.where(exact, np.minimum(np.max(own, axis=0), epsilons), epsilons)
        gain, spread = looked_up(self._gains, augmented)
        return {
            "epsilon": np.maximum(epsilons - self._shift, 0.0),
            "exact": exact,
            "gain_of_one": gain,
            "gain_of_one_sd": spread,
        }

    @one_thread()
    def best_test(self, leverage: Float[np.ndarray, " n"], false_alarms: Float[np.ndarray, " k"]) -> BestTest:
        """Return how well records of these leverages are told to be in the table: the exact trade-off curve.

        By Neyman and Pearson from the distribution of the loss, with the record and without.
        """
        alarms = np.asarray(false_alarms, dtype=float)
        if not np.all((alarms > 0) & (alarms < 1)):
            cure = Cure("ask for 1 % and 5 %", "false_alarms", [0.01, 0.05])
            raise InputError("shares of false alarms lie between 0 and 1", cure)
        near = np.minimum(self.law.augmented(leverage), MOST_TESTED)
        apart, exact = looked_up(partial(self._separations, None, alarms), near), np.ones(len(near), dtype=bool)
        if self.law.rows is not None:
            own, exact = looked_up_while_known(partial(self._separations, self.law.rows, alarms), near)
            apart = np.where(exact, own, apart)
        apart = apart.T - LEAST_APART
        misses, area = ndtr(-ndtri(alarms) - apart[:, :-1]), ndtr(apart[:, -1] / np.sqrt(2))
        return BestTest(alarms, misses, area, exact, np.zeros(len(area)))

    @property
    def _shift(self) -> float:
        """Added to an ε to make it positive: ε ≥ log(1 − δ)."""
        return 2 * self.delta

    def _epsilons(
        self, rows: int | None, augmented: Float[np.ndarray, " k"], checked: bool = False
    ) -> Float[np.ndarray, "2 k"]:
        """Return ε of datasets, or of draws (None), in both directions, made positive."""
        losses = [self._loss(rows, augmented, reverse) for reverse in (False, True)]
        epsilons = [epsilon(loss, self.delta, self.count, checked=checked) for loss in losses]
        return np.array(epsilons) + self._shift

    def _separations(
        self, rows: int | None, alarms: np.ndarray, augmented: Float[np.ndarray, " k"], checked: bool = False
    ) -> Float[np.ndarray, "rows k"]:
        """Return how far the worlds are apart at each share of false alarms, and by the area; made positive."""
        every = self._loss(rows, np.tile(augmented, len(alarms)))
        separations = separation(every, np.repeat(alarms, len(augmented)), self.count, checked=checked)
        by_area = separation_by_area(self._loss(rows, augmented), self.count)
        return np.concatenate([separations.reshape(len(alarms), -1), by_area[None]]) + LEAST_APART

    def _gains(self, augmented: Float[np.ndarray, " k"]) -> Float[np.ndarray, "2 k"]:
        _, mean, variance = self._loss(self.law.rows, augmented).slopes(np.ones_like(augmented))
        return np.array([mean, np.sqrt(variance)])

    def _loss(self, rows: int | None, augmented: Float[np.ndarray, " k"], reverse: bool = False) -> Loss:
        law = (self.law.p, self.law.mean_weight, self.law.df)
        return DrawLoss(*law, augmented, reverse) if rows is None else DatasetLoss(*law, augmented, rows, reverse)


def looked_up(values: Callable[[Any], Any], at: Float[np.ndarray, " n"]) -> Float[np.ndarray, "rows n"]:
    """Return smooth positive functions of one positive number at many of them: a table, interpolated to 1e-6.

    Chebyshev's polynomials of the logarithms, with twice as many nodes until those that are new lie where the
    old ones said; then a spline through many points of the polynomial, which is quicker to look up. Few numbers
    need none. Where a function is not known at a node, the table has nothing but such values.
    """
    from scipy.interpolate import CubicSpline  # not above: it is slow to load

    low, high = np.log(at.min()), np.log(at.max())
    if len(at) <= FIRST_NODES or high - low < 1e-9:
        different, place = np.unique(at, return_inverse=True)
        return values(different)[:, place]
    grid, count = np.linspace(-1.0, 1.0, DENSE), FIRST_NODES
    known = np.log(values(_nodes(low, high, np.arange(count + 1), count)))
    while True:
        # the next nodes: those between the old ones
        between = np.arange(1, 2 * count, 2)
        new = np.log(values(_nodes(low, high, between, 2 * count)))
        off = np.abs(_polynomial(known)(np.cos(np.pi * between / (2 * count))) - new)
        both = np.empty((len(known), 2 * count + 1))
        both[:, ::2], both[:, 1::2] = known, new
        known, count = both, 2 * count
        if np.isnan(known).any():
            return np.full((len(known), len(at)), np.nan)
        if not np.any(off > CLOSE) or count >= MOST_NODES:
            break

    dense = _polynomial(known)(grid)
    place = np.clip((2 * np.log(at) - low - high) / (high - low), -1.0, 1.0)
    return np.exp(CubicSpline(grid, dense, axis=1)(place))


def looked_up_while_known(
    values: Callable[..., Any], at: Float[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, "rows n"], Bool[np.ndarray, " n"]]:
    """Look up as `looked_up` does, below the first number at which the functions are unknown; say where."""
    known, unknown = [0.0], [np.inf]

    def noted(tried: Float[np.ndarray, " k"], **how: bool) -> Float[np.ndarray, "rows k"]:
        found = values(tried, **how)
        lost = np.isnan(found).any(axis=0)
        known.extend(tried[~lost])
        unknown.extend(tried[lost])
        return found

    probes = np.unique(np.exp(np.linspace(np.log(at.min()), np.log(at.max()), PROBES)))
    size = len(noted(probes, checked=True))
    while True:
        first = min(unknown)
        last = max(each for each in known if each < first)
        below = at <= (last if np.isfinite(first) else np.inf)
        found = np.full((size, len(at)), np.nan)
        if below.any():
            found[:, below] = looked_up(noted, at[below])
        if min(unknown) == first:
            return found, np.isfinite(found).all(axis=0)


def _nodes(low: float, high: float, index: Any, count: int) -> Any:
    return np.exp(0.5 * (low + high) + 0.5 * (high - low) * np.cos(np.pi * index / count))


def _polynomial(known: Float[np.ndarray, "rows nodes"]) -> Callable[[Any], Any]:
    """Return the polynomial through values at cos(πj/N), j = 0…N, by its Chebyshev coefficients."""
    count = known.shape[1] - 1
    index = np.arange(count + 1)
    halves = np.where((index == 0) | (index == count), 0.5, 1.0)
    waves = np.cos(np.pi * np.outer(index, index) / count)
    coefficients = (known * halves) @ waves * halves * 2 / count
    return lambda x: np.polynomial.chebyshev.chebval(x, coefficients.T)
