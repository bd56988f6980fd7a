"""What "it was given out because it passed" tells: the exact attack on a grid, with and without the selection.

A person's own values are drawn as everybody else's records let expect, and releases given them; a release is given
out if by the rule it discloses nothing of this person, at most so many being drawn. Then the adversary's posterior
is p(x | release)·1[passes if x is true]·w(x), w = (1 − (1 − P)^M)/P of M attempts and P = P(passes | x)
(docs/selection.md). The others stand at mean 0 with the covariance matrix I: nothing else of them matters.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise, product

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import stdtr

from allbutone.disclosure.rule import HALFWAY, USUAL, USUAL_TOLERANCE, Rule
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW

REACH = {1: (9.0, 901), 2: (8.0, 129)}  # the grid: to so many standard deviations, so many points a side
BLOCK = 64  # releases that are looked at together, in two columns; more in one
NODES = 64  # values of the person at which the chance to pass is simulated, in one column


@dataclass(frozen=True)
class Setting:
    """A table of `people` in p columns, of which `datasets` of `rows` rows are drawn under the flat prior."""

    p: int
    datasets: int
    people: int = 20
    rows: int = 20
    rule: Rule = USUAL

    @cached_property
    def others(self) -> NIW:
        """What the adversary's own records say."""
        n = self.people - 1
        return NIW.flat(self.p).update(Moments(float(n), np.zeros(self.p), (n - 1) * np.eye(self.p)))

    @cached_property
    def axis(self) -> Float[np.ndarray, " g"]:
        """The values of a column that are looked at."""
        reach, points = REACH[self.p]
        return np.linspace(-reach, reach, points)

    @cached_property
    def grid(self) -> Float[np.ndarray, "*g p"]:
        """All values of the person that are looked at."""
        return np.stack(np.meshgrid(*[self.axis] * self.p, indexing="ij"), axis=-1)

    @cached_property
    def before(self) -> Float[np.ndarray, "*g"]:
        """The log density of the person's values without a release."""
        return self.others.predictive().log_density(self.grid)

    @cached_property
    def tolerance(self) -> Float[np.ndarray, " g"]:
        """How near a guess must come to each value: as the rule has it, of a table that the value is in."""
        n = self.people
        spread = np.sqrt((n - 2 + (n - 1) / n * self.axis**2) / (n - 1))
        return np.maximum(USUAL_TOLERANCE * spread, HALFWAY * np.abs(self.axis))

    def people_at_random(self, rng: np.random.Generator, count: int) -> Float[np.ndarray, "count p"]:
        """Draw what the person's values may be, given everybody else's."""
        return self.others.predictive().draw(rng, count)

    def posteriors(
        self, rng: np.random.Generator, truth: Float[np.ndarray, "r p"]
    ) -> Iterator[tuple[slice, "Posteriors"]]:
        """Draw a release for each of these values, and yield the posteriors, some at a time."""
        many = BLOCK if self.p == 2 else 16 * BLOCK
        for start in range(0, len(truth), many):
            some = slice(start, min(start + many, len(truth)))
            yield some, Posteriors(self, sum(self._opinion(rng, truth[some]) for _ in range(self.datasets)))  # type: ignore[arg-type]

    def _opinion(self, rng: np.random.Generator, truth: Float[np.ndarray, "r p"]) -> Float[np.ndarray, "r *g"]:
        """Draw a dataset for each value; return log p(x | others, dataset) − log p(x | others) on the grid."""
        r, p, rows = len(truth), self.p, self.rows
        whole, n = self.others, float(self.others.mean_weight)
        scale = np.asarray(whole.scale) + n / (n + 1) * truth[:, :, None] * truth[:, None]
        # Σ = CF(CF)ᵀ with (FFᵀ)⁻¹ ~ W(ν + 1, I)
        spread = np.linalg.cholesky(scale) @ np.linalg.inv(_bartlett(rng, r, p, whole.df + 1)).mT
        noise = rng.standard_normal((r, p)) * np.sqrt(1 / (n + 1) + 1 / rows)
        mean = truth / (n + 1) + (spread @ noise[..., None])[..., 0]
        half = spread @ _bartlett(rng, r, p, rows - 1)
        after = NIW(np.zeros(p), n + rows, float(whole.df) + rows, np.eye(p))
        location = rows / (n + rows) * mean
        scatter = np.asarray(whole.scale) + half @ half.mT
        scatter += n * rows / (n + rows) * mean[:, :, None] * mean[:, None]
        away = self.grid - location.reshape(r, *[1] * p, p)
        inverse = np.linalg.inv(scatter)
        squares = np.einsum("r...p,rpq,r...q->r...", away, inverse, away, optimize=True)
        constant = after.predictive().log_density(np.zeros(p))
        heights = constant - 0.5 * np.linalg.slogdet(scatter)[1].reshape(r, *[1] * p)
        weight = (n + rows) / (n + rows + 1)
        return heights - 0.5 * (float(whole.df) + rows + 1) * np.log1p(weight * squares) - self.before

    @cached_property
    def baseline(self) -> Float[np.ndarray, " g"]:
        """The probability of the interval around each value of a column, without the release."""
        t = self.others.predictive()
        scale = float(np.sqrt(np.asarray(t.scale)[0, 0]))
        low, high = ((self.axis + side * self.tolerance) / scale for side in (-1, 1))
        return np.asarray(stdtr(t.df, high) - stdtr(t.df, low))


@dataclass(frozen=True, eq=False)
class Posteriors:
    """What is known of the person after r releases: evidence is the log likelihood ratio at each of the grid."""

    setting: Setting
    evidence: Float[np.ndarray, "r *g"]

    @cached_property
    def mass(self) -> Float[np.ndarray, "r *g"]:
        """The probability of each point of the grid."""
        logs = self.evidence + self.setting.before
        return _normalised(np.exp(logs - _over_grid(np.max, logs)))

    @cached_property
    def passes(self) -> Bool[np.ndarray, "r *g"]:
        """Whether each release would have passed, were each value of the grid the person's own."""
        setting, rule = self.setting, self.setting.rule
        member = rule.membership_of(self.evidence.reshape(-1))
        fails = rule.discloses_membership(member).reshape(self.evidence.shape)
        for column in range(setting.p):
            rest = tuple(1 + each for each in range(setting.p) if each != column)
            shape = [1] * (setting.p + 1)
            shape[1 + column] = -1
            # who lacks the record; the others' columns are uncorrelated, so that both judge by one interval
            for mass in (np.sum(self.mass, axis=rest, keepdims=True), self.mass if rest else None):
                if mass is not None:
                    conditional = mass / np.maximum(np.sum(mass, axis=1 + column, keepdims=True), 1e-300)
                    inside = _inside(setting, conditional, 1 + column)
                    without = self._without(column, bool(mass is self.mass))
                    fails |= rule.discloses(inside, np.broadcast_to(without, inside.shape))
        return ~fails

    def _without(self, column: int, rest_known: bool) -> Float[np.ndarray, "*g"]:
        """Return the probability of the interval around each value of a column, without the release."""
        setting = self.setting
        if not rest_known:
            shape = [1] * (setting.p + 1)
            shape[1 + column] = -1
            return setting.baseline.reshape(shape)
        prior = np.exp(setting.before)[None]
        return _inside(setting, prior / np.sum(prior, axis=1 + column, keepdims=True), 1 + column)

    @cached_property
    def would_have_failed(self) -> Float[np.ndarray, " r"]:
        """q: the probability of the values of which the verdict would have failed."""
        return 1 - np.sum(self.mass * self.passes, axis=tuple(range(1, self.mass.ndim)))

    def given_that_it_passed(self, weight: Float[np.ndarray, "*g"] | float = 1.0) -> "Posteriors":
        """Return the posteriors of who knows that it was given out because it passed; weight: w(x)."""
        found = replace(self)
        found.__dict__["mass"] = _normalised(self.mass * self.passes * weight)
        return found

    @cached_property
    def guess(self) -> tuple[Float[np.ndarray, " r"], Float[np.ndarray, "r 2"]]:
        """The surest guess of the first column that would disclose it if right: its probability, and ends."""
        setting = self.setting
        alone = np.sum(self.mass, axis=tuple(range(2, self.mass.ndim)))
        inside = np.where(setting.baseline < 0.5, _inside(setting, alone, 1), 0.0)
        best = np.argmax(inside, axis=1)
        ends = np.stack([setting.axis[best] + side * setting.tolerance[best] for side in (-1, 1)], axis=1)
        return inside[np.arange(len(best)), best], ends

    def at(self, truth: Float[np.ndarray, "r p"]) -> Bool[np.ndarray, " r"]:
        """Say which releases passed, given what the person's values are: at the nearest point of the grid."""
        step = self.setting.axis[1] - self.setting.axis[0]
        places = np.rint((truth - self.setting.axis[0]) / step).astype(int)
        places = np.clip(places, 0, len(self.setting.axis) - 1)
        return self.passes[np.arange(len(truth)), *places.T]


def chances_to_pass(setting: Setting, rng: np.random.Generator, releases: int) -> Float[np.ndarray, " g"]:
    """Return P(passes | x) at each value of one column, simulated at some of them."""
    nodes = np.linspace(0, setting.axis[-1], NODES)
    truth = np.repeat(nodes, releases)[:, None]
    passed = np.concatenate([found.at(truth[some]) for some, found in setting.posteriors(rng, truth)])
    # between nodes straight; one release that passed is the least that is believed
    each = np.maximum(np.mean(passed.reshape(NODES, releases), axis=1), 1 / releases)
    return np.interp(np.abs(setting.axis), nodes, each)


@dataclass(frozen=True, eq=False)
class Outcome:
    """What was stated of each of r releases that went out, and whether it was so; and what was found on the way.

    failed: the share of first draws that did not pass. q: of each release that went out, the probability that it
    would have failed. stated, true: by posteriors without and with the selection.
    """

    failed: float
    q: Float[np.ndarray, " r"]
    stated: tuple[np.ndarray, np.ndarray]
    true: tuple[np.ndarray, np.ndarray]


def selected(
    setting: Setting,
    rng: np.random.Generator,
    tables: int,
    attempts: int = 1,
    chances: Float[np.ndarray, " g"] | None = None,
    select: bool = True,
) -> Outcome:
    """Draw tables and releases, at most so many attempts each, and state a guess of what goes out.

    chances: P(passes | x), which more than one attempt needs. Without `select` all first draws go out.
    """
    left = setting.people_at_random(rng, tables)
    weight: np.ndarray | float = 1.0
    if attempts > 1:
        assert chances is not None
        weight = (1 - (1 - chances) ** attempts) / chances
    q, stated, true, failed = [], ([], []), ([], []), 0.0
    for attempt in range(attempts):
        remaining = []
        for some, found in setting.posteriors(rng, left):
            passed = found.at(left[some]) | (not select)
            truth, out = left[some][passed], Posteriors(setting, found.evidence[passed])
            q.append(out.would_have_failed)
            for place, each in enumerate((out, out.given_that_it_passed(weight) if select else out)):
                share, ends = each.guess
                stated[place].append(share)
                true[place].append((truth[:, 0] >= ends[:, 0]) & (truth[:, 0] <= ends[:, 1]))
            remaining.append(left[some][~passed])
        left = np.concatenate(remaining)
        failed = len(left) / tables if attempt == 0 else failed
        if not len(left):
            break
    both = [tuple(np.concatenate(each) for each in kind) for kind in (stated, true)]
    return Outcome(failed, np.concatenate(q), *both)  # type: ignore[arg-type]


def _bartlett(rng: np.random.Generator, many: int, p: int, df: float) -> Float[np.ndarray, "many p p"]:
    """Draw lower triangles whose squares are W(df, I)."""
    found = np.tril(rng.standard_normal((many, p, p)), -1)
    found[:, range(p), range(p)] = np.sqrt(rng.chisquare(df - np.arange(p), (many, p)))
    return found


def _inside(setting: Setting, mass: Float[np.ndarray, "r *g"], axis: int) -> Float[np.ndarray, "r *g"]:
    """Return the mass, along one axis, of the interval around each value; within a step it is even."""
    below = np.cumsum(mass, axis=axis) - mass / 2
    step, start = setting.axis[1] - setting.axis[0], setting.axis[0]

    def up_to(end: Float[np.ndarray, " g"]) -> Float[np.ndarray, "r *g"]:
        place = np.clip((end - start) / step, 0, len(end) - 1)
        lower = np.minimum(place.astype(int), len(end) - 2)
        shape = [1] * mass.ndim
        shape[axis] = -1
        share = (place - lower).reshape(shape)
        return (1 - share) * np.take(below, lower, axis=axis) + share * np.take(below, lower + 1, axis=axis)

    return up_to(setting.axis + setting.tolerance) - up_to(setting.axis - setting.tolerance)


def _over_grid(what: np.ufunc, values: Float[np.ndarray, "r *g"]) -> Float[np.ndarray, "r *ones"]:
    return what(values, axis=tuple(range(1, values.ndim)), keepdims=True)


def _normalised(mass: Float[np.ndarray, "r *g"]) -> Float[np.ndarray, "r *g"]:
    return mass / np.maximum(_over_grid(np.sum, mass), 1e-300)


BINS = (0.0, 0.3, 0.5, 0.7, 1.01)


def lines(setting: Setting, rng: np.random.Generator, tables: int, attempts: int, more: int) -> Iterator[str]:
    """Yield what goes into the table of docs/selection.md: stated and true, by how sure it was."""
    chances = chances_to_pass(setting, rng, more) if attempts > 1 else None
    free = selected(setting, rng, tables, select=False)
    kept = selected(setting, rng, tables, attempts, chances)
    columns = ((free.stated[0], free.true[0]), (kept.stated[0], kept.true[0]), (kept.stated[1], kept.true[1]))
    for low, high in pairwise(BINS):
        cells = []
        for stated, true in columns:
            here = (stated >= low) & (stated < high)
            many = int(np.sum(here))
            cells.append(f"{stated[here].mean():.2f} / {true[here].mean():.2f} ({many:,})" if many else "–")
        yield f"| {setting.p} | {setting.datasets} | {attempts} | {kept.failed:.1%} | {np.mean(kept.q):.3f} | " + (
            " | ".join(cells) + " |"
        )


def main() -> None:
    """Print the table."""
    line = argparse.ArgumentParser(prog="python -m replication.selection", description=__doc__)
    line.add_argument("--tables", type=int, default=20_000, help="of one column; a tenth as many of two")
    line.add_argument("--releases", type=int, default=1_000, help="at each value, for the chances to pass")
    line.add_argument("--seed", type=int, default=1)
    asked = line.parse_args()
    print("| columns | datasets | attempts | failed | mean q | all: stated / true | passed | corrected |")
    print("|---|---|---|---|---|---|---|---|")
    for p, datasets, attempts in [*product((1,), (1, 2, 6, 12), (1, 10)), *product((2,), (1, 2, 12), (1,))]:
        rng = np.random.default_rng([asked.seed, p, datasets, attempts])
        tables = asked.tables if p == 1 else max(1, asked.tables // 10)
        for text in lines(Setting(p, datasets), rng, tables, attempts, asked.releases):
            print(text, flush=True)


if __name__ == "__main__":
    main()
