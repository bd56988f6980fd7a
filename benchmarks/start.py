"""Starting, and a single call: what is left where there is next to nothing to compute."""

from collections.abc import Iterator

import numpy as np

import allbutone as abo
from allbutone.support.parallel import one_thread
from benchmarks.clock import Row, in_own_process, seconds

FLOOR = "import numpy, scipy.special, narwhals"
HELP = """
import sys
from allbutone.cli.main import main
sys.argv, sys.stdout = ["allbutone", "--help"], open("/dev/null", "w")
main()
"""


def rows() -> Iterator[Row]:
    python, libraries = fastest("pass"), fastest(FLOOR)
    yield Row("import allbutone", fastest("import allbutone"), "Python alone", python, most=0.4)
    yield Row("allbutone --help", fastest(HELP), "Python alone", python, most=0.3)
    yield Row("first use of attack", fastest("import allbutone; allbutone.attack"), FLOOR, libraries)
    yield Row("first use of risk", fastest("import allbutone; allbutone.risk"), FLOOR, libraries)
    yield from single_calls()


def fastest(code: str) -> float:
    return min(in_own_process(code)[0] for _ in range(5))


def single_calls() -> Iterator[Row]:
    """One attack against its share of an attack on everyone, which is nearly all arithmetic."""
    rng = np.random.default_rng(1)
    records, prior = rng.standard_normal((503, 5)), abo.NIW.default(5)
    whole = prior.update(records)
    releases = {
        "10 parameter draws": abo.Release.draw_parameters(whole, 10, rng),
        "5 datasets": abo.Release.draw(whole, [503] * 5, rng),
    }
    with one_thread():
        for words, release in releases.items():
            share = seconds(lambda release=release: abo.attack(records, release, rows="all", prior=prior)) / len(
                records
            )
            for name in ("attack", "posterior"):
                call = getattr(abo, name)
                one = seconds(lambda call=call, release=release: call(records[1:], release, prior), 100)
                most = share + 0.5e-3 if name == "attack" else None
                peer = "a record's share of everybody's"
                yield Row(f"{name}() on one of 503 × 5, {words}", one, peer, share, most=most)
