"""Several sites that may not pool their records: the same model, release and risk as if they did."""

import json
import stat

import numpy as np
import polars as pl
import pytest

import allbutone as abo
from allbutone.model.moments import Moments
from allbutone.model.sites import SiteMoments, add_up, decode, encode, masked, moments_of_site, pool
from allbutone.support.errors import InputError
from allbutone.tables.records import Records

KEYS = {frozenset(pair): format(place + 1, "02d") + "4f1c9ab27de08355" * 4
        for place, pair in enumerate([("north", "south"), ("north", "west"), ("south", "west")])}  # fmt: skip
SITES = ("north", "south", "west")


def shared(site):
    return {other: KEYS[frozenset((site, other))] for other in SITES if other != site}


@pytest.fixture
def tables(rng, tmp_path):
    """Three sites' tables, at mean 1e8 and 1e-3 with unit spread and a thousandth of that."""
    mix = rng.normal(size=(3, 3))
    parts = {}
    for place, site in enumerate(SITES):
        values = rng.normal(size=(60 + 20 * place, 3)) @ mix * [1, 1e-3, 1] + [1e8, 1e-3, place]
        parts[site] = values
        pl.DataFrame(values, ["a", "b", "c"]).write_csv(tmp_path / f"{site}.csv")
    pl.DataFrame(np.concatenate(list(parts.values())), ["a", "b", "c"]).write_csv(tmp_path / "all.csv")
    return parts


def apart(found, expected):
    """Return the largest difference in units of the spread."""
    spread = np.sqrt(np.diagonal(expected.scatter))
    mean = (found.mean - expected.mean) + (found.mean_tail - expected.mean_tail)
    scatter = (found.scatter - expected.scatter) / np.outer(spread, spread)
    return max(np.abs(mean / spread).max(), np.abs(scatter).max())


@pytest.mark.parametrize("masks", [False, True])
def test_sites_together_are_the_pool(masks, tables):
    parts = [
        moments_of_site(Records.of_numbers(values), site, shared(site) if masks else None, "first")
        for site, values in tables.items()
    ]
    found, expected = pool(parts).total, Moments.of(np.concatenate(list(tables.values())))
    assert found.count == expected.count
    assert apart(found, expected) < 1e-10


def test_a_masked_file_is_random_and_without_its_mask_exact(tables):
    numbers = encode(Moments.of(tables["north"]))
    assert apart(decode(numbers, 3), Moments.of(tables["north"])) < 1e-15
    once, again = (masked(numbers, "north", shared("north"), about) for about in ("one", "other"))
    assert not set(once) & set(again)
    # bits of 2048-bit numbers, half of them set
    share = np.mean([bin(number).count("1") / 2048 for number in once])
    assert abs(share - 0.5) < 5 * 0.5 / np.sqrt(2048 * len(once))
    both = add_up([masked(numbers, "north", {"south": "0f" * 8 + "12345678" * 6}, 1),
                   masked(numbers, "south", {"north": "0f" * 8 + "12345678" * 6}, 1)])  # fmt: skip
    assert both == [2 * number % (1 << 2048) for number in numbers]


def test_the_commands_of_several_sites(tables, allbutone, tmp_path):
    for site in SITES:
        code, said, _ = allbutone("moments", f"{site}.csv", "--out", f"{site}.json", "--site", site)
        assert code == 0
        assert f"number of records ({len(tables[site]):,})" in said
        assert stat.S_IMODE((tmp_path / f"{site}.json").stat().st_mode) == 0o600
    files = [f"{site}.json" for site in SITES]
    for command in (["pool"], ["synthesize", "--moments"]):
        code, _, errors = allbutone(*command, files[0], files[1], files[0], "--out", "nothing")
        assert (code, errors.strip().count("\n")) == (2, 0)
        assert "given twice" in errors
    assert not (tmp_path / "nothing").exists()
    assert allbutone("pool", *files, "--out", "pooled.json")[0] == 0
    assert allbutone("synthesize", "--moments", *files, "--out", "release", "--rows", 100)[0] == 0
    assert allbutone("synthesize", "--moments", "pooled.json", "--out", "again", "--rows", 100)[0] == 0
    prior = json.loads((tmp_path / "release" / "release.json").read_text())["prior"]
    assert prior == json.loads((tmp_path / "again" / "release.json").read_text())["prior"]
    assert allbutone("risk", "all.csv", "release", "--out", "all-risk.csv", "--no-mass")[0] == 0
    assert allbutone("risk", "south.csv", "release", "--pooled", "pooled.json", "--no-mass")[0] == 0
    everyone, own = (pl.read_csv(tmp_path / name) for name in ("all-risk.csv", "risk.csv"))
    for name in ("relative_error", "exposure"):
        np.testing.assert_allclose(own[name], everyone[name][60:140], rtol=1e-5, atol=1e-7)


def test_masked_commands(tables, allbutone, tmp_path):
    for site in SITES:
        pairs = []
        for other, key in shared(site).items():
            path = tmp_path / f"{'-'.join(sorted((site, other)))}.key"
            path.write_text(key + "\n")
            pairs += ["--pair", f"{other}={path.name}"]
        asked = ("moments", f"{site}.csv", "--out", f"{site}.json", "--site", site, *pairs)
        code, said, errors = allbutone(*asked)
        assert code == 2
        assert "--round" in errors
        code, said, _ = allbutone(*asked, "--round", "2026")
        assert code == 0
        assert "of two sites, each can take its own" in said.replace("\n", " ")
        assert not any(key in (tmp_path / f"{site}.json").read_text() + said for key in KEYS.values())
    assert allbutone("pool", *(f"{site}.json" for site in SITES), "--out", "pooled.json")[0] == 0
    expected = Moments.of(np.concatenate(list(tables.values())))
    assert apart(SiteMoments.load(tmp_path / "pooled.json").total, expected) < 1e-10
    code, _, errors = allbutone("synthesize", "--moments", "north.json", "south.json", "--out", "release")
    assert code == 2
    assert "'west' is missing" in errors
    assert not (tmp_path / "release").exists()


def test_what_does_not_fit_is_refused_in_one_line(tables, rng):
    north, south, west = (Records.of_numbers(tables[site]) for site in SITES)
    one, other = moments_of_site(north, "north"), moments_of_site(south, "south")
    swapped = moments_of_site(Records(south.values[:, ::-1], ("x3", "x2", "x1")), "south")
    secret = {site: moments_of_site(each, site, shared(site), "1")
              for site, each in zip(SITES, (north, south, west), strict=True)}  # fmt: skip
    late = moments_of_site(west, "west", shared("west"), "2")
    pair = [
        moments_of_site(each, site, {partner: key}, "1")
        for each, site, partner, key in (
            (north, "north", "south", KEYS[frozenset(("north", "south"))]),
            (south, "south", "north", KEYS[frozenset(("north", "west"))]),
        )
    ]
    two = moments_of_site(south, "south", {"north": KEYS[frozenset(("north", "south"))]}, "1")
    named = pl.DataFrame(tables["south"], list(north.columns))
    limited = moments_of_site(Records.of(named, schema={"columns": {north.columns[2]: {"low": -1e9}}}), "south")
    refused = {
        "nothing to add up": [],
        "other scales or limits": [one, limited],
        "has no mask with": [secret["north"], two, secret["west"]],
        "given twice": [one, one],
        "same records": [moments_of_site(north), moments_of_site(north)],
        "another order": [one, swapped],
        "masked and some are not": [one, secret["south"]],
        "'west' is missing": [secret["north"], secret["south"]],
        "different sums": [secret["north"], secret["south"], late],
        "masks do not cancel": pair,
    }
    for words, parts in refused.items():
        with pytest.raises(InputError, match=words) as caught:
            pool(parts)
        assert "\n" not in str(caught.value)
    assert len(pool([one, other])) == len(north.values) + len(south.values)
    with pytest.raises(InputError, match="say too much of each"):
        moments_of_site(Records.of_numbers(rng.normal(size=(29, 3))))
    for name in ("", "north"):
        with pytest.raises(InputError, match="masks are between sites that have names"):
            moments_of_site(north, name, {"north": KEYS[frozenset(SITES[:2])]}, "1")
    people = pl.DataFrame({"sex": ["f", "m"] * 20, "x": rng.normal(size=40)})
    with pytest.raises(InputError, match="tables of measurements"):
        moments_of_site(Records.of(people, categories=True))
    with pytest.raises(InputError, match="is none"):
        moments_of_site(north, "north", {"south": "secret"}, "1")
    with pytest.raises(InputError, match="masked"):
        abo.Synthesizer().fit(secret["north"])


def test_files_that_are_no_moments_are_refused(tmp_path, tables):
    path = tmp_path / "site.json"
    moments_of_site(Records.of_numbers(tables["north"]), "north").save(path)
    told = json.loads(path.read_text())
    scatter = np.array(told["scatter"])
    narrow = {"mean": [1.0], "mean_tail": [0.0], "scatter": [[1.0]]}  # moments of one column, under three names
    for change in ({"kind": "other"}, {"mean": [1.0]}, narrow, {"scatter": (-scatter).tolist()}, {"count": None}):
        path.write_text(json.dumps(told | change))
        with pytest.raises(InputError):
            SiteMoments.load(path)
