"""Where the randomness of a release comes from: what can be repeated must not be found by trying."""

import numpy as np
import pytest

import allbutone as abo
from allbutone.releases.sampling import _made_up, fresh_generator, keyed_generator, stream_datasets

PEOPLE, ROWS, SEEDS, TARGET = 20, 12, 10_000, 4
PRIOR = abo.NIW.default(2)
KEY = "6f1d0c9ab37e42588d91e0f4c5a6b273"


@pytest.fixture(scope="module")
def table():
    return np.random.default_rng(8).standard_normal((PEOPLE, 2)) @ np.array([[1.0, 0.4], [0.0, 2.0]]) + 3


@pytest.fixture(scope="module")
def noise():
    """Return what every seed draws from a standard posterior: the adversary knows κ and ν, not the data."""
    blank = abo.NIW(np.zeros(2), PRIOR.mean_weight + PEOPLE, PRIOR.df + PEOPLE, np.eye(2))
    streams = (np.random.default_rng(seed) for seed in range(SEEDS))
    return np.stack([next(stream_datasets(blank, [ROWS], stream))[1] for stream in streams])


def attacked(dataset, table, noise):
    """Try all seeds: return the best one's residual and its guess of the missing record.

    A dataset is μ + C·w, row by row, with μ and Λ = CCᵀ the posterior's and w the seed's: a straight line through
    the right noise. Then x = (κ + 1)·μ − κ·μ₋, with μ₋ of the other records.
    """
    design = np.concatenate([np.ones((len(noise), ROWS, 1)), noise], axis=2)
    line = np.linalg.pinv(design) @ dataset
    residual = np.max(np.abs(design @ line - dataset), axis=(1, 2))
    best = int(np.argmin(residual))
    others = PRIOR.update(np.delete(table, TARGET, axis=0))
    mean, weight = line[best, 0], others.mean_weight
    return residual[best], (weight + 1) * mean - weight * others.mean


def test_ten_thousand_seeds_find_a_seeded_release_and_its_missing_record(table, noise):
    release = abo.Release.draw(PRIOR.update(table), [ROWS], np.random.default_rng(2024))
    residual, guess = attacked(release.values[0], table, noise)
    assert residual < 1e-12
    np.testing.assert_allclose(guess, table[TARGET], atol=1e-9)


def test_ten_thousand_seeds_find_nothing_in_what_is_released(table, noise, allbutone, tmp_path):
    np.savetxt(tmp_path / "t.csv", table, delimiter=",", header="a,b", comments="", fmt="%.17g")
    code, _, err = allbutone("synthesize", "t.csv", "--out", "r", "--rows", ROWS)
    assert code == 0, err
    synthesizer = abo.Synthesizer(PRIOR).fit(table)
    released = (
        abo.load_release(tmp_path / "r"),
        synthesizer.sample(datasets=1, rows=ROWS),
        synthesizer.sample(datasets=1, rows=ROWS, repeat_key=abo.Synthesizer.new_repeat_key()),
    )
    for release in released:
        # 24 numbers on six parameters: the best of any ten thousand lines stays far away
        assert attacked(release.values[0], table, noise)[0] > 0.01


def test_fresh_randomness_is_the_operating_systems():
    one, two = (fresh_generator().bit_generator.seed_seq.entropy for _ in range(2))
    assert one != two
    assert max(one, two).bit_length() > 100  # of 128; fewer once in 2⁵⁶


def test_a_repeat_key_repeats_one_release_and_no_other(table):
    synthesizer = abo.Synthesizer(PRIOR).fit(table)
    once, again = (synthesizer.sample(datasets=2, rows=5, repeat_key=KEY).values for _ in range(2))
    np.testing.assert_array_equal(once, again)
    draws = [synthesizer.sample_parameters(3, repeat_key=KEY).normal.means for _ in range(2)]
    np.testing.assert_array_equal(*draws)


def test_under_one_key_other_releases_get_unrelated_noise(table):
    """Each of what decides a release decides its noise, or comparing two would take the noise away."""
    posterior, other = PRIOR.update(table), PRIOR.update(table[1:])
    corrected = table.copy()
    corrected[TARGET, 0] = np.nextafter(corrected[TARGET, 0], np.inf)
    given = (KEY, "datasets", [5], ("a", "b"), PRIOR, posterior)
    changes = {
        "key": (KEY[::-1], *given[1:]),
        "kind": (KEY, "parameters", *given[2:]),
        "sizes": (*given[:2], [6], *given[3:]),
        "columns": (*given[:3], ("b", "a"), *given[4:]),
        "prior": (*given[:4], abo.NIW(np.ones(2), 1.0, 4.0, np.eye(2)), posterior),
        "table": (*given[:5], other),
        "one digit": (*given[:5], PRIOR.update(corrected)),
    }
    first = keyed_generator(*given).random(4)
    np.testing.assert_array_equal(first, keyed_generator(*given).random(4))
    for name, changed in changes.items():
        assert not np.any(keyed_generator(*changed).random(4) == first), name


@pytest.mark.parametrize(
    "key",
    [
        "",
        "2024",
        KEY[:-1],
        KEY[:30],
        "g" * 32,
        "0" * 32,
        f"{2024:032x}",
        "0123456789abcdef" * 2,
        "00112233445566778899aabbccddeeff",
        "0123456789abcdeffedcba9876543210",
        bytes(range(16)).hex(),
        b"my cat is called".hex(),
        2024,
    ],
)
def test_keys_that_can_be_guessed_are_refused_and_not_repeated(table, key):
    with pytest.raises(abo.InputError, match="repeat key") as caught:
        abo.Synthesizer(PRIOR).fit(table).sample(repeat_key=key)
    assert not (key and str(key) in str(caught.value))
    assert caught.value.cures


def test_new_keys_are_never_refused():
    keys = {abo.Synthesizer.new_repeat_key() for _ in range(2000)}
    assert len(keys) == 2000
    assert not any(map(_made_up, keys))


def test_no_seed_goes_by_the_name_of_a_release(table):
    synthesizer = abo.Synthesizer(PRIOR).fit(table)
    with pytest.raises(TypeError):
        synthesizer.sample(1, 5, 7)
    with pytest.raises(TypeError):
        synthesizer.sample_parameters(rng=np.random.default_rng(1))
    with pytest.raises(abo.InputError, match="rng_for_tests"):
        synthesizer.sample(rng_for_tests=7)
    with pytest.raises(abo.InputError, match="not by both"):
        synthesizer.sample(repeat_key=KEY, rng_for_tests=np.random.default_rng(1))
