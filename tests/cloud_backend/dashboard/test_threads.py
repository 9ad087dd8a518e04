"""Whatever people ask the dashboard, the gateway's own work goes on."""

from __future__ import annotations

import asyncio
import sys
import threading

import pytest

from cloud_backend.dashboard.threads import QUESTIONS, QUESTIONS_MAX, Turns, in_thread, in_turn
from cloud_backend.gateway.__main__ import SWITCH_INTERVAL_S, main
from cloud_backend.gateway.http_problems import Problem
from cloud_backend.gateway.rate_limits import Buckets


class Ended(Exception):
    """A gateway that was only to begin."""


def test_a_revocation_reaches_open_sessions_while_every_thread_of_the_dashboard_is_taken(dashboard, monkeypatch):
    release = threading.Event()
    revoked = dashboard.phones[0]
    reached: list[bytes] = []
    monkeypatch.setattr(type(dashboard.gateway.sessions), "revoke", lambda _, device: reached.append(device))

    async def story() -> None:
        taken = [asyncio.ensure_future(in_thread(release.wait)) for _ in range(64)]
        await asyncio.sleep(0)
        dashboard.gateway.roster.revoke(revoked, dashboard.now_us)
        try:
            await asyncio.wait_for(dashboard.gateway.tick(), timeout=20)
            await asyncio.wait_for(asyncio.to_thread(lambda: None), timeout=20)
        finally:
            release.set()
            await asyncio.gather(*taken)

    asyncio.run(story())
    assert reached == [revoked]


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
        waiting = [asyncio.ensure_future(in_turn("ada", question)) for _ in range(QUESTIONS_MAX)]
        await asyncio.sleep(0)
        with pytest.raises(Problem, match="too many questions"):
            await in_turn("ada", question)
        assert await in_thread(lambda: "a page") == "a page"
        release.set()
        await asyncio.gather(*waiting)
        await in_turn("ada", lambda: None)

    asyncio.run(story())
    assert most == 1


def test_one_person_cannot_ask_on_and_on_and_others_still_can(monkeypatch):
    monkeypatch.setattr(Turns, "asked", Buckets(QUESTIONS))

    async def story() -> None:
        for _ in range(int(QUESTIONS.burst)):
            await in_turn("eve", lambda: None)
        more = [in_turn("eve", lambda: None) for _ in range(int(QUESTIONS.burst))]  # some may: time went on
        answers = [await asyncio.gather(each, return_exceptions=True) for each in more]
        assert any(isinstance(answer, Problem) for (answer,) in answers)
        await in_turn("ada", lambda: None)

    asyncio.run(story())


def test_a_thread_that_computes_gives_the_interpreter_back_soon(monkeypatch, tmp_path):
    """The event loop wants it back for every exchange; Python's own 5 ms are too long with seven such threads."""
    kept = []
    monkeypatch.setattr("cloud_backend.gateway.__main__.Gateway", lambda *_, **__: kept.append(sys.getswitchinterval()))
    monkeypatch.setattr("cloud_backend.gateway.__main__.create_app", lambda *_, **__: (_ for _ in ()).throw(Ended))
    before = sys.getswitchinterval()
    try:
        with pytest.raises(Ended):
            main(["--home", str(tmp_path / "home")])
    finally:
        sys.setswitchinterval(before)
    assert kept == [pytest.approx(SWITCH_INTERVAL_S)]
    assert before / 5 > SWITCH_INTERVAL_S
