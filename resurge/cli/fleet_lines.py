"""A fleet as a terminal shows it: the same view as on the dashboard's page and on a phone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mobile_app.screens.words.fleet_text import kept_text, move_line, move_of, snapshot_text
from mobile_app.screens.words.number_text import duration, moment, plural
from shared.hosting.fleet_words import applied_lines, listed, strategy_words

MOVES_SHOWN = 10
EVENTS_SHOWN = 5


def fleet_lines(view: dict[str, Any], now_us: int) -> Iterator[str]:
    """Where each vertex runs, what runs here, and what moved, newest first."""
    waits = {each["query"]: each for each in view.get("waits", [])}
    for query in view["queries"]:
        yield (
            f"{query['name']}  from {listed(query['sources'])} to {query['sink']}  {query['strategy']}, "
            f"c = {query['every']}"
        )
        yield f"  {strategy_words(query['strategy'], query['every'])}"
        yield from applied_lines([each for each in view.get("applied", []) if each["query"] == query["name"]])
        for placed in view["placements"]:
            if placed["query"] == query["name"]:
                yield f"  {_placed(placed, now_us)}"
        if query["name"] in waits:
            yield f"  {_waits(waits[query['name']])}"
    yield from _regions(view)
    for node in view["nodes"]:
        if node["silent_us"] is not None:
            yield f"{node['name']} is silent for {_span(node['silent_us'], now_us)}"
    yield from _here(view)
    for move in list(reversed(view["moves"]))[:MOVES_SHOWN]:
        yield move_line(move_of(move), now_us)
    for event in view["events"][-EVENTS_SHOWN:]:
        yield f"{moment(event['at_us'])}  {event['text']}"


def governed_lines(fleet: dict[str, Any]) -> Iterator[str]:
    """A fleet as its gateway tells it, newest moves first."""
    now_us = fleet["heard_us"]
    per_s = fleet["control_per_s"]
    coordinating = "" if per_s is None else f", {per_s:,.0f} bytes a second for it"
    yield f"{plural(len(fleet['nodes']), 'node')}, coordinated by {fleet['coordinator']['name']}{coordinating}"
    if fleet["deposed"]:
        yield f"it coordinates no more: {fleet['deposed']}"
    for node in fleet["nodes"]:
        silent = "" if node["silent_us"] is None else f"  silent for {_span(node['silent_us'], now_us)}"
        runs = listed([each["vertex"] for each in node["runs"]]) if node["runs"] else "nothing"
        yield f"  {node['name']}  runs {runs}{silent}"
    for query in fleet["queries"]:
        ends = f"from {listed(query['sources'])} to {query['sink']}"
        yield f"{query['name']}  {ends}  {query['strategy']}, c = {query['every']}"
        yield f"  {query['words']}"
        for way in query["ways"]:
            over = f"over {listed(way['nodes'])}" if way["nodes"] else "directly, too"
            yield f"  rows of {way['source']} go {over}"
        yield from applied_lines(query.get("applied", []))
        for placed in query["vertices"]:
            yield f"  {_placed(placed, now_us)}"
    yield from _regions(fleet)
    for event in fleet["events"][:EVENTS_SHOWN]:
        yield f"{moment(event['at_us'])}  {event['region']}: {event['kind']}, {event['text']}"
    for move in fleet["moves"][:MOVES_SHOWN]:
        yield f"{moment(move['at_us'])}  {move['query']}: {move['words']} ({move['why']})"


def _regions(view: dict[str, Any]) -> Iterator[str]:
    """Each region with those that are in it."""
    for region in view.get("regions", ()):
        here = listed([f"{name} ({place})" for name, place in region["members"]]) if region["members"] else "nobody"
        cut = f", cut {region['cut']}" if region["cut"] else ""
        yield f"region {region['name']}  {region['state']}{cut}  {here}; {region['threshold']} needed"


def _here(view: dict[str, Any]) -> Iterator[str]:
    """What the node itself has to do with it."""
    for one in view["instances"]:
        state = f"failed: {one['failed']}" if one["failed"] else f"{one['taken']:,} in, {one['made']:,} out"
        unstored = f" ({one['unstored']})" if one["unstored"] else ""
        yield f"here  {one['query']}  {one['vertex']}  term {one['term']}  {state}{unstored}"
    for kept in view["kept"]:
        yield f"kept  {kept_text(kept)}, term {kept['term']}"
    for sink in view["sinks"]:
        yield f"sink  {sink['query']}  {sink['sink']}  {plural(sink['taken'], 'result')}"
    for code, count in view.get("refused", {}).items():
        yield f"refused  {code}  {count:,}"


def _placed(placed: dict[str, Any], now_us: int) -> str:
    snapshot = snapshot_text(placed["snapshot"], placed["snapshot_us"], placed["snapshot_bytes"], now_us)
    parts = [
        f"{placed['vertex']} on {listed(placed['hosts'])}",
        placed["state"] + (f" ({placed['why']})" if placed["why"] else ""),
        f"kept by {listed(placed['keepers'])}", snapshot, f"term {placed['term']}",
    ]  # fmt: skip
    if placed["lost"]:
        parts.append(f"{plural(placed['lost'], 'element')} lost")
    return "  ".join(parts)


def _waits(waits: dict[str, Any]) -> str:
    promise = "no delay is promised" if waits["delay_s"] is None else f"{waits['delay_s']:.3g} s are promised"
    return (
        f"moves from a node that is silent for {waits['silence_s']:.3g} s ({promise}, a recovery takes "
        f"{waits['recovery_s']:.2g} s)"
    )


def _span(since_us: int, now_us: int) -> str:
    return duration(max(0, now_us - since_us) / 1e6)
