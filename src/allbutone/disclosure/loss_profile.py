"""From the cumulants of a privacy loss to its exact δ(ε), and to the best test of whether a record is there."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Complex, Float
from scipy.special import ndtri, ndtri_exp

# One integral along a line, no simulation.
#
# A privacy loss L = log P/Q of two distributions of what is released has the cumulants K(s) = log E_Q[exp(sL)],
# so that K(0) = K(1) = 0. By Mellin's transform, for `count` independent releases and a line Re s = c to the right
# of all poles,
#
#     Q(L > t) = (1/2πi) ∫ exp(count·K(s) − s·t)/s ds
#     δ(ε) = E_Q[(e^L − e^ε)₊] = (1/2πi) ∫ exp(count·K(s) − (s − 1)·ε)/(s(s − 1)) ds
#
# The second is the smallest δ for which no event is more than e^ε times (plus δ) as likely under P as under Q. The
# line runs through the saddle of the whole integrand, poles included, so that it cannot come too near to a pole
# and nothing cancels.
#
# The best test of P against Q says "P" where L > t (Neyman and Pearson). It errs with the probabilities
# α = Q(L > t), a false alarm, and P(L ≤ t) = 1 − δ(t) − e^t·α, a miss: all from one line.


STEP = 0.125  # of the trapezoid rule in x, where Im s = width·sinh x; halving it changes nothing in 12 digits
BLOCK = 4  # points along the line at a time; it ends with the first block that is negligible
RISE = 2.0  # nats that the integrand's size may rise by along the line
ROUNDS = 200
AGREE = 1e-6  # of an ε, or of a separation, on two lines
NEARER = 0.85  # to the pole is the second line
TAIL, EXCESS = (0.0,), (0.0, 1.0)  # the poles of Q(L > t) and of δ(ε)


class Loss(ABC):
    """K(s) of one or several losses, one for each entry of the batch.

    negligible: the relative size from which exp K counts as 0: how exactly it is known. most_blocks: how far along
    the line K can be had, in blocks of points, each √e times as far as the last.
    """

    negligible: ClassVar[float] = 1e-16
    most_blocks: ClassVar[int] = 80

    @property
    def lean(self) -> float:
        """The angle by which the line may lean to the right on its way up, past the end, where K's formula lasts.

        There exp(−s·ε) falls. On an upright line it only turns, and where K falls slowly, as a power, the turns of
        its far end are too fast for any rule.
        """
        return 0.0

    @property
    def rough(self) -> "Loss":
        """The same, perhaps cheaper, to find a line by."""
        return self

    @property
    @abstractmethod
    def end(self) -> Float[np.ndarray, " batch"]:
        """The s up to which K is finite."""

    @abstractmethod
    def at(self, s: Complex[np.ndarray, "batch points"]) -> Complex[np.ndarray, "batch points"]:
        """Return K at complex s."""

    @abstractmethod
    def slopes(self, s: Float[np.ndarray, " batch"]) -> tuple[Any, Any, Any]:
        """Return K, K′ and K″ at real s."""


def epsilon(loss: Loss, delta: float, count: int = 1, *, checked: bool = False) -> Float[np.ndarray, " batch"]:
    """Return the ε at which δ(ε) = delta; it is 0 or less where even ε = 0 leaves a smaller δ.

    Not a number where the integrand does not end on the line. `checked` computes it on a second line, too, and
    it is not a number where the two differ, as they must not: what is known of K ends too early.
    """
    # Total variation is at most √(mean loss/2): where that is below δ already, ε = 0 serves and no line is needed.
    # So small a mean is half the variance, and of a rough sum has no digit of its own.
    _, mean, variance = loss.rough.slopes(np.ones_like(loss.end))
    nothing = count * np.maximum(mean, 0.5 * variance) <= 2 * delta**2
    c, level = _line_for_total(loss.rough, np.full_like(loss.end, delta), count, EXCESS, variance)
    line = _Line(loss, c, level, count)
    level, settled = _level_on_line(line, level, delta), line.settled
    if checked:
        line = _Line(loss, 1 + NEARER * (c - 1), level, count)
        other = _level_on_line(line, level, delta)
        settled = settled & line.settled & (np.abs(other - level) <= AGREE * np.maximum(np.abs(level), delta))
    return np.where(nothing, 0.0, np.where(settled, np.maximum(level, np.log1p(-delta)), np.nan))


def delta(loss: Loss, level: Float[np.ndarray, " batch"], count: int = 1) -> Float[np.ndarray, " batch"]:
    """Return δ(ε) at the levels ε given.

    Below the mean loss the line runs between 0 and 1, where it gives δ − 1: the pole at 1 has the residue 1.
    """
    c, below = _line_for_level(loss, level, count)
    line = _Line(loss, c, level, count)
    terms, top = line.scaled(level)
    total = terms.real.sum(axis=1) * np.exp(top)
    # beyond the largest loss no line ends, but the integrand's largest size bounds them all
    known = line.settled | (line.top < np.log(np.finfo(float).tiny))
    return np.where(known, np.clip(np.where(below, 1 + total, total), 0.0, 1.0), np.nan)


def separation(
    loss: Loss, false_alarms: Float[np.ndarray, " batch"], count: int = 1, *, checked: bool = False
) -> Float[np.ndarray, " batch"]:
    """Return the trade-off curve at these false alarms α: the μ for which N(0, 1) against N(μ, 1) is as hard.

    The best test of P against Q misses P with the probability Φ(Φ⁻¹(1 − α) − μ): so μ says the same, keeps its
    digits where misses are rare, and is the same at all α where the loss is normal. Not a number, and `checked`,
    as of `epsilon`.
    """
    _, mean, variance = loss.rough.slopes(np.zeros_like(loss.end))
    _, level = _line_for_total(loss.rough, np.minimum(false_alarms, 0.5), count, TAIL, variance)
    # in the lower half the saddle point's approximation is poor, and a normal's is good enough to find a line by
    normal = count * mean - ndtri(false_alarms) * np.sqrt(count * variance)
    level = np.where(false_alarms > 0.5, np.minimum(level, normal), level)
    c, below = _line_for_level(loss.rough, level, count)
    start = np.where(below, 0.0, 1.0)

    def on(c: Any) -> Any:
        line = _Line(loss, c, level, count)
        threshold = _level_on_line(line, level, false_alarms, tail=True)
        terms, top = line.scaled(threshold)
        total = (terms * (1 + line.s)).real.sum(axis=1)  # P(L > t), less 1 below
        with np.errstate(invalid="ignore", divide="ignore"):
            side = np.where(below, -1.0, 1.0)
            apart = side * ndtri_exp(np.minimum(np.log(side * total) + top, 0.0)) - ndtri(false_alarms)
        return np.where(line.settled, apart, np.nan)

    mu = on(c)
    if checked:
        mu = np.where(np.abs(on(start + NEARER * (c - start)) - mu) <= AGREE * (1 + mu), mu, np.nan)
    return np.maximum(mu, 0.0)


def separation_by_area(loss: Loss, count: int = 1) -> Float[np.ndarray, " batch"]:
    """Return the μ for which N(0, 1) against N(μ, 1) has the same area under its trade-off curve, Φ(−μ/√2).

    The area is the chance that the loss of a release of P lies below that of a release of Q; of L_P − L_Q the
    cumulants are K(1 + s) + K(−s), which on the line Re s = −½ is twice the real part of K(½ + iy). So it is
    (1/π)·∫₀^∞ |exp K(½ + iy)|²·2/(1 + 4y²) dy, by the same trapezoid rule.
    """
    value, _, curvature = loss.slopes(np.full_like(loss.end, 0.5))
    width = 1 / np.sqrt(2 * count * curvature + 8)[:, None]
    total, settled, lost = np.zeros(len(width)), np.zeros(len(width), dtype=bool), np.zeros(len(width), dtype=bool)
    lowest = np.full(len(width), np.inf)
    for block in range(Loss.most_blocks):
        x = STEP * (np.arange(BLOCK) + block * BLOCK)
        y = width * np.sinh(x)
        share = np.where(x == 0, 0.5, 1.0) * STEP / np.pi * width * np.cosh(x) * 2 / (1 + 4 * y * y)
        terms = share * np.exp(2 * count * (loss.at(0.5 + 1j * y).real - value[:, None]))
        total = total + np.where(settled, 0.0, terms.sum(axis=1))
        size = terms.max(axis=1)
        lost |= ~settled & (size > lowest * np.exp(RISE))  # as on a line
        lowest = np.minimum(lowest, size)
        settled |= ~lost & (size < loss.negligible * total)
        if np.all(settled | lost):
            break
    log_area = np.minimum(np.log(total) + 2 * count * value, np.log(0.5))
    return np.where(settled, -np.sqrt(2) * ndtri_exp(log_area), np.nan)


def _line_for_level(loss: Loss, level: Any, count: int) -> tuple[Any, Any]:
    """Return the saddle of δ's integrand, count·K′(c) = level + 1/c + 1/(c − 1), and whether it is below 1."""
    below = level < count * loss.slopes(np.ones_like(level))[1]

    def off(c: Any, value: Any, slope: Any, curvature: Any) -> tuple[Any, Any]:
        pull, bend = _of_poles(c, EXCESS)
        return count * slope - pull - level, count * curvature + bend

    return _search(loss, off, np.where(below, 0.0, 1.0), np.where(below, 1.0, loss.end)), below


def _level_on_line(line: "_Line", level: Any, wanted: Any, *, tail: bool = False) -> Any:
    """Return the level at which δ, or Q(L > level), is as wanted by the integral along one line; by Newton."""
    rate = line.s + tail
    for _ in range(ROUNDS):
        terms, top = line.scaled(level)
        if tail:
            terms, top = terms * line.s, top - level  # Q(L > t) has no pole at 1
        total = terms.real.sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):  # of a line that did not settle
            step = (np.log(total) + top - np.log(wanted)) * total / (terms * rate).real.sum(axis=1)
        # ln δ is nearly a parabola: far from the solution a step that is too long may leave the line's reach
        step = np.clip(step, -1 / line.width, 1 / line.width)
        level = level + step
        if not np.any(np.abs(step[line.settled]) > 1e-13 * (1 + np.abs(level[line.settled]))):
            break
    return level


class _Line:
    """The integrand of δ on Re s = c, Im s = width·sinh x, as the terms of a trapezoid rule; ε may still change.

    A line that leans is the hyperbola s = c + width·(sin φ·(cosh x − 1) + i·cos φ·sinh x).
    """

    def __init__(self, loss: Loss, c: Any, level: Any, count: int) -> None:
        value, _, curvature = loss.slopes(c)
        self.width = 1 / np.sqrt(count * curvature + _of_poles(c, EXCESS)[1])
        self.top = top = count * value - (c - 1) * level - np.log(c * np.abs(c - 1)) + np.log(self.width)
        points, terms = [], []
        self.settled, lost, lowest = np.zeros(len(c), dtype=bool), np.zeros(len(c), dtype=bool), np.inf
        right, up = np.sin(loss.lean), np.cos(loss.lean)
        for block in range(loss.most_blocks):
            x = STEP * (np.arange(BLOCK) + block * BLOCK)
            s = c[:, None] + self.width[:, None] * (right * (np.cosh(x) - 1) + 1j * up * np.sinh(x))
            # half of the first term: the line's lower half is the mirror image of the upper
            share = np.where(x == 0, 0.5, 1.0) * (up * np.cosh(x) - 1j * right * np.sinh(x)) * STEP / np.pi
            term = count * loss.at(s) - np.log(s * (s - 1)) + np.log(self.width[:, None] * share)
            points.append(s - 1)
            # where the integrand has ended, what K's errors leave of it further up is not added
            terms.append(np.where(self.settled[:, None], -np.inf, term))
            left = term.real - (s.real - 1) * level[:, None] - top[:, None]
            # nor is what rises again the integrand: a grid that is too coarse for such a turn sees a slower one
            lost |= ~self.settled & (left.max(axis=1) > lowest + RISE)
            lowest = np.minimum(lowest, left.min(axis=1))
            self.settled |= ~lost & (left.max(axis=1) < np.log(loss.negligible))
            if np.all(self.settled | lost):
                break
        self.s, self.log_terms = np.concatenate(points, axis=1), np.concatenate(terms, axis=1)

    def scaled(self, level: Any) -> tuple[Any, Any]:
        """Return the terms at these ε over their largest size, and that size's log."""
        exponent = self.log_terms - self.s * level[:, None]
        top = exponent.real.max(axis=1)
        return np.exp(exponent - top[:, None]), top


def _line_for_total(
    loss: Loss, wanted: Any, count: int, poles: tuple[float, ...], variance: Any
) -> tuple[Any, Any]:
    """Return about the c that is the saddle at the level sought, and that level.

    It is where the saddle point's approximation of the integral is as wanted: with t(c) the level of the saddle,
    log integral ≈ φ(c) − ½·log(2πφ″(c)), and dφ/dc = −(c − last pole)·φ″(c).
    """

    def level_at(c: Any, slope: Any) -> Any:
        return count * slope - _of_poles(c, poles)[0]

    def off(c: Any, value: Any, slope: Any, curvature: Any) -> tuple[Any, Any]:
        bend = count * curvature + _of_poles(c, poles)[1]
        height = np.log(np.prod([c - pole for pole in poles], axis=0))
        log_total = count * value - (c - poles[-1]) * level_at(c, slope) - height - 0.5 * np.log(2 * np.pi * bend)
        return np.log(wanted) - log_total, (c - poles[-1]) * bend

    # of a normal loss of this variance it would be about here
    near = np.sqrt(-2 * np.log(wanted) / np.maximum(count * variance, 1e-300))
    c = _search(loss, off, np.full_like(loss.end, poles[-1]), loss.end, near)
    return c, level_at(c, loss.slopes(c)[1])


def _of_poles(c: Any, poles: tuple[float, ...]) -> tuple[Any, Any]:
    """Return Σ 1/(c − pole) and Σ 1/(c − pole)²."""
    each = np.array([1 / (c - pole) for pole in poles])
    return each.sum(axis=0), (each * each).sum(axis=0)


def _search(loss: Loss, off: Any, start: Any, end: Any, near: Any = 0.5) -> Any:
    """Return the c between start and end at which an increasing function is 0; any line near it serves.

    The search begins at start + near.
    """
    begin = np.minimum(near, 0.75 * (end - start))
    x = np.clip(-np.log(1 / begin - 1 / (end - start)), -29.0, 39.0)
    low, high = np.full_like(x, -30.0), np.full_like(x, 40.0)
    for _ in range(ROUNDS):
        beyond = _beyond(x, end - start)
        value, slope = off(start + beyond, *loss.slopes(start + beyond))
        low, high = np.where(value < 0, x, low), np.where(value < 0, high, x)
        step = np.clip(-value / (slope * beyond**2 * np.exp(-x)), -2.0, 2.0)
        inside = (x + step >= low) & (x + step <= high)
        x = np.where(inside, x + step, 0.5 * (low + high))
        if np.all((np.abs(step) < 0.05) | (high - low < 0.05)):
            break
    return start + _beyond(x, end - start)


def _beyond(x: Any, length: Any) -> Any:
    """Return a number between 0 and length, which may be infinite, for any x; its slope is b²·e^−x."""
    return 1 / (np.exp(-x) + 1 / length)
