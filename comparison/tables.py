"""The tables that all tools get: two that come with scikit-learn, and the simulated cohort of allbutone."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_diabetes

import allbutone as abo

SEED = 20260101


@dataclass(frozen=True)
class PublicTable:
    """A table cut into the part that tools are fitted to and a part, of other people, that only controls see.

    `log`: columns that anybody would model on a log scale. Public limits, which smartnoise-synth needs, are the
    table's own extremes, rounded outward: better for it than what is usually public.
    """

    name: str
    words: str
    train: pd.DataFrame
    control: pd.DataFrame
    log: tuple[str, ...] = ()

    def write(self, folder: Path) -> None:
        self.train.to_csv(folder / f"{self.name}.csv", index=False)
        self.control.to_csv(folder / f"{self.name}-control.csv", index=False)


def public_tables() -> list[PublicTable]:
    records = abo.demo_cohort()
    cohort = pd.DataFrame(records.values, columns=list(records.columns))
    diabetes = load_diabetes(as_frame=True, scaled=False).frame.drop(columns=["sex"])
    cancer = load_breast_cancer(as_frame=True).frame
    means = cancer[[name for name in cancer.columns if name.startswith("mean ")]]
    # a few are 0 where the shape has no dent at all, which no logarithm can have
    means = means[(means > 0).all(axis=1)].rename(
        columns=lambda name: name.removeprefix("mean ").replace(" ", "_")
    )
    tables = (
        ("cohort", "simulated polygenic scores, nearly normal", cohort, ()),
        ("diabetes", "scikit-learn's diabetes study without sex", diabetes, ()),
        ("cancer", "scikit-learn's breast cancer cells, the ten means", means, tuple(means.columns)),
    )
    return [_cut(*each) for each in tables]


def _cut(name: str, words: str, table: pd.DataFrame, log: tuple[str, ...]) -> PublicTable:
    order = np.random.default_rng(SEED).permutation(len(table))
    cut = len(table) - len(table) // 5
    train, control = (table.iloc[np.sort(rows)].reset_index(drop=True) for rows in (order[:cut], order[cut:]))
    return PublicTable(name, words, train.astype(float), control.astype(float), log)


def normal_table(turn: int, people: int, columns: int) -> np.ndarray:
    """Return an ordinary normal table: correlated columns, nobody who stands out."""
    rng = np.random.default_rng([SEED, turn])
    root = np.linalg.cholesky(0.3 + 0.7 * np.eye(columns))
    return rng.standard_normal((people, columns)) @ root.T
