"""Queries of a fleet as commands take and show them: a program or SQL becomes a plan, a placement becomes a drawing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cloud_backend.coordinator.sql import sql
from shared.errors import UsageError
from shared.hosting.asked_query import AskedQuery, place_query
from shared.hosting.fleet_file import read_fleet
from shared.hosting.fleet_words import applied_lines, listed
from shared.hosting.requests import explained, nodes_and_places
from shared.language.registry import references
from shared.plan.encoding import decode_plan
from shared.plan.graph import Plan
from shared.plan.operators import Feedback, Gather, Sensor
from shared.plan.placing import PUSH_DOWN
from shared.stream.drafts import Draft, Program, collecting, draft, stop_collecting
from shared.stream.program import load_operators, read_program
from shared.stream.stream import Stream


def is_file(text: str | None) -> bool:
    """Whether this names a program, and is no SQL."""
    return text is not None and (
        text.endswith(".py") or ("\n" not in text and len(text) < 255 and Path(text).is_file())
    )


def plan_of_file(path: Path, modules: Sequence[str] = ()) -> Plan:
    return read_program(path, modules).plan()


def plan_of_sql(text: str, name: str, running: Sequence[dict[str, Any]]) -> Plan:
    """SQL over what the fleet's queries gather: FROM names a gather, whose device's part this query then has, too."""
    gathers: dict[str, tuple[Plan, int]] = {}
    for query in running:
        plan = decode_plan(query["plan"].encode())
        for node in plan.nodes:
            if isinstance(node.operator, Gather):
                gather = node.operator.name.removesuffix(f".{query['incarnation']}") if query["submitted"] else ""
                gathers.setdefault(gather or node.operator.name, (plan, node.id))
    if not gathers:
        raise UsageError("no query of this fleet gathers anything yet; submit a program first", code="query-stream")
    program = Program(name=name)
    token = collecting(program)
    try:
        streams = {gather: Stream(_again(plan, node, gather)) for gather, (plan, node) in gathers.items()}
        rows = sql(text, **streams)
        program.drafts.clear()
        rows.subscribe(name)
    finally:
        stop_collecting(token)
    return program.plan()


def _again(plan: Plan, number: int, gather: str) -> Draft:
    """What leads to a gather, written again under its first name."""
    node = plan.node(number)
    asked = isinstance(node.operator, Sensor) and not node.operator.every_us
    if asked or isinstance(node.operator, Feedback):
        raise UsageError(
            f"what leads to {gather!r} depends on itself on the device; write a program of its own", code="query-stream"
        )
    operator = node.operator
    if isinstance(operator, Gather):
        operator = Gather(gather, operator.batch_rows, operator.within_us, operator.contract)
    return draft(operator, *(_again(plan, each, gather) for each in node.inputs))


def explain_offline(plan: Plan, name: str, fleet: Path, asked: dict[str, Any]) -> dict[str, Any]:
    """Where a query would run on the fleet of a file, beside the queries that the file has."""
    load_operators(fleet.resolve().parent)
    file = read_fleet(fleet, sorted(references()))
    running = [query for query in file.hosted() if query.name != name]
    on, fixed = nodes_and_places(asked.get("on") or (), {peer.name: peer.node for peer in file.peers})
    query = AskedQuery(
        name, plan, tuple(file.node(each, name) for each in asked["sources"]),
        file.node(asked["sink"], name) if asked.get("sink") else file.coordinator.node,
        asked.get("strategy") or "", asked.get("every"), asked.get("keepers", 1), asked.get("place") or PUSH_DOWN,
        on, fixed,
    )  # fmt: skip
    hosted, placed = place_query(query, file.topology, running)
    return explained(hosted, placed, file.topology, running) | {"dry_run": True}


def where_lines(value: dict[str, Any]) -> Iterator[str]:
    """A placement as a terminal draws it: each source's way with what runs on it, then why."""
    yield f"{value['name']}, placed by {value['place']}; {value['strategy']}, c = {value['every']}"
    if value.get("shares"):  # an older coordinator does not say it
        yield f"  shares the rows of {value['shares']}"
    for way in value["ways"]:
        parts: list[str] = []
        for hop in way["hops"]:
            runs = f" [{', '.join(hop['runs'])}]" if hop["runs"] else ""
            ends = " (source)" if not parts else ""
            ends += " (sink)" if hop["node"] == value["sink"] else ""
            link = f" --{hop['lane']} {hop['cost']}--> " if parts else ""
            parts.append(f"{link}{hop['node']}{ends}{runs}")
        yield f"  {''.join(parts)}"
    yield from applied_lines(value["applied"])
    drawn = {hop["node"] for way in value["ways"] for hop in way["hops"]}
    for each in value["vertices"]:
        beside = "" if each["hosts"][0] in drawn else " (beside the way)"
        kept = f", kept by {listed(each['keepers'])}" if each["keepers"] else ""
        yield f"  {each['vertex']} on {listed(each['hosts'])}{beside}{kept}: {each['why']}"
    for node in value["nodes"]:
        place = "" if node["position"] is None else f" at {node['position'][0]:g}, {node['position'][1]:g}"
        near = listed([f"{name} ({lane})" for name, lane in node["neighbours"].items()])
        yield f"  {node['name']}{place}: {node['runs']} of {node['capacity']} places taken, reaches {near}"


def query_rows(value: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """The queries of a fleet, one row each."""
    for each in value["queries"]:
        where = ", ".join(f"{one['vertex']} on {listed(one['hosts'])}" for one in each["vertices"])
        by = "submitted" if each["submitted"] else "file"
        yield each["name"], by, each["place"], each["strategy"], listed(each["sources"]), each["sink"], where
