"""Leave-one-out: attack every record at once, each from the whole table's model less a rank-one term."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj, is_numpy_array
from jaxtyping import Float, Int

from allbutone.adversary.attack import Attack, describe, with_known
from allbutone.adversary.build import add_own_well, from_whitened, posterior_of, together, with_another_prior
from allbutone.adversary.log_quadratic import LogQuadratic, in_layout, stretched
from allbutone.adversary.modes import find_modes
from allbutone.adversary.who import Adversary, Reading, admit, split_priors
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.model.prior import AnyPrior
from allbutone.releases.folder import AnyRelease
from allbutone.releases.several import Part, Released, Releases
from allbutone.releases.statistics import JoinedStatistics
from allbutone.support import devices, parallel
from allbutone.support.arrays import array_namespace, as_array, contiguous, eye, solve_rows, to_numpy
from allbutone.support.devices import HERE, device_of, moved_to, own_queue
from allbutone.support.errors import Cure, InputError
from allbutone.support.parallel import in_parallel
from allbutone.tables.records import Records

# The posterior of each record without that record: the whole table's model less a rank-one term.


Array = Any


@dataclass(frozen=True, eq=False)
class UpdatedModels:
    """The models given the whole table and each of k datasets, in the coordinates of the whole table's root.

    `weight`, `location` and `scale` of each; `rows`: by how much its ν exceeds the whole table's.
    """

    weight: Float[Array, " k"]
    location: Float[Array, "k p"]
    scale: Float[Array, "k p p"]
    rows: Float[Array, " k"]


@dataclass(frozen=True, eq=False)
class WholeTable:
    """What the attacks on all records share: the whole table's posterior and the release in its coordinates.

    `own`: the posterior of the adversary's own prior, if any. `fitted`: ℓ of one record more than the table has.
    """

    whole: NIW
    own: NIW | None
    root: Float[Array, "p p"]
    released: Any  # Statistics, or `UpdatedModels`, or parameters' statistics and those (a pair)
    fitted: LogQuadratic

    @classmethod
    def of(cls, moments: Moments, release: Any, prior: NIW, own_prior: NIW | None) -> "WholeTable":
        """Fit the whole table once and bring the release into its coordinates."""
        whole, own = prior.update(moments), None if own_prior is None else own_prior.update(moments)
        root, released = release.normal.whitened(whole)
        return cls(whole, own, root, released, from_whitened(whole, root, released))

    def without(self, targets: Float[Array, "b p"], white: Float[Array, "b p"]) -> LogQuadratic:
        """Return the posteriors of some records, given also in coordinates of the root, by rank-one downdates.

        Without x the model is NIW(μ₋, κ₋, ν − 1, Λ₋): κ₋ = κ − 1, μ₋ = μ − δ/κ₋, Λ₋ = Λ − (κ/κ₋)δδᵀ, δ = x − μ.
        In the table's coordinates Λ₋ = I − (κ/κ₋)uuᵀ, whose symmetric root is R = I + (√(1−l) − 1)·êêᵀ with
        l = (κ/κ₋)‖u‖² the hat value; μ₋ = −u/κ₋.
        """
        xp, p, kappa = array_namespace(white), self.whole.p, self.whole.mean_weight
        squared = xp.vecdot(white, white)
        shrink = xp.sqrt(1 - kappa / (kappa - 1) * squared) - 1
        unit = white / xp.sqrt(xp.where(squared > 0, squared, 1.0))[:, None]
        own = eye(p, like=white) + shrink[:, None, None] * (unit[:, :, None] * unit[:, None, :])
        shift = -white / (kappa - 1)
        nothing = LogQuadratic(
            centre=self.whole.mean - (targets - self.whole.mean) / (kappa - 1),
            root=self.root @ own,
            df=self.whole.df - 1,
            outward=-self.whole.df,
            inflation=(kappa - 1) / kappa,
        )

        def after(released: Any) -> LogQuadratic:
            if isinstance(released, JoinedStatistics):
                return together(after(released.parameters), after(released.datasets))
            if isinstance(released, tuple):
                return together(*map(after, released))
            if isinstance(released, Moments):
                weight = kappa + released.count
                location = (released.count / weight)[:, None] * released.mean
                return self._datasets((weight, location, released.count), nothing, white, (shrink, unit, own))
            if isinstance(released, UpdatedModels):
                updated = (released.weight, released.location, released.rows)
                return self._datasets(updated, nothing, white, (shrink, unit, own))
            moved = released.pull - (released.precision @ shift[..., None])[..., 0]
            turned = (own @ moved[..., None])[..., 0]
            outward = (released.draws - 1) * self.whole.df
            return replace(nothing, outward=outward, precision=own @ released.precision @ own, pull=turned)

        problem = after(self.released)
        return problem if self.own is None else self._with_own_prior(problem, targets)

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
        updated: tuple[Float[Array, " k"], Float[Array, "k p"], Float[Array, " k"]],
        nothing: LogQuadratic,
        white: Float[Array, "b p"],
        own: tuple[Float[Array, " b"], Float[Array, "b p"], Float[Array, "b p p"]],
    ) -> LogQuadratic:
        """Return the wells of each record, whose posterior without a release is `nothing`.

        `updated`: weight K, location r and rows of each model with a dataset. With t = u − r and G = K/(K−1):
        B₋ = B − G·ttᵀ and r₋ = r − t/(K−1), so that
        M = h·B₋⁻¹ = B⁻¹/G + nnᵀ/l, n = B⁻¹t, l = 1 − G·tᵀn. From the others' centre it is e = r₋ − μ₋ = Gr + cu,
        c = 1/(κ−1) − 1/(K−1), and m = Me = B⁻¹r + (c/G)·B⁻¹u + (nᵀe/l)·n = (1 + c/G)·B⁻¹r + (c/G + nᵀe/l)·n.
        In the record's own coordinates, with `own` = (a, ê, R), they are RMR and Rm. Numbers come of uᵀB⁻¹u,
        uᵀB⁻¹r and rᵀB⁻¹r, which are at most 1, so that nothing is lost in their differences.
        """
        # vectors are (b, p, k) here: all is done along the wells
        (weight, location, rows), kappa = updated, self.whole.mean_weight
        xp, p, k = array_namespace(white), self.whole.p, rows.shape[0]
        ratio = weight / (weight - 1)
        inverse = contiguous(xp.moveaxis(self.fitted.shapes, 0, -1)) * ((weight + 1) / weight)
        location = location.T
        stay = xp.sum(inverse * location, axis=1)
        product = xp.reshape(white @ xp.reshape(inverse, (p, p * k)), (-1, p, k))
        uu, ur, rr = (white[:, None, :] @ product)[:, 0, :], white @ stay, xp.sum(location * stay, axis=0)
        left = 1 - ratio * (uu - 2 * ur + rr)
        moved = (weight - kappa) / ((kappa - 1) * (weight - 1))
        met = ratio * (ur - rr) + moved * (uu - ur)
        share = met / left
        normal, stay = own[-1] @ (product - stay), own[-1] @ stay
        slopes = (moved / ratio + share)[:, None, :] * normal + (1 + moved / ratio) * stay
        return replace(
            nothing,
            outward=(k - 1) * self.whole.df,
            weights=self.whole.df + rows,
            levels=1 + ratio * rr + moved * (2 * ur + (moved / ratio) * uu) + share * met,
            slopes=in_layout(slopes),
            shapes=stretched(inverse / ratio, own, normal, left[:, None, :]),
        )


def remove_each(whole: NIW, records: Float[Array, "n p"]) -> NIW:
    """Return the posterior without each record in turn: κ₋ = κ−1, μ₋ = (κμ − x)/κ₋, Λ₋ = Λ − (κ/κ₋)δδᵀ."""
    step, left = records - whole.mean, whole.mean_weight - 1
    scale = whole.scale - (whole.mean_weight / left) * (step[:, :, None] * step[:, None, :])
    return NIW(whole.mean - step / left, left, whole.df - 1, scale)


# Leave-one-out: attack every record of a table at once.


BLOCK_BYTES = 64 << 20  # that a thread works with at a time, copies included
MOST_BYTES = 2 << 30  # that all threads work with
BLOCKS = 32  # enough for many cores, unless blocks became so small that calling NumPy takes longer than work
BLOCK_ROWS = 256
MOST_HAT = 0.9  # above this hat value, removing a record by a rank-one downdate would cost more than one digit


def attack_rows(
    records: Any,
    release: AnyRelease,
    adversary: Adversary,
    prior: AnyPrior | None,
    reading: Reading,
    rows: Int[np.ndarray, " m"] | None = None,
    device: str = HERE,
    watch: Callable[[int], None] = lambda records: None,
) -> Attack:
    """Attack some records (places; all by default), each by an adversary who has all the others.

    The table without record i is the whole minus a rank-one term, so nothing is fitted again; blocks of records
    run in parallel in bounded memory, on the processor or on a graphics card, which takes and gives NumPy's
    arrays; tensors are attacked where they are. `watch` is called with the number of records done.
    """
    table = records if is_array_api_obj(records) else Records.of_numbers(records)
    values, released, taken, own = admit(table, release, adversary, prior, reading)
    if values.shape[0] < 2:
        raise InputError(
            f"leaving out one needs at least two records, got {values.shape[0]}",
            Cure("for a target that is missing from the table, leave them out", "rows"),
        )
    names = (
        adversary.of(released.columns).known_columns
        if adversary.known or adversary.known_values is not None
        else ()
    )
    released.mechanism.schema.require_known_ends(names)
    known = tuple(sorted(released.columns.index(name) for name in names))
    problem = LeaveOneOut.of(values, released, taken, own, "record").on(device)
    places = np.arange(values.shape[0]) if rows is None else rows
    results = in_parallel(
        problem.attack,
        list(problem.blocks(known, places)),
        threads=problem.threads,
        watch=lambda block: watch(len(block[0])),
        anywhere=isinstance(problem.records, np.ndarray) and problem.device is None,
    )
    fields = ("mode", "other_mode", "log_posterior_gap", "covariance", "status")
    gathered = {name: _gather(places, [(some, getattr(one, name)) for some, one in results]) for name in fields}
    return Attack(**gathered, iterations=max(one.iterations for _, one in results))


def _gather(places: np.ndarray, parts: list[tuple[np.ndarray, Any]]) -> Any:
    """Return what was found of some rows each, in the order of `places`."""
    every = np.concatenate([rows for rows, _ in parts])
    back = np.argsort(every)[np.searchsorted(np.sort(every), places)]
    if isinstance(parts[0][1], np.ndarray):
        return np.concatenate([part for _, part in parts])[back]
    xp = array_namespace(parts[0][1])
    return xp.take(xp.concat([part for _, part in parts]), as_array(back, like=parts[0][1]), axis=0)


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """The attacks on n records: all they share, and the records in the whole table's whitened coordinates."""

    records: Float[Array, "n p"]
    release: Released | None  # None where there is none yet, but one to be simulated
    prior: NIW
    own_prior: NIW | None
    white: Float[Array, "n p"]
    table: WholeTable
    rest: "tuple[LeaveOneOut, ...]" = ()  # the same for releases of other priors, or of fewer records
    elsewhere: Moments | None = None  # of records of the table that are not among these
    device: Any = None  # of PyTorch's, where blocks of records are attacked
    start: int = 0  # of fewer records: where they begin among all

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
        if isinstance(release, Releases):
            first, *others = release.parts
            rest = tuple(cls._part(records, part, elsewhere) for part in others)
            return replace(cls.of(records, first.release, prior, own_prior, reading, elsewhere), rest=rest)
        prior, own_prior = split_priors(prior, own_prior, reading)
        moments = Moments.of(records) if elsewhere is None else Moments.of(records).merge(elsewhere)
        table = WholeTable.of(moments, release, prior, own_prior)
        white = solve_rows(table.root, records - table.whole.mean)
        return cls(records, release, prior, own_prior, white, table, elsewhere=elsewhere)

    @classmethod
    def _part(cls, records: Array, part: Part, elsewhere: Moments | None) -> "LeaveOneOut":
        """Do the same for one part of several releases; of one that was made from fewer records, by those."""
        prior = part.release.mechanism.require_prior()
        if part.people is None:
            return cls.of(records, part.release, prior, None, "record", elsewhere)
        start, stop, _ = part.people.indices(records.shape[0])
        return replace(cls.of(records[start:stop, :], part.release, prior, None, "record"), start=start)

    def on(self, device: str) -> "LeaveOneOut":
        """Return the same, attacked on a device ("cuda") from arrays of NumPy's."""
        if device == HERE:
            return self
        where = device_of(device)
        if not is_numpy_array(self.records):
            raise InputError("tensors are attacked where they are", Cure("leave out the device", "device", HERE))
        return replace(self, device=where, rest=tuple(other.on(device) for other in self.rest))

    @cached_property
    def _there(self) -> WholeTable:
        """What the attacks share, where they are done."""
        return moved_to(self.device, self.table)

    def blocks(self, known: tuple[int, ...], rows: np.ndarray) -> Iterator[tuple[np.ndarray, tuple[int, ...]]]:
        """Cut rows that share their known features into blocks; the few with a high hat value go one by one.

        Hat values sum to less than p, so fewer than p/0.9 records can be above 0.9.
        """
        high = self.hat[rows] > MOST_HAT
        yield from ((row[None], known) for row in rows[high])
        for rest in self._alike(rows[~high]):
            yield from ((block, known) for block in self._cut(rest))

    def _alike(self, rows: np.ndarray) -> list[np.ndarray]:
        """Split rows by which of the releases were made from them."""
        ends = sorted({end for part in self.rest for end in (part.start, part.start + part.records.shape[0])})
        of_each = np.searchsorted(ends, rows, side="right")
        return [rows[of_each == each] for each in np.unique(of_each)]

    def _cut(self, rest: np.ndarray) -> Iterator[np.ndarray]:
        # the same blocks on every computer, so that the last digits are the same, too
        size = max(1, min(max(BLOCK_ROWS, -(-len(rest) // BLOCKS)), BLOCK_BYTES // self.record_bytes))
        if self.device is not None:
            size = max(1, devices.BLOCK_BYTES // self.record_bytes)
        count = -(-len(rest) // size)
        yield from (block for block in np.array_split(rest, count or 1) if len(block))

    @property
    def record_bytes(self) -> int:
        """The memory of one record's attack: five copies of its wells' matrices, twelve of their vectors."""
        wells = max(1, self.table.fitted.wells) + sum(1 + other.table.fitted.wells for other in self.rest)
        p = self.table.whole.p
        return 8 * wells * (5 * p**2 + 12 * p)

    @property
    def threads(self) -> int:
        """How many blocks may be worked on at once."""
        if self.device is not None:
            return devices.THREADS
        return max(1, min(parallel.cores(), MOST_BYTES // max(BLOCK_BYTES, self.record_bytes)))

    def problem(self, rows: np.ndarray, known: tuple[int, ...]) -> LogQuadratic:
        """Return the posteriors of a block of records, of their unknown features where some are known."""
        if len(rows) == 1 and self.hat[rows[0]] > MOST_HAT:
            problems = moved_to(self.device, self._single(int(rows[0])))
        else:
            problems = self.downdated(rows)
        for other in self.rest:
            places = rows - other.start
            if 0 <= places[0] < other.records.shape[0]:  # and so all of the block
                problems = with_another_prior(problems, other.problem(places, ()))
        return problems.given(known, self._features(rows, known)) if known else problems

    def downdated(self, rows: np.ndarray) -> LogQuadratic:
        """Return the posteriors of a block of records by downdates, also at high hat values: for predictions."""
        return self._there.without(self.targets(rows), self._taken(self.white, rows))

    def attack(self, block: tuple[np.ndarray, tuple[int, ...]]) -> tuple[np.ndarray, Attack]:
        """Attack a block of records."""
        rows, known = block
        with own_queue(self.device):
            whole = self.problem(rows, ())
            features = self._features(rows, known) if known else None
            problem = whole.given(known, features) if known else whole
            attacks = describe(problem, find_modes(problem), whole)
            if known:
                attacks = with_known(attacks, known, features, self.table.whole.p)
            return rows, attacks if self.device is None else attacks.in_numpy()

    def targets(self, rows: np.ndarray) -> Float[Array, "b p"]:
        """Return some of the records, where they are attacked."""
        return self._taken(self.records, rows)

    def _taken(self, array: Float[Array, "n p"], rows: np.ndarray) -> Float[Array, "b p"]:
        taken = array_namespace(array).take(array, as_array(rows, like=array), axis=0)
        return moved_to(self.device, taken)

    def _features(self, rows: np.ndarray, features: tuple[int, ...]) -> Float[Array, "b known"]:
        targets = self.targets(rows)
        return array_namespace(targets).stack([targets[:, position] for position in features], axis=-1)

    @cached_property
    def hat(self) -> Float[np.ndarray, " n"]:
        """The hat values (κ/(κ−1))·δᵀΛ⁻¹δ: the share of its direction that a record supplies, for any prior."""
        xp, kappa, own = array_namespace(self.white), self.table.whole.mean_weight, self.table.own
        share = kappa / (kappa - 1) * xp.vecdot(self.white, self.white)
        if own is not None:
            kappa, white = own.mean_weight, solve_rows(own.root, self.records - own.mean)
            share = xp.maximum(share, kappa / (kappa - 1) * xp.vecdot(white, white))
        leverages = np.array(to_numpy(share))
        for other in self.rest:
            own_rows = slice(other.start, other.start + other.records.shape[0])
            leverages[own_rows] = np.maximum(leverages[own_rows], other.hat)
        return leverages

    def _single(self, row: int) -> LogQuadratic:
        """Return one record's posterior from its others, with a batch axis of length 1."""
        assert self.release is not None
        xp = array_namespace(self.records)
        others = Moments.of(xp.concat([self.records[:row, :], self.records[row + 1 :, :]]))
        others = others if self.elsewhere is None else others.merge(self.elsewhere)
        return posterior_of(others, self.release, self.prior, self.own_prior).as_batch()
