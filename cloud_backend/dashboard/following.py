"""Bringing followers level with the results: what was answered since each one's place, sent and then kept as sent."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from typing import Any

from cloud_backend.coordinator import mqtt_broker
from cloud_backend.coordinator.followers import Follower
from cloud_backend.coordinator.webhooks import deliver
from cloud_backend.dashboard.sources import Sources
from cloud_backend.gateway.downlink import result_body
from cloud_backend.results.rows import ResultRow
from shared.errors import PeerError

STEP = 200  # answers looked at, and rows in one request, at most
SECONDS_MAX = 5.0  # for a follower in one go


def due(sources: Sources) -> list[Follower]:
    """Those that have something to hear and may be tried."""
    now_us, change = sources.clock_us(), sources.results.change()
    return [each for each in sources.followers.all() if each.place != change and each.retry_us <= now_us]


def keep_up(sources: Sources, name: str) -> None:
    """Send a follower what was answered since its place, for a while; nothing where another gateway does."""
    follower = sources.followers.hold(name, sources.clock_us())
    if follower is None:
        return
    after = follower.place
    if after > sources.results.change():  # the results were made anew
        after = 0
        if not sources.followers.took(follower, after, 0, sources.clock_us()):
            return
    end = time.monotonic() + SECONDS_MAX
    while time.monotonic() < end:
        last = sources.results.change()
        change, found = sources.results.changes(after, STEP)
        if not found:  # what came since was removed again, with a device or a sink
            change = last
        if change == after:
            return
        rows = [row for row in found if row.sink == follower.sink]
        try:
            if rows:
                send(follower, rows, now_s=sources.clock_us() // 1_000_000)
        except PeerError as error:
            sources.followers.failed(follower, error.message, sources.clock_us())
            return
        if not sources.followers.took(follower, change, len(rows), sources.clock_us()):
            return  # removed, or another's: it is sent nothing more from here
        after = change


def send(follower: Follower, rows: Sequence[ResultRow], *, now_s: int) -> None:
    """Hand rows over; PeerError where the receiver did not take them all. Rows that are sent again are equal."""
    told = [row_of(row) for row in rows]
    if follower.is_mqtt:
        messages = [
            (mqtt_broker.topic_of(follower.url, row.key), json.dumps(body, ensure_ascii=False).encode())
            for row, body in zip(rows, told, strict=True)
        ]
        mqtt_broker.publish(
            follower.url, messages, password=follower.secret, retained=follower.retained, private=follower.private
        )
        return
    body = json.dumps({"sink": follower.sink, "rows": told}, ensure_ascii=False).encode()
    deliver(
        follower.url, body, secret=follower.secret, now_s=now_s, private=follower.private,
        headers={"Idempotency-Key": hashlib.sha256(body).hexdigest()},
    )  # fmt: skip


def row_of(row: ResultRow) -> dict[str, Any]:
    """A row as receivers get it: `id` names what it is about, of one id the highest `revision` counts."""
    return {
        "id": hashlib.sha256(repr(row.identity).encode()).hexdigest()[:32],
        **result_body(row),
        "device": row.device,
    }
