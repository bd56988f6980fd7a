"""A release with a guarantee: fit spends ε once; datasets are drawn from what the noisy moments say."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from allbutone.model.augmentation import Convergence
from allbutone.model.niw import NIW
from allbutone.releases.mechanism import Mechanism
from allbutone.releases.private_mechanism import (
    NoisyMoments,
    PublicBall,
    add_noise,
    delta_of,
    epsilon_of,
    model_limits,
    require_public,
    without_limits,
    zcdp_rho,
)
from allbutone.releases.release import Release, dataset_sizes
from allbutone.releases.sampling import fresh_generator
from allbutone.support.errors import Cure, InputError, require_memory
from allbutone.support.parallel import one_thread
from allbutone.tables.records import Records
from allbutone.tables.schema import Schema

# The posterior that knows of the noise: exact moments given noisy ones, then the model's parameters given those.
#
# Let T = Σx̃x̃ᵀ be the exact matrix of n normal records, and M₀ that of the prior, which is worth one record: its
# mode is the public guess, Λ₀ = (ν₀ + p + 1)·Σ with ν₀ = −p, so M₀ = diag(spread², …, η²). (It is no distribution,
# but its posteriors are; a prior worth more would draw correlations towards 0.) Mean and covariance integrate out:
#
#     p(T) ∝ |T|^((n − p − 2)/2) · |T + M₀|^(−(ν₀ + n)/2)      (T positive definite, its last entry n·η²)
#
# and the noise is normal around T, the same in every direction. So T given the noisy matrix is that normal
# distribution, weighted by p(T): elliptical slice sampling (Murray, Adams and MacKay 2010) draws from it exactly
# in the limit, without anything to tune. Bernstein and Sheldon (2018) alternate between T and the parameters
# instead, with p(T | parameters) taken for normal; here nothing is approximated, and parameters are not needed on
# the way. All of this is computed from what has been told already: it costs no privacy.


CHAINS = 32
FIRST_SWEEPS, MOST_SWEEPS = 128, 2048

Matrices = Float[np.ndarray, "chains q q"]


@dataclass(frozen=True, eq=False)
class NoiseAware:
    """Draws of mean and covariance given noisy moments, all in the ball's units."""

    noisy: NoisyMoments

    def draw(self, count: int, rng: np.random.Generator) -> tuple[Any, Any, Convergence]:
        """Draw `count` means (count, p) and covariances (count, p, p), and say whether the chains had settled."""
        with one_thread():
            state, found = self._settled(rng)
            parts: list[Matrices] = [state]
            while CHAINS * len(parts) < count:
                for _ in range(found.spacing):
                    state = self._sweep(state, rng)
                parts.append(state)
            means, covariances = self._parameters(np.concatenate(parts)[:count], rng)
        return means, covariances, found

    def _settled(self, rng: np.random.Generator) -> tuple[Matrices, Convergence]:
        """Run the chains, twice as long until they agree; the first half is forgotten."""
        state = self._start()
        history: list[Float[np.ndarray, "chains s"]] = []
        upper = np.triu_indices(len(self.noisy.matrix))
        labels = tuple(f"moment {i + 1}, {j + 1}" for i, j in zip(*upper, strict=True))
        while True:
            for _ in range(max(FIRST_SWEEPS, len(history))):
                state = self._sweep(state, rng)
                history.append(state[:, *upper])
            found = Convergence.of(len(history), labels, np.array(history[len(history) // 2 :]))
            if found.reached or len(history) >= MOST_SWEEPS:
                return state, found

    def _start(self) -> Matrices:
        """Start every chain at the noisy matrix, moved towards the guess until it is positive definite."""
        guess = self.noisy.people * self._prior
        share = next(
            s for s in np.linspace(0.0, 1.0, 65) if _log_determinant(self._between(guess, s)[None])[0] > -np.inf
        )
        return np.repeat(self._between(guess, min(1.0, share + 1 / 64))[None], CHAINS, axis=0)

    def _between(self, guess: Float[np.ndarray, "q q"], share: float) -> Float[np.ndarray, "q q"]:
        return (1 - share) * self.noisy.matrix + share * guess

    def _sweep(self, state: Matrices, rng: np.random.Generator) -> Matrices:
        """Move every chain along an ellipse through it and a new draw of the noise."""
        chains, centre = len(state), self.noisy.matrix
        away, new = state - centre, self._noise(chains, rng)
        level = self._log_weight(state) + np.log(rng.random(chains))
        angle = rng.uniform(0.0, 2 * np.pi, chains)
        low, high = angle - 2 * np.pi, angle.copy()
        moved, left = state.copy(), np.arange(chains)
        while len(left):
            turn = angle[left, None, None]
            tried = centre + away[left] * np.cos(turn) + new[left] * np.sin(turn)
            good = self._log_weight(tried) > level[left]
            moved[left[good]] = tried[good]
            left = left[~good]
            # the bracket closes on where the chain is, which always serves
            low[left] = np.where(angle[left] < 0, angle[left], low[left])
            high[left] = np.where(angle[left] < 0, high[left], angle[left])
            angle[left] = rng.uniform(low[left], high[left])
        return moved

    def _noise(self, chains: int, rng: np.random.Generator) -> Matrices:
        """Return noise like that of the mechanism: σ on the diagonal, σ/√2 off it, none in the last entry."""
        q = len(self.noisy.matrix)
        drawn = self.noisy.noise * rng.standard_normal((chains, q, q))
        drawn[:, -1, -1] = 0.0
        return 0.5 * (drawn + np.swapaxes(drawn, 1, 2))

    def _log_weight(self, state: Matrices) -> Float[np.ndarray, " chains"]:
        """Return log p(T) without its constant; −∞ where no records have such moments."""
        n, p = self.noisy.people, self.noisy.ball.p
        own = _log_determinant(state)
        both = np.where(own > -np.inf, _log_determinant(state + self._prior), 0.0)
        return 0.5 * (n - p - 2) * own - 0.5 * (n - p) * both

    @property
    def _prior(self) -> Float[np.ndarray, "q q"]:
        """M₀: a record's worth of the guess."""
        ball = self.noisy.ball
        return np.diag([ball.spread**2] * ball.p + [ball.eta**2])

    def _parameters(self, drawn: Matrices, rng: np.random.Generator) -> tuple[Any, Any]:
        """Draw mean and covariance from the posterior of each matrix: T + M₀ = (Λ + κ·μμᵀ, η·κ·μ; …, η²·κ)."""
        n, eta, both = self.noisy.people, self.noisy.ball.eta, drawn + self._prior
        mean = both[:, :-1, -1] / (eta * (n + 1))
        scale = both[:, :-1, :-1] - (n + 1) * mean[:, :, None] * mean[:, None, :]
        means, covariances = NIW(mean, n + 1.0, float(n - self.noisy.ball.p), scale).draw(rng, 1)
        return means[0], covariances[0]


def _log_determinant(matrices: Float[np.ndarray, "batch q q"]) -> Float[np.ndarray, " batch"]:
    """Return the log determinants of positive definite matrices, −∞ for others: pivots, for all at once."""
    left, found = matrices.copy(), np.zeros(len(matrices))
    least = 1e-13 * np.max(np.abs(np.diagonal(matrices, axis1=1, axis2=2)), axis=1)
    for k in range(matrices.shape[-1]):
        good = left[:, k, k] > least
        pivot = np.where(good, left[:, k, k], 1.0)
        found += np.where(good, np.log(pivot), -np.inf)
        row = left[:, k, k + 1 :] * good[:, None]  # nothing more of one that is lost
        left[:, k + 1 :, k + 1 :] -= row[:, :, None] * (row / pivot[:, None])[:, None, :]
    return found


# A release with a guarantee: the noisy moments, and datasets drawn from what they say.


MODEL = "normal, of noisy moments"
ADJACENCY = "one of n records replaced, n public"
_MECHANISM = (
    "Records are brought into the public limits and ball below; the sum of their outer products, in whole "
    "numbers, gets OpenDP's discrete Gaussian noise. Every dataset is drawn from its own draw of the posterior "
    "given these noisy moments, which knows of the noise; so it tells no more of the records than they do."
)


def draw_guaranteed(moments: NoisyMoments, datasets: int | None = None, rows: Any = None) -> Release:
    """Draw datasets with the operating system's randomness; as many rows as people unless said.

    Once the moments are told, datasets cost no privacy.
    """
    sizes = dataset_sizes(datasets, rows, moments.people)
    mechanism, p = Mechanism.of_measurements(moments.ball.schema, None), moments.ball.p
    require_memory(sum(sizes) * p)
    rng = fresh_generator()
    means, covariances, convergence = NoiseAware(moments).draw(len(sizes), rng)
    means, covariances = moments.ball.on_model_scale(means, covariances)
    roots = np.linalg.cholesky(covariances)
    tables = tuple(
        mechanism.table(mechanism.schema.released(mean + rng.standard_normal((size, p)) @ root.T))
        for mean, root, size in zip(means, roots, sizes, strict=True)
    )
    return Release(mechanism, tables, noisy=moments, convergence=convergence)


def guaranteed_entries(told: NoisyMoments) -> dict[str, Any]:
    """Return what release.json says besides its files."""
    ball = told.ball
    by_column = zip(ball.schema.measurements, ball.centre, ball.unit, strict=True)
    limits = {
        each.name: {"low": each.low, "high": each.high, "centre": float(middle), "unit": float(unit)}
        for each, middle, unit in by_column
    }
    return {
        "release": "datasets",
        "model": MODEL,
        "mechanism": _MECHANISM,
        "columns": [column.name for column in ball.schema.measurements],
        "guarantee": {
            "epsilon": told.epsilon,
            "delta": told.delta,
            "rho": told.rho,
            "adjacency": ADJACENCY,
            "people": told.people,
            "weight": 1.0,
            "limits": limits,
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
        "declared": ball.schema.entries()["columns"],
    }


def guaranteed_from(entries: Mapping[str, Any], where: str) -> NoisyMoments:
    """Read what `guaranteed_entries` gives."""
    given, names = entries["guarantee"], entries["columns"]
    schema = Schema.of_entries({"columns": entries["declared"]}, where).for_columns(names)
    limits = given["limits"]
    centre, unit = (np.array([float(limits[name][key]) for name in names]) for key in ("centre", "unit"))
    ball = PublicBall(schema, centre, unit, float(given["radius"]), float(given["spread"]))
    matrix = np.array(entries["noisy_moments"], dtype=float)
    if matrix.shape != (ball.p + 1, ball.p + 1) or not np.all(np.isfinite(matrix)):
        raise InputError("its noisy moments do not fit its columns", where=where)
    told = {key: float(given[key]) for key in ("noise", "sensitivity", "epsilon", "delta", "rho")}
    return NoisyMoments(ball, int(given["people"]), matrix, **told)


# Where ε is spent: once, on the moments of a table; what is drawn from them afterwards is free.


def spend(table: Any, epsilon: float, delta: float, *, schema: Any = None, **how_to_read: Any) -> NoisyMoments:
    """Spend ε on a table, read as by `Records.of`; `schema` is the table file with every column's limits.

    Values outside the limits are brought inside. Gaps are refused: how many rows have them is not public.
    """
    natural, declared = read_private(table, schema, **how_to_read)
    delta = delta_of(delta, len(natural))
    _require_enough(*natural.shape)
    require_public(declared, natural)
    mu = float(np.sqrt(2 * zcdp_rho(epsilon_of(epsilon), delta)))
    return add_noise(PublicBall.of(declared, len(natural), mu), natural, epsilon, delta)


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
