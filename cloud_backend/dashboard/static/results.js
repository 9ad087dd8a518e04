// One sink's values as lines by key; asked for again when the gateway says that results have changed.

import { ResultLines } from "./charts.js";

const element = document.getElementById("chart");
const column = document.getElementById("column");
const lines = new ResultLines(element);
let view = { lines: [], hidden: 0 };

function show() {
  const shown = view.lines.map(({ label, points }) => ({
    label,
    points: new Map(points.filter((point) => typeof point[column.value] === "number").map((point) => [point.at, point[column.value]])),
  }));
  lines.show(shown, column.value);
  document.getElementById("chart-note").textContent = view.hidden ? `${view.hidden === 1 ? "1 more key is" : `${view.hidden} more keys are`} in the table and the exports.` : "";
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
