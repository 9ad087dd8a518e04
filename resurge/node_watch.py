"""`resurge node watch`: the Buffer screen's questions, answered in a terminal; works over SSH.

How much is held, how old is the oldest, how long until something must go and what would go first, when was the last
receipt, what was given up, what do the sensors really give, and why did it stop?
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

View = dict[str, Any]


def frame(view: View, now_us: int) -> RenderableType:
    """One picture of a node's view state; `now_us` is wall time."""
    parts: list[RenderableType] = [_head(view), _buffer(view, now_us)]
    if view.get("sensors"):
        parts.append(_sensors(view))
    if view.get("edges"):
        parts.append(_edges(view))
    parts.append(_health(view, now_us))
    return Panel(Group(*parts), title=f"{view.get('name', 'node')}  {view.get('device', '')[:12]}", title_align="left")


def frames(ask: Callable[[], View], every_s: float, stop: Callable[[], bool]) -> Iterator[RenderableType]:
    """Pictures until told to stop."""
    while not stop():
        yield frame(ask(), time.time_ns() // 1000)
        time.sleep(every_s)


def _head(view: View) -> Text:
    if not view.get("running"):
        state, style = "stopped", "bold red"
    elif view.get("paused"):
        state, style = f"paused ({view['paused']})", "bold yellow"
    else:
        state, style = "running", "bold green"
    text = Text(state, style=style)
    gateway = view.get("gateway")
    reach = (
        "not paired" if not gateway else f"{'connected to' if view.get('connected') else 'no answer from'} {gateway}"
    )
    plan = view.get("plan")
    text.append(f"   {reach}   " + (f"plan {plan['name']} v{plan['version']}" if plan else "no plan"), style="default")
    recording = view.get("recording")
    if recording:
        count = sum(recording["readings"].values())
        text.append(f"\nrecording {recording['name']!r}: {count:,} readings, {_size(recording['bytes'])}", style="red")
    return text


def _buffer(view: View, now_us: int) -> Table:
    spool = view.get("spool", {})
    used, capacity = spool.get("used_bytes", 0), spool.get("capacity_bytes", 0)
    first = view.get("goes_first") or []
    receipt = view.get("last_receipt_us")
    given_up = ", ".join(f"{count:,} {reason}" for reason, count in spool.get("ledger", {}).items() if count)
    table = Table.grid(padding=(0, 2))
    for name, value in (
        ("waiting here", f"{view.get('spooled', 0):,} elements in {_size(used)} of {_size(capacity)}"),
        ("oldest", "nothing waits" if spool.get("oldest_s") is None else _span(spool["oldest_s"])),
        ("until overwrite", "not filling" if spool.get("full_in_s") is None else _span(spool["full_in_s"])),
        ("would go first", ", ".join(first) if first else "nothing: it blocks instead, or nothing waits"),
        ("last receipt", "none since the start" if receipt is None else f"{_span((now_us - receipt) / 1e6)} ago"),
        ("delivered", f"{view.get('delivered', 0):,} of {view.get('produced', 0):,} produced"),
        ("given up", given_up or "nothing"),
    ):
        table.add_row(Text(name, style="dim"), value)
    return table


def _sensors(view: View) -> Table:
    table = Table("sensor", "readings", "asked", "actual", "gaps", box=None, header_style="dim")
    for name, state in view["sensors"].items():
        gaps = f"{state['gaps']} ({_span(state['gap_s'])})" if state["gaps"] else "0"
        table.add_row(name, f"{state['readings']:,}", _hertz(state["asked_hz"]), _hertz(state["rate_hz"]), gaps)
    for name, why in view.get("missing_sensors", {}).items():
        table.add_row(name, Text(why, style="yellow"), "", "", "")
    return table


def _edges(view: View) -> Table:
    table = Table("edge", "produced", "delivered", "waiting", "given up", "bytes", box=None, header_style="dim")
    for name, edge in view["edges"].items():
        counts = (f"{edge[part]:,}" for part in ("produced", "delivered", "spooled", "ledgered"))
        table.add_row(name, *counts, _size(edge["bytes"]))
    return table


def _health(view: View, now_us: int) -> RenderableType:
    entries = view.get("health") or []
    if not entries:
        return Text("nothing is in its way", style="green")
    table = Table.grid(padding=(0, 2))
    for entry in entries:
        since = f"{_span(max(0.0, (now_us - entry['since']) / 1e6))}{' ago' if entry['over'] else ''}"
        text = Text(f"{entry['what']}\n", style="default").append(entry["remedy"], style="dim")
        table.add_row(Text(entry["code"], style="dim" if entry["over"] else "yellow"), since, text)
    return table


def _size(count: float) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return ""


def _span(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 172_800 else f"{seconds / 86_400:.0f} days"


def _hertz(value: float | None) -> str:
    return "on request" if value is None else f"{value:.1f} Hz" if value >= 1 else f"every {1 / value:.0f} s"
