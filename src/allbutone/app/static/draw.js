// Draw: what to expect, and a draw that asks twice where someone is exposed; what came of it is the next step.
import { fetched } from "./answers.js";
import { go, show, start } from "./page.js";

const button = document.getElementById("draw");
const dialog = document.getElementById("confirm");
let drawing = false;

start(answered);

function answered(found, source) {
  if (source?.path === "table") button.disabled = Boolean(found.error || document.querySelector("[data-too-large]"));
}

button.addEventListener("click", () => draw());

async function draw(confirm = "") {
  if (drawing) return;
  drawing = true;
  button.setAttribute("aria-busy", "true");
  const body = new URLSearchParams({ confirm });
  const found = await fetched(`/draw/draw${location.search}`, { method: "POST", body });
  button.removeAttribute("aria-busy");
  drawing = false;
  if (found?.parts?.confirm) warn(found.parts.confirm);
  else if (found?.fields?.drawn) go("decide", found.fields);
  else await show(found ?? {});
}

// Names whom it exposes; drawing all the same takes a tick and another button.
function warn(html) {
  dialog.innerHTML = html;
  const [known, cancel, anyway] = ["known", "cancel", "anyway"].map(id => document.getElementById(id));
  known.addEventListener("change", () => { anyway.disabled = !known.checked; });
  cancel.addEventListener("click", () => dialog.close());
  anyway.addEventListener("click", () => { dialog.close(); draw(anyway.value); });
  dialog.showModal();
  cancel.focus();
}

addEventListener("popstate", () => dialog.close());
dialog.addEventListener("close", () => { dialog.replaceChildren(); button.focus(); });
