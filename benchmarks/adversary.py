"""Attacks against the paper's algorithm as printed: speed, and how often its one start ends in the worse mode."""

import numpy as np

import allbutone as abo
from allbutone.adversary import paper_methods as as_printed
from allbutone.releases.release import Release
from benchmarks.clock import compare, in_own_process, seconds

EVERYONE = """
import numpy as np, allbutone as abo, time
rng = np.random.default_rng(1)
prior = abo.NIW.default({p})
records = rng.standard_normal(({n}, {p}))
release = abo.DatasetRelease.draw(prior.update(records), [{rows}] * {k}, rng)
start = time.perf_counter()
attack = abo.attack_all(records, release, prior)
took, good = time.perf_counter() - start, bool(np.all(attack.status == "converged"))
print(f"  {{took:.2f}} s, all converged: {{good}}", flush=True)
"""


def paper_setting(rng: np.random.Generator, n: int, p: int) -> tuple[np.ndarray, np.ndarray, abo.NIW]:
    """The paper's others, target (20, …, 20) and prior."""
    others = 1 + np.sqrt(3) * rng.standard_normal((n - 1, p))
    return others, np.full(p, 20.0), abo.NIW(np.full(p, 1.1), 1.0, p + 2.0, np.eye(p))


def run() -> None:
    rng = np.random.default_rng(1)
    print("one attack, and one of a thousand made at once from sufficient statistics:")
    for n, p, count, rows in ((300, 2, 100, 10), (100, 2, 10, 100), (1000, 5, 10, 1000)):
        single(rng, n, p, count, rows)
    for n, p, count in ((100, 10, 100), (300, 2, 10)):
        single(rng, n, p, count, None)
    leave_one_out(rng)
    print("leave-one-out, each in a process of its own:")
    for n, p, k, rows in ((503, 5, 1000, 503), (1006, 5, 1000, 503), (503, 5, 2000, 503), (100_000, 20, 10, 1000)):
        print(f"n = {n}, p = {p}, {k} datasets of {rows}:", flush=True)
        _, peak = in_own_process(EVERYONE.format(n=n, p=p, k=k, rows=rows))
        print(f"  peak memory of this and earlier ones {peak:.0f} MB", flush=True)
    worse_modes(rng)


def release_of(rng: np.random.Generator, posterior: abo.NIW, count: int, rows: int | None) -> Release:
    if rows is None:
        return abo.ParameterRelease.draw(posterior, count, rng)
    return abo.DatasetRelease.draw(posterior, [rows] * count, rng)


def single(rng: np.random.Generator, n: int, p: int, count: int, rows: int | None) -> None:
    others, target, prior = paper_setting(rng, n, p)
    release = release_of(rng, prior.update(np.vstack([others, target])), count, rows)
    printed = seconds(lambda: as_printed.lbfgsb(others, release, prior), 3)
    one = seconds(lambda: abo.attack(others, release, prior), 9)
    many = thousand(rng, n, p, count, rows)
    what = f"n = {n}, p = {p}, " + (f"{count} parameter draws" if rows is None else f"{count} datasets of {rows}")
    compare(what + ", single call", one, printed, "L-BFGS-B as printed")
    compare(what + ", one of 1000", many, printed, "the same", "bar: 300")


def thousand(rng: np.random.Generator, n: int, p: int, count: int, rows: int | None) -> float:
    """Seconds per attack when a thousand tables are attacked at once."""
    fitted, released = [], []
    for _ in range(1000):
        others, target, prior = paper_setting(rng, n, p)
        fitted.append(prior.update(others))
        release = release_of(rng, fitted[-1].update(target[None, :]), count, rows)
        released.append(abo.ParameterStatistics.of(release) if rows is None else release.moments())
    means, scales = np.stack([c.mean for c in fitted]), np.stack([c.scale for c in fitted])
    every = abo.NIW(means, fitted[0].mean_weight, fitted[0].df, scales)
    if rows is None:
        statistics = abo.ParameterStatistics(
            count, np.stack([s.precision for s in released]), np.stack([s.pull for s in released])
        )
    else:
        statistics = abo.Moments(
            np.full(count, float(rows)),
            np.stack([[m.mean for m in each] for each in released]),
            np.stack([[m.scatter for m in each] for each in released]),
        )
    return seconds(lambda: abo.attack_many(every, statistics), 3) / 1000


def leave_one_out(rng: np.random.Generator) -> None:
    cohort, prior = abo.demo_cohort().values, abo.NIW.default(5)
    release = abo.DatasetRelease.draw(prior.update(cohort), [503] * 100, rng)
    ours = seconds(lambda: abo.attack_all(cohort, release, prior), 5)
    some = rng.choice(503, size=4, replace=False)

    def printed() -> None:
        for row in some:
            as_printed.lbfgsb(np.delete(cohort, row, axis=0), release, prior)

    theirs = seconds(printed, 1) / len(some) * 503
    what = "leave-one-out, 503 × 5, 100 datasets of 503"
    compare(what, ours, theirs, "as printed (4 records, scaled)", "bar: 1000")


def worse_modes(rng: np.random.Generator) -> None:
    """How often L-BFGS-B from the paper's start ends lower than the exact maximum, by more than 0.01 in ℓ."""
    print("share of attacks in which L-BFGS-B from the paper's start ends in a worse mode (200 each, p = 2):")
    cells = ((50, 2, None), (100, 5, None), (300, 10, None), (50, 3, 1000), (100, 5, 1000), (10, 10, 10))
    for n, count, rows in cells:
        worse = 0
        for _ in range(200):
            others, target, prior = paper_setting(rng, n, 2)
            release = release_of(rng, prior.update(np.vstack([others, target])), count, rows)
            score = as_printed.printed_score(others, release, prior)
            exact = score(abo.attack(others, release, prior).mode)
            worse += exact - as_printed.lbfgsb(others, release, prior).score > 0.02
        what = f"{count} parameter draws" if rows is None else f"{count} datasets of {rows}"
        print(f"  n = {n}, {what}: {worse / 200:.1%}", flush=True)
