"""Leave-one-out: attack every record of a table at once."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj
from jaxtyping import Float

from allbutone.adversary.build import (
    add_own_well,
    from_parameters,
    from_whitened,
    posterior_of,
    split_priors,
    together,
)
from allbutone.adversary.inputs import Reading, as_given, known_mask, known_patterns, validate_inputs
from allbutone.adversary.log_quadratic import LogQuadratic
from allbutone.adversary.modes import find_modes
from allbutone.adversary.one_target import Attack, describe, with_known
from allbutone.adversary.several_priors import with_another_prior
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.model.prior_file import AnyPrior
from allbutone.releases.folder import AnyRelease
from allbutone.releases.joined import Released, ReleasesByPrior
from allbutone.releases.statistics import JoinedStatistics, Statistics
from allbutone.support import parallel
from allbutone.support.arrays import array_namespace, as_array, eye, solve_rows, to_numpy
from allbutone.support.errors import InputError
from allbutone.support.parallel import in_parallel
from allbutone.tables.records import Records

Array = Any

BLOCK_BYTES = 64 << 20  # that a thread works with at a time, copies included
MOST_BYTES = 2 << 30  # that all threads work with
BLOCKS = 32  # enough for many cores, unless blocks became so small that calling NumPy takes longer than work
BLOCK_ROWS = 256
MOST_HAT = 0.9  # above this hat value, removing a record by a rank-one downdate would cost more than one digit


def attack_all(
    records: Any,
    release: AnyRelease,
    prior: AnyPrior,
    *,
    known: Any = None,
    adversary_prior: AnyPrior | None = None,
    reading: Reading = "record",
    watch: Callable[[int], None] = lambda records: None,
) -> Attack:
    """Attack every record in turn, the adversary holding all the others; fields have a leading axis n.

    Columns are in the release's order, in which a table with names is put and an array is taken to be.
    `known`: columns (names or positions) that the adversary knows of every target; a mask of booleans (p,) or
    (n, p); or a matrix (n, p) of the records' own values with NaN where unknown.
    The table without record i is the whole minus a rank-one term, so nothing is fitted again; blocks of records
    run in parallel in bounded memory. `watch` is called with the number of records finished.

    >>> import allbutone as abo
    >>> cohort = abo.demo_cohort()
    >>> release = abo.NIWSynthesizer().fit(cohort).sample(datasets=2)
    >>> abo.attack_all(cohort, release, release.prior).mode.shape
    (503, 5)
    """
    release, prior, adversary_prior = as_given(release, prior, adversary_prior)
    table = records if is_array_api_obj(records) else Records.of_numbers(records)
    values = validate_inputs(table, release, prior, adversary_prior, reading)
    if values.shape[0] < 2:
        raise InputError(
            f"attack_all needs at least two records, got {values.shape[0]}", "for one target use attack"
        )
    mask = known_mask(known, release.columns or getattr(table, "columns", None), values.shape, values)
    problem = LeaveOneOut.of(values, release, prior, adversary_prior, reading)
    work = [part for pattern in known_patterns(mask) for part in problem.blocks(*pattern)]
    results = in_parallel(problem.attack, work, threads=problem.threads, watch=lambda found: watch(len(found[0])))
    order = np.argsort(np.concatenate([rows for rows, _ in results]))
    attacks = [one for _, one in results]
    return Attack(
        mode=_gather([one.mode for one in attacks], order),
        other_mode=_gather([one.other_mode for one in attacks], order),
        log_posterior_gap=_gather([one.log_posterior_gap for one in attacks], order),
        covariance=_gather([one.covariance for one in attacks], order),
        status=_gather([one.status for one in attacks], order),
        iterations=max(one.iterations for one in attacks),
    )


def _gather(parts: list[Any], order: np.ndarray) -> Any:
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)[order]
    xp = array_namespace(parts[0])
    return xp.take(xp.concat(parts), as_array(order, like=parts[0]), axis=0)


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """All that the n attacks share: the whole table's posterior and the release, in its whitened coordinates."""

    records: Float[Array, "n p"]
    release: Released | None  # None where there is none yet, but one to be simulated
    prior: NIW
    own_prior: NIW | None
    own: NIW | None
    whole: NIW
    root: Float[Array, "p p"]
    white: Float[Array, "n p"]
    released: Statistics
    fitted: LogQuadratic
    rest: "tuple[LeaveOneOut, ...]" = ()  # the same for releases of other priors
    elsewhere: Moments | None = None  # of records of the table that are not among these

    @classmethod
    def of(
        cls,
        records: Array,
        release: Released,
        prior: NIW,
        own_prior: NIW | None,
        reading: Reading,
        elsewhere: Moments | None = None,
    ) -> "LeaveOneOut":
        """Fit the whole table once and bring the release into its coordinates."""
        if isinstance(release, ReleasesByPrior):
            parts = [(part, part.prior) for part in release.rest if part.prior is not None]
            rest = tuple(cls.of(records, part, own, None, "record", elsewhere) for part, own in parts)
            return replace(cls.of(records, release.first, prior, own_prior, reading, elsewhere), rest=rest)
        prior, own_prior = split_priors(prior, own_prior, reading)
        moments = Moments.of(records) if elsewhere is None else Moments.of(records).merge(elsewhere)
        whole, own = prior.update(moments), None if own_prior is None else own_prior.update(moments)
        root, released = release.whitened(whole)
        white, fitted = solve_rows(root, records - whole.mean), from_whitened(whole, root, released)
        return cls(records, release, prior, own_prior, own, whole, root, white, released, fitted, (), elsewhere)

    def blocks(self, known: tuple[int, ...], rows: np.ndarray) -> Iterator[tuple[np.ndarray, tuple[int, ...]]]:
        """Cut rows that share their known features into blocks; the few with a high hat value go one by one.

        Hat values sum to less than p, so fewer than p/0.9 records can be above 0.9.
        """
        high = self.hat[rows] > MOST_HAT
        yield from ((row[None], known) for row in rows[high])
        rest = rows[~high]
        # the same blocks on every computer, so that the last digits are the same, too
        size = max(1, min(max(BLOCK_ROWS, -(-len(rest) // BLOCKS)), BLOCK_BYTES // self.record_bytes))
        count = -(-len(rest) // size)
        yield from ((block, known) for block in np.array_split(rest, count or 1) if len(block))

    @property
    def record_bytes(self) -> int:
        """The memory of one record's attack: five copies of its wells' matrices, twelve of their vectors."""
        wells = max(1, self.fitted.wells) + sum(1 + other.fitted.wells for other in self.rest)
        return 8 * wells * (5 * self.whole.p**2 + 12 * self.whole.p)

    @property
    def threads(self) -> int:
        """How many blocks may be worked on at once."""
        return max(1, min(parallel.cores(), MOST_BYTES // max(BLOCK_BYTES, self.record_bytes)))

    def problem(self, rows: np.ndarray, known: tuple[int, ...]) -> LogQuadratic:
        """Return the posteriors of a block of records, of their unknown features where some are known."""
        xp = array_namespace(self.records)
        targets = xp.take(self.records, as_array(rows, like=self.records), axis=0)
        if len(rows) == 1 and self.hat[rows[0]] > MOST_HAT:
            found = self._single(int(rows[0]))
        else:
            found = self._block(targets, xp.take(self.white, as_array(rows, like=self.white), axis=0))
        for other in self.rest:
            found = with_another_prior(found, other.problem(rows, ()))
        return found.given(known, self._features(rows, known)) if known else found

    def downdated(self, rows: np.ndarray) -> LogQuadratic:
        """Return the posteriors of a block of records by downdates, also at high hat values: for predictions."""
        xp = array_namespace(self.records)
        places = as_array(rows, like=self.records)
        return self._block(xp.take(self.records, places, axis=0), xp.take(self.white, places, axis=0))

    def attack(self, block: tuple[np.ndarray, tuple[int, ...]]) -> tuple[np.ndarray, Attack]:
        """Attack a block of records."""
        rows, known = block
        whole = self.problem(rows, ())
        if not known:
            return rows, describe(whole, find_modes(whole))
        features = self._features(rows, known)
        problem = whole.given(known, features)
        return rows, with_known(describe(problem, find_modes(problem), whole), known, features, self.whole.p)

    def _features(self, rows: np.ndarray, features: tuple[int, ...]) -> Float[Array, "b known"]:
        xp = array_namespace(self.records)
        targets = xp.take(self.records, as_array(rows, like=self.records), axis=0)
        return xp.stack([targets[:, position] for position in features], axis=-1)

    @cached_property
    def hat(self) -> Float[np.ndarray, " n"]:
        """The hat values (κ/(κ−1))·δᵀΛ⁻¹δ: the share of its direction that a record supplies, for any prior."""
        xp, kappa = array_namespace(self.white), self.whole.mean_weight
        share = kappa / (kappa - 1) * xp.vecdot(self.white, self.white)
        if self.own is not None:
            kappa, white = self.own.mean_weight, solve_rows(self.own.root, self.records - self.own.mean)
            share = xp.maximum(share, kappa / (kappa - 1) * xp.vecdot(white, white))
        return np.max([to_numpy(share), *(other.hat for other in self.rest)], axis=0)

    def _single(self, row: int) -> LogQuadratic:
        """Return one record's posterior from its others, with a batch axis of length 1."""
        assert self.release is not None
        xp = array_namespace(self.records)
        others = Moments.of(xp.concat([self.records[:row, :], self.records[row + 1 :, :]]))
        others = others if self.elsewhere is None else others.merge(self.elsewhere)
        return posterior_of(others, self.release, self.prior, self.own_prior).as_batch()

    def _block(self, targets: Float[Array, "b p"], white: Float[Array, "b p"]) -> LogQuadratic:
        """Return the posteriors of a block of records by rank-one downdates.

        In the table's coordinates Λ₋ = I − (κ/κ₋)uuᵀ, whose symmetric root is R = I + (√(1−l) − 1)·êêᵀ with
        l = (κ/κ₋)‖u‖² the hat value; μ₋ = −u/κ₋.
        """
        xp, p, kappa = array_namespace(white), self.whole.p, self.whole.mean_weight
        squared = xp.vecdot(white, white)
        shrink = xp.sqrt(1 - kappa / (kappa - 1) * squared) - 1
        unit = white / xp.sqrt(xp.where(squared > 0, squared, 1.0))[:, None]
        own = eye(p, like=white) + shrink[:, None, None] * (unit[:, :, None] * unit[:, None, :])
        shift = -white / (kappa - 1)
        without = remove_each(self.whole, targets)

        def after(released: Statistics) -> LogQuadratic:
            if isinstance(released, JoinedStatistics):
                return together(after(released.parameters), after(released.datasets))
            if isinstance(released, Moments):
                return self._datasets(released, without, white, own, shift)
            moved = released.pull - (released.precision @ shift[..., None])[..., 0]
            turned = (own @ moved[..., None])[..., 0]
            precision = own @ released.precision @ own
            return from_parameters(without, self.root @ own, released.draws, precision, turned)

        problem = after(self.released)
        return problem if self.own_prior is None else self._with_own_prior(problem, targets)

    def _with_own_prior(self, problem: LogQuadratic, targets: Float[Array, "b p"]) -> LogQuadratic:
        """Add each adversary's own prior, downdated in its own coordinates.

        With u = C⁻¹(x − μ) and g = κ/(κ−1): Λ₋⁻¹ = C⁻ᵀ(I + g·uuᵀ/(1 − g‖u‖²))C⁻¹.
        """
        assert self.own is not None
        xp, kappa = array_namespace(targets), self.own.mean_weight
        ratio, step = kappa / (kappa - 1), targets - self.own.mean
        white = solve_rows(self.own.root, step)
        half = xp.linalg.solve(self.own.root, problem.root)
        turned = (half.mT @ white[..., None])[..., 0]
        left = 1 - ratio * xp.vecdot(white, white)
        shape = half.mT @ half
        shape = shape + (ratio / left)[:, None, None] * (turned[..., :, None] * turned[..., None, :])
        place = problem.whiten(self.own.mean - step / (kappa - 1))
        return add_own_well(problem, self.own.df - 1, shape / ratio, place)

    def _datasets(
        self,
        moments: Moments,
        without: NIW,
        white: Float[Array, "b p"],
        own: Float[Array, "b p p"],
        shift: Float[Array, "b p"],
    ) -> LogQuadratic:
        """Return the wells of each record.

        With t = u − r, K = κ + n_z and G = K/(K−1): B₋ = B − G·ttᵀ and r₋ = r − t/(K−1), so that
        h·B₋⁻¹ = B⁻¹/G + nnᵀ/(1 − G·tᵀn), n = B⁻¹t.
        """
        whole = self.fitted
        xp, p, k = array_namespace(white), self.whole.p, moments.count.shape[0]
        kappa, weight = self.whole.mean_weight, self.whole.mean_weight + moments.count
        ratio = weight / (weight - 1)
        inverse = whole.shapes * ((weight + 1) / weight)[:, None, None]
        location = (moments.count / weight)[:, None] * moments.mean
        stay = (inverse @ location[..., None])[..., 0]
        product = xp.reshape(white @ xp.reshape(inverse, (k * p, p)).T, (-1, k, p))
        away, normal = white[:, None, :] - location, product - stay
        left = (1 - ratio * xp.vecdot(away, normal))[..., None]
        shapes = inverse / ratio[:, None, None] + (normal / left)[..., :, None] * normal[..., None, :]
        # R·M·R for all wells of a record in two products: M is symmetric, so the second works on the transpose
        half = xp.reshape(shapes, (-1, k * p, p)) @ own
        turned = xp.matrix_transpose(xp.reshape(half, (-1, k, p, p)))
        shapes = xp.reshape(xp.reshape(turned, (-1, k * p, p)) @ own, (-1, k, p, p))
        # r₋ − μ₋, and h·B₋⁻¹ times it, without a matrix of their own: B⁻¹ has met every vector they are made of
        apart = location - away / (weight - 1)[:, None] - shift[:, None, :]
        slopes = (stay - normal / (weight - 1)[:, None] + product / (kappa - 1)) / ratio[:, None]
        slopes = slopes + normal * xp.vecdot(normal, apart)[..., None] / left
        return LogQuadratic(
            centre=without.mean,
            root=self.root @ own,
            df=without.df,
            outward=(k - 1) * self.whole.df,
            inflation=(kappa - 1) / kappa,
            precision=whole.precision,
            pull=whole.pull,
            weights=self.whole.df + moments.count,
            levels=1 + xp.vecdot(apart, slopes),
            slopes=slopes @ own,
            shapes=shapes,
        )


def remove_each(whole: NIW, records: Float[Array, "n p"]) -> NIW:
    """Return the posterior without each record in turn: κ₋ = κ−1, μ₋ = (κμ − x)/κ₋, Λ₋ = Λ − (κ/κ₋)δδᵀ."""
    step, left = records - whole.mean, whole.mean_weight - 1
    scale = whole.scale - (whole.mean_weight / left) * (step[:, :, None] * step[:, None, :])
    return NIW(whole.mean - step / left, left, whole.df - 1, scale)
