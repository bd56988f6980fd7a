"""The first look of the site: what is answered beforehand is what the app answers."""

import pytest

from pages import ROOT


@pytest.fixture
def first_look(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    import first_look

    return first_look


def test_the_answers_are_the_apps_and_differ_by_what_is_chosen(first_look, monkeypatch):
    monkeypatch.setattr(first_look, "COUNTS", (1, 50))
    few, many = (first_look.answer_of("far out", count) for count in (1, 50))
    assert "discloses" in many["told"]
    assert few["told"] != many["told"]
    assert 'href="/' not in many["told"], "a file has no server to ask"
    page = first_look.explore_page()
    assert all(place in page for place in first_look.PLACES)
    assert "$" not in page.split("<body>")[1].split("<script>")[0], "something was not filled in"
    assert "<script src" not in page


def test_every_release_file_is_where_the_checks_look():
    import checks.release as release

    told = release.versions()
    assert len(set(told.values())) == 1, told
    needed, recipe = release.requirements()
    assert needed == recipe, "conda/recipe.yaml: the packages are those of pyproject.toml"


def test_addresses_are_those_of_one_page(monkeypatch):
    import checks.release as release

    placed = release.addresses()
    assert {name for _, name in placed} | {"docs/addresses.md"} == set(release.WITH_ADDRESSES)
    assert not any("addresses are not" in each for each in release.disagreements())
    known = release.text_of
    monkeypatch.setattr(release, "text_of", lambda name: known(name).replace("maintainers@", "others@")
                        if name == "r/DESCRIPTION" else known(name))  # fmt: skip
    assert any("docs/addresses.md in r/DESCRIPTION" in each for each in release.disagreements())


def test_the_first_minute_shuts_nobody_out(first_look, tmp_path, monkeypatch, chromium):
    from app_server import WAIT, inaccessible

    monkeypatch.setattr(first_look, "COUNTS", (1, 60))
    monkeypatch.setattr(first_look, "PLACES", {"far out": "4, -2"})
    place = tmp_path / "explore.html"
    place.write_text(first_look.explore_page(), encoding="utf-8")
    page = chromium.new_page(viewport={"width": 1280, "height": 900})
    page.set_default_timeout(WAIT)
    page.goto(place.as_uri())
    page.click("#play")
    page.wait_for_selector("#story .now:has-text('Now the adversary finds you')")
    assert inaccessible(page) == {}
    page.close()
