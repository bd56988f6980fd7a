"""What is drawn and handed out: the command line's own files, decided by nobody's number."""

import html
import io
import re
import shlex
import zipfile
from pathlib import Path

import numpy as np
import pytest
from test_app_draw import drawn_anyway, fetched, handle, settled, uploaded

CHANCE = 7
pytestmark = pytest.mark.usefixtures("few_trials")


@pytest.fixture
def page(tabs):
    return tabs()


@pytest.fixture
def same_chance(monkeypatch):
    """Let the system's entropy be the same for every draw, so that app and command line can be compared."""
    monkeypatch.setattr("allbutone.releases.synthesizer.fresh_generator", lambda: np.random.default_rng(CHANCE))


def unzipped(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        return {name: archive.read(name) for name in archive.namelist()}


def written(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def downloaded(page, name):
    with page.expect_download() as waiting:
        page.click(f"#downloads a:text-is('{name}')")
    assert waiting.value.suggested_filename == name
    return Path(waiting.value.path()).read_bytes()


def test_what_is_drawn_is_what_the_command_line_writes(page, tabs, served, allbutone, tmp_path, same_chance):
    from allbutone.tables.files import TableWriter
    from allbutone.tables.records import COLUMNS, demo_cohort

    with TableWriter(tmp_path / "cohort.csv", COLUMNS) as writer:
        writer.write(demo_cohort().values)
    assert allbutone("synthesize", "cohort.csv", "--out", "csv", "--datasets", 8)[0] == 0

    page.goto(f"{served.address}/draw?number=8")
    settled(page)
    assert "503 records, 5 columns" in page.inner_text("#table")
    assert "Beyond the budget" in page.inner_text("#ahead")  # by the exposure law alone
    assert page.locator("#ahead-people tbody th").first.inner_text() == "212"
    page.click("#draw")
    page.check("#known")
    page.click("#anyway")
    page.wait_for_selector("#downloads")
    settled(page)
    assert "/decide?" in page.url
    assert unzipped(downloaded(page, "release.zip")) == written(tmp_path / "csv")

    verdict = page.inner_text(".verdict")
    report = downloaded(page, "report.html").decode()
    assert verdict.rstrip(".") in report
    assert "allbutone synthesize demo/cohort.csv --out release --datasets 8 --rows 503" in report
    assert "--seed" not in report
    public = downloaded(page, "public.html").decode()
    assert "About this release" in public
    assert "212" not in re.sub(r"[\d.]*\.\d+", "", public)
    assert page.locator("#after figure .main-svg").count() >= 7

    kept = f"drawn={handle(page)[0]}"
    other = tabs().request.get(f"{served.address}/decide/release.zip?number=8&{kept}")
    assert other.status == 422
    assert "not here" in other.text()

    page.go_back()
    settled(page)
    assert handle(page) is None
    page.goto(f"{served.address}/decide?number=8")
    settled(page)
    assert "Nothing is drawn yet" in page.inner_text("#after")
    page.goto(f"{served.address}/decide?number=8&{kept}")
    page.wait_for_selector("#downloads")
    settled(page)
    assert page.inner_text(".verdict") == verdict


@pytest.mark.parametrize(
    ("state", "options"),
    [
        ("kind=parameters&number=2", ["--release", "parameters", "--datasets", 2]),
        ("format=parquet&rows=50", ["--format", "parquet", "--rows", 50]),
    ],
)
def test_other_kinds_and_formats_are_the_command_lines_too(
    page, served, allbutone, table, state, options, same_chance
):
    assert allbutone("synthesize", table, "--out", "out", *options)[0] == 0
    state = f"{state}&table={uploaded(page, served, table)}"
    drawn = drawn_anyway(page, served, state)
    content = fetched(page, served, "release.zip", state, drawn).body()
    assert unzipped(content) == written(table.parent / "out")


def test_the_report_says_how_to_draw_it_again_with_another_prior_and_some_columns(
    page, served, allbutone, tmp_path, same_chance
):
    path = tmp_path / "my table.csv"
    lines = [f"{a * a % 23 / 4},{a % 7 / 2},{a * a % 11 + a / 8}" for a in range(1, 24)]
    path.write_text("\n".join(["one,two,three", *lines]) + "\n")
    prior = "prior=public&centre-1=5&spread-1=3&centre-3=12&spread-3=7"
    state = f"columns=three&columns=one&{prior}&table={uploaded(page, served, path)}"
    drawn = drawn_anyway(page, served, state)
    report = fetched(page, served, "report.html", state, drawn).text()
    commands = [
        shlex.split(html.unescape(line)) for line in re.findall("<pre>(.*?)</pre>", report, re.S)[-1].splitlines()
    ]
    (echo, text, *_), (_, *synthesize), (_, *again) = [line for line in commands if line]
    assert echo == "echo"
    (tmp_path / "prior.json").write_text(text)
    assert allbutone(*synthesize)[0] == 0
    assert unzipped(fetched(page, served, "release.zip", state, drawn).body()) == written(tmp_path / "release")
    assert again == ["report", "my table.csv", "release"]


def test_columns_said_to_be_measured_are_named_in_the_command(page, served, allbutone, tmp_path, same_chance):
    path = tmp_path / "t.csv"
    lines = [f"{a},{a * a % 23 / 4},{a % 7 / 2}" for a in range(1, 24)]
    path.write_text("\n".join(["visits,one,two", *lines]) + "\n")
    state = f"measured=yes&table={uploaded(page, served, path)}"
    drawn = drawn_anyway(page, served, state)
    report = html.unescape(fetched(page, served, "report.html", state, drawn).text())
    command = next(line for line in report.splitlines() if "allbutone synthesize" in line)
    _, *synthesize = shlex.split(command.rpartition("<pre>")[2])
    assert allbutone(*synthesize)[0] == 0
    assert unzipped(fetched(page, served, "release.zip", state, drawn).body()) == written(tmp_path / "release")


def test_no_number_of_the_users_decides_the_draw(page, served, table):
    """A short seed can be tried out: whatever is sent, the same request never gives the same release twice."""
    state = f"kind=parameters&table={uploaded(page, served, table)}"
    page.goto(f"{served.address}/draw?{state}")
    settled(page)
    assert page.locator("[id*=seed], [name*=seed]").count() == 0
    drawn = [drawn_anyway(page, served, f"{state}&seed=7", seed="7") for _ in range(2)]
    one, two = (unzipped(fetched(page, served, "release.zip", state, name).body()) for name in drawn)
    assert one.keys() == two.keys()
    assert one != two


def test_a_file_without_a_header_is_so_on_the_command_line(page, served, allbutone, tmp_path, same_chance):
    path = tmp_path / "bare.csv"
    path.write_text("\n".join(f"{a * a % 23 / 4},{a % 7 / 2},{a * a % 11 + a / 8}" for a in range(1, 24)) + "\n")
    sent = page.request.post(f"{served.address}/upload/upload?name=bare.csv&header=no", data=path.read_bytes())
    state = f"columns=x1&columns=x3&table={sent.json()['fields']['table']}"
    drawn = drawn_anyway(page, served, state)
    report = html.unescape(fetched(page, served, "report.html", state, drawn).text())
    synthesize, judge = re.findall(r"allbutone ((?:synthesize|report) .*?)(?:\n|<)", report)
    assert allbutone(*shlex.split(synthesize))[0] == 0
    assert unzipped(fetched(page, served, "release.zip", state, drawn).body()) == written(tmp_path / "release")
    assert allbutone(*shlex.split(judge))[0] == 0
