"""The commands for several sites: moments, what a site gives instead of its records, and pool, their sum."""

from pathlib import Path
from typing import Annotated

import typer

from allbutone.cli import options as ask
from allbutone.cli.output import say, show_next, show_notes
from allbutone.cli.reading import read
from allbutone.model.sites import SiteMoments, moments_of_site
from allbutone.model.sites import pool as pooled_moments
from allbutone.support.errors import Cure, InputError
from allbutone.support.text import counted
from allbutone.tables.safe_io import read_text, require_distinct

Out = Annotated[Path, typer.Option(help="The .json file to write.")]


@ask.command
def moments(
    *,
    source: ask.TableAnywhere,
    out: Out,
    site: str = ask.option("The name of this site, by which the others know it.", ""),
    pair: list[str] | None = ask.option(
        "OTHER=FILE: another site and the file of the key shared with it; for each other site. The moments "
        "are then masked, so that only the sum of all sites can be read."
    ),
    round: str = ask.option("The name of this sum, another one each time: masks are never used twice.", ""),
    force: ask.Force = False,
) -> None:
    """Write the number of records, means and covariances of a table: what a site gives instead of its records."""
    keys = dict(_pair(each) for each in pair or ())
    if keys and not round:
        raise InputError("masks are for one sum and never used twice", Cure("name this sum", "round"))
    require_distinct([out], source.files)
    records = read(source).records
    summed = moments_of_site(records, site, keys, round)
    summed.save(out, force=force)
    p = len(summed.columns)
    what = f"{counted(p, 'mean')} and {p * (p + 1) // 2:,} variances and covariances"
    if keys:
        others = ", ".join(summed.partners)
        say(
            f"Written: {out}, masked: random numbers to whoever lacks the files of {others}.\n"
            f"Their sum gives away the exact number of records, {what} of all sites together. It protects this "
            "site as long as those who add up do not collude with all other sites; of two sites, each can take "
            "its own from the total and has the other's."
        )
    else:
        say(
            f"Written: {out}. It gives away the exact number of records ({len(summed):,}), {what} of this "
            "table.\nIt is confidential, as the table is: whoever has it and all records but one has the missing "
            "one, exactly. Give it only to those who add up, or mask it (--pair)."
        )
    say("When all sites have theirs, `allbutone pool` adds them up.")
    show_notes(records.notes)


@ask.command
def pool(
    *,
    files: list[Path] = ask.argument("The files of moments, one of each site.", ask.REQUIRED),
    out: Out,
    force: ask.Force = False,
) -> None:
    """Add up the moments of several sites: as if all their records lay in one table."""
    require_distinct([out], list(files))
    total = pooled_moments([SiteMoments.load(path) for path in files])
    total.save(out, force=force)
    say(
        f"Written: {out}: {len(total):,} records of {counted(len(files), 'site')}, "
        f"{counted(len(total.columns), 'column')}. It is confidential: exact means and covariances of all records."
    )
    show_next("draw a release from it:", ["synthesize", "--moments", str(out), "--out", "release"])


def _pair(text: str) -> tuple[str, str]:
    name, _, path = text.partition("=")
    if not name or not path:
        raise InputError(
            f"--pair cannot be {text!r:.60}", Cure("name a site and a file", "pair", "south=south.key")
        )
    return name, read_text(Path(path), "give the file of the key shared with that site")
