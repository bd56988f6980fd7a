"""What can be asked: the options that commands share, in groups that arrive as one frozen object each."""

import inspect
import os
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import MISSING, Field, dataclass, field, fields
from enum import StrEnum
from functools import cached_property, wraps
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar, get_args, get_type_hints

import typer
from typer.models import OptionInfo

from allbutone.adversary.who import Adversary
from allbutone.disclosure.measures import RADIUS
from allbutone.disclosure.rule import Rule
from allbutone.disclosure.standing import MOST_FETCHED
from allbutone.releases.folder import load_release
from allbutone.releases.gaussian_account import DELTA
from allbutone.releases.mechanism import CLASSES, NORMAL
from allbutone.releases.release import Release
from allbutone.support.errors import Cure, InputError, count_of
from allbutone.tables.engines.lazy_records import LazyRecords
from allbutone.tables.engines.sources import Source, is_source, require_no_password
from allbutone.tables.files import LIMITS, READABLE
from allbutone.tables.records import Records
from allbutone.tables.schema import Schema

Number = TypeVar("Number", int, float)
AnyRecords = TypeVar("AnyRecords", bound=Records | LazyRecords)
REQUIRED: Any = MISSING  # of an argument or option that has no default


class ReleaseKind(StrEnum):
    """What is released."""

    datasets = "datasets"
    parameters = "parameters"
    both = "both"


class Gaps(StrEnum):
    """What to do with missing values."""

    refuse = "refuse"
    impute = "impute"
    keep = "keep"


class Engine(StrEnum):
    """What reads files that are not read into memory."""

    duckdb = "duckdb"
    polars = "polars"
    dask = "dask"
    spark = "spark"


class ImageFormat(StrEnum):
    """Of pictures besides HTML."""

    png = "png"
    svg = "svg"


def option(help: str, default: Any = None, *names: str, **more: Any) -> Any:
    """Declare an option of a command, or of a group of options: what it means, its default, other names of it."""
    return field(default=default, metadata={"asked": typer.Option(*names, help=help, **more)})


def argument(help: str, default: Any = None, **more: Any) -> Any:
    """Declare an argument of a command."""
    return field(default=default, metadata={"asked": typer.Argument(help=help, **more)})


class Address(str):
    """The address of a table that is not one file: a pattern, or a database."""


ReleaseDir = Annotated[Path, typer.Argument(help="The folder of the release.")]
Rows = Annotated[
    int | None,
    typer.Option(
        help="Rows of each dataset, as many as the disk has room for; as many as the table has by default."
    ),
]
Kind = Annotated[
    ReleaseKind,
    typer.Option(
        "--release",
        help="Synthetic datasets, the parameters, or both; the budget of both is that of the parameters.",
    ),
]
Device = Annotated[str, typer.Option(help="Where to compute: cpu, or cuda (a graphics card, by PyTorch).")]
Dask = Annotated[
    str | None,
    typer.Option(
        help="The address of a Dask cluster to work on, such as tcp://HOST:8786; this computer by default."
    ),
]
Images = Annotated[
    ImageFormat | None, typer.Option(help="Write the figures as pictures of this format, too; needs Chromium.")
]
NumbersFile = Annotated[
    Path, typer.Option(help="The .csv or .parquet file to write; the figure is written beside it.")
]
Page = Annotated[Path, typer.Option(help="The .html file to write.")]
Force = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Replace what is there under this name; a folder only if allbutone made it and nothing was added.",
    ),
]


@dataclass(frozen=True)
class TableOptions:
    """The confidential table, where it lies, and how it is read."""

    title: ClassVar[str] = "The table, and how it is read"
    table: Any = argument(
        f"The confidential table: a {READABLE} file, many files ('data/*.parquet'), or a database "
        "(postgresql://HOST/NAME or a .duckdb file, with --from or --query).",
        REQUIRED,
        parser=lambda text: Address(text) if is_source(text) else Path(text),
        metavar="TABLE",
    )
    columns: list[str] | None = option(
        "A column to use, or several separated by commas; all by default. May be repeated: a name that "
        "holds a comma goes in an option of its own."
    )
    drop: list[str] | None = option("A column to leave out, or several separated by commas. May be repeated.")
    no_header: bool = option(
        "The first line of the file is a record: --columns names all columns in order, or they are x1, x2, …",
        False,
    )
    encoding: str | None = option("How the text of the file is encoded, such as latin-1; UTF-8 by default.")
    sheet: str | None = option("The sheet of an Excel workbook that has several.")
    missing_codes: list[str] | None = option(
        "A number that stands for a missing value, such as -999, or several separated by commas."
    )
    complete_cases: bool = option("Leave out rows with gaps, and say how many.", False)
    drop_unusable: bool = option("Leave out columns that cannot be used, and say which.", False)
    rows_are_people: bool = option(
        "Each row is another person, although rows, or values of what seems to name people, repeat.", False
    )
    table_file: Path | None = option(
        "What is public of each column: scale, limits, decimals, prior. describe drafts it."
    )
    person: str | None = option("The column that names people, where each has several rows; with --visit.")
    visit: str | None = option("The column that tells which visit a row is, such as month.")
    visits: list[str] | None = option("The visits that there are, known beforehand: 0,6,12.")
    once: list[str] | None = option("A column that does not change within a person, or several, such as sex.")
    log: list[str] | None = option("A positive column to model on a log scale, or several separated by commas.")
    positive: list[str] | None = option("A column of which no value below 0 goes out, or several.")
    decimals: list[str] | None = option(
        "Decimals to round released values to: 1 for all columns, or bili=1,age=0."
    )
    engine: Engine | None = option(
        "What reads files that stay where they are; DuckDB or polars by default, for many files and "
        "for those beyond memory.",
        metavar="duckdb|polars|dask|spark",
    )
    from_table: str | None = option("The table of a database.", None, "--from-table", "--from")
    query: str | None = option("A query whose answer is the table, of a database.")
    key: str | None = option("The column by which you know a record of a table that stays where it is.")
    worst: int = option(
        "How many of its records that stand out most are fetched and judged; with categories, also "
        "those of the smallest combinations, as many again at most.",
        MOST_FETCHED,
        min=1,
        max=100_000,
    )

    @property
    def chosen(self) -> list[str] | None:
        """The columns asked for; those of a file without a header are all its names, and no choice."""
        return None if self.no_header else list(self.columns or ()) or None

    @property
    def dropped(self) -> list[str] | None:
        """The columns to leave out, if any are named."""
        return list(self.drop or ()) or None

    @cached_property
    def place(self) -> Source | None:
        """Where the table lies if it stays there; None if it is a file to be read."""
        require_no_password(str(self.table))  # before anyone says that there is no such file
        inside = self.from_table or self.query
        if isinstance(self.table, Path) and not (self.engine or inside or _beyond_memory(self.table)):
            return None
        engine = self.engine and str(self.engine)
        return Source(str(self.table), engine, from_table=self.from_table, query=self.query)

    @property
    def stays_in_engine(self) -> bool:
        """Whether the records stay where they are, and an engine answers for them."""
        return self.place is not None

    @property
    def as_released(self) -> dict[str, None]:
        """What a release says itself, for the next command; without a header --columns are the names of all."""
        return {"prior": None, "drop": None} | ({} if self.no_header else {"columns": None})

    @property
    def files(self) -> list[Path | None]:
        """The files that are read, so that none is written over."""
        if isinstance(self.table, Address) and "://" in self.table:
            return [self.table_file]
        return [*((self.place and self.place.files) or [Path(self.table)]), self.table_file]


def _beyond_memory(path: Path) -> bool:
    """Say whether a file of a kind that engines read is larger than what is read into memory."""
    name = path.name.lower()
    if not path.is_file() or not name.endswith((".parquet", ".csv", ".csv.gz")):
        return False
    if not name.endswith(".parquet"):
        return os.path.getsize(path) > LIMITS.bytes / (10 if name.endswith(".gz") else 1)
    import pyarrow.parquet

    try:
        about = pyarrow.parquet.read_metadata(path)
    except (OSError, pyarrow.ArrowException):  # who reads it says what is wrong with it
        return False
    return about.num_rows * about.num_columns > LIMITS.values


@dataclass(frozen=True)
class ModelOptions:
    """How a release is made: its prior and model, or a release to be like, and what is guaranteed."""

    title: ClassVar[str] = "How the release is made"
    prior: Path | None = option("A TOML or JSON prior file, from public knowledge, never from this table.")
    like: Path | None = option(
        "A release made before: take its columns, prior, model, scales, limits and decimals."
    )
    keep: list[str] | None = option(
        "A public column that goes out as it is, a row for each person, or several separated by commas; the "
        "others are drawn given it."
    )
    model: str | None = option(
        "How columns hang together: normal (bell-shaped, within each combination of levels, the default), or "
        "classes (any shape: each person is of a class that nobody has observed).",
        metavar="normal|classes",
    )
    classes: int | None = option("At most how many classes, with --model classes; 10 by default.")
    cells: str | None = option(
        "Whether each level of a category moves the means, with one spread for all (main-effects, the "
        "default), or each combination of levels has a normal of its own (separate).",
        metavar="main-effects|separate",
    )
    cell_weight: float | None = option(
        "How many records the prior is worth in each combination of levels; by default one for all together."
    )
    missing: Gaps | None = option(
        "What to do with missing values: refuse them (the default), impute them (synthetic tables have "
        "none), or keep them (synthetic tables have gaps, too)."
    )
    epsilon: float | None = option(
        "Guarantee ε-differential privacy, with noise; every column needs limits in --table-file."
    )
    delta: float | None = option(f"The δ of the guarantee, below one over the people; {DELTA:g} by default.")

    @property
    def has_classes(self) -> bool:
        """Whether classes are asked for."""
        if self.model not in (None, NORMAL, CLASSES):
            raise InputError(f"--model is {NORMAL} or {CLASSES}, got {self.model!r}", "give one of them")
        if self.classes is not None and self.model != CLASSES:
            raise InputError("--classes goes with --model classes", Cure("ask for classes", "model", CLASSES))
        return self.model == CLASSES

    @cached_property
    def release_like(self) -> Release | None:
        """The release that --like names, read once: it may have many datasets, and several ask for it."""
        if self.like is None:
            return None
        release = load_release(self.like)
        release.require_no_guarantee()
        return release


@dataclass(frozen=True)
class AttackOptions:
    """Who attacks, and by which rule a value counts as disclosed to them."""

    title: ClassVar[str] = "Who attacks, and by which rule"
    known: list[str] | None = option(
        "A column that one adversary knows of everyone, or several separated by commas, categories among them; "
        "those that were kept are known anyway. By default there are two: one who knows nothing of a person, "
        "--known '' alone, and one who knows all but one value."
    )
    secret: list[str] | None = option(
        "A column that is judged, or several separated by commas; all others count as public of people anyway. "
        "By default all are secret but those that the table file declares as secret = false."
    )
    lacking_columns: list[str] | None = option(
        "A column the adversary lacks of everyone, or several separated by commas."
    )
    lacking_records: int = option(
        "How many records the adversary lacks beside the target, chosen at random; they are inferred "
        "together by sampling, which takes minutes for hundreds of records.",
        0,
        min=0,
    )
    adversary_prior: Path | None = option(
        "A prior file with what the adversary believes of measurements, where it is not the release's own prior."
    )
    probability: float = option(
        "How sure the adversary must be of a value, within its tolerance, for it to be disclosed.", 0.5
    )
    membership: float = option(
        "How sure somebody must become that a person is in the table for that to be disclosed.", 0.9
    )
    membership_odds: float = option(
        "The odds that they give to it before they see the release; 1 stands for even odds.", 1.0
    )
    radius: float = option("How near the truth counts as near: a Mahalanobis distance.", RADIUS)
    no_mass: bool = option("Leave out the mass near the truth, which takes most of the time.", False)

    @cached_property
    def rule(self) -> Rule:
        """The rule of the verdict."""
        return Rule.of(self.probability, self.membership, self.membership_odds)

    @property
    def known_names(self) -> list[str] | None:
        """The columns that one adversary knows, none of them for --known ''; None where there are two."""
        return [name for name in self.known if name.strip()] if self.known else None

    def judging(self, records: AnyRecords) -> AnyRecords:
        """Return the records with what is secret of them, where that was said here and not in a table file."""
        if self.secret is None:
            return records
        schema = self.declared(records.schema, records.order)
        return records.with_schema(schema)  # type: ignore[return-value]  # of its kind

    def declared(self, schema: Schema, order: Sequence[str]) -> Schema:
        """Return what is declared of the columns in this order, with what is secret, where that was said here."""
        if self.secret is None:
            return schema
        return schema.with_secret(Adversary(secret=self.secret).of(order, schema.derived_names).secret)

    @property
    def adversary(self) -> Adversary:
        """Who attacks."""
        lacking = self.lacking_columns or ()
        return Adversary(self.known_names, lacking, self.lacking_records, self.adversary_prior, self.secret)


@dataclass(frozen=True)
class LedgerOptions:
    """Which ledger says what was released before, and whether that counts."""

    title: ClassVar[str] = "What was released before"
    ledger: Path | None = option(
        "The ledger of what was released of the table; beside the table, as TABLE.ledger.toml."
    )
    alone: bool = option("Leave out of account what the ledger says was released before.", False)
    no_ledger: bool = option("Do not record the release in the table's ledger: then nobody counts it.", False)


GROUPS = (TableOptions, ModelOptions, AttackOptions, LedgerOptions)


class Offers:
    """Which options of a group a command has, some in words of its own: for `Annotated[Group, Offers(…)]`."""

    def __init__(self, *names: str, **reworded: Any) -> None:
        self.names: tuple[str, ...] = (*names, *reworded)
        self.reworded: dict[str, Any] = reworded


TABLE_FILE = (  # a table that is read into memory
    Path,
    argument(f"The confidential table: a {READABLE} file (Excel, SPSS, SAS and Stata among them).", REQUIRED),
)
RULE = ("probability", "membership", "membership_odds")
OF_RELEASE = "The columns of the table to use; those of the release by default. May be repeated."
OF_FILE = ("table", "columns", "drop", "no_header", "encoding", "sheet", "missing_codes")
OF_TABLE = (
    *OF_FILE, "complete_cases", "drop_unusable", "rows_are_people", "table_file", "person", "visit", "visits",
    "once", "log", "positive", "decimals",
)  # fmt: skip
OF_ENGINE = ("engine", "from_table", "query")
TableAnywhere = Annotated[TableOptions, Offers(*OF_TABLE, *OF_ENGINE)]
JudgedTable = Annotated[TableOptions, Offers(*OF_FILE, "complete_cases", table=TABLE_FILE, columns=OF_RELEASE)]
JudgedAnywhere = Annotated[
    TableOptions, Offers(*OF_FILE, "complete_cases", *OF_ENGINE, "key", "worst", columns=OF_RELEASE)
]
PriorOfRelease = Annotated[
    ModelOptions,
    Offers(prior="The prior file the release was made with, if the release does not say: another one is refused."),
]
EarlierReleases = Annotated[LedgerOptions, Offers("ledger", "alone")]


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Make a command of a function: groups of options among its parameters are asked one by one, and arrive whole.

    Arguments come first, then the options of the command itself, then those of its groups.
    """
    groups: dict[str, tuple[type, list[str]]] = {}
    own: list[inspect.Parameter] = []
    grouped: list[inspect.Parameter] = []
    for parameter in inspect.signature(function).parameters.values():
        group, *about = get_args(parameter.annotation) or (parameter.annotation,)
        if group in GROUPS:
            asked = parameters_of(group, next((each for each in about if isinstance(each, Offers)), None))
            groups[parameter.name] = group, [each.name for each in asked]
            own += [each for each in asked if each.name == "table"]
            grouped += [each for each in asked if each.name != "table"]
        elif isinstance(parameter.default, Field):
            own.append(_asked(parameter.name, parameter.annotation, parameter.default))
        else:
            own.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    @wraps(function)
    def run(**given: Any) -> None:
        made = {
            name: group(**{each: given.pop(each) for each in names}) for name, (group, names) in groups.items()
        }
        function(**given, **made)

    parameters = [*own, *grouped]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters} | {"return": None}
    return run


def parameters_of(group: Any, offer: Offers | None = None) -> list[inspect.Parameter]:
    """Return the options of a group as parameters of a function, in the order of its fields."""
    hints, reworded = get_type_hints(group), offer.reworded if offer else {}
    return [
        _asked(each.name, hints[each.name], each, group.title, reworded.get(each.name))
        for each in fields(group)
        if offer is None or each.name in offer.names
    ]


def _asked(
    name: str, kind: Any, declared: Field[Any], heading: str | None = None, reworded: Any = None
) -> inspect.Parameter:
    """Return an argument or option as Typer understands it, under a heading of --help where there is one.

    reworded: other words for it, or its kind and another declaration.
    """
    if isinstance(reworded, tuple):
        kind, declared = reworded
    asked = copy(declared.metadata["asked"])
    if isinstance(reworded, str):
        asked.help = reworded
    if isinstance(asked, OptionInfo):
        asked.rich_help_panel = heading
        if kind is bool and asked.default is ...:  # no second flag that says the opposite
            asked.default = flag_of(name)
    default = inspect.Parameter.empty if declared.default is REQUIRED else declared.default
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, asked]
    )


def flag_of(name: str) -> str:
    """Return the flag of an option by the name of its field."""
    return f"--{name.replace('_', '-')}"


def numbers_in(option: str, text: str, kind: type[Number], example: str) -> list[Number]:
    """Read numbers between commas, whole ones or any."""
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError as error:
        what = f"--{option} are {'whole ' * (kind is int)}numbers separated by commas, got {text!r}"
        raise InputError(what, Cure("list some", option, example)) from error


def counts_in(option: str, text: str) -> list[int]:
    """Read whole numbers between commas, each once, from the smallest up."""
    return sorted({count_of(option, count) for count in numbers_in(option, text, int, "1,5,10")})


def require_page(out: Path, usual: str) -> None:
    """Refuse an output that is not an HTML file."""
    if out.suffix != ".html":
        raise InputError(f"--out names an .html file, got {str(out)!r}", Cure("name one", "out", usual))


def require_rows_of_datasets(rows: int | None, release: ReleaseKind) -> None:
    """Refuse a number of rows that is none, or that parameters would have."""
    if rows is not None:
        count_of("rows", rows)
        if release is ReleaseKind.parameters:
            raise InputError("--rows goes with datasets, not with --release parameters", "leave it out")
