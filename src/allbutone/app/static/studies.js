// Studies: which study, which figure of it, which rows of its table.
import { change, start } from "./page.js";

const form = document.getElementById("controls");
const study = document.getElementById("study");
const CHOICES = ["figure", "release", "p", "n", "count", "rows", "verdict"];
const FILTERS = CHOICES.slice(1);

start(study ? [
  { path: "choices", without: CHOICES }, { path: "figure", without: FILTERS }, { path: "table", without: ["figure"] },
] : []);

// another study has other figures and other cells
study?.addEventListener("change", event => {
  event.stopPropagation();
  const usual = CHOICES.filter(name => form.elements[name]).map(name => [name, form.elements[name].dataset.default]);
  change({ ...Object.fromEntries(usual), study: study.value });
});
