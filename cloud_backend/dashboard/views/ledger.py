"""The ledger over everything: tombstones of the log, and what Spark left out after delivery."""

from __future__ import annotations

from typing import Any

from cloud_backend.dashboard.sources import Sources
from cloud_backend.dashboard.views import streams


def ledger(sources: Sources, *, device: str = "", edge_hex: str = "", limit: int = 100) -> dict[str, Any]:
    """Totals from the log's index, and the newest entries of both kinds."""
    total = sum(
        state.ledgered
        for key, state in sources.log.edges()
        if (not device or key.device.hex() == device) and (not edge_hex or key.edge == int(edge_hex, 16))
    )
    left_out = [entry for entry in quarantined(sources) if not device or entry["device"] == device]
    return {
        "ledgered": total,
        "ranges": streams.ledger(sources, edge_hex=edge_hex, device=device, limit=limit),
        "quarantined": left_out[-limit:],
        "quarantined_elements": sum(entry["elements"] for entry in left_out),
    }


def quarantined(sources: Sources) -> list[dict[str, Any]]:
    """What the vertices of every job could not use, each with its job."""
    from cloud_backend.spark.manifest.manifest import ManifestLog
    from cloud_backend.spark.manifest.quarantine import quarantine
    from cloud_backend.spark.storage.store import Store

    return [
        {"job": name} | entry
        for name, store in sources.stores().items()
        if (store / "manifest").is_dir()
        for entry in quarantine(ManifestLog(Store(store)).state)
    ]
