// Every table can be taken home as CSV: what is shown, with all digits; a link of its own gives what is not shown, too.
const quoted = text => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

// Adds a button to the captions of tables that have no link yet.
export function offer(place) {
  for (const caption of place.querySelectorAll("caption")) {
    if (caption.querySelector(".csv") || caption.parentElement.dataset.plain !== undefined) continue;
    const button = Object.assign(document.createElement("button"), { type: "button", className: "csv", textContent: "CSV" });
    button.setAttribute("aria-label", `CSV of: ${caption.textContent.trim()}`);
    caption.append(" ", button);
  }
}

function textOf(cell) {
  const copy = cell.cloneNode(true);
  copy.querySelectorAll(".help").forEach(help => help.remove());
  return cell.dataset.value ?? copy.textContent.trim().replace(/\s+/g, " ");
}

document.addEventListener("click", event => {
  const button = event.target.closest("button.csv");
  if (!button) return;
  const rows = [...button.closest("table").rows].map(row => [...row.cells].map(textOf).map(quoted).join(","));
  const file = new Blob([`${rows.join("\n")}\n`], { type: "text/csv" });
  const name = button.getAttribute("aria-label").replace(/^CSV of: /, "").replace(/\W+/g, "-").toLowerCase().slice(0, 50);
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(file), download: `${name}.csv` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
});
