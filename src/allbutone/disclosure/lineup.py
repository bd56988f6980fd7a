"""The people of a table by their leverage, and how often releases disclose their values, in closed form."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float, Int
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import logit, ndtr

from allbutone.disclosure.exposure_law import ExposureLaw, leverages, together
from allbutone.disclosure.rule import Rule, near_truth
from allbutone.disclosure.standing import Standing, others_of
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.support.parallel import in_parallel
from allbutone.tables.records import Records

# The law of the rule: how often releases disclose a person's values, in closed form but for one sum.
#
# In whitened coordinates the posterior of a record, seen along the released precision's lowest axis, is
#
#     p(s, w) ∝ (1 + s² + ‖w‖²)^(a/2)·(1 + βs² + β₀‖w‖²)^(−K/2)·exp(tilt(s)),   a = (k−1)ν′, K = k(ν′+n), β₀ =
#     ν′/(ν′+n)
#
# with s along that axis and w across it; for parameters, the limit n → ∞, the second factor is exp(−½kν′(λ̂s² +
# ‖w‖²)). Over releases only three numbers vary: the eigenvalue β = λ̂β₀ (a spike's, normal: Baik, Ben Arous,
# Péché; Paul 2007), the tilt to the record's side, and how far the axis leans in a column's direction. ‖w‖² is
# concentrated, which leaves an integral over s, and for a column the probability of a normal interval.


NODES = 32  # of the integral over s
REACH = 6.5  # widths of a hill on either side
EIGENVALUES = np.linspace(-6.0, 2.0, 17)  # in standard deviations: the lower, the more is told
PEOPLE_AT_A_TIME = 8  # people
MOST_COLUMNS = 4  # of a person: those that stand out most, and the widest intervals
TILTS = hermegauss(7)  # of a standard normal: places and weights
LEANS = (-2.0, 0.0, 2.0)  # of the axis, in standard deviations
FIXED_POINT = 5  # steps towards the concentrated ‖w‖²


def _finer(places: Float[np.ndarray, " e"], times: int) -> tuple[np.ndarray, np.ndarray]:
    """Return what interpolates linearly to a finer grid, and the normal probability of each of its cells."""
    fine = np.linspace(places[0], places[-1], times * (len(places) - 1) + 1)
    edges = np.concatenate([[-np.inf], (fine[1:] + fine[:-1]) / 2, [np.inf]])
    return np.stack([np.interp(fine, places, one) for one in np.eye(len(places))], axis=1), np.diff(ndtr(edges))


FINER, SHARES = _finer(EIGENVALUES, 12)


def disclosure_chances(law: ExposureLaw, people: Standing, count: int) -> Float[np.ndarray, " m"]:
    """Return each person's chance that a release of `count` datasets, or draws, discloses a value of theirs."""
    people = people.most_telling(MOST_COLUMNS)
    parts = in_parallel(
        lambda at: _chances(_Posteriors.of(law, people.take(slice(at, at + PEOPLE_AT_A_TIME)), count)),
        range(0, len(people.leverage), PEOPLE_AT_A_TIME),
    )
    return np.concatenate([np.zeros(0), *parts])


@dataclass(frozen=True, eq=False)
class _Posteriors:
    """The posteriors of some people after releases of each eigenvalue; axes (m, e), nodes last.

    places: s. log_heights: of p(s) without the tilt. across: the precision of each direction across the axis.
    tilt: the tilt at each place for a unit of the releases' lean; lean, noise: its mean and standard deviation.
    overlap: the cosine between the axis and the record.
    """

    law: ExposureLaw
    people: Standing
    places: Float[np.ndarray, "m e s"]
    log_heights: Float[np.ndarray, "m e s"]
    across: Float[np.ndarray, "m e s"]
    tilt: Float[np.ndarray, "m e s"]
    lean: Float[np.ndarray, "m 1"]
    noise: Float[np.ndarray, "m 1"]
    overlap: Float[np.ndarray, "m 1"]

    @classmethod
    def of(cls, law: ExposureLaw, people: Standing, count: int) -> "_Posteriors":
        """Find the spike of each person, the hills that go with its eigenvalues, and the lean."""
        q, nu, kappa = people.leverage[:, None], law.df + 1, law.mean_weight
        centre, spread, overlap = law.spike(q, count)
        eigenvalue = np.maximum(centre + spread * EIGENVALUES, 1e-6)
        outward = (count - 1) * nu
        shape = _Shape(outward, count, nu, law.rows, eigenvalue[..., None])
        top = np.sqrt(shape.mode)
        width = shape.width
        low = np.maximum(top - REACH * width, 0.0)
        s = low[..., None] + (top + REACH * width - low)[..., None] * (np.arange(NODES) + 0.5) / NODES
        squared, w = s * s, np.zeros_like(s)
        for _ in range(FIXED_POINT):
            w = (law.p - 1) / shape.across(squared, w)
        across = shape.across(squared, w)
        heights = shape.log_height(squared, w) + 0.5 * across * w - 0.5 * (law.p - 1) * np.log(across)
        # the released means lean towards the record by d/κ′, with the noise of what they were drawn from
        share = 1.0 if law.rows is None else law.rows / (kappa + law.rows)
        variance = (1 / (kappa + 1) + (0.0 if law.rows is None else 1 / law.rows)) * (1 + q) / (nu * count)
        away = np.sqrt(q * (kappa + 1) / kappa)
        lean = share * overlap * away / (kappa + 1)
        noise = share * np.sqrt(variance)
        return cls(law, people, s, heights, across, shape.tilt(s), lean, noise, overlap)


@dataclass(frozen=True, eq=False)
class _Shape:
    """p(s, w) of the module's opening, without the tilt, for the eigenvalues λ̂."""

    outward: float
    count: int
    df: float
    rows: int | None
    eigenvalue: Float[np.ndarray, "m e 1"]

    @property
    def bulk(self) -> float:
        """β₀ = ν′/(ν′ + n)."""
        assert self.rows is not None
        return self.df / (self.df + self.rows)

    @property
    def weight(self) -> float:
        """K of datasets."""
        assert self.rows is not None
        return self.count * (self.df + self.rows)

    @property
    def slope(self) -> Float[np.ndarray, "m e"]:
        """How fast p(s) falls at the centre: negative beyond the threshold."""
        return self.count * self.df * self.eigenvalue[..., 0] - self.outward

    @property
    def mode(self) -> Float[np.ndarray, "m e"]:
        """The squared place of the hill: ρ, 0 below the threshold."""
        beta = self.eigenvalue[..., 0]
        if self.rows is None:
            return np.maximum(-self.slope, 0.0) / (self.count * self.df * beta)
        beta = beta * self.bulk
        return np.maximum(-self.slope, 0.0) / (beta * (self.count * self.rows + self.df))

    @property
    def width(self) -> Float[np.ndarray, "m e"]:
        """About the width of the hill, by its curvature and, where that vanishes, by the fourth power."""
        fourth = np.full(self.eigenvalue.shape[:-1], self.outward)
        if self.rows is not None:
            fourth = fourth - self.weight * (self.eigenvalue[..., 0] * self.bulk) ** 2
        curvature = np.where(self.slope < 0, 2.0, 1.0) * np.abs(self.slope) / (1 + self.mode)
        return 1 / np.sqrt(curvature + np.sqrt(np.maximum(fourth, 1.0)))

    def log_height(self, s2: np.ndarray, w2: np.ndarray) -> np.ndarray:
        """Return log p at s² and ‖w‖²."""
        height = self.outward * np.log1p(s2 + w2)
        if self.rows is None:
            return 0.5 * (height - self.count * self.df * (self.eigenvalue * s2 + w2))
        return 0.5 * (height - self.weight * np.log1p(self.bulk * (self.eigenvalue * s2 + w2)))

    def across(self, s2: np.ndarray, w2: np.ndarray) -> np.ndarray:
        """Return the precision across the axis: minus twice the slope of log p in ‖w‖²."""
        found = -self.outward / (1 + s2 + w2)
        if self.rows is None:
            found = found + self.count * self.df
        else:
            found = found + self.weight * self.bulk / (1 + self.bulk * (self.eigenvalue * s2 + w2))
        return np.maximum(found, 1e-3 * self.df)

    def tilt(self, s: np.ndarray) -> np.ndarray:
        """Return how a unit of the releases' lean tilts log p at s."""
        found = self.count * self.df * self.eigenvalue * s
        return found if self.rows is None else found / (1 + self.bulk * self.eigenvalue * s * s)


def _chances(found: _Posteriors) -> Float[np.ndarray, " m"]:
    """Return the chance that any column reaches what it needs: over eigenvalues, tilts and leans of the axis.

    The columns share eigenvalue and tilt, but each has a lean of its own, in which the log odds of its interval
    are about linear. Between eigenvalues it is interpolated.
    """
    inside = [_inside(found, lean) for lean in LEANS]  # lean, side: (m, e, s, columns)
    chance, (tilts, weights) = np.zeros(len(found.lean)), TILTS
    needed = logit(np.minimum(found.people.needed, 1.0))[:, None]
    for tilt, weight in zip(tilts, weights, strict=True):
        held = _held(found, inside, tilt)
        low, middle, high = (FINER @ logit(np.clip(each, 1e-9, 1 - 1e-9)) for each in held)
        slope = np.maximum((np.maximum(low, high) - middle) / LEANS[2], 1e-6)
        none = np.prod(ndtr((needed - middle) / slope), axis=-1)
        chance += weight * ((1 - none) @ SHARES)
    return chance / np.sum(weights)


def _held(
    found: _Posteriors, inside: Sequence[Sequence[Float[np.ndarray, "m e s c"]]], tilt: float
) -> list[Float[np.ndarray, "m e c"]]:
    """Return the probability of each column's interval after releases of each eigenvalue, of this tilt."""
    pushed = found.tilt * (found.lean + found.noise * tilt)[..., None]
    top = np.max(found.log_heights + np.abs(pushed), axis=-1, keepdims=True)
    sides = [np.exp(found.log_heights + side * pushed - top) for side in (1, -1)]
    total = np.sum(sides[0] + sides[1], axis=-1)[..., None]
    return [
        sum(np.einsum("mes,mesc->mec", side, each) for side, each in zip(sides, both, strict=True)) / total
        for both in inside
    ]


def _inside(found: _Posteriors, lean: float) -> list[Float[np.ndarray, "m e s c"]]:
    """Return the probability of each column's interval at each place, on the record's side and on the other."""
    p, people, overlap = found.law.p, found.people, found.overlap
    away = people.distance[:, None]
    cosine = people.deviation / np.where(away > 0, away, 1.0)  # who stands at the centre has no direction
    aside = np.sqrt(np.maximum(1 - cosine**2, 0.0)) * np.sqrt(1 - overlap**2) / np.sqrt(max(p - 1, 1))
    along = np.clip(overlap * cosine + aside * lean, -1.0, 1.0)[:, None, None]
    unit = np.sqrt(found.law.df)  # of v, in standard deviations of the others
    middle = unit * found.places[..., None] * along
    spread = np.sqrt(np.maximum(1 - along**2, 0.0) / found.across[..., None])
    # never narrower than the places are apart
    step = (found.places[..., 1] - found.places[..., 0])[..., None, None] * np.abs(along)
    spread = unit * np.maximum(spread, 0.5 * step + 1e-12)
    middle = middle / spread
    low, high = people.low[:, None, None] / spread, people.high[:, None, None] / spread
    return [ndtr(high - middle) - ndtr(low - middle), ndtr(high + middle) - ndtr(low + middle)]


# The people of a table in the order of their leverage, and how much may be released before a rule is broken.


CONFIDENCE = 0.95
LARGEST_BUDGET = 1_000_000  # datasets
TOGETHER, ALL_OF = 16, 48  # people who are looked at together, and up to whom all are
CLOSE = 0.02  # to the largest number that is safe, where numbers are large
DIGITS = 9  # of chances, beyond which they count as the same
NEGLIGIBLE = 2e-3  # the chance that anyone of all who are not looked at is disclosed


@dataclass(frozen=True, eq=False)
class Lineup:
    """People from the highest leverage down; those whose chances matter are compared with their others.

    order: places in the table. look: returns the standing of some places. looked, known: what was looked at and
    computed already, by the first one's place and, for the chances, by the count.
    unseen: how many people there are besides, all of less leverage.
    """

    law: ExposureLaw
    leverage: Float[np.ndarray, " n"]
    order: Int[np.ndarray, " n"]
    look: Callable[[Int[np.ndarray, " m"]], Standing]
    looked: dict[int, Standing] = field(default_factory=dict)
    known: dict[tuple[int, int], Float[np.ndarray, " m"]] = field(default_factory=dict)
    unseen: int = 0

    @classmethod
    def of(
        cls, records: Records, prior: NIW, rows: int | None, rule: Rule, elsewhere: Moments | None = None
    ) -> "Lineup":
        """Line up a table's people before datasets of so many rows, or parameter draws (None).

        `elsewhere`: the moments of people who are not among these, and have less leverage.
        """
        values, unseen = records.values, 0 if elsewhere is None else int(elsewhere.count)
        moments = together(Moments.of(values), elsewhere)
        whole = prior.update(moments)
        leverage = leverages(values, prior, elsewhere, whole)

        def look(places: Int[np.ndarray, " m"]) -> Standing:
            others = others_of(values, prior, whole, places, leverage[places], elsewhere)
            return Standing.of(others, values[places], near_truth(records, whole=moments, rows=places), rule)

        law = ExposureLaw.of(prior, len(values) + unseen, rows)
        return cls(law, leverage, np.argsort(-leverage, kind="stable"), look, unseen=unseen)

    def chances(self, count: int, too_many: float = np.inf) -> Float[np.ndarray, " n"]:
        """Return the chance of each, in order, to be disclosed by a release of `count`.

        The first are looked at one by one, of the others ever fewer, and the chances between are interpolated.
        Who has less leverage has less chance: it ends where all that follow are negligible, or together too many.
        """
        people, starts, means = len(self.order), [], []
        chances, total, start = np.zeros(people), 0.0, 0
        while start < people:
            here = self._chances_of(start, count)
            chances[start : start + len(here)] = here
            starts.append(start + len(here) / 2)
            means.append(float(np.mean(here)))
            if len(starts) > 1:
                first = min(people, int(starts[-2]) + TOGETHER // 2)
                chances[first:start] = np.interp(np.arange(first, start), starts[-2:], means[-2:])
            total = float(np.sum(chances[: start + len(here)]))
            if total > too_many or means[-1] * (people - start + self.unseen) < NEGLIGIBLE:
                break
            start += TOGETHER if start < ALL_OF else start
        return chances

    def _chances_of(self, start: int, count: int) -> Float[np.ndarray, " m"]:
        if (start, count) not in self.known:
            if start not in self.looked:
                self.looked[start] = self.look(self.order[start : start + TOGETHER])
            self.known[start, count] = disclosure_chances(self.law, self.looked[start], count)
        return self.known[start, count]

    def _sum(self, chances: Float[np.ndarray, " n"]) -> float:
        """Return the sum of the chances; the unseen have at most the last one's."""
        return float(np.sum(chances) + self.unseen * np.mean(chances[-TOGETHER:]))

    def most(self, accepted: float = 1 - CONFIDENCE, watch: Callable[[int], None] = lambda done: None) -> int:
        """Return the largest count that discloses anyone with no more than the accepted chance; 0 if none does."""

        def safe(count: int) -> bool:
            watch(1)
            return self._sum(self.chances(count, accepted)) <= accepted

        def first_are(count: int) -> bool:
            return float(np.sum(self._chances_of(0, count))) <= accepted

        # the number that moves the first one's guess half-way, but for noise
        highest, ratio = max(float(self.leverage[self.order[0]]), 1e-12), self.law.ratio
        start = (4 * (1 + ratio / highest) + ratio - 1) / 3
        guess = largest(first_are, int(np.clip(start, 1, LARGEST_BUDGET)), LARGEST_BUDGET, CLOSE)
        return largest(safe, guess, guess, CLOSE)  # all allow no more than the first do


def likeliest(chances: Float[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """Return places in a lineup, who is likeliest to be disclosed first; then by leverage, then by row.

    `chances` as the lineup gives them, in its order. Whoever names a person of a table, before a release is drawn,
    takes it from here; rounding decides nothing.
    """
    return np.argsort(-chances.round(DIGITS), kind="stable")


def largest(safe: Callable[[int], bool], guess: int, most: int, close: float = 0.0) -> int:
    """Return the largest count up to `most` that is safe, or one so close below it; 0 if none is."""
    low, high = 0, min(guess, most)
    while high and safe(high):
        low = high
        if high == most:
            return most
        high = min(most, max(high + 1, int(1.5 * high)))
    step = 0.9
    while low == 0 and high > 1:  # the guess was too high
        lower = max(1, int(step * high))
        low, high, step = (lower, high, step) if safe(lower) else (0, lower, step**2)
    while high - low > max(1.0, close * high):
        middle = (low + high) // 2
        low, high = (middle, high) if safe(middle) else (low, middle)
    return low
