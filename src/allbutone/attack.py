"""The attack: infer the missing record, one at a time or every record of a table at once."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_array_api_obj
from jaxtyping import Bool, Float

from allbutone.adversary import (
    Reading,
    aligned_root,
    check_widths,
    from_datasets,
    posterior,
    split_known,
    whitened_moments,
    whitened_parameters,
    with_own_prior,
)
from allbutone.distributions import solve_rows
from allbutone.errors import InputError
from allbutone.logquadratic import LogQuadratic
from allbutone.maximize import TIE, Modes, find_modes
from allbutone.moments import Moments
from allbutone.niw import NIW
from allbutone.records import Records
from allbutone.release import ParameterRelease, Release

Array = Any

BLOCK_BYTES = 4 << 20  # of wells that a thread works on at a time
MOST_LEVERAGE = 0.9  # above this, removing a record by a rank-one downdate would cost more than one digit


@dataclass(frozen=True)
class Attack:
    """What the adversary concludes; for many targets every field has a leading axis.

    `mode`: the most probable record. `other_mode`: the second hill, usually the mirror image, NaN where there is
    none. `log_posterior_gap`: how much lower it is. `covariance`: the inverse curvature at the mode.
    `status`: "global" (proven: released parameters), "converged" (released datasets: a maximum, the better of the
    two hills), "tie" (the release cannot tell the two modes apart) or "not converged".
    """

    mode: Float[Array, "*batch p"]
    other_mode: Float[Array, "*batch p"]
    log_posterior_gap: Array
    covariance: Float[Array, "*batch p p"]
    status: Any
    iterations: int


def attack(
    others: Any,
    release: Release,
    prior: NIW,
    *,
    known: Any = None,
    adversary_prior: NIW | None = None,
    reading: Reading = "record",
) -> Attack:
    """Infer the one record missing from `others`; the arguments are those of `posterior`."""
    target = posterior(others, release, prior, known=known, adversary_prior=adversary_prior, reading=reading)
    result = _describe(target, find_modes(target))
    if known is None:
        return result
    positions, values = split_known(known, prior.p)
    return _with_known(result, positions, np.asarray(values), prior.p)


def attack_all(
    records: Any,
    release: Release,
    prior: NIW,
    *,
    known: Any = None,
    adversary_prior: NIW | None = None,
    reading: Reading = "record",
    watch: Callable[[int], None] = lambda records: None,
) -> Attack:
    """Attack every record in turn, the adversary holding all the others; fields have a leading axis n.

    `known`: columns (names or positions) that the adversary knows of every target, or a mask of shape (n, p).
    The crowd without record i is the whole minus a rank-one term, so nothing is fitted again; blocks of records
    run in parallel in bounded memory. `watch` is called with the number of records finished.
    """
    values, names = _values(records)
    check_widths(release, prior, values.shape[1])
    mask = _known_mask(known, names, values.shape)
    results: list[tuple[np.ndarray, Attack]] = []
    problem = _LeaveOneOut.of(values, release, prior, adversary_prior, reading)
    work = [part for pattern in _patterns(mask) for part in problem.blocks(*pattern)]
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for rows, result in threads.map(problem.attack, work):
            results.append((rows, result))
            watch(len(rows))
    order = np.argsort(np.concatenate([rows for rows, _ in results]))
    return Attack(
        *(_gather([getattr(one, field) for _, one in results], order) for field in _BATCHED),
        iterations=max(one.iterations for _, one in results),
    )


_BATCHED = ("mode", "other_mode", "log_posterior_gap", "covariance", "status")


def _gather(parts: list[Any], order: np.ndarray) -> Any:
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)[order]
    xp = array_namespace(parts[0])
    return xp.take(xp.concat(parts), xp.asarray(order), axis=0)


@dataclass(frozen=True)
class _LeaveOneOut:
    """All that the n attacks share: the whole table's posterior and the release, in its whitened coordinates."""

    records: Float[Array, "n p"]
    release: Release
    prior: NIW
    own_prior: NIW | None
    whole: NIW
    root: Float[Array, "p p"]
    white: Float[Array, "n p"]
    released: Any

    @classmethod
    def of(
        cls, records: Array, release: Release, prior: NIW, own_prior: NIW | None, reading: Reading
    ) -> "_LeaveOneOut":
        if own_prior is not None and reading == "mechanism":
            prior, own_prior = own_prior, None
        whole = prior.update(records)
        root = aligned_root(whole, release)
        white = solve_rows(root, records - whole.mean)
        if isinstance(release, ParameterRelease):
            released: Any = whitened_parameters(whole.mean, root, release)
        else:
            moments = whitened_moments(whole.mean, root, release)
            released = (moments, from_datasets(whole, root, moments))
        return cls(records, release, prior, own_prior, whole, root, white, released)

    def blocks(self, known: tuple[int, ...], rows: np.ndarray) -> Iterator[tuple[np.ndarray, tuple[int, ...]]]:
        """Cut rows that share their known features into blocks; the few of high leverage go one by one.

        Leverages sum to less than p, so fewer than p/0.9 records can be above 0.9.
        """
        leverage = np.asarray(self._leverage())
        high = leverage[rows] > MOST_LEVERAGE
        yield from ((row[None], known) for row in rows[high])
        rest, p = rows[~high], self.whole.p
        wells = 1 if isinstance(self.release, ParameterRelease) else len(self.release.datasets)
        size = max(1, BLOCK_BYTES // (8 * wells * p * p))
        yield from ((rest[start : start + size], known) for start in range(0, len(rest), size))

    def attack(self, block: tuple[np.ndarray, tuple[int, ...]]) -> tuple[np.ndarray, Attack]:
        rows, known = block
        xp = array_namespace(self.records)
        targets = xp.take(self.records, xp.asarray(rows), axis=0)
        if len(rows) == 1:
            problem = self._single(int(rows[0]))
        else:
            problem = self._block(targets, xp.take(self.white, xp.asarray(rows), axis=0))
        if known:
            values = xp.stack([targets[:, position] for position in known], axis=-1)
            problem = problem.given(known, values)
        result = _describe(problem, find_modes(problem))
        return rows, _with_known(result, known, values, self.whole.p) if known else result

    def _leverage(self) -> Float[Array, " n"]:
        """Return (κ/(κ−1))·δᵀΛ⁻¹δ: the share of its own direction that a record supplies."""
        xp, kappa = array_namespace(self.white), self.whole.mean_weight
        return kappa / (kappa - 1) * xp.sum(self.white * self.white, axis=-1)

    def _single(self, row: int) -> LogQuadratic:
        """Return one record's posterior from its others, with a batch axis of length 1."""
        xp = array_namespace(self.records)
        n = self.records.shape[0]
        others = xp.concat([self.records[:row, :], self.records[row + 1 :, :]]) if n > 1 else self.records[:0, :]
        alone = posterior(others, self.release, self.prior, adversary_prior=self.own_prior)
        return replace(alone, centre=alone.centre[None, :])

    def _block(self, targets: Float[Array, "b p"], white: Float[Array, "b p"]) -> LogQuadratic:
        """Return the posteriors of a block of records by rank-one downdates.

        In the table's coordinates Λ₋ = I − (κ/κ₋)uuᵀ, whose symmetric root is R = I + (√(1−l) − 1)·êêᵀ with
        l = (κ/κ₋)‖u‖² the leverage; μ₋ = −u/κ₋.
        """
        xp, p = array_namespace(white), self.whole.p
        kappa = self.whole.mean_weight
        squared = xp.sum(white * white, axis=-1)
        shrink = xp.sqrt(1 - kappa / (kappa - 1) * squared) - 1
        unit = white / xp.sqrt(xp.where(squared > 0, squared, 1.0))[:, None]
        own = xp.eye(p, dtype=white.dtype) + shrink[:, None, None] * (unit[:, :, None] * unit[:, None, :])
        shift = -white / (kappa - 1)
        parts = self._parameters(own, shift) if isinstance(self.release, ParameterRelease) else None
        centre = self.whole.mean + shift @ self.root.T
        common = dict(
            centre=centre,
            root=self.root @ own,
            df=self.whole.df - 1,
            inflation=(kappa - 1) / kappa,
        )
        problem = LogQuadratic(**common, **(parts or self._datasets(white, own, shift)))
        if self.own_prior is None:
            return problem
        return with_own_prior(problem, remove_each(self.own_prior.update(self.records), targets))

    def _parameters(self, own: Float[Array, "b p p"], shift: Float[Array, "b p"]) -> dict[str, Any]:
        precision, pull = self.released
        xp, p = array_namespace(precision), self.whole.p
        moved = pull - (precision @ shift[..., None])[..., 0]
        return dict(
            outward=(self.release.draws - 1) * self.whole.df,  # type: ignore[union-attr]
            precision=own @ precision @ own,
            pull=(own @ moved[..., None])[..., 0],
            weights=xp.zeros(0, dtype=own.dtype),
            levels=xp.zeros((1, 0), dtype=own.dtype),
            slopes=xp.zeros((1, 0, p), dtype=own.dtype),
            shapes=xp.zeros((1, 0, p, p), dtype=own.dtype),
        )

    def _datasets(
        self, white: Float[Array, "b p"], own: Float[Array, "b p p"], shift: Float[Array, "b p"]
    ) -> dict[str, Any]:
        """Return the wells of each record.

        With t = u − r, K = κ + n_z and G = K/(K−1): B₋ = B − G·ttᵀ and r₋ = r − t/(K−1), so that
        h·B₋⁻¹ = B⁻¹/G + nnᵀ/(1 − G·tᵀn), n = B⁻¹t.
        """
        moments, whole = self.released
        xp, p, k = array_namespace(white), self.whole.p, len(moments.count)
        kappa, weight = self.whole.mean_weight, self.whole.mean_weight + moments.count
        ratio = weight / (weight - 1)
        inverse = whole.shapes * ((weight + 1) / weight)[:, None, None]
        location = (moments.count / weight)[:, None] * moments.mean
        stay = (inverse @ location[..., None])[..., 0]
        product = xp.reshape(white @ xp.reshape(inverse, (k * p, p)).T, (-1, k, p))
        away, normal = white[:, None, :] - location, product - stay
        left = (1 - ratio * xp.sum(away * normal, axis=-1))[..., None]
        shapes = inverse / ratio[:, None, None] + (normal / left)[..., :, None] * normal[..., None, :]
        # R·M·R for all wells of a record in two products: M is symmetric, so the second works on the transpose
        half = xp.reshape(shapes, (-1, k * p, p)) @ own
        turned = xp.matrix_transpose(xp.reshape(half, (-1, k, p, p)))
        shapes = xp.reshape(xp.reshape(turned, (-1, k * p, p)) @ own, (-1, k, p, p))
        # r₋ − μ₋, and h·B₋⁻¹ times it, without a matrix of their own: B⁻¹ has met every vector they are made of
        apart = location - away / (weight - 1)[:, None] - shift[:, None, :]
        slopes = (stay - normal / (weight - 1)[:, None] + product / (kappa - 1)) / ratio[:, None]
        slopes = slopes + normal * xp.sum(normal * apart, axis=-1)[..., None] / left
        return dict(
            outward=(k - 1) * self.whole.df,
            precision=xp.zeros((p, p), dtype=white.dtype),
            pull=xp.zeros(p, dtype=white.dtype),
            weights=self.whole.df + moments.count,
            levels=1 + xp.sum(apart * slopes, axis=-1),
            slopes=slopes @ own,
            shapes=shapes,
        )


def remove_each(whole: NIW, records: Float[Array, "n p"]) -> NIW:
    """Return the posterior without each record in turn: κ₋ = κ−1, μ₋ = (κμ − x)/κ₋, Λ₋ = Λ − (κ/κ₋)δδᵀ."""
    step, left = records - whole.mean, whole.mean_weight - 1
    scale = whole.scale - (whole.mean_weight / left) * (step[:, :, None] * step[:, None, :])
    return NIW(whole.mean - step / left, left, whole.df - 1, scale)


def _describe(problem: LogQuadratic, modes: Modes) -> Attack:
    xp = array_namespace(modes.best)
    curvature = xp.linalg.inv(-modes.hessian)
    covariance = problem.root @ curvature @ xp.matrix_transpose(problem.root)
    sure = "converged" if problem.wells else "global"
    tie, converged = np.asarray(modes.gap < TIE), np.asarray(modes.converged)
    status = np.where(converged, np.where(tie, "tie", sure), "not converged")
    return Attack(
        mode=problem.unwhiten(modes.best),
        other_mode=problem.unwhiten(modes.other),
        log_posterior_gap=modes.gap,
        covariance=covariance,
        status=status if status.ndim else str(status),
        iterations=modes.steps,
    )


def _with_known(result: Attack, known: tuple[int, ...], values: Array, p: int) -> Attack:
    """Put the known features back in their places; there is no doubt about them, so no covariance."""
    xp = array_namespace(result.mode)
    values = xp.asarray(values)
    unknown = [position for position in range(p) if position not in known]

    def filled(record: Array) -> Array:
        columns = {position: record[..., place] for place, position in enumerate(unknown)}
        columns |= {position: values[..., place] for place, position in enumerate(known)}
        return xp.stack([columns[position] + 0 * record[..., 0] for position in range(p)], axis=-1)

    nothing = 0 * result.covariance[..., 0, 0]
    places = {position: place for place, position in enumerate(unknown)}
    cells = [
        result.covariance[..., places[i], places[j]] if i in places and j in places else nothing
        for i in range(p)
        for j in range(p)
    ]
    covariance = xp.reshape(xp.stack(cells, axis=-1), (*nothing.shape, p, p))
    return replace(result, mode=filled(result.mode), other_mode=filled(result.other_mode), covariance=covariance)


def _values(records: Any) -> tuple[Float[Array, "n p"], tuple[str, ...] | None]:
    if is_array_api_obj(records):
        return records, None
    table = Records.of_numbers(records)
    return table.values, table.columns


def _known_mask(known: Any, names: Sequence[str] | None, shape: tuple[int, int]) -> Bool[np.ndarray, "n p"]:
    n, p = shape
    mask = np.zeros((n, p), dtype=bool)
    if known is None:
        return mask
    if isinstance(known, np.ndarray) and known.dtype == bool:
        if known.shape not in ((n, p), (p,)):
            raise InputError(f"a mask of known features has shape ({n}, {p}), got {known.shape}")
        mask |= known
    else:
        for column in [known] if isinstance(known, str | int) else known:
            if isinstance(column, str) and column not in (names or ()):
                raise InputError(f"there is no column {column!r} to know; there are {', '.join(names or ())}")
            mask[:, names.index(column) if isinstance(column, str) and names else column] = True
    if mask.all(axis=1).any():
        raise InputError("every feature of a record is known; leave at least one for the adversary to infer")
    return mask


def _patterns(mask: Bool[np.ndarray, "n p"]) -> Iterator[tuple[tuple[int, ...], np.ndarray]]:
    """Yield each set of known features with the rows that have it."""
    patterns, which = np.unique(mask, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        yield tuple(int(i) for i in np.flatnonzero(pattern)), np.flatnonzero(which.ravel() == number)
