"""Rows of SDV's copula with normal margins, fitted once to each table: what an attack needs to know of them."""

import json
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sdv.metadata import Metadata
from sdv.single_table import GaussianCopulaSynthesizer

warnings.filterwarnings("ignore")
folder, numbers = Path(sys.argv[1]), [int(each) for each in sys.argv[2].split(",")]
FEW = 20  # rows from which the seed's noise is subtracted
KEPT = 100_000  # rows of the first table that are written out, for Anonymeter


def summary(rows):
    """Moments of all rows, and of those between the limits, with how many are at either limit."""
    mean = rows.mean(axis=0)
    low, high = rows.min(axis=0), rows.max(axis=0)
    inside = (rows > low) & (rows < high)
    return {
        "mean": mean, "scatter": (rows - mean).T @ (rows - mean), "low": low, "high": high,
        "at_low": (rows == low).sum(axis=0), "at_high": (rows == high).sum(axis=0),
        "mean_inside": np.array([column[keep].mean() for column, keep in zip(rows.T, inside.T, strict=True)]),
        "variance_inside": np.array([column[keep].var() for column, keep in zip(rows.T, inside.T, strict=True)]),
    }  # fmt: skip


for file in sorted(folder.glob("normal-*.npy")):
    values = np.load(file)
    table = {"table": pd.DataFrame(values, columns=[f"x{place + 1}" for place in range(values.shape[1])])}
    metadata = Metadata.detect_from_dataframes(table)
    for limits in (False, True):
        synthesizer = GaussianCopulaSynthesizer(
            metadata, default_distribution="norm", enforce_min_max_values=limits, enforce_rounding=False
        )
        synthesizer.fit(table)
        # left to itself SDV draws the same random numbers after every fit, and the tables would all err alike
        synthesizer._set_random_state(2 * int(file.stem.split("-")[1]) + limits)
        for number in numbers:
            drawn = synthesizer.sample(num_rows=number)
            rows = drawn["table"] if isinstance(drawn, dict) else drawn
            np.savez(folder / f"{file.stem}-{number}-{limits}.npz", **summary(rows.to_numpy()))
            if number == KEPT and file.stem == "normal-0" and not limits:
                rows.to_csv(folder / "normal-0-sdv.csv", index=False)


def drawn_as_it_comes(values):
    table = {"table": pd.DataFrame(values, columns=[f"x{place + 1}" for place in range(values.shape[1])])}
    how = {"default_distribution": "norm", "enforce_min_max_values": False, "enforce_rounding": False}
    synthesizer = GaussianCopulaSynthesizer(Metadata.detect_from_dataframes(table), **how)
    synthesizer.fit(table)
    drawn = synthesizer.sample(num_rows=FEW)
    return (drawn["table"] if isinstance(drawn, dict) else drawn).to_numpy()


# somebody else's rows, from somebody else's table, have the same noise: these rows are a linear map of those
mine, theirs = (np.load(folder / f"normal-{turn}.npy") for turn in (0, 1))
noise = np.column_stack([np.ones(FEW), drawn_as_it_comes(theirs) - theirs.mean(axis=0)])
line, *_ = np.linalg.lstsq(noise, drawn_as_it_comes(mine), rcond=None)
off = len(mine) * (line[0] - mine.mean(axis=0)) / mine.std(axis=0)
print(json.dumps({"few": FEW, "error_by_the_seed": float(np.sqrt(np.mean(off**2)))}))
