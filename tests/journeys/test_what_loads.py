"""What loads when: nothing before it is needed, and for the core nothing that only the app, figures or CLI use."""

import json
import subprocess
import sys

import numpy as np
import pytest
import typer

import allbutone as abo
from allbutone.cli.main import command_line

CORE = {"numpy", "scipy", "narwhals", "array_api_compat", "jaxtyping", "threadpoolctl"}
BEYOND = ("anyio", "click", "jinja2", "plotly", "pyarrow", "rich", "starlette", "typer", "uvicorn", "websockets")


def loaded_by(program):
    """Run a program in a fresh interpreter; return the modules that it has loaded."""
    told = f"{program}\nimport json, sys; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True, timeout=600)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_importing_the_package_loads_nothing_of_it():
    loaded = loaded_by("import allbutone")
    assert {name for name in loaded if name.startswith("allbutone")} == {"allbutone"}
    assert not loaded & {*CORE, *BEYOND, "importlib.metadata"}


@pytest.mark.parametrize("name", ["attack", "posterior", "risk", "budget", "Synthesizer", "fidelity", "guarantee"])
def test_a_part_of_the_core_loads_no_more_than_the_core(name):
    loaded = loaded_by(f"import allbutone; allbutone.{name}")
    assert "numpy" in loaded
    assert not loaded & {*BEYOND, "scipy.stats", "scipy.optimize", "scipy.interpolate"}


def test_the_list_of_commands_loads_none_of_them():
    run = "import sys; from allbutone.cli.main import main; sys.argv = ['allbutone', '--help']\n"
    loaded = loaded_by(run + "try: main()\nexcept SystemExit: pass")
    assert {name for name in loaded if name.startswith("allbutone.cli.")} == {"allbutone.cli.main"}
    assert not loaded & {*CORE, "plotly", "pyarrow", "starlette", "jinja2"}


def test_a_command_has_the_same_help_in_the_list_as_by_itself():
    ready, listed = (typer.main.get_command(command_line(listed=listed)).commands for listed in (False, True))
    assert {name: each.help for name, each in ready.items()} == {name: each.help for name, each in listed.items()}
    assert all(each.params for each in ready.values())


# without what is blocked, in the order of a user's day: a release, its risk, one attack, what it is good for
SLIM = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {missing!r}:
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Missing())
import numpy as np
import pandas
import allbutone as abo
values = np.random.default_rng(1).standard_normal((30, 2))
for table in (values, pandas.DataFrame({{"bmi": values[:, 0], "ldl": values[:, 1]}})):
    release = abo.Synthesizer().fit(table).sample(datasets=3)
    assert len(abo.risk(table, release)) == 30
    assert abo.attack(values[1:], release, prior=release.prior).mode.shape == (2,)
    assert np.isfinite(abo.posterior(values[1:], release, prior=release.prior).log_density(values[:1])).all()
    assert len(abo.budget(table, release.prior, rows=30).to_frame()) == 30
    assert len(abo.fidelity(table, release).columns) == 2
"""


def test_the_core_works_without_the_rest():
    loaded_by(SLIM.format(missing=(*BEYOND, "polars")))


def test_a_matrix_without_any_dataframe_library_says_what_to_install(monkeypatch):
    monkeypatch.setattr("allbutone.tables.names.LIBRARIES", ("a_library_that_is_missing",))
    with pytest.raises(abo.InputError, match="install one"):
        abo.Records.of(np.eye(3))
