// A map without a map service: country outlines that came with the gateway, the devices' trails, and where each was last.
// MapLibre runs from its own files under the strict policy (no blob: worker). Where there is no WebGL, the table has it all.

const box = document.getElementById("map");
const root = document.documentElement;
const colour = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();
const empty = { type: "FeatureCollection", features: [] };

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
        paint: { "line-color": ["case", ["get", "stale"], colour("faint"), colour("series-1")], "line-width": 2.5, "line-opacity": 0.75 } },
      { id: "live", type: "circle", source: "devices", filter: ["all", ["==", ["geometry-type"], "Point"], ["has", "live"]], // a ring: not yet part of results
        paint: { "circle-radius": 12, "circle-color": "transparent", "circle-stroke-width": 2, "circle-stroke-color": colour("series-1") } },
      { id: "place", type: "circle", source: "devices", filter: ["==", ["geometry-type"], "Point"],
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

const read = async () => (await fetch(box.dataset.map, { headers: { Accept: "application/json" } })).json();

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
    const places = data.features.filter(({ geometry }) => geometry.type === "Point");
    if (first && data.features.length) map.fitBounds(extent(data.features), { padding: 56, maxZoom: 15, animate: false });
    if (places.length <= 40) showLabels(library, map, labels, places);
  };
  await refresh(true);
  const grid = () => map.getSource("grid").setData(fineGrid(map.getBounds()));
  map.on("moveend", grid);
  grid();
  map.on("click", "place", ({ features: [{ properties }] }) => location.assign(`/devices/${encodeURIComponent(properties.id)}`));
  map.on("mouseenter", "place", () => { map.getCanvas().classList.add("over-place"); });
  map.on("mouseleave", "place", () => { map.getCanvas().classList.remove("over-place"); });
  document.body.addEventListener("changed-devices", () => refresh(false));
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

function hasWebgl() {
  try {
    return Boolean(document.createElement("canvas").getContext("webgl2"));
  } catch {
    return false;
  }
}

if (hasWebgl()) show().catch(() => note("The map could not be drawn; the table has the same devices."));
else note("This browser draws no maps (WebGL is off); the table has the same devices.");
