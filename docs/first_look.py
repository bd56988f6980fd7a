"""The first look: a report and the app's Explore page as files of the site, for who has installed nothing.

Everything in them is simulated. Explore is answered beforehand, for some places of the missing record and some
sizes of the release; the app answers for all others.
"""

import json
from pathlib import Path
from string import Template

import plotly.graph_objects as go
from plotly.io.json import to_json_plotly
from starlette.datastructures import QueryParams

import allbutone as abo
from allbutone.app.jobs import Progress
from allbutone.app.page import RequestContext, Session, Settings
from allbutone.app.pages import explore
from allbutone.figures.export import NO_REQUESTS, library

PLACES = {"like the others": "1, 0.5", "at the edge": "2.5, -1.5", "far out": "4, -2"}
COUNTS = (1, 2, 5, 10, 20, 30, 40, 50, 60, 80, 100)
DATASETS = 5
PAGE = Template("""<!doctype html>
<html lang="en"><head><meta charset="utf-8">$meta
<meta name="viewport" content="width=device-width, initial-scale=1"><title>Explore: a first look</title>
<style>
body { font: 16px/1.5 Arial, Helvetica, sans-serif; color: #222; max-width: 1080px }
body { margin: 16px auto; padding: 0 16px }
.controls { display: flex; flex-wrap: wrap; gap: 1rem 2rem; align-items: center; margin: 1rem 0 }
input[type=range] { width: 260px; vertical-align: middle } select { font: inherit }
#answer { display: grid; grid-template-columns: minmax(0, 3fr) minmax(0, 2fr); gap: 1.5rem }
/* help that the app unfolds at its word: the glossary has it, too */
#answer details { display: none } table { border-collapse: collapse; font-size: 14px; text-align: left }
td, th { padding: 4px 8px 4px 0; vertical-align: top; border-bottom: 1px solid #ddd } caption { text-align: left }
h2 { font-size: 17px }
#told p:first-child { font-size: 18px; font-weight: bold; margin-top: 0 } .quiet { color: #555; font-size: 14px }
.story { display: grid; grid-template-columns: repeat(5, minmax(0, 1fr)); gap: 12px; padding: 0 }
.story { list-style: none; font-size: 14px }
.story li { border-top: 4px solid #d5d9de; padding-top: 6px; color: #555 } .story b { display: block; color: #222 }
.story .told { border-top-color: #0063a0 }
.story .now { border-top-color: #b23c00; background: #f5f7f9; color: #222 }
button { font: inherit; padding: 6px 14px; color: #fff; background: #0063a0; border: 0; border-radius: 6px }
meter { width: 100% } #told .scroll { overflow-x: auto }
@media (max-width: 800px) { #answer { display: block } .story { grid-template-columns: 1fr } }
</style>
<script>$library</script></head><body><main>
<h1>See the adversary think</h1>
<p>Every record but one is known, and so are the release and how it was made. Where must the missing record be (the
star)? Every ring inwards is more probable.</p>
<div class="controls">
<button id="play">Play: until the adversary finds you</button>
<label>You are <select id="place">$places</select></label>
<label>Datasets released <input id="count" type="range" min="0" max="$last" value="3"> <b id="shown"></b>
</label>
</div>
<ol class="story" id="story" aria-live="polite"></ol>
<div id="answer"><div><h2 id="words"></h2>
<div id="landscape"></div><div id="curve"></div></div><div id="told"></div></div>
<p class="quiet">Simulated data: no person stands behind any record here. These answers were computed beforehand;
the app computes them for any table, prior and release, and lets the star be dragged.</p></main>
<script>
const answers = $answers, counts = $counts, curves = $curves;
const by = name => document.getElementById(name);
// while plotly fits a figure to another width its box has no height, and what follows would move up over it
function draw(id, figure) {
  by(id).style.minHeight = figure.layout.height + "px";
  Plotly.react(id, figure.data, figure.layout, { displayModeBar: false, responsive: true });
}
function show() {
  const place = by("place").value, count = counts[by("count").value], answer = answers[place][count];
  by("shown").textContent = count;
  by("told").innerHTML = answer.told;
  by("story").innerHTML = answer.story;
  by("words").textContent = answer.figure.layout.meta.message;
  draw("landscape", answer.figure);
  const curve = curves[place];
  for (const shape of curve.layout.shapes ?? []) if (shape.name === "present") shape.x0 = shape.x1 = count;
  draw("curve", curve);
}
let playing = 0;
function stop() { clearInterval(playing); playing = 0; }
by("play").addEventListener("click", () => {
  stop();
  by("count").value = 0;
  show();
  playing = setInterval(() => {
    const { step } = answers[by("place").value][counts[by("count").value]].figure.layout.meta;
    if (step === 5 || Number(by("count").value) === counts.length - 1) { stop(); return; }
    by("count").value = Number(by("count").value) + 1;
    show();
  }, 1200);
});
by("place").addEventListener("change", () => { stop(); show(); });
by("count").addEventListener("input", () => { stop(); show(); });
show();
</script></body></html>""")


def write_first_look(folder: Path) -> None:
    """Write the report on the embedded cohort, and Explore with its answers, where they are not there already."""
    folder.mkdir(parents=True, exist_ok=True)
    report = folder / "report.html"
    if not report.exists():
        cohort = abo.demo_cohort()
        abo.report(cohort, abo.Synthesizer().fit(cohort).sample(datasets=DATASETS), out=report)
        report.chmod(0o644)  # nobody stands behind any of it
    if not (folder / "explore.html").exists():
        (folder / "explore.html").write_text(explore_page(), encoding="utf-8")


def explore_page() -> str:
    """Return the page of Explore with every answer that it can give."""
    answers = {place: {count: answer_of(place, count) for count in COUNTS} for place in PLACES}
    options = "".join(f"<option{' selected' * (place == 'far out')}>{place}</option>" for place in PLACES)
    return PAGE.substitute(
        meta=NO_REQUESTS,
        library=library(),
        places=options,
        last=len(COUNTS) - 1,
        counts=json.dumps(COUNTS),
        answers=_script(answers),
        curves=_script({place: _figure(_asked("curve", place, 1).figures["curve"]) for place in PLACES}),
    )


def answer_of(place: str, count: int) -> dict:
    """Return the verdict in words, and the landscape, as the app answers them."""
    answer = _asked("answer", place, count)
    told = answer.parts["told"].replace('href="/glossary', 'href="../glossary.html')
    return {"told": told, "story": answer.parts["story"], "figure": _figure(answer.figures["landscape"])}


def _asked(source: str, place: str, count: int):
    query = QueryParams({"target": PLACES[place], "count": str(count)})
    return explore.PAGE.answers[source].ask(query, RequestContext(Session(), Settings()), Progress())


def _figure(figure) -> dict:
    return figure.to_plotly_json() if isinstance(figure, go.Figure) else figure


def _script(content) -> str:
    """Return content as JSON that may stand in a page."""
    return to_json_plotly(content).replace("</", "<\\/")
