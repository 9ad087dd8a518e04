"""What a gateway does by the clock with a log in Kafka."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cloud_backend.gateway.gateway import TRIM_EVERY_S, Gateway
from cloud_backend.gateway.settings import Settings
from cloud_backend.log.format import Record
from cloud_backend.log.partitions import open_log
from tests.cloud_backend.log.builders import PHONE, data
from tests.patience import wait_until

pytestmark = pytest.mark.brokers


def test_what_jobs_need_no_more_is_trimmed_and_what_they_have_not_read_presses_devices(
    tmp_path: Path, location: Callable[..., str]
) -> None:
    where, stable = location(1), tmp_path / "stable.json"
    gateway = Gateway(Settings(tmp_path / "home", log=where, stable=stable, backlog_bytes_max=1000))

    def append(lo: int) -> int:
        records: list[Record] = [data(PHONE, at, at + 1, bytes(500)) for at in range(lo, lo + 10)]
        gateway.log.append(records)
        gateway.log.commit(gateway.log.take())  # type: ignore[arg-type]
        return wait_until(lambda: _settled(where, lo + 10))

    async def follow() -> None:
        gateway._trimmed_at -= 2 * TRIM_EVERY_S
        gateway._hints_read_at = float("-inf")
        await gateway._follow_job()
        await gateway.close()

    first = append(0)
    append(10)
    stable.write_text(json.dumps({"0": first, "read": {"0": first}, "quarantined": 3}))
    asyncio.run(follow())
    assert open_log(where).starts() == {"0": first}
    assert gateway.quarantined == 3
    hint = gateway.downlink.hint(PHONE.device)
    assert hint is not None
    assert hint.rates["*"] < 0.5  # 5 KB are unread, 1 KB may be


def _settled(where: str, records: int) -> int:
    """Where the log ends, once so many records count."""
    reader = open_log(where)
    end = reader.ends()["0"]
    return end if sum(1 for _ in reader.read("0", 0, end)) == records else 0
