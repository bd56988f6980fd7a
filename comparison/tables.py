"""The tables that all tools get: two that come with scikit-learn, and the simulated cohort of allbutone."""

import json
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

    `log`: whether anybody would model it on a log scale.
    """

    name: str
    words: str
    train: pd.DataFrame
    control: pd.DataFrame
    log: bool = False

    def write(self, folder: Path) -> None:
        """Write both parts, what allbutone is told of the columns, and the limits that smartnoise-synth needs."""
        self.train.to_csv(folder / f"{self.name}.csv", index=False)
        self.control.to_csv(folder / f"{self.name}-control.csv", index=False)
        # SDV finds out by itself how values are rounded; allbutone goes by what is declared
        told = {name: {"decimals": decimals_of(self.train[name])} for name in self.train.columns}
        if self.log:
            told = {name: {"scale": "log", **each} for name, each in told.items()}
        (folder / f"{self.name}-schema.json").write_text(json.dumps({"columns": told}))
        low, high = self.train.min(), self.train.max()
        room = 0.1 * (high - low)
        limits = {name: (float((low - room)[name]), float((high + room)[name])) for name in self.train.columns}
        (folder / f"{self.name}-limits.json").write_text(json.dumps(limits))


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
        ("cohort", "simulated polygenic scores, nearly normal", cohort, False),
        ("diabetes", "scikit-learn's diabetes study without sex", diabetes, False),
        ("cancer", "scikit-learn's breast cancer cells, the ten means", means, True),
    )
    return [_cut(*each) for each in tables]


def _cut(name: str, words: str, table: pd.DataFrame, log: bool) -> PublicTable:
    order = np.random.default_rng(SEED).permutation(len(table))
    cut = len(table) - len(table) // 5
    train, control = (table.iloc[np.sort(rows)].reset_index(drop=True) for rows in (order[:cut], order[cut:]))
    return PublicTable(name, words, train.astype(float), control.astype(float), log)


def decimals_of(column: pd.Series) -> int:
    """Return the fewest decimals that lose nothing of the values."""
    return next(places for places in range(16) if np.allclose(column.round(places), column, rtol=0, atol=1e-12))


def normal_table(turn: int, people: int, columns: int) -> np.ndarray:
    """Return an ordinary normal table: correlated columns, nobody who stands out."""
    rng = np.random.default_rng([SEED, turn])
    root = np.linalg.cholesky(0.3 + 0.7 * np.eye(columns))
    return rng.standard_normal((people, columns)) @ root.T
