// Answers on their way: how many there are, how far the slow ones are, and what is said where none comes.
const waiting = document.getElementById("waiting");
const steps = new Map(); // how far slow answers are, by what was asked
let pending = 0;

export const SILENT = "The app does not answer. Is it still running in the terminal?";

// Notes on the page how many answers are on their way or being drawn.
export function busy(more) {
  pending += more;
  document.body.dataset.pending = pending;
}

// Fetches an answer, showing its progress; a failure is an answer, too.
export async function fetched(address, options = {}) {
  busy(1);
  try {
    const response = await fetch(address, options);
    let found = {};
    for await (const line of linesOf(response)) {
      found = parsed(line);
      if ("step" in found) wait(address, found);
    }
    return found;
  } catch (fault) {
    if (fault.name === "AbortError") return null;
    return { error: SILENT, lost: true };
  } finally {
    wait(address, null);
    busy(-1);
  }
}

// Gives the lines of an answer: one that is finished at once, one that is being worked on as they come.
async function* linesOf(response) {
  if (response.headers.has("content-length")) {
    yield* (await response.text()).split("\n").filter(Boolean);
    return;
  }
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader(); // over which Safari cannot iterate
  for (let text = ""; ;) {
    const { value: piece, done } = await reader.read();
    if (done) return;
    const lines = (text + piece).split("\n");
    text = lines.pop();
    yield* lines;
  }
}

export function parsed(line) {
  try { return JSON.parse(line); } catch { return { error: "Something went wrong in the app; the terminal says what" }; }
}

// Shows how far the slow answer to an address is; with null, that it has come.
export function wait(address, found) {
  if (found) steps.set(address, found); else steps.delete(address);
  const [progress] = steps.values();
  waiting.hidden = !progress;
  if (!progress) return;
  const bar = waiting.querySelector("progress");
  if (progress.parts) { bar.max = progress.parts; bar.value = progress.done; } else bar.removeAttribute("value");
  const tried = progress.parts || !progress.done ? "" : ` (${progress.done} done)`;
  waiting.querySelector("span").textContent = `${progress.step}${tried} …`;
}
