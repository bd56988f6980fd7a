"""Release folders: what is written, what never is, and what is never replaced."""

import json
import stat
from pathlib import Path

import numpy as np
import pytest

import allbutone as abo
from allbutone.releases.folder import synthesize_to_folder

KEY = "6f1d0c9ab37e42588d91e0f4c5a6b273"


@pytest.fixture
def synthesizer():
    return abo.Synthesizer().fit(abo.demo_cohort())


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_datasets_survive_their_folder(synthesizer, tmp_path, format):
    release = synthesizer.sample(datasets=3, rows=[1, 20, 7])
    abo.save_release(release, tmp_path / "r", format=format)
    again = abo.load_release(tmp_path / "r")
    assert again.columns == synthesizer.columns
    np.testing.assert_array_equal(again.prior.scale, synthesizer.prior.scale)
    for ours, theirs in zip(release.values, again.values, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_parameters_survive_their_folder(synthesizer, tmp_path):
    release = synthesizer.sample_parameters(draws=4)
    abo.save_release(release, tmp_path / "r")
    again = abo.load_release(tmp_path / "r")
    np.testing.assert_array_equal(again.normal.means, release.normal.means)
    np.testing.assert_array_equal(again.normal.covariances, release.normal.covariances)
    assert {path.name for path in (tmp_path / "r").iterdir()} == {"parameters.json", "release.json"}


def test_a_release_folder_holds_the_mechanism_and_nothing_of_the_data(synthesizer, tmp_path):
    abo.save_release(synthesizer.sample(datasets=2, rows=50, repeat_key=KEY), tmp_path / "r")
    text = (tmp_path / "r" / "release.json").read_text()
    manifest = json.loads(text)
    assert set(manifest) == {
        "made_by", "release", "mechanism", "columns", "prior", "datasets", "rows", "files",
    }  # fmt: skip
    assert KEY not in text
    assert str(tmp_path) not in text
    posterior = synthesizer.posterior
    for number in (*posterior.mean, *posterior.scale.ravel(), posterior.df, posterior.mean_weight):
        assert repr(float(number)) not in text


def rewrite(folder, **changes):
    path = folder / "release.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda r: (r / "release.json").unlink(), "cannot read .*release.json"),
        (lambda r: (r / "release.json").write_text("{"), "not valid JSON"),
        (lambda r: (r / "release.json").write_text("{}"), "not the description of a release"),
        (lambda r: (r / "dataset-002.csv").unlink(), "cannot read .*dataset-002.csv"),
        (lambda r: (r / "dataset-002.csv").write_text("a,b\n1,2\n"), "1 rows of a, b"),
        (lambda r: (r / "dataset-002.csv").write_text("a;b\n1;2\n"), "1 rows of a;b"),
        (lambda r: (r / "release.json").write_text("[" * 100_000), "not valid JSON"),
        (lambda r: rewrite(r, rows=[5]), "not the description of a release"),
        (lambda r: rewrite(r, rows=["5", "5"]), "5 rows of"),
        (lambda r: rewrite(r, files=[1, 2]), "outside its folder"),
        (lambda r: rewrite(r, files=["../secret.csv", "x"]), "outside its folder"),
        (lambda r: rewrite(r, columns=[1, 2, 3, 4, 5]), "names must be text"),
        (lambda r: rewrite(r, prior=["mean"]), "must name its entries"),
        (lambda r: rewrite(r, release="people"), "unknown release 'people'"),
        (lambda r: rewrite(r, release="parameters"), "cannot read .*parameters.json"),
    ],
)
def test_a_damaged_folder_is_refused(synthesizer, tmp_path, damage, message):
    abo.save_release(synthesizer.sample(datasets=2, rows=5), tmp_path / "r")
    damage(tmp_path / "r")
    with pytest.raises(abo.InputError, match=message):
        abo.load_release(tmp_path / "r")


def test_only_a_release_is_ever_replaced(synthesizer, tmp_path):
    release = synthesizer.sample(rows=5)
    precious = tmp_path / "thesis"
    precious.mkdir()
    (precious / "chapter1.txt").write_text("years of work")
    for force in (False, True):
        with pytest.raises(abo.InputError, match=r"exists|not made by allbutone"):
            abo.save_release(release, precious, force=force)
    assert (precious / "chapter1.txt").read_text() == "years of work"
    abo.save_release(release, tmp_path / "r")
    with pytest.raises(abo.InputError, match="exists"):
        abo.save_release(release, tmp_path / "r")
    abo.save_release(synthesizer.sample(datasets=2, rows=5), tmp_path / "r", force=True)
    assert len(abo.load_release(tmp_path / "r").values) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r", "thesis"]


def test_a_release_with_something_added_is_not_replaced(synthesizer, tmp_path):
    release = synthesizer.sample(rows=3)
    for number, (name, make) in enumerate({"notes.txt": Path.touch, "more": Path.mkdir}.items()):
        folder = tmp_path / f"r{number}"
        abo.save_release(release, folder)
        make(folder / name)
        with pytest.raises(abo.InputError, match=r"holds something added since, so it cannot be replaced"):
            abo.save_release(release, folder, force=True)
        assert (folder / name).exists()
    rewrite(tmp_path / "r0", made_by="someone else", files=["dataset-001.csv", "notes.txt"])
    with pytest.raises(abo.InputError, match="not made by allbutone"):
        abo.save_release(release, tmp_path / "r0", force=True)


@pytest.mark.parametrize("force", [False, True])
def test_a_folder_that_comes_to_be_meanwhile_is_kept(synthesizer, tmp_path, force, rng):
    def meanwhile(drawn, block):
        (tmp_path / "r").mkdir(exist_ok=True)
        (tmp_path / "r" / "theirs.txt").touch()

    with pytest.raises(abo.InputError, match=r"exists|not made by allbutone"):
        synthesize_to_folder(
            synthesizer.posterior, [3], rng, tmp_path / "r",
            mechanism=synthesizer.mechanism, watch=meanwhile, force=force,
        )  # fmt: skip
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")] == ["r", "r/theirs.txt"]


@pytest.mark.parametrize(("place", "message"), [("x" * 300, "File name too long"), ("no/r", "No such file")])
def test_where_nothing_can_be_written_is_said(synthesizer, tmp_path, place, message):
    with pytest.raises(abo.InputError, match=f"cannot write .*{message}"):
        abo.save_release(synthesizer.sample(rows=3), tmp_path / place)
    with pytest.raises(abo.InputError, match=f"cannot write .*{message}"):
        synthesizer.save(tmp_path / place)


def test_long_names_leave_room_for_the_one_aside(synthesizer, tmp_path):
    abo.save_release(synthesizer.sample(rows=3), tmp_path / ("x" * 255))
    assert [len(path.name) for path in tmp_path.iterdir()] == [255]


def test_a_saved_synthesizer_is_private_and_says_so(synthesizer, tmp_path):
    path = tmp_path / "s.json"
    synthesizer.save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_text())["notice"].startswith("CONFIDENTIAL")
    again = abo.Synthesizer.load(path)
    ours, theirs = (s.sample(datasets=2, repeat_key=KEY) for s in (synthesizer, again))
    np.testing.assert_array_equal(ours.values[1], theirs.values[1])
    assert ours.rows == (503, 503)
    with pytest.raises(abo.InputError, match="exists"):
        synthesizer.save(path)
