"""Tables that stay in their engine: moments and leverage of many Parquet files against the engine's own sums.

ALLBUTONE_BENCH_ROWS is the number of rows, 20,000,000 by default, of ten columns in ten files (1.6 GB).
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

ROWS, COLUMNS, FILES = int(os.environ.get("ALLBUTONE_BENCH_ROWS", 20_000_000)), 10, 10
OWN = """
names = [f"x{i}" for i in range(10)]
pairs = [f"sum({a} * {b})" for i, a in enumerate(names) for b in names[: i + 1]]
query = f"select count(*), {', '.join(f'sum({a})' for a in names)}, {', '.join(pairs)} from '{pattern}'"
import duckdb
def work():
    duckdb.sql(query).fetchall()
"""
OURS = """
from allbutone.model.niw import NIW
from allbutone.disclosure.standing_out import standing_out
from allbutone.tables.engines.lazy_records import LazyRecords
from allbutone.tables.engines.sources import Source
source = Source(pattern, engine)
def work():
    global records
    records = LazyRecords.of(source.open())
def again():
    standing_out(records, NIW.flat(10), most=100)
"""
WRITE = """
import numpy as np, tempfile
from pathlib import Path
from allbutone.model.niw import NIW
from allbutone.releases.folder import synthesize_to_folder
posterior = NIW.flat(10).update(np.random.default_rng(1).standard_normal((1000, 10)))
names = tuple(f"x{i}" for i in range(10))
def work():
    with tempfile.TemporaryDirectory() as folder:
        synthesize_to_folder(posterior, [rows], np.random.default_rng(), Path(folder) / "release", columns=names,
                             prior=NIW.flat(10), format="parquet")
"""
MEASURE = """
import json, resource, time
found = {}
for name in ("work", "again"):
    if name in globals():
        start = time.process_time()
        globals()[name]()
        found[name] = time.process_time() - start
found["megabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
print(json.dumps(found))
"""


def measured(code: str, **given: object) -> dict[str, float]:
    """Run a piece of Python by itself; return its seconds of all cores together, and its peak megabytes."""
    said = "\n".join(f"{name} = {value!r}" for name, value in given.items())
    done = subprocess.run(
        [sys.executable, "-c", said + code + MEASURE], check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout.splitlines()[-1])  # DuckDB may show a bar before


def run() -> None:
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        for part in range(FILES):
            columns = {f"x{i}": rng.standard_normal(ROWS // FILES) + 100 * i for i in range(COLUMNS)}
            pa.parquet.write_table(pa.table(columns), Path(folder) / f"{part}.parquet")
        pattern = f"{folder}/*.parquet"
        measured(OWN, pattern=pattern)  # once, so that all find the files in the system's memory
        own = measured(OWN, pattern=pattern)
        print(f"{ROWS:,} rows of {COLUMNS} columns, in seconds of processor time", flush=True)
        print(f"DuckDB's own sums, one query: {own['work']:.2f} s", flush=True)
        for engine in ("duckdb", "polars"):
            ours = measured(OURS, pattern=pattern, engine=engine)
            times = {name: ours[name] / own["work"] for name in ("work", "again")}
            print(
                f"{engine}: moments {ours['work']:.2f} s, {times['work']:.2f} times DuckDB's own (at most 2); "
                f"leverage counts and the top hundred {ours['again']:.2f} s, {times['again']:.2f} times (at most "
                f"4); {ours['megabytes']:.0f} MB at the peak (at most 600)",
                flush=True,
            )
    wrote = measured(WRITE, rows=ROWS)
    print(f"{ROWS:,} synthetic rows as Parquet: {wrote['work']:.1f} s, {wrote['megabytes']:.0f} MB at the peak")
