"""The board's page: five answers and where they come from, on one sheet, and the same as everywhere else."""

import io
import re
from dataclasses import replace

import numpy as np
import pypdf
import pytest

import allbutone as abo
from allbutone.disclosure.rule import Rule
from allbutone.reports import report
from allbutone.reports.assessment import assess
from allbutone.reports.board import BoardPage, Origin, board_page, limits_words
from allbutone.reports.report import board_part, page_report
from app_server import WAIT, inaccessible
from cases import LONG

pytestmark = pytest.mark.usefixtures("few_trials")
QUESTIONS = ("May it be given out?", "Who", "How sure", "How much more", "Do next")


@pytest.fixture(scope="module")
def values():
    drawn = np.random.default_rng(4).standard_normal((60, 3))
    drawn[7] = 6.0
    return drawn


def case_of(values, kind="datasets"):
    fitted = abo.Synthesizer().fit(abo.Records(values, ("bmi", "ldl", "crp")))
    release = fitted.sample(datasets=3) if kind == "datasets" else fitted.sample_parameters(2)
    return assess(abo.Records(values, ("bmi", "ldl", "crp")), release)


def plain(html):
    return " ".join(re.sub(r"<[^>]+>", " ", html).replace("&#39;", "'").split())


@pytest.mark.parametrize("kind", ["datasets", "parameters"])
def test_the_page_answers_what_a_board_asks(values, kind):
    case = case_of(values, kind)
    words = plain(board_part(board_page(case, Origin("table.csv", "release", "0123abcd"), "Made up.")))
    places = [words.index(question) for question in QUESTIONS]
    assert places == sorted(places)
    said = (
        case.verdict.headline,
        case.verdict.how_sure,
        case.budget.sentence,
        "table.csv",
        "0123abcd",
        "Made up.",
    )
    for each in (*said, abo.__version__, "the program’s defaults", "signature", "No ledger was looked at"):
        assert plain(each) in words
    assert ("How like the real data it is" in words) == (kind == "parameters")
    assert all(plain(each.words) in words for each in case.findings if each.against)


def test_who_set_the_limits_is_said():
    assert limits_words(Rule()).endswith("the program’s defaults")
    assert limits_words(Rule(0.4)) == "40 % for a value, 90 % for membership: probability set by the data holder"
    assert "from odds of 0.1 to 1: membership odds set" in limits_words(Rule(membership_odds=0.1))


def longest(page: BoardPage) -> BoardPage:
    """The page with more to say than any table gives it: long names everywhere, many findings, every caveat."""
    sentence = "The 10th to 90th percentiles of a_rather_long_name_of_a_laboratory_value lie far from real ones. "
    return replace(
        page, who=(sentence * 2, sentence * 2), sure=(sentence * 2,), more=(sentence * 3, sentence),
        steps=(sentence,) * 5, open=(sentence,) * 6, note=sentence,
        attention=tuple(replace(each, words=sentence * 4) for each in (page.attention * 3)[:3]),
    )  # fmt: skip


@pytest.mark.parametrize("paper", ["A4", "Letter"])
def test_it_prints_on_one_sheet(values, chromium, tmp_path, monkeypatch, paper):
    case = case_of(np.exp(2 * values))
    usual, path = board_page(case), tmp_path / "page.html"
    assert usual.attention
    for page in (usual, longest(usual)):
        monkeypatch.setattr(report, "board_page", lambda *_, page=page: page)
        path.write_text(page_report(case), encoding="utf-8")
        tab = chromium.new_page()
        tab.set_default_timeout(WAIT)
        tab.goto(path.as_uri())
        printed = pypdf.PdfReader(io.BytesIO(tab.pdf(format=paper)))
        tab.close()
        assert len(printed.pages) == 1
        assert "signature" in printed.pages[0].extract_text()


# words of a figure that lie on other words of it
COVERED = """() => [...document.querySelectorAll('figure')].flatMap(figure => {
  const words = [...figure.querySelectorAll('.plotly-graph-div text')]
    .map(one => [one.textContent, one.getBoundingClientRect()]).filter(([text, box]) => text && box.width);
  return words.flatMap(([text, a], place) => words.slice(place + 1)
    .filter(([, b]) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2
      && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2)
    .map(([other]) => `${text} / ${other}`));
})"""


@pytest.mark.parametrize(("columns", "most"), [(5, 8), (30, 12)])
def test_the_annex_is_short_on_paper_and_no_figure_is_cut(chromium, tmp_path, columns, most):
    drawn = np.random.default_rng(5).standard_normal((120, columns))
    drawn[7] = 6.0
    records = abo.Records(drawn, tuple(f"laboratory_value_{place}" for place in range(columns)))
    path = tmp_path / "report.html"
    path.write_text(
        report.full_report(assess(records, abo.Synthesizer().fit(records).sample(datasets=3))), encoding="utf-8"
    )
    tab = chromium.new_page(viewport={"width": 1280, "height": 900})
    tab.set_default_timeout(WAIT)
    tab.goto(path.as_uri())
    for paper in ("A4", "Letter") if LONG else ("Letter",):  # which is the shorter one
        printed = pypdf.PdfReader(io.BytesIO(tab.pdf(format=paper)))
        assert len(printed.pages) <= most
        words = [page.extract_text() for page in printed.pages]
        assert "signature" in words[0]
        experts = next(place for place, text in enumerate(words) if "For experts: how it comes about" in text)
        assert experts >= next(place for place, text in enumerate(words) if "What the words mean" in text)
    tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    tab.emulate_media(media="print")
    sizes = tab.evaluate(
        """[...document.querySelectorAll('figure .main-svg')].map(one => one.getBoundingClientRect())
           .map(box => [box.right, box.height])"""
    )
    assert len(sizes) > 20
    assert max(right for right, _ in sizes) <= 1280
    assert max(height for _, height in sizes) <= 0.75 * 980, "no figure takes more than three quarters of a page"
    assert tab.evaluate(COVERED) == []
    tab.emulate_media(media="screen")
    assert inaccessible(tab) == {}
    tab.close()


def test_every_matrix_names_its_columns():
    from allbutone.figures.fidelity import correlation_figure

    values = np.random.default_rng(6).standard_normal((80, 30))
    fitted = abo.Synthesizer().fit(values)
    figure = correlation_figure(abo.fidelity(values, fitted.sample(datasets=2)))
    assert figure.layout.xaxis.showticklabels
    assert len(figure.layout.xaxis.ticktext) == len(figure.layout.yaxis.ticktext) == 30
