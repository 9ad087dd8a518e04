"""The audit of contracts put over a gateway: its log, its roster, its results and its jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from cloud_backend.contracts.audits import Aftermath, Audits, Device, Query
from cloud_backend.contracts.reports import FILE
from cloud_backend.dashboard.history.job_facts import JobFacts
from cloud_backend.dashboard.sources import program_at
from cloud_backend.gateway.gateway import Gateway
from cloud_backend.results.store import Results
from shared.plan.deployment import query_origin


def audits_of(
    gateway: Gateway,
    results: Results,
    plan: Path | None,
    facts: JobFacts,
    stores: Callable[[], Mapping[str, Path]],
) -> Audits:
    def devices(after: int) -> tuple[int, list[Device]]:
        newest, changed = gateway.roster.changed(after)
        return newest, [
            Device(
                entry.device.hex(), entry.incarnation, entry.enrolled_us,
                round(1e6 * (entry.status.clock_doubt_s or 0.0)), entry.plan_version is not None,
                entry.revoked_us is not None,
            )
            for entry in changed
        ]  # fmt: skip

    def aftermath() -> Aftermath:
        quarantined: dict[str, int] = {}
        rollbacks = []
        for job, known in facts.all(stores()).items():
            for each in known.get("quarantined", ()):
                quarantined[each["edge"]] = quarantined.get(each["edge"], 0) + each["elements"]
            for each in known.get("rollbacks", ()):
                rollbacks.append(
                    {"job": job, **{name: each[name] for name in ("n", "vertex", "to", "reason", "R", "E")}}
                )
        return Aftermath(quarantined, results.corrections(), tuple(rollbacks))

    def queries() -> tuple[Query, ...]:
        return tuple(
            Query(each.name, query_origin(each.name).hex(), each.incarnation, each.plan, each.row, each.every)
            for each in gateway.fleet.syncing()
        )

    return Audits(
        gateway.disk_log, gateway.settings.home / FILE, plan=lambda: program_at(plan), devices=devices,
        sign=gateway.keys.sign, aftermath=aftermath, queries=queries, recoveries=gateway.fleet.recoveries,
    )  # fmt: skip
