"""A PostgreSQL server in a temporary folder, and the processor time that it takes."""

import glob
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa


@contextmanager
def server() -> Iterator[tuple[str, Path] | None]:
    """Yield the address and the folder of a server on loopback; None where PostgreSQL is not installed."""
    programs = Path(sorted(glob.glob("/usr/lib/postgresql/*/bin"))[-1:][0]) if _installed() else None
    if programs is None:
        yield None
        return
    folder = Path(tempfile.mkdtemp(prefix="bench-pg-"))
    if os.getuid() == 0:
        owner = pwd.getpwnam("postgres")
        os.chown(folder, owner.pw_uid, owner.pw_gid)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    data = folder / "data"
    _run(f"{programs}/initdb -D {data} -A trust -U postgres -E UTF8 -N")
    # one process a query, so that its time is that of the processor
    options = f"-F -p {port} -h 127.0.0.1 -k {folder} -c max_parallel_workers_per_gather=0 -c jit=off"
    _run(f"{programs}/pg_ctl -D {data} -w -l {folder}/log -o '{options}' start")
    try:
        yield f"postgresql://postgres@127.0.0.1:{port}/postgres", data
    finally:
        _run(f"{programs}/pg_ctl -D {data} -m immediate stop")
        shutil.rmtree(folder, ignore_errors=True)


def _installed() -> bool:
    return bool(glob.glob("/usr/lib/postgresql/*/bin/initdb"))


def _run(command: str) -> None:
    """Run a program of PostgreSQL as a user who is not root, which it refuses."""
    words = ["su", "postgres", "-s", "/bin/sh", "-c", command] if os.getuid() == 0 else ["/bin/sh", "-c", command]
    subprocess.run(
        words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
    )


def load(address: str, name: str, table: pa.Table) -> None:
    """Create a table from an Arrow one."""
    import psycopg

    with psycopg.connect(address) as connection:
        connection.execute(f"create table {name} ({', '.join(f'{each} float8' for each in table.column_names)})")
        with connection.cursor().copy(f"copy {name} from stdin") as copy:
            for batch in table.to_batches(10_000):
                lines = zip(*(column.to_pylist() for column in batch.columns), strict=True)
                copy.write("".join("\t".join(map(repr, line)) + "\n" for line in lines))
        connection.execute(f"analyze {name}")


def seconds_of(data: str) -> float:
    """Return the processor time of a server and of all that it has started, in seconds."""
    main = Path(data, "postmaster.pid").read_text().split()[0]
    total = sum(_ticks(main)[:4])
    for path in glob.glob("/proc/[0-9]*"):
        try:
            *times, parent = _ticks(path.removeprefix("/proc/"))
        except OSError:  # it has ended
            continue
        total += sum(times[:2]) if str(parent) == main else 0
    return total / os.sysconf("SC_CLK_TCK")


def _ticks(process: str) -> list[int]:
    """Return the time of a process and of its ended children, each in programs and in the system; its parent."""
    fields = Path("/proc", process, "stat").read_text().rpartition(")")[2].split()
    return [*(int(fields[place]) for place in (11, 12, 13, 14)), int(fields[1])]
