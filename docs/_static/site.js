// The theme's buttons that unfold a part of the menu have no names.
document.addEventListener("DOMContentLoaded", () => {
  for (const toggle of document.querySelectorAll("summary .toctree-toggle")) {
    const name = toggle.closest("li")?.querySelector("a")?.textContent ?? "";
    toggle.parentElement.setAttribute("aria-label", `Pages below ${name}`);
  }
});
