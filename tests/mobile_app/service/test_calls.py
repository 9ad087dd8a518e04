"""Calls beside the screen's thread, against a real socket."""

from __future__ import annotations

import queue
import threading

import pytest

from mobile_app.service.calls import Calls
from mobile_app.service.connection import ServiceGone, ServiceRefused, ServiceServer
from shared.errors import UsageError
from tests.patience import PATIENCE_S


@pytest.fixture
def told():
    return queue.Queue()


@pytest.fixture
def calls(tmp_path, told):
    asking = Calls(tmp_path, lambda function: function())
    yield asking
    asking.close()


def served(home, handler=lambda call, arguments: {"call": call}):
    return ServiceServer(home, handler)


def test_an_answer_reaches_then_and_a_refusal_otherwise(tmp_path, calls, told):
    def handler(call, arguments):
        if call == "plan":
            raise UsageError("no", code="plan-001")
        return {"call": call}

    server = served(tmp_path, handler)
    calls.ask(lambda client: client.view(), told.put, told.put)
    assert told.get(timeout=PATIENCE_S) == {"call": "view"}
    calls.ask(lambda client: client.plan(), told.put, told.put)
    refusal = told.get(timeout=PATIENCE_S)
    assert isinstance(refusal, ServiceRefused)
    assert refusal.code == "plan-001"
    server.close()


def test_without_a_service_it_says_so_and_finds_the_next_one(tmp_path, calls, told):
    for _ in range(2):
        calls.ask(lambda client: client.view(), told.put, told.put)
        assert isinstance(told.get(timeout=PATIENCE_S), ServiceGone)
        server = served(tmp_path)
        calls.ask(lambda client: client.view(), told.put, told.put)
        assert told.get(timeout=PATIENCE_S) == {"call": "view"}
        server.close()


def test_a_slow_service_leaves_one_question_of_a_kind_waiting(tmp_path, calls, told):
    go_on, begun = threading.Event(), threading.Event()

    def handler(call, arguments):
        begun.set()
        go_on.wait(PATIENCE_S)
        return {"call": call}

    server = served(tmp_path, handler)
    calls.ask(lambda client: client.view(), told.put, told.put, key="view")
    assert begun.wait(PATIENCE_S)
    for _ in range(50):
        calls.ask(lambda client: client.view(), told.put, told.put, key="view")
    calls.ask(lambda client: client.plan(), told.put, told.put, key="plan")
    go_on.set()
    assert [told.get(timeout=PATIENCE_S)["call"] for _ in range(3)] == ["view", "view", "plan"]
    assert told.empty()
    server.close()
