"""A node's fleet in words: which vertices run here, what is kept for others, what was moved here or away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mobile_app.screens.words.number_text import ago, moment, plural, size
from shared.hosting.fleet_words import listed, move_words
from shared.moves import Move


def role_text(fleet: Mapping[str, Any]) -> str:
    """What this node is to the others."""
    others = len(fleet["nodes"]) - 1
    does = ["coordinates them"] if fleet["coordinates"] else []
    does += [f"feeds {listed(fleet['feeds'])}"] if fleet["feeds"] else []
    does += (
        [f"has the results of {listed(sorted({sink['query'] for sink in fleet['sinks']}))}"] if fleet["sinks"] else []
    )
    text = f"{fleet['name']} shares queries with {plural(others, 'other node')}"
    return f"{text}; it {listed(does)}." if does else f"{text}."


PLACES = {
    "outside": "You are not there.",
    "dwelling": "You are there; you take part once you have stayed.",
    "idle": "You are there and keep copies for the others.",
    "hosting": "You are there and compute for the others.",
    "urgent": "You are there, but the others do not reach you.",
    "leaving": "You are leaving.",
}


def region_text(region: Mapping[str, Any]) -> str:
    """What this device is to a region. The coordinator's word counts: it knows who is reached."""
    place = region["place"]
    if region["member"]:
        place = "hosting" if region["runs"] else "idle" if place in ("dwelling", "hosting") else place
    if place == "idle" and not region["member"]:
        return f"You are there. It begins when {plural(region['threshold'], 'device')} are."
    return PLACES.get(place, "")


def region_facts(region: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Who else is here, what runs and is kept here, and what leaving would cost."""
    if not region["member"]:
        return []
    others, runs = region["members"], region["runs"]
    leaving = "Nothing: the others go on, and the copies here are deleted."
    if runs:
        sent = f" About {size(region['handed_bytes'])} are sent while you go." if region["handed_bytes"] else ""
        leaving = f"Another device takes over {listed(runs)}.{sent} Then the copies here are deleted."
    facts = [
        ("Who is here", f"You and {listed(others)}" if others else "You alone"),
        ("What runs here", listed(runs) if runs else "Nothing"),
        ("Held for the others", size(region["kept_bytes"])),
        ("What leaving would cost", leaving),
    ]
    return facts if region["hour"] is None else [*facts, ("What being here costs", hour_text(region["hour"]))]


def hour_text(hour: Mapping[str, Any]) -> str:
    """What an hour of being awake for others costs, beside an hour of this device's own pace."""
    often = plural(hour["exchanges"], "time")
    alone = plural(hour["wakes_alone"], "time")
    return (
        f"This device stays awake and says how it is {often} an hour; alone it would wake {alone}. That takes about "
        f"{hour['watt_hours']:.1f} Wh an hour more: modelled, with an old phone on 3G, not measured. It sleeps again "
        "after you have left."
    )


def snapshot_text(read: int | None, at_us: int | None, size_bytes: int | None, now_us: int) -> str:
    """The last permanent snapshot of a vertex, which has read so many elements."""
    if read is None:
        return "no permanent snapshot yet"
    about = f"after {plural(read, 'element')}" + ("" if size_bytes is None else f", {size(size_bytes)}")
    return f"permanent snapshot {'' if at_us is None else ago(max(0, now_us - at_us) / 1e6) + ' '}({about})"


def instance_text(one: Mapping[str, Any], now_us: int) -> str:
    """Of a vertex that runs here: which query's, and from what it would begin again."""
    kept = snapshot_text(one["permanent"], one["permanent_us"], one["permanent_bytes"], now_us)
    lost = f" {plural(one['lost'], 'element')} of its inputs are lost." if one["lost"] else ""
    why = one["failed"] or one["unstored"]
    return f"Of {one['query']}; {kept}.{lost}{f' {why}.' if why else ''}"


def kept_text(kept: Mapping[str, Any]) -> str:
    return f"{kept['vertex']} of {kept['query']}, after {plural(kept['number'], 'element')}"


def own_moves(fleet: Mapping[str, Any], most: int) -> list[Move]:
    """Those that brought a vertex here or took one away, the newest first."""
    own = [move for move in fleet["moves"] if fleet["name"] in (*move["before"], *move["after"])]
    return [move_of(move) for move in reversed(own[-most:])]


def move_of(move: Mapping[str, Any]) -> Move:
    """A move that came as plain data."""
    return Move(**{**move, "before": tuple(move["before"]), "after": tuple(move["after"])})


def move_line(move: Move, now_us: int) -> str:
    """What moved, when and why."""
    return f"{when_text(move, now_us)}: {move_words(move)} ({move.why})"


def when_text(move: Move, now_us: int) -> str:
    return f"{moment(move.at_us)}, {ago(max(0, now_us - move.at_us) / 1e6)}"
