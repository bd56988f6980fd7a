"""The budget: how many datasets may be released before anyone is exposed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import narwhals as nw
import numpy as np
from jaxtyping import Bool, Float

from allbutone.disclosure.exposure_law import ExposureLaw, leverages
from allbutone.disclosure.per_record import RADIUS
from allbutone.disclosure.simulate import Simulated, simulate
from allbutone.model.niw import NIW
from allbutone.support.errors import InputError
from allbutone.tables.records import Records

CONFIDENCE = 0.95
MOST = 1000  # the largest number of datasets that is ever simulated
WORK = 5e7  # numbers in the wells that one simulation may hold: wide tables are simulated to fewer datasets
KINDS = ("exposure", "gain", "mass")


@dataclass(frozen=True)
class Limit:
    """What no record may pass: an exposure, an information gain in nats, or a gain in posterior mass."""

    kind: str
    value: float

    @classmethod
    def of(cls, text: str) -> "Limit":
        """Read `exposure=0.5`, `gain=1` or `mass=0.05`."""
        kind, _, number = text.partition("=")
        try:
            value = float(number)
        except ValueError:
            value = float("nan")
        if kind not in KINDS or not value > 0 or (kind != "gain" and value >= 1) or not np.isfinite(value):
            raise InputError(f"a limit reads exposure=0.5, gain=1 or mass=0.05, got {text!r}")
        return cls(kind, value)

    def passed(self, found: Simulated) -> Bool[np.ndarray, "q r"]:
        """Say where the limit is passed.

        An exposure counts as passed when the guess has come that share of the way, that is, within the rest of the
        distance: a guess that lands far beside the record has not found it, however far it has travelled.
        """
        if self.kind == "exposure":
            return found.relative_error <= 1 - self.value
        measure = found.gain if self.kind == "gain" else found.mass_gained
        assert measure is not None
        return measure > self.value

    def __str__(self) -> str:
        """Return the limit in words."""
        return {
            "exposure": f"exposure {self.value:g}",
            "gain": f"a gain of {self.value:g} nat{'' if self.value == 1 else 's'}",
            "mass": f"{self.value:g} of posterior mass gained",
        }[self.kind]


@dataclass(frozen=True, eq=False)
class Budget:
    """What may be released of a table, and what sets the limit."""

    setting: ExposureLaw
    limit: Limit
    leverage: Float[np.ndarray, " n"]
    counts: tuple[int, ...]
    law: int | None
    sure: int
    tried_up_to: int
    limiting_row: int
    law_without: int | None
    safe_leverage: dict[int, float] = field(default_factory=dict)
    beside: list[dict[str, Any]] = field(default_factory=list)
    trade: list[dict[str, Any]] = field(default_factory=list)
    what_if: list[dict[str, Any]] = field(default_factory=list)

    @property
    def what(self) -> str:
        """The thing that is counted: datasets of so many rows, or parameter draws."""
        return "parameter draws" if self.setting.rows is None else f"datasets of {self.setting.rows:,} rows"

    @property
    def sentence(self) -> str:
        """The verdict, for a board."""
        one = self.what.replace("draws", "draw").replace("datasets", "dataset")
        kept = f"every record below {self.limit} with {CONFIDENCE:.0%} confidence"
        if self.sure == 0:
            verdict = f"Not even one {one} leaves {kept}"
        elif self.sure == 1:
            verdict = f"One {one} leaves {kept}, two do not"
        elif self.sure < self.tried_up_to:
            verdict = f"Up to {self.sure:,} {self.what} leave {kept}"
        else:
            verdict = f"At least {self.sure:,} {self.what}, the most that were tried, leave {kept}"
        parts = [verdict]
        if self.law is not None:
            parts.append(f"by the law's average, up to {self.law:,}")
        parts.append(f"row {self.limiting_row} sets the limit")
        if self.law_without is not None:
            parts.append(f"without it that average would be {self.law_without:,}")
        return "; ".join(parts) + "."

    @property
    def assumptions(self) -> str:
        """What the verdict rests on, and what it is not."""
        return (
            "Assumed: the records are jointly normal; the prior was written without looking at them; the "
            "adversary has every other record, the release and the mechanism, and guesses by the posterior's "
            "mode. Records of less than average leverage are not counted: a guess near them is a guess near the "
            "crowd. This is a prediction, not a guarantee: an adversary who knows some features, or data that are "
            "not normal, can do better. Simulated releases of this very table can check it."
        )

    def columns(self) -> dict[str, np.ndarray]:
        """Return a row a record: leverage, threshold, the most datasets for the limit, exposures at the counts.

        `max_datasets` for an exposure is the law's; `sure_datasets` is the largest number tried that keeps a
        record of its leverage below the limit with 95 % confidence, and stands for both for other limits.
        """
        sure = np.zeros(len(self.leverage))
        for count, highest in sorted(self.safe_leverage.items()):
            sure[self.leverage <= highest] = count
        by_law = self.limit.kind == "exposure"
        found = {
            "row": np.arange(1, len(self.leverage) + 1),
            "leverage": self.leverage,
            "threshold_datasets": self.setting.threshold(self.leverage),
            "max_datasets": self.setting.most(self.leverage, self.limit.value) if by_law else sure,
        }
        found |= {f"exposure_at_{k}": self.setting.exposure(self.leverage, k) for k in self.counts}
        return found | ({"sure_datasets": sure} if self.safe_leverage else {})


def budget(
    table: Any,
    prior: NIW,
    *,
    rows: int | None,
    limit: str = "exposure=0.5",
    counts: Sequence[int] = (1, 2, 5, 10, 20, 50, 100),
) -> Any:
    """Return a dataframe, in the table's own library, with what each record allows to be released.

    `rows` a dataset, or None for released parameters. `plan_budget` gives the verdict over the whole table.
    """
    records, bound = Records.of(table), Limit.of(limit)
    if bound.kind == "exposure":  # the law needs no simulation
        setting, leverage = ExposureLaw.of(prior, len(records.values), rows), leverages(records.values, prior)
        worst = int(np.argmax(leverage)) + 1
        plan = Budget(setting, bound, leverage, tuple(counts), None, 0, 0, worst, None)
    else:
        plan = plan_budget(records, prior, rows=rows, limit=limit, counts=counts)
    return nw.from_dict(plan.columns(), backend=records.backend).to_native()  # type: ignore[arg-type]


def plan_budget(
    records: Records,
    prior: NIW,
    *,
    rows: int | None,
    limit: str = "exposure=0.5",
    counts: Sequence[int] = (1, 2, 5, 10, 20, 50, 100),
    rng: np.random.Generator | int | None = None,
    watch: Callable[[int], None] = lambda done: None,
) -> Budget:
    """Return how much may be released, by the closed form and with 95 % confidence by its exact distribution.

    The chance that any record passes is bounded by the sum of the records' own chances, each a function of its
    leverage, found by simulation on a grid of leverages. `watch` is called once for each number of datasets tried.
    """
    stream = np.random.default_rng(rng)
    setting, bound = ExposureLaw.of(prior, len(records.values), rows), Limit.of(limit)
    leverage = leverages(records.values, prior)
    order = np.argsort(-leverage)
    by_law = bound.kind == "exposure"
    tried: dict[int, float] = {}

    watched = leverage[standing_out(leverage)]

    def safe(count: int) -> bool:
        watch(1)
        found = _simulated(setting, watched, count, stream, bound.kind)
        chance = np.mean(bound.passed(found), axis=1)
        tried[count] = float(np.max(found.leverage[chance <= 1 - CONFIDENCE], initial=0.0))
        # a bound on the chance that some record passes: the sum of each one's own
        return float(np.sum(_read_off(found.leverage, chance, watched))) <= 1 - CONFIDENCE

    law = int(min(setting.most(leverage[order[0]], bound.value), 1e15)) if by_law else None
    most = int(np.clip(WORK / (11 * 200 * setting.p**2), 10, MOST))
    sure = _largest(safe, 1 if law is None else max(law, 1), most)
    # the same by record: a look-up in what the counts asked for would do, where that costs no sampling
    for count in counts if by_law else ():
        if count <= most and count not in tried:
            safe(count)
    changes = _what_if(records.values, prior, rows, bound, order) if by_law else []
    return Budget(
        setting,
        bound,
        leverage,
        tuple(counts),
        law,
        sure,
        most,
        int(order[0]) + 1,
        changes[0]["datasets"] if changes else None,
        tried,
        _beside(setting, leverage[order[0]], sure, stream),
        _trade(setting, leverage[order[0]], bound) if by_law and rows is not None else [],
        changes,
    )


def chances(plan: Budget, count: int, rng: np.random.Generator | int | None = None) -> Float[np.ndarray, " n"]:
    """Return each record's own chance to pass the limit by a release of `count`; 0 where it does not stand out."""
    watched = standing_out(plan.leverage)
    found = _simulated(plan.setting, plan.leverage[watched], count, np.random.default_rng(rng), plan.limit.kind)
    passed = np.mean(plan.limit.passed(found), axis=1)
    every = np.zeros(len(plan.leverage))
    every[watched] = _read_off(found.leverage, passed, plan.leverage[watched])
    return every


def standing_out(leverage: Float[np.ndarray, " n"]) -> Bool[np.ndarray, " n"]:
    """Say which records have at least the average leverage: a guess near any other is near the crowd, and luck."""
    return leverage >= np.mean(leverage)


def _simulated(
    setting: ExposureLaw, leverage: Float[np.ndarray, " w"], count: int, rng: np.random.Generator, kind: str
) -> Simulated:
    """Simulate a grid of leverages from the highest down, with as many replicates as are worth waiting for."""
    grid = np.geomspace(np.max(leverage), np.min(leverage) * (1 - 1e-9), 11)
    wells = 1 if setting.rows is None else count
    replicates = int(np.clip(WORK / (len(grid) * wells * setting.p**2), 200, 1000))
    if kind == "exposure":
        return simulate(setting, grid, count, replicates, rng)
    return simulate(setting, grid, count, 200, rng, RADIUS if kind == "mass" else None, gain=True)


def _read_off(
    grid: Float[np.ndarray, " q"], chance: Float[np.ndarray, " q"], leverage: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """Return each record's chance by its leverage, from those simulated on a grid from the highest down."""
    return np.interp(np.log(leverage), np.log(grid[::-1]), chance[::-1])


def _largest(safe: Callable[[int], bool], guess: int, most: int) -> int:
    """Return the largest count up to `most` that is safe, 0 if none, starting from a guess."""
    low, high = 0, min(guess, most)
    while safe(high):
        low = high
        if high == most:
            return most
        high = min(most, max(high + 1, int(1.5 * high)))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if safe(middle) else (low, middle)
    return low


def _law(values: Float[np.ndarray, "n p"], prior: NIW, rows: int | None, limit: Limit) -> int:
    highest = float(np.max(leverages(values, prior)))
    return int(min(ExposureLaw.of(prior, len(values), rows).most(highest, limit.value), 1e15))


def _beside(setting: ExposureLaw, leverage: float, count: int, rng: np.random.Generator) -> list[dict[str, Any]]:
    """Return every measure for the most exposed record, at one dataset and at the budget: none tells all alone."""
    found = {k: simulate(setting, np.array([leverage]), k, 100, rng, RADIUS) for k in {1, max(count, 1)}}
    table = []
    names = {
        "exposure": "exposure",
        "gain": "information gain (nats)",
        "mass_gained": f"mass gained within {RADIUS:g}",
    }
    for measure, name in names.items():
        row: dict[str, Any] = {"measure": name}
        for label, k in (("one", 1), ("budget", max(count, 1))):
            values = getattr(found[k], measure)[0]
            row[f"{label}_median"], row[f"{label}_95"] = (
                float(np.median(values)),
                float(np.quantile(values, CONFIDENCE)),
            )
        table.append(row)
    return table


def _trade(setting: ExposureLaw, leverage: float, limit: Limit) -> list[dict[str, Any]]:
    """Return what many small datasets allow against few large ones, for the most exposed record."""
    assert setting.rows is not None
    table = []
    for rows in sorted(
        {max(1, setting.rows // 10), max(1, setting.rows // 2), setting.rows, 2 * setting.rows, 10 * setting.rows}
    ):
        most = int(
            min(ExposureLaw(setting.p, setting.mean_weight, setting.df, rows).most(leverage, limit.value), 1e12)
        )
        table.append({"rows": rows, "datasets": most, "total_rows": most * rows})
    return table


def _what_if(
    values: Float[np.ndarray, "n p"], prior: NIW, rows: int | None, limit: Limit, order: np.ndarray
) -> list[dict[str, Any]]:
    """Return what dropping, or pulling in, the most exposed records would allow, recomputed from the table."""
    table = []
    for k in (1, 5):
        if len(values) <= k + 2:
            break
        worst = order[:k]
        kept = np.delete(values, worst, axis=0)
        table.append({"change": f"drop the {k} most exposed", "datasets": _law(kept, prior, rows, limit)})
        rest = prior.update(kept)
        distance = _distances(rest, values[order[k]][None])[0]
        pulled = values.copy()
        steps = values[worst] - rest.mean
        pulled[worst] = rest.mean + steps * np.minimum(1, distance / _distances(rest, values[worst]))[:, None]
        change = f"pull the {k} most exposed in to the next one's Mahalanobis distance ({distance:.3g})"
        table.append({"change": change, "datasets": _law(pulled, prior, rows, limit)})
    return table


def _distances(crowd: NIW, values: Float[np.ndarray, "k p"]) -> Float[np.ndarray, " k"]:
    """Return Mahalanobis distances by the crowd's E[Σ⁻¹] = νΛ⁻¹."""
    white = np.linalg.solve(crowd.root, (values - crowd.mean).T)
    return np.sqrt(crowd.df * np.sum(white * white, axis=0))
