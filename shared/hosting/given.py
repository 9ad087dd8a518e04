"""Values that a person gave in a request or a fleet's file, checked."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from shared.errors import UsageError
from shared.plan.area import Area
from shared.plan.deployment import is_position
from shared.plan.encoding import decode_plan
from shared.plan.graph import Plan
from shared.plan.operators import Gather


def named_after(plan: Plan, incarnation: int) -> Plan:
    """The plan with gathers of its own, whatever other queries gather from the same devices."""
    return gathering(plan, [f"{edge.name}.{incarnation}" for edge in plan.gathers])


def gathering(plan: Plan, names: Sequence[str]) -> Plan:
    """The plan with its gathers under these names, in order."""
    following = iter(names)
    return replace(
        plan,
        nodes=tuple(
            replace(node, operator=replace(node.operator, name=next(following)))
            if isinstance(node.operator, Gather)
            else node
            for node in plan.nodes
        ),
    )


def plan_given(value: object) -> Plan:
    """As `resurge plan --json` prints it; checked."""
    try:
        return decode_plan(value.encode() if isinstance(value, str) else json.dumps(value).encode())
    except (RecursionError, UnicodeEncodeError):
        raise UsageError("the plan is nested too deeply, or not text", code="plan-json") from None


def area_given(given: Mapping[str, Any], name: str, code: str, radius: str = "radius_m") -> Area:
    """A circle, or corners; UsageError of this code where it is neither."""
    corners = given.get("corners") or [given.get("center")]
    points = [point_given(each) for each in corners] if isinstance(corners, list) else []
    metres = given.get(radius) or 0
    is_round = len(points) == 1 and not given.get("corners")
    circle = is_round and isinstance(metres, int | float) and 0 < metres < math.inf
    if None in points or not (circle or (not given.get("center") and len(points) > 2)):
        raise UsageError(
            f"region {name!r} has a center and a radius in metres, or three corners or more, in degrees", code=code
        )
    return Area(tuple(point for point in points if point is not None), float(metres) if is_round else 0.0)


def point_given(value: object) -> tuple[float, float] | None:
    """A place: [latitude, longitude], or both as one text with a comma; None where it is no place on Earth."""
    if isinstance(value, str):
        try:
            value = [float(part) for part in value.split(",")]
        except ValueError:
            return None
    match value:
        case [int() | float() as latitude, int() | float() as longitude] if is_position(latitude, longitude):
            return float(latitude), float(longitude)
    return None


def node_id(name: object, ids: Mapping[str, str]) -> str:
    if not isinstance(name, str) or name not in ids:
        raise UsageError(f"the fleet has no node {name!r} (has: {', '.join(ids)})", code="query-node")
    return ids[name]


def text_given(given: Mapping[str, Any], key: str) -> str:
    value = given.get(key)
    if not isinstance(value, str) or not value:
        raise UsageError(f"a query has a text {key!r}", code="query-request")
    return value


def texts_given(given: Mapping[str, Any], key: str) -> list[str]:
    value = given.get(key) or []
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise UsageError(f"{key!r} of a query are a list of names", code="query-request")
    return list(dict.fromkeys(value))


def whole(value: object, least: int) -> bool:
    return type(value) is int and least <= value < 2**32
