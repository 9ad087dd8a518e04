"""What this node runs and keeps of queries that it shares with others, and what was moved here or away, and why."""

from __future__ import annotations

from typing import Any

from kivy.uix.widget import Widget

from mobile_app.screens.page import View
from mobile_app.screens.widgets.icons import Icon
from mobile_app.screens.widgets.surfaces import Card, Divider
from mobile_app.screens.widgets.text import Column, Row, Text
from mobile_app.screens.words.fleet_text import (
    instance_text,
    kept_text,
    own_moves,
    region_facts,
    region_text,
    role_text,
    when_text,
)
from shared.hosting.fleet_words import move_words
from shared.moves import Move

MOVES_SHOWN = 8
AGE_US = 10_000_000  # ages are said anew so often


def fleet_key(view: View) -> object:
    """What the cards depend on; ages count in steps, so that they are not drawn anew every second."""
    fleet = view.get("fleet")
    if fleet is None:
        return None
    shown = ("name", "nodes", "coordinates", "feeds", "kept", "moves", "sinks")
    instances = [(one["vertex"], one["term"], one["failed"], one["permanent"]) for one in fleet["instances"]]
    regions = repr(view.get("regions"))
    return repr([fleet[name] for name in shown]), regions, instances, view["time_us"] // AGE_US


def failed_here(view: View) -> int:
    """How many vertices should run here and do not."""
    fleet = view.get("fleet")
    return 0 if fleet is None else sum(bool(one["failed"]) for one in fleet["instances"])


def fleet_cards(view: View) -> list[Widget]:
    """Nothing where the node is in no fleet."""
    fleet = view.get("fleet")
    if fleet is None:
        return []
    cards: list[Widget] = [_region(each) for each in view.get("regions", ())]
    cards.append(_here(fleet, view["time_us"]))
    if fleet["kept"]:
        lines = [Text(f"{kept_text(kept)}.", size="label") for kept in fleet["kept"]]
        cards.append(Card(Text("Snapshots kept for other nodes", bold=True), Column(*lines, gap=4)))
    moves = own_moves(fleet, MOVES_SHOWN)
    if moves:
        cards.append(
            Card(Text("Moved here or away", bold=True), *_divided([_moved(one, view["time_us"]) for one in moves]))
        )
    return cards


def _region(region: dict[str, Any]) -> Card:
    """Who is here, what this device runs and holds for them, and what leaving would cost."""
    title, words = Text(f"Region {region['name']}", bold=True), Text(region_text(region), size="label", colour="soft")
    colour = "good" if region["member"] else "soft"
    head = Row(Icon("share", side=24, colour=colour), Column(title, words, gap=2), gap=14)
    facts: list[Widget] = [
        Column(Text(what, size="label", colour="soft"), Text(said), gap=2) for what, said in region_facts(region)
    ]
    return Card(head, *_divided(facts))


def _here(fleet: dict[str, Any], now_us: int) -> Card:
    head = Row(
        Icon("share", side=24, colour="soft"),
        Column(Text("Vertices on this device", bold=True), Text(role_text(fleet), size="label", colour="soft"), gap=2),
        gap=14,
    )
    blocks: list[Widget] = [_instance(one, now_us) for one in fleet["instances"]]
    return Card(head, *_divided(blocks or [Text("None runs here now.", colour="soft")]))


def _instance(one: dict[str, Any], now_us: int) -> Column:
    icon, colour, word = ("alert", "bad", "Failed") if one["failed"] else ("check", "good", "Running")
    head = Row(
        Icon(icon, side=20, colour=colour, stroke=2.2), Text(one["vertex"], bold=True, one_line=True),
        Text(word, size="label", colour=colour, bold=True, fit=True), gap=10, height_min=28,
    )  # fmt: skip
    return Column(head, Text(instance_text(one, now_us), size="label", colour="soft"), gap=4)


def _moved(move: Move, now_us: int) -> Column:
    return Column(
        Text(f"{move_words(move)}."),
        Text(f"{when_text(move, now_us)}: {move.why}.", size="label", colour="soft"), gap=2,
    )  # fmt: skip


def _divided(blocks: list[Widget]) -> list[Widget]:
    return [part for place, block in enumerate(blocks) for part in ((Divider(), block) if place else (block,))]
