"""From the cumulants of a privacy loss to its exact δ(ε) and back, for one guarantee or several together."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Complex, Float

from allbutone.disclosure.draw_loss import ReplacementLoss
from allbutone.releases.ledger import Ledger, Terms
from allbutone.releases.private_mechanism import DELTA, zcdp_epsilon
from allbutone.support.errors import InputError
from allbutone.support.text import counted

# From the cumulants of a privacy loss to its exact δ(ε), and back: one integral along a line, no simulation.
#
# A privacy loss L = log P/Q of two distributions of what is released has the cumulants K(s) = log E_Q[exp(sL)],
# so that K(0) = K(1) = 0. The smallest δ for which no event is more than e^ε times (plus δ) as likely under P as
# under Q is
#
#     δ(ε) = E_Q[(e^L − e^ε)₊] = (1/2πi) ∫ exp(count·K(s) − (s − 1)·ε)/(s(s − 1)) ds    on the line Re s = c > 1
#
# by Mellin's transform of the payoff, for `count` independent releases. The line runs through the saddle of the
# whole integrand, poles included, so that it cannot come too near to the pole at 1 and nothing cancels.


STEP = 0.125  # of the trapezoid rule in x, where Im s = width·sinh x; halving it changes nothing in 12 digits
BLOCK = 4  # points along the line at a time; it ends with the first block that is negligible
RISE = 2.0  # nats that the integrand's size may rise by along the line
ROUNDS = 200
AGREE = 1e-6  # of an ε on two lines


@runtime_checkable
class Cumulants(Protocol):
    """K(s) of one or several losses, one for each entry of the batch."""

    @property
    def negligible(self) -> float:
        """The relative size from which exp K counts as 0: how exactly it is known."""
        ...

    @property
    def most_blocks(self) -> int:
        """How far along the line K can be had, in blocks of points, each √e times as far as the last."""
        ...

    @property
    def lean(self) -> float:
        """The angle by which the line may lean to the right on its way up, past the end, where K's formula lasts.

        There exp(−s·ε) falls. On an upright line it only turns, and where K falls slowly, as a power, the turns of
        its far end are too fast for any rule.
        """
        ...

    @property
    def end(self) -> Float[np.ndarray, " batch"]:
        """The s up to which K is finite."""
        ...

    @property
    def rough(self) -> "Cumulants":
        """The same, perhaps cheaper, to find a line by."""
        ...

    def at(self, s: Complex[np.ndarray, "batch points"]) -> Complex[np.ndarray, "batch points"]:
        """Return K at complex s."""
        ...

    def slopes(self, s: Float[np.ndarray, " batch"]) -> tuple[Any, Any, Any]:
        """Return K, K′ and K″ at real s."""
        ...


def epsilon(
    loss: Cumulants, delta: float, count: int = 1, *, checked: bool = False
) -> Float[np.ndarray, " batch"]:
    """Return the ε at which δ(ε) = delta; it is 0 or less where even ε = 0 leaves a smaller δ.

    Not a number where the integrand does not end on the line. `checked` computes it on a second line, too, and
    it is not a number where the two differ, as they must not: what is known of K ends too early.
    """
    rough = loss.rough
    # Total variation is at most √(mean loss/2): where that is below δ already, ε = 0 serves and no line is needed.
    # So small a mean is half the variance, and of a rough sum has no digit of its own.
    _, mean, variance = rough.slopes(np.ones_like(loss.end))
    nothing = count * np.maximum(mean, 0.5 * variance) <= 2 * delta**2
    c = _line_for_delta(rough, delta, count, variance)
    level = count * rough.slopes(c)[1] - 1 / c - 1 / (c - 1)
    level, settled = _level_on_line(loss, c, level, delta, count)
    if not checked:
        return np.where(nothing, 0.0, np.where(settled, level, np.nan))
    other, agreed = _level_on_line(loss, 1 + 0.85 * (c - 1), level, delta, count)
    same = np.abs(other - level) <= AGREE * np.maximum(np.abs(level), delta)
    return np.where(nothing, 0.0, np.where(settled & agreed & same, level, np.nan))


def _level_on_line(loss: Cumulants, c: Any, level: Any, delta: float, count: int) -> tuple[Any, Any]:
    """Return the ε at which the integral along one line is delta, by Newton from some ε, and where it settled."""
    line = _Line(loss, c, level, count)
    settled = line.settled
    for _ in range(ROUNDS):
        with np.errstate(invalid="ignore", divide="ignore"):  # of a line that did not settle
            log_found, log_slope = line.log_integral(level)
        step = (np.log(delta) - log_found) / log_slope
        # ln δ is nearly a parabola: far from the solution a step that is too long may leave the line's reach
        step = np.clip(step, -1 / line.width, 1 / line.width)
        level = level + step
        if not np.any(np.abs(step[settled]) > 1e-13 * (1 + np.abs(level[settled]))):
            break
    return np.maximum(level, np.log1p(-delta)), settled


def delta(loss: Cumulants, level: Float[np.ndarray, " batch"], count: int = 1) -> Float[np.ndarray, " batch"]:
    """Return δ(ε) at the levels ε given.

    Below the mean loss the line runs between 0 and 1, where it gives δ − 1: the pole at 1 has the residue 1.
    """
    below = level < count * loss.slopes(np.ones_like(level))[1]
    c = _line_for_level(loss, level, count, below)
    line = _Line(loss, c, level, count)
    total = line.integral(level)
    # beyond the largest loss no line ends, but the integrand's largest size bounds them all
    known = line.settled | (line.top < np.log(np.finfo(float).tiny))
    return np.where(known, np.clip(np.where(below, 1 + total, total), 0.0, 1.0), np.nan)


class _Line:
    """The integrand on Re s = c with Im s = width·sinh x, as the terms of a trapezoid rule; ε may still change.

    A line that leans is the hyperbola s = c + width·(sin φ·(cosh x − 1) + i·cos φ·sinh x).
    """

    def __init__(self, loss: Cumulants, c: Any, level: Any, count: int) -> None:
        value, _, curvature = loss.slopes(c)
        self.width = 1 / np.sqrt(count * curvature + 1 / c**2 + 1 / (c - 1) ** 2)
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

    def scaled(self, level: Any) -> tuple[Any, Any, Any]:
        """Return the terms at these ε over their largest size, that size's log, and the terms' sum."""
        exponent = self.log_terms - self.s * level[:, None]
        top = exponent.real.max(axis=1)
        terms = np.exp(exponent - top[:, None])
        return terms, top, terms.real.sum(axis=1)

    def integral(self, level: Any) -> Any:
        """Return the integral at these ε."""
        _, top, total = self.scaled(level)
        return total * np.exp(top)

    def log_integral(self, level: Any) -> tuple[Any, Any]:
        """Return the log of the integral, where that is positive, and its derivative in ε."""
        terms, top, total = self.scaled(level)
        return np.log(total) + top, -(terms * self.s).real.sum(axis=1) / total


def _line_for_level(loss: Cumulants, level: Any, count: int, below: Any) -> Any:
    """Return the saddle c: count·K′(c) = ε + 1/c + 1/(c − 1)."""

    def off(c: Any, value: Any, slope: Any, curvature: Any) -> tuple[Any, Any]:
        return count * slope - 1 / c - 1 / (c - 1) - level, count * curvature + 1 / c**2 + 1 / (c - 1) ** 2

    return _search(loss, off, np.where(below, 0.0, 1.0), np.where(below, 1.0, loss.end))


def _line_for_delta(loss: Cumulants, delta: float, count: int, variance: Any) -> Any:
    """Return about the c that is the saddle at the ε sought: where the saddle point's approximation of δ is delta.

    With ε(c) that of the saddle, log δ ≈ φ(c) − ½·log(2πφ″(c)), and dφ/dc = −(c − 1)·φ″(c).
    """

    def off(c: Any, value: Any, slope: Any, curvature: Any) -> tuple[Any, Any]:
        level = count * slope - 1 / c - 1 / (c - 1)
        bend = count * curvature + 1 / c**2 + 1 / (c - 1) ** 2
        log_found = count * value - (c - 1) * level - np.log(c * (c - 1)) - 0.5 * np.log(2 * np.pi * bend)
        return np.log(delta) - log_found, (c - 1) * bend

    # of a normal loss of this variance it would be about here
    near = np.sqrt(-2 * np.log(delta) / np.maximum(count * variance, 1e-300))
    return _search(loss, off, np.ones_like(loss.end), loss.end, near)


def _search(loss: Cumulants, off: Any, start: Any, end: Any, near: Any = 0.5) -> Any:
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


# What several guarantees come to together, by their exact composition, and whether a declared total is kept.
#
# The losses of independent releases add, so their cumulants do: Gaussian noise with ρ has K(s) = ρ·s(s − 1),
# posterior draws have the K of two gamma variates (`draw_loss`). Noise alone is converted as OpenDP does
# for zCDP, so that one release has the ε that it states; with draws among them, δ(ε) comes from the sum of
# cumulants.


def composed(terms: Sequence[Terms], delta: float) -> float:
    """Return the ε at δ of several guarantees together, each for one record replaced.

    >>> from allbutone.releases.ledger import Terms
    >>> round(composed([Terms(rho=0.1), Terms(rho=0.1)], 1e-6), 2) == round(composed([Terms(rho=0.2)], 1e-6), 2)
    True
    """
    rho = sum(each.rho or 0.0 for each in terms)
    draws = [each for each in terms if each.rho is None]
    if unknown := [each for each in draws if each.half_df is None or each.most is None]:
        # ε and δ alone say less: they add
        rest = [each for each in terms if each not in unknown]
        if any(each.epsilon is None or each.delta is None for each in unknown):
            raise InputError("a guarantee needs rho, or epsilon with delta, to be added up")
        left = delta - sum(each.delta or 0.0 for each in unknown)
        if left <= 0:
            return float("inf")
        return sum(each.epsilon or 0.0 for each in unknown) + (composed(rest, left) if rest else 0.0)
    if not draws:
        return zcdp_epsilon(rho, delta)
    losses = [ReplacementLoss.worst(each.half_df or 0.0, each.most or 0.0) for each in draws]
    losses[0] = replace(losses[0], gaussian=float(np.sqrt(2 * rho)))
    return max(float(epsilon(SummedLoss(tuple(losses)), delta)[0]), 0.0)


@dataclass(frozen=True)
class SummedLoss:
    """The loss of several independent releases: every cumulant is the sum of theirs."""

    parts: tuple[ReplacementLoss, ...]
    negligible: ClassVar[float] = 1e-16
    most_blocks: ClassVar[int] = 80
    lean: ClassVar[float] = 0.0

    @property
    def end(self) -> Any:
        """K(s) is finite as far as all of theirs are."""
        return np.min([part.end for part in self.parts], axis=0)

    @property
    def rough(self) -> "SummedLoss":
        """Itself: the closed form costs little."""
        return self

    def at(self, s: Any) -> Any:
        """Return K(s) at complex s."""
        return sum(part.at(s) for part in self.parts)

    def slopes(self, s: Any) -> tuple[Any, Any, Any]:
        """Return K, K′ and K″ at real s."""
        value, slope, curvature = (
            sum(each) for each in zip(*(part.slopes(s) for part in self.parts), strict=True)
        )
        return value, slope, curvature


def passed_limit(ledger: Ledger, planned: Terms | None) -> str:
    """Say why one more release, with this guarantee or none, would pass the declared total; nothing if it fits."""
    limit = ledger.limit
    if limit is None:
        return ""
    if planned is None:
        return f"a total of {limit_in_words(limit)} was declared for this table, and this release has no guarantee"
    if without := [entry for entry in ledger.counted if entry.guarantee is None]:
        return (
            f"a total of {limit_in_words(limit)} was declared for this table, and release {without[0].number} of "
            "its ledger has no guarantee"
        )
    terms = [*(entry.guarantee for entry in ledger.counted if entry.guarantee), planned]
    if limit.rho is not None:
        rho = sum(each.rho if each.rho is not None else np.inf for each in terms)
        passed, together = rho > limit.rho * (1 + 1e-9), f"ρ = {rho:.3g}"
    else:
        delta = DELTA if limit.delta is None else limit.delta
        epsilon = composed(terms, delta)
        passed, together = epsilon > (limit.epsilon or 0.0) * (1 + 1e-6), f"ε = {epsilon:.3g} at δ = {delta:g}"
    if not passed:
        return ""
    return (
        f"with it the releases of this table would come to {together} together, more than the total of "
        f"{limit_in_words(limit)} that was declared"
    )


def total_in_words(ledger: Ledger) -> str:
    """Return what all releases with a guarantee come to, if there are several."""
    terms = [entry.guarantee for entry in ledger.counted if entry.guarantee]
    if len(terms) < 2:
        return ""
    delta = DELTA if ledger.limit is None or ledger.limit.delta is None else ledger.limit.delta
    rest = len(ledger.counted) - len(terms)
    besides = (
        f" {counted(rest, 'other release')} of this table without a guarantee: nothing bounds the sum of all."
    )
    return (
        f"Together the {len(terms)} releases with a guarantee come to ε = "
        f"{composed(terms, delta):.3g} at δ = {delta:g}.{besides if rest else ''}"
    )


def limit_in_words(limit: Terms) -> str:
    """Return a declared total in symbols."""
    if limit.rho is not None:
        return f"ρ = {limit.rho:g}"
    return f"ε = {limit.epsilon or 0:g} at δ = {DELTA if limit.delta is None else limit.delta:g}"
