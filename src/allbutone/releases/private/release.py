"""A release with a guarantee: the noisy moments, and datasets drawn from what they say."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from allbutone.model.convergence import Convergence
from allbutone.releases.display import Shown
from allbutone.releases.draw_request import dataset_sizes
from allbutone.releases.entropy import fresh_generator
from allbutone.releases.private.ball import PublicBall
from allbutone.releases.private.mechanism import NoisyMoments
from allbutone.releases.private.posterior import NoiseAware
from allbutone.releases.release import DatasetRelease
from allbutone.support.checks import require_memory
from allbutone.support.errors import InputError
from allbutone.tables.declared.schema import Schema

MODEL = "normal, of noisy moments"
ADJACENCY = "one of n records replaced, n public"
_MECHANISM = (
    "Records are brought into the public limits and ball below; the sum of their outer products, in whole "
    "numbers, gets OpenDP's discrete Gaussian noise. Every dataset is drawn from its own draw of the posterior "
    "given these noisy moments, which knows of the noise; so it tells no more of the records than they do."
)


def _times(epsilon: float) -> str:
    """Return e^ε as a board reads it."""
    found = float(np.exp(min(epsilon, 14.0)))
    return "a million" if found > 1e6 else f"{found:,.3g}" if found < 100 else f"{found:,.0f}"


@dataclass(frozen=True, eq=False, repr=False)
class PrivateRelease(Shown):
    """Datasets in natural units, and the noisy moments from which they and any number more are drawn.

    Once the moments are told, datasets cost no privacy.
    """

    noun: ClassVar[str] = "dataset"

    moments: NoisyMoments
    datasets: tuple[Float[np.ndarray, "_ p"], ...]
    convergence: Convergence | None = None

    @classmethod
    def draw(cls, moments: NoisyMoments, datasets: int | None = None, rows: Any = None) -> "PrivateRelease":
        """Draw datasets with the operating system's randomness; as many rows as people unless said."""
        sizes = dataset_sizes(datasets, rows, moments.people)
        schema, p = moments.ball.schema, moments.ball.p
        require_memory(sum(sizes) * p)
        rng = fresh_generator()
        means, covariances, found = NoiseAware(moments).draw(len(sizes), rng)
        means, covariances = moments.ball.on_model_scale(means, covariances)
        roots = np.linalg.cholesky(covariances)
        drawn = [
            schema.released(mean + rng.standard_normal((size, p)) @ root.T)
            for mean, root, size in zip(means, roots, sizes, strict=True)
        ]
        return cls(moments, tuple(drawn), found)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns' names."""
        return tuple(column.name for column in self.schema.measurements)

    column_names = columns

    @property
    def schema(self) -> Schema:
        """What is declared of the columns."""
        return self.moments.ball.schema

    @property
    def p(self) -> int:
        """The number of columns."""
        return self.moments.ball.p

    @property
    def rows(self) -> tuple[int, ...]:
        """The number of rows of each dataset."""
        return tuple(len(dataset) for dataset in self.datasets)

    @property
    def count(self) -> int:
        """How many datasets."""
        return len(self.datasets)

    @property
    def synthetic(self) -> DatasetRelease:
        """The datasets by themselves, for what compares them with the table; no attack on these is meant."""
        return DatasetRelease(self.datasets, self.columns, None, self.schema)

    @property
    def guarantee(self) -> str:
        """What is guaranteed, for a board."""
        told = self.moments
        worth = "" if round(told.epsilon, 3) < 10 else " An ε of 10 or more promises hardly anything."
        return (
            f"({told.epsilon:.3g}, {told.delta:g})-differentially private: replacing one of {told.people:,} "
            f"records, whatever the others, makes no event more than {_times(told.epsilon)} times as likely, but "
            f"for a probability of {told.delta:g}.{worth}"
        )

    def entries(self) -> dict[str, Any]:
        """Return what release.json says besides its files."""
        told, ball = self.moments, self.moments.ball
        by_column = zip(self.schema.measurements, ball.centre, ball.unit, strict=True)
        public = {
            each.name: {"low": each.low, "high": each.high, "centre": float(middle), "unit": float(unit)}
            for each, middle, unit in by_column
        }
        return {
            "release": "datasets",
            "model": MODEL,
            "mechanism": _MECHANISM,
            "columns": list(self.columns),
            "guarantee": {
                "epsilon": told.epsilon,
                "delta": told.delta,
                "rho": told.rho,
                "adjacency": ADJACENCY,
                "people": told.people,
                "weight": 1.0,
                "limits": public,
                "radius": ball.radius,
                "spread": ball.spread,
                "sensitivity": told.sensitivity,
                "noise": told.noise,
            },
            "noisy_moments": told.matrix.tolist(),
            # as of other releases: mode at the guess, worth one record, on the model's scale
            "prior": {
                "mean": ball.centre.tolist(),
                "mean_weight": 1.0,
                "df": -float(ball.p),
                "scale": np.diag((ball.spread * ball.unit) ** 2).tolist(),
            },
            "declared": self.schema.entries()["columns"],
        }

    @classmethod
    def from_entries(cls, entries: Mapping[str, Any], datasets: list[np.ndarray], where: str) -> "PrivateRelease":
        """Read what `entries` gives."""
        given, names = entries["guarantee"], entries["columns"]
        schema = Schema.of_entries({"columns": entries["declared"]}, where).for_columns(names)
        limits = given["limits"]
        centre, unit = (np.array([float(limits[name][key]) for name in names]) for key in ("centre", "unit"))
        ball = PublicBall(schema, centre, unit, float(given["radius"]), float(given["spread"]))
        matrix = np.array(entries["noisy_moments"], dtype=float)
        if matrix.shape != (ball.p + 1, ball.p + 1) or not np.all(np.isfinite(matrix)):
            raise InputError("its noisy moments do not fit its columns", where=where)
        told = {key: float(given[key]) for key in ("noise", "sensitivity", "epsilon", "delta", "rho")}
        return cls(NoisyMoments(ball, int(given["people"]), matrix, **told), tuple(datasets))
