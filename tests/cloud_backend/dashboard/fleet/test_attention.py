"""What needs attention, in words."""

from __future__ import annotations

import pytest

from cloud_backend.coordinator.alerts import Alert
from cloud_backend.dashboard.fleet import attention
from cloud_backend.dashboard.fleet.attention import Issue
from cloud_backend.dashboard.fleet.device import Device
from cloud_backend.dashboard.fleet.listing import Listing
from cloud_backend.dashboard.fleet.phones import Phone
from shared.wire.status import DeviceStatus


def device(
    name: str, *, connected: bool = True, ledgered: int = 0, buffered: int = 0, revoked_us: int | None = None, **said
) -> Device:
    phone = Phone(
        id=name * 4, name=name, lane="wifi", connected=connected, since_us=1, buffered=buffered, unheard=0, delivered=9,
        ledgered=ledgered, outage_count=0, outages=(), last_receipt_us=1,
    )  # fmt: skip
    status = DeviceStatus(**{"battery": 80, "charging": False} | said)
    return Device(phone=phone, incarnation=1, enrolled_us=1, revoked_us=revoked_us, status=status, position=None)


def issues(devices, *found) -> list[Issue]:
    return attention.issues(listed(devices), *found, now_us=1)


def listed(devices) -> Listing:
    listing = Listing()
    for each in devices:
        listing.put(each)
    return listing


def test_a_fleet_in_order_needs_none():
    assert issues([device("a"), device("b")], {"main": {"alive": True, "vertices": []}}, 0) == []


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (device("a", connected=False), "a is out of contact"),
        (device("a", battery=10), "a has little battery left"),
        (device("a", ledgered=3), "3 readings of a had to be given up"),
    ],
)
def test_each_trouble_of_a_device_is_said_and_leads_to_it(found, words):
    (issue,) = issues([found], {}, 0)
    assert issue.words == words
    assert issue.link == "/devices/aaaa"


def test_a_charging_phone_and_a_revoked_one_are_nobodys_trouble():
    assert issues([device("a", battery=10, charging=True), device("b", connected=False, revoked_us=5)], {}, 0) == []


def test_what_endangers_data_comes_first():
    found = issues(
        [device("a", connected=False), device("b", full_in_s=60.0, poll_s=90.0)], {"main": {"alive": False}}, 7
    )
    assert [issue.severity for issue in found] == ["wrong", "wrong", "wrong", "note"]


def test_a_parked_range_is_said_with_its_reason():
    ranges = [{"range": "0-512", "parked": "operator: boom"}]
    (issue,) = issues([], {"main": {"alive": True, "vertices": [{"ranges": ranges}]}}, 0)
    assert "cannot go on" in issue.words
    assert issue.detail == "operator: boom"
    assert issue.link == "/jobs/main"


def test_an_open_alert_comes_first_and_a_gap_is_said_by_its_device():
    alerts = [
        Alert(1, "lag", "x", "gps of tram-07 lags more than 1800 s", 0, None),
        Alert(2, "gap", "y", "silent", 0, None),
    ]
    [issue] = issues([], {}, 0, alerts)
    assert (issue.severity, issue.words, issue.link) == ("wrong", "Gps of tram-07 lags more than 1800 s", "/audit")
    many = [Alert(number, "lag", str(number), "late", 0, None) for number in range(9)]
    assert [each.words for each in issues([], {}, 0, many)][-1] == "5 more alerts are open"
