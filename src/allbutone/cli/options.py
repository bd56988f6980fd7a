"""What can be asked of more than one command, what they share, and what one passes on to the next."""

import os
import shlex
import warnings
from collections.abc import Callable, Container
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain, count
from pathlib import Path
from typing import Annotated, Any

import typer

from allbutone.model.niw import NIW
from allbutone.model.prior_check import PriorScaleWarning
from allbutone.model.site_moments import SiteMoments
from allbutone.releases.synthesizer import NIWSynthesizer
from allbutone.support.checks import count_of
from allbutone.support.errors import Cure, InputError
from allbutone.tables.engines.lazy_records import LazyRecords
from allbutone.tables.files import READABLE
from allbutone.tables.records import Records
from allbutone.utility.released_values import Oddity


class ReleaseKind(StrEnum):
    """What to release."""

    datasets = "datasets"
    parameters = "parameters"
    both = "both"


@dataclass(frozen=True)
class Wanted:
    """What is to be drawn, and where it goes."""

    out: Path
    datasets: int
    rows: int | None
    kind: ReleaseKind
    format: str
    repeat_key: str | None
    force: bool
    record: Callable[[Path], object]  # sees the files when they all lie aside


Table = Annotated[
    Path,
    typer.Argument(help=f"The confidential table: a {READABLE} file (Excel, SPSS, SAS and Stata among them)."),
]
Rows = Annotated[int | None, typer.Option(help="Rows of each dataset; as many as the table has by default.")]
Kind = Annotated[ReleaseKind, typer.Option("--release", help="Synthetic datasets, the parameters, or both.")]
Prior = Annotated[
    Path | None,
    typer.Option(help="A TOML or JSON prior file, from public knowledge, never from this table."),
]
Dask = Annotated[
    str | None,
    typer.Option(
        help="The address of a Dask cluster to work on, such as tcp://HOST:8786; this computer by default."
    ),
]
ReleaseDir = Annotated[Path, typer.Argument(help="The folder of the release.")]
MechanismPrior = Annotated[
    Path | None, typer.Option(help="The prior file the release was made with; the release's own by default.")
]
Device = Annotated[str, typer.Option(help="Where to compute: cpu, or cuda (a graphics card, by PyTorch).")]
Probability = Annotated[
    float,
    typer.Option(help="How sure the adversary must be of a value, within its tolerance, for it to be disclosed."),
]


def fit(records: Records | LazyRecords | SiteMoments, prior: NIW | Path | None) -> tuple[NIWSynthesizer, str]:
    """Return the fitted synthesizer and what there is to note about its prior."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", PriorScaleWarning)
        synthesizer = NIWSynthesizer(prior).fit(records)
    return synthesizer, "\n".join(str(warning.message) for warning in caught)


def describe_prior(given: Path | None, prior: NIW) -> str:
    """Return in words which prior is in use."""
    if prior.is_flat:
        return "the flat prior (it has no units and says nothing of the data)"
    return f"the prior of {given}" if given else "the prior of the table file, or of the release to be like"


def prior_and_worth(given: Path | None, prior: NIW) -> str:
    """Return in words which prior is in use, and how much it counts."""
    weight = prior.mean_weight
    worth = f", worth {weight:g} record{'' if weight == 1 else 's'} for the mean" if weight else ""
    return describe_prior(given, prior) + worth


def worded(odd: Oddity) -> str:
    """Say what is odd about synthetic values, and which option cures it."""
    return f"{odd.words}; {in_flags(odd.cure, {'log', 'decimals', 'positive'})}."


def require_rows_of_datasets(rows: int | None, release: ReleaseKind) -> None:
    """Refuse a number of rows that is none, or that parameters would have."""
    if rows is not None:
        count_of("rows", rows)
        if release is ReleaseKind.parameters:
            raise InputError("--rows goes with datasets, not with --release parameters", "leave it out")


# where and how a command writes is its own affair; all else that it was asked holds for the next one, too
OWN = frozenset({"out", "force", "seed", "new_repeat_key", "repeat_key", "format", "public"})


def following(context: typer.Context, command: str, *arguments: object, **options: Any) -> list[str]:
    """Return the command to run next: with every option given to this one that the next one has as well.

    `options` come on top, or in place of those; what is the default anyway is left out.
    """
    takes = {
        parameter.name: parameter
        for parameter in context.find_root().command.commands[command].params  # type: ignore[attr-defined]
        if parameter.opts[0].startswith("--")
    }
    given = {
        name: value
        for name, value in context.params.items()
        if name in takes.keys() - OWN and getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"
    }
    typed = [command, *map(as_argument, arguments)]
    for name, value in (given | options).items():
        if str(value) != str(takes[name].default):
            typed += as_typed(takes[name].opts[0], value)
    return typed


def as_argument(value: object) -> str:
    """Return a name as it is typed, so that none reads as an option."""
    return f"./{value}" if str(value).startswith("-") else str(value)


def as_typed(option: str, value: Any) -> list[str]:
    """Return an option and its value as they are typed: a list with commas, a flag without a value."""
    if value is None or value is False:
        return []
    if value is True:
        return [option]
    if not isinstance(value, list | tuple):
        return [option, str(value)]
    value = [each if isinstance(each, str) else f"{each:g}" for each in value]
    if any("," in each for each in value):  # a name that holds a comma goes in an option of its own
        return [word for each in value for word in (option, each)]
    return [option, ",".join(value)] if value else []


def in_flags(cure: Cure, options: Container[str]) -> str:
    """Word a cure for the command line: the argument that does it as an option, if it is one of `options`."""
    name, value = cure.argument, cure.value
    if value is False:  # header=False is --no-header
        name, value = f"no_{name}", True
    if name not in options:
        return cure.words
    option = f"--{name.replace('_', '-')}"
    typed = f"{option} …" if value is None else shlex.join(as_typed(option, value))
    return f"{cure.words} ({typed})" if typed else cure.words


def free_name(name: str | Path, *besides: str) -> Path:
    """Return the name, or the first of name-2, name-3, … that is free, also with each of the endings `besides`."""
    first = Path(name)
    places = chain([first], (first.with_stem(f"{first.stem}-{turn}") for turn in count(2)))
    return next(
        place
        for place in places
        if not any(os.path.lexists(each) for each in (place, *map(place.with_suffix, besides)))
    )
