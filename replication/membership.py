"""Membership measured: the stated trade-off curve against simulated releases, and attacks by shadow models.

`python -m replication.membership` writes docs/records/membership.md.
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float
from scipy.special import logsumexp
from scipy.stats import rankdata
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import allbutone as abo
from allbutone.disclosure.epsilon import PrivacyLoss
from allbutone.disclosure.exposure_law import ExposureLaw
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW, Normal
from allbutone.releases.mechanism import Mechanism
from allbutone.tables.records import Records

ALARMS = np.array([0.01, 0.05, 0.2, 0.5])  # shares of false alarms at which the curve is looked at
BLOCK = 10_000  # releases that are drawn together
BINS = 10  # of a histogram
KERNEL = 0.5  # standard deviations: the width of a density by kernels
MOST_COLUMNS = 3  # of a query
NEAR = (0.25, 0.5, 1.0)  # standard deviations from the person in every column


# The curve: p columns, n people of whom one is so many standard deviations out, datasets of so many rows.


@dataclass(frozen=True)
class Curve:
    """A person so far out among n people in p columns, and so many datasets of `rows` rows, or draws (None)."""

    p: int
    people: int
    away: float
    count: int
    rows: int | None

    @cached_property
    def others(self) -> NIW:
        """What everybody else's records say, under the flat prior: mean 0 and covariance I."""
        n = self.people - 1
        return NIW.flat(self.p).update(Moments(float(n), np.zeros(self.p), (n - 1) * np.eye(self.p)))

    @cached_property
    def person(self) -> Float[np.ndarray, " p"]:
        """The person, as far out in each column."""
        return np.full(self.p, self.away / np.sqrt(self.p))

    def losses(self, rng: np.random.Generator, member: bool, releases: int) -> Float[np.ndarray, " r"]:
        """Draw releases row by row, with the person or without; return log p(Z | with)/p(Z | without)."""
        table = self.others.update(self.person[None]) if member else self.others
        blocks = [self._losses(rng, table, min(BLOCK, releases - at)) for at in range(0, releases, BLOCK)]
        return np.concatenate(blocks)

    def _losses(self, rng: np.random.Generator, table: NIW, many: int) -> Float[np.ndarray, " r"]:
        before = self.others.predictive().log_density(self.person)
        found, person = np.zeros(many), np.broadcast_to(self.person, (many, self.p))
        for _ in range(self.count):
            means, roots = table.draw_roots(rng, many)
            if self.rows is None:
                found += Normal(means, roots @ roots.mT).log_density(person) - before
                continue
            rows = means[:, None] + rng.standard_normal((many, self.rows, self.p)) @ roots.mT
            middle = rows.mean(axis=1)
            rows -= middle[:, None]
            model = self.others.update(Moments(np.full(many, float(self.rows)), middle, rows.mT @ rows))
            found += model.predictive().log_density(person) - before
        return found

    @property
    def released(self) -> str:
        """What is released, in words."""
        kind = "draw" if self.rows is None else "dataset"
        rows = "" if self.rows is None else f" of {self.rows} rows"
        return f"{self.count} {kind}{'s' * (self.count > 1)}{rows}"

    @property
    def stated(self) -> tuple[Float[np.ndarray, " k"], float]:
        """The hits at each share of false alarms, and the area, as `budget` and `privacy` state them."""
        kappa, scale = float(self.people - 1), self.people - 2  # the others' Λ is a multiple of I
        leverage = kappa / (kappa + 1) * np.sum(self.person**2) / scale
        law = ExposureLaw.of(NIW.flat(self.p), self.people, self.rows)
        found = PrivacyLoss(law, self.count).best_test(np.array([leverage]), ALARMS)
        assert found.exact.all()
        return 1 - found.misses[0], float(found.area[0])

    def measured(self, rng: np.random.Generator, releases: int) -> tuple[np.ndarray, np.ndarray, float, float]:
        """Return hits at each share of false alarms with standard errors, and the area with its own."""
        out, inside = (self.losses(rng, member, releases) for member in (False, True))
        threshold = np.quantile(out, 1 - ALARMS)
        hits = np.mean(inside[:, None] > threshold, axis=0)
        # false alarms that are off by e move the hits by e times the slope of the curve, exp(threshold)
        error = np.sqrt((hits * (1 - hits) + np.exp(2 * threshold) * ALARMS * (1 - ALARMS)) / releases)
        area, of_area = areas(np.stack([np.append(inside, out)]), np.repeat([True, False], releases))
        return hits, error, float(area[0]), float(np.sqrt(of_area[0, 0]))


def areas(
    scores: Float[np.ndarray, "s r"], members: Bool[np.ndarray, " r"]
) -> tuple[Float[np.ndarray, " s"], Float[np.ndarray, "s s"]]:
    """Return the area under the curve of each score, and their covariances, of the same releases (DeLong)."""
    inside, out = scores[:, members], scores[:, ~members]
    both = np.concatenate([inside, out], axis=1)
    ranks, m, n = rankdata(both, axis=1), inside.shape[1], out.shape[1]
    above = (ranks[:, :m] - rankdata(inside, axis=1)) / n  # the share of those without whom each member beats
    below = 1 - (ranks[:, m:] - rankdata(out, axis=1)) / m
    spread = np.atleast_2d(np.cov(above)) / m + np.atleast_2d(np.cov(below)) / n
    return above.mean(axis=1), spread


CURVES = (
    Curve(1, 50, 3.5, 1, 50),
    Curve(1, 100, 4.0, 3, 100),
    Curve(2, 50, 4.0, 1, 50),
    Curve(2, 100, 5.0, 2, 50),
    Curve(1, 50, 3.5, 1, None),
    Curve(2, 50, 4.0, 4, None),
)


# The attacks: what is known of shadow models, on the same releases as the likelihood ratio.


@dataclass(frozen=True, eq=False)
class Game:
    """Releases of a table with its last person, and as many without.

    person: their values, categories as codes. rows: of each release, its datasets one after the other. levels: how
    many each column has, 0 of a measurement. evidence: the log likelihood ratio of each release.
    """

    person: Float[np.ndarray, " d"]
    rows: Float[np.ndarray, "r m d"]
    levels: tuple[int, ...]
    evidence: Float[np.ndarray, " r"]
    members: Bool[np.ndarray, " r"]

    @classmethod
    def drawn(
        cls, table: pd.DataFrame, rng: np.random.Generator, releases: int, datasets: int, size: int
    ) -> "Game":
        """Draw so many releases of the table, and so many of it without its last person."""
        everybody = Records.of(table, categories=True)
        others = everybody.take(np.arange(len(table) - 1))
        rows, evidence = [], []
        for each in (everybody, others):
            synthesizer = abo.Synthesizer().fit(each)
            drawn = synthesizer.sample(datasets=releases * datasets, rows=size, rng_for_tests=rng).tables
            rows.append(np.stack([_numbers(one) for one in drawn]).reshape(releases, datasets * size, -1))
            found = evidence_of(synthesizer.mechanism, everybody, drawn)
            evidence.append(found.reshape(releases, datasets).sum(axis=1))
        levels = (*[0] * len(everybody.columns), *map(len, everybody.categories.levels))
        members = np.repeat([True, False], releases)
        return cls(_numbers(everybody)[-1], np.concatenate(rows), levels, np.concatenate(evidence), members)

    @cached_property
    def apart(self) -> Float[np.ndarray, "r m d"]:
        """How far each row is from the person: in standard deviations, or 0 or 1 of a category."""
        away, measured = self.rows - self.person, np.array(self.levels) == 0
        spread = self.rows.std(axis=(0, 1))
        return np.where(measured, away / np.where(spread > 0, spread, 1), away != 0)

    @cached_property
    def summaries(self) -> Float[np.ndarray, "r f"]:
        """Means, medians, variances, histograms and correlations of each release (the Groundhog attack's)."""
        found = []
        for column, levels in enumerate(self.levels):
            values = self.rows[:, :, column]
            if levels:
                found += [np.mean(values == level, axis=1) for level in range(levels)]
                continue
            found += [values.mean(axis=1), np.median(values, axis=1), values.var(axis=1)]
            edges = np.linspace(*np.quantile(values, [0.001, 0.999]), BINS + 1)[1:-1]
            place = np.searchsorted(edges, values)
            found += [np.mean(place == one, axis=1) for one in range(BINS)]
        white = self.rows - self.rows.mean(axis=1, keepdims=True)
        white /= np.maximum(np.sqrt(np.sum(white**2, axis=1, keepdims=True)), 1e-12)
        correlations = white.mT @ white
        upper = np.triu_indices(len(self.levels), 1)
        return np.column_stack([*found, correlations[:, *upper]])

    @cached_property
    def queries(self) -> Float[np.ndarray, "r f"]:
        """How many rows agree with the person, in every set of three columns at most (queries, as in TAPAS).

        A measurement agrees that is no smaller, or no larger, or within some distance.
        """
        ways = [
            [self.apart[:, :, column] == 0]
            if levels
            else [self.apart[:, :, column] <= 0, self.apart[:, :, column] >= 0]
            + [np.abs(self.apart[:, :, column]) <= near for near in NEAR]
            for column, levels in enumerate(self.levels)
        ]
        found = [
            np.sum(reduce(np.logical_and, chosen), axis=1)
            for size in range(1, MOST_COLUMNS + 1)
            for columns in combinations(ways, size)
            for chosen in product(*columns)
        ]
        return np.column_stack(found).astype(float)

    @cached_property
    def distances(self) -> Float[np.ndarray, "r m"]:
        """The distance of each row to the person, over all columns."""
        return np.linalg.norm(self.apart, axis=2)

    @property
    def density(self) -> Float[np.ndarray, " r"]:
        """The density of each release's rows at the person, by a kernel of half a standard deviation."""
        return logsumexp(-0.5 * (self.distances / KERNEL) ** 2, axis=1)


def _numbers(records: Records) -> Float[np.ndarray, "n d"]:
    return np.hstack([records.values, records.categories.codes])


def evidence_of(mechanism: Mechanism, everybody: Records, drawn: Sequence[Records]) -> Float[np.ndarray, " r"]:
    """Return log p(x | others, dataset) − log p(x | others) of the last person, for each dataset."""
    split = mechanism.split(everybody)
    person, last = split.take(np.array([len(everybody.values) - 1])), len(everybody.values) - 1
    others = mechanism.prior.update(split.take(np.arange(last)))
    before = others.predictive().log_density(person)
    after = [others.update(mechanism.split(each)).predictive().log_density(person) for each in drawn]
    return np.ravel(after) - before


def shadows() -> dict[str, Any]:
    """Return the classifiers that shadow models train, by name."""
    return {
        "forest": RandomForestClassifier(100, min_samples_leaf=3, random_state=0, n_jobs=1),
        "logistic": make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)),
    }


def scores(game: Game, tried: Bool[np.ndarray, " r"]) -> dict[str, Float[np.ndarray, " t"]]:
    """Return how each attack ranks the releases that are tried; some have seen the others, labelled."""
    found = {"likelihood ratio": game.evidence[tried]}
    for features in ("summaries", "queries"):
        known = getattr(game, features)
        for name, classifier in shadows().items():
            classifier.fit(known[~tried], game.members[~tried])
            found[f"{features}, {name}"] = classifier.predict_proba(known[tried])[:, 1]
    found["closest row"] = -game.distances[tried].min(axis=1)
    found["rows within one deviation"] = np.sum(game.distances[tried] <= 1, axis=1).astype(float)
    found["density at the person"] = game.density[tried]
    return found


def beaten(game: Game) -> Iterator[tuple[str, float, float, float, float]]:
    """Yield of each attack its area, how much the likelihood ratio's is larger, that one's error, and its hits.

    Of the releases every second is tried, the others are what shadow models learn from.
    """
    tried = np.arange(len(game.members)) % 2 == 0
    found, members = scores(game, tried), game.members[tried]
    every = np.stack(list(found.values()))
    area, spread = areas(every, members)
    for place, name in enumerate(found):
        error = np.sqrt(max(spread[0, 0] + spread[place, place] - 2 * spread[0, place], 0.0))
        threshold = np.quantile(every[place, ~members], 1 - ALARMS[1])
        yield name, area[place], area[0] - area[place], error, np.mean(every[place, members] > threshold)


def people(rng: np.random.Generator, count: int, p: int, away: float, categories: bool = False) -> pd.DataFrame:
    """Return normal people in p columns, the last so far out; with categories also a rare level of theirs."""
    values = rng.standard_normal((count, p))
    values[-1] = away / np.sqrt(p)
    table = pd.DataFrame(values, columns=[f"x{column}" for column in range(p)])
    if categories:
        table["stage"] = rng.choice(["one", "two", "three"], count, p=[0.5, 0.35, 0.15])
        table["arm"] = rng.choice(["new", "old"], count)
        table.loc[count - 1, "stage"] = "three"
    return table


# words, people, columns, deviations, datasets and their rows, whether there are categories
GAMES = (
    ("1 column, 40 people, 1 dataset of 40 rows", 40, 1, 3.0, 1, 40, False),
    ("2 columns, 40 people, 2 datasets of 40 rows", 40, 2, 3.5, 2, 40, False),
    ("5 columns, 100 people, 1 dataset of 100 rows", 100, 5, 6.0, 1, 100, False),
    ("2 columns and 2 categories, 60 people, 1 dataset of 60 rows", 60, 2, 3.0, 1, 60, True),
)


def page(releases: int, shadow_releases: int, seed: int) -> Iterator[str]:
    """Yield the lines of docs/records/membership.md."""
    rng, started = np.random.default_rng(seed), time.process_time()
    yield HEAD.format(releases=releases)
    alarms = " | ".join(f"{alarm:.0%}" for alarm in ALARMS)
    yield f"| columns | people | how far out | what is released | | {alarms} | area |"
    yield "|---|---|---|---|---|" + "---|" * (len(ALARMS) + 1)
    worst = 0.0
    for curve in CURVES:
        stated, area = curve.stated
        hits, error, found, of_area = curve.measured(rng, releases)
        worst = max(worst, *np.abs(hits - stated) / error, abs(found - area) / of_area)
        told = f"| {curve.p} | {curve.people} | {curve.away:g} SD | {curve.released} |"
        yield f"{told} stated | " + " | ".join(f"{one:.4f}" for one in (*stated, area)) + " |"
        cells = [f"{one:.4f} ± {e:.4f}" for one, e in zip((*hits, found), (*error, of_area), strict=True)]
        yield "| | | | | measured | " + " | ".join(cells) + " |"
    yield f"\nThe largest difference of these {len(CURVES) * (len(ALARMS) + 1)} is {worst:.1f} standard errors.\n"
    yield SHADOWS.format(releases=shadow_releases)
    nearest = []
    for words, count, p, away, datasets, size, categories in GAMES:
        game = Game.drawn(people(rng, count, p, away, categories), rng, shadow_releases, datasets, size)
        yield f"**{words}**, the person {away:g} standard deviations out.\n"
        yield "| attack | area | the likelihood ratio's is larger by | hits at 5 % false alarms |"
        yield "|---|---|---|---|"
        for name, area, more, error, hits in beaten(game):
            nearest.append((more / error if error else np.inf, name))
            larger = f"{more:+.3f} ± {error:.3f}" if name != "likelihood ratio" else "–"
            yield f"| {name} | {area:.3f} | {larger} | {hits:.2f} |"
        yield ""
    closest, name = min(nearest)
    less = f"the likelihood ratio's area less its own is {closest:+.1f} standard errors"
    yield f"Nothing comes nearer than {name}: {less}.\n"
    yield f"Seed {seed}; {time.process_time() - started:.0f} seconds of processor time."


HEAD = """# Membership, measured

Written by `python -m replication.membership`. The likelihood ratio of [the theory](../theory.md), section 9, is
held against two things: releases drawn row by row, and attacks by shadow models.

## The stated trade-off curve beside simulated releases

`budget` and `privacy` state, before anything is drawn, how often the best test finds a person at so many false
alarms, and the area under that curve. Here {releases:,} releases are drawn of a table with the person and as many
without, the likelihood ratio of each is computed from its rows, and hits are counted. Everybody else has mean 0
and covariance I; the prior is flat. ±: one standard error, that of the threshold included.
"""

SHADOWS = """## Attacks by shadow models, on the same releases

The attacker knows table, mechanism and person, and sees {releases:,} releases that are labelled *with* or
*without*. Each attack is tried on {releases:,} others. *Summaries*: means, medians, variances, histograms and
correlations, as the Groundhog attack takes them (Stadler, Oprisanu and Troncoso). *Queries*: how many rows agree
with the person in every set of three columns at most, as TAPAS asks (Houssiau and others) and as *Achilles' Heels*
does; here also rows within a quarter, a half and one standard deviation. Both are learned by a forest of 100 trees
and by logistic regression. The last three learn nothing: the closest row, the rows nearby, a kernel's density at
the person. The features were written anew after the published programs. ±: one standard error of the difference,
of the same releases (DeLong).
"""


def main() -> None:
    """Print the page."""
    line = argparse.ArgumentParser(prog="python -m replication.membership", description=__doc__)
    line.add_argument("--releases", type=int, default=100_000, help="with the person, and as many without")
    line.add_argument(
        "--shadows", type=int, default=2_000, help="releases to learn from, and as many to be tried on"
    )
    line.add_argument("--seed", type=int, default=1)
    asked = line.parse_args()
    for text in page(asked.releases, asked.shadows, asked.seed):
        print(text, flush=True)


if __name__ == "__main__":
    main()
