"""A general location model written out literally: a population, its tables, and synthetic ones from the posterior.

It imports nothing of the package's own arithmetic. Columns: age and bmi, which are normal given the categories sex
(f, m), event (no, yes) and stage (1, 2, 3) by main effects with one covariance.
"""

import numpy as np
from scipy.stats import invwishart

from allbutone.releases.mechanism import Mechanism
from allbutone.releases.release import Release
from allbutone.tables.categories import Categories
from allbutone.tables.records import Records

COLUMNS, CATEGORIES = ("age", "bmi"), ("sex", "event", "stage")
LEVELS = (("f", "m"), ("no", "yes"), ("1", "2", "3"))
SIZES = tuple(map(len, LEVELS))
EFFECTS = np.array([[50.0, 25.0], [1.0, 2.0], [6.0, -1.0], [2.0, 0.5], [-3.0, 1.5]])  # 1, m, yes, stage 2, stage 3
COVARIANCE = np.array([[64.0, 12.0], [12.0, 16.0]])


def odds_of_cells():
    """Cells whose logarithms have main effects, and sex with event and event with stage: no third-order terms."""
    sex, event, stage = np.indices(SIZES)
    logs = -0.4 * sex - 0.6 * event + np.array([0.0, -0.3, -0.5])[stage] + 0.5 * sex * event
    weights = np.exp(logs + 0.4 * event * (stage == 2))
    return (weights / weights.sum()).ravel()


def coded(codes):
    """1, m, yes, stage 2, stage 3."""
    sex, event, stage = codes.T
    return np.column_stack([np.ones(len(codes)), sex == 1, event == 1, stage == 1, stage == 2]).astype(float)


def drawn(rng, rows, cells, effects, covariance):
    """A table: values and codes."""
    codes = np.column_stack(np.unravel_index(rng.choice(len(cells), rows, p=cells), SIZES))
    noise = rng.standard_normal((rows, 2)) @ np.linalg.cholesky(covariance).T
    return coded(codes) @ effects + noise, codes.astype(np.int64)


def population_table(rng, people):
    return drawn(rng, people, odds_of_cells(), EFFECTS, COVARIANCE)


def synthetic(rng, values, codes, rows):
    """Tables, each of parameters of its own: Dirichlet(½) over cells, effects worth one record, the rest flat."""
    n, design = len(values), coded(codes)
    counts = np.bincount(np.ravel_multi_index(codes.T, SIZES), minlength=np.prod(SIZES))
    precision = design.T @ design + np.diag([0.0, 1, 1, 1, 1])
    spread = np.linalg.inv(precision)
    centre = spread @ design.T @ values
    scale = values.T @ values - centre.T @ precision @ centre
    tables = []
    for size in rows:
        covariance = invwishart(n - 1, scale).rvs(random_state=rng)
        noise = np.linalg.cholesky(spread) @ rng.standard_normal(centre.shape) @ np.linalg.cholesky(covariance).T
        tables.append(drawn(rng, size, rng.dirichlet(counts + 0.5), centre + noise, covariance))
    return tables


def records(values, codes, columns=COLUMNS, categories=CATEGORIES, levels=LEVELS):
    return Records(values, columns, categories=Categories(codes, categories, levels), gaps=True)


def release_of(tables, *names):
    """A release of synthetic tables with values and categories, which does not say by which prior."""
    held = tuple(records(*table, *names) for table in tables)
    return Release(Mechanism(held[0].schema, None, missing="keep"), held)
