"""L-BFGS-B without bounds, as R's optim and SciPy run it, for many functions of two variables at once.

The same algorithm step by step (Byrd, Lu, Nocedal, Zhu 1995; line search of Moré and Thuente 1994): five pairs of
memory, a first step of length one, the reference implementation's constants. Each function is at its own point of
its own search; those that have ended are left out of the next evaluation.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

MEMORY, ITERATIONS, EVALUATIONS = 5, 100, 20  # pairs; steps of a search; evaluations of a step
TOLERANCE = 1e7 * np.finfo(float).eps  # R's factr = 1e7
DECREASE, CURVATURE, NARROW = 1e-3, 0.9, 0.1

Function = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def maximise(function: Function, start: np.ndarray) -> np.ndarray:
    """Return where each search from `start` (2 × r) ends; function(x, which) gives values and gradients."""
    found = np.array(start)
    which = np.arange(start.shape[1])
    value, slope = function(start, which)
    now = _Searches.begun(start, -value, -slope)
    for _ in range(ITERATIONS * EVALUATIONS):
        at = now.x + now.step * now.direction
        value, slope = function(at, which)
        ended = now.advance(at, -value, -slope)
        if not ended.any():
            continue
        found[:, which[ended]] = now.x[:, ended]
        which, now = which[~ended], now.only(~ended)
        if not len(which):
            break
    return found


class _Searches:
    """The state of searches that go on: arrays whose last axis runs over them."""

    def __init__(self, **arrays: np.ndarray) -> None:
        self.__dict__.update(arrays)

    def __getattr__(self, name: str) -> Any:  # only what is missing: the arrays are attributes already
        raise AttributeError(name)

    @classmethod
    def begun(cls, x: np.ndarray, value: np.ndarray, slope: np.ndarray) -> "_Searches":
        size = x.shape[1]
        now = cls(
            x=np.array(x),
            value=value,
            slope=slope,
            moves=np.zeros((MEMORY, 2, size)),  # the newest first
            changes=np.zeros((MEMORY, 2, size)),
            held=np.zeros(size, dtype=int),
            iteration=np.zeros(size, dtype=int),
            direction=np.zeros((2, size)),
            line=np.zeros((len(_LINE), size)),
            evaluations=np.zeros(size, dtype=int),
        )
        now._start_lines(np.ones(size, dtype=bool))
        return now

    def only(self, kept: np.ndarray) -> "_Searches":
        return _Searches(**{name: array[..., kept] for name, array in self.__dict__.items()})

    @property
    def step(self) -> np.ndarray:
        return self.line[_LINE["step"]]

    def advance(self, at: np.ndarray, value: np.ndarray, slope: np.ndarray) -> np.ndarray:
        """Take in an evaluation of each; go on with its line, or with the next; return who has ended."""
        along = np.sum(slope * self.direction, axis=0)
        self.evaluations += 1
        first = self.line[_LINE["first_slope"]].copy()
        step = self.step.copy()
        landed = _go_on(self.line, value, along)
        stuck = ~landed & (self.evaluations >= EVALUATIONS)  # the reference implementation starts afresh
        self._remember(landed, at, slope, step * (along - first), -step * first)
        fell = np.where(landed, self.value - value, np.inf)
        ended = landed & (fell <= TOLERANCE * np.maximum(1, np.maximum(np.abs(self.value), np.abs(value))))
        self.x = np.where(landed, at, self.x)
        self.value, self.slope = np.where(landed, value, self.value), np.where(landed, slope, self.slope)
        self.iteration += landed
        ended |= (self.iteration >= ITERATIONS) | (stuck & (self.held == 0))
        ended |= landed & ~np.any(self.slope, axis=0)
        self.held = np.where(stuck, 0, self.held)
        self._start_lines((landed | stuck) & ~ended)
        return ended

    def _remember(self, landed, at, slope, curved, promised) -> None:
        """Keep the pair of a finished step, where the function bent enough along it."""
        moved = np.sum((at - self.x) * (slope - self.slope), axis=0) > 0  # not so after a step below rounding
        new = landed & moved & (curved > np.finfo(float).eps * promised)
        for kept, latest in ((self.moves, at - self.x), (self.changes, slope - self.slope)):
            kept[:, :, new] = np.concatenate([latest[None, :, new], kept[:-1][:, :, new]])
        self.held = np.minimum(self.held + new, MEMORY)

    def _start_lines(self, which: np.ndarray) -> None:
        direction = self._downhill()
        along = np.sum(direction * self.slope, axis=0)
        uphill = which & (along >= 0)
        self.held = np.where(uphill, 0, self.held)
        direction = np.where(uphill, -self.slope, direction)
        along = np.where(uphill, -np.sum(self.slope**2, axis=0), along)
        self.direction = np.where(which, direction, self.direction)
        length = np.sqrt(np.sum(direction**2, axis=0))
        # the first step of all, and only that, is at most one long
        step = np.where(self.iteration == 0, np.minimum(1 / np.maximum(length, 1e-300), 1e10), 1.0)
        self.line = np.where(which, _begin(step, self.value, along), self.line)
        self.evaluations = np.where(which, 0, self.evaluations)

    def _downhill(self) -> np.ndarray:
        """Return −H·g by the two loops over the pairs held."""
        turned, shares = self.slope.copy(), []
        for place in range(MEMORY):
            move, change = self.moves[place], self.changes[place]
            used = place < self.held
            product = np.where(used, np.sum(move * change, axis=0), 1.0)
            share = np.where(used, np.sum(move * turned, axis=0) / product, 0.0)
            turned = turned - share * change
            shares.append((share, product, used))
        newest = np.where(self.held > 0, np.sum(self.changes[0] ** 2, axis=0), 1.0)
        turned = turned * np.where(self.held > 0, shares[0][1] / newest, 1.0)
        for place in range(MEMORY - 1, -1, -1):
            share, product, used = shares[place]
            back = np.where(used, np.sum(self.changes[place] * turned, axis=0) / product, 0.0)
            turned = turned + self.moves[place] * np.where(used, share - back, 0.0)
        return -turned


_LINE = {
    name: place
    for place, name in enumerate(
        (
            "step", "first_value", "first_slope", "late", "bracketed", "width", "width_before", "low", "low_value",
            "low_slope", "high", "high_value", "high_slope", "least", "most",
        )
    )
}  # fmt: skip


def _begin(step: np.ndarray, value: np.ndarray, along: np.ndarray) -> np.ndarray:
    """Return the state of a line search before its first evaluation."""
    nothing = np.zeros_like(step)
    return np.stack([
        step, value, along, nothing, nothing, nothing + 1e10, nothing + 2e10, nothing, value, along, nothing,
        value, along, nothing, 5 * step,
    ])  # fmt: skip


def _go_on(line: np.ndarray, value: np.ndarray, along: np.ndarray) -> np.ndarray:
    """Take in the value and slope at the step (dcsrch); set the next step; return which lines are done."""
    step, start, first, late, bracketed, width, before, low, fl, gl, high, fh, gh, least, most = line
    bracketed = bracketed > 0
    wanted = start + step * DECREASE * first
    late = (late > 0) | ((value <= wanted) & (along >= min(DECREASE, CURVATURE) * first))
    done = (value <= wanted) & (np.abs(along) <= -CURVATURE * first)
    done |= bracketed & ((step <= least) | (step >= most) | (most - least <= NARROW * most))
    tilt = np.where(~late & (value <= fl) & (value > wanted), DECREASE * first, 0.0)
    new = _next_step(
        (low, fl - low * tilt, gl - tilt), (high, fh - high * tilt, gh - tilt),
        (step, value - step * tilt, along - tilt), bracketed, least, most,
    )  # fmt: skip
    low, fl, gl, high, fh, gh, moved, bracketed = new
    fl, gl, fh, gh = fl + low * tilt, gl + tilt, fh + high * tilt, gh + tilt
    apart = np.abs(high - low)
    moved = np.where(bracketed & (apart >= 0.66 * before), low + 0.5 * (high - low), moved)
    before, width = np.where(bracketed, width, before), np.where(bracketed, apart, width)
    least = np.where(bracketed, np.minimum(low, high), moved + 1.1 * (moved - low))
    most = np.where(bracketed, np.maximum(low, high), moved + 4.0 * (moved - low))
    moved = np.clip(moved, 0.0, 1e10)
    closed = bracketed & ((moved <= least) | (moved >= most) | (most - least <= NARROW * most))
    moved = np.where(closed, low, moved)
    line[:] = (moved, start, first, late, bracketed, width, before, low, fl, gl, high, fh, gh, least, most)
    return done


def _next_step(low, high, here, bracketed, least, most) -> tuple[np.ndarray, ...]:
    """Return a safeguarded step and the bracket it makes (dcstep), in each of its four cases."""
    (stx, fx, dx), (sty, fy, dy), (stp, fp, dp) = low, high, here
    with np.errstate(all="ignore"):
        opposite = dp * np.sign(dx) < 0
        theta = 3 * (fx - fp) / (stp - stx) + dx + dp
        size = np.maximum(np.abs(theta), np.maximum(np.abs(dx), np.abs(dp)))
        under = (theta / size) ** 2 - (dx / size) * (dp / size)
        higher = fp > fx
        root = size * np.sqrt(np.maximum(0, under))
        gamma = np.where(higher, np.where(stp < stx, -root, root), np.where(stp > stx, -root, root))
        # 1: a higher value
        cubic = stx + (gamma - dx + theta) / (gamma - dx + gamma + dp) * (stp - stx)
        parabola = stx + (dx / ((fx - fp) / (stp - stx) + dx)) / 2 * (stp - stx)
        one = np.where(np.abs(cubic - stx) < np.abs(parabola - stx), cubic, cubic + (parabola - cubic) / 2)
        # 2: lower, slopes of opposite sign
        cubic = stp + (gamma - dp + theta) / (gamma - dp + gamma + dx) * (stx - stp)
        secant = stp + dp / (dp - dx) * (stx - stp)
        two = np.where(np.abs(cubic - stp) > np.abs(secant - stp), cubic, secant)
        # 3: lower, the same sign, a smaller slope
        share = (gamma - dp + theta) / (gamma + (dx - dp) + gamma)
        far = np.where(stp > stx, most, least)
        cubic = np.where((share < 0) & (gamma != 0), stp + share * (stx - stp), far)
        nearer = np.abs(cubic - stp) < np.abs(secant - stp)
        inside = np.where(nearer, cubic, secant)
        limit = stp + 0.66 * (sty - stp)
        inside = np.where(stp > stx, np.minimum(limit, inside), np.maximum(limit, inside))
        outside = np.clip(np.where(nearer, secant, cubic), least, most)
        three = np.where(bracketed, inside, outside)
        # 4: lower, the same sign, the slope not smaller
        theta = 3 * (fp - fy) / (sty - stp) + dy + dp
        size = np.maximum(np.abs(theta), np.maximum(np.abs(dy), np.abs(dp)))
        root = size * np.sqrt(np.maximum(0, (theta / size) ** 2 - (dy / size) * (dp / size)))
        gamma = np.where(stp > sty, -root, root)
        cubic = stp + (gamma - dp + theta) / (gamma - dp + gamma + dy) * (sty - stp)
        four = np.where(bracketed, cubic, far)
    smaller = np.abs(dp) < np.abs(dx)
    moved = np.select([higher, opposite, smaller], [one, two, three], four)
    high = [np.where(higher, new, np.where(opposite, old, kept))
            for new, old, kept in zip(here, low, high, strict=True)]  # fmt: skip
    low = [np.where(higher, old, new) for old, new in zip(low, here, strict=True)]
    return (*low, *high, moved, bracketed | higher | opposite)
