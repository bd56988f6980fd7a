"""Tables that stay in their engine: what moments, leverage and risk cost, and how that grows.

ALLBUTONE_BENCH_ROWS is the number of rows of the large table, 20,000,000 by default, of ten columns in ten files
(1.6 GB, in a temporary folder). `python -m benchmarks.scale docs/scale.md` puts what was measured into that page.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from benchmarks import postgres
from benchmarks.clock import Row, machine, variates

ROWS, FILES, REPEATS = int(os.environ.get("ALLBUTONE_BENCH_ROWS", 20_000_000)), 10, 3
SMALL = min(ROWS, 400_000)  # rows of the tables on which growth in the columns, and slow engines, are measured
MOST_COLUMNS = 20  # for the engines that take minutes for more
GROUP_ROWS = 1 << 20  # of a group of rows in the files, as pandas and pyarrow write them: few engines like less
BEGIN, END = "<!-- measured -->", "<!-- end of what was measured -->"
OWN = """
names = [f"x{i}" for i in range(p)]
pairs = [f"sum({a} * {b})" for i, a in enumerate(names) for b in names[: i + 1]]
query = f"select count(*), {', '.join(f'sum({a})' for a in names)}, {', '.join(pairs)} from '{pattern}'"
import duckdb
def work():
    duckdb.sql(query).fetchall()
"""
OURS = """
from allbutone.model.niw import NIW
from allbutone.disclosure.standing import standing_out
from allbutone.tables.engines.lazy_records import LazyRecords
from allbutone.tables.engines.sources import Source
if engine == "postgresql":
    source = Source(pattern, from_table="t")
else:
    source = Source(pattern, engine)
if engine == "dask":
    import dask
    dask.config.set(scheduler="threads")  # in this process, so that its time is seen
def work():
    global records
    records = LazyRecords.of(source.open())
def again():
    standing_out(records, NIW.flat(p), most=100)
"""
WRITE = """
import numpy as np, tempfile
from pathlib import Path
from allbutone.model.niw import NIW
from allbutone.releases.folder import synthesize_to_folder
from allbutone.releases.mechanism import Mechanism
posterior = NIW.flat(10).update(np.random.default_rng(1).standard_normal((1000, 10)))
names = tuple(f"x{i}" for i in range(10))
def work():
    with tempfile.TemporaryDirectory() as folder:
        synthesize_to_folder(posterior, [rows], np.random.default_rng(), Path(folder) / "release",
                             mechanism=Mechanism.of_measurements(names, NIW.flat(10)), format="parquet")
"""
RISK = """
import numpy as np
import allbutone as abo
from allbutone.disclosure.table_risk import stream_risk
from allbutone.tables.engines.lazy_records import LazyRecords
from allbutone.tables.engines.sources import Source
records = LazyRecords.of(Source(pattern).open())
release = abo.Synthesizer().fit(records).sample(datasets=datasets, rows=1000)
def work():
    assert sum(len(part["row"]) for part in stream_risk(records, release, mass=False)) == len(records)
"""
MEASURE = """
import json, time
from benchmarks.postgres import seconds_of
def clock():
    return time.process_time() + (seconds_of(server) if server else 0.0)
found = {}
for name in ("work", "again"):
    for _ in range(repeats if name in globals() else 0):
        start = clock()
        globals()[name]()
        found[name] = min(clock() - start, found.get(name, 1e9))
# not ru_maxrss, which begins with that of the process that started this one
(peak,) = (line for line in open("/proc/self/status") if line.startswith("VmHWM"))
found["megabytes"] = int(peak.split()[1]) * 1.024 / 1e3
print(json.dumps(found))
"""


def measured(code: str, *, repeats: int = REPEATS, server: str = "", **given: object) -> dict[str, float]:
    """Run a piece of Python by itself; return seconds of all cores together, the best of some, and megabytes."""
    said = "\n".join(
        f"{name} = {value!r}" for name, value in ({"repeats": repeats, "server": server} | given).items()
    )
    done = subprocess.run(
        [sys.executable, "-c", said + code + MEASURE], check=True, stdout=subprocess.PIPE, text=True
    )
    return json.loads(done.stdout.splitlines()[-1])  # DuckDB may show a bar before


def make(folder: Path, rows: int, columns: int, files: int = FILES) -> str:
    """Write a table of normal columns, a group of rows at a time; return the pattern of its files."""
    folder.mkdir()
    rng, schema = np.random.default_rng(1), pa.schema([(f"x{i}", pa.float64()) for i in range(columns)])
    for part in range(files):
        with pyarrow.parquet.ParquetWriter(folder / f"{part}.parquet", schema) as writer:
            left = rows // files
            while left > 0:
                size = min(left, GROUP_ROWS)
                data = {f"x{i}": rng.standard_normal(size) + 100 * i for i in range(columns)}
                writer.write_table(pa.table(data), row_group_size=GROUP_ROWS)
                left -= size
    return f"{folder}/*.parquet"


class Page:
    """What was measured, as lines of Markdown, printed as they come."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str = "") -> None:
        print(line, flush=True)
        self.lines.append(line)

    def table(self, *headings: str) -> None:
        self.say("| " + " | ".join(headings) + " |")
        self.say("|" + "---|" * len(headings))


def against_duckdb(page: Page, folder: Path) -> None:
    """Compare moments and leverage with the engine's own sums, in time, and measure memory."""
    pattern = make(folder / "large", ROWS, 10)
    own = measured(OWN, pattern=pattern, p=10)["work"]
    per = ROWS / 1e6
    page.say(
        f"{ROWS:,} rows of ten columns in ten Parquet files; DuckDB's own sums in one query take {own:.2f} s:\n"
    )
    page.table("", "seconds", "times DuckDB's own", "seconds per 10⁶ rows", "memory at the peak")
    for engine in ("duckdb", "polars"):
        ours = measured(OURS, pattern=pattern, engine=engine, p=10)
        for name, what in (("work", "moments"), ("again", "leverage: counts and the top hundred")):
            memory = f"{ours['megabytes']:.0f} MB" if name == "again" else ""
            page.say(
                f"| {what}, {engine} | {ours[name]:.1f} | {ours[name] / own:.2f} | {ours[name] / per:.2f} "
                f"| {memory} |"
            )
    page.say()


def of_each_engine(page: Page, folder: Path) -> None:
    """Measure every engine on one table, and how each grows with the rows and the columns."""
    page.say("Seconds of processor time per 10⁶ rows, moments + leverage, by rows × columns:\n")
    sizes = [(SMALL // 4, 10), (SMALL, 10), (SMALL, 5), (SMALL, 20), (SMALL, 40)]
    page.table("engine", *(f"{rows:,} × {columns}" for rows, columns in sizes))
    patterns = [make(folder / f"small{place}", *size, files=4) for place, size in enumerate(sizes)]
    few = [size for size in sizes if size[1] <= MOST_COLUMNS]
    for engine in ("duckdb", "polars", "dask"):
        found = [
            measured(OURS, pattern=pattern, engine=engine, p=columns, repeats=2)
            for pattern, (_, columns) in zip(patterns, few if engine == "dask" else sizes, strict=False)
        ]
        _line(page, engine, found, sizes)
    with postgres.server() as there:
        if there is None:
            page.say("| postgresql | not installed here |")
        else:
            found = [_in_postgres(*there, *each) for each in zip(patterns, few, strict=False)]
            _line(page, "postgresql", found, sizes)
    page.say()


def _in_postgres(address: str, data: Path, pattern: str, size: tuple[int, int]) -> dict[str, float]:
    import psycopg
    import pyarrow.dataset

    table = pyarrow.dataset.dataset(str(Path(pattern).parent)).to_table()
    postgres.load(address, "t", table)
    found = measured(OURS, pattern=address, engine="postgresql", p=size[1], repeats=2, server=str(data))
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("drop table t")
    return found


def _line(page: Page, engine: str, found: list[dict[str, float]], sizes: list[tuple[int, int]]) -> None:
    cells = [
        f"{each['work'] / rows * 1e6:.2g} + {each['again'] / rows * 1e6:.2g}"
        for each, (rows, _) in zip(found, sizes, strict=False)
    ]
    cells += ["not measured"] * (len(sizes) - len(cells))
    page.say(f"| {engine} | " + " | ".join(cells) + " |")


def of_risk_and_writing(page: Page, folder: Path) -> None:
    """Measure the risk of all records by the number of datasets, and the writing of synthetic rows."""
    page.say("Risk of all records of five columns, streamed, without the mass near the truth:\n")
    page.table("datasets", "records", "milliseconds a record", "memory at the peak")
    for datasets, records in ((1, 131_072), (10, 20_000), (100, 5_000), (1000, 1_000)):
        pattern = make(folder / f"risk{datasets}", records, 5, files=2)
        found = measured(RISK, pattern=pattern, datasets=datasets, repeats=1)
        cost = 1e3 * found["work"] / records
        page.say(f"| {datasets:,} | {records:,} | {cost:.2g} | {found['megabytes']:.0f} MB |")
    wrote = measured(WRITE, rows=ROWS, repeats=1)
    page.say(
        f"\nSynthetic rows: {ROWS:,} of ten columns are drawn and written as Parquet in {wrote['work']:.0f} s, "
        f"with {wrote['megabytes']:.0f} MB at the peak."
    )


def rows() -> Iterator[Row]:
    """The lines of the table of all benchmarks: moments and leverage beside DuckDB's own sums, and writing."""
    what = f"{ROWS:,} × 10 in Parquet files"
    with tempfile.TemporaryDirectory() as folder:
        pattern = make(Path(folder) / "large", ROWS, 10)
        own, peer = measured(OWN, pattern=pattern, p=10)["work"], "DuckDB's own sums, one query"
        for engine in ("duckdb", "polars"):
            ours = measured(OURS, pattern=pattern, engine=engine, p=10, repeats=1)
            yield Row(f"{what}: moments by {engine}", ours["work"], peer, own, unit="core-s", times=0.5)
            words = f"{what}: leverage counts and the top hundred by {engine}"
            yield Row(words, ours["again"], peer, own, unit="core-s", times=0.25)
            yield Row(f"{what}: peak memory with {engine}", ours["megabytes"], unit="MB", most=600)
    wrote, floor = measured(WRITE, rows=ROWS, repeats=1), ROWS * 10 * variates()[0]
    words = f"draw and write {ROWS:,} × 10 as Parquet"
    yield Row(words, wrote["work"], "floor: its normal numbers", floor, unit="core-s")
    yield Row(f"{words}: peak memory", wrote["megabytes"], unit="MB")


def run() -> list[str]:
    page = Page()
    page.say(
        f"Measured by `python -m benchmarks.scale docs/scale.md` on {'; '.join(machine())}, in seconds of "
        "processor time (all cores together), the best of several runs.\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        for part in (against_duckdb, of_each_engine, of_risk_and_writing):
            part(page, Path(folder))
    return page.lines


if __name__ == "__main__":
    place = Path(sys.argv[1])
    before, _, rest = place.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    place.write_text("\n".join([before + BEGIN, "", *run(), "", END + after]))
