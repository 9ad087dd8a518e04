"""What each sink promises, what keeps it, how it is in this hour, and the reports about the hours before."""

from __future__ import annotations

from functools import partial
from typing import Any

from cloud_backend.contracts.audits import SinkNow, findings_json
from cloud_backend.contracts.reports import Report
from cloud_backend.dashboard.sources import Sources
from cloud_backend.gateway.keys import is_signed_by
from shared.contracts.costs import choose, guess
from shared.contracts.levels import level_of
from shared.contracts.promises import TWO_NODES
from shared.errors import UsageError
from shared.recovery.strategies import STRATEGIES
from shared.recovery.strategies.row import Home

LIGHTS = {"kept": "on", "unknown": "idle", "at risk": "off", "broken": "wrong"}  # as `parts.state` draws them


def contracts(sources: Sources) -> dict[str, Any]:
    """Every sink of the program, in the hour that runs."""
    return {
        "contracts": [_now(each) for each in sources.contracts.now(sources.clock_us())],
        "behind_bytes": sources.contracts.behind_bytes,
    }


def contract(sources: Sources, sink: str, *, limit: int = 48, before: int | None = None) -> dict[str, Any]:
    """One sink with its reports, newest first, and what each strategy would cost for it."""
    now = {each["sink"]: each for each in contracts(sources)["contracts"]}
    reports = sources.contracts.reports(sink=sink, limit=limit, before=before)
    if sink not in now and not reports and before is None:
        raise UsageError("no sink of this name promises anything here", code="contract-not-found")
    return {
        "sink": sink, "now": now.get(sink), "reports": [report_json(each) for each in reports],
        "before": reports[-1].number if len(reports) == limit else None, "strategies": strategies(sources, sink),
    }  # fmt: skip


def reports(sources: Sources, *, limit: int = 100, before: int | None = None) -> dict[str, Any]:
    """The newest reports of all sinks, with hash and signature: whoever keeps them elsewhere can check them later."""
    found = sources.contracts.reports(limit=limit, before=before)
    return {
        "reports": [report_json(each) for each in found], "key": sources.key.hex(),
        "before": found[-1].number if len(found) == limit else None,
    }  # fmt: skip


def verify(sources: Sources) -> dict[str, Any]:
    """Follow the chain over every report; DamagedData names the first that was changed or is not signed."""
    return {"sound": True, "reports": sources.contracts.stored.verify(partial(is_signed_by, sources.key))}


def report_json(report: Report) -> dict[str, Any]:
    """Reports of versions that knew of no queries' streams do not say who makes one."""
    return {"query": None} | report.content | {"hash": report.hash.hex(), "signature": report.signature.hex()}


def strategies(sources: Sources, sink: str) -> list[dict[str, Any]]:
    """The rows side by side, for a region of two nodes; empty for a sink that the program no longer has."""
    plan = sources.program()
    edges = {} if plan is None else {edge.name: edge for edge in plan.edges}
    if plan is None or sink not in edges:
        return []
    edge, found = edges[sink], []
    for name, strategy in STRATEGIES.items():
        if strategy.row.home is Home.STORE:
            continue
        choice = choose(edge.contract, plan, {sink: guess(plan, edge)}, TWO_NODES, rows=[strategy.row])
        lacks = choice.refused.partition("lacks: ")[2]
        found.append(
            {
                "row": name, "fits": choice.row is not None, "lacks": lacks, "every": choice.every,
                "bytes_per_element": choice.bytes_per_element, "memory_bytes": choice.memory_bytes,
                "recovery_s": choice.recovery_s,
            }
        )  # fmt: skip
    return found


def _now(each: SinkNow) -> dict[str, Any]:
    choice = each.choice
    return {
        "sink": each.sink, "promise": each.contract.describe(), "levels": list(level_of(each.contract).names),
        "delay_us_max": each.contract.delay_us_max, "row": None if choice.row is None else choice.row.name,
        "every": choice.every, "why": choice.why or choice.refused, "recovery_s": choice.recovery_s,
        "now": findings_json(each.findings), "query": each.query,
    }  # fmt: skip
