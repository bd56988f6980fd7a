// Figures: drawn as they come, in the colours of the page; saved in those of paper.
const CONFIG = { displayModeBar: false, responsive: true };
const drawn = new Map();
const dark = matchMedia("(prefers-color-scheme: dark)");

// every colour of paper that would not be seen, or would glare, on a dark page
const NIGHT = {
  "#222222": "#E8E8E8", "#555555": "#B4B8BE", "#9A9A9A": "#8C9199", "#EBEBEB": "#33373E", white: "#16181C",
  "#0072B2": "#4FA8E0", "#D55E00": "#FF8A3D",
  "#F4F8FC": "#171B21", "#DEEBF7": "#1A222C", "#C9DDF0": "#1C2B3A", "#A8CEE5": "#1F3A52", "#7FB9DA": "#22507A",
  "#57A0CE": "#2A6CA3", "#3787C0": "#438FCB", "#1C6AAF": "#74B6E8", "#08306B": "#C4E3FA",
  "#FFFFFF": "#1F2227", "#F2F2F2": "#16181C", "#7FB8D8": "#2A6288", "#EAAE7F": "#9C5A28",
};

function inColours(value) {
  if (!dark.matches) return value;
  if (typeof value === "string") {
    return NIGHT[value] ?? value.replace(/#[0-9A-Fa-f]{6}/g, colour => NIGHT[colour.toUpperCase()] ?? colour);
  }
  if (Array.isArray(value)) return value.map(inColours);
  if (value && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, key === "bdata" ? one : inColours(one)]));
  }
  return value;
}

const ranges = new Map(); // of axes that stay as they are, by figure

export const plot = name => document.querySelector(`[data-figure="${name}"] .plot`);
export const figure = name => drawn.get(name);

// Lets the axes of a figure stay as they are, or, with null, follow what is drawn next.
export function hold(name, axes) {
  if (axes) ranges.set(name, axes); else ranges.delete(name);
}

export async function draw(name, given) {
  const place = plot(name);
  if (!place) return;
  drawn.set(name, given);
  const layout = { ...given.layout, title: undefined }; // said in the caption
  const message = layout.meta?.message ?? "";
  place.closest("figure").querySelector("figcaption").textContent = message;
  // a finger that scrolls must not zoom
  if (matchMedia("(pointer: coarse)").matches) layout.dragmode = false;
  const [x, y] = ranges.get(name) ?? [layout.xaxis?.range, layout.yaxis?.range];
  if (x && y) {
    layout.xaxis = { ...layout.xaxis, range: x };
    layout.yaxis = { ...layout.yaxis, range: y };
  }
  if (layout.height) place.style.height = place.style.minHeight = `${layout.height}px`;
  await Plotly.react(place, inColours(given.data), { ...inColours(layout), autosize: true, width: undefined }, CONFIG);
}

dark.addEventListener("change", () => { for (const [name, given] of drawn) draw(name, given); });

// what was drawn in a closed part had no width
document.addEventListener("toggle", event => {
  for (const one of event.target.querySelectorAll("[data-figure] .plot")) if (one.offsetWidth && one.data) Plotly.Plots.resize(one);
}, true);

async function save(name, format) {
  const given = drawn.get(name);
  if (!given) return;
  const message = given.layout.meta?.message ?? "";
  const lines = message.replace(/&/g, "&amp;").replace(/</g, "&lt;").match(/.{1,90}(\s|$)/g) ?? [];
  const top = (given.layout.margin?.t ?? 40) + 26 * lines.length + 14;
  const layout = {
    ...given.layout, margin: { ...given.layout.margin, t: top },
    title: { text: lines.join("<br>"), x: 0.02, xanchor: "left", y: 0.98, yanchor: "top", font: { size: 17 } },
  };
  const height = (given.layout.height ?? 480) + top;
  const options = { format, width: 1000, height, scale: format === "png" ? 2 : 1 };
  const url = await Plotly.toImage({ data: given.data, layout }, options);
  const link = Object.assign(document.createElement("a"), { href: url, download: `${name}.${format}` });
  link.click();
}

document.addEventListener("click", event => {
  const button = event.target.closest("[data-save]");
  if (button) save(button.closest("[data-figure]").dataset.figure, button.dataset.save);
});
