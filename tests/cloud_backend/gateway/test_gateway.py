"""The gateway's background task and its end."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import threading
from pathlib import Path

from cloud_backend.gateway.gateway import Gateway
from cloud_backend.log.heads import read_heads
from tests.cloud_backend.gateway.conftest import settings_for
from tests.cloud_backend.log.builders import PHONE, data
from tests.patience import PATIENCE_S


def test_a_stop_during_a_tick_waits_for_its_threads_before_the_home_is_closed(tmp_path: Path):
    """A head half kept in a thread of a tick and the last one of `close` would be two writers of one file."""
    gateway = Gateway(settings_for(tmp_path / "home"))
    sign, writing, release = gateway.keys.sign, threading.Event(), threading.Event()

    def slow_sign(message: bytes) -> bytes:
        writing.set()
        assert release.wait(PATIENCE_S)
        return sign(message)

    gateway._heads._sign = slow_sign
    gateway.log.append([data(PHONE, 0, 10)])
    gateway.log.sync()
    during = gateway.log.durable_end

    async def story() -> None:
        running = asyncio.create_task(gateway.run())
        assert await asyncio.to_thread(writing.wait, PATIENCE_S)
        running.cancel()
        for _ in range(10):  # as many turns of the loop as an end without waiting would need
            await asyncio.sleep(0)
        assert not running.done()
        release.set()
        await asyncio.wait([running])
        assert running.cancelled()
        await gateway.close()

    asyncio.run(story())
    assert [head.offset for head in read_heads(tmp_path / "home")] == [during, gateway.log.durable_end]


def test_a_log_that_ends_before_an_end_that_was_signed_is_told(tmp_path: Path, caplog):
    """Whoever cuts the tail off leaves a log that looks whole."""
    settings = settings_for(tmp_path / "home")
    gateway = Gateway(settings)
    gateway.log.append([data(PHONE, 0, 10)])
    gateway.log.sync()
    asyncio.run(gateway.close())  # signs where the log ends
    assert read_heads(settings.home)
    assert not caplog.records
    shutil.rmtree(settings.log_directory)
    again = Gateway(settings)
    asyncio.run(again.close())
    assert "its tail was cut off" in caplog.text
    with sqlite3.connect(settings.roster_path) as database:
        assert ("log-cut",) in database.execute("SELECT act FROM audit").fetchall()
