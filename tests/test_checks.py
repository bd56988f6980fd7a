"""What checks the project itself: bounds are read, licences are told apart."""

import tomllib
from pathlib import Path

import pytest
from checks.licences import COPYLEFT, PERMISSIVE
from checks.lowest import lowest

ROOT = Path(__file__).parents[1]


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
