"""What needs attention, in words."""

from __future__ import annotations

import pytest

from cloud_backend.dashboard.attention import issues
from cloud_backend.dashboard.fleet import Device
from cloud_backend.dashboard.overview import Phone


def device(name: str, *, connected: bool = True, ledgered: int = 0, buffered: int = 0, **said) -> Device:
    phone = Phone(
        id=name * 4, name=name, lane="wifi", connected=connected, since_us=1, buffered=buffered, unheard=0, delivered=9,
        ledgered=ledgered, outage_count=0, outages=(), last_receipt_us=1,
    )  # fmt: skip
    about = {
        "incarnation": 1, "enrolled_us": 1, "revoked_us": None, "battery": 0.8, "charging": False, "spool_bytes": 1,
        "spool_capacity": 100, "full_in_s": None, "version": "1", "plan": 1, "refusal": "", "missing_sensors": [],
        "position": None,
    }  # fmt: skip
    return Device(phone=phone, **(about | said))


def test_a_fleet_in_order_needs_none():
    assert issues([device("a"), device("b")], {"main": {"alive": True, "vertices": []}}, 0) == []


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (device("a", connected=False), "a is out of contact"),
        (device("a", battery=0.1), "a has little battery left"),
        (device("a", ledgered=3), "3 readings of a had to be given up"),
        (device("a", full_in_s=600.0), "a will overwrite readings in 10 min"),
    ],
)
def test_each_trouble_of_a_device_is_said_and_leads_to_it(found, words):
    (issue,) = issues([found], {}, 0)
    assert issue.words == words
    assert issue.link == "/devices/aaaa"


def test_a_charging_phone_and_a_revoked_one_are_nobodys_trouble():
    assert issues([device("a", battery=0.1, charging=True), device("b", connected=False, revoked_us=5)], {}, 0) == []


def test_what_endangers_data_comes_first():
    found = issues([device("a", connected=False), device("b", full_in_s=60.0)], {"main": {"alive": False}}, 7)
    assert [issue.severity for issue in found] == ["wrong", "wrong", "wrong", "note"]


def test_a_parked_range_is_said_with_its_reason():
    ranges = [{"range": "0-512", "parked": "operator: boom"}]
    (issue,) = issues([], {"main": {"alive": True, "vertices": [{"ranges": ranges}]}}, 0)
    assert "cannot go on" in issue.words
    assert issue.detail == "operator: boom"
    assert issue.link == "/jobs/main"
