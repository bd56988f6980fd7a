"""A release with a guarantee: fit spends ε once; datasets are drawn from what the noisy moments say."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from allbutone.model.augmentation import Convergence
from allbutone.model.location import Parameters, Regression
from allbutone.releases.cut_records import BeforeCut
from allbutone.releases.gaussian_account import delta_of, epsilon_of
from allbutone.releases.mechanism import Mechanism
from allbutone.releases.noisy_counts import (
    CHAINS,
    FIRST_SWEEPS,
    MOST_SWEEPS,
    CellCounts,
    NoisyMargin,
    margin_cells,
    margins_of,
)
from allbutone.releases.private_mechanism import NoiseDesign, NoisyMoments, add_noise
from allbutone.releases.public_ball import PublicBall, model_limits, require_levels, require_public, without_limits
from allbutone.releases.release import Release, dataset_sizes
from allbutone.releases.sampling import fresh_generator
from allbutone.support.errors import Cure, InputError, require_memory
from allbutone.support.parallel import one_thread
from allbutone.support.text import listed
from allbutone.tables.records import Records
from allbutone.tables.schema import Schema, refuse_derived

# The posterior that knows of the noise: exact moments given noisy ones, then the model's parameters given those.
#
# Let T = Σx̃x̃ᵀ be the exact matrix of n records, x̃ = (x, w), normal around the effects of w, with blocks T_xx, T_xw
# and T_ww, and M₀ that of the prior, which is worth one record: its mode is the public guess, Λ₀ = (ν₀ + p + 1)·Σ
# with ν₀ = −p, so M₀ = diag(spread², …, η², ζ², …). (It is no distribution, but its posteriors are; a prior worth
# more would draw correlations towards 0.) Effects and covariance integrate out: with w of rank r,
#
#     p(T | T_ww) ∝ |T|^((n − p − r − 1)/2) · |T + M₀|^(−(ν₀ + n)/2)      (T positive definite)
#
# and the noise is normal around T, the same in every direction. So T given the noisy matrix is that normal
# distribution, weighted by p(T): elliptical slice sampling (Murray, Adams and MacKay 2010) draws from it exactly
# in the limit, without anything to tune. Bernstein and Sheldon (2018) alternate between T and the parameters
# instead, with p(T | parameters) taken for normal; here nothing is approximated, and parameters are not needed on
# the way. All of this is computed from what has been told already: it costs no privacy.
#
# Without categories w = η, and T_ww = n·η² is public. With them T_ww follows from how many people each cell has,
# of which the noisy counts tell (`noisy_counts`): each chain has its own draw of these. What the noisy moments say
# of the counts besides, which is next to nothing, is left aside. Where nobody has a level, T_xw is 0 along it, and
# the noise there says nothing.


AT_A_TIME = 256  # chains, where each gives one draw

Matrices = Float[np.ndarray, "chains q q"]


@dataclass(frozen=True, eq=False)
class NoiseAware:
    """Draws of the parameters given noisy moments and counts, all in the ball's units."""

    noisy: NoisyMoments

    def draw(self, count: int, rng: np.random.Generator) -> tuple[Parameters, Convergence]:
        """Draw shares, means and covariances of all cells, and say whether the chains had settled."""
        ball = self.noisy.ball
        counts = CellCounts(ball.cells, self.noisy.people, self.noisy.counts)
        with one_thread():
            people, of_counts = counts.draw(count, rng)
            moments = _GivenCounts.of(self.noisy, np.repeat(people[:1], CHAINS, axis=0))
            state, found = moments.settled(rng)
            if ball.cells.count == 1:
                effects, covariances = self._more(moments, state, count, found.spacing, rng)
            else:
                effects, covariances = self._with_own_counts(people, found.sweeps, rng)
        shares = rng.standard_gamma(people + counts.weight)
        shares /= shares.sum(axis=1, keepdims=True)
        means = np.einsum("cr,krp->kcp", ball.codes, effects)
        both = found if of_counts.reached else of_counts
        return Parameters(shares, means, covariances[:, None]), both

    def _more(self, moments: Any, state: Matrices, count: int, spacing: int, rng: Any) -> tuple[Any, Any]:
        """Go on with the same chains until there are so many draws."""
        parts = [state]
        while CHAINS * len(parts) < count:
            for _ in range(spacing):
                state = moments.sweep(state, rng)
            parts.append(state)
        drawn = [moments.parameters(each, rng) for each in parts]
        effects, covariances = (np.concatenate(each)[:count] for each in zip(*drawn, strict=True))
        return effects, covariances

    def _with_own_counts(self, people: Any, sweeps: int, rng: np.random.Generator) -> tuple[Any, Any]:
        """Run a chain for each draw of the counts, as long as was found to be enough."""
        drawn = []
        for start in range(0, len(people), AT_A_TIME):
            moments = _GivenCounts.of(self.noisy, people[start : start + AT_A_TIME])
            state = moments.start()
            for _ in range(sweeps):
                state = moments.sweep(state, rng)
            drawn.append(moments.parameters(state, rng))
        effects, covariances = (np.concatenate(each) for each in zip(*drawn, strict=True))
        return effects, covariances


@dataclass(frozen=True, eq=False)
class _GivenCounts:
    """Chains of T given noisy moments and, for each chain, the people of all cells.

    told: the noisy matrix of each chain, with its own T_ww. within: projects w onto what its people span; rank:
    in how many dimensions. beyond: the projection onto the rest, added to T_ww so that determinants leave it out.
    """

    noisy: NoisyMoments
    told: Matrices
    within: Float[np.ndarray, "chains r r"]
    rank: Float[np.ndarray, " chains"]
    beyond: Matrices

    @classmethod
    def of(cls, noisy: NoisyMoments, people: Any) -> "_GivenCounts":
        """Put each chain's own T_ww, by its people in all cells, into the noisy matrix."""
        p, codes = noisy.ball.p, noisy.ball.codes
        of_codes = np.einsum("kc,cr,cs->krs", people.astype(float), codes, codes)
        values, axes = np.linalg.eigh(of_codes)
        there = values > 1e-9 * values[:, -1:]
        within = np.einsum("kri,ki,ksi->krs", axes, there.astype(float), axes)
        size = float(noisy.people) * np.einsum("cr,cr->c", codes, codes).max()
        told = np.repeat(noisy.matrix[None], len(people), axis=0)
        told[:, p:, p:] = of_codes
        told[:, :p, p:] = noisy.matrix[:p, p:] @ within
        told[:, p:, :p] = np.swapaxes(told[:, :p, p:], 1, 2)
        beyond = np.zeros_like(told)
        beyond[:, p:, p:] = size * (np.eye(codes.shape[1]) - within)
        return cls(noisy, told, within, there.sum(axis=1).astype(float), beyond)

    def settled(self, rng: np.random.Generator) -> tuple[Matrices, Convergence]:
        """Run the chains, twice as long until they agree; the first half is forgotten."""
        state = self.start()
        history: list[Float[np.ndarray, "chains s"]] = []
        p, size = self.noisy.ball.p, self.told.shape[-1]
        pairs = [(i, j) for i in range(p) for j in range(i, size)]
        upper = tuple(np.array(pairs).T)
        labels = tuple(f"moment {i + 1}, {j + 1}" for i, j in pairs)
        while True:
            for _ in range(max(FIRST_SWEEPS, len(history))):
                state = self.sweep(state, rng)
                history.append(state[:, *upper])
            found = Convergence.of(len(history), labels, np.array(history[len(history) // 2 :]))
            if found.reached or len(history) >= MOST_SWEEPS:
                return state, found

    def start(self) -> Matrices:
        """Start every chain at the noisy matrix, moved towards the guess until it is positive definite."""
        p = self.noisy.ball.p
        guess = np.zeros_like(self.told)
        guess[:, :p, :p] = self.noisy.people * self._prior[:p, :p]
        guess[:, p:, p:] = self.told[:, p:, p:]
        state, left = guess.copy(), np.ones(len(guess), dtype=bool)
        for share in np.linspace(0.0, 1.0, 65):
            tried = (1 - share) * self.told + share * guess
            good = left & (_log_determinant(tried + self.beyond) > -np.inf)
            further = min(1.0, share + 1 / 64)
            state[good] = ((1 - further) * self.told + further * guess)[good]
            left &= ~good
        return state

    def sweep(self, state: Matrices, rng: np.random.Generator) -> Matrices:
        """Move every chain along an ellipse through it and a new draw of the noise."""
        chains, centre = len(state), self.told
        away, new = state - centre, self._noise(chains, rng)
        level = self._log_weight(state, np.arange(chains)) + np.log(rng.random(chains))
        angle = rng.uniform(0.0, 2 * np.pi, chains)
        low, high = angle - 2 * np.pi, angle.copy()
        moved, left = state.copy(), np.arange(chains)
        while len(left):
            turn = angle[left, None, None]
            tried = centre[left] + away[left] * np.cos(turn) + new[left] * np.sin(turn)
            good = self._log_weight(tried, left) >= level[left]
            moved[left[good]] = tried[good]
            left = left[~good]
            # the bracket closes on where the chain is, which always serves
            low[left] = np.where(angle[left] < 0, angle[left], low[left])
            high[left] = np.where(angle[left] < 0, high[left], angle[left])
            angle[left] = rng.uniform(low[left], high[left])
        return moved

    def _noise(self, chains: int, rng: np.random.Generator) -> Matrices:
        """Return noise like that of the mechanism: σ on the diagonal, σ/√2 off it, none in T_ww."""
        p, q = self.noisy.ball.p, self.told.shape[-1]
        drawn = self.noisy.noise * rng.standard_normal((chains, q, q))
        drawn = 0.5 * (drawn + np.swapaxes(drawn, 1, 2))
        drawn[:, p:, p:] = 0.0
        drawn[:, :p, p:] = drawn[:, :p, p:] @ self.within
        drawn[:, p:, :p] = np.swapaxes(drawn[:, :p, p:], 1, 2)
        return drawn

    def _log_weight(self, state: Matrices, chains: Any) -> Float[np.ndarray, " left"]:
        """Return log p(T | T_ww) without its constant; −∞ where no records have such moments."""
        n, p = self.noisy.people, self.noisy.ball.p
        own = _log_determinant(state + self.beyond[chains])
        both = np.where(own > -np.inf, _log_determinant(state + self._prior), 0.0)
        return 0.5 * (n - p - self.rank[chains] - 1) * own - 0.5 * (n - p) * both

    @property
    def _prior(self) -> Float[np.ndarray, "q q"]:
        """M₀: a record's worth of the guess; every effect is of the size of the spread."""
        ball = self.noisy.ball
        return np.diag(np.r_[np.full(ball.p, ball.spread**2), ball.code_sizes**2])

    def parameters(self, drawn: Matrices, rng: np.random.Generator) -> tuple[Any, Any]:
        """Draw effects and covariance from the posterior of each matrix, by the usual regression of x on w."""
        n, p, both = self.noisy.people, self.noisy.ball.p, drawn + self._prior
        root = np.swapaxes(np.linalg.cholesky(both[:, p:, p:]), 1, 2)
        effects = np.linalg.solve(both[:, p:, p:], both[:, p:, :p])
        scale = both[:, :p, :p] - both[:, :p, p:] @ effects
        scale = 0.5 * (scale + np.swapaxes(scale, 1, 2))
        found, covariances = Regression(effects, root, float(n - p), scale).draw(rng, 1)
        return found[0], covariances[0]


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
_COUNTS = (
    " Categories: each alone and each pair are counted, with the same noise on the counts; in the outer products "
    "a level stands for a corner of a regular simplex. Measurements are normal around the sum of their levels' "
    "effects, with one covariance."
)


def mechanism_in_words(told: NoisyMoments) -> str:
    """Say how a release with a guarantee is made."""
    return _MECHANISM + (_COUNTS if told.counts else "")


def private_mechanism_of(schema: Schema) -> Mechanism:
    """Return the mechanism of tables with these columns; its prior is what the table file declares."""
    return Mechanism(schema, None) if schema.categories else Mechanism.of_measurements(schema, None)


def draw_guaranteed(moments: NoisyMoments, datasets: int | None = None, rows: Any = None) -> Release:
    """Draw datasets with the operating system's randomness; as many rows as people unless said.

    Once the moments are told, datasets cost no privacy.
    """
    sizes = dataset_sizes(datasets, rows, moments.people)
    ball, mechanism = moments.ball, private_mechanism_of(moments.ball.schema)
    require_memory(sum(sizes) * len(mechanism.order))
    rng = fresh_generator()
    drawn, convergence = NoiseAware(moments).draw(len(sizes), rng)
    drawn = BeforeCut(ball).of(drawn)
    means, covariances = ball.on_model_scale(drawn.coefficients, drawn.covariances[:, 0])
    roots, tables = np.linalg.cholesky(covariances), []
    for share, mean, root, size in zip(drawn.shares, means, roots, sizes, strict=True):
        cells = rng.choice(len(share), size=size, p=share)
        values = mean[cells] + rng.standard_normal((size, ball.p)) @ root.T
        tables.append(mechanism.table(mechanism.schema.released(values), ball.cells.codes[cells]))
    return Release(mechanism, tuple(tables), noisy=moments, convergence=convergence)


def guaranteed_entries(told: NoisyMoments) -> dict[str, Any]:
    """Return what release.json says besides its files."""
    ball = told.ball
    names = [column.name for column in ball.schema.categories]
    counts = [
        {"of": [names[place] for place in each.places], "noise": each.noise, "counts": each.counts.tolist()}
        for each in told.counts
    ]
    by_column = zip(ball.schema.measurements, ball.centre, ball.unit, strict=True)
    limits = {
        each.name: {"low": each.low, "high": each.high, "centre": float(middle), "unit": float(unit)}
        for each, middle, unit in by_column
    }
    return {
        "release": "datasets",
        "model": MODEL,
        "mechanism": mechanism_in_words(told),
        "columns": [column.name for column in ball.schema.columns],
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
        **({"noisy_counts": counts} if counts else {}),
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
    measured = [column.name for column in schema.measurements]
    centre, unit = (np.array([float(limits[name][key]) for name in measured]) for key in ("centre", "unit"))
    ball = PublicBall(schema, centre, unit, float(given["radius"]), float(given["spread"]))
    matrix = np.array(entries["noisy_moments"], dtype=float)
    size = ball.p + ball.codes.shape[1]
    if matrix.shape != (size, size) or not np.all(np.isfinite(matrix)):
        raise InputError("its noisy moments do not fit its columns", where=where)
    told = {key: float(given[key]) for key in ("noise", "sensitivity", "epsilon", "delta", "rho")}
    counts = _counts_from(entries.get("noisy_counts", ()), ball, where)
    return NoisyMoments(ball, int(given["people"]), matrix, **told, counts=counts)


def _counts_from(entries: Any, ball: PublicBall, where: str) -> tuple[NoisyMargin, ...]:
    """Read the noisy counts, or say that they are not those of these categories."""
    names = [column.name for column in ball.schema.categories]
    found = tuple(
        NoisyMargin(
            tuple(names.index(name) for name in each["of"]),
            np.array(each["counts"], dtype=float),
            float(each["noise"]),
        )
        for each in entries
    )
    expected = [(places, margin_cells(ball.cells.sizes, places)) for places in margins_of(len(names))]
    if [(each.places, each.counts.size) for each in found] != expected:
        raise InputError("its noisy counts do not fit its categories", where=where)
    return found


# Where ε is spent: once, on the moments of a table; what is drawn from them afterwards is free.


def spend(table: Any, epsilon: float, delta: float, *, schema: Any = None, **how_to_read: Any) -> NoisyMoments:
    """Spend ε on a table, read as by `Records.of`; `schema` is the table file with limits and levels.

    Values outside the limits are brought inside. Gaps are refused: how many rows have them is not public.
    """
    records, declared = read_private(table, schema, **how_to_read)
    people, p = records.natural.shape
    delta = delta_of(delta, people)
    design = NoiseDesign.of(declared, people, epsilon_of(epsilon), delta)
    _require_enough(people, p, design.ball.codes.shape[1])
    require_public(declared, records.natural)
    return add_noise(design, records.natural, records.categories.codes)


def _require_enough(people: int, p: int, r: int) -> None:
    """Refuse, before any ε is spent, tables whose noisy moments no parameters could be drawn from."""
    # the prior has −p degrees of freedom, and n − p of the posterior must exceed p − 1
    least = max(p + r + 2, 2 * p)
    if people < least:
        raise InputError(
            f"{people} rows are too few for {p} columns{' and these categories' * (r > 1)}, which need {least}; "
            "no ε was spent",
            "give more rows",
            Cure("use fewer columns", "drop"),
        )


def read_private(table: Any, schema: Any, **how_to_read: Any) -> tuple[Records, Schema]:
    """Read a table whose values may pass the limits; return it, and what is declared of its columns."""
    for option in ("complete_cases", "drop_unusable", "gaps"):
        if how_to_read.get(option):
            raise InputError(
                f"with a guarantee, nothing may depend on the table itself, as {option.replace('_', ' ')} does",
                "prepare the table before, by rules that are fixed beforehand",
            )
    if isinstance(table, Records):
        refuse_derived(table.schema, "a guarantee", "draw without one")
        _require_as_it_came(table, schema)
    given = table.schema if isinstance(table, Records) and schema is None else Schema.of(schema)
    how_to_read["categories"] = bool(given.categories)
    wide = Records.of(table, schema=without_limits(given), **how_to_read)
    declared = given.for_columns(wide.order)
    undeclared = set(wide.categories.columns) - {column.name for column in declared.categories}
    if undeclared:
        raise InputError(
            f"the table file does not say that {listed(sorted(undeclared))} has categories, and which",
            'declare kind = "category" and its levels',
        )
    model_limits(declared)  # which refuses what has none
    require_levels(declared)
    if wide.categories.levels != tuple(column.levels for column in declared.categories):
        raise InputError("the table was read with other levels than the table file declares", "read it with these")
    return wide, declared


def _require_as_it_came(records: Records, schema: Any) -> None:
    """Refuse records of which the data themselves decided what is there: whoever is left out changes n."""
    wrong, cures = list[str](), list[str | Cure]()
    if records.left_out:
        wrong.append("rows or columns of them were left out because of what is in them")
        cures.append("prepare the table before, by rules that are fixed beforehand, and give the table itself")
    if records.categories.columns and schema is None:
        wrong.append("their levels may be those that are found in them")
        cures.append(Cure("give the table file with all levels that there can be", "schema"))
    if wrong:
        raise InputError(
            f"with a guarantee, nothing may depend on the records themselves: {'; '.join(wrong)}", *cures
        )


def refuse_seed() -> None:
    """Say that there is none."""
    raise InputError(
        "a seed or repeat key voids the guarantee: whoever has it can take the noise away",
        "leave it out: the operating system's randomness is used",
    )
