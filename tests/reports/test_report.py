"""The report in a real browser: complete, offline, nothing cut off, nothing that runs, and fit to print."""

import io
import re
from copy import copy
from dataclasses import fields, is_dataclass

import numpy as np
import pypdf
import pytest
from plotly.offline import get_plotlyjs

import allbutone as abo
from allbutone.disclosure.risk import risk_columns
from allbutone.figures.export import embedded, write_figure
from allbutone.figures.risk import risk_figure
from allbutone.figures.shapes import distance_qq_figure
from allbutone.reports import report
from allbutone.reports.assessment import assess
from allbutone.reports.report import confidential_report, public_report
from app_server import WAIT

HOSTILE = "<script>alert(1)</script>"
PLAIN = "hostile_name"  # what stands for it until the case is complete: the gate refuses such a name
COLUMNS = ("bmi", PLAIN, "a_rather_long_name_of_a_laboratory_value")


def case_of(kind, datasets=6, counts=()):
    rng = np.random.default_rng(4)
    values = rng.standard_normal((60, 3)) @ np.array([[1, 0.6, 0], [0, 1, 0.2], [0, 0, 1]])
    values[7] = 6.0
    values[:, 2] = np.exp(values[:, 2])  # one column that is not normal
    records, prior = abo.Records(values, COLUMNS), abo.NIW.default(3)
    fitted = prior.update(values)
    if kind == "parameters":
        release = abo.Release.draw_parameters(fitted, 4, rng, columns=COLUMNS, prior=prior)
    else:
        release = abo.Release.draw(fitted, [60] * datasets, rng, columns=COLUMNS, prior=prior)
    return renamed(assess(records, release, counts=counts))


def renamed(value):
    """Put the hostile name in every place of a case where the plain one stands."""
    if isinstance(value, str):
        return value.replace(PLAIN, HOSTILE)
    if isinstance(value, tuple | list):
        return type(value)(renamed(part) for part in value)
    if isinstance(value, dict):
        return {renamed(key): renamed(part) for key, part in value.items()}
    if is_dataclass(value):
        other = copy(value)
        vars(other).clear()  # what was computed from the plain name, too
        for field in fields(value):
            object.__setattr__(other, field.name, renamed(getattr(value, field.name)))
        return other
    return value


SIZES = {"application": ("datasets", 30, (1, 2, 5, 30)), "one dataset": ("datasets", 1)}


class Cases(dict):
    """The cases by their names, each of them made when it is first asked for."""

    def __missing__(self, kind):
        self[kind] = case_of(*SIZES.get(kind, (kind,)))
        return self[kind]


class Pages(dict):
    """The confidential reports of cases by their names, likewise."""

    def __init__(self, cases):
        super().__init__()
        self.cases = cases

    def __missing__(self, kind):
        self[kind] = confidential_report(self.cases[kind])
        return self[kind]


@pytest.fixture(scope="module")
def cases():
    return Cases()


@pytest.fixture(scope="module")
def pages(cases):
    return Pages(cases)


@pytest.fixture
def browser(chromium):
    yield chromium
    for context in chromium.contexts:
        context.close()


def opened(browser, path, width, folds=True):
    """Open a file and its folds; returns the page and everything that should not have happened."""
    page, wrong = browser.new_page(viewport={"width": width, "height": 900}), []
    page.set_default_timeout(WAIT)
    page.on(
        "console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None
    )
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("dialog", lambda dialog: (wrong.append(f"dialog {dialog.message}"), dialog.dismiss()))
    page.on("request", lambda request: wrong.append(request.url) if request.url != path.as_uri() else None)
    page.goto(path.as_uri())
    if folds:
        page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    page.wait_for_function(
        "[...document.querySelectorAll('.plotly-graph-div')].every(div => div.querySelector('.main-svg'))"
    )
    return page, wrong


# text of a figure that sticks out of it, figures and tables that stick out of the page
CUT_OFF = """() => {
  const found = [];
  const wide = document.documentElement;
  if (wide.scrollWidth > wide.clientWidth) found.push(`page ${wide.scrollWidth} > ${wide.clientWidth}`);
  for (const div of document.querySelectorAll('.plotly-graph-div')) {
    const box = div.getBoundingClientRect();
    if (box.width < 200 || box.height < 200) found.push(`${div.id} is ${box.width} x ${box.height}`);
    for (const text of div.querySelectorAll('text')) {
      const own = text.getBoundingClientRect();
      if (own.width && (own.left < box.left - 1 || own.right > box.right + 1 ||
          own.top < box.top - 1 || own.bottom > box.bottom + 1))
        found.push(`${div.id}: ${text.textContent}`);
    }
  }
  const main = document.querySelector('main').getBoundingClientRect();
  for (const table of document.querySelectorAll('table, pre'))
    if (table.getBoundingClientRect().right > main.right + 1) found.push('table ' + table.textContent);
  return found;
}"""
FIGURES = {
    "datasets": {"disclosure", "membership", "risk", "epsilon", "budget", "qq", "distance-qq", "correlations",
                 "correlation-differences", "means", "ks", "densities", "propensity"},
    "parameters": {"disclosure", "membership", "risk", "epsilon", "budget", "qq", "distance-qq"},
}  # fmt: skip
FIGURES["one dataset"] = FIGURES["datasets"]
FIGURES["application"] = FIGURES["datasets"] | {"distances", "relative-errors"}


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("kind", ["datasets", "application", "one dataset", "parameters"])
def test_every_figure_is_drawn_and_nothing_is_cut_off(pages, browser, tmp_path, kind, width):
    path = tmp_path / "report.html"
    path.write_text(pages[kind], encoding="utf-8")
    page, wrong = opened(browser, path, width)
    assert wrong == []
    drawn = page.evaluate("[...document.querySelectorAll('.plotly-graph-div')].map(div => div.id)")
    assert set(drawn) == FIGURES[kind]
    for name in drawn:
        assert page.evaluate(f"document.querySelectorAll('#{name} .trace, #{name} .hm, #{name} path').length") > 2
    assert page.evaluate(CUT_OFF) == []
    assert "CONFIDENTIAL" in page.inner_text("body")
    page.close()


def test_a_hostile_column_shows_as_text(pages, browser, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(pages["datasets"], encoding="utf-8")
    page, wrong = opened(browser, path, 1280)
    assert wrong == []
    assert HOSTILE in page.inner_text("main table")
    in_figures = page.evaluate("[...document.querySelectorAll('.plotly-graph-div')].map(div => div.textContent)")
    assert any("<script>" in text for text in in_figures)
    page.close()


@pytest.mark.parametrize("kind", ["datasets", "application", "parameters"])
def test_it_prints_without_empty_pages(cases, browser, tmp_path, kind):
    path = tmp_path / "report.html"
    path.write_text(confidential_report(cases[kind], ["allbutone report table.csv release"]), encoding="utf-8")
    page, _ = opened(browser, path, 1280)
    printed = pypdf.PdfReader(io.BytesIO(page.pdf(format="A4")))
    texts = [sheet.extract_text() for sheet in printed.pages]
    assert 3 <= len(texts) <= 20
    for number, text in enumerate(texts, 1):
        assert len(text.split()) > 15, f"page {number} of {len(texts)} holds only {text!r}"
    page.close()


def test_the_report_says_what_was_found(cases, browser, tmp_path):
    case = cases["datasets"]
    path = tmp_path / "report.html"
    path.write_text(confidential_report(case, ["allbutone report t r"], "Simulated for a test."), encoding="utf-8")
    page, _ = opened(browser, path, 1280)
    text = re.sub(r"\s+", " ", page.inner_text("main"))
    for words in (
        case.verdict.headline,
        case.verdict.who,
        case.verdict.how_sure,
        *case.remedies,
        "Simulated for a test.",
        "allbutone report t r",
        case.budget.sentence,
        case.normality.verdicts[2].advice,
        f"allbutone {abo.__version__}",
        *(finding.words for finding in case.findings),
    ):
        assert re.sub(r"\s+", " ", words) in text
    assert page.evaluate("document.querySelector('table.values').rows.length") <= 1 + report.SHOWN + report.CLOSEST
    page.close()


def test_the_verdict_comes_first_and_what_experts_read_is_folded(pages, browser, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(pages["datasets"], encoding="utf-8")
    for width in (1280, 390):
        page, wrong = opened(browser, path, width, folds=False)
        assert wrong == []
        assert page.evaluate("document.querySelector('.verdict').getBoundingClientRect().bottom") < 900
        text = page.inner_text("main").split("What the words mean")[0]  # where definitions are for experts
        for word in ("nats", "posterior", "Mahalanobis", "leverage of", "law"):
            assert word not in text
        linked = page.evaluate("[...document.querySelectorAll('a.term')].map(one => one.getAttribute('href'))")
        assert linked
        assert all(page.locator(each).count() == 1 for each in linked)
        page.close()


@pytest.mark.parametrize("kind", ["datasets", "parameters"])
def test_the_public_page_holds_nothing_of_the_real_table(cases, browser, tmp_path, kind):
    """It is a function of the release alone, so it cannot."""
    case = cases[kind]
    path = tmp_path / "public.html"
    path.write_text(public_report(case.release), encoding="utf-8")
    page, wrong = opened(browser, path, 390)
    assert wrong == []
    assert page.evaluate(CUT_OFF) == []
    text = page.inner_text("main")
    assert HOSTILE in text
    assert "CONFIDENTIAL" not in text
    for word in ("row 8", "exposure", "leverage", "Mardia", "real data", "60 people"):
        assert word not in text
    page.close()


def test_a_report_is_small_but_for_one_copy_of_the_library(pages):
    page = pages["datasets"]
    assert page.count(get_plotlyjs()) == 1
    assert len(page) - len(get_plotlyjs()) < 200_000


def test_the_report_on_a_wide_table_names_some_columns_and_folds_long_tables(cases, pages, monkeypatch):
    folds = [f"<summary>{title} of all 3 columns<span" for title in ("Tests", "Verdicts")]
    assert not any(fold in pages["datasets"] for fold in folds)
    monkeypatch.setitem(report.environment.globals, "most_rows", 2)
    page = confidential_report(cases["datasets"])
    assert all(fold in page for fold in folds)
    wide = tuple(f"column_{place}" for place in range(1, 41))
    release = abo.Release.of([np.zeros((2, 40))], columns=wide, prior=abo.NIW.flat(40))
    assert "40 columns (column_1, " in public_report(release)
    assert "column_20 and 20 more)" in public_report(release)


def test_figures_of_large_tables_stay_small():
    """Numbers are written once a dot and in bytes, words once a figure."""
    n, names = 20_000, [f"a_rather_long_name_{place}" for place in range(10)]
    draw = np.random.default_rng(1).standard_normal
    found = {name: draw(n) for name in ("exposure", "relative_error", "information_gain", "mass", "prior_mass")}
    found |= {"row": np.arange(1, n + 1), "disclosed": np.zeros(n, dtype=bool)}
    found |= {f"error_{name}": draw(n) for name in names}
    assert len(embedded(risk_figure(found, names, np.arange(n)), "risk")) < 600_000
    table = abo.Records(draw((n, 2)), ("a", "b"))
    assert len(embedded(distance_qq_figure(abo.check_normality(table)), "distances")) < 150_000


def test_the_title_of_a_figure_has_room_on_a_phone(browser, tmp_path):
    path, cohort = tmp_path / "risk.html", abo.demo_cohort()
    release = abo.Synthesizer().fit(cohort).sample(datasets=1)
    found = risk_columns(cohort, release, mass=False)
    figure = risk_figure(found, cohort.columns, np.arange(503))
    write_figure(figure, path)
    page, wrong = opened(browser, path, 390)
    assert wrong == []
    assert page.inner_text("h1") == figure.layout.meta["message"]
    assert figure.layout.meta["below"] in page.inner_text("body")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.close()
