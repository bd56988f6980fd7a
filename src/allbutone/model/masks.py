"""A secure sum: each site adds masks that cancel in the total, so that who adds up sees the total alone.

Numbers are whole multiples of 2⁻¹⁰²⁴ in the ring of integers modulo 2²⁰⁴⁸. For every pair of sites, who share a
key, one adds a mask, uniform on the ring, and the other takes it away.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from allbutone.model.moments import Moments
from allbutone.support.errors import InputError

BITS, POINT = 2048, 1024
RING = 1 << BITS
KEY_DIGITS = 64  # hexadecimal: 256 bits


def encode(moments: Moments) -> list[int]:
    """Return n, Σ x and Σ xxᵀ (below the diagonal) as elements of the ring, without losing a digit."""
    n, mean = int(moments.count), _exactly(moments)
    p = len(mean)
    scatter = np.asarray(moments.scatter)
    pairs = [(i, j) for i in range(p) for j in range(i + 1)]
    numbers = [Fraction(n), *(n * each for each in mean)]
    numbers += [Fraction(float(scatter[i, j])) + n * mean[i] * mean[j] for i, j in pairs]
    return [round(number * (1 << POINT)) % RING for number in numbers]


def decode(total: Sequence[int], p: int) -> Moments:
    """Return the moments whose encoding this is: x̄ = Σx/n and S = Σxxᵀ − n·x̄x̄ᵀ, in fractions."""
    numbers = [Fraction(each - RING if each >= RING // 2 else each, 1 << POINT) for each in total]
    n = numbers[0]
    if n.denominator != 1 or not 0 < n < 2**53:
        raise InputError(
            "the masks do not cancel: some site used another key, or other columns", "compare the keys in pairs"
        )
    sums, products = numbers[1 : p + 1], iter(numbers[p + 1 :])
    mean = [each / n for each in sums]
    rounded = np.array([float(each) for each in mean])
    tail = np.array([float(each - Fraction(near)) for each, near in zip(mean, rounded.tolist(), strict=True)])
    scatter = np.zeros((p, p))
    for i in range(p):
        for j in range(i + 1):
            scatter[i, j] = scatter[j, i] = float(next(products) - n * mean[i] * mean[j])
    return Moments(float(n), rounded, scatter, tail)


def masked(numbers: Sequence[int], site: str, keys: Mapping[str, str], about: object) -> list[int]:
    """Add the masks of all pairs that this site is in; `about`: what all must agree on, such as the columns."""
    found = list(numbers)
    for other, key in keys.items():
        sign = 1 if site < other else -1
        masks = _masks(_checked(key, other), sorted([site, other]), about, len(numbers))
        found = [(number + sign * mask) % RING for number, mask in zip(found, masks, strict=True)]
    return found


def add_up(encodings: Sequence[Sequence[int]]) -> list[int]:
    """Return the sum of several encodings in the ring."""
    return [sum(each) % RING for each in zip(*encodings, strict=True)]


def _exactly(moments: Moments) -> list[Fraction]:
    tail = np.broadcast_to(np.asarray(moments.mean_tail, dtype=float), np.shape(moments.mean))
    pairs = zip(np.asarray(moments.mean).tolist(), tail.tolist(), strict=True)
    return [Fraction(mean) + Fraction(rest) for mean, rest in pairs]


def _masks(key: bytes, pair: Sequence[str], about: object, count: int) -> list[int]:
    """Return so many uniform elements of the ring: SHAKE-256 of the key and of what the sum is about."""
    told = json.dumps(["allbutone masks", list(pair), about]).encode()
    stream = hashlib.shake_256(len(key).to_bytes(2) + key + told).digest(count * BITS // 8)
    width = BITS // 8
    return [int.from_bytes(stream[place : place + width]) for place in range(0, len(stream), width)]


def _checked(key: str, other: str) -> bytes:
    """Return the key's bytes, or say what is wrong with it without repeating it."""
    text = key.strip().lower()
    if len(text) < KEY_DIGITS or len(text) % 2 or not set(text) <= set("0123456789abcdef") or len(set(text)) < 8:
        raise InputError(
            f"the key shared with {other!r} is none: {KEY_DIGITS} random hexadecimal digits",
            "make one, for instance by: openssl rand -hex 32",
        )
    return bytes.fromhex(text)
