"""Per record, in the language of differential privacy: the exact ε of every record at a given δ.

It depends on the data: it informs the data holder, is confidential, and is no guarantee (`guarantee` gives one).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from jaxtyping import Bool, Float

from allbutone.disclosure.dataset_loss import DatasetLoss
from allbutone.disclosure.draw_loss import DrawLoss
from allbutone.disclosure.exposure_law import ExposureLaw, leverages
from allbutone.disclosure.loss_profile import epsilon
from allbutone.model.niw import NIW
from allbutone.model.prior_file import AnyPrior, declared_prior, prior_of
from allbutone.releases.private.accounting import DELTA, delta_of
from allbutone.releases.release import DatasetRelease, ParameterRelease
from allbutone.support.checks import count_of
from allbutone.support.errors import Cure, InputError
from allbutone.support.parallel import one_thread
from allbutone.tables.records import Records

FIRST_NODES, MOST_NODES = 8, 1024
# what new nodes may differ by from the interpolation of the old: with twice as many the error is about its square
CLOSE = 2e-4
PROBES = 6
MOST_AUGMENTED = 1e9
DENSE = 1 << 14  # points of the table that is looked up


def privacy(
    table: Any,
    prior: AnyPrior | None = None,
    *,
    draws: int | None = None,
    datasets: int | None = None,
    rows: int | None = None,
    delta: float = DELTA,
    **how_to_read: Any,
) -> Any:
    """Return a dataframe, in the table's own library, with the exact ε of each record: confidential, no guarantee.

    Of `draws` parameter draws, or of `datasets` of `rows` rows each (as many as the table has unless said).
    `epsilon` is the smallest ε for which no event becomes more than e^ε times, plus `delta`, as likely or
    unlikely by the record's presence, given all other records. `exact` is false where a dataset's own ε could
    not be had: there it is that of its parameters, which is never smaller. `gain_of_one` and `gain_of_one_sd`
    are the mean and standard deviation of the information gained at the truth from one draw or one dataset, in
    nats. The prior is as to `NIWSynthesizer`; how the table is read is said as to `Records.of`.

    >>> import allbutone as abo
    >>> found = abo.privacy(abo.demo_cohort(), draws=1)
    >>> found.column_names
    ['row', 'leverage', 'epsilon', 'exact', 'gain_of_one', 'gain_of_one_sd']
    """
    records = Records.of(table, **how_to_read)
    count, sizes = releases_of(draws, datasets, rows, len(records.values))
    delta = delta_of(delta, len(records.values))
    given = declared_prior(records.schema) if prior is None else prior_of(prior, records.columns, records.schema)
    people, p = records.values.shape
    if given.is_flat and people < p + 2:
        raise InputError(
            f"without one of them, {people} records leave the flat prior no distribution of {p} columns",
            Cure("give a prior from public knowledge", "prior"),
            Cure("use fewer columns", "drop"),
        )
    leverage = leverages(records.values, given)
    law = ExposureLaw.of(given, people, sizes)
    columns = {"row": records.rows, "leverage": leverage} | PrivacyLoss(law, count, delta).columns(leverage)
    return nw.from_dict(columns, backend=records.backend).to_native()  # type: ignore[arg-type]


def epsilons_of(records: Records, release: Any, prior: NIW) -> Float[np.ndarray, " n"] | None:
    """Return the ε of each record by this release: from the data, confidential, not a guarantee.

    Datasets of several sizes count as of the largest. None for releases of other kinds, or of too few records.
    """
    people, p = records.values.shape
    if not isinstance(release, ParameterRelease | DatasetRelease) or people < p + 3:
        return None
    rows = max(release.rows) if isinstance(release, DatasetRelease) else None
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


@dataclass(frozen=True)
class PrivacyLoss:
    """What ε and information gain depend on besides the leverage: p, κ, ν, rows, number released, and δ."""

    law: ExposureLaw
    count: int = 1
    delta: float = DELTA

    @one_thread()  # thousands of small products: threads of the linear algebra's own take ten times as long
    def columns(self, leverage: Float[np.ndarray, " n"]) -> dict[str, np.ndarray]:
        """Return for each leverage ε, whether it is exact, and mean and spread of one release's gain."""
        augmented = self.augmented(leverage)
        # Without the record, L goes down to about −ν·ℓ: as ℓ grows, ε(ℓ)/ℓ settles, and is the same to nine digits
        # from 10⁹ on, where 1 + 1/ℓ has none left.
        near = np.minimum(augmented, MOST_AUGMENTED)
        by_draws = np.max(looked_up(self._epsilons_of_draws, near), axis=0) * (augmented / near)
        exact = np.ones(len(augmented), dtype=bool)
        if self.law.rows is not None:
            own, exact = looked_up_while_known(self._epsilons_of_datasets, near)
            exact = exact & (augmented == near)
            by_draws = np.where(exact, np.minimum(np.max(own, axis=0), by_draws), by_draws)
        gain, spread = looked_up(self._gains, augmented)
        return {
            "epsilon": np.maximum(by_draws - self._shift, 0.0),
            "exact": exact,
            "gain_of_one": gain,
            "gain_of_one_sd": spread,
        }

    def augmented(self, leverage: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Return ℓ = (x − μ)ᵀΛ⁻¹(x − μ) + 1/κ from q = κ/(κ + 1)·(x − μ)ᵀΛ⁻¹(x − μ): 1 + ℓ = (1 + q)(κ + 1)/κ."""
        kappa = self.law.mean_weight
        return np.asarray(leverage) * (kappa + 1) / kappa + 1 / kappa

    @property
    def _shift(self) -> float:
        """Added to an ε to make it positive: ε ≥ log(1 − δ)."""
        return 2 * self.delta

    def _epsilons_of_draws(self, augmented: Float[np.ndarray, " k"]) -> Float[np.ndarray, "2 k"]:
        losses = [self._draw(augmented, reverse) for reverse in (False, True)]
        return np.array([epsilon(loss, self.delta, self.count) for loss in losses]) + self._shift

    def _epsilons_of_datasets(
        self, augmented: Float[np.ndarray, " k"], checked: bool = False
    ) -> Float[np.ndarray, "2 k"]:
        losses = [self._dataset(augmented, reverse) for reverse in (False, True)]
        found = [epsilon(loss, self.delta, self.count, checked=checked) for loss in losses]
        return np.array(found) + self._shift

    def _gains(self, augmented: Float[np.ndarray, " k"]) -> Float[np.ndarray, "2 k"]:
        loss = self._draw(augmented) if self.law.rows is None else self._dataset(augmented)
        _, mean, variance = loss.slopes(np.ones_like(augmented))
        return np.array([mean, np.sqrt(variance)])

    def _draw(self, augmented: Float[np.ndarray, " k"], reverse: bool = False) -> DrawLoss:
        return DrawLoss(self.law.p, self.law.mean_weight, self.law.df, augmented, reverse)

    def _dataset(self, augmented: Float[np.ndarray, " k"], reverse: bool = False) -> DatasetLoss:
        rows = self.law.rows
        assert rows is not None
        return DatasetLoss(self.law.p, self.law.mean_weight, self.law.df, augmented, rows, reverse)


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

    noted(np.unique(np.exp(np.linspace(np.log(at.min()), np.log(at.max()), PROBES))), checked=True)
    while True:
        first = min(unknown)
        last = max(each for each in known if each < first)
        below = at <= (last if np.isfinite(first) else np.inf)
        found = np.full((2, len(at)), np.nan)
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
