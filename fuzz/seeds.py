"""Valid files of every kind, written by the program itself, from which the spoiled ones are made."""

import sys
import zipfile
from pathlib import Path

import numpy as np

TABLE, MIXED = "table.csv", "mixed.csv"


def write_seeds(folder: Path) -> None:
    """Write tables, table files, a prior, designs, ledgers, moments and releases into a folder."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    rng = np.random.default_rng(1)
    values = rng.standard_normal((40, 3)).round(3)
    rows = [",".join(f"{value:g}" for value in row) for row in values]
    (folder / TABLE).write_text("bmi,ldl,age\n" + "\n".join(rows) + "\n")
    levels = rng.choice(["f", "m"], 40)
    mixed = [f"{row},{level}" for row, level in zip(rows, levels, strict=True)]
    mixed[3] = ",0.5,1.5,f"
    (folder / MIXED).write_text("bmi,ldl,age,sex\n" + "\n".join(mixed) + "\n")
    columns = dict(zip(("bmi", "ldl", "age"), values.T, strict=True))
    parquet.write_table(pa.table(columns | {"sex": levels}), folder / "table.parquet")
    parquet.write_table(_odd_types(), folder / "odd.parquet")
    (folder / "prior.toml").write_text("mean_weight = 1\ndf = 6\n[centre]\nbmi = 0\nldl = 0\nage = 0\n"
                                       "[spread]\nbmi = 1\nldl = 1\nage = 1\n")  # fmt: skip
    (folder / "design.toml").write_text(DESIGN)
    limits = "".join(f"[columns.{name}]\nlow = -10\nhigh = 10\ncentre = 0\nspread = 1\n" for name in columns)
    (folder / "limits.toml").write_text(limits)
    for command in COMMANDS:
        code, _, errors = run_command(command.split(), folder)
        assert code == 0, f"allbutone {command}: {errors}"
    _write_odd_archive(folder / "odd.zip")


def _write_odd_archive(path: Path) -> None:
    """Write a zip file whose names lead elsewhere."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("release.json", "../x", "..", "a/b", "/proc/version", "a" * 200, "release.json "):
            archive.writestr(name, '{"files": []}')


DESIGN = """title = "A small study"
seed = 1
replicates = 5

[prior]
mean = 1.1

[[cells]]
release = "parameters"
p = [1, 2]
n = 20
count = [1, 3]
distance = 5.0

[[cells]]
release = "datasets"
p = [1, 2]
n = 20
count = [1, 3]
rows = 10
mean = 1
variance = 3
target = 20
"""
COMMANDS = (
    f"describe {TABLE} --out table.toml",
    f"describe {MIXED} --out mixed.toml",
    f"synthesize {TABLE} --out datasets --datasets 2 --rows 10",
    f"synthesize {TABLE} --out both --release both --datasets 2 --rows 10",
    f"synthesize {MIXED} --out mixed --datasets 2 --rows 10 --missing impute",
    f"synthesize {TABLE} --out parquet --datasets 2 --rows 10 --format parquet --no-ledger",
    f"moments {TABLE} --out site.json --site A",
    "check datasets --zip archive.zip",
    "study design.toml --out study --replicates 2",
)


def _odd_types() -> object:
    """Return a table of columns that are no plain numbers."""
    import datetime
    import decimal

    import pyarrow as pa

    return pa.table({
        "day": [datetime.date(2020, 1, day) for day in range(1, 11)],
        "exact": [decimal.Decimal(day).scaleb(-2) for day in range(10)],
        "text": pa.array([f"a{day % 3}" for day in range(10)]).dictionary_encode(),
        "bytes": [b"\\xff"] * 10,
        "nothing": pa.nulls(10),
        "truth": [True, False] * 5,
        "small": pa.array(range(10), pa.uint8()),
        "half": pa.array(np.arange(10, dtype=np.float16)),
    })  # fmt: skip


def run_command(arguments: list[str], folder: Path) -> tuple[int, str, str]:
    """Run the command line in this process, in a folder; return the exit code, and what it printed."""
    import io
    import os

    from allbutone.cli import main as cli

    before = sys.argv, sys.stdout, sys.stderr, os.getcwd()
    printed, errors = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    sys.argv, sys.stdout, sys.stderr = ["allbutone", *arguments], printed, errors
    os.chdir(folder)
    code: object = 0
    try:
        cli.main()
    except SystemExit as end:
        code = end.code
    finally:
        sys.argv, sys.stdout, sys.stderr = before[:3]
        os.chdir(before[3])
    texts = []
    for stream in (printed, errors):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode("utf-8", "replace"))  # type: ignore[attr-defined]
    return code if isinstance(code, int) else 0 if code is None else 1, texts[0], texts[1]
