"""Inputs that atheris grows by what they reach: `python -m fuzz.guided "prior file" 20000 60`.

Each change is one of ours (`mutate.spoil`) or one of libFuzzer's. What is neither a result nor a clean error,
takes longer than 10 s or more than 1 GB ends the run; libFuzzer then writes the input where it was started.
"""

import random
import sys
import tempfile
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import atheris

SECONDS, MEGABYTES = 10, 1400  # the latter with Python and all libraries

with atheris.instrument_imports(include=["allbutone"]):
    from allbutone.support.errors import InputError
    from fuzz.mutate import spoil
    from fuzz.seeds import write_seeds
    from fuzz.targets import Target, all_targets, chosen
    from fuzz.watch import confined, fresh_place

    for room in (
        "tables.records", "tables.formats", "tables.schema",
        "model.prior", "model.sites", "paper.design_file", "releases.ledger", "releases.folder",
        "releases.check", "releases.release",
        "paper.run", "paper.journal",
    ):  # fmt: skip
        import_module(f"allbutone.{room}")


def run(target: Target, runs: int, seconds: int, corpus: Path) -> None:
    """Hand the process over to libFuzzer, which ends it."""
    for number, seed in enumerate(target.seeds):
        (corpus / f"seed-{number}").write_bytes(seed)

    def one(data: bytes) -> None:
        with fresh_place() as folder, suppress(InputError), confined(Path(folder)) as work:
            target.run(data, work)

    def change(data: bytes, most: int, seed: int) -> bytes:
        rng = random.Random(seed)
        changed = spoil(data, target.kind, rng) if rng.random() < 0.5 else atheris.Mutate(data, most)
        return changed[:most]

    limits = [f"-runs={runs}", f"-max_total_time={seconds}", f"-timeout={SECONDS}", f"-rss_limit_mb={MEGABYTES}"]
    arguments = [sys.argv[0], *limits, "-max_len=20000", "-print_final_stats=1", str(corpus)]
    atheris.Setup(arguments, one, custom_mutator=change)
    atheris.Fuzz()


if __name__ == "__main__":
    name, runs, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    place = Path(tempfile.mkdtemp(prefix="fuzz-guided-"))
    (place / "seeds").mkdir()
    (place / "corpus").mkdir()
    write_seeds(place / "seeds")
    (found,) = chosen(all_targets(place / "seeds"), [name])
    run(found, runs, seconds, place / "corpus")
