"""What is fuzzed: each target takes the bytes of one input and ends in a result or in words."""

import shutil
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from fuzz.app import App, addresses
from fuzz.commands import command_lines, run_line
from fuzz.seeds import MIXED, TABLE


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
    ("Parquet dataset", "bytes", "parquet", "dataset-001.parquet"),
    ("mixed", "json", "mixed", "release.json"),
)


def all_targets(valid: Path) -> list[Target]:
    """Return all targets; `valid` is the folder of valid files."""

    def seeds(*names: str) -> tuple[bytes, ...]:
        return tuple((valid / name).read_bytes() for name in names)

    def in_release(name: str, file: str) -> Callable[[bytes, Path], object]:
        return lambda data, folder: _release(valid / name, file, data, folder)

    app = App(valid)
    return [
        Target("table (CSV)", "csv", seeds(TABLE, MIXED), _table("csv"), 4),
        Target("table (Parquet)", "bytes", seeds("table.parquet", "odd.parquet"), _table("parquet"), 4),
        Target("table file", "toml", seeds("table.toml", "mixed.toml", "limits.toml"), _table_file, 4),
        Target("prior file", "toml", seeds("prior.toml"), _prior, 4),
        Target("design file", "toml", seeds("design.toml"), _design, 4),
        Target("study journal", "lines", seeds("study/journal.jsonl"), partial(_journal, valid), 2),
        Target("ledger", "toml", seeds(f"{TABLE}.ledger.toml", f"{MIXED}.ledger.toml"), _ledger, 4),
        Target("moments", "json", seeds("site.json"), _moments, 4),
        *(
            Target(f"release: {what}", kind, seeds(f"{name}/{file}"), in_release(name, file), 3)
            for what, kind, name, file in RELEASE_FILES
        ),
        Target("release: archive", "bytes", seeds("archive.zip", "odd.zip"), _archive, 3),
        Target("check beside table", "csv", seeds("mixed/dataset-001.csv"), partial(_check_beside, valid), 3),
        Target("audit", "csv", seeds("datasets/dataset-001.csv"), partial(_audit, valid), 3),
        Target("command line", "words", command_lines(), partial(run_line, valid), 6),
        Target("app address", "words", addresses(), app.address, 6),
        Target("app upload", "csv", seeds(TABLE, MIXED), app.upload, 4),
    ]


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
    from allbutone.tables.schema import Schema

    schema = Schema.of(_written(data, folder, "table.toml"))
    return schema.entries()


def _prior(data: bytes, folder: Path) -> object:
    from allbutone.model.prior import read_prior

    prior = read_prior(_written(data, folder, "prior.toml"), ("bmi", "ldl", "age"))
    return prior if prior.is_flat else prior.root


def _design(data: bytes, folder: Path) -> object:
    from allbutone.paper.design_file import read_design

    design = read_design(_written(data, folder, "design.toml"))
    return [cell.key for cell in design.cells]


def _ledger(data: bytes, folder: Path) -> object:
    from allbutone.releases.ledger import Ledger

    path = _written(data, folder, "table.csv.ledger.toml")
    ledger = Ledger.at(path)
    if ledger.counted:
        return ledger.void(ledger.counted[0].number, "to see")
    return ledger


def _moments(data: bytes, folder: Path) -> object:
    from allbutone.model.niw import NIW
    from allbutone.model.sites import SiteMoments, pool

    found = SiteMoments.load(_written(data, folder, "site.json"))
    if found.moments is None:
        return pool([found])
    return NIW.flat(len(found.columns)).update(found.total)


def _release(valid: Path, file: str, data: bytes, folder: Path) -> object:
    from allbutone.releases.check import check
    from allbutone.releases.folder import load_release

    place = folder / "release"
    shutil.copytree(valid, place)
    (place / file).write_bytes(data)
    checked = check(place)
    return checked, load_release(place)


def _archive(data: bytes, folder: Path) -> object:
    from allbutone.releases.check import check

    return check(_written(data, folder, "release.zip"))


def _check_beside(valid: Path, data: bytes, folder: Path) -> object:
    from allbutone.releases.check import check

    return check(_written(data, folder, "dataset-001.csv"), valid / MIXED)


def _audit(valid: Path, data: bytes, folder: Path) -> object:
    from allbutone.reports.audit import audit

    found = audit(valid / TABLE, _written(data, folder, "rows.csv"), rng=np.random.default_rng(0))
    return found.to_arrow().to_pydict()


def _journal(valid: Path, data: bytes, folder: Path) -> object:
    from allbutone.paper.run import load_study

    place = folder / "study"
    shutil.copytree(valid / "study", place)
    (place / "journal.jsonl").write_bytes(data)
    return load_study(place)


def chosen(targets: Sequence[Target], names: Sequence[str]) -> list[Target]:
    """Return the targets whose names begin with one of these; all, if there is none."""
    return [each for each in targets if not names or each.name.startswith(tuple(names))]
