"""What can be asked of more than one command, and the fit they share."""

import os
import warnings
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from allbutone.model.prior_file import PriorScaleWarning
from allbutone.releases.release import Release
from allbutone.releases.synthesizer import NIWSynthesizer
from allbutone.support.errors import InputError
from allbutone.tables.files import read_table
from allbutone.tables.records import Records


class ReleaseKind(StrEnum):
    """What to release."""

    datasets = "datasets"
    parameters = "parameters"


TableFile = Annotated[Path, typer.Argument(help="The confidential table: a .csv, .tsv or .parquet file.")]
Rows = Annotated[int | None, typer.Option(help="Rows of each dataset; as many as the table has by default.")]
Kind = Annotated[ReleaseKind, typer.Option("--release", help="Synthetic datasets, or the model's parameters.")]
Prior = Annotated[
    Path | None,
    typer.Option(help="A TOML or JSON prior file, from public knowledge, never from this table."),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(help="A column to keep, or several separated by commas; all by default. May be repeated."),
]
Drop = Annotated[
    list[str] | None,
    typer.Option(help="A column to leave out, or several separated by commas. May be repeated."),
]

ReleaseDir = Annotated[Path, typer.Argument(help="The folder of the release.")]
MechanismPrior = Annotated[
    Path | None, typer.Option(help="The prior file the release was made with; the release's own by default.")
]
ReleaseColumns = Annotated[
    list[str] | None,
    typer.Option(help="The columns of the table to use; those of the release by default. May be repeated."),
]
LimitText = Annotated[
    str, typer.Option("--limit", help="What no record may pass: exposure=0.5, gain=1 (nats) or mass=0.05.")
]


def fit(records: Records, prior: Path | None) -> tuple[NIWSynthesizer, str]:
    """Return the fitted synthesizer and what there is to note about its prior."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", PriorScaleWarning)
        synthesizer = NIWSynthesizer(prior).fit(records)
    return synthesizer, "\n".join(str(warning.message) for warning in caught)


def describe_prior(given: Path | None) -> str:
    """Return in words which prior is in use."""
    return f"the prior of {given}" if given else "the default prior (mean 0, spread 1)"


def require_outside(out: Path, release_dir: Path) -> None:
    """Refuse to write what is confidential into the folder that goes out."""
    if Path(os.path.realpath(out)).is_relative_to(os.path.realpath(release_dir)):
        raise InputError(
            f"{out} lies in {release_dir}, which is to be released; this file is confidential: name another place"
        )


def records_of(table: Path, release: Release, columns: list[str] | None, drop: list[str] | None) -> Records:
    """Read the release's columns of the table, or those asked for."""
    content = read_table(table)
    if columns or drop:
        return Records.of(content, columns=columns, drop=drop)
    of_release = release.columns or ()
    absent = [name for name in of_release if name not in content.column_names]
    if absent:
        raise InputError(
            f"the release is of the columns {', '.join(of_release)}, and {table.name} has no {', '.join(absent)}: "
            "it was made from another table"
        )
    return Records.of(content, columns=of_release)


def repeat_option(option: str, value: Any) -> list[str]:
    """Return the option again, for the next command."""
    if isinstance(value, tuple):
        return [part for name in value for part in (option, name)]
    return [option, str(value)] if value else []
