from __future__ import annotations

import errno
import os
import threading

import pytest

from cloud_backend.gateway import appender
from cloud_backend.gateway.gateway import QUIET_TICKS
from cloud_backend.log.disk import LogDisk
from cloud_backend.log.log import Log
from cloud_backend.log.reader import Reader
from shared.identity import edge_id
from shared.language.schema import Schema
from shared.spool.disk import PosixDisk
from shared.wire.frame import Frame, FrameType, decode_one, encode
from shared.wire.messages import Declare, Refusal, Status
from shared.wire.status import DeviceStatus
from tests.cloud_backend.gateway.phone_client import PhoneClient, through


def test_a_batch_is_in_the_log_when_its_receipt_arrives(service):
    phone = service.phone()
    assert phone.send(10, b"ten elements") == 10
    records = list(service.gateway.log.read(0, service.gateway.log.end))
    kinds = [decode_one(record.frame)[0].type for _, record in records]
    assert kinds == [FrameType.DECLARE, FrameType.DATA]
    reader = Reader(service.gateway.settings.log_directory)
    assert list(reader.read(0, reader.valid_end())) == records
    assert records[0][1].received_us > 0


@pytest.mark.covers("SO-9")
def test_repeating_an_exchange_any_number_of_times_changes_nothing(service):
    phone = service.phone()
    body = phone.session.seal([phone.declare(), phone.batch(0, 10)])
    status, first = service.post(body)
    assert status == 200
    before = service.log_bytes()
    for _ in range(20):
        status, again = service.post(body)
        assert status == 200
        assert through_of(phone, again) == through_of(phone, first) == 10
    for _ in range(20):  # the same batch in new exchanges
        assert through(phone.exchange(phone.declare(), phone.batch(0, 10))[1]) == 10
    assert service.log_bytes() == before


def through_of(phone: PhoneClient, answer: bytes) -> int:
    from shared.wire.frame import decode_all

    return through(list(decode_all(phone.session.open(answer))))


def test_a_gap_is_answered_with_the_mark_and_kept_out_of_the_log(service):
    phone = service.phone()
    phone.send(10)
    before = service.log_bytes()
    status, frames = phone.exchange(phone.batch(20, 30))
    assert (status, through(frames)) == (200, 10)
    assert service.log_bytes() == before


def test_a_restarted_gateway_continues_where_its_log_ends(start, tmp_path):
    first = start()
    phone = first.phone()
    phone.send(10)
    first.client.__exit__(None, None, None)
    second = start()
    phone.post = second.post
    status, frames = phone.exchange(phone.batch(10, 20))
    assert status == 401
    assert Refusal.of(frames[0]).code == "session-unknown"
    assert phone.hello()[0] == 200
    assert phone.send(10) == 20
    assert through(phone.exchange(phone.declare(), phone.batch(0, 10))[1]) == 20


@pytest.mark.parametrize(
    ("make", "status", "code"),
    [
        (lambda phone: phone.session.seal([phone.batch(5, 15)]), 409, "sync-overlap"),
        (lambda phone: phone.session.seal([phone.batch(10, 20)])[:-1] + b"x", 401, "envelope-seal"),
        (lambda phone: b"\xe1" + bytes(200), 401, "session-unknown"),
        (lambda phone: b"", 400, "frame-truncated"),
        (lambda phone: b"not a frame" * 30, 400, "frame-magic"),
        (lambda phone: phone.session.seal([b"garbage" * 30]), 401, "envelope-seal"),
        (lambda phone: phone.session.seal([phone.batch(10, 20)[:-1]]), 401, "envelope-seal"),
        (lambda phone: phone.session.seal([phone.batch(10, 20)[:-1] + b"?"]), 400, "frame-checksum"),
        (lambda phone: phone.batch(10, 20), 401, "session-required"),
    ],
)
def test_a_malformed_or_forged_exchange_is_refused_and_the_log_unchanged(service, make, status, code):
    phone = service.phone()
    phone.send(10)
    before = service.log_bytes()
    got, answer = service.post(make(phone))
    inside = phone.session.open(answer) if answer[:1] == b"\xe1" else answer
    assert (got, Refusal.of(decode_one(inside)[0]).code) == (status, code)
    assert service.log_bytes() == before
    assert phone.send(10) == 20  # the phone kept its data and goes on


def test_an_unknown_and_a_wrongly_signed_phone_learn_the_same_nothing(service):
    known = service.phone()
    stranger = PhoneClient(service.gateway.keys.public_key, service.post)
    forger = PhoneClient(service.gateway.keys.public_key, service.post)
    forger.session.device = known.device  # claims another's id
    forger.session.incarnation = known.incarnation
    before = service.log_bytes()
    answers = {who.hello() for who in (stranger, forger)}
    ((status, answer),) = answers
    assert (status, Refusal.of(decode_one(answer)[0]).code) == (401, "device-unknown")
    assert service.log_bytes() == before


def test_a_frame_of_another_device_is_refused(service):
    phone, other = service.phone("a"), service.phone("b")
    before = service.log_bytes()
    status, frames = phone.exchange(phone.declare(), other.declare(), other.batch(0, 10))
    assert (status, Refusal.of(frames[0]).code) == (403, "sync-identity")
    assert service.log_bytes() == before


def test_an_oversized_body_is_refused_before_it_is_read(start):
    service = start(exchange_bytes_max=2000)
    phone = service.phone()
    status, answer = service.post(phone.session.seal([phone.declare(), phone.batch(0, 10, bytes(3000))]))
    assert (status, Refusal.of(decode_one(answer)[0]).code) == (413, "exchange-too-large")

    def chunks():
        for _ in range(10):
            yield bytes(1000)

    response = service.client.post(
        "/v1/exchange", content=chunks(), headers={"content-type": "application/vnd.resurge.exchange"}
    )
    assert response.status_code == 413
    assert phone.send(10) == 10


def test_whoever_does_not_speak_our_media_type_gets_a_problem(service):
    response = service.client.post("/v1/exchange", content=b"{}", headers={"content-type": "application/json"})
    assert response.status_code == 415
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["code"] == "exchange-media-type"
    assert service.client.get("/v1/exchange").status_code == 405


def test_small_groups_are_committed_in_the_loop_and_a_few_after_a_slow_one_in_a_thread(service, monkeypatch):
    phone = service.phone()
    asked: list[bool] = []
    commit = Log.commit

    def noted(log, group):
        asked.append(threading.current_thread().name.startswith("log"))
        commit(log, group)

    monkeypatch.setattr(Log, "commit", noted)
    monkeypatch.setattr(appender, "GROUPS_AFTER_SLOW", 2)
    for slow_s in (3600.0, 3600.0, 0.0, 3600.0, 3600.0, 3600.0):
        monkeypatch.setattr(appender, "SLOW_S", slow_s)
        phone.send(10)
    assert asked == [False, False, False, True, True, False]
    monkeypatch.setattr(appender, "SMALL_GROUP_BYTES", 10)
    phone.send(10)
    assert asked[-1]


IN_THE_LOOP, IN_A_THREAD = 0, 1 << 30  # groups to go to the thread


def while_failing(monkeypatch, call, number, phone):
    """What a phone hears of its next ten readings while the disk refuses this call."""

    def refuse(*_):
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(f"shared.spool.disk.PosixFile.{call}", refuse)
        return phone.exchange(phone.batch(10, 20))


@pytest.mark.parametrize("wary", [IN_THE_LOOP, IN_A_THREAD])
def test_a_full_disk_is_507_with_nothing_acknowledged_and_heals(service, monkeypatch, wary):
    service.gateway.appender._wary = wary
    phone = service.phone()
    phone.send(10)
    before = service.log_bytes()
    status, frames = while_failing(monkeypatch, "write_parts", errno.ENOSPC, phone)
    assert (status, Refusal.of(frames[0]).code) == (507, "log-disk-full")
    assert service.log_bytes() == before
    assert service.client.get("/healthz").status_code == 200
    assert service.client.get("/readyz").json() == {"status": "ready"}
    phone.next = 10
    assert phone.send(10) == 20


@pytest.mark.parametrize("wary", [IN_THE_LOOP, IN_A_THREAD])
def test_after_a_failed_sync_nothing_more_is_acknowledged_and_the_process_is_told_to_stop(start, monkeypatch, wary):
    service = start()
    service.gateway.appender._wary = wary
    phone = service.phone()
    phone.send(10)
    status, frames = while_failing(monkeypatch, "sync", errno.EIO, phone)
    assert (status, Refusal.of(frames[0]).code) == (503, "log-disk-failed")
    # The disk works again, but this process must not find out by asking it again.
    assert phone.exchange(phone.batch(10, 20))[0] == 503
    assert service.client.get("/healthz").status_code == 503
    assert service.client.get("/readyz").status_code == 503
    assert service.gateway.broken is not None
    reread = Log.open(PosixDisk(service.gateway.settings.log_directory))
    assert [state.high_water for _, state in reread.edges()] in ([10], [20])


@pytest.mark.parametrize("what", ["write", "sync"])
def test_a_disk_that_fails_while_room_is_reserved_ends_the_process_too(start, monkeypatch, what):
    service = start(reserve_bytes=1 << 16)
    phone = service.phone()
    reserve = Log.reserve

    def refuse(*_):
        raise OSError(errno.EIO, "input/output error")

    def reserve_on_a_failing_disk(log, length):
        with monkeypatch.context() as patch:
            patch.setattr(f"shared.spool.disk.PosixFile.{what}", refuse)
            reserve(log, length)

    monkeypatch.setattr(Log, "reserve", reserve_on_a_failing_disk)
    assert phone.send(10) == 10  # it was durable before
    assert phone.exchange(phone.batch(10, 20))[0] == 503
    assert service.gateway.broken is not None
    reread = Log.open(PosixDisk(service.gateway.settings.log_directory))
    assert [state.high_water for _, state in reread.edges()] == [10]


@pytest.mark.parametrize("wary", [IN_THE_LOOP, IN_A_THREAD])
def test_a_disk_too_full_for_the_next_segment_is_507_and_heals(start, monkeypatch, wary):
    service = start(segment_bytes=4096)
    service.gateway.appender._wary = wary
    phone = service.phone()
    phone.send(10)
    opened = LogDisk.open

    def refuse(disk, name, *, create=False):
        if create:
            raise OSError(errno.ENOSPC, "no space left on device")
        return opened(disk, name)

    with monkeypatch.context() as patch:
        patch.setattr(LogDisk, "open", refuse)
        status, frames = phone.exchange(phone.batch(10, 20, bytes(5000)))
    assert (status, Refusal.of(frames[0]).code) == (507, "log-disk-full")
    phone.next = 20  # the segment before had taken it
    assert phone.send(10) == 30
    assert [state.high_water for _, state in service.gateway.log.edges()] == [30]


@pytest.mark.parametrize("defect", ["the log cannot be read again", "an event cannot be noted"])
def test_marks_that_are_ahead_of_the_log_acknowledge_nothing(start, monkeypatch, defect):
    service = start()
    phone = service.phone()
    phone.send(10)

    def full(*_):
        raise OSError(errno.ENOSPC, "no space left on device")

    def fail(*_, **__):
        raise MemoryError

    with monkeypatch.context() as patch:
        if defect == "an event cannot be noted":
            patch.setattr(service.gateway.appender, "_on_events", fail)
        else:
            patch.setattr("shared.spool.disk.PosixFile.write_parts", full)
            patch.setattr(Log, "open", fail)
        status, frames = phone.exchange(phone.batch(10, 20))
    assert (status, Refusal.of(frames[0]).code) == (503, "log-disk-failed")
    assert phone.exchange(phone.batch(10, 20))[0] == 503
    assert service.gateway.broken is not None
    reread = Log.open(PosixDisk(service.gateway.settings.log_directory))
    assert [state.high_water for _, state in reread.edges()] == [10]


def test_a_device_that_numbered_less_than_the_log_holds_is_reported_at_quiescence(service):
    """Its spool was replaced by an older copy, for one; the operator must hear of it."""
    phone = service.phone()
    phone.send(10)
    status, _ = phone.exchange(encode(Status(phone.device, DeviceStatus(produced=12)).frame()))
    assert status == 200

    def settled(metric: str) -> float | None:
        for _ in range(QUIET_TICKS + 1):
            service.client.portal.call(service.gateway.tick)
        return service.gateway.metrics.registry.get_sample_value(metric)

    assert settled("resurge_spooled_elements") == 2.0
    assert settled("resurge_account_violations_total") == 0.0
    phone.exchange(encode(Status(phone.device, DeviceStatus(produced=7)).frame()))
    assert settled("resurge_account_violations_total") == 1.0


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        (FrameType.DECLARE, b'{"edge":"\\ud800","schema":[["lat","float64"]]}'),
        (FrameType.DECLARE, b'{"edge":"gps","schema":[["\\ud800","float64"]]}'),
        (FrameType.DECLARE, b'{"edge":"gps\\u001b[2J","schema":[["lat","float64"]]}'),
        (FrameType.DECLARE, b'{"edge":"gps","schema":' + b"[" * 2000 + b"]" * 2000 + b"}"),
        (FrameType.STATUS, b'{"refusal":"\\ud800"}'),
        (FrameType.STATUS, b'{"produced":NaN}'),
    ],
)
def test_text_that_nobody_could_store_is_refused_at_the_door_and_holds_nothing(service, kind, payload):
    phone = service.phone()
    frame = Frame(kind, phone.device, payload, incarnation=phone.incarnation, edge=phone.edge)
    for _ in range(3):
        status, frames = phone.exchange(encode(frame))
        assert status == 400, frames
        assert Refusal.of(frames[0]).code in {"message-text", "message-json", "message-declare"}
    assert service.gateway.ingest.bodies.bytes == 0
    assert service.client.get("/healthz").json() == {"status": "ok"}
    assert phone.send(10) == 10


def test_an_exchange_that_finds_a_mistake_of_ours_leaves_everybody_else_served(service, monkeypatch):
    phone, other = service.phone("a"), service.phone("b")
    working = service.gateway._receiver.receive

    def fail_for_one(arrival, now):
        if phone.device in bytes(arrival.body):
            raise RuntimeError("a mistake")
        working(arrival, now)

    monkeypatch.setattr(service.gateway._receiver, "receive", fail_for_one)
    for _ in range(70):
        status, frames = phone.exchange(phone.declare(), phone.batch(0, 10, bytes(3000)))
        assert (status, Refusal.of(frames[0]).code) == (503, "gateway-fault")
    assert other.send(10) == 10
    assert service.gateway.ingest.bodies.bytes == 0
    assert service.client.get("/healthz").json() == {"status": "impaired"}
    assert "resurge_faults_total 70.0" in service.client.get("/metrics", headers=service.operator()).text


def test_a_report_that_cannot_be_used_does_not_stop_the_log(service, monkeypatch):
    phone = service.phone()

    def fail(*_):
        raise RuntimeError("a mistake")

    monkeypatch.setattr(service.gateway._reports, "exchange", fail)
    assert phone.send(10) == 10
    assert service.gateway.broken is None
    assert service.gateway.faults.is_recent


def test_what_one_device_declares_costs_the_exchanges_of_others_nothing(start):
    """With the whole index in every segment, an exchange of a few bytes once wrote all that anybody had declared."""
    service = start(segment_bytes=100_000)
    hostile, honest = service.phone("hostile"), service.phone("honest")
    wide = Schema.of({f"column {at} {'x' * 150}": "float64" for at in range(60)})
    refused = 0
    for at in range(60):
        name = f"edge {at}"
        frame = Declare(hostile.device, hostile.incarnation, edge_id(name), name, wide).frame()
        refused += hostile.exchange(encode(frame))[0] != 200
    assert refused > 20
    honest.send(10)
    sizes = []
    for _ in range(30):
        before = service.gateway.log.durable_end
        honest.send(1, b"x")
        sizes.append(service.gateway.log.durable_end - before)
    assert max(sizes) < 1000
