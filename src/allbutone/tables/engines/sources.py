"""Where a table lies that is not read into memory: files or a database, opened by an engine that is there."""

import os
import weakref
from dataclasses import dataclass
from glob import glob
from importlib.util import find_spec
from pathlib import Path
from tempfile import gettempdir
from typing import Any
from urllib.parse import urlsplit

from allbutone.support.errors import Cure, InputError, optional_module
from allbutone.tables.engines.queries import refused

ENGINES = ("duckdb", "polars", "dask", "spark")
_MODULES = {"duckdb": "duckdb", "polars": "polars", "dask": "dask.dataframe", "spark": "pyspark.sql"}
_DATABASES = ("postgresql", "postgres")
_DATABASE_FILES = (".duckdb", ".ddb")
# bounded memory, what is beyond it on the disk, rows in the order of the files, and no bar between the results
_DUCKDB = (
    "memory_limit = '400MB'",
    f"temp_directory = '{gettempdir()}'",
    "preserve_insertion_order = true",
    "enable_progress_bar = false",
)
# nothing but errors where results are printed; where the master is, Spark's own settings say (else: here)
_SPARK = {"spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false", "spark.ui.enabled": "false"}
POLARS_ROWS = 30_000  # at a time, where polars would take three times as many: as fast, and less memory
_CREDENTIALS = (
    "take the password out and let the environment (PGPASSWORD), ~/.pgpass or a service file (PGSERVICE) hold it"
)


@dataclass(frozen=True)
class Source:
    """A table by its address: a pattern of files ('data/*.parquet'), or a database and a table or query there.

    engine: what reads the files; if not given, DuckDB or polars, whichever is installed.
    """

    address: str
    engine: str | None = None
    from_table: str | None = None
    query: str | None = None

    def __post_init__(self) -> None:
        """Refuse what does not go together; a password in the address is refused without repeating it."""
        if self.is_database:
            require_no_password(self.address)
            if (self.from_table is None) == (self.query is None):
                raise InputError(
                    "a database holds many tables", Cure("name one", "from_table"), Cure("give a query", "query")
                )
            if self.engine is not None:
                raise InputError("a database is its own engine", "name no other")
            return
        if self.from_table is not None or self.query is not None:
            raise InputError("only a database has tables to name and queries to answer", "leave them out")
        if self.engine not in (None, *ENGINES):
            raise InputError(f"there is no engine {self.engine!r:.60}", f"choose among {', '.join(ENGINES)}")

    @property
    def is_database(self) -> bool:
        """Whether the address is that of a database: a server's, or a file of DuckDB's."""
        return "://" in self.address or self.is_database_file

    @property
    def is_database_file(self) -> bool:
        """Whether the address is that of a database in a file."""
        return self.address.lower().endswith(_DATABASE_FILES)

    def __str__(self) -> str:
        """Return the address, which holds no password."""
        return self.address

    @property
    def files(self) -> list[Path]:
        """The files of the pattern."""
        return [] if self.is_database else [Path(name) for name in sorted(glob(self.address, recursive=True))]

    def open(self) -> Any:
        """Return the table as a lazy frame of its engine."""
        try:
            return self._database() if self.is_database else self._files()
        except Exception as error:  # each engine has exceptions of its own
            raise refused(error, f"{self.address} cannot be opened") from error

    def _database(self) -> Any:
        if self.is_database_file:
            if not os.path.exists(self.address):
                raise InputError(f"no file is called {self.address}", "see how the file is called")
            opened = _duckdb(self.address, read_only=True)
            return opened.sql(self.query) if self.query is not None else opened.table(str(self.from_table))
        if urlsplit(self.address).scheme not in _DATABASES:
            raise InputError(
                "of databases, the command line opens postgresql:// only",
                "in Python, give the Ibis table itself",
            )
        psycopg, ibis = _module("psycopg", "postgresql"), _module("ibis", "postgresql")
        # libpq itself finds user, password and service in the environment and in its files
        connection = psycopg.connect(self.address, autocommit=True)
        database = ibis.postgres.from_connection(connection)
        weakref.finalize(database, connection.close)  # with the last expression that is about its tables
        if self.query is not None:
            # a view that ends with the connection: `sql` of Ibis makes one, too, and fails to drop it under some
            # versions of what writes its SQL
            connection.execute(f"create temporary view allbutone_query as {self.query}")
            return database.table("allbutone_query")
        schema, _, name = str(self.from_table).rpartition(".")
        return database.table(name, database=schema or None)

    def _files(self) -> Any:
        files = [str(path) for path in self.files]
        if not files:
            raise InputError(f"no file is called {self.address}", "see how the files are called")
        kinds = {_kind(name) for name in files}
        if len(kinds) > 1 or None in kinds:
            raise InputError(f"{self.address} is not of .parquet files alone, or .csv files alone", "name those")
        usual = (
            "polars" if find_spec("polars") and not find_spec("duckdb") else "duckdb"
        )  # which takes less memory
        kind, engine = kinds.pop(), self.engine or usual
        module = _module(_MODULES[engine], engine)
        if engine == "duckdb":
            return getattr(_duckdb(), f"read_{kind}")(files)
        if engine == "polars":
            module.Config.set_streaming_chunk_size(POLARS_ROWS)
        if engine == "spark":
            reader, files = _spark(module).read, [f"file://{os.path.abspath(name)}" for name in files]
            return (
                reader.parquet(*files) if kind == "parquet" else reader.csv(files, header=True, inferSchema=True)
            )
        return getattr(module, f"{'scan' if engine == 'polars' else 'read'}_{kind}")(files)


def is_source(address: str) -> bool:
    """Say whether an address is that of a database, or a pattern of files that is not itself a file's name."""
    if "://" in address or address.lower().endswith(_DATABASE_FILES):
        return True
    return any(sign in address for sign in "*?[") and not os.path.exists(address)


def _kind(name: str) -> str | None:
    ends = {".parquet": "parquet", ".csv": "csv", ".csv.gz": "csv"}
    return next((kind for end, kind in ends.items() if name.lower().endswith(end)), None)


def _duckdb(path: str = ":memory:", read_only: bool = False) -> Any:
    """Return a connection that keeps to bounded memory."""
    module = _module("duckdb", "duckdb")
    connection = module.connect(path, read_only, config={"autoinstall_known_extensions": "false"})
    for setting in _DUCKDB:
        connection.execute(f"set {setting}")
    return connection


def _spark(module: Any) -> Any:
    """Return the Spark session that there is, or a quiet new one."""
    builder = module.SparkSession.builder
    for name, value in _SPARK.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except Exception as error:
        if getattr(error, "getCondition", str)() != "JAVA_GATEWAY_EXITED":
            raise
        cure = "install Java 17 or later (Debian: apt-get install default-jre-headless), or set JAVA_HOME to it"
        raise InputError("Spark could not start Java", cure) from error


def _module(name: str, extra: str) -> Any:
    return optional_module(name, extra, f"what reads this table, {extra},")


def require_no_password(address: str) -> None:
    """Refuse an address that holds a password, or reads as if it did, without repeating it."""
    try:
        secret = urlsplit(address).password is not None or "password=" in address.lower().replace(" ", "")
    except ValueError:
        raise InputError(
            "the address of the database cannot be read", "write postgresql://HOST:PORT/NAME"
        ) from None
    if secret:
        raise InputError("the address of the database holds a password, which shells and logs keep", _CREDENTIALS)
