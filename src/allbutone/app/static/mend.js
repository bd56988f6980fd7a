// Mend: what stands in the way is a list of buttons, which the page itself follows; here table files are read.
import { fetched } from "./answers.js";
import { change, forget, show, start } from "./page.js";

start(answered, beforeDrawing);

// what was judged before, and is not any more, is not shown
function beforeDrawing(found) {
  if (found.parts?.fit === undefined) return;
  for (const one of document.querySelectorAll("#judged [data-figure]")) one.hidden = !found.figures?.[one.dataset.figure];
}

// where something stands in the way there is nothing to judge, and nothing to go on with
function answered(found, source) {
  if (source?.path !== "standing") return;
  const stands = Boolean(found.error || document.getElementById("hindrances"));
  document.getElementById("judged").hidden = stands;
  document.getElementById("next").classList.toggle("main", !stands);
}

document.getElementById("table-file").addEventListener("change", async ({ target }) => {
  if (!target.files.length) return;
  forget();
  const about = new URLSearchParams(location.search);
  about.set("name", target.files[0].name);
  const found = await fetched(`/mend/declare?${about}`, { method: "POST", body: target.files[0] });
  target.value = ""; // that the same file, corrected, can be read again
  if (found?.fields) change(found.fields);
  if (found) await show(found);
});
