"""The heart of the comparison: rows released against the error of the recovered record."""

from pathlib import Path

import numpy as np
from scipy.optimize import minimize
from scipy.stats import norm

import allbutone as abo
from allbutone.adversary.modes import find_modes
from allbutone.adversary.plug_in import PlugInTable
from allbutone.figures.risk import Marks
from allbutone.figures.style import BLUE, GREEN, ORANGE, VERMILION
from allbutone.model.moments import Moments
from allbutone.other_tools.fitted_normal import departure, error_of_differencing
from comparison.environments import Environment
from comparison.tables import normal_table

PEOPLE, COLUMNS, TABLES = 100, 5, 10
ROWS = (100, 1000, 10_000, 100_000, 1_000_000)
EXACT, MEANS, LIMITED = "SDV, exact attack", "SDV, means alone", "SDV with its limits, means alone"
DRAWN = "a posterior draw, exact attack"
MARKS = {EXACT: (VERMILION, "circle"), MEANS: (BLUE, "diamond"), LIMITED: (ORANGE, "x"), DRAWN: (GREEN, "square")}


def measure(sdv: Environment, folder: Path) -> tuple[dict[str, np.ndarray] | str, dict]:
    """Return, for each kind, the root mean square errors (tables, numbers of rows), or what went wrong.

    And what the rows of another table tell of these, which SDV draws with the same random numbers.
    """
    for turn in range(TABLES):
        np.save(folder / f"normal-{turn}.npy", normal_table(turn, PEOPLE, COLUMNS))
    said = sdv.run("sdv_rows.py", folder, ",".join(map(str, ROWS)))
    if "error" in said:
        return said["error"], {}
    found = {kind: np.empty((TABLES, len(ROWS))) for kind in MARKS}
    for turn in range(TABLES):
        values = normal_table(turn, PEOPLE, COLUMNS)
        for place, rows in enumerate(ROWS):
            found[EXACT][turn, place], found[MEANS][turn, place] = _plug_in(folder, values, turn, rows)
            found[LIMITED][turn, place] = _limited(folder, values, turn, rows)
            found[DRAWN][turn, place] = _drawn(values, rows)
    return found, said


def marks(found: dict[str, np.ndarray]) -> list[Marks]:
    """Return medians over the tables, with the lowest and highest tenth as bars."""
    made = []
    for kind, (colour, symbol) in MARKS.items():
        low, middle, high = np.quantile(found[kind], (0.1, 0.5, 0.9), axis=0)
        made.append(Marks(kind, ROWS, middle.tolist(), colour, symbol, (low.tolist(), high.tolist())))
    return made


def _root_mean_square(errors: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(errors))))


def _plug_in(folder: Path, values: np.ndarray, turn: int, rows: int) -> tuple[float, float]:
    told = np.load(folder / f"normal-{turn}-{rows}-False.npz")
    table = PlugInTable(values, Moments(float(rows), told["mean"], told["scatter"]), float(PEOPLE))
    if words := departure(table):  # one in 10,000 by chance
        print(f"note: table {turn}, {rows} rows: {words}", flush=True)
    posteriors = table.problem(np.arange(PEOPLE), ())
    guesses = posteriors.unwhiten(find_modes(posteriors).best)
    off = (guesses - values) / values.std(axis=0, ddof=1)
    return _root_mean_square(off), _root_mean_square(error_of_differencing(table))


def _limited(folder: Path, values: np.ndarray, turn: int, rows: int) -> float:
    """Return the error of differencing where rows were limited: means by the likelihood of a limited normal."""
    told, means = np.load(folder / f"normal-{turn}-{rows}-True.npz"), []
    for place in range(COLUMNS):
        column = {name: float(told[name][place]) for name in told.files if name not in ("mean", "scatter")}
        means.append(_limited_mean(column, rows))
    off = PEOPLE * (np.array(means) - values.mean(axis=0)) / values.std(axis=0, ddof=1)
    return _root_mean_square(off)


def _limited_mean(column: dict[str, float], rows: int) -> float:
    inside = rows - column["at_low"] - column["at_high"]

    def minus(parameters: np.ndarray) -> float:
        mean, spread = parameters[0], np.exp(parameters[1])
        low, high = ((column[end] - mean) / spread for end in ("low", "high"))
        tails = column["at_low"] * norm.logcdf(low) + column["at_high"] * norm.logsf(high)
        bulk = column["variance_inside"] + (column["mean_inside"] - mean) ** 2
        return -float(tails - inside * (parameters[1] + bulk / (2 * spread**2))) / rows

    start = np.array([column["mean_inside"], 0.5 * np.log(column["variance_inside"])])
    how = {"xatol": 1e-9, "fatol": 1e-15, "maxiter": 4000, "maxfev": 4000}
    return float(minimize(minus, start, method="Nelder-Mead", options=how).x[0])


def _drawn(values: np.ndarray, rows: int) -> float:
    release = abo.Synthesizer().fit(values).sample(datasets=1, rows=rows)
    guesses = abo.attack(values, release, rows="all", prior=release.prior).mode
    return _root_mean_square((guesses - values) / values.std(axis=0, ddof=1))
