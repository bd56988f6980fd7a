"""What is fuzzed: each target takes the bytes of one input and ends in a result or in words."""

import shutil
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from allbutone.support.errors import InputError
from fuzz.app import ask
from fuzz.seeds import MIXED, TABLE, run_command


@dataclass(frozen=True)
class Target:
    """kind: how inputs are spoiled. seeds: valid ones. run: takes an input and a folder to work in."""

    name: str
    kind: str
    seeds: tuple[bytes, ...]
    run: Callable[[bytes, Path], object]
    share: int = 1  # of all inputs


RELEASE_FILES = (
    ("description", "json", "datasets", "release.json"),
    ("parameters", "json", "both", "parameters.json"),
    ("dataset", "csv", "datasets", "dataset-001.csv"),
    ("mixed", "json", "mixed", "release.json"),
)


def all_targets(valid: Path) -> list[Target]:
    """Return all targets; `valid` is the folder of valid files."""

    def seeds(*names: str) -> tuple[bytes, ...]:
        return tuple((valid / name).read_bytes() for name in names)

    def in_release(name: str, file: str) -> Callable[[bytes, Path], object]:
        return lambda data, folder: _release(valid / name, file, data, folder)

    words = tuple("\x00".join(line.split()).encode() for line in COMMAND_LINES)
    return [
        Target("table (CSV)", "csv", seeds(TABLE, MIXED), _table("csv"), 5),
        Target("table (Parquet)", "bytes", seeds("table.parquet", "odd.parquet"), _table("parquet"), 5),
        Target("table file", "toml", seeds("table.toml", "mixed.toml"), _table_file, 4),
        Target("prior file", "toml", seeds("prior.toml"), _prior, 4),
        Target("design file", "toml", seeds("design.toml"), _design, 4),
        Target("ledger", "toml", seeds(f"{TABLE}.ledger.toml", f"{MIXED}.ledger.toml"), _ledger, 4),
        Target("moments", "json", seeds("site.json"), _moments, 4),
        *(
            Target(f"release: {what}", kind, seeds(f"{name}/{file}"), in_release(name, file), 2)
            for what, kind, name, file in RELEASE_FILES
        ),
        Target("command line", "words", words, lambda data, folder: _command(valid, data, folder), 1),
        Target("app address", "words", ADDRESSES, _address, 1),
        Target("app upload", "csv", seeds(TABLE, MIXED), _upload, 1),
    ]  # fmt: skip


def _written(data: bytes, folder: Path, name: str) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def _table(ending: str) -> Callable[[bytes, Path], object]:
    def run(data: bytes, folder: Path) -> object:
        from allbutone.tables.records import Records

        path, way = _written(data, folder, f"table.{ending}"), zlib.crc32(data) % 4
        records = Records.of(path, categories=way > 0, gaps=way > 1, drop_unusable=way > 2)
        assert len(records.rows) == len(records.values)
        assert np.isfinite(records.values).all() or records.has_gaps
        return records.natural

    return run


def _table_file(data: bytes, folder: Path) -> object:
    from allbutone.tables.declared.schema import Schema

    schema = Schema.of(_written(data, folder, "table.toml"))
    return schema.entries()


def _prior(data: bytes, folder: Path) -> object:
    from allbutone.model.prior_file import read_prior

    prior = read_prior(_written(data, folder, "prior.toml"), ("bmi", "ldl", "age"))
    return prior if prior.is_flat else prior.root


def _design(data: bytes, folder: Path) -> object:
    from allbutone.studies.design_file import read_design

    design = read_design(_written(data, folder, "design.toml"))
    return [cell.key for cell in design.cells]


def _ledger(data: bytes, folder: Path) -> object:
    from allbutone.releases.ledger.file import read_ledger, void_release

    path = _written(data, folder, "table.csv.ledger.toml")
    ledger = read_ledger(path)
    assert ledger is not None
    if ledger.counted:
        return void_release(path, ledger.counted[0].number, "to see")
    return ledger


def _moments(data: bytes, folder: Path) -> object:
    from allbutone.model.niw import NIW
    from allbutone.model.site_moments import SiteMoments, pool

    found = SiteMoments.load(_written(data, folder, "site.json"))
    if found.moments is None:
        return pool([found])
    return NIW.flat(len(found.columns)).update(found.total)


def _release(valid: Path, file: str, data: bytes, folder: Path) -> object:
    from allbutone.releases.folder import load_release
    from allbutone.releases.hygiene.check import check_release

    place = folder / "release"
    shutil.copytree(valid, place)
    (place / file).write_bytes(data)
    checked = check_release(place)
    return checked, load_release(place)


COMMAND_LINES = (
    "describe table.csv",
    "describe table.csv --out out.toml",
    "describe --help",
    "synthesize table.csv --out out --datasets 2 --rows 5",
    "synthesize mixed.csv --out out --missing impute",
    "synthesize table.csv --out out --prior prior.toml --force",
    "synthesize table.csv --out out --release parameters --datasets 2",
    "check datasets",
    "check datasets --table table.csv",
    "risk table.csv datasets --out risk.csv",
    "risk table.csv datasets --probability=0.5",
    "risk table.csv both --known bmi",
    "budget table.csv --rows 10",
    "ledger show table.csv",
    "ledger void table.csv 1 --reason x",
    "moments table.csv --site B --out b.json",
    "pool site.json --out all.json",
    "guarantee --people 100",
    "explain leverage",
    "study design.toml --out study --replicates 2",
    "audit table.csv datasets/dataset-001.csv",
    "--version",
)


def _command(valid: Path, data: bytes, folder: Path) -> object:
    """Run a command in a copy of the valid files: it ends with a code that is meant, and says why."""
    place = folder / "here"
    shutil.copytree(valid, place)
    arguments = data.decode("utf-8", "replace").split("\x00")
    if arguments[:1] == ["app"] or any(len(each) > 4000 for each in arguments):
        return None
    code, _, errors = run_command(arguments, place)
    assert code in (0, 1, 2, 130), code
    assert "Traceback" not in errors, errors[-2000:]
    assert code != 2 or errors.startswith(("Error:", "Note:", "Warning:")) or "Error:" in errors, errors[-500:]
    if code == 2:
        raise InputError(errors.strip()[:200])
    return code


ADDRESSES = tuple(
    "\x00".join(line.split()).encode()
    for line in (
        "/",
        "/explore n=50 p=2 count=5 rows=20 seed=1",
        "/explore/answer n=50 p=2 count=5 rows=20 seed=1 leverage=2",
        "/explore/curve n=20 p=2 count=3 rows=20",
        "/explore/measures.csv n=20 p=2",
        "/data",
        "/data/table prior=flat",
        "/data/answer rows=20 count=2 probability=0.5 kind=datasets",
        "/data/record row=1 count=2",
        "/data/model",
        "/data/records.csv rows=20",
        "/data/table.toml",
        "/release/table datasets=2 rows=20",
        "/release/release.zip",
        "/release/after drawn=1 probability=0.5",
        "/release/risk.csv",
        "/studies/table study=paper p=2",
        "/studies/figure study=paper figure=exposure",
        "/static/page.js",
        "/glossary",
    )
)


def _address(data: bytes, folder: Path) -> object:
    path, *query = data.decode("utf-8", "replace").split("\x00")
    return _answered(*ask("GET", path or "/", query))


def _upload(data: bytes, folder: Path) -> object:
    return _answered(*ask("POST", "/data/upload", ["name=table.csv"], data))


def _answered(status: int, body: bytes) -> Any:
    assert status < 500, (status, body[-500:])
    if status >= 400:
        raise InputError(f"answered with {status}")
    return status


def chosen(targets: Sequence[Target], names: Sequence[str]) -> list[Target]:
    """Return the targets whose names begin with one of these; all, if there is none."""
    return [each for each in targets if not names or each.name.startswith(tuple(names))]
