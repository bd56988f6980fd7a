"""Figures of fidelity on a phone and with titles, in a real browser: nothing is cut off, names show as text."""

import json

import numpy as np
import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from allbutone.disclosure.rule import Rule
from allbutone.figures.export import text_left_by
from allbutone.figures.risk import disclosure_figure
from allbutone.figures.style import frame, titled
from allbutone.tables.records import demo_cohort
from drawn_categories import NAMES, mixed
from drawn_results import HOSTILE, renamed, results, simulated

PAGE = """<!doctype html><html><head><meta charset="utf-8"><script>{plotly}</script></head><body><script>
(async () => {{
  const outside = [], texts = [], covered = [];
  for (const figure of {figures}) {{
    const place = document.createElement("div");
    const width = figure.layout.width || {width};
    place.style = `position: absolute; left: 0; top: 0; width: ${{width}}px`;
    document.body.append(place);
    await Plotly.newPlot(place, figure.data, figure.layout, {{responsive: true}});
    const head = place.querySelector(".gtitle")?.getBoundingClientRect();
    for (const text of place.querySelectorAll("text")) {{
      const box = text.getBoundingClientRect();
      texts.push(text.textContent);
      if (box.width && (box.left < 0 || box.right > width || box.top < 0 || box.bottom > figure.layout.height))
        outside.push(text.textContent);
      if (head && box.width && !text.matches(".gtitle") && box.top < head.bottom && box.left < head.right)
        covered.push(text.textContent);
    }}
    place.remove();
  }}
  return JSON.stringify({{outside, texts, covered}});
}})().catch(error => "error: " + error).then(text => {{
  document.querySelectorAll("script").forEach(script => script.remove());
  document.body.textContent = text;
}});
</script></body></html>"""


def found_of(name):
    """What risk finds of a column: people disclosed at every corner of the area, and others along the line."""
    before = np.array([0.0, 0.0, 0.3, 0.49, 0.49, 0.1, 0.9, 1.0])
    after = np.array([1.0, 0.5, 0.5, 0.7, 1.0, 0.0, 0.9, 1.0])
    found = {f"probability_{name}": after, f"baseline_{name}": before}
    return {"row": np.arange(1234567, 1234575), **Rule().judge(found), **found}


def test_nothing_is_cut_off_on_a_phone_or_below_a_title_and_hostile_names_show():
    few, hostile = results(demo_cohort(), 3), renamed(results(demo_cohort(), 40, (1, 5, 40)), HOSTILE)
    wide = results(simulated(60, 12), 21)
    figures = list(mixed(3)) + list(mixed(25)) + list(mixed(25, NAMES))
    figures += [disclosure_figure(found_of(name), Rule()) for name in NAMES[1]]
    figures += [figure for found in (few, hostile, wide) for figure in found.figures().values()]
    titles = [
        titled(figure).update_layout(width=900) for found in (few, wide) for figure in found.figures().values()
    ]
    figures += [
        *titles,
        titled(frame(go.Figure(), "A message of many words, " * 20, 200)).update_layout(width=900),
    ]
    content = ",".join(figure.to_json() for figure in figures)
    left = json.loads(text_left_by(PAGE.format(plotly=get_plotlyjs(), figures=f"[{content}]", width=390), 90))
    assert left["outside"] == []
    assert left["covered"] == []
    assert "<script>al…</script>" in left["texts"]
    assert 'a<b> & "%{x}" &amp;' in left["texts"]
