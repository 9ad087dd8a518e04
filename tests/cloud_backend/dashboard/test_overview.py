"""The sentences and sums of the overview."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cloud_backend.dashboard.arrivals import SECOND_US, Arrivals
from cloud_backend.dashboard.overview import Account, Contact, Phone, account, headline, phones

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
    phone = one_phone(last_seen_us=NOW, status={"produced": 60, "incarnation": 2})
    assert account([phone, phone]).as_json() == {
        "produced": 200, "delivered": 180, "spooled": 12, "ledgered": 8, "duplicates": 0,
    }  # fmt: skip


@pytest.mark.parametrize("nonsense", [-1, 2**60, "many", True, None, 1.5, [3]])
def test_a_status_that_makes_no_sense_counts_as_nothing(nonsense):
    assert one_phone(status={"produced": nonsense, "lane": nonsense, "incarnation": nonsense}).buffered == 0


def test_a_long_lane_name_is_cut():
    assert len(one_phone(status={"lane": "x" * 4000}).lane) == 40


def test_the_headline_says_who_is_offline_and_that_nothing_is_lost():
    offline = replace(PHONE, connected=False)
    assert headline([], Account())[0] == "No phone is paired yet"
    assert headline([PHONE], Account(delivered=1)) == (
        "tram-07 is connected", "Nothing is lost: every reading is in the log.",
    )  # fmt: skip
    assert headline([PHONE, PHONE], Account())[0] == "All 2 phones are connected"
    assert headline([PHONE, offline], Account(spooled=1200)) == (
        "tram-07 is offline, recording on",
        "Nothing is lost: 1,200 readings wait on the phones, everything else is in the log.",
    )
    away = replace(offline, unheard=30)
    assert headline([away], Account(spooled=2))[1].startswith("Nothing is lost: about 32 readings wait")
    assert headline([offline, offline], Account())[0].startswith("tram-07 and tram-07 are offline")
    assert headline([offline] * 5, Account())[0].startswith("tram-07, tram-07 and 3 more are offline")


def test_the_headline_never_hides_a_ledgered_reading():
    assert "2 readings had to be given up" in headline([PHONE], Account(delivered=5, spooled=3, ledgered=2))[1]
    assert headline([PHONE], Account(delivered=5), 4)[1].startswith(
        "Nothing is lost, but Spark could not use 4 readings"
    )
