// Keeps the overview in step with the gateway: one server-sent event a second, none while nobody looks.

import { Arrivals, ResultLines, drawAccount, seriesNumber } from "./charts.js";
import { follow } from "./page.js";

const HISTORY_S = 300;
const byId = (id) => document.getElementById(id);
const number = new Intl.NumberFormat("en");
const clock = (us) => new Date(us / 1000).toLocaleTimeString("en-GB");

const arrivals = new Arrivals(byId("arrivals"));
const resultLines = new ResultLines(byId("results"));
const counts = new Map(); // phone id -> Map(second -> elements)
const answers = new Map(); // sink -> Map(identity -> row)
let view = null;
let events = 0;

function ago(us, nowUs) {
  const seconds = Math.max(0, Math.round((nowUs - us) / 1e6));
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  return clock(us);
}

function keepArrivals({ from, counts: fresh }) {
  for (const [phone, values] of Object.entries(fresh)) {
    const history = counts.get(phone) ?? new Map();
    counts.set(phone, history);
    values.forEach((value, index) => history.set(from + index, value));
    for (const second of history.keys()) {
      if (second >= from - HISTORY_S * 2) break;
      history.delete(second);
    }
  }
}

function keepResults(rows) {
  for (const row of rows) {
    const sink = answers.get(row.sink) ?? new Map();
    answers.set(row.sink, sink);
    const identity = JSON.stringify([row.key, row.window_start_us, row.window_end_us]);
    if (row.retract) sink.delete(identity);
    else sink.set(identity, row);
  }
}

function showAccount(account) {
  for (const part of ["produced", "delivered", "spooled", "ledgered", "duplicates"]) {
    byId(`account-${part}`).textContent = number.format(account[part]);
  }
  byId("account-duplicates").parentElement.classList.toggle("wrong", account.duplicates > 0);
  drawAccount(byId("account-bar"), account);
}

function cell(label, content, className = "") {
  const td = document.createElement("td");
  td.className = className;
  td.dataset.label = label;
  td.append(content);
  return td;
}

function text(content, className) {
  const span = document.createElement("span");
  span.className = className;
  span.textContent = content;
  return span;
}

function phoneRow(phone, index, nowUs) {
  const name = text("", "phone-name");
  const id = document.createElement("small");
  id.textContent = phone.id.slice(0, 8);
  const link = document.createElement("a");
  link.href = `/devices/${encodeURIComponent(phone.id)}`;
  link.className = "name";
  link.textContent = phone.name;
  name.append(text("", `key key-${seriesNumber(index)}`), link, id);
  const contact = phone.connected
    ? text("connected", "contact")
    : text(phone.since_us ? `offline since ${clock(phone.since_us)}` : "not seen yet", "contact offline");
  const buffered = document.createElement("span");
  buffered.append(number.format(phone.buffered));
  if (phone.unheard) buffered.append(text(` + about ${number.format(phone.unheard)} since`, "muted"));
  const row = document.createElement("tr");
  row.append(
    cell("Phone", name, "wide"),
    cell("Contact", contact, "wide"),
    cell("Lane", phone.lane),
    cell("Buffered", buffered, "right"),
    cell("Delivered", number.format(phone.delivered), "right"),
    cell("Ledgered", number.format(phone.ledgered), "right"),
    cell("Outages", number.format(phone.outage_count), "right"),
    cell("Last receipt", phone.last_receipt_us ? ago(phone.last_receipt_us, nowUs) : text("none yet", "muted"), "right"),
  );
  return row;
}

function fillChoice(select, names) {
  const wanted = names.join("\n");
  if (select.dataset.names === wanted) return;
  const chosen = select.value;
  select.dataset.names = wanted;
  select.replaceChildren(...names.map((name) => new Option(name, name)));
  if (names.includes(chosen)) select.value = chosen;
}

function lineLabel(row) {
  const rest = row.key.filter((part) => part !== row.device);
  return [row.name, ...rest].filter((part) => part !== "").join(", ") || row.sink;
}

// What goes back to phones comes first: it is what the program is for.
function byInterest(a, b) {
  const goesDown = (sink) => (answers.get(sink).values().next().value?.device ? 0 : 1);
  return goesDown(a) - goesDown(b) || b.localeCompare(a);
}

function showResults() {
  const sinks = [...answers.keys()].filter((sink) => answers.get(sink).size).sort(byInterest);
  byId("results-empty").hidden = sinks.length > 0;
  byId("results-choice").hidden = sinks.length === 0;
  if (!sinks.length) return;
  fillChoice(byId("results-sink"), sinks);
  const rows = [...answers.get(byId("results-sink").value).values()];
  const columns = Object.keys(rows[0].values).filter((name) => typeof rows[0].values[name] === "number");
  fillChoice(byId("results-column"), columns);
  const column = byId("results-column").value;
  const lines = new Map();
  for (const row of rows) {
    const key = JSON.stringify(row.key);
    const line = lines.get(key) ?? { label: lineLabel(row), points: new Map() };
    line.index = view.phones.findIndex((phone) => phone.id === row.device);
    if (line.index < 0) delete line.index;
    line.points.set(row.window_end_us / 1e6, row.values[column]);
    lines.set(key, line);
  }
  const unlisted = (line) => (line.index === undefined ? 1 : 0);
  const shown = [...lines.values()]
    .sort((a, b) => unlisted(a) - unlisted(b) || a.label.localeCompare(b.label))
    .slice(0, 6);
  resultLines.show(shown, column);
  const total = view.sinks[byId("results-sink").value] ?? rows.length;
  byId("results-hint").textContent = `${number.format(total)} windows closed so far, by the end of each window.`;
}

// A few phones have a track each; a fleet has one for all.
function showArrivals() {
  const few = view.phones_count <= 6;
  const any = few ? counts.size > 1 : true;
  byId("arrivals-empty").hidden = any && view.phones_count > 0;
  if (!view.phones_count) return;
  const tracks = few ? view.phones : [{ id: "all", name: `All ${number.format(view.phones_count)} devices`, outages: [] }];
  byId("arrivals-hint").textContent = few ? "Elements per second by phone." : "Elements per second over all devices.";
  arrivals.show(tracks, counts, Math.floor(view.now_us / 1e6));
}

function show() {
  byId("headline").textContent = view.headline;
  byId("subline").textContent = view.subline;
  showAccount(view.account);
  byId("phones-empty").hidden = view.phones.length > 0;
  byId("phones").replaceChildren(...view.phones.map((phone, index) => phoneRow(phone, index, view.now_us)));
  byId("phones-all").hidden = view.phones.length === view.phones_count;
  byId("phones-all").textContent = `All ${number.format(view.phones_count)} devices`;
  showArrivals();
  showResults();
}

follow("/v1/overview/stream", {
  overview(fresh) {
    view = fresh;
    keepArrivals(view.arrivals);
    keepResults(view.results);
    show();
    events += 1;
    if (events % 5 === 0) document.body.dispatchEvent(new CustomEvent("changed-issues"));
  },
});
for (const id of ["results-sink", "results-column"]) byId(id).addEventListener("change", showResults);
const redraw = () => {
  arrivals.redraw();
  resultLines.redraw();
  if (view) showAccount(view.account);
};
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
addEventListener("resize", redraw);
