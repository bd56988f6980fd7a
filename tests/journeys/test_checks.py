"""What checks the project itself: bounds are read, licences are told apart, mutants differ."""

import ast
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from checks.licences import COPYLEFT, PERMISSIVE
from checks.lowest import lowest
from checks.mutants import mutant, places

ROOT = Path(__file__).parents[2]


def test_every_dependency_has_a_lower_bound():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    everything = [*project["dependencies"], *(each for extra in extras for each in extra)]
    assert len(lowest(everything)) == len(everything)
    assert lowest(["dask[dataframe]>=2025.1"]) == ["dask==2025.1"]
    with pytest.raises(SystemExit, match="no lower bound"):
        lowest(["numpy"])


def test_the_package_holds_no_file_twice():
    files = [each for each in (ROOT / "src").rglob("*") if each.is_file() and "__pycache__" not in each.parts]
    held = Counter(each.read_bytes() for each in files if each.stat().st_size)
    assert [each for each in files if held[each.read_bytes()] > 1] == []


@pytest.mark.parametrize("told", ["GPL-3.0-only", "LGPLv2+", "GNU Affero General Public License", "GPL"])
def test_a_licence_that_asks_something_of_users_is_found(told):
    assert COPYLEFT.search(told)


@pytest.mark.parametrize("told", ["MIT", "BSD-3-Clause AND Zlib", "Apache-2.0", "ISC License (ISCL)", "PSF-2.0"])
def test_a_licence_that_asks_nothing_passes(told):
    assert PERMISSIVE.search(told)
    assert not COPYLEFT.search(told)


def test_the_citation_has_the_version_of_the_package():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n## {version}" in (ROOT / "CHANGELOG.md").read_text()


SOURCE = """
def far(x: int = 2, *, most=None) -> "x + 1":
    if x < 1 and not most:
        raise ValueError("x - 1")
    x = min(x, 3)
    check(x, most=most)
    return where(x @ y.T, -x, 0.5)
"""


def test_mutants_change_one_place_each_and_neither_annotations_nor_errors():
    found = [mutant(SOURCE, *place) for place in places(SOURCE)]
    assert {each.place for each in found} == {"far"}
    usual = ast.unparse(ast.parse(SOURCE)).splitlines()
    changed = [line.strip() for each in found for line in each.code.splitlines() if line not in usual]
    assert changed == [
        "def far(x: int=3, *, most=None) -> 'x + 1':",
        "if not (x < 1 and (not most)):",
        "if x < 1 or not most:",
        "if x <= 1 and (not most):",
        "if x > 1 and (not most):",
        "if x < 2 and (not most):",
        "if x < 1 and most:",
        "pass",
        "x = max(x, 3)",
        "x = min(x, 4)",
        "pass",
        "check(x)",
        "return where(x @ y.T, 0.5, -x)",
        "return where(x * y.T, -x, 0.5)",
        "return where(x @ y, -x, 0.5)",
        "return where(x @ y.T, x, 0.5)",
        "return where(x @ y.T, -x, 1.5)",
    ]
    assert found[8].words == "x = min(x, 3) → x = max(x, 3)"


def test_every_place_has_a_mutant_of_its_own():
    source = (ROOT / "src" / "allbutone" / "disclosure" / "exposure_law.py").read_text()
    chosen = places(source)[::20]
    found = [mutant(source, *place) for place in chosen]
    assert len({each.code for each in found}) == len({(each.place, each.words) for each in found}) == len(chosen)
