"""What it tells that a release was given out because it passed (docs/selection.md): q, for the release at hand."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from allbutone.disclosure.exposure_law import leverages
from allbutone.disclosure.question import EVIDENCE
from allbutone.disclosure.risk import risk_columns
from allbutone.disclosure.rule import Rule
from allbutone.model.moments import Moments
from allbutone.releases.mechanism import Mechanism
from allbutone.releases.several import Released, parts_of
from allbutone.support.text import chance
from allbutone.tables.records import Records

DRAWS = 80  # values that the person may have
NEXT_TO_NOTHING = 0.005  # a share so small that no other value gains by it


@dataclass(frozen=True)
class Selection:
    """How probable the values are of which a release would have failed, were they a person's own.

    row: the person, counted from 1; called: what the table calls them. share: q, by the adversary's posterior;
    error: its standard error.
    """

    row: int
    share: float
    error: float
    called: str = ""

    @property
    def gain(self) -> float:
        """By what every value that would have passed becomes more probable, of one draw that passed."""
        return 1 / max(1 - self.share, 1e-3)

    @property
    def tells(self) -> bool:
        """Whether anything worth telling can be excluded."""
        return self.share >= NEXT_TO_NOTHING

    @property
    def in_words(self) -> str:
        """What the adversary can exclude because it was given out."""
        whose = self.called or f"row {self.row}"
        if not self.tells:
            return (
                f"Of the values that {whose} may have by this release, it would have failed for hardly any "
                f"({chance(self.share)}, standard error {100 * self.error:.1f} points): that it was given out "
                "because it passed tells little."
            )
        return (
            f"Of the values that {whose} may have by this release, it would have failed for "
            f"{chance(self.share)} (standard error {100 * self.error:.1f} points): who knows that it was given "
            "out because it passed excludes these, and every other becomes up to "
            f"{self.gain:.2f} times as probable, and more if it was drawn until one passed."
        )


def selection_of(
    records: Records,
    release: Released,
    columns: dict[str, np.ndarray],
    rule: Rule,
    draws: int = DRAWS,
    **asked: Any,
) -> Selection | None:
    """Return of whom most can be excluded if a release goes out because it passed.

    Of who is nearest to being disclosed by it, or who stands out most: by leverage, in a table with categories by
    membership. None where the table has gaps, classes, kept columns or columns computed from others, where it was
    released in several ways, or where membership is not judged.
    """
    mechanism = release.mechanism
    several = len(parts_of(release)) > 1 or bool(records.schema.derived)
    if records.has_gaps or mechanism.has_classes or mechanism.keep or several or EVIDENCE not in columns:
        return None
    nearest = np.argmax(np.maximum(columns["risk"], columns["membership"]))
    standing = columns["membership"]
    if mechanism.is_normal:
        standing = leverages(records.values, mechanism.require_prior())
    every = [
        would_have_failed(records, release, int(place), rule, draws, **asked)
        for place in dict.fromkeys((nearest, np.argmax(standing)))
    ]
    return max(every, key=lambda one: one.share)


def would_have_failed(
    records: Records, release: Released, place: int, rule: Rule, draws: int = DRAWS, **asked: Any
) -> Selection:
    """Return how probable the values of somebody are of which the release would have failed.

    Values are drawn as the others' records let expect, and weighed by the likelihood of the release, which is what
    their membership is told by: so they are the adversary's posterior. Each is judged as if it were the person's
    own. Only that person's verdict counts: those of others hardly depend on it.
    """
    others, possible = possible_records(records, release.mechanism, place, draws)
    evidence, failed = np.empty(draws), np.empty(draws, dtype=bool)
    for number in range(draws):
        person = possible.take(np.array([number]))
        # the same points for all, which are drawn once, and every time this is asked
        points = np.random.default_rng(0)
        one = risk_columns(person, release, elsewhere=others, rule=rule, mass=False, rng=points, **asked)
        evidence[number] = one[EVIDENCE][0]
        failed[number] = one["disclosed"][0] or one["membership_disclosed"][0]
    weights = np.exp(evidence - evidence.max())
    weights /= weights.sum()
    share = float(weights @ failed)
    many = 1 / float(weights @ weights)
    seen = (many * share + 0.5) / (many + 1)  # that none of so few failed does not say that none would
    error = float(np.sqrt(max(np.sum((weights * (failed - share)) ** 2), seen * (1 - seen) / (many + 1))))
    return Selection(int(records.rows[place]), share, error, records.who(place))


def possible_records(records: Records, mechanism: Mechanism, place: int, draws: int) -> tuple[Moments, Records]:
    """Return the moments of everybody else, of each cell, and records drawn for somebody as these let expect."""
    model, everybody = mechanism.prior, mechanism.split(records)
    others = model.moments(everybody.take(np.arange(len(records.values)) != place))
    drawn = model.update(others).predictive().draw(np.random.default_rng(0), np.zeros((draws, 0)))
    own, given = records.categories.columns, model.cells.codes[drawn.cells]
    codes = given[:, [mechanism.categories.index(name) for name in own]]
    values = drawn.values[:, [mechanism.measurements.index(name) for name in records.columns]]
    many = records.take(np.full(draws, place))
    return others, replace(many, values=values, categories=replace(records.categories, codes=codes))
