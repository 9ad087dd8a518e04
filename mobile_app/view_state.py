"""What a node shows of itself: to `resurge node status`, to the fleet page, and to the screens.

Plain data made from the spool and the counters; a screen holds no other objects of the node.
"""

from __future__ import annotations

import functools
import platform
from collections.abc import Iterable
from importlib import metadata
from typing import TYPE_CHECKING, Any

from mobile_app.settings import policies
from shared.identity import edge_id
from shared.plan.contracts import Contract
from shared.plan.explain import describe_operator
from shared.plan.graph import Plan
from shared.plan.operators import Sync, operator_name
from shared.plan.placement import ON_DEVICE, sides
from shared.spool.evict import Evict
from shared.spool.statistics import EdgeStatistics, SpoolStatistics
from shared.stream.durations import written

if TYPE_CHECKING:
    from mobile_app.node import Node, Surroundings

KEY_PROTECTION = "no key store here: device.key and spool.key are files that only their owner can read"


def account(statistics: SpoolStatistics) -> dict[str, int]:
    """Where every element of the spool stands, as this device knows it: delivered means a receipt came for it."""
    edges = statistics.edges
    produced = sum(edge.head for edge in edges)
    spooled = sum(edge.elements for edge in edges)
    ledgered = sum(edge.ledgered for edge in edges)
    return {
        "produced": produced, "delivered": produced - spooled - ledgered, "spooled": spooled, "ledgered": ledgered,
    }  # fmt: skip


def edge_states(statistics: SpoolStatistics, names: Iterable[str]) -> dict[str, dict[str, int]]:
    """The account by edge, with what each holds on the disk."""
    known = {edge.edge: edge for edge in statistics.edges}
    states: dict[str, dict[str, int]] = {}
    for name in names:
        edge = known.get(edge_id(name))
        if edge is not None:
            states[name] = {
                "produced": edge.head, "delivered": edge.head - edge.elements - edge.ledgered,
                "spooled": edge.elements, "ledgered": edge.ledgered, "batches": edge.batches, "bytes": edge.bytes,
            }  # fmt: skip
    return states


def spool_state(statistics: SpoolStatistics, *, now_us: int, full_in_s: float | None) -> dict[str, Any]:
    """How full the spool is, how old its oldest batch, how long until something must be given up."""
    oldest_us = statistics.oldest_us
    return {
        "capacity_bytes": statistics.capacity_bytes,
        "used_bytes": statistics.used_bytes,
        "batches": statistics.batches,
        "oldest_s": None if oldest_us is None else max(0.0, (now_us - oldest_us) / 1e6),
        "full_in_s": full_in_s,
        "ledger": {reason.name.lower(): elements for reason, elements in sorted(statistics.ledgered.items())},
        "damage": statistics.damage,
    }


def goes_first(statistics: SpoolStatistics, evict: Evict, names: Iterable[str]) -> list[str]:
    """Edges that hold something, in the order in which the policy would come to them; none when it gives nothing up."""
    if evict is Evict.BLOCK:
        return []

    def heaviest(edge: EdgeStatistics) -> int:
        return -(edge.bytes if evict is Evict.QUERY_AWARE_BYTES else edge.batches)

    named = {edge_id(name): name for name in names}
    holding = [edge for edge in statistics.edges if edge.batches and edge.edge in named]
    if evict in (Evict.QUERY_AWARE, Evict.QUERY_AWARE_BYTES):
        holding.sort(key=heaviest)
    return [named[edge.edge] for edge in holding]


def node_view(node: Node, around: Surroundings) -> dict[str, Any]:
    statistics, plan, computation, gateway = node.spool.statistics(), node.plan, node.computation, around.gateway
    now_us, anchor, condition = node.clock.now_us(), node.clock.anchor, node.decision.condition
    rate = node.bytes_per_second()
    full_in_s = node.spool.time_until_overwrite(rate) if rate > 0 else None
    wanted = [] if plan is None else [sensor.name for sensor in plan.sensors]
    recording = node.recordings.state()
    if recording is not None:
        recording["missing"] = {s: why for s, why in node.capture.missing.items() if s in recording["sensors"]}
    missing = {} if computation is None else computation.troubles()
    return {
        "name": node.settings.name,
        **node.counts(statistics),
        "incarnation": node.spool.incarnation,
        "gateway": None if gateway is None else gateway.url,
        "connected": gateway is not None and not node.sender.disconnected,
        "why_not": node.last_refusal or (node.uplink.last_failure if node.sender.disconnected else ""),
        "time_us": now_us,
        "time_uncertainty_us": anchor.uncertainty_us,
        "boot_id": anchor.boot_id,
        "plan": None if plan is None else {"name": plan.name, "version": plan.version},
        "sensors": node.readings.states(),
        "missing_sensors": missing | node.capture.missing,
        "edges": edge_states(statistics, node.edge_names),
        "spool": spool_state(statistics, now_us=now_us, full_in_s=full_in_s),
        "goes_first": goes_first(statistics, node.spool.policy.evict, node.edge_names),
        "last_receipt_us": node.last_receipt_us,
        "recording": recording,
        "consents": node.consents.states(wanted),
        "policies": policies(node.settings),
        "battery": {"level": condition.battery, "charging": condition.charging},
        "lane": condition.network or around.lane,
        "region": node.decision.region,
        "moving": condition.moving,
        "indoors": condition.indoors,
        "paused": node.decision.pause,
        "held": node.decision.hold,
        "health": node.health.entries(),
        "loss_window_s": node.settings.loss_window_s,
        "encrypted_at_rest": node.encrypted,
        "key_protection": KEY_PROTECTION,
    }


def plan_view(plan: Plan) -> dict[str, Any]:
    """The running plan for a screen: what is computed here, what goes up, what is computed there, what comes back."""
    worked = sides(plan)
    syncs = {node.operator.name: node.id for node in plan.nodes if isinstance(node.operator, Sync)}
    return {
        "name": plan.name,
        "version": plan.version,
        "operators": [
            {"id": node.id, "inputs": list(node.inputs), "kind": operator_name(node.operator),
             "text": describe_operator(node.operator), "side": "device" if worked[node.id] == ON_DEVICE else "cloud"}
            for node in plan.nodes
        ],
        "edges": [
            {"name": edge.name, "node": syncs.get(edge.name), "promise": _promise(edge.contract),
             "batch": edge.batch_rows, "within_s": edge.within_us / 1e6, "columns": list(edge.schema.names)}
            for edge in plan.edges
        ],
    }  # fmt: skip


def _promise(contract: Contract) -> str:
    kept = "lossless" if contract.lossless else f"at least {contract.kept_min:.1%} kept"
    return kept if contract.delay_us_max is None else f"{kept}, within {written(contract.delay_us_max)}"


def status_for_fleet(view: dict[str, Any], refusal: str) -> dict[str, Any]:
    """What rides on the next exchange. `leaving` is the device's own word that it is about to stop."""
    battery, spool = view["battery"], view["spool"]
    # `produced` and not what is spooled: by the time this arrives, the same exchange has delivered some of it.
    status = {
        "name": view["name"], "lane": view["lane"], "produced": view["produced"],
        "incarnation": view["incarnation"], "spool_bytes": spool["used_bytes"],
        "spool_capacity_bytes": spool["capacity_bytes"], "missing_sensors": sorted(view["missing_sensors"]),
        "refusal": refusal[:200], "version": _version(), "python": platform.python_version(),
        "plan": None if view["plan"] is None else view["plan"]["version"],
    }  # fmt: skip
    if battery["level"] is not None:
        status["battery"] = round(100 * battery["level"])
    if battery["charging"] is not None:
        status["charging"] = battery["charging"]
    if view["region"]:
        status["region"] = view["region"]
    if view["paused"]:
        status["leaving"] = view["paused"]
    return status


@functools.cache  # it reads the package's whole metadata
def _version() -> str:
    try:
        return metadata.version("resurge")
    except metadata.PackageNotFoundError:  # on the phone the app's own files are not installed as a package
        return ""
