"""What the dashboard does by itself: alerts, messages, deletions."""

from __future__ import annotations

import asyncio

import pytest

from cloud_backend.dashboard.assembly import sources_of
from cloud_backend.dashboard.upkeep import Upkeep
from cloud_backend.dashboard.views import devices
from cloud_backend.dashboard.views.alerts import conditions
from cloud_backend.log.verify import verify
from shared.spool.disk import PosixDisk
from tests.cloud_backend.dashboard.house import EDGE_HEX


async def at_once(work) -> None:
    work()


@pytest.fixture
def sources(dashboard):
    made = sources_of(dashboard.gateway, dashboard.gateway.results, version="0")
    yield made
    made.close()


@pytest.fixture
def upkeep(sources):
    return Upkeep(sources, at_once)


def test_what_was_given_up_and_who_is_silent_is_told(dashboard, sources, upkeep):
    upkeep.watch()
    assert {alert.kind for alert in sources.alerts.alerts(only_open=True)} == {"ledger"}
    silent = dashboard.phones[0]
    dashboard.gateway.roster.seen([(silent, dashboard.now_us - 3600 * 1_000_000, None)])
    upkeep.watch()
    gaps = [alert for alert in sources.alerts.alerts(only_open=True) if alert.kind == "gap"]
    assert [alert.subject for alert in gaps] == [silent.hex()]
    assert "tram-07" in gaps[0].detail
    dashboard.gateway.roster.seen([(silent, dashboard.now_us, None)])
    upkeep.watch()
    assert all(alert.ended_us for alert in sources.alerts.alerts() if alert.kind == "gap")


def test_a_rule_that_is_off_watches_nothing(sources):
    sources.history.follow()
    assert [each.kind for each in conditions(sources)] == ["ledger"]
    sources.alerts.set_rule("ledger", threshold=0, enabled=False)
    assert conditions(sources) == []


def test_a_parked_vertex_a_lag_and_a_full_disk_are_told(dashboard, sources):
    sources.history.follow()
    store = dashboard.settings.stable.parent
    store.mkdir(parents=True)
    (store / "status.json").write_text('{"parked": {"trips 0-512": "no"}}')
    sources.alerts.set_rule("lag", threshold=0, enabled=True)
    sources.alerts.set_rule("disk", threshold=1e12, enabled=True)
    assert {each.kind for each in conditions(sources)} == {"ledger", "job", "lag", "disk"}


def test_a_webhook_that_does_not_answer_is_tried_again(sources, upkeep):
    number = sources.alerts.add_webhook("http://127.0.0.1:9/", 0).number
    sources.alerts.test_webhook(number, 0)
    upkeep.tell()
    [left] = sources.alerts.queue()
    assert (left["attempts"], "private network" in left["problem"]) == (1, True)


def test_a_deletion_takes_readings_results_and_trail_and_keeps_the_account(dashboard, sources, upkeep):
    sources.history.follow()
    gone, stays = dashboard.phones
    before = verify(PosixDisk(dashboard.settings.log_directory))
    devices.delete_data(sources, gone.hex())
    asyncio.run(upkeep.delete())
    [deletion] = sources.roster.deletions()
    assert (deletion.report["batches"], deletion.report["elements"]) == (1, 6)
    assert deletion.done_us is not None
    assert [row.device for row in sources.results.current()] == [stays.hex()]
    assert sources.history.trails.of(gone.hex()) == []
    assert sources.history.trails.of(stays.hex())
    after = verify(PosixDisk(dashboard.settings.log_directory))
    assert (after.delivered, after.ledgered, after.gaps) == (before.delivered, before.ledgered, 0)
    found = devices.device(sources, gone.hex(), exact=True)
    assert (found["state"], found["status"], found["delivered"]) == ("deleted", {}, 6)
    from cloud_backend.dashboard.views.streams import batches

    assert {each["device"] for each in batches(sources, EDGE_HEX, exact=True)["batches"]} == {stays.hex()}


def test_results_that_come_after_a_deletion_do_not_stay(dashboard, sources, upkeep):
    gone = dashboard.phones[0]
    devices.delete_data(sources, gone.hex())
    asyncio.run(upkeep.delete())
    row = dashboard._result(gone)
    sources.results.publish(2, [type(row)(**{**{name: getattr(row, name) for name in row.__slots__}, "revision": 9})])
    asyncio.run(upkeep.delete())
    assert gone.hex() not in {row.device for row in sources.results.current()}


def test_a_device_that_pairs_again_keeps_its_new_results(dashboard, sources, upkeep):
    gone = dashboard.phones[0]
    devices.delete_data(sources, gone.hex())
    asyncio.run(upkeep.delete())
    dashboard.enrol("tram-07")
    row = dashboard._result(gone)
    sources.results.publish(2, [type(row)(**{**{name: getattr(row, name) for name in row.__slots__}, "revision": 9})])
    asyncio.run(upkeep.delete())
    assert gone.hex() in {row.device for row in sources.results.current()}
