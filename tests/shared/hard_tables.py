"""Tables that are hard on sixteen digits: nearly collinear, tiny, huge, with outliers, duplicates, few records."""

from dataclasses import dataclass

import numpy as np

import allbutone as abo


@dataclass(frozen=True, eq=False)
class Hard:
    """All records but one, that one, the prior, and what is released: draws, or datasets of so many rows."""

    name: str
    others: np.ndarray
    target: np.ndarray
    prior: abo.NIW
    count: int = 4
    rows: int = 5

    @property
    def records(self):
        return np.vstack([self.others, self.target])

    def release(self, kind):
        rng, posterior = np.random.default_rng(7), self.prior.update(self.records)
        if kind == "parameters":
            return abo.Release.draw_parameters(posterior, self.count, rng)
        return abo.Release.draw(posterior, [self.rows] * self.count, rng)


def _collinear(condition, p=4, n=20):
    rng = np.random.default_rng(int(np.log10(condition)))
    axes, _ = np.linalg.qr(rng.standard_normal((p, p)))
    root = axes * np.geomspace(1, condition**-0.5, p)
    name = f"condition number {condition:.0e}"
    return Hard(name, rng.standard_normal((n, p)) @ root.T, 6 * root @ rng.standard_normal(p), abo.NIW.flat(p))


def _scaled(scale, own_prior):
    rng, scale = np.random.default_rng(2), np.broadcast_to(scale, 3).astype(float)
    prior = abo.NIW.from_spread(np.zeros(3), scale) if own_prior else abo.NIW.flat(3)
    words = "scales " + " and ".join(f"{each:.0e}" for each in dict.fromkeys(scale.tolist()))
    name = f"{words}, {'a prior of that scale' if own_prior else 'flat prior'}"
    return Hard(name, rng.standard_normal((12, 3)) * scale, 5 * scale, prior)


def _outlier(size, among_others, prior):
    rng, far = np.random.default_rng(3), size * np.array([1.0, 0.5, -1.0])
    others, target = rng.standard_normal((15, 3)), np.ones(3)
    if among_others:
        others[3] = far
    else:
        target = far
    where = "among the others" if among_others else "missing"
    return Hard(f"an outlier at {size:.0e} deviations, {where}", others, target, prior)


def _offset(size):
    rng = np.random.default_rng(4)
    return Hard(f"means at {size:.0e} deviations", rng.standard_normal((15, 3)) + size, np.full(3, 5) + size,
                abo.NIW.flat(3))  # fmt: skip


def hard_tables():
    rng, flat, proper = np.random.default_rng(1), abo.NIW.flat, abo.NIW.default
    others = rng.standard_normal((15, 3))
    centred = np.vstack([others, -others])  # whose mean is 0 to the last digit
    yield from (_collinear(condition) for condition in (1e4, 1e8, 1e10, 1e12, 1e14))
    for scale in (1e-150, 1e-20, 1e20, 1e69, np.array([1e-150, 1.0, 1e69])):
        yield from (_scaled(scale, own_prior) for own_prior in (False, True))
    for size in (1e4, 1e6, 1e8):
        yield from (_outlier(size, among, flat(3)) for among in (False, True))
    yield _outlier(1e8, True, proper(3))
    yield from map(_offset, (1e6, 1e8, 1e11))
    yield Hard("two records, one column", others[:1, :1], np.array([3.0]), proper(1))
    yield Hard("two records, three columns", others[:1], np.full(3, 4.0), proper(3))
    yield Hard("four records, nine columns", rng.standard_normal((3, 9)), np.full(9, 4.0), proper(9))
    yield Hard("fewest records of a flat prior", others[:4], np.full(3, 4.0), flat(3))
    yield Hard("one column", others[:6, :1], np.array([3.0]), flat(1))
    yield Hard("datasets of one row", others, np.full(3, 4.0), flat(3), count=6, rows=1)
    yield Hard("every record five times", np.repeat(others[:4], 5, axis=0), others[0], flat(3))
    yield Hard("a target at the others' mean", centred, np.zeros(3), flat(3))
