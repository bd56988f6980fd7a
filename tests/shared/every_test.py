"""What every test needs: shapes are checked, random numbers can be drawn again, long tests wait until asked for.

Shapes are checked by beartype wherever the tests go: the hook must come before the package is imported.
"""

import os
import secrets
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

import shapecheck

shapecheck.install()

settings.register_profile(
    "default",
    derandomize=os.environ.get("CI") == "true",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_collection_modifyitems(items):
    """Leave out what takes long, unless it is asked for."""
    if os.environ.get("ALLBUTONE_TEST_LONG"):
        return
    listed = (Path(__file__).parents[1] / "long_tests.txt").read_text().splitlines()
    long = tuple(line for line in listed if not line.startswith("#"))
    for item in items:
        if item.nodeid.startswith(long):
            item.add_marker(pytest.mark.skip(reason="takes long: make test-long runs it"))


@pytest.hookimpl
def pytest_runtest_setup():
    shapecheck.next_test()


@pytest.fixture
def rng(request):
    """Random numbers that differ from test to test, and from run to run; a failure says how to draw them again.

    CI draws the same ones each time: whether a change lands depends on the change alone.
    """
    name = request.node.nodeid
    always = "1" if os.environ.get("CI") == "true" else "0"
    seed = int(os.environ.get("ALLBUTONE_TEST_SEED", always)) or secrets.randbits(32)
    print(f"random numbers of {name}: ALLBUTONE_TEST_SEED={seed} draws them again")
    return np.random.default_rng([seed, zlib.crc32(name.encode())])
