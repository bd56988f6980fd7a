"""Who attacks, what they know and what they lack: checked at the gate of every attack, trusted inside."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import narwhals as nw
import numpy as np
from array_api_compat import is_array_api_obj
from jaxtyping import Bool, Float

from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.model.prior import AnyPrior, prior_of
from allbutone.releases.folder import AnyRelease, release_of
from allbutone.releases.several import Released, Releases, of_measurements
from allbutone.support.arrays import real_array, to_numpy
from allbutone.support.errors import Cure, InputError, count_of, describe_value
from allbutone.tables.names import split_names
from allbutone.tables.records import Records

# The gate of every attack: what it is given is checked here, and trusted inside.


Array = Any
Reading = Literal["record", "mechanism"]
KNOWN = "give names, positions, a mask of booleans (p,) or (n, p), or a matrix (n, p) with NaN where unknown"


def as_given(
    release: AnyRelease, prior: AnyPrior, adversary_prior: AnyPrior | None
) -> tuple[Released, NIW, NIW | None]:
    """Read what is given by its path or its entries; nothing is checked yet."""
    release = release_of(release)
    public = getattr(release, "columns", ()), getattr(release, "schema", None)
    own = None if adversary_prior is None else prior_of(adversary_prior, *public)
    return release, prior_of(prior, *public), own


def validate_inputs(
    records: Any,
    release: Released,
    prior: NIW,
    adversary_prior: NIW | None = None,
    reading: Reading = "record",
) -> Array:
    """Check all that an attack is given; return the records in the release's column order, or their moments."""
    if not isinstance(release, Released):
        raise InputError(
            f"the release must be a Release, got {describe_value(release)}",
            "give one, its folder, or several in a list",
        )
    of_measurements(release)
    if reading not in get_args(Reading):
        raise InputError(
            f"reading must be {' or '.join(map(repr, get_args(Reading)))}, got {describe_value(reading)}"
        )
    if isinstance(records, Moments):
        records.require_possible()
        p = records.mean.shape[-1]
    else:
        if not is_array_api_obj(records):
            records = Records.in_order(records, release.columns).values
        records = real_array(records, "records")
        p = records.shape[-1] if records.ndim == 2 else 0
        if p == 0:
            raise InputError(f"records have shape (n, p) with p > 0, got {tuple(records.shape)}")
    _check_prior("prior", prior, release, p)
    require_same_prior(release, prior)
    if adversary_prior is not None:
        _check_prior("adversary_prior", adversary_prior, release, p)
        if isinstance(release, Releases) and reading == "mechanism":
            raise InputError(
                "releases made with different priors cannot be believed to be made with one",
                Cure("let the adversary's prior be one of the record", "reading", "record"),
            )
    return records


def _check_prior(name: str, prior: Any, release: Released, p: int) -> None:
    """Refuse what is no prior, or one for other columns than the release's and the records'."""
    if not isinstance(prior, NIW) or prior.mean.ndim != 1:
        raise InputError(
            f"{name} must be one NIW, got {describe_value(prior)}",
            "give release.prior",
            "give a prior file",
        )
    if prior.p != p or release.p != p:
        raise InputError(
            f"the records have {p} columns, the release {release.p}, the {name} {prior.p}",
            "give all three for the same columns",
        )


def require_same_prior(release: Released, prior: NIW) -> None:
    """Refuse a prior other than the one that the release says it was made with."""
    if release.prior is None or release.prior is prior:
        return
    if prior.p != release.p:
        raise InputError(f"the release has {release.p} columns, the prior is for {prior.p}", "give release.prior")
    for field in ("mean", "mean_weight", "df", "scale"):
        ours, theirs = (to_numpy(getattr(each, field)) for each in (prior, release.prior))
        for place in np.argwhere(~np.isclose(ours, theirs, rtol=1e-12, atol=0))[:1]:
            raise InputError(
                f"the release was made with another prior: its {field} is {theirs[tuple(place)]}"
                f"{f' in place {place.tolist()}' if len(place) else ''}, the one given has {ours[tuple(place)]}",
                "give the prior that the release itself holds",
                Cure("for an adversary who believes another prior, say so", "adversary_prior"),
            )


def split_known(known: Any, release: Released) -> tuple[tuple[int, ...], Float[np.ndarray, " known"]]:
    """Split what is known of the target, by name or as a vector with NaN, into positions and their values."""
    if known is None:
        return (), np.zeros(0)
    named = by_name(known)
    known = known if named is None else _in_order(named, release.columns or ())
    vector = to_numpy(real_array(known, "known"))
    if vector.shape != (release.p,):
        raise InputError(
            f"known must be a vector of {release.p} values, got shape {vector.shape}", "give NaN where unknown"
        )
    if np.isinf(vector).any():
        raise InputError(f"known holds {vector[np.isinf(vector)][0]}", "give finite values, NaN where unknown")
    positions = np.flatnonzero(~np.isnan(vector))
    if len(positions) == release.p:
        raise InputError("every feature is known", "leave at least one NaN for the adversary to infer")
    return tuple(int(position) for position in positions), vector[positions]


def by_name(known: Any) -> Mapping[Any, Any] | None:
    """Return a dict, or a pandas Series whose labels are names, as a mapping; None where there are no names."""
    if hasattr(known, "iloc") and any(isinstance(label, str) for label in known.index):
        return dict(known.items())
    return known if isinstance(known, Mapping) else None


def _in_order(known: Mapping[Any, Any], names: Sequence[str]) -> list[Any]:
    """Return values by name as a vector, NaN where a name is absent."""
    for name in known:
        if name not in names:
            if not names:
                raise InputError(f"there is no column {name!r}: the release has no names", "give a vector")
            raise InputError(f"there is no column {name!r} to know", f"the columns are {', '.join(names)}")
    return [known.get(name, np.nan) for name in names]


def known_mask(
    known: Any, names: Sequence[str] | None, shape: tuple[int, int], values: Any = None
) -> Bool[np.ndarray, "n p"]:
    """Return which features of which records the adversary knows; values given as known must be the records'."""
    n, p = shape
    mask = np.zeros((n, p), dtype=bool)
    if known is None:
        return mask
    entries = _known_entries(known, names)
    if entries.dtype == bool:
        if entries.shape not in ((n, p), (p,)):
            raise InputError(f"a mask of known features has shape ({n}, {p}) or ({p},), got {entries.shape}")
        mask |= entries
    elif entries.dtype.kind == "f" and entries.shape == (n, p):
        mask |= ~np.isnan(entries)
        held = to_numpy(values)
        for row, column in np.argwhere(mask & (entries != held))[:1]:
            raise InputError(
                f"known says {entries[row, column]} of record {row + 1}, column {column + 1}, the records say "
                f"{held[row, column]}",
                "give the records' own values, NaN where unknown",
            )
    elif entries.ndim == 1:
        mask[:, [_position(column, names, p) for column in entries]] = True
    else:
        raise InputError(f"known is a {entries.dtype} array of shape {entries.shape}", KNOWN)
    if mask.all(axis=1).any():
        raise InputError("every feature of a record is known", "leave at least one for the adversary to infer")
    return mask


def _known_entries(known: Any, names: Sequence[str] | None) -> np.ndarray:
    """Return what is known as an array: booleans, numbers, or in one dimension names and positions."""
    frame = nw.from_native(known, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        if names is not None and set(frame.columns) != set(names):
            found = ", ".join(map(str, frame.columns))
            raise InputError(f"known has the columns {found}, the records {', '.join(names)}", "name them alike")
        return (frame if names is None else frame.select(names)).to_numpy()
    if is_array_api_obj(known):
        return np.atleast_1d(to_numpy(known))
    if by_name(known) is not None:
        raise InputError(f"known is a {type(known).__name__}", KNOWN)
    entries = list(known) if isinstance(known, Iterable) and not isinstance(known, str) else [known]
    if any(isinstance(entry, Sized) and not isinstance(entry, str) for entry in entries):
        try:
            return np.asarray(entries)
        except ValueError as error:
            raise InputError("known is ragged", KNOWN) from error
    same = bool(entries) and all(isinstance(entry, bool | np.bool_) for entry in entries)
    return np.array(entries, dtype=bool if same else object)


def _position(column: Any, names: Sequence[str] | None, p: int) -> int:
    if isinstance(column, str):
        if names is None or column not in names:
            found = ", ".join(names) if names else "unnamed"
            raise InputError(f"there is no column {column!r} to know", f"the columns are {found}")
        return list(names).index(column)
    if isinstance(column, bool | np.bool_) or not isinstance(column, int | np.integer):
        raise InputError(f"known holds {describe_value(column)}", KNOWN)
    if not 0 <= column < p:
        raise InputError(f"there is no column {column} to know", f"positions run from 0 to {p - 1}")
    return int(column)


def known_patterns(mask: Bool[np.ndarray, "n p"]) -> Iterator[tuple[tuple[int, ...], np.ndarray]]:
    """Yield each set of known features with the rows that have it."""
    if not mask.any():  # the usual case: nothing to sort
        yield (), np.arange(len(mask))
        return
    patterns, which = np.unique(mask, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        yield tuple(int(i) for i in np.flatnonzero(pattern)), np.flatnonzero(which.ravel() == number)


# Who attacks: what the adversary knows of the target, and what they lack.


@dataclass(frozen=True)
class Adversary:
    """Who attacks: usually somebody who has every record but the target's, and the mechanism's own prior.

    known: columns of the target that they know, too. lacking_columns: columns that they have of nobody.
    lacking_records: records that they lack besides the target, so many chosen at random or rows (from 1);
    all that are missing are inferred together. prior: what they believe of measurements before any record, where
    it is not the mechanism's: a prior, a prior file or its entries.

    >>> import allbutone as abo
    >>> abo.Adversary(known=["age", "sex"]).is_usual
    False
    """

    known: Sequence[str] = ()
    lacking_columns: Sequence[str] = ()
    lacking_records: int | Sequence[int] = 0
    prior: AnyPrior | None = None

    def __post_init__(self) -> None:
        """Take names in a list, or one alone, and rows in a list; refuse what is neither."""
        for name in ("known", "lacking_columns"):
            object.__setattr__(self, name, _names(name, getattr(self, name)))
        object.__setattr__(self, "lacking_records", _lacking(self.lacking_records))

    @property
    def is_usual(self) -> bool:
        """Whether they know no more and no less than the paper's adversary."""
        return not (self.known or self.lacking_columns or self.lacks_records) and self.prior is None

    @property
    def lacks_records(self) -> bool:
        """Whether any record is lacking besides the target."""
        return self.lacking_records not in (0, ())

    def of(self, columns: Sequence[str]) -> "Adversary":
        """Return the adversary on a table of these columns; names that came in one text are taken apart."""
        known, lacking = (
            tuple(dict.fromkeys(split_names(names, set(columns)))) for names in (self.known, self.lacking_columns)
        )
        for names, use in ((known, "know"), (lacking, "lack")):
            if absent := [name for name in names if name not in columns]:
                raise InputError(
                    f"there is no column {absent[0]!r} to {use}", f"the columns are {', '.join(columns)}"
                )
        if both := [name for name in known if name in lacking]:
            raise InputError(
                f"the adversary cannot know {both[0]!r} of the target and have it of nobody",
                Cure("leave it out of what is known", "known"),
                Cure("leave it out of what is lacking", "lacking_columns"),
            )
        if len(known) == len(columns):
            raise InputError("the adversary knows everything", Cure("leave something unknown", "known"))
        if len(lacking) == len(columns):
            raise InputError("the adversary lacks every column", Cure("leave one out", "lacking_columns"))
        return replace(self, known=known, lacking_columns=lacking)


def _names(what: str, given: Any) -> tuple[str, ...]:
    """Return names as they were given, each a text of its own."""
    if isinstance(given, str):
        return (given,)
    if not isinstance(given, Sequence) or not all(isinstance(name, str) for name in given):
        raise InputError(f"{what} must be names of columns, got {describe_value(given)}", "give them in a list")
    return tuple(given)


def _lacking(given: Any) -> int | tuple[int, ...]:
    """Return how many records are lacking, or their rows."""
    if isinstance(given, Sequence) and not isinstance(given, str):
        return tuple(sorted({count_of("a row of lacking_records", row) for row in given}))
    return 0 if isinstance(given, int | np.integer) and given == 0 else count_of("lacking_records", given)


USUAL = Adversary()
