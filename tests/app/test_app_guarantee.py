"""Releases with a guarantee in the app: what they need, what they cost, and the same rooms as every other."""

import csv
import html
import io
import json
import re
import tomllib
import zipfile
from urllib.parse import urlencode

import numpy as np
import pytest

import allbutone as abo
from allbutone.releases.ledger_file import Terms
from allbutone.support.text import chance
from allbutone.tables.schema import Schema
from app_server import Browser, last_line

FORM = "application/x-www-form-urlencoded"
DECLARED = {
    "prior": "public", "low-1": "10", "high-1": "60", "centre-1": "26", "spread-1": "5", "gaps-1": "yes",
    "low-2": "40", "high-2": "200", "centre-2": "125", "spread-2": "15", "levels-3": "f, m", "gaps-3": "yes",
    "gaps": "keep",
}  # fmt: skip
ASKED = {"guarantee": "noise", "epsilon": "3", "delta": "1e-5"}
TABLE_FILE = {
    "bmi": {"low": 10, "high": 60, "centre": 26, "spread": 5, "gaps": True},
    "pressure": {"low": 40, "high": 200, "centre": 125, "spread": 15},
    "sex": {"kind": "category", "levels": ["f", "m"], "gaps": True},
}


def clinic(n=100):
    """Two measurements and a category, with gaps in two of the three; one value lies beyond what is declared."""
    rng = np.random.default_rng(34)
    bmi, pressure = rng.normal(26, 4, n).round(1).astype(str), rng.normal(125, 14, n).round(0)
    sex = rng.choice(["f", "m"], n)
    bmi[rng.random(n) < 0.1], sex[rng.random(n) < 0.1] = "", ""
    bmi[0] = "61.5"
    lines = [f"{a},{b:g},{c}" for a, b, c in zip(bmi, pressure, sex, strict=True)]
    return "\n".join(["bmi,pressure,sex", *lines, ""]).encode()


def asking(browser, name="clinic.csv"):
    """Send the table; return what asks for a page, a part or a file of it."""
    return asking_of(browser, {"table": browser.send(clinic(), name)[1]["fields"]["table"], **DECLARED, **ASKED})


def asking_of(browser, state):
    """Return what asks with these fields."""

    def ask(path, method="GET", body="", **fields):
        query = urlencode({name: text for name, text in (state | fields).items() if text is not None}, True)
        sent, how = body.encode() if method == "POST" else None, {}
        if path == "draw/draw":
            how["content_type"] = FORM
        status, _, found = browser.ask(f"/{path}?{query}", method, sent, **how)
        return found if status == 200 and "." in path else last_line(found)

    return ask


@pytest.fixture
def asked(served):
    browser = Browser(served.host)
    browser.ask("/upload")
    with browser.stay():
        yield asking(browser)


def words(part):
    return re.sub(r"\s+", " ", html.unescape(re.sub("<[^>]*>", " ", part))).strip()


@pytest.mark.usefixtures("seeded_noise")
def test_a_mixed_table_with_gaps_is_drawn_judged_and_taken_home(asked, tmp_path):
    """What is told on Decide and in risk.csv is that of the package, of the very release that was taken home."""
    assert "Nothing stands in the way: 100 people" in words(asked("mend/standing")["parts"]["standing"])
    ahead = asked("draw/ahead")
    assert "Drawing spends ε once: replacing one of 100 records" in words(ahead["parts"]["ahead"])
    assert ahead["figures"]["ahead"]
    name = asked("draw/draw", "POST", number=2)["fields"]["drawn"]
    after = words(asked("decide/after", drawn=name)["parts"]["after"])
    assert "(3, 1e-05)-differentially private: replacing one of 100 records" in after
    assert "OpenDP's cryptographic one" in after
    zipfile.ZipFile(io.BytesIO(asked("decide/release.zip", drawn=name))).extractall(tmp_path / "release")
    release = abo.load_release(tmp_path / "release")
    assert (release.count, release.rows[0], release.noisy.people) == (2, 100, 100)
    assert (round(release.noisy.epsilon, 6), release.noisy.delta) == (3.0, 1e-5)
    (tmp_path / "clinic.csv").write_bytes(clinic())
    expected = abo.risk(tmp_path / "clinic.csv", release)
    found = list(csv.DictReader(io.StringIO(asked("decide/risk.csv", drawn=name).decode("utf-8-sig"))))
    for column in ("probability_bmi", "baseline_sex", "bound_pressure"):
        shown = [float(line[column] or "nan") for line in found]
        np.testing.assert_allclose(shown, np.asarray(expected[column], dtype=float), rtol=1e-6)
    lacking = next(place for place, line in enumerate(clinic().decode().splitlines()[1:]) if line.startswith(","))
    for place in (0, lacking):
        one = asked("decide/one", drawn=name, row=place + 1)["parts"]["one"]
        cells = [words(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", one, re.S)]
        assert cells[5:7] == ["At most expected", "Verdict"]
        rows = [cells[start : start + 7] for start in range(7, len(cells), 7)]
        told = {line[0]: line for line in rows if line[1] == "lacks the record"}
        assert ("bmi" in told) == (place == 0)
        for column in ("pressure", "gaps"):
            three = (float(found[place][f"{kind}_{column}"]) for kind in ("probability", "baseline", "bound"))
            assert told[column][3:6] == [words(chance(each)) for each in three]
    assert "none of this table" in asked("decide/one", drawn=name, row=101)["error"]
    for page, said in (("report", "What is guaranteed"), ("page", "May it be given out?"), ("public", "ε")):
        assert said in asked(f"decide/{page}.html", drawn=name).decode()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"low-2": None}, "gives no low and high to pressure"),
        ({"levels-3": None}, "gives none to sex"),
        ({"gaps-1": None}, "the table file does not say that they may"),
        ({"gaps": "leave-out"}, "nobody may be left out"),
        ({"unusable": "leave-out"}, "nothing may depend on what the table holds"),
        ({"leave": "3"}, "nobody may be left out"),
        ({"keep-2": "yes"}, "no ε holds for a whole record"),
        ({"model": "classes"}, "by no known bound"),
        ({"kind": "parameters"}, "datasets are released"),
        ({"delta": "0.01"}, "below 1/100"),
    ],
)
def test_what_has_no_guarantee_is_refused_before_anything_is_drawn(asked, fields, message):
    assert message in asked("draw/draw", "POST", **fields)["error"]
    if not {"kind", "delta"} & {*fields}:
        assert message in words(asked("mend/standing", **fields)["parts"]["standing"])


def test_a_table_file_carries_which_columns_may_have_gaps(asked):
    """Into the fields and out again."""
    sent = asked("mend/declare", "POST", body=json.dumps({"columns": TABLE_FILE}), name="clinic.json")["fields"]
    assert [sent[f"gaps-{place}"] for place in (1, 2, 3)] == ["yes", "no", "yes"]
    back = Schema.of_entries(tomllib.loads(asked("mend/table.toml", **sent).decode()), "it")
    assert {name: back.column(name).entries() for name in TABLE_FILE} == TABLE_FILE


@pytest.mark.usefixtures("seeded_noise", "few_trials")
def test_a_declared_total_holds_in_the_app_whatever_is_taken_home(serve_app, tmp_path):
    """What was drawn counts, whether anybody looks at it or not; without a guarantee nothing is drawn."""
    table = tmp_path / "clinic.csv"
    table.write_bytes(clinic())
    abo.Ledger.of(table).declare_limit(Terms(epsilon=4.0, delta=1e-5))
    browser = Browser(serve_app(ledgers=(abo.Ledger.place_of(table),)).host)
    browser.ask("/upload")
    with browser.stay():
        ask = asking(browser)
        assert "one more release may have ε = 4" in words(ask("draw/ahead")["parts"]["ahead"])
        name = ask("draw/draw", "POST")["fields"]["drawn"]
        (noted,) = abo.Ledger.of(table).releases
        assert noted.guarantee.epsilon == pytest.approx(3.0)
        assert not noted.counts
        assert "more than the total of ε = 4" in ask("draw/draw", "POST")["error"]
        assert "of which ε = 3 is spent" in words(ask("decide/after", drawn=name)["parts"]["after"])
        ask("decide/release.zip", drawn=name)
        (taken,) = abo.Ledger.of(table).releases
        assert taken.counts
        assert taken.guarantee == noted.guarantee
        refused = ask("draw/draw", "POST", guarantee="", **{"high-1": "70"}, number=1)["error"]
        assert "this release has no guarantee" in refused


VISITS = {
    "person": "id", "visit": "month", "visits": [0, 6],
    "columns": {
        "sex": {"kind": "category", "levels": ["f", "m"], "once": True},
        "pressure": {"low": 40, "high": 220, "centre": 125, "spread": 15, "gaps": True},
    },
}  # fmt: skip


@pytest.mark.usefixtures("seeded_noise")
def test_people_with_visits_are_protected_with_all_of_their_rows(served, tmp_path):
    rng, browser = np.random.default_rng(34), Browser(served.host)
    rows = [
        f"P{person},{month},{'fm'[person % 2]},{rng.normal(125, 14):.0f}"
        for person in range(60) for month in (0, 6)[: 1 + (person % 5 > 0)]
    ]  # fmt: skip
    browser.ask("/upload")
    with browser.stay():
        sent = browser.send("\n".join(["id,month,sex,pressure", *rows, ""]).encode(), "long.csv")
        state = {"table": sent[1]["fields"]["table"], "gaps": "keep", **ASKED}
        declared = asking_of(browser, state)("mend/declare", "POST", body=json.dumps(VISITS), name="long.json")
        ask = asking_of(browser, state | declared["fields"])
        assert "Nothing stands in the way: 60 people" in words(ask("mend/standing")["parts"]["standing"])
        ahead = words(ask("draw/ahead")["parts"]["ahead"])
        assert "replacing one of 60 people, with all of their rows" in ahead
        name = ask("draw/draw", "POST")["fields"]["drawn"]
        assert "of person P2" in words(ask("decide/one", drawn=name, row="P2")["parts"]["one"])
        zipfile.ZipFile(io.BytesIO(ask("decide/release.zip", drawn=name))).extractall(tmp_path)
    release = abo.load_release(tmp_path)
    assert release.noisy.people == 60
    assert release.to_frames("pyarrow")[0].column_names == ["id", "month", "sex", "pressure"]
