"""The shadow attack: what the command that makes a release tells of people, seen by running it with and without
them.

Nothing has to be known of the tool. On the whole table it is run again and again, and as often without each of the
people who stand out most. Somebody who has everybody else's records looks at the rows and asks whether the person
is among them, and what the person's values are; how often they are right is counted.
"""

import json
import math
import os
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
from jaxtyping import Float, Int
from scipy.special import bdtr

from allbutone.disclosure.rule import Rule, near_truth
from allbutone.disclosure.simulated_budget import CutShort
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.other_tools.games import Rate
from allbutone.other_tools.side_by_side import SideBySide
from allbutone.support.errors import Cure, InputError, reason
from allbutone.tables.files import FORMATS, read_table
from allbutone.tables.records import Records

ALARMS = 0.01  # of people who are not in the table: false alarms at which hits are told
PEOPLE, ROUNDS, MINUTES = 10, 100, 30.0
ENOUGH = 400  # runs without a person that their own false alarms are told from; else those of all are
FEWEST = math.ceil(math.log(0.025) / math.log1p(-ALARMS))  # 97.5 % of so many have one beyond the true threshold
RIDGE = 1e-3  # standard deviations: levels that nobody else has leave no spread
TESTS = ("all rows together", "the nearest row")
GUESSES = ("differencing the means", "the nearest row", "regression on the rest")
Make = Callable[[Any], Any]


@dataclass(frozen=True)
class Hits:
    """How often one test says of a person in the table that they are, at 1 % false alarms; 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Shadowed:
    """What the attack found of one person.

    hits: by each test. column, guess: the value that is guessed best with the person in the table, and how;
    within: how often it comes within the value's tolerance, with the person in the table and without; error: the
    median of how far off it is, in standard deviations, with and without. Chosen in every second run, and told of
    the others.
    """

    place: int
    hits: dict[str, Hits]
    column: str = ""
    guess: str = ""
    within: tuple[Rate, Rate] = field(default=(Rate(0, 0), Rate(0, 0)))
    error: tuple[float, float] = (np.nan, np.nan)

    @property
    def best(self) -> tuple[str, Hits]:
        """The test that finds the person most surely."""
        return max(self.hits.items(), key=lambda each: (each[1].low, each[1].value))

    def is_member(self, rule: Rule) -> bool:
        """Say whether membership is disclosed: where the test says yes, it is so with the rule's probability."""
        odds = rule.membership / (1 - rule.membership) / rule.membership_odds
        return self.best[1].low >= odds * ALARMS

    def is_told(self, rule: Rule) -> bool:
        """Say whether the value is disclosed, by the lower end of how often the guess is right."""
        with_person, without = self.within
        if not with_person.of:
            return False
        return bool(rule.discloses(np.array([with_person.interval[0]]), np.array([without.value]))[0])


@dataclass(frozen=True)
class Shadow:
    """The attack's findings on the people who stand out most, of so many rounds; `ended`: what ended it early.

    repeats: whether the command gave the same rows twice: it draws with a fixed seed, and its noise hides nothing.
    """

    people: tuple[Shadowed, ...]
    rounds: int
    ended: str = ""
    repeats: bool = False

    @property
    def rounds_needed(self) -> int:
        """How many rounds it takes until anybody can be found at 1 % false alarms."""
        return max(2, -(-FEWEST // max(1, len(self.people))))


@dataclass(frozen=True, eq=False)
class _Attacked:
    """The table as the attack sees it: numbers without gaps, and what counts as knowing a value."""

    records: Records
    matrix: Float[np.ndarray, "n d"]
    low: Float[np.ndarray, "n p"]
    high: Float[np.ndarray, "n p"]
    kept: dict[int, tuple[Moments, float]] = field(default_factory=dict)

    @classmethod
    def of(cls, records: Records) -> "_Attacked":
        near = near_truth(records)
        return cls(records, _matrix(records, SideBySide.of(records, [records]).people), near.low, near.high)

    @property
    def standing_out(self) -> Int[np.ndarray, " n"]:
        """People, who stands out most first: by their distance from all, in all columns."""
        centred = self.matrix - self.matrix.mean(axis=0)
        scatter = centred.T @ centred + RIDGE**2 * len(centred) * np.eye(centred.shape[1])
        return np.argsort(-np.vecdot(centred, np.linalg.solve(scatter, centred.T).T), kind="stable")

    def look(self, rows: SideBySide, place: int) -> tuple[Float[np.ndarray, " t"], Float[np.ndarray, "g p"]]:
        """Return the tests' statistics for one person, and the guesses of the measurements, by these rows."""
        released = _matrix(self.records, rows.rows)
        target, (others, before) = self.matrix[place], self.without(place)
        both = self._model(others.merge(Moments.of(released)))
        evidence = float(both.predictive().log_density(target)) - before
        parts = _parts(rows, place)
        away = parts.sum(axis=1)
        statistics = np.array([evidence, -float(np.log(away.min() + 1e-12))])
        guesses = np.empty((len(GUESSES), len(self.records.columns)))
        guesses[0] = (len(self.matrix) * released.mean(axis=0) - others.count * others.mean)[: guesses.shape[1]]
        for column, name in enumerate(self.records.columns):
            guesses[1, column] = released[np.argmin(away - parts[:, rows.names.index(name)]), column]
            known = np.arange(len(target)) != column
            slope = np.linalg.solve(both.scale[np.ix_(known, known)], both.scale[known, column])
            guesses[2, column] = both.mean[column] + (target[known] - both.mean[known]) @ slope
        return statistics, guesses

    def without(self, place: int) -> tuple[Moments, float]:
        """Return the moments of everybody else, and the person's log density by them; kept, for every run asks."""
        if place not in self.kept:
            others = Moments.of(np.delete(self.matrix, place, axis=0))
            before = float(self._model(others).predictive().log_density(self.matrix[place]))
            self.kept[place] = others, before
        return self.kept[place]

    def _model(self, moments: Moments) -> NIW:
        d = self.matrix.shape[1]
        if d == len(self.records.columns) and not self.records.has_gaps:
            return NIW.flat(d).update(moments)
        return NIW(np.zeros(d), 1e-6, float(d + 1), RIDGE**2 * np.eye(d)).update(moments)


def _parts(rows: SideBySide, place: int) -> Float[np.ndarray, "rows f"]:
    """Return the distance of one person to each row, column by column: as `nearest` adds them up."""
    person, released = rows.people[place], rows.rows
    both = np.concatenate([rows.people, released])
    spread = np.nanmax(both, axis=0) - np.nanmin(both, axis=0)
    apart = np.abs(released - person) / np.where(spread > 0, spread, 1.0)
    apart = np.where(rows.is_category, released != person, apart)
    return np.where(np.isnan(released) | np.isnan(person), np.isnan(released) != np.isnan(person), apart)


def _matrix(records: Records, values: Float[np.ndarray, "n f"]) -> Float[np.ndarray, "n d"]:
    """Return rows as numbers: measurements on the scale of the model, levels as 0 and 1, gaps as the mean."""
    measured = [records.order.index(name) for name in records.columns]
    own = records.schema.to_model(values[:, measured]) if measured else np.empty((len(values), 0))
    middle = np.nanmean(records.values, axis=0)
    parts = [np.where(np.isnan(own), middle, own)]
    for name, levels in zip(records.categories.columns, records.categories.levels, strict=True):
        column = values[:, records.order.index(name)]
        parts.append((column[:, None] == np.arange(1, len(levels))).astype(float))
    return np.concatenate(parts, axis=1)


def shadow(
    records: Records,
    table: Any,
    command: str | Make,
    *,
    people: int = PEOPLE,
    rounds: int = ROUNDS,
    minutes: float = MINUTES,
    state: Path | None = None,
    watch: Callable[[int], None] = lambda runs: None,
) -> Shadow:
    """Attack the people who stand out most by running what makes a release with and without each of them.

    command: the holder's own, with {table} and {out} where the names of files go; or a function of a table that
    returns rows. table: as the command gets it, all columns of it, with the rows of the records. state: a file
    with what earlier runs found, which goes on from there. `watch` is called after each run.
    """
    if people < 1 or rounds < 2 or not minutes > 0:
        raise InputError("a shadow attack needs at least one person, two rounds, and time", "ask for more")
    if records.schema.visits is not None:
        raise InputError(
            "a shadow attack leaves out a row for each person, and here people have several",
            "bring each person into one row first",
        )
    attacked = _Attacked.of(records)
    targets = attacked.standing_out[: min(people, len(records.values))].tolist()
    make = command if callable(command) else Command.of(command)
    frame = nw.from_native(table, eager_only=True)
    done = _State(state, _digest(records, command, targets))
    ended, limit = "", time.monotonic() + 60 * minutes
    try:
        for turn in range(rounds):
            for place in (None, *targets):
                if done.has(turn, place):
                    watch(1)
                    continue
                if time.monotonic() >= limit:
                    raise TimeoutError
                left = limit - time.monotonic()
                done.add(turn, place, *_one_run(attacked, frame, make, place, targets, left))
                watch(1)
    except TimeoutError:
        ended = "the time was up"
    except CutShort:
        ended = "it was ended"
    return _findings(attacked, targets, done, ended)


def _one_run(
    attacked: _Attacked, frame: Any, make: Any, place: int | None, targets: Sequence[int], seconds: float
) -> tuple[list[Any], str]:
    """Make a release of everybody, or of all but one; return what it shows of all targets, or of that one."""
    records = attacked.records
    kept = np.ones(len(frame), dtype=bool)
    if place is not None:
        kept[records.rows[place] - 1] = False
    given = frame.filter(kept.tolist()).to_native()
    made = make(given, seconds) if isinstance(make, Command) else make(given)
    rows = SideBySide.of(records, made if isinstance(made, list | tuple) else [made])
    looked = [attacked.look(rows, target) for target in (targets if place is None else [place])]
    digest = sha256(np.ascontiguousarray(rows.rows).tobytes()).hexdigest()
    return [[statistics.tolist(), guesses.tolist()] for statistics, guesses in looked], digest


def _digest(records: Records, command: Any, targets: Sequence[int]) -> str:
    """Return what must be the same for runs to be of one attack."""
    content = repr((command if isinstance(command, str) else "", records.order, list(targets))).encode()
    return sha256(content + np.ascontiguousarray(records.values).tobytes()).hexdigest()


class _State:
    """What runs have found, in memory, and in a file line by line where one is named."""

    def __init__(self, path: Path | None, digest: str) -> None:
        self.runs: dict[tuple[int, int | None], tuple[list[Any], str]] = {}
        self.path = path
        if path is None:
            return
        if path.exists():
            lines = path.read_text(encoding="utf-8").splitlines()
            if not lines or json.loads(lines[0]).get("digest") != digest:
                raise InputError(
                    f"{path} holds the runs of another table, command or people",
                    Cure("name another file", "out"),
                    "delete it, to begin anew",
                )
            for line in lines[1:]:
                try:
                    turn, place, found, rows = json.loads(line)
                except ValueError:  # the last line of a run that was stopped while it was written
                    continue
                self.runs[turn, place] = found, rows
        else:
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(json.dumps({"digest": digest}) + "\n")

    def has(self, turn: int, place: int | None) -> bool:
        return (turn, place) in self.runs

    def add(self, turn: int, place: int | None, found: list[Any], rows: str) -> None:
        self.runs[turn, place] = found, rows
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps([turn, place, found, rows]) + "\n")

    def whole_rounds(self, targets: Sequence[int]) -> list[int]:
        every = sorted({turn for turn, _ in self.runs})
        return [turn for turn in every if all(self.has(turn, place) for place in (None, *targets))]


@dataclass(frozen=True)
class Command:
    """A command of the holder's, split into words once: no shell reads it, and names of files are words of it."""

    words: tuple[str, ...]

    @classmethod
    def of(cls, command: str) -> "Command":
        """Check that it says where the table and the rows go."""
        try:
            words = tuple(shlex.split(command))
        except ValueError as error:
            raise InputError(f"the command cannot be read: {error}", "close its quotes") from error
        absent = [each for each in ("{table}", "{out}") if not any(each in word for word in words)]
        if absent:
            raise InputError(
                f"the command does not say {' and '.join(absent)}",
                'write them where the files go: --shadow "python make.py {table} {out}"',
            )
        return cls(words)

    def __call__(self, table: Any, seconds: float) -> list[Any]:
        """Run it on a table, as a CSV file in a folder that only we can read; return the tables that it wrote."""
        with tempfile.TemporaryDirectory(prefix="allbutone-") as folder:
            file, out = Path(folder) / "table.csv", Path(folder) / "rows.csv"
            nw.from_native(table, eager_only=True).write_csv(file)
            words = [each.replace("{table}", str(file)).replace("{out}", str(out)) for each in self.words]
            self._run(words, Path(folder) / "errors.txt", seconds)
            return [read_table(each) for each in _written(out)]

    def _run(self, words: list[str], errors: Path, seconds: float) -> None:
        with errors.open("wb") as said:
            try:
                process = subprocess.Popen(
                    words, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
                )
            except OSError as error:
                raise InputError(
                    f"{words[0]!r} cannot be run: {reason(error)}",
                    "name a program; for pipes and variables write them to a script, and name that",
                ) from error
            try:
                code = process.wait(timeout=seconds)
            except BaseException as stopped:
                os.killpg(process.pid, 9)  # the one that was started here, with what it started
                process.wait()
                if isinstance(stopped, subprocess.TimeoutExpired):
                    raise TimeoutError from stopped
                raise
        if code:
            last = errors.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
            raise InputError(
                f"the command ended with {code}: {last[0][:300] if last else 'it said nothing'}",
                "run it by hand on a copy of the table without one row",
            )


def _written(out: Path) -> list[Path]:
    """Return the file that a command wrote, or the tables in the folder that it made."""
    if out.is_file():
        return [out]
    found = sorted(each for each in out.glob("*") if each.name.endswith(tuple(FORMATS))) if out.is_dir() else []
    if not found:
        raise InputError(
            "the command wrote no rows to {out}", Cure("let it write a .csv file, or a folder of them")
        )
    return found


def _findings(attacked: _Attacked, targets: Sequence[int], done: _State, ended: str) -> Shadow:
    rounds = done.whole_rounds(targets)
    whole = [done.runs[turn, None][1] for turn in rounds]
    if len(rounds) < 2:
        return Shadow((), len(rounds), ended or "too few rounds")
    with_person, without = [], []
    for at, place in enumerate(targets):
        with_person.append([done.runs[turn, None][0][at] for turn in rounds])
        without.append([done.runs[turn, place][0][0] for turn in rounds])
    tested = [np.array([[each[0] for each in runs] for runs in side]) for side in (with_person, without)]
    guessed = [
        np.array([[each[1] for each in runs] for runs in side], dtype=float) for side in (with_person, without)
    ]
    hits = [membership_hits(tested[0][:, :, test], tested[1][:, :, test]) for test in range(len(TESTS))]
    found = []
    for at, place in enumerate(targets):
        each = {test: hits[which][at] for which, test in enumerate(TESTS)}
        found.append(_value(attacked, place, each, guessed[0][at], guessed[1][at]))
    return Shadow(tuple(found), len(rounds), ended, len(set(whole)) < len(whole))


def membership_hits(
    with_person: Float[np.ndarray, "people runs"], without: Float[np.ndarray, "people runs"]
) -> list[Hits]:
    """Return how often a statistic is beyond what it reaches in 1 % of the runs without the person, of each.

    Of few runs the threshold is told from everybody's, each in units of their own spread. The interval holds what
    the threshold and the hits do not tell: the first by ranks, the second by Wilson.
    """
    middle = np.median(without, axis=1, keepdims=True)
    spread = np.std(without, axis=1, keepdims=True)
    spread = np.where(spread > 1e-12 * (1 + np.abs(middle)), spread, 1.0)
    own = without.shape[1] >= ENOUGH
    pooled = np.sort(((without - middle) / spread).ravel())
    found = []
    for at in range(len(without)):
        scale = np.sort(without[at]) if own else middle[at] + spread[at] * pooled
        low, threshold, high = _thresholds(scale)
        shares = [
            Rate(int(np.sum(with_person[at] > each)), with_person.shape[1]) for each in (low, threshold, high)
        ]
        found.append(Hits(shares[1].value, shares[2].interval[0], shares[0].interval[1]))
    return found


def _thresholds(ordered: Float[np.ndarray, " m"]) -> tuple[float, float, float]:
    """Return what 1 % lie above: its lower end by ranks, the estimate, and its upper end, infinite of too few."""
    m = len(ordered)
    above = np.arange(m + 1)  # so many of m lie above the true threshold: binomial
    below = bdtr(above, m, ALARMS)
    fewest, most = int(np.searchsorted(below, 0.025)), int(np.searchsorted(below, 0.975))
    low = float(ordered[max(0, m - 1 - most)])
    high = float(ordered[m - fewest]) if fewest > 0 else np.inf
    return low, float(np.quantile(ordered, 1 - ALARMS)), high


def _value(
    attacked: _Attacked,
    place: int,
    hits: dict[str, Hits],
    with_person: Float[np.ndarray, "runs g p"],
    without: Float[np.ndarray, "runs g p"],
) -> Shadowed:
    if not len(attacked.records.columns):
        return Shadowed(place, hits)
    low, high, truth = (each[place] for each in (attacked.low, attacked.high, attacked.records.values))
    right = [(each >= low) & (each <= high) for each in (with_person, without)]
    gain = np.mean(right[0][::2], axis=0) - np.mean(right[1][::2], axis=0)
    guess, column = np.unravel_index(int(np.argmax(gain)), gain.shape)
    told = [Rate(int(np.sum(each[1::2, guess, column])), len(each[1::2])) for each in right]
    sd = float(np.nanstd(attacked.records.values[:, column])) or 1.0
    off = [
        float(np.nanmedian(np.abs(each[1::2, guess, column] - truth[column]))) / sd
        for each in (with_person, without)
    ]
    return Shadowed(
        place, hits, attacked.records.columns[column], GUESSES[guess], (told[0], told[1]), (off[0], off[1])
    )
