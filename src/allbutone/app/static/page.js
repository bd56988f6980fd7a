// A page's state is its address: controls change it, answers follow it.
import { busy, fetched, parsed, SILENT, wait } from "./answers.js";
import { draw } from "./figures.js";
import { offer } from "./tables.js";

const form = document.getElementById("controls");
const error = document.getElementById("error");
const results = document.getElementById("results");

const MOMENT = 300; // milliseconds

let state = new URLSearchParams(location.search);
let sources = [];
let beforehand = () => {}; // what a page does with an answer before and after it is drawn
let afterwards = () => {};
const problems = new Map(); // what is wrong, and with which field, by the source that says so

// Starts the page. Its sources are declared on the server, each as {path, fields, later}: an answer, the fields that it
// depends on, and whether it is asked for only when the others are drawn.
export function start(after = () => {}, before = () => {}) {
  sources = JSON.parse(form.dataset.sources).map(source => ({ ...source, asked: null, next: null, control: null, since: 0 }));
  [beforehand, afterwards] = [before, after];
  busy(0);
  fill();
  // some of its controls stand elsewhere on the page
  document.addEventListener("input", event => { if (event.target.form === form) take(event.target, false); });
  document.addEventListener("change", event => { if (event.target.form === form) take(event.target, true); });
  form.addEventListener("submit", event => event.preventDefault());
  addEventListener("popstate", () => { state = new URLSearchParams(location.search); fill(); ask(); });
  remember();
  if (matchMedia("(max-width: 900px)").matches) {
    document.querySelectorAll("details.more").forEach(part => { part.open = false; });
  }
  stay();
  ask();
}

// of a field that is named twice the last counts, as on the server
export const value = name => state.getAll(name).at(-1) ?? form.elements[name]?.dataset?.default ?? "";

// Changes fields; `lasting` changes go into the address and its history, passing ones only to the server.
export function change(fields, lasting = true) {
  set(fields);
  fill();
  if (lasting) keep();
  ask();
}

// Sets fields, and those that depend on them as the server has declared: some go back to what is usual, and some take
// the value of another when they come to be shown.
function set(fields) {
  const hidden = [...form.elements].filter(control => control.dataset.beginsAs && !isShown(control));
  for (const [name, text] of Object.entries(fields)) {
    for (const control of form.elements) if (control.dataset.resetBy === name) state.delete(control.name);
    put(name, text);
  }
  for (const control of hidden.filter(isShown)) put(control.name, value(control.dataset.beginsAs));
}

// Says whether a control, or whatever else has a condition, is shown: `kind=datasets`, `p!=1|2`.
function isShown(part) {
  const condition = part.closest("[data-only]")?.dataset.only;
  if (!condition) return true;
  const [, name, unless, wanted] = condition.match(/^(\w+)(!?)=(.*)$/);
  return wanted.split("|").includes(value(name)) !== Boolean(unless);
}

export function keep() {
  const address = location.pathname + (state.size ? `?${state}` : "");
  if (address !== location.pathname + location.search) history.pushState(null, "", address);
  remember();
  carry();
}

// Who looks beside the path finds the way back to the same table and choices: in this tab, as long as it is open.
function remember() {
  if (document.getElementById("chip")) sessionStorage.setItem("path", location.search);
  else for (const link of document.querySelectorAll(".path a, .brand")) link.search = sessionStorage.getItem("path") ?? "";
}

// Goes to another step with the state of this one, and some fields changed.
export function go(step, fields = {}) {
  set(fields);
  location.assign(`/${step}${state.size ? `?${state}` : ""}`);
}

// Asks anew what depends on more than the address.
export function askAgain(...paths) {
  for (const source of sources) if (paths.includes(source.path)) source.asked = null;
  ask();
}

function put(name, text) {
  if (Array.isArray(text)) { // ticks, none of which stands for all
    state.delete(name);
    for (const one of text) state.append(name, one);
    return;
  }
  const control = form.elements[name];
  const usual = (control instanceof RadioNodeList ? control[0] : control)?.dataset?.default;
  if (text === usual || (text === "" && usual === undefined)) state.delete(name); else state.set(name, text);
}

function take(control, lasting) {
  const twin = control.dataset.for ? form.elements[control.dataset.for] : control;
  if (!twin.name) return;
  if (control !== twin) twin.value = control.value;
  if (twin.dataset.many !== undefined) {
    const boxes = [...form.elements].filter(box => box.name === twin.name);
    state.delete(twin.name);
    const on = boxes.filter(box => box.checked);
    if (on.length < boxes.length) for (const box of on) state.append(twin.name, box.value);
    if (!on.length) state.append(twin.name, ""); // silence means all
  } else {
    set({ [twin.name]: twin.type === "checkbox" ? (twin.checked ? "yes" : "no") : twin.value });
  }
  fill(control);
  if (lasting) keep();
  // typing is followed when it is done, moving a slider while it moves
  if (lasting || control.type === "range") ask();
}

// Shows the state in the controls, but for the one that is being used.
function fill(but = null) {
  for (const control of form.elements) {
    if (control === but) continue;
    const name = control.dataset.for ?? control.name;
    if (!name) continue;
    if (control.dataset.many !== undefined) {
      control.checked = !state.has(name) || state.getAll(name).includes(control.value);
    } else if (control.type === "checkbox") control.checked = value(name) === "yes";
    else if (control.type !== "file" && control.value !== value(name)) {
      const text = value(name);
      if (control.options && ![...control.options].some(one => one.value === text)) control.add(new Option(text, text));
      control.value = text;
    }
  }
  for (const part of document.querySelectorAll("[data-only]")) part.hidden = !isShown(part);
  carry();
}

// Says whether a name is among fields; `low-` stands for `low-1`, `low-2`, …
const takes = (fields, name) => fields.includes(name) || fields.includes(name.replace(/-\d+$/, "-"));

// Links to other pages take along what those understand.
function carry() {
  for (const link of document.querySelectorAll(document.getElementById("chip") ? "nav a[data-carry]" : "nav:not(:has(.path)) a[data-carry]")) {
    const carried = link.dataset.carry.split(" ").filter(Boolean);
    const kept = new URLSearchParams([...state].filter(([name]) => takes(carried, name)));
    link.href = link.pathname + (kept.size ? `?${kept}` : "");
  }
  for (const link of document.querySelectorAll("a.csv, a[data-state]")) link.search = `${state}`;
}

// Asks every source whose part of the state has changed: one question at a time, the latest first.
function ask() {
  forget();
  for (const source of sources) {
    const query = new URLSearchParams([...state].filter(([name]) => takes(source.fields, name)));
    const address = `${location.pathname}/${source.path}?${query}`;
    if (address === (source.next ?? source.asked)) continue;
    source.next = address;
    if (!source.control && !source.later) follow(source);
    else if (source.control && performance.now() - source.since > 500) source.control.abort();
  }
  askLater();
}

// What can come later waits until all else is drawn, and nothing has moved for a moment.
function askLater() {
  const late = sources.filter(source => source.later && source.next && !source.control && !source.waits);
  for (const source of late) {
    source.waits = true;
    busy(1);
    setTimeout(() => {
      source.waits = false;
      if (sources.some(other => other.control && !other.later)) askLater();
      else follow(source);
      busy(-1);
    }, MOMENT);
  }
}

async function follow(source) {
  busy(1);
  document.body.classList.add(`asking-${source.path}`);
  try {
    while (source.next) {
      source.asked = source.next;
      source.next = null;
      source.control = new AbortController();
      source.since = performance.now();
      const found = await fetched(source.asked, { signal: source.control.signal });
      if (found?.lost) source.asked = null; // to be asked again
      if (found) await show(found, source);
    }
  } finally {
    source.control = null;
    document.body.classList.remove(`asking-${source.path}`);
    busy(-1);
  }
}

export async function show(found, source = null) {
  busy(1);
  try {
    complain(source?.path ?? "action", found);
    for (const [id, html] of Object.entries(found.parts ?? {})) written(document.getElementById(id), html);
    if (found.parts) fill(document.activeElement);
    beforehand(found);
    await Promise.all(Object.entries(found.figures ?? {}).map(([name, figure]) => draw(name, figure)));
    afterwards(found, source);
    document.body.dataset.answers = Number(document.body.dataset.answers ?? 0) + 1;
  } finally {
    busy(-1);
  }
}

const steady = new WeakMap(); // what was last written to places that keep their controls while it is the same

// What is written anew keeps the focus, and its tables can be taken home.
function written(place, html) {
  if (place.dataset.steady !== undefined) {
    if (steady.get(place) === html) return;
    steady.set(place, html);
  }
  const focused = document.activeElement?.id;
  place.innerHTML = html;
  offer(place);
  if (focused && document.activeElement?.id !== focused) document.getElementById(focused)?.focus({ preventScroll: true });
}

// Forgets what was wrong with what was last done; with `all`, whatever was wrong.
export function forget(all = false) {
  if (all) problems.clear();
  complain("action", {});
}

// Notes what is wrong with a source, or that nothing is; what is new goes to the end.
function complain(who, found) {
  if (problems.get(who)?.error !== found.error) problems.delete(who);
  if (found.error) problems.set(who, found);
  tell();
}

// Says what is wrong, of several things the latest: under the field that it is about, where that can be seen.
function tell() {
  const problem = [...problems.values()].at(-1), was = error.textContent;
  const field = problem?.field && [...form.elements].find(control => control.name === problem.field && control.type !== "hidden");
  const place = field?.closest(".control");
  if (place && place.nextElementSibling !== error) place.after(error);
  else if (!place && error.parentElement !== results) results.prepend(error);
  error.hidden = !problem;
  error.textContent = problem?.error ?? "";
  const wrong = new Set([...problems.values()].map(each => each.field).filter(Boolean)); // boxes share a name
  for (const control of form.elements) {
    const isWrong = wrong.has(control.name);
    if (isWrong) control.setAttribute("aria-invalid", "true"); else control.removeAttribute("aria-invalid");
    if (isWrong && control === field) control.setAttribute("aria-errormessage", "error"); else control.removeAttribute("aria-errormessage");
  }
  if (!problem || problem.error === was) return;
  for (let fold = place?.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  error.scrollIntoView({ block: "nearest" });
}

// While this connection is open the server keeps what was uploaded. When it comes back, what was lost is asked again.
function stay(again = false) {
  const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/here`);
  socket.addEventListener("open", () => { if (again) ask(); });
  socket.addEventListener("close", () => setTimeout(() => stay(true), 2000));
}

// One help is open at a time, beside its word, wherever that moves; Escape and a click elsewhere close it, and scrolling
// its word out of sight.
const close = but => document.querySelectorAll(".help[open]").forEach(help => { help.open = help === but; });
function beside(help) {
  const word = help.querySelector("summary").getBoundingClientRect(), words = help.querySelector("p");
  const [wide, high] = [document.documentElement.clientWidth, document.documentElement.clientHeight];
  words.style.left = `${Math.max(8, Math.min(word.left, wide - words.offsetWidth - 8))}px`;
  const below = word.bottom + 6;
  words.style.top = `${below + words.offsetHeight > high ? Math.max(8, word.top - 6 - words.offsetHeight) : below}px`;
}
document.addEventListener("toggle", event => {
  if (!event.target.matches(".help[open]")) return;
  close(event.target);
  beside(event.target);
}, true);
document.addEventListener("keydown", event => {
  const open = document.querySelector(".help[open]");
  if (event.key !== "Escape" || !open) return;
  close(null);
  open.querySelector("summary").focus();
});
document.addEventListener("click", event => { if (!event.target.closest(".help")) close(null); });
// also of what scrolls within the page, and where an answer that comes moves the word
for (const moves of ["scroll", "resize"]) addEventListener(moves, stayBeside, { capture: true, passive: true });
new ResizeObserver(stayBeside).observe(document.body);
function stayBeside() {
  const help = document.querySelector(".help[open]");
  if (!help) return;
  const word = help.querySelector("summary").getBoundingClientRect();
  if (word.bottom < 0 || word.top > document.documentElement.clientHeight) close(null); else beside(help);
}

// A button that sets fields, as the server has declared them.
document.addEventListener("click", event => {
  const button = event.target.closest("[data-fields]");
  if (button) change(JSON.parse(button.dataset.fields));
});

// A file is fetched, so that what is wrong with it is said in the page; while it is being made, that is said, too.
document.addEventListener("click", async event => {
  const link = event.target.closest("a[download]");
  if (!link || link.href.startsWith("blob:") || link.href.startsWith("data:")) return;
  event.preventDefault();
  busy(1);
  wait(link.href, { step: `Preparing ${link.pathname.split("/").at(-1)}` });
  try {
    const response = await fetch(link.href);
    if (!response.ok) { await show(parsed(await response.text())); return; }
    const url = URL.createObjectURL(await response.blob());
    const name = response.headers.get("content-disposition").match(/filename="(.*)"/)[1];
    Object.assign(document.createElement("a"), { href: url, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
    document.dispatchEvent(new CustomEvent("taken", { detail: name }));
  } catch {
    await show({ error: SILENT });
  } finally {
    wait(link.href, null);
    busy(-1);
  }
});
