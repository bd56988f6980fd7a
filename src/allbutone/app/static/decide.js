// Decide: the page to sign is printed, and what was taken home counts.
import { askAgain, start } from "./page.js";

start();

document.getElementById("results").addEventListener("click", event => { if (event.target.id === "print") print(); });
document.addEventListener("taken", event => { if (event.detail === "release.zip") askAgain("after", "chip"); });
