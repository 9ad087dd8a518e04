"""What `resurge node status` prints: a node's state for a person to read. Everything there is comes with --json."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mobile_app.screens.words.fleet_text import instance_text, kept_text, move_line, own_moves, role_text
from mobile_app.screens.words.number_text import duration, plural, size
from mobile_app.screens.words.promise_words import light_text

MOVES_SHOWN = 5  # that concern this node


def status_lines(view: dict[str, Any]) -> list[str]:
    """A label and what there is to say of it, one line each. An older node's last words may lack some of it."""
    said = [(label, text) for label, text in _said(view) if text]
    width = max(len(label) for label, _ in said)
    return [f"{label:<{width}}  {text}" for label, text in said]


def _said(view: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "device", f"{view.get('name') or 'unnamed'}, {view['device']}, incarnation {view['incarnation']}"
    yield "node", _contact(view)
    yield "paused", view.get("paused", "")
    yield "held", view.get("held", "")
    yield (
        "account",
        f"{view['produced']:,} produced = {view['delivered']:,} delivered + {view['spooled']:,} spooled "
        f"+ {view['ledgered']:,} ledgered",
    )
    late = sum(each["rows"] for each in view.get("late", []))
    dropped = [("filtered", view.get("filtered", 0)), ("late", late), ("unreadable", view.get("unreadable", 0))]
    yield "left out", ", ".join(f"{rows:,} {why}" for why, rows in dropped if rows)
    malformed = view.get("malformed_results", 0)
    yield "results", f"{view['results']:,} came back" + (f", {malformed:,} made no sense" if malformed else "")
    plan = view.get("plan")
    yield "plan", f"{plan['name']}, version {plan['version']}" if plan else "none yet"
    recording = view.get("recording")
    yield "recording", recording["name"] if recording else ""
    for name, sensor in view.get("sensors", {}).items():
        yield f"sensor {name}", _sensor(sensor, view.get("empty_columns", {}).get(name, []))
    for name, why in view.get("missing_sensors", {}).items():
        yield f"sensor {name}", f"missing: {why}"
    promises = {each["name"]: each for each in view.get("promises", [])}
    for name, edge in view["edges"].items():
        yield f"stream {name}", _edge(edge, promises.get(name))
    yield from _fleet(view)
    yield "spool", _spool(view)
    yield (
        "traffic",
        f"{plural(view['exchanges'], 'exchange')}, {size(view['bytes_sent'])} sent, "
        f"{plural(view['failures'], 'failure')}, {plural(view['disconnections'], 'disconnection')}",
    )
    doubt_us = view.get("time_uncertainty_us")
    yield "clock", "" if doubt_us is None else f"within {_short(doubt_us / 1e6)} of the time it counts by"
    for entry in view.get("health", []):
        yield "happened" if entry["over"] else "now", f"{entry['what']} [{entry['code']}]; {entry['remedy']}"
    yield "at rest", "encrypted" if view.get("encrypted_at_rest") else "not encrypted"


def _fleet(view: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What runs here of queries that several nodes share, and what was moved here or away."""
    fleet = view.get("fleet")
    if not fleet:
        return
    yield "fleet", role_text(fleet)
    for one in fleet["instances"]:
        yield f"vertex {one['vertex']}", instance_text(one, view["time_us"])
    for kept in fleet["kept"]:
        yield "keeps", f"a snapshot of {kept_text(kept)}, for others"
    for move in own_moves(fleet, MOVES_SHOWN):
        yield "moved", move_line(move, view["time_us"])


def _contact(view: dict[str, Any]) -> str:
    if not view["running"]:
        return "does not run; this is what its home holds"
    if view.get("gateway") is None:
        records = bool(view.get("plan") or view.get("recording"))
        return f"running, not paired: {'it records, and nothing leaves it' if records else 'nothing to run yet'}"
    where = f"{view['gateway']}" + (f" by {view['lane']}" if view.get("lane") not in ("", "gateway", None) else "")
    if view["connected"]:
        return f"running, connected to {where}"
    return f"running, not connected to {where}" + (f": {view['why_not']}" if view.get("why_not") else "")


def _sensor(sensor: dict[str, Any], empty: list[str]) -> str:
    parts = [plural(sensor["readings"], "reading")]
    if sensor.get("gaps"):
        parts.append(f"{plural(sensor['gaps'], 'gap')} of {duration(sensor['gap_s'])} together")
    if sensor.get("overruns"):
        parts.append(f"{sensor['overruns']:,} came too fast")
    if sensor.get("unreadable"):
        parts.append(f"{sensor['unreadable']:,} unreadable")
    if empty:
        parts.append(f"no {', '.join(empty)}")
    if sensor.get("note"):
        parts.append(sensor["note"])
    return "; ".join(parts)


def _edge(edge: dict[str, Any], promise: dict[str, Any] | None) -> str:
    text = f"{edge['delivered']:,} of {edge['produced']:,} delivered"
    if edge["spooled"]:
        text += f", {edge['spooled']:,} wait here"
    if edge["ledgered"]:
        text += f", {edge['ledgered']:,} given up"
    return text if promise is None else f"{text}; promised {promise['promise']}: {light_text(promise).lower()}"


def _spool(view: dict[str, Any]) -> str:
    spool = view.get("spool")
    if not spool:
        return ""
    text = f"{size(spool['used_bytes'])} of {size(spool['capacity_bytes'])}"
    if view["running"] and spool.get("full_in_s") is not None:
        text += f"; at this rate full in {duration(spool['full_in_s'])}"
    window_s = view.get("loss_window_s")
    return text if window_s is None else f"{text}; a crash takes at most the last {window_s:g} s"


def _short(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e6:.0f} us"
