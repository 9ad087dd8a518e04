// The three drawings of the overview. Colours come from the stylesheet, so light and dark need no code here.

const HISTORY_S = 300;
const HISTORY_S_MIN = 60;
const TRACK_HEIGHT = 92;
const TRACK_HEIGHT_MANY = 58; // more than three tracks must fit beside the results
const SERIES = 6;
const WINDOWS_SHOWN = 60; // of a sink, the newest; more make a thicket of six lines
const WINDOWS_DOTTED = 120; // with more, the dots run into each other
const DAY_S = 86400;
const DRAG_PX = 8; // less is a click

const root = document.documentElement;
const colour = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();
export const seriesNumber = (index) => (index % SERIES) + 1;
const seriesColour = (index) => colour(`series-${seriesNumber(index)}`);
const translucent = (hex, alpha) => hex + Math.round(alpha * 255).toString(16).padStart(2, "0");
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString("en-GB");
const clockShort = (seconds) => clock(seconds).slice(0, 5);

function axis(overrides) {
  return {
    stroke: () => colour("faint"),
    font: "11px system-ui, sans-serif",
    grid: { stroke: () => colour("grid"), width: 1 },
    ticks: { show: false },
    ...overrides,
  };
}

const day = (seconds) => new Date(seconds * 1000).toLocaleDateString("en-GB", { day: "numeric", month: "short" });

function timeLabels(plot, splits) {
  if (splits.at(-1) - splits[0] >= DAY_S) {
    const wholeDays = splits.every((second) => clockShort(second) === "00:00");
    return splits.map((second) => (wholeDays ? day(second) : `${day(second)}\n${clockShort(second)}`));
  }
  const wholeMinutes = splits.every((second) => second % 60 === 0);
  return splits.map((second) => (wholeMinutes ? clockShort(second) : clock(second)));
}

// Labels with the day have a second line.
const timeHeight = (plot, labels) => (labels?.some((label) => label.includes("\n")) ? 46 : 28);

function firstArrival(history) {
  for (const [second, elements] of history) if (elements) return [second];
  return [];
}

// Hatched, not only tinted: an outage must be seen without telling colours apart.
function hatch(context, left, top, width, height) {
  context.save();
  context.beginPath();
  context.rect(left, top, width, height);
  context.clip();
  context.strokeStyle = colour("hatch");
  context.lineWidth = 2 * devicePixelRatio;
  const step = 7 * devicePixelRatio;
  context.beginPath();
  for (let x = left - height; x < left + width; x += step) {
    context.moveTo(x, top + height);
    context.lineTo(x + height, top);
  }
  context.stroke();
  context.restore();
}

// One track per phone under a common time axis: elements per second, and where there was no contact.
export class Arrivals {
  constructor(element) {
    this.element = element;
    this.tracks = new Map();
    new ResizeObserver(() => this.resize()).observe(element);
  }

  show(phones, counts, nowS) {
    // A young gateway's chart begins with its first arrival, not with minutes of nothing.
    const first = Math.min(...[...counts.values()].flatMap((history) => firstArrival(history)));
    const startS = Math.max(nowS - HISTORY_S, Math.min(first - 5, nowS - HISTORY_S_MIN));
    for (const [id, track] of this.tracks) {
      if (phones.some((phone) => phone.id === id)) continue;
      track.plot.destroy();
      track.box.remove();
      this.tracks.delete(id);
    }
    phones.slice(0, SERIES).forEach((phone, index) => {
      const last = index === Math.min(phones.length, SERIES) - 1;
      let track = this.tracks.get(phone.id);
      if (track && track.last !== last) {
        track.plot.destroy();
        track.box.remove();
        track = undefined;
      }
      if (!track) {
        track = this.addTrack(phone, index, last, phones.length > 3 ? TRACK_HEIGHT_MANY : TRACK_HEIGHT);
        this.tracks.set(phone.id, track);
      }
      track.phone = phone;
      track.name.textContent = phone.name;
      const history = counts.get(phone.id) ?? new Map();
      const seconds = [];
      const values = [];
      for (let second = startS; second < nowS; second += 1) {
        seconds.push(second);
        values.push(history.get(second) ?? 0);
      }
      const recent = values.slice(-60).reduce((sum, value) => sum + value, 0) / 60;
      track.rate.textContent = `${recent.toFixed(1)} per second over the last minute`;
      track.plot.setData([seconds, values]);
    });
  }

  addTrack(phone, index, last, height) {
    const box = document.createElement("div");
    box.className = "track";
    const label = document.createElement("div");
    label.className = "track-name";
    const name = document.createElement("b");
    const rate = document.createElement("span");
    label.append(name, rate);
    box.append(label);
    this.element.append(box);
    const track = { box, name, rate, last, phone };
    const paths = uPlot.paths.stepped({ align: 1 });
    track.plot = new uPlot({
      width: Math.max(this.element.clientWidth, 200),
      height: last ? height + 22 : height,
      legend: { show: false },
      cursor: { sync: { key: "arrivals" }, y: false, points: { size: 6 } },
      padding: [6, 6, last ? 0 : 7, 0],
      // A backlog arrives hundreds at a time beside a steady one per second; asinh shows both, and zero.
      scales: { x: { time: true }, y: { distr: 4, asinh: 1, range: (plot, min, max) => [0, Math.max(max, 4)] } },
      axes: [
        axis({ show: last, size: 24, values: timeLabels, space: 56 }),
        axis({
          size: 38,
          splits: (plot) => [0, 1, 10, 100, 1000, 10000].filter((value) => value <= plot.scales.y.max),
          filter: (plot, splits) => splits,
          values: (plot, splits) => splits.map((value) => compact.format(value)),
        }),
      ],
      series: [{}, {
        label: phone.name,
        stroke: () => seriesColour(index),
        fill: () => translucent(seriesColour(index), 0.2),
        width: 1.5,
        paths,
        points: { show: false },
      }],
      hooks: { drawClear: [(plot) => this.drawOutages(plot, track)] },
    }, [[], []], box);
    return track;
  }

  drawOutages(plot, track) {
    const { left, top, width, height } = plot.bbox;
    for (const [startUs, endUs] of track.phone.outages) {
      const from = Math.max(plot.valToPos(startUs / 1e6, "x", true), left);
      const to = endUs === null ? left + width : Math.min(plot.valToPos(endUs / 1e6, "x", true), left + width);
      if (to > from) hatch(plot.ctx, from, top, to - from, height);
    }
  }

  resize() {
    for (const track of this.tracks.values()) {
      track.plot.setSize({ width: this.element.clientWidth, height: track.plot.height });
    }
  }

  redraw() {
    for (const track of this.tracks.values()) track.plot.redraw(false);
  }
}

// One column of one sink over the end of its windows, a line per key. `from` and `to` are the ends of the time that was
// chosen, null where it is open; with `zoom`, dragging chooses a time and a double click asks for all of it.
export class ResultLines {
  constructor(element, { windows = WINDOWS_SHOWN, from = null, to = null, zoom = null, reset = null } = {}) {
    this.element = element;
    this.shape = "";
    this.cut = false; // whether there are more windows than are drawn
    Object.assign(this, { windows, from, to, zoom, reset });
    new ResizeObserver(() => this.plot?.setSize({ width: element.clientWidth, height: this.height() })).observe(element);
  }

  height() {
    return Math.max(260, Math.min(this.element.clientWidth * 0.62, 340));
  }

  // lines: [{label, points: Map(second -> value)}]
  show(lines, column) {
    const all = [...new Set(lines.flatMap((line) => [...line.points.keys()]))].sort((a, b) => a - b);
    const ends = all.slice(-this.windows);
    this.cut = ends.length < all.length;
    const data = [ends, ...lines.map((line) => ends.map((end) => line.points.get(end) ?? null))];
    const dotted = ends.length <= WINDOWS_DOTTED;
    const shape = JSON.stringify([column, dotted, lines.map((line) => line.label)]);
    if (shape !== this.shape) {
      this.plot?.destroy();
      this.shape = shape;
      this.plot = new uPlot({
        width: Math.max(this.element.clientWidth, 200),
        height: this.height(),
        padding: [10, 28, 0, 0],
        legend: { live: false },
        cursor: this.zoom ? { y: false, drag: { x: true, y: false, setScale: false, dist: DRAG_PX }, bind: { dblclick: () => () => this.reset() } } : { y: false },
        hooks: this.zoom ? { setSelect: [(plot) => this.choose(plot)] } : {},
        scales: { x: { time: true, range: (plot, min, max) => this.span(min, max) }, y: { range: (plot, min, max) => [Math.min(min, 0), max > 0 ? max * 1.12 : 1] } },
        axes: [
          axis({ size: timeHeight, values: timeLabels, space: 56 }),
          axis({ size: 46, values: (plot, splits) => splits.map((value) => compact.format(value)) }),
        ],
        series: [{}, ...lines.map((line, index) => ({
          label: line.label,
          stroke: () => seriesColour(line.index ?? index),
          width: 2,
          dash: [[], [6, 3], [2, 3]][(line.index ?? index) % 3],
          spanGaps: true,
          points: { show: dotted, size: 6, fill: () => colour("card") },
        }))],
      }, data, this.element);
    } else {
      this.plot.setData(data);
    }
  }

  // The chosen time as far as it has ends; without a width there would be no axis.
  span(min, max) {
    const [from, to] = [this.from ?? min, this.to ?? max];
    return from < to ? [from, to] : from === null || to === null ? [from, to] : [from - 30, to + 30];
  }

  choose(plot) {
    const { left, width } = plot.select;
    if (width < DRAG_PX) return;
    const [from, to] = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
    plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
    if (plot.data[0].some((end) => end >= from && end <= to)) this.zoom(from, to);
  }

  redraw() {
    this.plot?.redraw(false);
  }
}

// The account as one bar: what is where.
export function drawAccount(canvas, account) {
  const width = canvas.clientWidth * devicePixelRatio;
  const height = 10 * devicePixelRatio;
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d");
  context.beginPath();
  context.roundRect(0, 0, width, height, height / 2);
  context.clip();
  context.fillStyle = colour("grid");
  context.fillRect(0, 0, width, height);
  let left = 0;
  for (const part of ["delivered", "spooled", "ledgered"]) {
    if (!account[part] || !account.produced) continue;
    // A part that exists is never too thin to see.
    const share = Math.max((account[part] / account.produced) * width, 3 * devicePixelRatio);
    context.fillStyle = colour(part);
    context.fillRect(left, 0, share, height);
    left += share + devicePixelRatio;
  }
}
