"""The paper's 108 published medians beside the law and the exact attack; written to docs/published.md.

The published numbers are read from CSV files (parameter_release_p2.csv, dataset_release_p2.csv) in the folder
named by the variable ALLBUTONE_PAPER_TABLES; without it there is nothing to compare and nothing is written.
"""

import csv
import os
from pathlib import Path

import numpy as np

import allbutone as abo
from allbutone.exposure import Setting
from allbutone.simulate import _bartlett

P, TARGET = 2, np.full(2, 20.0)
PRIOR = abo.NIW(np.full(P, 1.1), 1.0, P + 2.0, np.eye(P))


def run() -> None:
    folder = os.environ.get("ALLBUTONE_PAPER_TABLES")
    if not folder:
        print("no published tables: set ALLBUTONE_PAPER_TABLES to compare")
        return
    lines, inside, cells = [], 0, 0
    rng = np.random.default_rng(1)
    for name, count_key in (("parameter_release_p2.csv", "n_theta"), ("dataset_release_p2.csv", "n_k")):
        with (Path(folder) / name).open() as file:
            for row in csv.DictReader(file):
                count, n = int(row[count_key]), int(row["n"])
                rows = int(row["n_z"]) if "n_z" in row else None
                law, exact, low, high = compare(rng, n, count, rows)
                paper = float(row["median_distance"])
                agrees = low - 0.05 <= paper <= high + 0.05
                inside, cells = inside + agrees, cells + 1
                kind = "parameters" if rows is None else f"datasets of {rows}"
                verdict = "agrees" if agrees else "**differs**"
                numbers = f"{law:.1f} | {exact:.2f} | {low:.2f} to {high:.2f} | {paper:.1f}"
                lines.append(f"| {kind} | {n} | {count} | {numbers} | {verdict} |")
    text = HEADER.format(inside=inside, cells=cells) + "\n".join(lines) + "\n"
    Path(__file__).parents[1].joinpath("docs", "published.md").write_text(text, encoding="utf-8")
    print(f"{inside} of {cells} published medians lie in the exact attack's interval; see docs/published.md")


def compare(rng: np.random.Generator, n: int, count: int, rows: int | None) -> tuple[float, float, float, float]:
    """The law's and the exact attack's median distance, and the interval for another median of 1000 tables."""
    setting = Setting.of(PRIOR, n, rows)
    scatter = _bartlett(rng, (1000,), P, n - 2) if n - 2 >= P else rng.standard_normal((1000, P, max(n - 2, 1)))
    scatter = 3 * scatter @ scatter.swapaxes(1, 2)
    means = 1 + np.sqrt(3 / (n - 1)) * rng.standard_normal((1000, P))
    crowd = PRIOR.update(abo.Moments(float(n - 1), means, scatter))
    step = TARGET - crowd.mean
    c = crowd.mean_weight / (crowd.mean_weight + 1)
    leverage = c * np.sum(step * np.linalg.solve(crowd.scale, step[..., None])[..., 0], axis=1)
    distance = np.linalg.norm(step, axis=1)
    law = float(np.median((1 - setting.exposure(leverage, count)) * distance))
    found = np.sort(attacked(rng, crowd, step, setting, count))
    # 99 % for the difference of two medians of 1000 each, ours and the paper's
    half = 2.576 / 2 * np.sqrt(2 * 1000)
    edges = found[[round(500 - half), round(500 + half)]]
    return law, float(np.median(found)), float(edges[0]), float(edges[1])


def attacked(
    rng: np.random.Generator, crowd: abo.NIW, step: np.ndarray, setting: Setting, count: int
) -> np.ndarray:
    """Distances of the exact attack's guess from the target, one a table, from sufficient statistics."""
    fitted = crowd.update(abo.Moments(1.0, crowd.mean + step, np.zeros((1000, P, P))))
    means, roots = fitted.draw_roots(rng, count)
    means, roots = means.swapaxes(0, 1), roots.swapaxes(0, 1)
    if setting.rows is None:
        inverse = np.linalg.inv(roots @ roots.swapaxes(-1, -2))
        pull = np.sum((inverse @ means[..., None])[..., 0], axis=1)
        statistics = abo.ParameterStatistics(count, np.sum(inverse, axis=1), pull)
    else:
        white = rng.standard_normal((1000, count, P, 1)) / np.sqrt(setting.rows)
        spread = roots @ _bartlett(rng, (1000, count), P, setting.rows - 1)
        counts = np.full(count, float(setting.rows))
        statistics = abo.Moments(counts, means + (roots @ white)[..., 0], spread @ spread.swapaxes(-1, -2))
    return np.linalg.norm(abo.attack_many(crowd, statistics).mode - crowd.mean - step, axis=1)


HEADER = """# The paper's published medians, the law and the exact attack

Median distance between the adversary's guess and the target (20, 20), p = 2, for the paper's 108 published cells:
the closed form of the exposure law; the exact attack over 1000 simulated tables, with the 99 % interval in which
another median of 1000 should lie; and the paper's printed number. {inside} of {cells} printed medians lie inside,
rounding allowed for. Where one does not, both numbers stand; nothing was tuned. Made by
`python -m benchmarks published`.

| release | n | number | law | exact | 99 % interval | paper | |
|---|---|---|---|---|---|---|---|
"""
