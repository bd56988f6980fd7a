"""What mixed releases refuse: levels that files do not tell apart, vanishing weights, parameters that are none."""

import json

import numpy as np
import pandas as pd
import pytest

import allbutone as abo


@pytest.fixture
def table(rng):
    return pd.DataFrame({"sex": rng.choice(["f", "m"], 40), "ldl": rng.normal(3.4, 0.9, 40)})


def fitted(table, **how):
    return abo.Synthesizer(**how).fit(table)


@pytest.mark.parametrize("levels", [("1", "1.0"), ("100", "1e2"), ("TRUE", "true"), ("01", "1")])
def test_levels_that_a_file_does_not_tell_apart_are_refused(table, levels):
    table["site"] = np.where(np.arange(len(table)) % 2, *levels)
    with pytest.raises(abo.InputError, match="the same value"):
        fitted(table)


def test_a_weight_that_vanishes_beside_a_record_is_refused(table):
    """1e-18 + 1 − 1 is 0: the adversary would hold a record's own cell for impossible."""
    with pytest.raises(abo.InputError, match="cell_weight"):
        fitted(table, cell_weight=1e-18)
    table.loc[0, "sex"] = "x"
    found = abo.risk(table, fitted(table, cell_weight=1e-6).sample(datasets=2), mass=False)
    assert found["probability_sex"].between(0, 1).all()


@pytest.mark.parametrize("what", ["shares", "covariances"])
def test_parameters_that_are_none_are_refused(table, tmp_path, what):
    abo.save_release(fitted(table).sample_parameters(2), tmp_path / "release")
    path = tmp_path / "release" / "parameters.json"
    content = json.loads(path.read_text())
    content[what] = (-np.array(content[what])).tolist()
    path.write_text(json.dumps(content))
    with pytest.raises(abo.InputError, match=r"probabilities|positive definite"):
        abo.load_release(tmp_path / "release")
