// One sink's values as lines by key; asked for again when the gateway says that results have changed. Dragging across
// them opens the page for that time.

import { ResultLines } from "./charts.js";
import { choose, chosen } from "./range.js";

const LEAST_MS = 1000; // a shorter time is a slip of the hand, and no window is that short
const element = document.getElementById("chart");
const column = document.getElementById("column");
const whole = chosen.from || chosen.to;
const lines = new ResultLines(element, {
  windows: whole ? Infinity : undefined,
  from: chosen.from && chosen.from / 1000,
  to: chosen.to && chosen.to / 1000,
  zoom(fromS, toS) {
    const [from, to] = [Math.floor(fromS) * 1000, Math.ceil(toS) * 1000];
    if (to - from >= LEAST_MS) choose(new Date(from), new Date(to));
  },
  reset: () => whole && choose(),
});
let view = { lines: [], hidden: 0, newest: null };

function note() {
  const words = [];
  if (view.newest !== null && whole) words.push(`The newest ${view.newest.toLocaleString("en")} rows of this time are drawn; choose a shorter one for others.`);
  else if (lines.cut) words.push("The newest windows are drawn; choose a time for others.");
  if (view.hidden) words.push(view.hidden === 1 ? "1 more key is in the table and the exports." : `${view.hidden} more keys are in the table and the exports.`);
  document.getElementById("chart-note").textContent = words.join(" ");
}

function show() {
  const shown = view.lines.map(({ label, points }) => ({
    label,
    points: new Map(points.filter((point) => typeof point[column.value] === "number").map((point) => [point.at, point[column.value]])),
  }));
  lines.show(shown, column.value);
  note();
}

async function refresh() {
  if (document.hidden) return;
  const answer = await fetch(element.dataset.series, { headers: { Accept: "application/json" } });
  if (!answer.ok) return;
  view = await answer.json();
  show();
}

refresh();
column.addEventListener("change", show);
document.body.addEventListener("changed-results", refresh);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => lines.redraw());
