"""The paper's Table A.4 beside what a column gives that is truly normal."""

import csv

import numpy as np

from allbutone.model.niw import NIW
from allbutone.paper.design_file import SHIPPED
from allbutone.support.parallel import in_parallel
from allbutone.utility.columns import ks_numerators, ks_p_values

PEOPLE, DATASETS, COLUMNS = 503, 1000, 5000
NAMES = ("mean_D", "sd_D", "mean_p", "sd_p", "share_p_above_0.05")
HALF = 0.0005  # of a unit of the last printed digit


def print_kolmogorov() -> None:
    """Print each number of the table beside the 99 % interval for a normal column, and say which lie outside."""
    found = np.array(in_parallel(lambda seed: normal_column(np.random.default_rng([1, seed])), range(COLUMNS)))
    low, middle, high = np.quantile(found, [0.005, 0.5, 0.995], axis=0)
    print("| | mean D | SD | mean p | SD | share of p above 0.05 |\n|---|---|---|---|---|---|")
    print(f"| a normal column | {' | '.join(f'{value:.3f}' for value in middle)} |")
    print(f"| its 99 % interval | {' | '.join(f'{a:.3f} to {b:.3f}' for a, b in zip(low, high, strict=True))} |")
    with (SHIPPED / "published_ks.csv").open(encoding="utf-8") as file:
        for line in csv.DictReader(file):
            texts = [f"{float(line[name]):.3f}" for name in NAMES]
            inside = [a - HALF <= float(t) <= b + HALF for t, a, b in zip(texts, low, high, strict=True)]
            words = [text if fits else f"**{text}**" for text, fits in zip(texts, inside, strict=True)]
            print(f"| {line['trait']}, printed | {' | '.join(words)} |")


def normal_column(rng: np.random.Generator) -> list[float]:
    """Return the five numbers for one normal column of 503 people and 1000 synthetic columns of as many rows.

    One column of the five of a table: the marginal of NIW(1.1, 1, 7, I₅) is NIW(1.1, 1, 3, 1).
    """
    real = rng.standard_normal((PEOPLE, 1))
    means, roots = NIW(np.array([1.1]), 1.0, 3.0, np.eye(1)).update(real).draw_roots(rng, DATASETS)
    synthetic = means + roots[:, :, 0] * rng.standard_normal((DATASETS, PEOPLE))
    steps = ks_numerators(np.sort(real[:, 0]), synthetic)
    chances = ks_p_values(PEOPLE, np.full(DATASETS, PEOPLE), steps[:, None])[:, 0]
    distance = steps / PEOPLE**2
    return [distance.mean(), distance.std(ddof=1), chances.mean(), chances.std(ddof=1), np.mean(chances > 0.05)]
