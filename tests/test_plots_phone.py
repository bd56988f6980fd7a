"""Figures of fidelity on a phone, in a real browser: nothing is cut off, and names show as text."""

import json

from plotly.offline import get_plotlyjs

from allbutone.plots.export import text_left_by
from allbutone.tables.demo import demo_cohort
from drawn_categories import NAMES, mixed
from drawn_results import HOSTILE, renamed, results, simulated

PAGE = """<!doctype html><html><head><meta charset="utf-8"><script>{plotly}</script></head><body><script>
(async () => {{
  const outside = [], texts = [];
  for (const figure of {figures}) {{
    const place = document.createElement("div");
    place.style = "position: absolute; left: 0; top: 0; width: {width}px";
    document.body.append(place);
    await Plotly.newPlot(place, figure.data, figure.layout, {{responsive: true}});
    for (const text of place.querySelectorAll("text")) {{
      const box = text.getBoundingClientRect();
      texts.push(text.textContent);
      if (box.width && (box.left < 0 || box.right > {width} || box.top < 0 || box.bottom > figure.layout.height))
        outside.push(text.textContent);
    }}
    place.remove();
  }}
  return JSON.stringify({{outside, texts}});
}})().catch(error => "error: " + error).then(text => {{
  document.querySelectorAll("script").forEach(script => script.remove());
  document.body.textContent = text;
}});
</script></body></html>"""


def test_nothing_is_cut_off_on_a_phone_and_hostile_names_show():
    few, hostile = results(demo_cohort(), 3), renamed(results(demo_cohort(), 40, (1, 5, 40)), HOSTILE)
    wide = results(simulated(60, 12), 21)
    figures = list(mixed(3)) + list(mixed(25)) + list(mixed(25, NAMES))
    figures += [figure for found in (few, hostile, wide) for figure in found.figures().values()]
    content = ",".join(figure.to_json() for figure in figures)
    left = json.loads(text_left_by(PAGE.format(plotly=get_plotlyjs(), figures=f"[{content}]", width=390), 90))
    assert left["outside"] == []
    assert "<script>al…</script>" in left["texts"]
    assert 'a<b> & "%{x}" &amp;' in left["texts"]
