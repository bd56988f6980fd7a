// Upload: send a file, or take the demo cohort; the next step looks at it.
import { fetched } from "./answers.js";
import { forget, show, start } from "./page.js";

const by = id => document.getElementById(id);

start();

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
  const found = await fetched(`/upload/upload?${about}`, { method: "POST", body: file });
  by("uploading").textContent = "";
  // nothing that was chosen of another table is taken along
  if (found?.fields) location.assign(`/mend?${new URLSearchParams({ table: found.fields.table })}`);
  else if (found) await show(found);
}

by("demo").addEventListener("click", () => location.assign("/mend"));
by("file").addEventListener("change", async ({ target }) => {
  if (!target.files.length) return;
  await send(target.files[0]);
  target.value = ""; // that the same file, corrected, can be sent again
});
for (const kind of ["dragover", "drop"]) {
  by("drop").addEventListener(kind, event => {
    event.preventDefault();
    if (kind === "drop" && event.dataTransfer.files.length) send(event.dataTransfer.files[0]);
  });
}
