"""What the dashboard does by itself: alerts, messages, deletions."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import contextmanager
from functools import partial

import pytest

from cloud_backend.coordinator.alerts import Condition
from cloud_backend.dashboard import upkeep as module
from cloud_backend.dashboard.assembly import sources_of
from cloud_backend.dashboard.upkeep import Upkeep
from cloud_backend.dashboard.views.alerts import conditions
from cloud_backend.dashboard.views.devices import device
from cloud_backend.dashboard.views.streams import stream, streams
from cloud_backend.log.verify import verify
from shared.spool.disk import PosixDisk
from shared.wire.status import DeviceStatus, PaceStatus
from tests.cloud_backend.dashboard.house import EDGE_HEX


async def at_once(work) -> None:
    work()


@contextmanager
def answering(answer):
    """A receiver of messages; `answer` does what it does with a connection."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


@contextmanager
def dripping():
    """One that says a letter now and then, and never comes to an end."""
    over = threading.Event()

    def answer(connection) -> None:
        with connection:
            while not over.wait(0.2):
                try:
                    connection.sendall(b"H")
                except OSError:
                    return

    with answering(answer) as url:
        yield url
    over.set()


@contextmanager
def receiving():
    arrived = []

    def answer(connection) -> None:
        with connection:
            arrived.append(connection.recv(65536))
            connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

    with answering(answer) as url:
        yield url, arrived


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


def test_very_many_alerts_at_once_leave_the_other_lines_in_the_log(sources, upkeep, monkeypatch, caplog):
    silent = [Condition("gap", f"phone-{number}", f"phone-{number} was not heard") for number in range(50)]
    monkeypatch.setattr(module, "conditions", lambda _: silent)
    upkeep.watch()
    assert len(sources.alerts.alerts(only_open=True)) == 50
    said = [record.getMessage() for record in caplog.records if record.name == "resurge.upkeep"]
    assert len(said) == module.SAID_MAX + 1
    assert said[-1] == "30 further alerts began or ended; `resurge alert list` names them"


def test_silence_and_lag_are_judged_against_what_the_device_announced(dashboard, sources, upkeep):
    """A phone that exchanges every half hour, silent for 1,000 s, does what it said; after 3,000 s it does not."""

    def after(seconds: int) -> dict[str, set[str]]:
        later_us = dashboard.now_us + seconds * 1_000_000
        object.__setattr__(sources, "clock_us", lambda: later_us)
        sources.look_again()
        upkeep.watch()
        found: dict[str, set[str]] = {"gap": set(), "lag": set()}
        for alert in sources.alerts.alerts(only_open=True):
            found.setdefault(alert.kind, set()).add(alert.subject.partition("/")[0])
        return found

    rare, other = (phone.hex() for phone in dashboard.phones)
    status = DeviceStatus(produced=12, incarnation=1, poll_s=1800.0)
    dashboard.gateway.roster.seen([(dashboard.phones[0], dashboard.now_us, status)])
    assert after(1000)["gap"] == {other}
    found = after(2000)  # the rare one is in contact, its streams as old as they must be
    assert (found["gap"], found["lag"]) == ({other}, set())
    assert after(3000)["gap"] == {rare, other}


def test_a_device_in_contact_whose_streams_are_older_than_it_announced_lags(dashboard, sources, upkeep):
    status = DeviceStatus(produced=12, incarnation=1, poll_s=1800.0)
    later_us = dashboard.now_us + 3000 * 1_000_000
    object.__setattr__(sources, "clock_us", lambda: later_us)
    dashboard.gateway.roster.seen([(dashboard.phones[0], later_us, status)])
    upkeep.watch()
    lags = [alert for alert in sources.alerts.alerts(only_open=True) if alert.kind == "lag"]
    assert [alert.subject.partition("/")[0] for alert in lags] == [dashboard.phones[0].hex()]
    assert "more than 2705 s" in lags[0].detail


def test_a_device_that_plays_a_recording_is_late_by_its_own_time_only(dashboard, sources, upkeep):
    """Its streams end 3,000 s ago. Where it is 2,990 s behind the time of day on purpose, that is hardly late."""
    later_us = dashboard.now_us + 3000 * 1_000_000
    object.__setattr__(sources, "clock_us", lambda: later_us)

    def late(pace: PaceStatus | None) -> tuple[set[str], bool]:
        status = DeviceStatus(produced=12, incarnation=1, poll_s=1.0, pace=pace)
        dashboard.gateway.roster.seen([(dashboard.phones[0], later_us, status)])
        sources.look_again()
        upkeep.watch()
        [gps] = streams(sources)
        parts = {each["device"]: each["lag_s"] for each in stream(sources, EDGE_HEX)["devices"]}
        assert gps.lag_s == parts[dashboard.phones[0].hex()]
        opened = {alert.kind for alert in sources.alerts.alerts(only_open=True)} & {"lag"}
        return opened, gps.lag_s > 2000

    assert late(PaceStatus(0.5, later_us - 10_000_000, dashboard.now_us)) == (set(), False)
    assert late(None) == ({"lag"}, True)


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
    asyncio.run(upkeep.send_messages())
    [left] = sources.alerts.queue()
    assert (left["attempts"], "private network" in left["problem"]) == (1, True)
    assert "private network" in sources.alerts.outcomes()[number].problem


def test_what_became_of_a_test_message_is_shown_beside_the_webhook(dashboard, sources, upkeep):
    admin = dashboard.browser("admin")
    number = sources.alerts.add_webhook("http://127.0.0.1:9/", 0).number
    answer = admin.post(f"/alerts/webhooks/{number}/test")
    page = admin.get(answer.headers["location"]).text
    assert "was sent" not in page
    assert "no message yet" in page
    asyncio.run(upkeep.send_messages())
    assert "did not arrive" in admin.get("/audit/webhooks").text


def test_a_receiver_that_drips_keeps_neither_alerts_nor_deletions_nor_other_receivers_waiting(
    dashboard, sources, upkeep, monkeypatch
):
    monkeypatch.setattr(module, "deliver", partial(module.deliver, deadline_s=600.0))  # nobody waits for it to end
    with dripping() as slow, receiving() as (quick, arrived):
        for url in (slow, quick):
            sources.alerts.test_webhook(sources.alerts.add_webhook(url, 0, private=True).number, 0)
        sources.roster.delete_data(dashboard.phones[0], dashboard.now_us)

        async def story() -> None:
            running = asyncio.create_task(upkeep.run())
            while not (arrived and all(each.done_us for each in sources.roster.deletions())):  # noqa: ASYNC110
                await asyncio.sleep(0.01)  # the one is seen by a thread, the other by a database
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

        asyncio.run(asyncio.wait_for(story(), timeout=60))
    assert {alert.kind for alert in sources.alerts.alerts()} == {"ledger"}


def test_a_deletion_takes_readings_results_and_trail_and_keeps_the_account(dashboard, sources, upkeep):
    sources.history.follow()
    gone, stays = dashboard.phones
    before = verify(PosixDisk(dashboard.settings.log_directory))
    sources.roster.delete_data(gone, dashboard.now_us)
    asyncio.run(upkeep.delete())
    [deletion] = sources.roster.deletions()
    assert (deletion.report["batches"], deletion.report["elements"]) == (1, 6)
    assert deletion.done_us is not None
    assert [row.device for row in sources.results.current()] == [stays.hex()]
    assert sources.history.trails.of(gone.hex()) == []
    assert sources.history.trails.of(stays.hex())
    after = verify(PosixDisk(dashboard.settings.log_directory))
    assert (after.delivered, after.ledgered, after.gaps) == (before.delivered, before.ledgered, 0)
    found = device(sources, gone.hex(), exact=True)
    assert (found["state"], found["status"], found["delivered"]) == ("deleted", {}, 6)
    from cloud_backend.dashboard.views.streams import batches

    assert {each["device"] for each in batches(sources, EDGE_HEX, exact=True)["batches"]} == {stays.hex()}


def test_results_that_come_after_a_deletion_do_not_stay(dashboard, sources, upkeep):
    gone = dashboard.phones[0]
    sources.roster.delete_data(gone, dashboard.now_us)
    asyncio.run(upkeep.delete())
    row = dashboard._result(gone)
    sources.results.publish(2, [type(row)(**{**{name: getattr(row, name) for name in row.__slots__}, "revision": 9})])
    asyncio.run(upkeep.delete())
    assert gone.hex() not in {row.device for row in sources.results.current()}


def test_a_device_that_pairs_again_keeps_its_new_results(dashboard, sources, upkeep):
    gone = dashboard.phones[0]
    sources.roster.delete_data(gone, dashboard.now_us)
    asyncio.run(upkeep.delete())
    dashboard.enrol("tram-07")
    row = dashboard._result(gone)
    sources.results.publish(2, [type(row)(**{**{name: getattr(row, name) for name in row.__slots__}, "revision": 9})])
    asyncio.run(upkeep.delete())
    assert gone.hex() in {row.device for row in sources.results.current()}


def test_a_promise_that_is_broken_is_told_and_over_with_its_hour(dashboard, sources, upkeep):
    hour_us = 3600 * 1_000_000
    upkeep.measure()
    dashboard.deliver(dashboard.phones[0], seq=8)
    upkeep.measure()
    upkeep.watch()
    told = {alert.subject: alert.detail for alert in sources.alerts.alerts(only_open=True) if alert.kind == "contract"}
    assert told == {"gps": "the promise of gps is broken: loss"}
    sources.contracts.follow(sources.clock_us() + 2 * hour_us)
    upkeep.watch()
    assert not [alert for alert in sources.alerts.alerts(only_open=True) if alert.kind == "contract"]
    assert [each.verdict for each in sources.contracts.reports()][-1] == "broken"


def test_what_is_noted_in_a_copy_of_a_log_in_kafka_keeps_no_exchange_waiting(dashboard, sources, upkeep):
    class Copy:
        """One that is being written, which may wait for brokers for a minute."""

        def has_erased(self, *_: object) -> bool:
            return False

        def note_erased(self, *_: object) -> None:
            noted.append(threading.current_thread() is threading.main_thread())

    noted: list[bool] = []
    deletion = sources.roster.delete_data(dashboard.phones[0], 1)
    asyncio.run(upkeep._erase_in_kafka(deletion, Copy()))
    assert noted == [False]
    assert sources.roster.deletions()[0].report["batches"] == 1
