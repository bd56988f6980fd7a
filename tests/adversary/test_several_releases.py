"""Several releases of one table: the product of predictives, for any kinds, sizes and priors."""

import array_api_strict
import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from test_leave_one_out import assert_same

import allbutone as abo
import paper
from allbutone.disclosure.risk import risk_columns
from allbutone.releases.folder import release_of
from allbutone.releases.several import Releases, together, without_columns
from allbutone.releases.statistics import JoinedStatistics
from cases import positive_definite
from posteriors import attack_statistics, who
from posteriors import sampled as sampled_by_chains

COLUMNS = ("a", "b", "c", "d", "e", "f")
KINDS = [("parameters", "datasets"), ("parameters", "parameters"), ("datasets", "datasets", "both")]


def prior_of(rng, p, weight=0.7):
    return abo.NIW(rng.standard_normal(p), weight, p + 1.5, positive_definite(rng, p))


def drawn(rng, kind, records, prior, count=3, least=1):
    posterior, about = prior.update(records), {"columns": COLUMNS[: prior.p], "prior": prior}
    if kind == "parameters":
        return abo.Release.draw_parameters(posterior, count, rng, **about)
    rows = [int(rows) for rows in rng.integers(least, 40, count)]
    return abo.Release.draw(posterior, rows, rng, parameters=kind == "both", **about)


def case(rng, kinds, p=3, n=25, priors=1, least=1):
    """A table, its last record the target, and a release of each kind, the priors in turn."""
    records = rng.standard_normal((n, p)) @ positive_definite(rng, p)
    records[-1] *= 4
    every = [prior_of(rng, p, weight) for weight in (0.7, 3.0)[:priors]]
    drawing = enumerate(kinds)
    return records, [drawn(rng, kind, records, every[turn % priors], least=least) for turn, kind in drawing]


def fields(prior):
    return prior.mean, prior.mean_weight, prior.df, prior.scale


def log_evidence_by_chain(records, prior):
    """The log density of records as the product of each one's predictive given those before it."""
    total = 0.0
    for row, record in enumerate(records):
        total += paper.log_student_t(record, *paper.predictive(*paper.posterior(records[:row], *prior)))
    return total


def log_release(release, fitted):
    """Return log p(release | records), `fitted` being the model given the records; literally."""
    if release.parameters is not None:
        pairs = zip(release.normal.means, release.normal.covariances, strict=True)
        return sum(paper.log_niw(mean, covariance, *fitted) for mean, covariance in pairs)
    return sum(log_evidence_by_chain(data, fitted) for data in release.values)


def log_joint(candidate, others, releases, own):
    """log p_a(x | X₋) + Σ_r log p_r(release_r | X₋, x): Bayes' rule, with all constants."""
    total = paper.log_student_t(candidate, *paper.predictive(*paper.posterior(others, *fields(own))))
    with_candidate = np.vstack([others, candidate])
    return total + sum(
        log_release(release, paper.posterior(with_candidate, *fields(release.prior))) for release in releases
    )


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("priors", [1, 2])
@pytest.mark.parametrize("own", [False, True])
def test_the_posterior_is_the_product_of_predictives(kinds, priors, own, rng):
    """Against Bayes' rule by brute force: differences between candidates, near and far."""
    records, releases = case(rng, kinds, priors=priors)
    others, candidates = records[:-1], records[-1] * np.linspace(-1.2, 1.5, 9)[:, None] + records[:9]
    adversary = prior_of(rng, 3, 2.0) if own else None
    found = abo.posterior(others, releases, abo.Adversary(prior=adversary), prior=releases[0].prior)
    ours = found.log_density_unnormalized(candidates)
    theirs = [log_joint(each, others, releases, adversary or releases[0].prior) for each in candidates]
    np.testing.assert_allclose(ours - ours[0], np.array(theirs) - theirs[0], rtol=1e-10, atol=1e-9)


@pytest.mark.parametrize("priors", [1, 2])
def test_the_density_of_one_feature_has_its_constant(priors, rng):
    """With one column the evidence of all releases together is an integral that the trapezoid rule knows."""
    records, releases = case(rng, ("parameters", "datasets"), p=1, n=6, priors=priors)
    others, prior = records[:-1], releases[0].prior
    found = abo.posterior(others, releases, prior=prior)
    spread = float(np.abs(found.modes.hessian[0, 0])) ** -0.5
    step = np.linspace(-10, 10, 401)
    grid = found.unwhiten((found.modes.best[0] + spread * np.sinh(step))[:, None])
    logs = np.array([log_joint(each, others, releases, prior) for each in grid])
    width = spread * np.cosh(step) * (step[1] - step[0]) * np.exp(found.log_volume)
    total = np.log(np.sum(np.exp(logs - logs.max()) * width)) + logs.max()
    near = np.argsort(-logs)[:50]
    np.testing.assert_allclose(found.log_density(grid[near]), logs[near] - total, atol=1e-8)


@pytest.mark.parametrize("kind", ["parameters", "datasets", "both"])
def test_two_releases_of_one_kind_are_one_release(kind, rng):
    records, releases = case(rng, (kind, kind))
    one, two = releases
    if kind == "datasets":
        whole = abo.Release.of([*one.values, *two.values], one.columns, one.prior)
    else:
        stacked = [
            np.concatenate([getattr(each.normal, name) for each in releases]) for name in ("means", "covariances")
        ]
        whole = abo.Release.of_parameters(*stacked, one.columns, one.prior)
    ours, theirs = (abo.posterior(records[:-1], each, prior=one.prior) for each in (releases, whole))
    candidates = records * 2
    np.testing.assert_allclose(
        ours.log_density(candidates), theirs.log_density(candidates), rtol=1e-10, atol=1e-10
    )
    assert release_of(releases).count == 6
    assert bool(release_of(releases).rows) == (kind != "parameters")


@pytest.mark.parametrize("kinds", KINDS)
def test_order_does_not_matter(kinds, rng):
    records, releases = case(rng, kinds)
    table = abo.Records(records, COLUMNS[:3])
    ours, theirs = (
        abo.risk(table, each, mass=False, rng=np.random.default_rng(0)).to_pandas()
        for each in (releases, releases[::-1])
    )
    pd.testing.assert_frame_equal(ours, theirs, check_exact=False, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("priors", [1, 2])
@pytest.mark.parametrize("variant", ["plain", "known", "own prior"])
def test_everyone_at_once_is_everyone_in_turn(priors, variant, rng):
    records, releases = case(rng, ("parameters", "datasets", "datasets"), n=30, priors=priors)
    records[3] *= 12  # a high hat value takes the direct road
    options = {
        "plain": {},
        "known": {"known": ["b"]},
        "own prior": {"adversary_prior": prior_of(rng, 3, 2.0)},
    }[variant]
    prior = releases[0].prior
    many = abo.attack(records, releases, rows="all", prior=prior, **who(**options))
    for row in range(0, 30, 3):
        known = {"known": [np.nan, records[row, 1], np.nan]} if variant == "known" else options
        one = abo.attack(np.delete(records, row, axis=0), releases, prior=prior, **who(**known))
        assert_same(one, many, row)


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("priors", [1, 2])
def test_no_search_finds_a_higher_mode(kinds, priors, rng):
    for _ in range(5):
        records, releases = case(rng, kinds, p=2, n=int(rng.integers(6, 40)), priors=priors)
        found = abo.posterior(records[:-1], releases, prior=releases[0].prior)
        best = float(found.value(found.modes.best))
        starts = np.vstack([rng.standard_normal((8, 2)) * 3, found.whiten(records[-1:]), [[0.0, 0.0]]])
        for start in starts:
            climbed = minimize(
                lambda white, found=found: -float(found.value(white)),
                start,
                jac=lambda white, found=found: -found.local(white)[1],
                method="BFGS",
            )
            assert -climbed.fun <= best + 1e-6 * (1 + abs(best))


def test_gradient_and_hessian_with_another_prior(rng):
    records, releases = case(rng, ("datasets", "parameters", "datasets"), priors=2)
    found = abo.posterior(records[:-1], releases, prior=releases[0].prior)
    assert found.has_negative_wells
    white, step = rng.standard_normal(3) * 0.3, 1e-5
    _, gradient, hessian = found.local(white)
    sides = [(found.local(white + step * axis), found.local(white - step * axis)) for axis in np.eye(3)]
    np.testing.assert_allclose(
        [(up[0] - down[0]) / (2 * step) for up, down in sides], gradient, rtol=1e-5, atol=1e-4
    )
    np.testing.assert_allclose(
        [(up[1] - down[1]) / (2 * step) for up, down in sides], hessian, rtol=1e-5, atol=1e-3
    )


@pytest.mark.parametrize(("kinds", "priors"), [(KINDS[0], 1), (("datasets", "parameters"), 2)])
def test_who_has_several_releases_is_calibrated(kinds, priors, rng):
    """The target comes from the adversary's own predictive; regions of 50, 80 and 95 % hold as they say."""
    simulations, levels, hits = 150, np.array([0.5, 0.8, 0.95]), []
    every = [prior_of(rng, 2, weight) for weight in (0.7, 3.0)[:priors]]
    for _ in range(simulations):
        others = every[0].mean + rng.standard_normal((8, 2))
        record = every[0].update(others).predictive().draw(rng, 1)
        records = np.vstack([others, record])
        releases = [drawn(rng, kind, records, every[turn % priors], 2) for turn, kind in enumerate(kinds)]
        found = abo.posterior(others, releases, prior=every[0])
        sample = found.importance_sample(rng, 1 << 10)
        higher = sample.log_values > found.log_density_unnormalized(record[0])
        hits.append(np.sum(sample.weights[higher]) <= levels)
    error = np.sqrt(levels * (1 - levels) / simulations)
    share = np.mean(hits, axis=0)
    assert np.all(np.abs(share - levels) < 3.5 * error), share


def test_a_second_release_gives_away_more_on_average(rng):
    """Of a record that the model draws: E log p(x | X₋, Z₁, Z₂)/p(x | X₋, Z₁) is information, and exceeds 0."""
    prior, more = prior_of(rng, 2), []
    others = rng.standard_normal((8, 2)) @ positive_definite(rng, 2)
    for _ in range(60):
        ((mean,), (covariance,)) = prior.update(others).draw(rng, 1)
        records = np.vstack([others, rng.multivariate_normal(mean, covariance)])
        first, second = (drawn(rng, kind, records, prior, least=2) for kind in ("datasets", "parameters"))
        table, last = abo.Records(records, COLUMNS[:2]), {"rows": np.array([8]), "mass": False}
        alone, both = (
            risk_columns(table, release_of(each), **last)["information_gain"][0]
            for each in (first, [first, second])
        )
        more.append(both - alone)
    assert np.mean(more) > np.std(more) / np.sqrt(len(more))


def test_all_that_risk_takes_works_with_several(rng):
    records, releases = case(rng, ("parameters", "datasets"), n=8)
    table = abo.Records(records, COLUMNS[:3])
    found = risk_columns(table, release_of(releases), rng=np.random.default_rng(1))
    assert np.all((found["mass"] >= 0) & (found["mass"] <= 1))
    for options in ({"lacking_columns": ["b"]}, {"lacking_records": 2}, {"known": ["c"]}):
        assert np.all(
            np.isfinite(
                risk_columns(table, release_of(releases), abo.Adversary(**options), mass=False)["distance"]
            )
        )
    part = without_columns(release_of(releases), "b")
    assert part.parameters is not None
    assert part.datasets
    assert part.columns == ("a", "c")


def test_one_missing_record_by_sampling_is_the_exact_posterior(rng):
    records, releases = case(rng, ("parameters", "datasets"), p=2)
    sampled = sampled_by_chains(records[:-1], releases, releases[0].prior, 1, rng, sweeps=100)
    exactly = abo.posterior(records[:-1], releases, prior=releases[0].prior)
    off = sampled.log_density(records) - exactly.log_density(records)
    assert np.all(np.abs(off) < 0.02)


def test_statistics_attack_as_the_releases_do(rng):
    records, releases = case(rng, ("parameters", "datasets"))
    joined = release_of(releases)
    statistics = joined.normal.statistics()
    assert isinstance(statistics, JoinedStatistics)
    ours = attack_statistics(joined.prior.update(records[:-1]), statistics)
    theirs = abo.attack(records[:-1], releases, prior=joined.prior)
    np.testing.assert_allclose(ours.mode, theirs.mode, rtol=1e-7)


@pytest.mark.parametrize("priors", [1, 2])
def test_several_run_on_the_array_standard(priors, rng):
    records, releases = case(rng, ("parameters", "datasets", "parameters"), priors=priors)
    modes = []
    for xp in (np, array_api_strict):
        given = []
        for each in releases:
            mean, mean_weight, df, scale = fields(each.prior)
            about = {"prior": abo.NIW(xp.asarray(mean), mean_weight, df, xp.asarray(scale))}
            if each.parameters is not None:
                drawn_there = (xp.asarray(part) for part in (each.normal.means, each.normal.covariances))
                given.append(abo.Release.of_parameters(*drawn_there, **about))
            else:
                given.append(abo.Release.of([xp.asarray(data) for data in each.values], **about))
        modes.append(np.asarray(abo.attack(xp.asarray(records), given, rows="all", prior=given[0].prior).mode))
    np.testing.assert_allclose(*modes, rtol=1e-8, atol=1e-10)


def test_what_cannot_be_taken_together_is_refused(rng):
    records, (one, two) = case(rng, ("parameters", "datasets"))
    prior = one.prior
    _, (other,) = case(rng, ("datasets",), p=2)
    renamed = abo.Release.of(two.values, ("a", "b", "x"), prior)
    rounded = abo.Release.of(two.values, two.columns, prior, {"columns": {"a": {"low": -1000.0}}})
    silent = abo.Release.of(two.values, two.columns)
    both = drawn(rng, "both", records, prior)
    its_datasets = abo.Release.of(both.values, both.columns, prior)
    for given, words in [
        ([], "no release"),
        ([one, other], "columns a, b, the first of a, b, c"),
        ([one, renamed], "columns a, b, x"),
        ([one, rounded], "scales, limits or decimals"),
        ([one, silent], "some do not"),
        ([two, one, two], "releases 1 and 3 of those given together hold the same datasets"),
        ([one, one], "same draws"),
        ([both, its_datasets], "same datasets"),
    ]:
        with pytest.raises(abo.InputError, match=words):
            abo.attack(records[:-1], given, prior=prior)
    with pytest.raises(abo.InputError, match="in the list is 3"):
        together([one, 3])
    with pytest.raises(abo.InputError, match="a report is of one release"):
        abo.report(records, [one, two])


def test_different_priors_are_refused_where_they_cannot_be_told_apart(rng):
    records, releases = case(rng, ("datasets", "datasets"), priors=2)
    joined = release_of(releases)
    assert isinstance(joined, Releases)
    with pytest.raises(abo.InputError, match="of one prior"):
        abo.posterior(records[:-2], releases, abo.Adversary(lacking_records=1), prior=joined.prior, rng=1)
    with pytest.raises(abo.InputError, match="different priors"):
        abo.fidelity(records, releases)
    with pytest.raises(abo.InputError, match="believed"):
        abo.attack(
            records[:-1], releases, abo.Adversary(prior=joined.prior), prior=joined.prior, reading="mechanism"
        )
    with pytest.raises(abo.InputError, match="another prior"):
        abo.attack(records[:-1], releases, prior=releases[1].prior)


def test_fidelity_of_several_is_that_of_their_datasets(rng):
    records, releases = case(rng, ("parameters", "datasets"), n=40, least=2)
    table = abo.Records(records, COLUMNS[:3])
    np.testing.assert_array_equal(abo.fidelity(table, releases).ks, abo.fidelity(table, releases[1]).ks)


def test_the_command_line_attacks_several_together(allbutone, table):
    for name, kind in (("one", "datasets"), ("two", "parameters"), ("three", "datasets")):
        code, _, _ = allbutone("synthesize", table, "--out", name, "--datasets", 2, "--release", kind)
        assert code == 0
    code, out, _ = allbutone("risk", table, "one", "two", "three", "--no-mass")
    assert code == 0
    words = " ".join(out.split())
    assert "all 3 releases" in words
    assert "several releases of this table give away together" not in words
    code, _, error = allbutone("risk", table, "one", "one", "--no-mass", "--force")
    assert code == 2
    assert "hold the same datasets" in " ".join(error.split())
