"""Whatever people ask the dashboard, the gateway's own work goes on."""

from __future__ import annotations

import asyncio
import threading

import pytest

from cloud_backend.dashboard.threads import QUESTIONS_MAX, aside, in_turn
from cloud_backend.gateway.http_problems import Problem


def test_a_revocation_reaches_open_sessions_while_every_thread_of_the_dashboard_is_taken(dashboard):
    release = threading.Event()
    revoked = dashboard.phones[0]

    async def story() -> None:
        taken = [asyncio.ensure_future(aside(release.wait)) for _ in range(64)]
        await asyncio.sleep(0)
        dashboard.gateway.roster.revoke(revoked, dashboard.now_us)
        try:
            await asyncio.wait_for(dashboard.gateway.tick(), timeout=20)
            await asyncio.wait_for(asyncio.to_thread(lambda: None), timeout=20)
        finally:
            release.set()
            await asyncio.gather(*taken)

    asyncio.run(story())


def test_questions_run_one_at_a_time_and_few_may_wait():
    release, running, most = threading.Event(), 0, 0
    lock = threading.Lock()

    def question() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        release.wait()
        with lock:
            running -= 1

    async def story() -> None:
        waiting = [asyncio.ensure_future(in_turn(question)) for _ in range(QUESTIONS_MAX)]
        await asyncio.sleep(0)
        with pytest.raises(Problem, match="too many questions"):
            await in_turn(question)
        assert await aside(lambda: "a page") == "a page"
        release.set()
        await asyncio.gather(*waiting)
        await in_turn(lambda: None)

    asyncio.run(story())
    assert most == 1
