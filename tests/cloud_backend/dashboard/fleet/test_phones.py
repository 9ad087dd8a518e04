"""The sentences and sums of the overview."""

from __future__ import annotations

from dataclasses import replace

from cloud_backend.dashboard.fleet.crowd import Crowd
from cloud_backend.dashboard.fleet.headline import headline
from cloud_backend.dashboard.fleet.phones import Contact, Phone, phones
from cloud_backend.dashboard.history.arrivals import SECOND_US, Arrivals
from shared.identity import DeviceId, EdgeId
from shared.wire.frame import encode
from shared.wire.messages import Frontier
from shared.wire.status import DeviceStatus

NOW = 1000 * SECOND_US
PHONE = Phone("aa", "tram-07", "gateway", True, NOW, 0, 0, 10, 0, 0, (), NOW)


def one_phone(**contact) -> Phone:
    logged = {"aa": {1: (40, 0), 2: (50, 4)}}  # it was paired twice
    [phone] = phones([Contact("aa", "tram-07", **contact)], logged, Arrivals(), NOW)
    return phone


def test_a_phone_is_connected_while_its_last_exchange_is_recent():
    assert one_phone(last_seen_us=NOW - 90 * SECOND_US).connected
    offline = one_phone(last_seen_us=NOW - 91 * SECOND_US)
    assert not offline.connected
    assert (offline.outage_count, offline.outages) == (1, [(NOW - 91 * SECOND_US, None)])


def test_a_paired_phone_that_was_never_seen_has_no_outage():
    phone = one_phone()
    assert (phone.connected, phone.since_us, phone.outage_count) == (False, None, 0)


def test_the_account_adds_what_the_log_holds_and_what_the_phones_said():
    phone = one_phone(last_seen_us=NOW, status=DeviceStatus(produced=60, incarnation=2))
    assert Crowd([phone, replace(phone, id="bb")]).account.as_json() == {
        "produced": 200, "delivered": 180, "spooled": 12, "ledgered": 8, "duplicates": 0,
    }  # fmt: skip


def test_an_idle_phone_is_connected_as_long_as_it_announced_to_be_silent():
    arrivals = Arrivals()
    for second in range(10):  # it was busy once, an exchange a second, and is idle since
        arrivals.take(NOW + second * SECOND_US, encode(Frontier(DeviceId(bytes(16)), 1, EdgeId(1), 0, second).frame()))
    status = DeviceStatus(poll_s=30.0)
    at = NOW + 9 * SECOND_US
    for silence_s, connected in ((20, True), (49, True), (51, False)):
        contact = Contact("00" * 16, "tram-07", at, status)
        (phone,) = phones([contact], {}, arrivals, at + silence_s * SECOND_US)
        assert phone.connected is connected, silence_s


def test_polls_that_leave_nothing_in_the_log_are_no_outage():
    arrivals = Arrivals()

    def record(second: int) -> None:
        arrivals.take(second * SECOND_US, encode(Frontier(DeviceId(bytes(16)), 1, EdgeId(1), 0, second).frame()))

    for second in range(10):
        record(second)
    for second in range(30, 600, 30):
        arrivals.contact("00" * 16, second * SECOND_US, 30.0)
    record(600)
    assert arrivals.device("00" * 16).outage_count == 0
    record(700)
    assert arrivals.device("00" * 16).outage_count == 1


def crowd(*found: Phone) -> Crowd:
    """These, each another device."""
    return Crowd(replace(phone, id=f"{number:02x}") for number, phone in enumerate(found))


def test_the_headline_says_who_is_offline_and_what_is_known_of_them():
    offline = replace(PHONE, connected=False)
    assert headline(crowd())[0] == "No phone is paired yet"
    assert headline(crowd(PHONE)) == ("tram-07 is connected", "Nothing is lost: every reading is in the log.")
    assert headline(crowd(PHONE, PHONE))[0] == "Both phones are connected"
    assert headline(crowd(PHONE, replace(offline, buffered=1200))) == (
        "tram-07 is offline",
        "When last heard, the phones held 1,200 readings; everything else is in the log.",
    )
    assert headline(crowd(replace(offline, unheard=30, buffered=2)))[1] == (
        "When last heard, the phones held 2 readings; everything else is in the log. "
        "If they go on, they hold about 30 more by now."
    )
    assert headline(crowd(offline, offline))[0].startswith("tram-07 and tram-07 are offline")
    assert headline(crowd(*[offline] * 5))[0].startswith("tram-07, tram-07 and 3 more are offline")


def test_the_headline_does_not_call_offline_who_was_never_heard():
    new = replace(PHONE, connected=False, since_us=None, name="attic")
    offline = replace(PHONE, connected=False)
    assert headline(crowd(PHONE, new))[0] == "attic was not seen yet"
    assert headline(crowd(new, new), alerts=1)[0] == "attic and attic were not seen yet and an alert is open"
    assert headline(crowd(offline, new))[0] == "tram-07 is offline, attic was not seen yet"
    both = crowd(PHONE, offline, new)
    assert (both.connected, both.offline, both.unseen) == (1, 1, 1)
    both.remove("02")
    assert (both.connected, both.offline, both.unseen) == (1, 1, 0)


def test_the_headline_never_hides_an_open_alert():
    offline = replace(PHONE, connected=False)
    assert headline(crowd(PHONE, PHONE), alerts=2)[0] == "Both phones are connected, but 2 alerts are open"
    assert headline(crowd(offline), alerts=1)[0] == "tram-07 is offline and an alert is open"


def test_the_headline_never_hides_a_ledgered_reading():
    assert "2 readings had to be given up" in headline(crowd(replace(PHONE, buffered=3, ledgered=2)))[1]
    assert headline(crowd(PHONE), 4)[1].startswith("Nothing is lost, but Spark could not use 4 readings")
