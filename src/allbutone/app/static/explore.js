// Explore: drag the record, play the growing release, draw another table.
import { change, keep, start, value } from "./page.js";
import { figure, hold, plot } from "./figures.js";

const NEAR = 28; // pixels within which a press takes hold of the star
const play = document.getElementById("play");
let playing = false;
let found = false; // whether Play has come to where the adversary finds you, and may go on from there
let held = null; // the picture at the moment the star was taken

start(answered, beforeDrawing);

document.getElementById("again").addEventListener("click", () => {
  change({ seed: String(crypto.getRandomValues(new Uint32Array(1))[0]) });
});

// Play tells who you are and what is known without a release, then releases more and more until the adversary finds you;
// from there on it goes to the end.
play.addEventListener("click", () => {
  playing = !playing;
  found = found && playing && Number(value("count")) < Number(value("most"));
  label();
  if (!playing) { tell(0); keep(); } else if (found) next(true);
  else begin();
});

async function begin() {
  const quick = matchMedia("(prefers-reduced-motion: reduce)").matches;
  for (const step of quick ? [] : [1, 2]) {
    tell(step);
    await new Promise(done => { setTimeout(done, 1600); });
    if (!playing) return;
  }
  tell(0);
  if (Number(value("count")) === 1) next(false); // nothing would change, so nothing would be answered
  else change({ count: "1" }, false);
}

// Lets one step of the story stand out, or, with 0, the one that the attack has reached.
function tell(step) {
  const place = document.getElementById("story");
  if (step) place.dataset.telling = step; else delete place.dataset.telling;
}

function next(on) {
  const count = Number(value("count"));
  const most = Number(value("most"));
  const step = figure("landscape")?.layout.meta.step;
  if (count >= most || (step === 5 && !on && !found)) {
    found = step === 5;
    stop();
    document.getElementById("played").textContent = found ? `found after ${count}` : `not found after ${count}`;
    keep();
    return;
  }
  document.getElementById("played").textContent = `${count} released`;
  requestAnimationFrame(() => { if (playing) change({ count: String(Math.min(most, count + (count < 100 ? 1 : 10))) }, false); });
}

function label() {
  const on = found && Number(value("count")) < Number(value("most"));
  play.setAttribute("aria-pressed", String(playing));
  play.textContent = playing ? "Stop" : on ? `Play on to ${value("most")}` : "Play: until the adversary finds you";
  if (!playing) document.getElementById("played").textContent = "";
}

function answered(given, source) {
  mark();
  if (!playing || source?.path !== "answer") return;
  if (given.error) { stop(); keep(); } else next(false);
}

// the present count on the curve: of one that is about to be drawn, or moved on one that stands
function beforeDrawing(given) {
  const shapes = given.figures?.curve?.layout.shapes ?? [];
  for (const shape of shapes.filter(one => one.name === "present")) shape.x0 = shape.x1 = Number(value("count"));
}

function mark() {
  const curve = plot("curve");
  const shapes = curve.layout?.shapes ?? [];
  const place = shapes.findIndex(shape => shape.name === "present");
  const count = Number(value("count"));
  if (place >= 0 && shapes[place].x0 !== count) {
    Plotly.relayout(curve, { [`shapes[${place}].x0`]: count, [`shapes[${place}].x1`]: count });
  }
}

function stop() {
  playing = false;
  tell(0);
  label();
}

// anything else that is done stops the play, and begins another story
function leave() {
  found = false;
  stop();
}
document.getElementById("controls").addEventListener("input", leave);
addEventListener("popstate", leave);

const land = plot("landscape");
land.tabIndex = 0;
land.setAttribute("role", "application");
land.setAttribute("aria-description", "The arrow keys move the missing record.");

// The picture as it stands: the box that the axes span, and their ranges; and where the star is, in the axes' numbers.
function picture() {
  const { xaxis, yaxis } = land.layout ?? {};
  const box = land.querySelector(".nsewdrag")?.getBoundingClientRect();
  const target = figure("landscape")?.layout.meta.target;
  return xaxis && box && target ? { box, x: [...xaxis.range], y: [...yaxis.range], target } : null;
}

const between = (share, [from, to]) => from + share * (to - from);
const share = (number, [from, to]) => (number - from) / (to - from);

function isNear(event) {
  const at = picture();
  if (!at) return false;
  const left = between(share(at.target[0], at.x), [at.box.left, at.box.right]);
  const top = between(share(at.target[1], at.y), [at.box.bottom, at.box.top]);
  return Math.hypot(left - event.clientX, top - event.clientY) < NEAR;
}

// the record's values as they are written, one a column
function targets() {
  const texts = value("target").split(/[\s,;]+/).filter(Boolean);
  while (texts.length < Number(value("p"))) texts.push(texts.at(-1));
  return texts.slice(0, Number(value("p")));
}

const shown = () => figure("landscape").layout.meta.shown; // the columns across and upwards, or the one

function moved(x, y, lasting) {
  const texts = targets();
  shown().forEach((column, axis) => { texts[column] = String(Number([x, y][axis].toPrecision(4))); });
  // what comes back while the picture stands still fills it
  change({ target: texts.join(", "), held: held ? [...held.x, ...held.y].join(",") : "" }, lasting);
}

land.addEventListener("pointerdown", event => {
  if (!isNear(event)) return;
  event.preventDefault();
  event.stopPropagation();
  leave();
  land.setPointerCapture(event.pointerId);
  held = { ...picture(), from: [event.clientX, event.clientY] };
  hold("landscape", [held.x, held.y]);
}, true);
land.addEventListener("touchstart", event => { if (isNear(event.touches[0])) event.preventDefault(); }, { passive: false });
land.addEventListener("pointermove", event => {
  if (!held) { land.style.cursor = isNear(event) ? "grab" : ""; return; }
  // by how far the pointer has moved: the picture itself moves where the caption takes another line
  const { box, from, target } = held;
  const across = (event.clientX - from[0]) / box.width * (held.x[1] - held.x[0]);
  const upwards = (from[1] - event.clientY) / box.height * (held.y[1] - held.y[0]);
  moved(target[0] + across, target[1] + upwards, false);
}, true);
for (const end of ["pointerup", "pointercancel"]) {
  land.addEventListener(end, () => {
    if (!held) return;
    held = null;
    hold("landscape", null);
    change({ held: "" });
  }, true);
}

// the arrow keys move the star by a fiftieth of the picture
land.addEventListener("keydown", event => {
  const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
  const at = picture();
  if (!step || !at) return;
  event.preventDefault();
  leave();
  const [width, height] = [at.x, at.y].map(([from, to]) => Math.abs(to - from) / 50);
  const [x, y = 0] = shown().map(column => Number(targets()[column])); // which may be ahead of the picture
  moved(x + step[0] * width, y + step[1] * height, false);
});
land.addEventListener("keyup", event => { if (event.key.startsWith("Arrow")) keep(); });
