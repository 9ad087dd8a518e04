// Drag a vertex to another node: what that would do is asked for, as the form in the table does. Nothing moves before
// somebody has read it and said yes.

const THRESHOLD = 6; // pixels: less is a click

let dragged = null; // {chip, box, scale, x, y, under}

function nodeUnder(event, box) {
  const found = document.elementFromPoint(event.clientX, event.clientY)?.closest("[data-node]");
  return found && box.contains(found) ? found : null;
}

function mark(under) {
  if (dragged.under === under) return;
  dragged.under?.classList.remove("target");
  dragged.under = under;
  if (under && under.dataset.node !== dragged.chip.dataset.leaving) under.classList.add("target");
}

function end() {
  dragged?.under?.classList.remove("target");
  dragged?.chip.classList.remove("dragged");
  dragged?.chip.removeAttribute("transform");
  dragged = null;
}

function ask(box, chip, to) {
  const form = document.createElement("form");
  form.method = "post";
  form.action = box.dataset.moves;
  const { query, vertex, leaving } = chip.dataset;
  const csrf = document.querySelector('meta[name="csrf"]').content;
  for (const [name, value] of Object.entries({ csrf, query, vertex, leaving, to, dry_run: "true" })) {
    const field = document.createElement("input");
    Object.assign(field, { type: "hidden", name, value });
    form.append(field);
  }
  document.body.append(form);
  form.submit();
}

document.addEventListener("pointerdown", (event) => {
  const chip = event.target.closest?.(".chip.movable");
  const box = chip?.closest("[data-moves]");
  if (!box || event.button !== 0) return;
  event.preventDefault();
  const scale = chip.ownerSVGElement.getScreenCTM().a;
  dragged = { chip, box, scale, x: event.clientX, y: event.clientY, under: null };
});

document.addEventListener("pointermove", (event) => {
  if (!dragged) return;
  const [x, y] = [event.clientX - dragged.x, event.clientY - dragged.y];
  if (!dragged.chip.classList.contains("dragged") && Math.hypot(x, y) < THRESHOLD) return;
  dragged.chip.classList.add("dragged");
  dragged.chip.setAttribute("transform", `translate(${x / dragged.scale} ${y / dragged.scale})`);
  mark(nodeUnder(event, dragged.box));
});

document.addEventListener("pointerup", (event) => {
  if (!dragged) return;
  const { chip, box } = dragged;
  const under = nodeUnder(event, box);
  const moved = chip.classList.contains("dragged");
  end();
  if (moved && under && under.dataset.node !== chip.dataset.leaving) ask(box, chip, under.dataset.node);
});
document.addEventListener("pointercancel", end);
document.addEventListener("keydown", (event) => { if (event.key === "Escape") end(); });

// Who drags or chooses just now is not disturbed by news.
document.body.addEventListener("htmx:beforeRequest", (event) => {
  if (event.target.id === "fleets" && (dragged || document.activeElement?.matches("form.move select"))) event.preventDefault();
});
