"""What a node shows of itself: to `resurge node status`, to the fleet page, and to the screens.

Plain data made from the spool and the counters; a screen holds no other objects of the node.
"""

from __future__ import annotations

import contextlib
import functools
import json
import platform
import time
from collections.abc import Iterable
from dataclasses import asdict
from importlib import metadata
from typing import TYPE_CHECKING, Any

from mobile_app.condition.upkeep import Facts, Ground
from mobile_app.home.clock import Anchor
from mobile_app.home.files import publish
from mobile_app.settings import policies, recorded_sensors
from shared.contracts.light import Waiting, verdict
from shared.identity import edge_id
from shared.language.registry import references
from shared.plan.graph import Plan
from shared.plan.late_account import late_words
from shared.plan.operators import Sync
from shared.plan.placement import sides
from shared.spool.advice import Advice, advise
from shared.spool.evict import Evict
from shared.spool.statistics import EdgeStatistics, SpoolStatistics
from shared.wire.fleet_status import FleetStatus
from shared.wire.status import (
    SECONDS_MAX,
    SENSORS_MAX,
    WORD_CHARACTERS,
    AdviceStatus,
    DeviceStatus,
    PaceStatus,
    clean_text,
    reportable_operators,
)

if TYPE_CHECKING:
    from mobile_app.node.computation import Computation
    from mobile_app.node.loop import Node

FILTERED_MIN = 20  # rows: fewer say nothing of a filter
STATUS_FILE = "status.json"
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


def advice_view(advice: Advice) -> dict[str, Any]:
    """What the spool's size means at the rates and outages that were measured here."""
    return asdict(advice) | {"bytes_per_second": advice.bytes_per_second}


def fleet_buffer(node: Node, now_us: int) -> dict[str, Any] | None:
    """The same of what its fleet has not taken; None where it feeds none."""
    hosting = node.hosting
    if hosting is None or not hosting.host.gathers():
        return None
    statistics, advice = hosting.buffered(time.monotonic())
    full_in_s = hosting.full_in_s(advice.bytes_per_second)
    return {"spool": spool_state(statistics, now_us=now_us, full_in_s=full_in_s), "advice": advice_view(advice)}


def goes_first(statistics: SpoolStatistics, evict: Evict, names: Iterable[str]) -> list[str]:
    """Edges that hold something, in the order in which the policy would come to them; none when it gives nothing up."""
    if evict is Evict.BLOCK:
        return []

    def heaviest(edge: EdgeStatistics) -> int:
        return -(edge.bytes if evict is Evict.QUERY_AWARE_BYTES else edge.batches)

    named = {edge_id(name): name for name in names}
    holding = [edge for edge in statistics.edges if edge.batches and not edge.protected and edge.edge in named]
    if evict in (Evict.QUERY_AWARE, Evict.QUERY_AWARE_BYTES):
        holding.sort(key=heaviest)
    holding.sort(key=lambda edge: edge.may_lose <= 0)  # promises are kept while others can make room
    return [named[edge.edge] for edge in holding]


def promises_view(
    computation: Computation | None, statistics: SpoolStatistics, *, connected: bool, now_us: int
) -> list[dict[str, Any]]:
    """What each edge of the plan promises and how that is now. What waits is as old as its oldest batch, whose rows had
    waited for it to close."""
    if computation is None:
        return []
    known = {edge.edge: edge for edge in statistics.edges}
    found = []
    for edge in computation.plan.edges:
        state = known.get(edge_id(edge.name))
        oldest_us = None if state is None else state.oldest_us
        delay_s = 0.0 if oldest_us is None else max(0.0, (now_us - oldest_us + edge.within_us) / 1e6)
        waiting = Waiting(
            0 if state is None else state.head, 0 if state is None else state.ledgered, delay_s, connected=connected
        )
        light, why = verdict(edge.contract, waiting, recovery_s=computation.recovery_s[edge.name])
        bound_us = edge.contract.delay_us_max
        found.append(
            {
                "name": edge.name, "promise": edge.contract.describe(), "verdict": light.value, "why": why,
                "delay_s": delay_s, "bound_s": None if bound_us is None else bound_us / 1e6,
                "produced": waiting.produced, "ledgered": waiting.ledgered,
            }
        )  # fmt: skip
    return found


def counts(node: Node, statistics: SpoolStatistics) -> dict[str, Any]:
    """The account, with what was exchanged for it."""
    uplink, paired, computation = node.uplink, node.around.gateway is not None, node.runner.computation
    filters = {} if computation is None else computation.filters
    return {
        "device": node.stores.device.hex(), **account(statistics), "results": node.stores.results.count(),
        "filtered": sum(count.dropped for count in filters.values()),
        "late": [] if computation is None else computation.late(),
        "unreadable": sum(state["unreadable"] for state in node.access.readings.states().values()),
        "exchanges": uplink.exchanges, "bytes_sent": uplink.bytes_sent,
        "failures": uplink.failures if paired else 0,
        "disconnections": node.gateway.disconnections if paired else 0,
    }  # fmt: skip


def malformed_results(node: Node) -> int:
    """Results that came down and made no sense, since the start."""
    computation = node.runner.computation
    return node.stores.results.malformed + (0 if computation is None else computation.malformed())


def node_view(node: Node) -> dict[str, Any]:
    around, stores, runner, access = node.around, node.stores, node.runner, node.access
    statistics, plan, gateway = stores.spool.statistics(), runner.plan, around.gateway
    now_us, anchor, condition = stores.clock.now_us(), stores.clock.anchor, node.decision.condition
    rates = {} if runner.spooler is None else runner.spooler.rates(time.monotonic())
    rate = sum(rates.values())
    full_in_s = stores.spool.time_until_overwrite(rate) if rate > 0 else None
    edge_names = stores.edges.names()
    wanted = [] if plan is None else [sensor.name for sensor in plan.sensors]
    recording = stores.recordings.state()
    if recording is not None:
        gone = {s: "not allowed any more" for s in recording["sensors"] if not access.consents.allows(s)}
        recording["missing"] = {s: why for s, why in access.capture.missing.items() if s in recording["sensors"]} | gone
    missing = {} if runner.computation is None else runner.computation.troubles()
    return {
        "name": node.settings.name,
        **counts(node, statistics),
        "incarnation": stores.spool.incarnation,
        "gateway": None if gateway is None else gateway.url,
        "connected": gateway is not None and not node.sender.disconnected,
        "why_not": node.gateway.refusal or (node.uplink.last_failure if node.sender.disconnected else ""),
        "time_us": now_us,
        "time_uncertainty_us": stores.clock.uncertainty_us,
        "pace": pace_of(stores.clock.anchor),
        "boot_id": anchor.boot_id,
        "plan": None if plan is None else {"name": plan.name, "version": plan.version},
        "asked_sensors": access.asked(plan),
        "sensors": access.readings.states(),
        "missing_sensors": missing | access.capture.missing,
        "refused_sensors": access.refused(plan),
        "empty_columns": {} if runner.computation is None else runner.computation.empty_columns,
        "edges": edge_states(statistics, edge_names),
        "spool": spool_state(statistics, now_us=now_us, full_in_s=full_in_s),
        "advice": advice_view(advise(rates, statistics.capacity_bytes, node.gateway.outages.lengths_s)),
        "fleet_buffer": fleet_buffer(node, now_us),
        "malformed_results": malformed_results(node),
        "promises": promises_view(
            runner.computation,
            statistics,
            now_us=now_us,
            connected=gateway is not None and not node.sender.disconnected,
        ),
        "goes_first": goes_first(statistics, stores.spool.evict, edge_names),
        "last_receipt_us": node.gateway.last_receipt_us,
        "recording": recording,
        "consents": access.consents.states(wanted),
        "to_record": {
            sensor: access.hertz_recorded(sensor, plan) for sensor in access.to_record(recorded_sensors(node.settings))
        },
        "policies": policies(node.settings),
        "battery": {"level": condition.battery, "charging": condition.charging},
        "lane": condition.network or around.lane,
        "region": node.decision.region,
        "moving": condition.moving,
        "indoors": condition.indoors,
        "paused": node.decision.pause,
        "held": node.decision.hold,
        "health": stores.health.entries(),
        "loss_window_s": node.settings.loss_window_s,
        "encrypted_at_rest": stores.encrypted,
        "key_protection": KEY_PROTECTION,
        "build": around.build,
        "fleet": None if node.hosting is None else node.hosting.view(),
        "regions": [] if node.hosting is None else node.hosting.regions(node.decision.places, node.rest),
        "operators": sorted(references()),
    }


def publish_view(node: Node, view: dict[str, Any]) -> None:
    """Write the view state for other processes, and what the fleet page should know into the next exchange."""
    with contextlib.suppress(OSError):  # it only informs; a full disk is told where it matters
        publish(node.home / STATUS_FILE, json.dumps(view).encode())
    hosting = node.hosting
    fleet = None if hosting is None or not hosting.coordinates else hosting.status().fitted()
    node.tell(status_for_fleet(view, node.gateway.refusal, fleet))
    if node.around.on_view is not None:
        node.around.on_view(view)


def facts_of(node: Node) -> Facts:
    """What the health page needs to know of the loop."""
    runner, access, running = node.runner, node.access, node.stores.recordings.running
    recorded = () if running is None else running.about.sensors  # what is only looked at is nobody's trouble
    missing = {sensor: why for sensor, why in access.capture.missing.items() if sensor in recorded}
    if runner.computation is not None:
        troubles, plan = runner.computation.troubles(), runner.computation.plan
        missing |= {name: why for name, why in troubles.items() if access.may_read(plan, name)}
    areas = () if node.hosting is None else node.hosting.areas
    return Facts(
        paired=node.around.gateway is not None,
        disconnected=node.sender.disconnected,
        link_failure=node.uplink.last_failure,
        refusal=node.gateway.refusal,
        refusal_code=node.gateway.refusal_code,
        blocked=runner.blocked,
        withheld=node.gateway.withheld,
        failure=runner.failure,
        exchanges=node.uplink.exchanges,
        missing=missing,
        undecided=tuple(access.undecided(runner.plan)),
        malformed_results=malformed_results(node),
        all_filtered=tuple(all_filtered(runner.computation)),
        grounds={each.name: Ground(each.area, each.dwell_s) for each in areas},
        may_locate=node.locates,
        late="" if runner.computation is None else late_words(runner.computation.late()),
    )


def all_filtered(computation: Computation | None) -> list[str]:
    """A sentence for each edge whose filters have dropped every row so far."""
    if computation is None:
        return []
    gaps = [f"{name} has no {', '.join(columns)}" for name, columns in computation.empty_columns.items()]
    why = f" ({'; '.join(gaps)})" if gaps else ""
    return [
        f"filters dropped all {count.dropped:,} rows of {edge!r} so far{why}"
        for edge, count in computation.filters.items()
        if not count.passed and count.dropped >= FILTERED_MIN
    ]


def ledger_view(node: Node, limit: int) -> list[dict[str, Any]]:
    """What was given up, the newest numbers of each edge first."""
    names = {edge_id(name): name for name in node.stores.edges.names()}
    entries = sorted(node.stores.spool.ledger, key=lambda entry: -entry.hi)[: max(0, limit)]
    return [
        {"edge": names.get(entry.edge, "?"), "lo": entry.lo, "hi": entry.hi, "elements": entry.hi - entry.lo,
         "reason": entry.reason.name.lower()}
        for entry in entries
    ]  # fmt: skip


def plan_view(plan: Plan) -> dict[str, Any]:
    """The running plan for a screen: what is computed here, what goes up, what is computed there, what comes back."""
    side_of = sides(plan)
    syncs = {node.operator.name: node.id for node in plan.nodes if isinstance(node.operator, Sync)}
    return {
        "name": plan.name,
        "version": plan.version,
        "operators": [
            {"id": node.id, "inputs": list(node.inputs), "kind": node.operator.kind,
             "text": node.operator.describe(), "side": side_of[node.id]}
            for node in plan.nodes
        ],
        "edges": [
            {"name": edge.name, "node": syncs.get(edge.name), "promise": edge.contract.describe(),
             "batch": edge.batch_rows, "within_s": edge.within_us / 1e6, "columns": list(edge.schema.names)}
            for edge in plan.edges
        ],
    }  # fmt: skip


def status_for_fleet(view: dict[str, Any], refusal: str, fleet: FleetStatus | None = None) -> DeviceStatus:
    """What rides on the next exchange; the sender adds the plan it has and how often it exchanges."""
    level, full_in_s = view["battery"]["level"], view["spool"]["full_in_s"]
    # `produced` and not what is spooled: by the time this arrives, the same exchange has delivered some of it.
    return DeviceStatus(
        advice=_advised(view["advice"]),
        build=clean_text(view["build"]),
        battery=None if level is None else round(100 * min(1.0, max(0.0, level))),
        charging=view["battery"]["charging"],
        clock_doubt_s=_rounded(view["time_uncertainty_us"] / 1e6),
        fleet=fleet,
        full_in_s=None if full_in_s is None else round(min(full_in_s, SECONDS_MAX)),  # whole: it changes all the time
        incarnation=view["incarnation"],
        late=sum(each["rows"] for each in view["late"]),
        lane=clean_text(view["lane"], WORD_CHARACTERS),
        leaving=clean_text(view["paused"]),
        malformed_results=view["malformed_results"],
        operators=reportable_operators(view["operators"]),
        missing_sensors=tuple(sorted(view["missing_sensors"])[:SENSORS_MAX]),
        pace=None if view["pace"] is None else PaceStatus(*view["pace"]),
        overruns=sum(sensor["overruns"] for sensor in view["sensors"].values()),
        produced=view["produced"],
        python=platform.python_version(),
        refusal=clean_text(refusal),
        refused_sensors=tuple(view["refused_sensors"][:SENSORS_MAX]),
        spool_bytes=view["spool"]["used_bytes"],
        spool_capacity_bytes=view["spool"]["capacity_bytes"],
        version=_version(),
    )


def pace_of(anchor: Anchor) -> list[float] | None:
    """How this home plays time, as a status says it; None where event time is the time of day."""
    return None if anchor.speed == 1.0 else [anchor.speed, anchor.at_wall_us, anchor.at_event_us]


def _advised(advice: dict[str, Any]) -> AdviceStatus | None:
    """None before anything was measured."""
    rate, lengths = advice["bytes_per_second"], (advice["p95_s"], advice["p99_s"])
    if not rate and not advice["outages"]:
        return None
    rounded = (None if each is None else _rounded(each) for each in lengths)
    return AdviceStatus(_rounded(rate), advice["outages"], *rounded)


def _rounded(seconds: float) -> float:
    """To two digits: what changes with every look would be sent with every exchange."""
    return float(f"{min(seconds, SECONDS_MAX):.1e}")


@functools.cache  # it reads the package's whole metadata
def _version() -> str:
    try:
        return metadata.version("resurge")
    except metadata.PackageNotFoundError:  # on the phone the app's own files are not installed as a package
        return ""
