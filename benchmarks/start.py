"""Starting, and a single call: what is left where there is next to nothing to compute."""

import numpy as np

import allbutone as abo
from allbutone.support.parallel import one_thread
from benchmarks.clock import compare, in_own_process, seconds

FLOOR = "import numpy, scipy.special, narwhals"
HELP = """
import sys
from allbutone.cli.main import main
sys.argv, sys.stdout = ["allbutone", "--help"], open("/dev/null", "w")
main()
"""


def run() -> None:
    starting()
    single_calls()


def starting() -> None:
    python, libraries = fastest("pass"), fastest(FLOOR)
    compare("import allbutone", fastest("import allbutone"), python, "Python alone", "bar: 400 ms")
    compare("allbutone --help", fastest(HELP), python, "Python alone", "bar: 300 ms")
    compare("first use of attack", fastest("import allbutone; allbutone.attack"), libraries, FLOOR)
    compare("first use of risk", fastest("import allbutone; allbutone.risk"), libraries, FLOOR)


def fastest(code: str) -> float:
    return min(in_own_process(code)[0] for _ in range(5))


def single_calls() -> None:
    """One attack against its share of an attack on everyone, which is nearly all arithmetic."""
    rng = np.random.default_rng(1)
    records, prior = rng.standard_normal((503, 5)), abo.NIW.default(5)
    whole = prior.update(records)
    releases = {
        "10 parameter draws": abo.ParameterRelease.draw(whole, 10, rng),
        "5 datasets": abo.DatasetRelease.draw(whole, [503] * 5, rng),
    }
    with one_thread():
        for words, release in releases.items():
            share = seconds(lambda release=release: abo.attack_all(records, release, prior)) / len(records)
            for name in ("attack", "posterior"):
                call = getattr(abo, name)
                one = seconds(lambda call=call, release=release: call(records[1:], release, prior), 100)
                compare(f"{name}() on one of 503 × 5, {words}", one, share, "a record's share of attack_all")
