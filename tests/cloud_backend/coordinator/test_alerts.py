"""Alerts open, close and are told once each; the queue is bounded and patient."""

from __future__ import annotations

import json

import pytest

from cloud_backend.coordinator import alerts as module
from cloud_backend.coordinator.alerts import RETRIES_S, SECOND_US, Alerts, Condition
from shared.errors import UsageError

GAP = Condition("gap", "aa", "tram-07 was not heard")
URL = "https://example.org/hook"


@pytest.fixture
def alerts(where):
    made = Alerts(where("alerts.sqlite"))
    yield made
    made.close()


def test_an_alert_opens_once_and_closes_when_its_condition_ends(alerts):
    [began] = alerts.update([GAP], 10)
    assert (began.began_us, began.ended_us) == (10, None)
    assert alerts.update([GAP], 20) == []
    [ended] = alerts.update([], 30)
    assert (ended.number, ended.ended_us) == (began.number, 30)
    [again] = alerts.update([GAP], 40)
    assert again.number != began.number
    assert [alert.ended_us for alert in alerts.alerts()] == [None, 30]


def test_a_restart_forgets_nothing_and_repeats_nothing(where):
    first = Alerts(where("alerts.sqlite"))
    first.add_webhook(URL, 1)
    first.update([GAP], 10)
    first.close()
    second = Alerts(where("alerts.sqlite"))
    assert second.update([GAP], 20) == []
    assert len(second.queue()) == 1
    second.close()


def test_every_change_is_told_to_every_webhook(alerts):
    for _ in range(2):
        alerts.add_webhook(URL, 1)
    alerts.update([GAP], 10)
    alerts.update([], 20)
    events = [json.loads(message.body)["event"] for message in alerts.due(30, limit=10)]
    assert events == ["alert-began"] * 2 + ["alert-ended"] * 2


def test_a_message_is_tried_again_later_each_time_and_given_up_at_last(alerts):
    alerts.add_webhook(URL, 0)
    alerts.update([GAP], 0)
    now = 0
    for wait_s in (*RETRIES_S, RETRIES_S[-1]):
        [message] = alerts.due(now)
        alerts.failed(message, "no answer", now)
        assert alerts.due(now + wait_s * SECOND_US - 1) == []
        now += wait_s * SECOND_US
    assert alerts.due(now) == []
    [left] = alerts.queue()
    assert (left["given_up"], left["problem"]) == (True, "no answer")


def test_the_queue_is_bounded_and_says_what_it_dropped(alerts, monkeypatch):
    monkeypatch.setattr(module, "QUEUE_MAX", 3)
    number = alerts.add_webhook(URL, 0).number
    for at in range(5):
        alerts.test_webhook(number, at)
    assert len(alerts.queue()) == 3
    assert alerts.counts()["dropped"] == 2


def test_a_delivered_message_is_gone_and_a_removed_webhook_gets_none(alerts):
    number = alerts.add_webhook(URL, 0).number
    alerts.update([GAP], 0)
    [message] = alerts.due(0)
    alerts.delivered(message, 5)
    assert alerts.queue() == []
    alerts.update([], 1)
    alerts.remove_webhook(number)
    assert alerts.due(10) == []
    with pytest.raises(UsageError, match="webhook-not-found"):
        alerts.remove_webhook(number)


def test_rules_start_with_defaults_and_keep_what_was_set(alerts):
    assert alerts.rules()["gap"].threshold == 900
    alerts.set_rule("gap", threshold=60, enabled=False)
    assert (alerts.rules()["gap"].threshold, alerts.rules()["gap"].enabled) == (60, False)
    with pytest.raises(UsageError, match="alert-kind"):
        alerts.set_rule("moon", threshold=1, enabled=True)
    with pytest.raises(UsageError, match="alert-threshold"):
        alerts.set_rule("gap", threshold=float("nan"), enabled=True)


def test_there_is_a_bound_on_webhooks(alerts, monkeypatch):
    monkeypatch.setattr(module, "WEBHOOKS_MAX", 1)
    alerts.add_webhook(URL, 0)
    with pytest.raises(UsageError, match="webhook-too-many"):
        alerts.add_webhook(URL, 0)
