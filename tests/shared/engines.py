"""Engines for the tests: PostgreSQL on loopback, two Dask workers, Spark, and one table in all of them."""

import os
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from programs import program

# Spark takes Java and half a minute to begin: its tests run where they are asked for, `make test-spark`
SPARK = bool(os.environ.get("ALLBUTONE_TEST_SPARK"))
ENGINES = ("polars", "duckdb", "dask", "postgres") if not SPARK else ("spark",)
PASSWORD = "pw-" + secrets.token_hex(8)  # found in no output, or a test fails


@dataclass
class Server:
    folder: Path
    port: int

    @property
    def address(self):
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def load(self, name, table):
        """Create a table from an Arrow one."""
        import psycopg

        kinds = {"double": "float8", "int64": "bigint", "bool": "boolean"}
        columns = ", ".join(f'"{field.name}" {kinds.get(str(field.type), "text")}' for field in table.schema)
        with psycopg.connect(self.address, password=PASSWORD) as connection:
            connection.execute(f'create table "{name}" ({columns})')
            with connection.cursor().copy(f'copy "{name}" from stdin') as copy:
                for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
                    copy.write_row(row)

    def run(self, *command):
        """Run one of PostgreSQL's programs as a user who is not root, which it refuses."""
        if os.getuid() == 0:
            command = ("su", "postgres", "-s", "/bin/sh", "-c", " ".join(map(str, command)))
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)


@pytest.fixture(scope="session")
def postgres():
    """A PostgreSQL server in a temporary folder, with a password."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = Server(Path(tempfile.mkdtemp(prefix="abo-pg-")), port)
    (server.folder / "pw").write_text(PASSWORD)
    if os.getuid() == 0:
        owner = pwd.getpwnam("postgres")
        for path in (server.folder, server.folder / "pw"):
            os.chown(path, owner.pw_uid, owner.pw_gid)
    data = server.folder / "data"
    make, control = program("initdb"), program("pg_ctl")
    server.run(make, "-D", data, "-A", "scram-sha-256", "-U", "postgres", "-E", "UTF8", "-N",
               f"--pwfile={server.folder / 'pw'}")  # fmt: skip
    options = f"'-F -p {port} -h 127.0.0.1 -k {server.folder}'"
    if os.getuid() != 0:
        options = options.strip("'")
    server.run(control, "-D", data, "-w", "-l", server.folder / "log", "-o", options, "start")
    yield server
    server.run(control, "-D", data, "-m", "immediate", "stop")
    shutil.rmtree(server.folder, ignore_errors=True)


@pytest.fixture
def password(monkeypatch):
    """The server's password where a user would keep it."""
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    return PASSWORD


@pytest.fixture(scope="session")
def workers():
    """Two Dask workers, each a process of its own."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0"
        ) as cluster,
        Client(cluster, set_as_default=False) as client,  # what is tested brings its own
    ):
        yield client


@pytest.fixture(scope="session")
def spark():
    """A Spark session on a local master of two threads."""
    from pyspark.sql import SparkSession

    settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.log.level": "ERROR",
                "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}  # fmt: skip
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


def lazily(engine, table, folder, request):
    """Return an Arrow table as a lazy frame of an engine."""
    if engine == "polars":
        import polars as pl

        return pl.from_arrow(table).lazy()
    if engine == "duckdb":
        import duckdb

        return duckdb.connect().from_arrow(table)
    if engine == "dask":
        import dask.dataframe as dd

        request.getfixturevalue("workers")
        return dd.from_pandas(table.to_pandas(), npartitions=2)
    if engine == "spark":
        import pyarrow.parquet

        folder = folder / f"t{secrets.token_hex(4)}"
        folder.mkdir()
        pyarrow.parquet.write_table(table, folder / "0.parquet")
        return request.getfixturevalue("spark").read.parquet(str(folder))
    from allbutone.tables.engines.sources import Source

    server = request.getfixturevalue("postgres")
    request.getfixturevalue("password")
    name = f"t{secrets.token_hex(4)}"
    server.load(name, table)
    return Source(server.address, from_table=name).open()
