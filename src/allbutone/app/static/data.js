// Your data: send a file, choose its columns, open a record.
import { fetched } from "./answers.js";
import { change, forget, show, start, value } from "./page.js";
import { plot } from "./figures.js";

const by = id => document.getElementById(id);
let from = null; // the row's button that opened a record

start(answered);

// what was said of another table must not stand under this one's name
let shownTable = value("table");
function blank() {
  if (shownTable === value("table")) return;
  shownTable = value("table");
  forget(true);
  for (const id of ["plan", "judged"]) by(id).hidden = true;
  by("declared-note").innerHTML = "";
  by("verdict").innerHTML = '<p class="quiet">The budget is being computed …</p>';
}
addEventListener("popstate", blank);

function answered(found, source) {
  for (const [path, id] of [["budget", "plan"], ["model", "judged"]]) {
    if (source?.path !== path || found.error || !by(id).hidden) continue;
    by(id).hidden = false;
    dispatchEvent(new Event("resize")); // its figures had no width
  }
  if (source?.path === "answer") {
    const was = by("found").hidden || by("measured-alone").hidden;
    by("found").hidden = by("said").hidden = Boolean(found.error);
    by("measured-alone").hidden = Boolean(by("mixed").firstElementChild);
    if (was && !found.error) dispatchEvent(new Event("resize")); // figures drawn meanwhile had no width
    listen();
  }
  if (source?.path === "record") {
    const was = by("ground").hidden;
    by("ground").hidden = Boolean(by("record").firstElementChild) && !by("axis-x"); // nothing to draw of one column
    if (was && !by("ground").hidden) dispatchEvent(new Event("resize"));
    if (from && by("record").querySelector(`[data-opened="${value("row")}"]`)) by("opened-name").focus();
    from = null;
  }
  mark();
}

// which row is open, and whether the budget is that of what is shown
function mark() {
  by("opened-name").textContent = `Row ${value("row")}`;
  for (const button of document.querySelectorAll("#ranking [aria-pressed]")) {
    const isOpen = button.id === `row-${value("row")}`;
    button.setAttribute("aria-pressed", String(isOpen));
    button.closest("tr").classList.toggle("open", isOpen);
  }
  const [now, then] = ["#mixed [data-mark], #ranking [data-mark]", "#verdict [data-mark]"]
    .map(place => document.querySelector(place)?.dataset.mark);
  for (const id of ["verdict", "plan"]) {
    by(id).classList.toggle("stale", Boolean(then) && now !== then);
    by(id).setAttribute("aria-busy", String(now !== then));
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

by("results").addEventListener("click", event => {
  const row = event.target.closest("tr[data-row]");
  if (row) open(row.dataset.row);
  const shown = event.target.closest("[data-shown]");
  if (shown) change({ shown: shown.dataset.shown });
});
by("results").addEventListener("change", event => {
  const field = event.target.dataset.field;
  if (field) change({ [field]: event.target.value });
});
by("close").addEventListener("click", () => {
  const button = by(`row-${value("row")}`);
  change({ row: "" });
  mark();
  (button ?? by("results")).focus();
});
by("doubt").addEventListener("click", event => {
  const button = event.target.closest("[data-measured]");
  if (button) change({ measured: button.dataset.measured });
});
by("demo").addEventListener("click", () => turn("cohort"));

function turn(table) {
  change({ table });
  blank();
}

async function send(file) {
  forget();
  const limit = Number(by("drop").dataset.limit);
  const size = `${(file.size / 1e6).toLocaleString("en", { maximumFractionDigits: 1 })} MB`;
  if (file.size > limit) {
    await show({ error: `${file.name} has ${size}, more than the app takes; the command line takes files of any size` });
    return;
  }
  by("uploading").textContent = `Reading ${file.name}, ${size} …`;
  const about = new URLSearchParams({
    name: file.name,
    header: by("header").checked ? "yes" : "no",
    encoding: by("encoding").value,
    sheet: by("sheet").value,
  });
  const found = await fetched(`${location.pathname}/upload?${about}`, { method: "POST", body: file });
  by("uploading").textContent = "";
  if (found?.fields) turn(found.fields.table);
  else if (found) await show(found);
}

// what is declared of the columns: filled in from a table file, or with what is proposed
async function declare(path, name, body) {
  forget();
  const about = new URLSearchParams(location.search);
  about.set("name", name);
  const found = await fetched(`${location.pathname}/${path}?${about}`, { method: "POST", body });
  if (found?.fields) change(found.fields);
  if (found) await show(found);
}
by("propose").addEventListener("click", () => declare("propose", "", ""));

for (const [id, take] of [["file", send], ["table-file", sent => declare("declare", sent.name, sent)]]) {
  by(id).addEventListener("change", async ({ target }) => {
    if (!target.files.length) return;
    await take(target.files[0]);
    target.value = ""; // that the same file, corrected, can be sent again
  });
}
for (const kind of ["dragover", "drop"]) {
  by("drop").addEventListener(kind, event => {
    event.preventDefault();
    if (kind === "drop" && event.dataTransfer.files.length) send(event.dataTransfer.files[0]);
  });
}
