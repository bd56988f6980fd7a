"""The figures of the pages, made by the package (`make screenshots`); needs Chromium.

With the table of real scores that docs/application.md tells how to put together, that page's figures, too:
`python docs/figures.py scores.csv`.
"""

import contextlib
import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

import allbutone as abo
from allbutone.figures.application import relative_error_violins
from allbutone.figures.budget import budget_figure, guarantee_figure
from allbutone.figures.export import FLAGS, KNOWN, write_images
from allbutone.figures.fidelity import mean_difference_figure
from allbutone.figures.risk import disclosure_figure
from allbutone.figures.style import titled
from allbutone.reports.assessment import PAPER_COUNTS, assess
from allbutone.reports.report import paper_figures

HERE = Path(__file__).parent
SCALES = {"columns": {"sbp": {"scale": "log"}, "crp": {"scale": "log"}}}
REGISTRY = {
    "columns": {
        "sbp": {"low": 60, "high": 260, "centre": 128, "spread": 17},
        "bmi": {"low": 10, "high": 80, "centre": 26, "spread": 4.5},
    }
}


def clinic() -> abo.Records:
    """Return the 150 simulated patients of docs/start.md."""
    rng = np.random.default_rng(7)
    z = rng.multivariate_normal([0, 0, 0], [[1, 0.4, 0.3], [0.4, 1, 0.2], [0.3, 0.2, 1]], 150)
    values = np.column_stack([128 + 15 * z[:, 0], 26 + 4 * z[:, 1], np.exp(0.5 + 0.9 * z[:, 2])]).round(1)
    values[17] = [214, 47, 61]
    return abo.Records.of(pa.table(list(values.T), names=["sbp", "bmi", "crp"]), schema=SCALES)


def risk_of(table: abo.Records, datasets: int):
    """Return the figure of everyone's riskiest value after so many datasets of as many rows as the table has."""
    release = abo.Synthesizer().fit(table).sample(datasets=datasets)
    found = abo.risk(table, release, mass=False)
    return titled(disclosure_figure({name: np.asarray(found[name]) for name in found.column_names}, abo.Rule()))


def stages():
    """Return the figure of everyone's stage on docs/mixed.md, to somebody who knows the rest of the person."""
    page = (HERE / "mixed.md").read_text(encoding="utf-8")
    names: dict[str, object] = {}
    with TemporaryDirectory() as folder, contextlib.chdir(folder):
        exec(re.search(r"```python\n(.*?)```", page, re.DOTALL)[1], names)  # how the table is simulated
        declared = {"columns": {"bili": {"scale": "log"}}}
        table = abo.Records.of("liver.csv", drop=["patient"], schema=declared, categories=True)
    known = [name for name in table.order if name != "stage"]
    release = abo.Synthesizer().fit(table).sample(datasets=5)
    found = abo.risk(table, release, adversary=abo.Adversary(known=known), mass=False)
    return titled(disclosure_figure({name: np.asarray(found[name]) for name in found.column_names}, abo.Rule()))


def pictures_of_pages() -> None:
    """Write the first page of the report on the embedded cohort, and a risk as a notebook shows it."""
    cohort = abo.demo_cohort()
    release = abo.Synthesizer().fit(cohort).sample(datasets=5)
    shown = abo.risk(cohort, release)._repr_html_()
    frame = '<!doctype html><meta charset="utf-8"><body style="font: 15px/1.45 Arial; margin: 4px 20px">'
    pages = {"report": (abo.report(cohort, release).page, "900,1160")}
    pages |= {"verdict": (frame + shown, "860,604")}
    browser = next(filter(None, map(shutil.which, KNOWN)))
    for name, (page, size) in pages.items():
        with TemporaryDirectory() as folder:
            place = Path(folder, "page.html")
            place.write_text(page, encoding="utf-8")
            picture = f"--screenshot={HERE / f'{name}.png'}"
            subprocess.run([browser, *FLAGS, f"--window-size={size}", picture, place.as_uri()], check=True)


def application(scores: str) -> dict:
    """Return the figures of docs/application.md."""
    table = abo.Records.of(scores, drop=["id"])
    people, p = table.values.shape
    prior = abo.NIW(np.full(p, 1.1), 1.0, p + 2.0, np.eye(p))
    drawn = [people] * PAPER_COUNTS[-1], np.random.default_rng(1)
    release = abo.Release.draw(prior.update(table.values), *drawn, columns=table.columns, prior=prior)
    found = assess(table, release, counts=PAPER_COUNTS, mass=False)
    papers = paper_figures(found.fidelity, found.by_count)
    figures = {
        "correlations": papers["figure-4-correlations"],
        "figure-A4": papers["figure-A4-mean-correlation-differences"],
        "figure-A5": papers["figure-A5-mean-standardized-differences"],
        "means": titled(mean_difference_figure(found.fidelity)),
        "ks": papers["figure-A6-p-values"],
        "distances": papers["figure-5-distances"],
        "relative-errors": titled(relative_error_violins(found.by_count)),
    }
    return {HERE / f"application-{name}.png": figure for name, figure in figures.items()}


def main() -> None:
    """Write all figures, in one start of the browser."""
    patients, cohort = clinic(), abo.demo_cohort()
    (HERE / "figures").mkdir(exist_ok=True)
    figures = {
        "figures/clinic-risk.png": risk_of(patients, 5),
        "figures/clinic-risk-40.png": risk_of(patients, 40),
        "figures/clinic-budget.png": titled(budget_figure(abo.budget(patients, abo.NIW.flat(3), rows=150))),
        "figures/registry-guarantee.png": guarantee_figure(abo.plan_guarantee(REGISTRY, people=2000)),
        "mixed-stage.png": stages(),
        "risk.png": risk_of(cohort, 50),
        "budget.png": titled(budget_figure(abo.budget(cohort, abo.NIW.flat(5), rows=503))),
    }
    write_images({HERE / name: figure for name, figure in figures.items()}, width=1000, height=620)
    pictures_of_pages()
    for scores in sys.argv[1:]:
        write_images(application(scores), width=900)


if __name__ == "__main__":
    main()
