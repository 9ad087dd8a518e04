// What every page shares: times in the reader's zone, the CSRF token on htmx requests, dialogs, and the live stream.
//
// One server-sent stream tells which parts of the gateway changed; each fragment that shows such a part asks for itself
// again (hx-trigger="changed-devices from:body"). A hidden tab closes the stream and costs nothing; a gateway that went
// away is found again by EventSource itself.

const byId = (id) => document.getElementById(id);
const zoned = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });
const clock = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });

function localise(root) {
  for (const element of root.querySelectorAll("time[datetime]:not([title])")) {
    const at = new Date(element.dateTime);
    if (Number.isNaN(at.valueOf())) continue;
    const today = at.toDateString() === new Date().toDateString();
    element.title = at.toISOString();
    element.textContent = (today ? clock : zoned).format(at);
  }
}

export function live(state, words) {
  const element = byId("live");
  if (!element) return;
  element.dataset.state = state;
  byId("live-text").textContent = words;
}

// A stream that is open only while somebody looks.
export function follow(address, events) {
  let source = null;
  const open = () => {
    if (source || document.hidden) return;
    source = new EventSource(address);
    for (const [name, act] of Object.entries(events)) {
      source.addEventListener(name, (event) => {
        live("live", "Live");
        act(JSON.parse(event.data));
      });
    }
    source.addEventListener("bye", () => location.assign("/signin"));
    source.addEventListener("error", () => live("lost", "Gateway not reachable, trying again"));
  };
  const close = () => {
    source?.close();
    source = null;
    live("paused", "Paused");
  };
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("pagehide", close);
  open();
}

// Somebody reads with the keyboard or has a menu open there: do not take it away under them.
function inUse(element) {
  const active = document.activeElement;
  return (element.contains(active) && active.matches("input, select, textarea, button")) || element.querySelector("dialog[open]");
}

document.addEventListener("htmx:configRequest", (event) => {
  event.detail.headers["X-CSRF-Token"] = document.querySelector("meta[name=csrf]").content;
});
document.addEventListener("htmx:beforeRequest", (event) => {
  if (event.detail.requestConfig.triggeringEvent?.type?.startsWith("changed-") && inUse(event.detail.elt)) event.preventDefault();
});
document.addEventListener("htmx:afterSwap", (event) => {
  localise(event.target);
  document.dispatchEvent(new CustomEvent("fragment", { detail: event.target }));
});
document.addEventListener("htmx:responseError", (event) => {
  const place = event.detail.target;
  const notice = document.createElement("p");
  notice.className = "notice wrong";
  notice.setAttribute("role", "alert");
  let words = `The gateway refused this (${event.detail.xhr.status}).`;
  try {
    words = JSON.parse(event.detail.xhr.responseText).detail ?? words;
  } catch {
    // not a problem document: the status says it
  }
  notice.textContent = words;
  place.replaceChildren(notice);
});

document.addEventListener("click", (event) => {
  const opener = event.target.closest("[data-opens]");
  if (opener) byId(opener.dataset.opens)?.showModal();
  if (event.target.closest("[data-closes]")) event.target.closest("dialog")?.close();
  const copier = event.target.closest("[data-copies]");
  if (copier) {
    navigator.clipboard?.writeText(byId(copier.dataset.copies).textContent.trim());
    copier.textContent = "Copied";
  }
});
document.addEventListener("change", (event) => {
  if (event.target.matches("[data-submits]")) event.target.form.requestSubmit();
});

localise(document);
if (byId("live") && !document.querySelector("[data-live=own]")) {
  let last = null;
  follow("/live", {
    state(now) {
      for (const [part, version] of Object.entries(now)) {
        if (last && last[part] !== version) document.body.dispatchEvent(new CustomEvent(`changed-${part}`, { bubbles: true }));
      }
      last = now;
    },
  });
}
