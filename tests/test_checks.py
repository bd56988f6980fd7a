"""What checks the project itself: mutants differ in one place, bounds are read, licences are told apart."""

import ast
import tomllib
from pathlib import Path

import pytest
from checks.licences import COPYLEFT, PERMISSIVE
from checks.lowest import lowest
from checks.mutation import TARGETS, mutants

ROOT = Path(__file__).parents[1]
SOURCE = '''
def area(x: int = 2, *, whole: bool = True) -> float:
    """Return 3 * x."""
    if not x < 1 and whole:
        raise ValueError(f"{x} is {1 + 1} too few")
    return -x ** 2 if x == 5 else x @ x
'''


def test_each_mutant_differs_in_one_place_and_words_are_let_alone():
    found = [words for _, words, _ in mutants(SOURCE)]
    texts = {ast.unparse(tree) for *_, tree in mutants(SOURCE)}
    assert len(texts) == len(found)  # no two the same
    assert ast.unparse(ast.parse(SOURCE)) not in texts
    assert "x < 1  ->  x <= 1" in found
    assert "x ** 2  ->  x * 2" in found
    assert "-x ** 2  ->  +x ** 2" in found
    assert "True  ->  False" in found
    assert all("too few" in text and "Return 3 * x" in text and "{1 + 1}" in text for text in texts)
    for *_, tree in mutants(SOURCE):
        compile(tree, "mutant", "exec")


def test_what_is_mutated_is_there():
    for name, files in TARGETS.items():
        assert (ROOT / "src" / f"{name.replace('.', '/')}.py").is_file()
        assert all((ROOT / "tests" / file).is_file() for file in files)


def test_every_dependency_has_a_lower_bound():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    everything = [*project["dependencies"], *(each for extra in extras for each in extra)]
    assert len(lowest(everything)) == len(everything)
    assert lowest(["dask[dataframe]>=2025.1"]) == ["dask==2025.1"]
    with pytest.raises(SystemExit, match="no lower bound"):
        lowest(["numpy"])


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
