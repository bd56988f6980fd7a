// Budget: try what would allow more, and open a record.
import { fetched } from "./answers.js";
import { change, go, show, start, value } from "./page.js";
import { plot } from "./figures.js";

const by = id => document.getElementById(id);
let from = null; // the row's button that opened a record

start(answered);

function answered(found, source) {
  if (source?.path === "budget") {
    const was = by("found").hidden;
    by("found").hidden = by("switches").hidden = Boolean(found.error);
    if (was && !found.error) dispatchEvent(new Event("resize")); // figures drawn meanwhile had no width
    if (found.error) by("verdict").replaceChildren();
  }
  if (source?.path === "people" && !found.error) {
    by("measured-alone").hidden = Boolean(document.querySelector("#people [data-mixed]"));
    listen();
  }
  if (source?.path === "record") {
    const was = by("ground").hidden;
    const nothing = Boolean(by("record").firstElementChild) && !by("axis-x"); // nothing to draw of one column
    by("ground").hidden = nothing;
    by("experts").hidden = !by("measures").firstElementChild;
    if (was && !nothing) dispatchEvent(new Event("resize"));
    if (from && by("record").querySelector(`[data-opened="${value("row")}"]`)) by("opened-name").focus();
    from = null;
  }
  mark();
}

// which row is open
function mark() {
  const named = by(`row-${value("row")}`)?.dataset.who ?? `row ${value("row")}`;
  by("opened-name").textContent = named[0].toUpperCase() + named.slice(1);
  for (const button of document.querySelectorAll("#ranking [aria-pressed]")) {
    const isOpen = button.id === `row-${value("row")}`;
    button.setAttribute("aria-pressed", String(isOpen));
    button.closest("tr").classList.toggle("open", isOpen);
  }
}

function open(row) {
  from = `row-${row}`;
  change({ row: String(row) });
  mark();
}

// the figure can be listened to once it is drawn
function listen() {
  const dots = plot("records");
  if (!dots.on || dots.dataset.heard) return;
  dots.dataset.heard = "yes";
  dots.on("plotly_click", event => {
    const row = event.points.find(point => point.customdata)?.customdata;
    if (row) open(row);
  });
}

by("results").addEventListener("click", async event => {
  const row = event.target.closest("tr[data-row]");
  if (row) open(row.dataset.row);
  const shown = event.target.closest("[data-shown]");
  if (shown) change({ shown: shown.dataset.shown });
  if (event.target.id === "apply") apply();
});
by("results").addEventListener("change", event => {
  const { field, try: key } = event.target.dataset;
  if (field) change({ [field]: event.target.value });
  if (key) change({ try: tried(event.target, key).join(",") });
});

// of sizes one at most
function tried(box, key) {
  const on = [...document.querySelectorAll("[data-try]")].filter(each => each.checked).map(each => each.dataset.try);
  const size = box.checked && key.startsWith("size-");
  return on.filter(each => !size || each === key || !each.startsWith("size-"));
}

async function apply() {
  const found = await fetched(`/budget/apply${location.search}`, { method: "POST" });
  if (found?.fields?.prior) go("mend", found.fields); // whose numbers are asked for there
  else if (found?.fields) change(found.fields);
  else if (found) await show(found);
}

by("close").addEventListener("click", () => {
  const button = by(`row-${value("row")}`);
  change({ row: "" });
  mark();
  (button ?? by("results")).focus();
});
