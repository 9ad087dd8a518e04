// One device's arrivals, as on the overview: asked for every two seconds while somebody looks.

import { Arrivals } from "./charts.js";

const element = document.getElementById("arrivals");
const chart = new Arrivals(element);

async function refresh() {
  if (document.hidden) return;
  const answer = await fetch(element.dataset.arrivals, { headers: { Accept: "application/json" } });
  if (!answer.ok) return;
  const view = await answer.json();
  const phone = { id: "one", name: view.name, outages: view.outages };
  chart.show([phone], new Map([["one", new Map(view.counts.map((count, index) => [view.from + index, count]))]]), view.now_s);
}

refresh();
document.body.addEventListener("changed-devices", refresh);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => chart.redraw());
