from __future__ import annotations

import json

from cloud_backend.gateway.gateway import QUIET_TICKS, TICK_S
from cloud_backend.log.log import Log
from cloud_backend.results.store import ResultRow, Results
from shared.spool.disk import PosixDisk
from shared.wire.frame import FrameType
from shared.wire.messages import Hint, Result


def test_health_is_open_and_the_rest_needs_the_operator(service):
    assert service.client.get("/healthz").json() == {"status": "ok"}
    for path in ("/metrics", "/v1/account"):
        refused = service.client.get(path)
        assert (refused.status_code, refused.json()["code"]) == (401, "operator-required")
        assert service.client.get(path, headers={"authorization": "Bearer guess"}).status_code == 401
        assert service.client.get(path, headers=service.operator()).status_code == 200


def test_the_account_is_read_from_the_log_and_survives_a_restart(start):
    service = start()
    phone = service.phone()
    phone.send(10)
    phone.exchange(phone.tombstone(10, 14))
    before = service.client.get("/v1/account", headers=service.operator()).json()
    assert (before["delivered"], before["ledgered"], before["duplicates"]) == (10, 4, 0)
    service.client.__exit__(None, None, None)
    again = start()
    after = again.client.get("/v1/account", headers=again.operator()).json()
    assert after | {"log_end": 0} == before | {"log_end": 0}


def test_metrics_count_exchanges_elements_duplicates_and_refusals(service):
    phone = service.phone()
    phone.send(10)
    phone.exchange(phone.declare(), phone.batch(0, 10))
    service.post(b"nonsense")
    text = service.client.get("/metrics", headers=service.operator()).text
    assert "resurge_elements_total 10.0" in text
    assert "resurge_duplicate_batches_total 1.0" in text
    assert 'resurge_refused_total{code="frame-truncated"} 1.0' in text


def test_an_unknown_address_and_method_are_problems(service):
    for answer, status in ((service.client.get("/nowhere"), 404), (service.client.put("/healthz"), 405)):
        assert answer.status_code == status
        assert answer.headers["content-type"] == "application/problem+json"


def test_results_come_down_in_the_exchange_until_the_device_has_them(start, tmp_path):
    results = Results(tmp_path / "results.sqlite")
    service = start(results=tmp_path / "results.sqlite", dashboard=False)
    phone = service.phone()
    row = ResultRow("trips", phone.device.hex(), (phone.device.hex(),), 0, 60, 1, False, True, {"km": 2.5})
    results.publish(1, [row])
    service.client.portal.call(service.gateway.tick)
    _, frames = phone.exchange()
    (result,) = [Result.of(frame) for frame in frames if frame.type is FrameType.RESULT]
    assert (result.seq, result.body["values"]) == (1, {"km": 2.5})
    from shared.wire.frame import encode
    from shared.wire.messages import ResultReceipt

    _, frames = phone.exchange(encode(ResultReceipt(phone.device, 1).frame()))
    assert not [frame for frame in frames if frame.type is FrameType.RESULT]
    service.client.portal.call(service.gateway.tick)
    assert results.downlink(phone.device.hex(), 0) == []
    results.close()


def test_an_unread_log_asks_devices_to_sample_less_and_stable_offsets_trim_it(start, tmp_path):
    stable = tmp_path / "stable.json"
    stable.write_text(json.dumps({"0": 0}))
    service = start(stable=stable, backlog_bytes_max=1000, segment_bytes=2000)
    phone = service.phone()
    for _ in range(20):
        phone.send(10, bytes(300))
    service.client.portal.call(service.gateway.tick)
    _, frames = phone.exchange()
    (hint,) = [Hint.of(frame) for frame in frames if frame.type is FrameType.HINT]
    assert 0 < hint.rates["*"] < 1
    segments = len(service.log_bytes())
    stable.write_text(json.dumps({"0": service.gateway.log.durable_end}))
    service.gateway._trimmed_at = -1e9
    service.client.portal.call(service.gateway.tick)
    assert len(service.log_bytes()) < segments
    assert not [frame for frame in phone.exchange()[1] if frame.type is FrameType.HINT]
    assert phone.send(10) == 210


def test_revocation_is_looked_for_often_enough():
    assert TICK_S <= 2.5  # within 5 s even when a tick is missed


def test_whatever_tells_about_devices_is_guarded(start, tmp_path):
    service = start(results=tmp_path / "results.sqlite")
    asked = []
    for path, operations in service.client.get("/openapi.json").json()["paths"].items():
        if "get" in operations and path not in ("/healthz", "/readyz"):
            asked.append(path)
            assert service.client.get(path).status_code in (401, 403), f"{path} answers anybody"
    assert {"/metrics", "/v1/account", "/v1/overview"} <= set(asked)


def test_the_gateway_checks_its_account_when_nothing_moves(service):
    phone = service.phone()
    phone.send(10)
    next(state for _, state in service.gateway.log.edges()).ledgered = 3  # as a bug in the index would
    for _ in range(QUIET_TICKS + 1):
        service.client.portal.call(service.gateway.tick)
    text = service.client.get("/metrics", headers=service.operator()).text
    assert "resurge_account_violations_total 1.0" in text
    assert service.gateway.roster.audit_lines()[0][1] == "account-violated"


def test_a_gateway_whose_log_lost_its_tail_says_so_when_it_starts(start, tmp_path, caplog):
    first = start()
    first.phone().send(10)
    first.client.__exit__(None, None, None)
    (segment,) = first.gateway.settings.log_directory.glob("*.segment")
    Log.open(PosixDisk(tmp_path / "empty")).close()  # a sound log, shorter
    (tmp_path / "empty" / segment.name).replace(segment)
    second = start()
    assert "its tail was cut off" in caplog.text
    assert [line for line in second.gateway.roster.audit_lines() if line[1] == "log-cut"]
