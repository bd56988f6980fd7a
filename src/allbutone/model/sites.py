"""Moments of several sites: as files, summed in secret, and together the moments of all records."""

import hashlib
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from allbutone.model.moments import Moments
from allbutone.support.errors import InputError
from allbutone.support.text import counted, listed
from allbutone.tables.categories import Categories
from allbutone.tables.safe_io import NOT_AS_WRITTEN, fresh_file, parse, read_text
from allbutone.tables.schema import Schema

# A secure sum: each site adds masks that cancel in the total, so that who adds up sees the total alone.
#
# Numbers are whole multiples of 2⁻¹⁰²⁴ in the ring of integers modulo 2²⁰⁴⁸. For every pair of sites, who share a
# key, one adds a mask, uniform on the ring, and the other takes it away.


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
    totals = list(numbers)
    for other, key in keys.items():
        sign = 1 if site < other else -1
        masks = _masks(_checked(key, other), sorted([site, other]), about, len(numbers))
        totals = [(number + sign * mask) % RING for number, mask in zip(totals, masks, strict=True)]
    return totals


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


# Moments as files: what a site gives to others instead of its records, and the moments of all sites together.


KIND = "allbutone moments"
FEWEST, FEWEST_EACH = 30, 5  # records of a site: so many at least, and so many for each column
NOTICE = (
    "CONFIDENTIAL: the exact number of records, means, variances and covariances of a table. Whoever has this and "
    "all records but one has the missing one. Give it only to those who add up."
)
MASKED_NOTICE = (
    "Masked: random numbers, unless the files of all sites named here are added up; the sum is confidential."
)


@dataclass(frozen=True, eq=False)
class SiteMoments:
    """The moments of a site's table, or of several sites together, on the scale that `schema` declares.

    sites: whose records are in it. moments: None where they are masked; then `ring` is in their place, `partners`
    are the sites whose masks are in it, and `round` is the name of this sum.
    """

    columns: tuple[str, ...]
    schema: Schema
    moments: Moments | None
    sites: tuple[str, ...] = ()
    ring: tuple[int, ...] = field(default=(), repr=False)
    partners: tuple[str, ...] = ()
    round: str = ""
    mark: str = ""
    notes: tuple[str, ...] = ()

    @property
    def categories(self) -> Categories:
        """No column is a category."""
        return Categories.none(0)

    @property
    def order(self) -> tuple[str, ...]:
        """All columns."""
        return self.columns

    def __len__(self) -> int:
        """Return the number of records."""
        return int(self.total.count)

    @property
    def total(self) -> Moments:
        """The moments, which must not be masked."""
        if self.moments is None:
            raise InputError("the moments are masked", "add up the files of all sites first (pool)")
        return self.moments

    def save(self, path: Path, *, force: bool = False) -> None:
        """Write to a JSON file that only its owner can read."""
        content: dict[str, Any] = {
            "kind": KIND,
            "notice": MASKED_NOTICE if self.moments is None else NOTICE,
            "sites": self.sites,
            "columns": self.columns,
            "declared": self.schema.entries()["columns"],
            "mark": self.mark,
        }
        if self.moments is None:
            content |= {
                "round": self.round,
                "partners": self.partners,
                "masked": [f"{each:x}" for each in self.ring],
            }
        else:
            tail = np.broadcast_to(np.asarray(self.moments.mean_tail, dtype=float), len(self.columns))
            content |= {
                "count": int(self.moments.count),
                "mean": np.asarray(self.moments.mean).tolist(),
                "mean_tail": tail.tolist(),
                "scatter": np.asarray(self.moments.scatter).tolist(),
            }
        with fresh_file(path, force=force, private=True) as work:
            work.write_text(json.dumps(content, indent=1, ensure_ascii=False), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> "SiteMoments":
        """Read what `save` wrote."""
        content = parse(read_text(path, "name a file that allbutone moments wrote"), "JSON", str(path))
        try:
            if content["kind"] != KIND:
                raise ValueError("another kind of file")
            columns = tuple(str(name) for name in content["columns"])
            schema = Schema.of_entries({"columns": content["declared"]}, str(path)).for_columns(columns)
            about: dict[str, Any] = {"sites": tuple(map(str, content["sites"])), "mark": str(content["mark"])}
            if "masked" in content:
                ring = tuple(int(each, 16) for each in content["masked"])
                partners, name = tuple(map(str, content["partners"])), str(content["round"])
                return cls(columns, schema, None, ring=ring, partners=partners, round=name, **about)
            mean, tail, scatter = (
                np.array(content[name], dtype=float) for name in ("mean", "mean_tail", "scatter")
            )
            moments = Moments(float(content["count"]), mean, scatter, tail)
            if len(mean) != len(columns):
                raise ValueError("columns and means do not match")
            moments.require_possible()
            return cls(columns, schema, moments, **about)
        except NOT_AS_WRITTEN as error:
            raise InputError(f"this is not a file of moments: {error!r:.120}", where=str(path)) from error


def moments_of_site(
    records: Any, site: str = "", keys: Mapping[str, str] | None = None, round: str = ""
) -> SiteMoments:
    """Return what a site gives away of its records, `Records` or `LazyRecords`; refuses a table of too few.

    keys: for each of the other sites the key shared with it; then only the sum of all sites' files can be read.
    """
    if records.categories.columns:
        raise InputError("moments are for tables of measurements", "leave the categories out")
    if records.schema.visits is not None:
        raise InputError("moments of sites do not take visits: people with several rows", "give one row a person")
    moments = Moments.of(getattr(records, "values", records))
    p = len(records.columns)
    fewest = max(FEWEST, FEWEST_EACH * p)
    if moments.count < fewest:
        raise InputError(
            f"the table has {int(moments.count)} records, and the moments of fewer than {fewest} with "
            f"{counted(p, 'column')} say too much of each",
            "add records, or use fewer columns",
        )
    schema = records.schema.for_columns(records.columns)
    sites, mark = (site,) if site else (), secrets.token_hex(16)
    if not keys:
        return SiteMoments(records.columns, schema, moments, sites, mark=mark)
    if not site or site in keys:
        raise InputError("masks are between sites that have names", "name this site and the others")
    ring = tuple(masked(encode(moments), site, keys, _agreed(records.columns, schema, round)))
    return SiteMoments(records.columns, schema, None, sites, ring, tuple(sorted(keys)), round, mark)


def pool(parts: Sequence[SiteMoments]) -> SiteMoments:
    """Return the moments of all sites together: those of their records in one table."""
    if not parts:
        raise InputError("there is nothing to add up", "name the files of moments")
    first = parts[0]
    for part in parts[1:]:
        if part.columns != first.columns:
            raise InputError(
                "the sites have other columns, or another order: "
                f"{listed(first.columns)} and {listed(part.columns)}",
                "agree on the columns and their order",
            )
        if not part.schema.same_mechanism(first.schema):
            raise InputError("the sites declare other scales or limits", "agree on one table file")
    sites = [site for part in parts for site in part.sites]
    if len({part.mark for part in parts}) < len(parts) or len(set(sites)) < len(sites):
        raise InputError("a site's moments are given twice", "name the file of each site once")
    masks = [part.moments is None for part in parts]
    plain = [np.asarray(part.moments.scatter).tobytes() for part in parts if part.moments is not None]
    if len(set(plain)) < len(plain):
        raise InputError("two files hold the moments of the same records", "name the file of each site once")
    if any(masks):
        if not all(masks):
            raise InputError("some moments are masked and some are not", "have all sites mask theirs, or none")
        total = _unmasked(parts)
    else:
        total = first.total
        for part in parts[1:]:
            total = total.merge(part.total)
    mark = parts[0].mark if len(parts) == 1 else secrets.token_hex(16)
    return SiteMoments(first.columns, first.schema, total, tuple(sites), mark=mark)


def _unmasked(parts: Sequence[SiteMoments]) -> Moments:
    """Add up masked moments; every site that is named as a partner must be there."""
    here = {part.sites[0] for part in parts}
    if len({part.round for part in parts}) > 1:
        raise InputError("the files are of different sums", "give all files of one --round")
    for part in parts:
        if absent := sorted(set(part.partners) - here):
            raise InputError(
                f"the file of {absent[0]!r} is missing, and without it the others' masks do not cancel",
                "wait for it, or have the others repeat theirs without that site, as a new round",
            )
        if strange := sorted(here - set(part.partners) - {part.sites[0]}):
            raise InputError(
                f"{part.sites[0]!r} has no mask with {strange[0]!r}", "have all sites name all others"
            )
    total = decode(add_up([part.ring for part in parts]), len(parts[0].columns))
    total.require_possible()
    return total


def _agreed(columns: Sequence[str], schema: Schema, round: str) -> list[Any]:
    """Return what goes into every mask, so that sites that do not agree on it get no total."""
    return [list(columns), schema.mechanism.entries(), round]
