// Explore: drag the record, play the growing release, draw another table.
import { change, keep, start, value } from "./page.js";
import { figure, hold, plot } from "./figures.js";

const NEAR = 28; // pixels within which a press takes hold of the star
const play = document.getElementById("play");
let playing = false;
let held = null; // the axes at the moment the star was taken

start([{ path: "answer" }, { path: "walk", without: ["count", "x", "y", "hidden", "level"], later: true }], answered, beforeDrawing);

// the adversary's own prior begins as the holder's
const linked = document.getElementById("linked");
linked.addEventListener("input", () => { // before the change, which goes into the address with it
  if (linked.checked) return;
  const own = ["mean", "weight", "extra", "scale"].map(name => [`own_${name}`, value(`prior_${name}`)]);
  change({ linked: "no", ...Object.fromEntries(own) }, false);
});

document.getElementById("again").addEventListener("click", () => {
  change({ seed: String(crypto.getRandomValues(new Uint32Array(1))[0]) });
});

play.addEventListener("click", () => {
  playing = !playing;
  label();
  if (playing) change({ count: "1" }, false); else keep();
});

function label() {
  play.setAttribute("aria-pressed", String(playing));
  play.textContent = playing ? "Stop" : "Play: release 1 to 100";
  if (!playing) document.getElementById("played").textContent = "";
}

function answered(found, source) {
  mark();
  if (!playing || source?.path !== "answer") return;
  const count = Number(value("count"));
  if (found.error || count >= 100) { stop(); keep(); return; }
  document.getElementById("played").textContent = `${count} released`;
  requestAnimationFrame(() => { if (playing) change({ count: String(count + 1) }, false); });
}

// the present count on the curve: of one that is about to be drawn, or moved on one that stands
function beforeDrawing(found) {
  const shapes = found.figures?.walk?.layout.shapes ?? [];
  for (const shape of shapes.filter(one => one.name === "present")) shape.x0 = shape.x1 = Number(value("count"));
}

function mark() {
  const walk = plot("walk");
  const shapes = walk.layout?.shapes ?? [];
  const place = shapes.findIndex(shape => shape.name === "present");
  const count = Number(value("count"));
  if (place >= 0 && shapes[place].x0 !== count) {
    Plotly.relayout(walk, { [`shapes[${place}].x0`]: count, [`shapes[${place}].x1`]: count });
  }
}

// anything else that is done stops the play
function stop() {
  playing = false;
  label();
}
document.getElementById("controls").addEventListener("input", stop);
addEventListener("popstate", stop);

const land = plot("landscape");
land.tabIndex = 0;
land.setAttribute("role", "application");
land.setAttribute("aria-description", "The arrow keys move the missing record.");

function star() {
  const layout = land._fullLayout;
  const trace = land.data?.[figure("landscape")?.layout.meta.target_trace];
  if (!layout || !trace) return null;
  const [x, y] = [trace.x, trace.y].map(one => one._inputArray?.[0] ?? one[0]);
  return { x, y, left: layout.xaxis.l2p(x) + layout._size.l, top: layout.yaxis.l2p(y) + layout._size.t, layout };
}

function place(event) {
  const box = land.getBoundingClientRect();
  return { left: event.clientX - box.left, top: event.clientY - box.top };
}

function isNear(event) {
  const at = star(), press = place(event);
  return at && Math.hypot(at.left - press.left, at.top - press.top) < NEAR;
}

function shown() {
  return value("p") === "2" ? [0, 1] : [Number(value("x")) - 1, Number(value("y")) - 1];
}

// the record's values as they are written, one a column
function targets() {
  const texts = value("target").split(/[\s,;]+/).filter(Boolean);
  while (texts.length < Number(value("p"))) texts.push(texts.at(-1));
  return texts.slice(0, Number(value("p")));
}

function moved(x, y, lasting) {
  const texts = targets();
  [x, y].forEach((one, axis) => { texts[shown()[axis]] = String(Number(one.toPrecision(4))); });
  change({ target: texts.join(", ") }, lasting);
}

land.addEventListener("pointerdown", event => {
  if (!isNear(event)) return;
  event.preventDefault();
  event.stopPropagation();
  stop();
  land.setPointerCapture(event.pointerId);
  held = star().layout;
  hold("landscape", [[...held.xaxis.range], [...held.yaxis.range]]);
}, true);
land.addEventListener("touchstart", event => { if (isNear(event.touches[0])) event.preventDefault(); }, { passive: false });
land.addEventListener("pointermove", event => {
  if (!held) { land.style.cursor = isNear(event) ? "grab" : ""; return; }
  const at = place(event), { xaxis, yaxis, _size } = held;
  moved(xaxis.p2l(at.left - _size.l), yaxis.p2l(at.top - _size.t), false);
}, true);
for (const end of ["pointerup", "pointercancel"]) {
  land.addEventListener(end, () => {
    if (!held) return;
    held = null;
    hold("landscape", null);
    keep();
  }, true);
}

// the arrow keys move the star by a fiftieth of the picture
land.addEventListener("keydown", event => {
  const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
  const at = star();
  if (!step || !at) return;
  event.preventDefault();
  stop();
  const [width, height] = [at.layout.xaxis, at.layout.yaxis].map(axis => Math.abs(axis.range[1] - axis.range[0]) / 50);
  const [x, y] = shown().map(column => Number(targets()[column])); // which may be ahead of the picture
  moved(x + step[0] * width, y + step[1] * height, false);
});
land.addEventListener("keyup", event => { if (event.key.startsWith("Arrow")) keep(); });
