"""Who attacks, what they know and what they lack: checked at the gate of every attack, trusted inside."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
from array_api_compat import is_array_api_obj
from jaxtyping import Float

from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.model.prior import AnyPrior, prior_of
from allbutone.releases.folder import AnyRelease, release_of
from allbutone.releases.several import Released, Releases, in_columns, known_columns, of_measurements
from allbutone.support.arrays import real_array, to_numpy
from allbutone.support.errors import Cure, InputError, count_of, describe_value
from allbutone.tables.names import split_names
from allbutone.tables.records import Records

# The gate of every attack: what it is given is checked here, and trusted inside.


Array = Any
Reading = Literal["record", "mechanism"]


def admit(
    records: Any, release: AnyRelease, adversary: "Adversary", prior: AnyPrior | None, reading: Reading
) -> tuple[Any, Released, NIW, NIW | None]:
    """Read and check all that an attack is given, without what the adversary lacks.

    Returns the records in the release's column order, or their moments; the release; the prior that the adversary
    takes for the mechanism's; and their own of the record, where it differs.
    """
    released: Any = release_of(release)
    public = getattr(released, "columns", ()), getattr(released, "schema", None)
    own = None if adversary.prior is None else prior_of(adversary.prior, *public)
    holder: Any = getattr(released, "prior", None) if prior is None else prior_of(prior, *public)
    if holder is None and isinstance(released, Released):
        raise InputError("the release does not say which prior it was made with", Cure("give it", "prior"))
    values = validate_inputs(records, released, holder, own, reading)
    if adversary.lacking_columns:
        kept = known_columns(released.columns, adversary.lacking_columns)
        values = values.select(kept) if isinstance(values, Moments) else values[:, kept]
        released, holder = in_columns(released, kept), holder.marginal(kept)
        own = own if own is None or own.p == len(kept) else own.marginal(kept)
    return values, released, *split_priors(holder, own, reading)


def split_priors(prior: NIW, adversary_prior: NIW | None, reading: Reading) -> tuple[NIW, NIW | None]:
    """Return the prior the adversary takes for the mechanism's, and their own of the record where it differs."""
    if adversary_prior is not None and reading == "mechanism":
        return adversary_prior, None
    return prior, adversary_prior


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
    for name in ("mean", "mean_weight", "df", "scale"):
        ours, theirs = (to_numpy(getattr(each, name)) for each in (prior, release.prior))
        for place in np.argwhere(~np.isclose(ours, theirs, rtol=1e-12, atol=0))[:1]:
            raise InputError(
                f"the release was made with another prior: its {name} is {theirs[tuple(place)]}"
                f"{f' in place {place.tolist()}' if len(place) else ''}, the one given has {ours[tuple(place)]}",
                "give the prior that the release itself holds",
                Cure("for an adversary who believes another prior, say so", "adversary_prior"),
            )


def known_values(adversary: "Adversary", release: Released) -> tuple[tuple[int, ...], Float[np.ndarray, " known"]]:
    """Return which measurements of a missing target are known (positions), and their values."""
    if adversary.known:
        raise InputError(
            f"which value of {adversary.known[0]!r} the adversary knows is not said, and the target is missing",
            Cure("give values by name, or a vector with NaN where unknown", "known"),
        )
    if adversary.known_values is None:
        return (), np.zeros(0)
    named = by_name(adversary.known_values)
    given = adversary.known_values if named is None else _in_order(named, release.columns)
    vector = to_numpy(real_array(given, "known"))
    if vector.shape != (release.p,):
        raise InputError(
            f"known must be a vector of {release.p} values, got shape {vector.shape}", "give NaN where unknown"
        )
    if np.isinf(vector).any():
        raise InputError(f"known holds {vector[np.isinf(vector)][0]}", "give finite values, NaN where unknown")
    positions = np.flatnonzero(~np.isnan(vector))
    if len(positions) == release.p:
        raise InputError("every feature is known", "leave at least one NaN for the adversary to infer")
    release.mechanism.schema.require_known_ends([release.columns[position] for position in positions])
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
            raise InputError(f"there is no column {name!r} to know", f"the columns are {', '.join(names)}")
    return [known.get(name, np.nan) for name in names]


# Who attacks: what the adversary knows of the target, and what they lack.


@dataclass(frozen=True)
class Adversary:
    """Who attacks: usually somebody who has every record but the target's, and the mechanism's own prior.

    known: columns of the target that they know, too; where the target is missing from the table, values by column
    name (a dict or a pandas Series), or a vector of measurements with NaN where unknown. Unless it is given, risk
    judges by two: one who knows nothing of the target, and, for each value, one who knows all its others.
    lacking_columns: columns that they have of nobody. lacking_records: records that they lack besides the target,
    so many chosen at random or rows (from 1); all that are missing are inferred together. prior: what they believe
    of measurements before any record, where it is not the mechanism's: a prior, a prior file or its entries.
    secret: the columns that are judged; unless given, all that the table file does not call public.

    >>> import allbutone as abo
    >>> abo.Adversary(known=["age", "sex"]).is_usual
    False
    """

    known: Any = None
    lacking_columns: Sequence[str] = ()
    lacking_records: int | Sequence[int] = 0
    prior: AnyPrior | None = None
    secret: Any = None
    known_values: Any = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Take names in a list, or one alone, or values, and rows in a list; refuse what is neither."""
        if _holds_values(self.known):
            object.__setattr__(self, "known_values", self.known)
            object.__setattr__(self, "known", ())
        for name in ("known", "lacking_columns", "secret"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _names(name, getattr(self, name)))
        object.__setattr__(self, "lacking_records", _lacking(self.lacking_records))

    @property
    def is_usual(self) -> bool:
        """Whether they know no more and no less than the paper's adversary."""
        more = self.known or self.known_values is not None
        return not (more or self.lacking_columns or self.lacks_records) and self.prior is None

    @property
    def known_columns(self) -> tuple[str, ...]:
        """What they know of the target, where that is said."""
        return tuple(self.known or ())

    @property
    def all_but_one_value(self) -> bool:
        """Whether values are judged, besides, against who knows all the others of the target.

        Of somebody who lacks several records nobody can say which of them the values belong to.
        """
        return self.known is None and not self.lacks_records

    @property
    def lacks_records(self) -> bool:
        """Whether any record is lacking besides the target."""
        return self.lacking_records not in (0, ())

    def of(self, columns: Sequence[str], derived: Sequence[str] = ()) -> "Adversary":
        """Return the adversary on a table of these columns; names that came in one text are taken apart.

        derived: columns that are computed from these, which may be secret, too.
        """
        if self.known_values is not None:
            raise InputError(
                "what is known of a target in the table are the table's own values",
                Cure("give the columns' names alone", "known"),
            )
        known, lacking, secret = (
            tuple(dict.fromkeys(split_names(names, {*columns, *derived})))
            for names in (self.known_columns, self.lacking_columns, self.secret or ())
        )
        for names, use in ((known, "know"), (lacking, "lack"), (secret, "keep secret")):
            there = (*columns, *derived) if use == "keep secret" else columns
            if absent := [name for name in names if name not in there]:
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
        return replace(
            self,
            known=None if self.known is None else known,
            lacking_columns=lacking,
            secret=None if self.secret is None else secret,
        )


def _holds_values(known: Any) -> bool:
    """Say whether what is known was given with its values: by name, or as a vector."""
    if is_array_api_obj(known) or hasattr(known, "__array__") or isinstance(known, Mapping):
        return True
    return isinstance(known, list | tuple) and any(isinstance(each, int | float) for each in known)


def _names(what: str, given: Any) -> tuple[str, ...]:
    """Return names as they were given, each a text of its own."""
    if given is None or isinstance(given, str):
        return () if given is None else (given,)
    if not isinstance(given, Sequence) or not all(isinstance(name, str) for name in given):
        raise InputError(f"{what} must be names of columns, got {describe_value(given)}", "give them in a list")
    return tuple(given)


def _lacking(given: Any) -> int | tuple[int, ...]:
    """Return how many records are lacking, or their rows."""
    if isinstance(given, Sequence) and not isinstance(given, str):
        return tuple(sorted({count_of("a row of lacking_records", row) for row in given}))
    return 0 if isinstance(given, int | np.integer) and given == 0 else count_of("lacking_records", given)


USUAL = Adversary()
