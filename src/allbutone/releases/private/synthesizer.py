"""A synthesizer with a guarantee: fit spends ε once; what is sampled afterwards is free."""

from typing import Any

import numpy as np

from allbutone.releases.private.accounting import DELTA, delta_of, epsilon_of, zcdp_rho
from allbutone.releases.private.ball import PublicBall, model_limits, require_public, without_limits
from allbutone.releases.private.mechanism import NoisyMoments, add_noise
from allbutone.releases.private.release import PrivateRelease
from allbutone.support.errors import Cure, InputError
from allbutone.support.text import listed
from allbutone.tables.declared.schema import Schema
from allbutone.tables.records import Records


class PrivateSynthesizer:
    """Adds noise to a table's moments so that (ε, δ)-differential privacy holds, and draws datasets from them.

    One of n records replaced; n, limits, centres and spreads are public and must not come from the table. Every
    call of `fit` spends ε again; `sample` costs nothing, however often it is called. There is no seed: randomness
    that can be repeated voids the guarantee.

    >>> import allbutone as abo
    >>> private = abo.PrivateSynthesizer(epsilon=3)
    >>> limits = {name: {"low": -8, "high": 8, "centre": 0, "spread": 1} for name in abo.demo_cohort().columns}
    >>> private.fit(abo.demo_cohort(), schema={"columns": limits}).sample(datasets=2, rows=100)
    PrivateRelease: 2 datasets of 100 rows, columns T2D, CAD, HT, BMI, HBA1C
    """

    def __init__(self, epsilon: float, delta: float = DELTA, *, seed: Any = None) -> None:
        if seed is not None:
            refuse_seed()
        self.epsilon: float = epsilon_of(epsilon)
        self.delta: float = delta
        self._moments: NoisyMoments | None = None

    def fit(self, table: Any, *, schema: Any = None, **how_to_read: Any) -> "PrivateSynthesizer":
        """Spend ε on a table, read as by `Records.of`; `schema` is the table file with every column's limits.

        Values outside the limits are brought inside. Gaps are refused: how many rows have them is not public.
        """
        natural, declared = read_private(table, schema, **how_to_read)
        delta = delta_of(self.delta, len(natural))
        _require_enough(*natural.shape)
        require_public(declared, natural)
        mu = float(np.sqrt(2 * zcdp_rho(self.epsilon, delta)))
        ball = PublicBall.of(declared, len(natural), mu)
        self._moments = add_noise(ball, natural, self.epsilon, delta)
        return self

    @property
    def moments(self) -> NoisyMoments:
        """The noisy moments: all that is told of the table; public."""
        if self._moments is None:
            raise InputError("the synthesizer is not fitted", "call fit(table) first")
        return self._moments

    def sample(self, *, datasets: int | None = None, rows: Any = None, seed: Any = None) -> PrivateRelease:
        """Draw datasets; `rows` is a size for all, one for each, or as many as the table has."""
        if seed is not None:
            refuse_seed()
        return PrivateRelease.draw(self.moments, datasets, rows)

    def __repr__(self) -> str:
        """Return what is guaranteed, and of which columns."""
        if self._moments is None:
            return f"PrivateSynthesizer, ε = {self.epsilon:g}, not fitted"
        names = [column.name for column in self._moments.ball.schema.measurements]
        spent = f"ε = {self.epsilon:g} spent on {self._moments.people:,} records"
        return f"PrivateSynthesizer, {spent} of {listed(names)}"


def _require_enough(people: int, p: int) -> None:
    """Refuse, before any ε is spent, tables whose noisy moments no parameters could be drawn from."""
    # the prior has −p degrees of freedom, and n − p of the posterior must exceed p − 1
    least = max(p + 3, 2 * p)
    if people < least:
        raise InputError(
            f"{people} rows are too few for {p} columns, which need {least}; no ε was spent",
            "give more rows",
            Cure("use fewer columns", "drop"),
        )


def read_private(table: Any, schema: Any, **how_to_read: Any) -> tuple[np.ndarray, Schema]:
    """Read a table whose values may pass the limits; return them in natural units, and what is declared."""
    for option in ("complete_cases", "drop_unusable", "gaps", "categories"):
        if how_to_read.get(option):
            raise InputError(
                f"with a guarantee, nothing may depend on the table itself, as {option.replace('_', ' ')} does",
                "prepare the table before, by rules that are fixed beforehand",
            )
    given = table.schema if isinstance(table, Records) and schema is None else Schema.of(schema)
    wide = Records.of(table, schema=without_limits(given), **how_to_read)
    declared = given.for_columns(wide.order)
    model_limits(declared)  # which refuses what has none
    return wide.natural, declared


def refuse_seed() -> None:
    """Say that there is none."""
    raise InputError(
        "a seed or repeat key voids the guarantee: whoever has it can take the noise away",
        "leave it out: the operating system's randomness is used",
    )
