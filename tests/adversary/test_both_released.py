"""Datasets released with the parameters they were drawn from: to an adversary they are the parameters."""

import numpy as np
import pytest
from pandas.testing import assert_frame_equal

import allbutone as abo
import paper
from allbutone.disclosure.record_view import of_record
from allbutone.model.niw import Normal

COLUMNS = ("a", "b", "c")


@pytest.fixture
def records():
    return abo.Records(
        np.random.default_rng(2).standard_normal((40, 3)) @ [[1, 0.5, 0], [0, 1, 0], [0, 0, 2]], COLUMNS
    )


@pytest.fixture
def both(records):
    synthesizer = abo.Synthesizer(abo.NIW.default(3)).fit(records)
    return synthesizer.sample(
        datasets=4, rows=[60, 7, 60, 60], parameters=True, rng_for_tests=np.random.default_rng(5)
    )


def alone(both):
    return abo.Release.of_parameters(both.normal.means, both.normal.covariances, both.columns, both.prior)


def test_the_joint_density_of_datasets_given_their_parameters_is_free_of_the_record(records, both):
    """log p(θ, Z | X₋, x) − log p(θ | X₋, x) is the same for every candidate x, by the paper's own formulas."""
    prior = (both.prior.mean, both.prior.mean_weight, both.prior.df, both.prior.scale)
    found = []
    for candidate in records.values[:5] * 3:
        fitted = paper.posterior(np.vstack([records.values[1:], candidate]), *prior)
        joint = 0.0
        for mean, covariance, data in zip(both.normal.means, both.normal.covariances, both.values, strict=True):
            normal = Normal(mean, covariance).log_density(data).sum()
            joint += paper.log_niw(mean, covariance, *fitted) + normal
        scored = abo.posterior(records.values[1:], both, prior=both.prior).log_density_unnormalized(candidate)
        prior_part = paper.log_student_t(
            candidate, *paper.predictive(*paper.posterior(records.values[1:], *prior))
        )
        found.append(joint + prior_part - scored)
    np.testing.assert_allclose(found, found[0], rtol=1e-10)


def test_every_attack_is_that_on_the_parameters(records, both):
    theta = alone(both)
    ours, theirs = (abo.risk(records, each, rng=np.random.default_rng(1)).to_pandas() for each in (both, theta))
    assert_frame_equal(ours, theirs)
    one, two = (of_record(records, 3, each) for each in (both, theta))
    assert one.law == two.law
    assert one.posterior(2).log_total == two.posterior(2).log_total
    modes = [abo.attack(records.values[1:], each, prior=both.prior).mode for each in (both, theta)]
    np.testing.assert_array_equal(*modes)


def test_fidelity_and_estimates_use_the_datasets(records, both):
    data = abo.Release.of(both.values, COLUMNS, both.prior)
    assert abo.fidelity(records, both).ks_table().keys() == abo.fidelity(records, data).ks_table().keys()
    np.testing.assert_array_equal(abo.fidelity(records, both).ks, abo.fidelity(records, data).ks)
    ours, theirs = (abo.combine(each, people=40) for each in (both, data))
    np.testing.assert_array_equal(ours.estimate, theirs.estimate)
    with pytest.raises(abo.InputError, match="no datasets"):
        abo.fidelity(records, alone(both))


@pytest.mark.parametrize("rows", [[5] * 7, [1, 50_000, 3]])
def test_datasets_are_drawn_from_the_parameters_beside_them(records, rows):
    """The same generator draws the same datasets without their parameters; large ones have those parameters."""
    posterior = abo.NIW.default(3).update(records.values)
    both = abo.Release.draw(posterior, rows, np.random.default_rng(3), parameters=True)
    plain = abo.Release.draw(posterior, rows, np.random.default_rng(3))
    for one, two in zip(both.values, plain.values, strict=True):
        np.testing.assert_array_equal(one, two)
    place = int(np.argmax(rows))
    off = (both.values[place].mean(axis=0) - both.normal.means[place]) / np.sqrt(
        np.diagonal(both.normal.covariances[place])
    )
    assert np.all(np.abs(off) < 6 / np.sqrt(rows[place]))
    assert both.rows == tuple(rows)


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_both_survive_their_folder(both, tmp_path, format):
    abo.save_release(both, tmp_path / "r", format=format)
    again = abo.load_release(tmp_path / "r")
    assert (again.count, again.noun, again.columns, again.rows) == (4, "parameter draw", COLUMNS, both.rows)
    np.testing.assert_array_equal(again.normal.means, both.normal.means)
    np.testing.assert_array_equal(again.normal.covariances, both.normal.covariances)
    for ours, theirs in zip(both.values, again.values, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    abo.save_release(again, tmp_path / "r", force=True)  # it knows the folder as its own
    assert again.first(2).rows == (60, 7)


def test_each_draw_has_its_own_dataset(both):
    with pytest.raises(abo.InputError, match="4 parameter draws came with 3 datasets"):
        abo.Release.of_parameters(both.normal.means, both.normal.covariances, datasets=both.values[:3])


def test_the_command_line_makes_both_and_judges_them(allbutone, table):
    code, out, _ = allbutone("synthesize", table, "--out", "r", "--datasets", 3, "--rows", 20, "--release", "both")
    assert code == 0
    assert "no more of the records than the parameters alone" in " ".join(out.split())
    code, out, _ = allbutone("risk", table, "r", "--no-mass")
    assert code == 0
    assert "--release both" in " ".join(out.split())
    code, out, _ = allbutone("report", table, "r", "--out", "report.html")
    assert code == 0
