"""Releases with a guarantee as a user meets them on the command line."""

import json

import numpy as np
import pytest

SEX = """[columns.sex]
kind = "category"
levels = ["f", "m", "x"]
"""
LIMITS = """[columns.bmi]
low = 10
high = 60
centre = 25
spread = 5
[columns.ldl]
low = 0
high = 10
centre = 3
spread = 1
"""


@pytest.fixture
def declared(tmp_path, rng):
    table, file = tmp_path / "t.csv", tmp_path / "table.toml"
    values = np.column_stack([25 + 5 * rng.standard_normal(60), 3 + rng.standard_normal(60)])
    values[0] = 500.0, -70.0  # beyond the limits
    np.savetxt(table, values, delimiter=",", header="bmi,ldl", comments="", fmt="%.17g")
    file.write_text(LIMITS)
    return table, file


def test_a_release_with_a_guarantee_is_made_judged_and_added_up(allbutone, declared, tmp_path):
    table, file = declared
    asked = ("synthesize", table, "--table-file", file, "--delta", 1e-6)
    code, out, err = allbutone(*asked, "--epsilon", 8, "--out", "r", "--datasets", 2, "--rows", 10)
    assert (code, err) == (0, "")
    for words in ("Guaranteed: (8, 1e-06)", "costs ε again", "Recorded as release 1", "risk"):
        assert words in out
    assert json.loads((tmp_path / "r" / "release.json").read_text())["guarantee"]["people"] == 60
    code, out, err = allbutone("risk", table, "r")
    assert (code, err) == (0, "")
    for words in ("value", "guarantee of ε = 8 allows", "at most expected", "The guarantee assumes none of that"):
        assert words in out
    header = (tmp_path / "risk.csv").read_text().splitlines()[0]
    assert "probability_bmi" in header
    assert "bound_ldl" in header
    assert allbutone("ledger", "limit", table, "--epsilon", 9, "--delta", 1e-6)[0] == 0
    code, out, _ = allbutone(*asked, "--epsilon", 1, "--out", "s")
    assert (code, "Together the 2 releases" in out) == (0, True)
    code, _, err = allbutone(*asked, "--epsilon", 8, "--out", "t")
    assert (code, "more than the total" in err, err.count("\n")) == (2, True, 1)
    code, _, err = allbutone("synthesize", table, "--out", "t")
    assert (code, "this release has no guarantee" in err, err.count("\n")) == (2, True, 1)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--epsilon", 3), "--table-file"),
        (("--delta", 1e-6), "--epsilon"),
        (("--epsilon", 0, "--table-file", "table.toml"), "exceed 0"),
        (("--epsilon", 3, "--delta", 0.5, "--table-file", "table.toml"), "1/60"),
        (("--epsilon", 3, "--table-file", "table.toml", "--seed", 1), "voids the guarantee"),
        (("--epsilon", 3, "--table-file", "table.toml", "--new-repeat-key"), "voids the guarantee"),
        (("--epsilon", 3, "--table-file", "table.toml", "--complete-cases"), "do not go together"),
        (("--epsilon", 3, "--table-file", "table.toml", "--model", "classes"), "by no known bound"),
        (("--epsilon", 3, "--table-file", "table.toml", "--keep", "bmi"), "person by person"),
        (("--epsilon", 3, "--table-file", "table.toml", "--release", "parameters"), "leave --release out"),
    ],
)
def test_what_would_void_the_guarantee_is_refused_in_one_line(allbutone, declared, tmp_path, options, words):
    code, _, err = allbutone("synthesize", declared[0], "--out", "r", *options)
    assert (code, err.count("\n")) == (2, 1)
    assert words in err
    assert not (tmp_path / "r").exists()


def test_a_table_with_categories_has_a_guarantee(allbutone, declared, tmp_path):
    table, file = declared
    lines = table.read_text().splitlines()
    table.write_text("\n".join([f"{lines[0]},sex", *(f"{row},{'fm'[k % 2]}" for k, row in enumerate(lines[1:]))]))
    file.write_text(LIMITS + SEX)
    code, out, err = allbutone("synthesize", table, "--table-file", file, "--epsilon", 8, "--out", "r")
    assert (code, err) == (0, "")
    assert "the limits, centres, spreads and levels" in " ".join(out.split())
    assert json.loads((tmp_path / "r" / "release.json").read_text())["noisy_counts"][0]["of"] == ["sex"]
    code, out, err = allbutone("risk", table, "r")
    assert (code, err) == (0, "")
    assert "noisy moments and counts" in " ".join(out.split())
    assert "rest_known_probability_sex" in (tmp_path / "risk.csv").read_text().splitlines()[0]
    code, out, err = allbutone("guarantee", file, "--people", 60, "--epsilon", "8")
    assert (code, err) == (0, "")
    assert "level's share" in out
    assert "normal columns" in out
    (tmp_path / "alone.toml").write_text(SEX)
    code, out, err = allbutone("guarantee", tmp_path / "alone.toml", "--people", 60, "--out", "alone.html")
    assert (code, err) == (0, "")
    assert "levels that are equally frequent; one release" in " ".join(out.split())
    file.write_text(LIMITS + SEX.replace('levels = ["f", "m", "x"]', ""))
    code, _, err = allbutone("synthesize", table, "--table-file", file, "--epsilon", 8, "--out", "s")
    assert (code, "public levels" in err, err.count("\n")) == (2, True, 1)


def test_the_report_the_public_page_and_what_the_total_leaves(allbutone, declared, tmp_path):
    table, file = declared
    assert allbutone("ledger", "limit", table, "--epsilon", 4, "--delta", 1e-6)[0] == 0
    made = (
        "synthesize",
        table,
        "--table-file",
        file,
        "--epsilon",
        3,
        "--delta",
        1e-6,
        "--out",
        "r",
        "--datasets",
        2,
    )
    assert allbutone(*made)[0] == 0
    code, out, err = allbutone("report", table, "r")
    assert (code, err) == (0, "")
    assert "Guaranteed: (3, 1e-06)" in out
    page = " ".join((tmp_path / "report.html").read_text().split())
    for words in ("CONFIDENTIAL", "OpenSSL", "one person's whole record", "ε = 3 is spent", "draw_more"):
        assert words.replace("'", "&#39;") in page, words
    assert (tmp_path / "report.html").stat().st_mode & 0o077 == 0
    code, _, err = allbutone("report", table, "r", "--public", "--out", "public.html")
    assert (code, err) == (0, "")
    page = " ".join((tmp_path / "public.html").read_text().split())
    assert "What is guaranteed" in page
    assert "is spent" not in page
    code, out, err = allbutone("budget", table)
    assert (code, err) == (0, "")
    assert "ε = 3 is spent: one more release may have ε = 2.41" in out
    assert "synthesize" in out
    assert not (tmp_path / "budget.csv").exists()
    assert "2.41" in allbutone("ledger", "show", table)[1]
    code, _, err = allbutone("report", table, "r", "--prior", "p.json", "--force")
    assert (code, "prior" in err) == (2, True)
