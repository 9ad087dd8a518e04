// A map without a map service: country outlines that came with the gateway, the devices' trails, and where each was last.
// A sink's points can be coloured by a column; the address keeps which, and the legend says what the colours mean.
// MapLibre runs from its own files under the strict policy (no blob: worker). Where there is no WebGL, the table has it all.

const box = document.getElementById("map");
const root = document.documentElement;
const EVERY_MS = 3000; // how often results are asked for again at most
const colour = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();
const chooser = document.getElementById("colour");
const byId = (id) => document.getElementById(id);
const empty = { type: "FeatureCollection", features: [] };

const valued = ["==", ["typeof", ["get", "share"]], "number"];
const ramp = () => ["interpolate", ["linear"], ["get", "share"], ...[1, 2, 3, 4, 5].flatMap((step) => [(step - 1) / 4, colour(`scale-${step}`)])];

const radius = (factor) => ["case", valued, ["interpolate", ["linear"], ["get", "share"], 0, 4.5 * factor, 1, 7.5 * factor], 4.5 * factor];
const DENSE = 200; // with more points they are smaller, so that they hide less of each other

function note(words) {
  const element = document.createElement("p");
  element.className = "map-note";
  element.textContent = words;
  box.replaceChildren(element);
}

function style(outline) {
  return {
    version: 8,
    sources: {
      outline: { type: "geojson", data: outline, attribution: "Outlines: Natural Earth" },
      grid: { type: "geojson", data: graticule() },
      devices: { type: "geojson", data: empty },
    },
    layers: [
      { id: "sea", type: "background", paint: { "background-color": colour("map-sea") } },
      { id: "land", type: "fill", source: "outline", paint: { "fill-color": colour("map-land") } },
      { id: "grid", type: "line", source: "grid", paint: { "line-color": colour("map-line"), "line-width": 0.5, "line-opacity": 0.6 } },
      { id: "border", type: "line", source: "outline", paint: { "line-color": colour("map-line"), "line-width": 1 } },
      { id: "trail", type: "line", source: "devices", filter: ["==", ["geometry-type"], "LineString"], layout: { "line-cap": "round", "line-join": "round" },
        paint: { "line-color": ["case", ["get", "stale"], colour("faint"), colour("series-1")], "line-width": ["case", ["has", "faint"], 1.5, 2.5], "line-opacity": ["case", ["has", "faint"], 0.3, 0.75] } },
      { id: "live", type: "circle", source: "devices", filter: ["all", ["==", ["geometry-type"], "Point"], ["has", "live"]], // a ring: not yet part of results
        paint: { "circle-radius": 12, "circle-color": "transparent", "circle-stroke-width": 2, "circle-stroke-color": colour("series-1") } },
      { id: "value", type: "circle", source: "devices", filter: ["all", ["==", ["geometry-type"], "Point"], ["has", "share"]], // larger where there is more
        paint: { "circle-radius": radius(1), "circle-color": ["case", valued, ramp(), colour("card")],
          "circle-stroke-width": ["case", valued, 1, 2], "circle-stroke-color": ["case", valued, colour("scale-edge"), colour("faint")] } },
      { id: "place", type: "circle", source: "devices", filter: ["all", ["==", ["geometry-type"], "Point"], ["!", ["has", "share"]]],
        paint: { "circle-radius": 6.5, "circle-color": ["case", ["get", "stale"], colour("card"), colour("series-1")], "circle-stroke-width": 2.5, "circle-stroke-color": ["case", ["get", "stale"], colour("faint"), colour("card")] } },
    ],
  };
}

// Lines of latitude and longitude, closer together around where somebody may zoom in: the only scale a bare map has.
function graticule() {
  const features = [];
  const line = (coordinates) => features.push({ type: "Feature", properties: {}, geometry: { type: "LineString", coordinates } });
  for (let lon = -180; lon <= 180; lon += 10) line([[lon, -85], [lon, 85]]);
  for (let lat = -80; lat <= 80; lat += 10) line([[-180, lat], [180, lat]]);
  return { type: "FeatureCollection", features };
}

function fineGrid(bounds) {
  const span = Math.max(bounds.getEast() - bounds.getWest(), 1e-4);
  const step = 10 ** Math.floor(Math.log10(span)) / 2;
  if (step >= 5) return graticule();
  const features = [];
  const line = (coordinates) => features.push({ type: "Feature", properties: {}, geometry: { type: "LineString", coordinates } });
  const [west, east, south, north] = [bounds.getWest() - span, bounds.getEast() + span, bounds.getSouth() - span, bounds.getNorth() + span];
  for (let lon = Math.ceil(west / step) * step; lon <= east; lon += step) line([[lon, south], [lon, north]]);
  for (let lat = Math.ceil(south / step) * step; lat <= north; lat += step) line([[west, lat], [east, lat]]);
  return { type: "FeatureCollection", features };
}

function extent(features) {
  const points = features.flatMap(({ geometry }) => (geometry.type === "Point" ? [geometry.coordinates] : geometry.coordinates));
  const lons = points.map(([lon]) => lon);
  const lats = points.map(([, lat]) => lat);
  const min = (values) => values.reduce((a, b) => Math.min(a, b));
  const max = (values) => values.reduce((a, b) => Math.max(a, b));
  return [[min(lons), min(lats)], [max(lons), max(lats)]];
}

async function read() {
  const address = new URL(box.dataset.map, location.href);
  if (chooser?.value) address.searchParams.set("colour", chooser.value);
  const answer = await fetch(address, { headers: { Accept: "application/json" } });
  if (answer.ok || !chooser?.value) return answer.json();
  legend(null, (await answer.json()).detail ?? "The gateway refused this.");
  address.searchParams.delete("colour");
  return (await fetch(address, { headers: { Accept: "application/json" } })).json();
}

// What the colours mean: where the scale begins and ends, what is beyond it, and what has no value.
const digits = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
const count = new Intl.NumberFormat("en");
const points = (number) => `${count.format(number)} ${number === 1 ? "point" : "points"}`;

function legend(scale, problem = "") {
  const words = [];
  byId("scale").hidden = !scale && !problem;
  byId("scale-title").hidden = !scale;
  byId("scale-bar").hidden = !scale || scale.low === null;
  byId("scale-missing").hidden = !scale?.missing;
  if (problem) words.push(problem);
  if (scale) {
    byId("scale-title").textContent = scale.column;
    byId("scale-low").textContent = scale.below ? `≤ ${digits.format(scale.low)}` : digits.format(scale.low);
    byId("scale-high").textContent = scale.above ? `≥ ${digits.format(scale.high)}` : digits.format(scale.high);
    byId("scale-missing").lastElementChild.textContent = `no value: ${points(scale.missing)}`;
    if (scale.low === null) words.push("No point has a number here.");
    else if (scale.least === scale.most) words.push(`All points have ${digits.format(scale.least)}.`);
    else words.push(`From ${digits.format(scale.least)} to ${digits.format(scale.most)} in ${points(scale.points - scale.missing)}; larger points have more.`);
    if (scale.below + scale.above) words.push(`${points(scale.below + scale.above)} beyond an end of the scale ${scale.below + scale.above === 1 ? "has" : "have"} its colour.`);
  }
  byId("scale-note").textContent = words.join(" ");
}

// The choice stays in the address, and goes along to other times and pages of this sink.
function keep() {
  const set = (text) => {
    const address = new URL(text, location.href);
    if (chooser.value) address.searchParams.set("colour", chooser.value);
    else address.searchParams.delete("colour");
    return address.pathname + address.search + address.hash;
  };
  if (location.pathname + location.search + location.hash !== set(location.href)) history.replaceState(null, "", set(location.href));
  for (const link of document.querySelectorAll("a[data-keeps]")) link.href = set(link.href);
  byId("range-colour").value = chooser.value;
  byId("range-colour").disabled = !chooser.value;
}

async function show() {
  const library = await import(box.dataset.library);
  library.setWorkerUrl(box.dataset.worker);
  const outline = await (await fetch(box.dataset.outline)).json();
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const map = new library.Map({
    container: box, style: style(outline), center: [8, 47], zoom: 2, maxZoom: 17, attributionControl: { compact: true },
    dragRotate: false, pitchWithRotate: false, cooperativeGestures: true, fadeDuration: still ? 0 : 200,
  });
  map.addControl(new library.NavigationControl({ showCompass: false }), "top-right");
  map.addControl(new library.ScaleControl({}), "bottom-left");
  map.touchZoomRotate.disableRotation();
  await map.once("load");
  const labels = new Map();
  const refresh = async (first) => {
    const data = await read();
    map.getSource("devices").setData(data);
    const places = data.features.filter(({ geometry, properties }) => geometry.type === "Point" && !properties.earlier);
    const dense = (data.scale?.points ?? 0) > DENSE;
    map.setPaintProperty("value", "circle-radius", radius(dense ? 0.6 : 1));
    map.setPaintProperty("value", "circle-stroke-width", ["case", valued, dense ? 0.5 : 1, dense ? 1.5 : 2]);
    if (data.scale || (chooser && !chooser.value)) legend(data.scale ?? null);
    if (first && data.features.length) map.fitBounds(extent(data.features), { padding: 56, maxZoom: 15, animate: false });
    if (places.length <= 40) showLabels(library, map, labels, places);
  };
  await refresh(true);
  const grid = () => map.getSource("grid").setData(fineGrid(map.getBounds()));
  map.on("moveend", grid);
  grid();
  for (const layer of ["place", "value"]) {
    map.on("click", layer, ({ features: [{ properties, geometry }] }) => {
      if (properties.id) location.assign(`/devices/${encodeURIComponent(properties.id)}`);
      else new library.Popup({ offset: 10, maxWidth: "260px" }).setLngLat(geometry.coordinates).setDOMContent(about(properties)).addTo(map);
    });
    map.on("mouseenter", layer, () => { map.getCanvas().classList.add("over-place"); });
    map.on("mouseleave", layer, () => { map.getCanvas().classList.remove("over-place"); });
  }
  let asked = 0;
  const again = async () => {
    if (document.hidden || Date.now() - asked < (box.dataset.changes ? EVERY_MS : 0)) return;
    asked = Date.now();
    await refresh(false);
  };
  document.body.addEventListener(`changed-${box.dataset.changes ?? "devices"}`, again);
  chooser?.addEventListener("change", () => refresh(false));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", async () => {
    map.setStyle(style(outline));
    await map.once("styledata");
    refresh(false);
  });
  await map.once("idle");
  box.dataset.state = "shown";
}

function showLabels(library, map, labels, places) {
  for (const { properties, geometry } of places) {
    const key = `${properties.id} ${properties.name}`; // a sink's places may share an id
    let label = labels.get(key);
    if (!label) {
      const element = document.createElement("span");
      element.className = "map-label";
      label = new library.Marker({ element, anchor: "left", offset: [12, 0] }).setLngLat(geometry.coordinates).addTo(map);
      labels.set(key, label);
    }
    label.getElement().textContent = properties.live ? `${properties.name} (live)` : properties.name;
    label.getElement().classList.toggle("stale", properties.stale);
    label.setLngLat(geometry.coordinates);
  }
}

// What a point of a sink is, for whoever clicks on it.
function about({ name, at_us, value, share }) {
  const element = document.createElement("p");
  element.className = "map-about";
  const lines = [name, new Date(at_us / 1000).toLocaleString("en-GB")];
  if (share !== undefined) lines.push(`${chooser.value}: ${typeof value === "number" ? digits.format(value) : "no value"}`);
  for (const line of lines) element.append(Object.assign(document.createElement("span"), { textContent: line }));
  return element;
}

function hasWebgl() {
  try {
    return Boolean(document.createElement("canvas").getContext("webgl2"));
  } catch {
    return false;
  }
}

if (chooser) {
  keep();
  chooser.addEventListener("change", keep);
  document.addEventListener("fragment", keep);
}
if (hasWebgl()) show().catch(() => note("The map could not be drawn; the table has the same devices."));
else note("This browser draws no maps (WebGL is off); the table has the same devices.");
