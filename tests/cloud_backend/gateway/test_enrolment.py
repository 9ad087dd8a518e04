from __future__ import annotations

import json
import time

import pytest

from cloud_backend.coordinator.roster import CODE_LIFETIME_US
from tests.cloud_backend.gateway.phone_client import PhoneClient


def now_us() -> int:
    return time.time_ns() // 1000


def enrol(service, body: bytes):
    return service.client.post("/v1/enrol", content=body, headers={"content-type": "application/json"})


def test_a_code_enrols_one_key_once_and_the_answer_may_be_asked_for_again(service):
    code = service.gateway.roster.new_code(now_us())
    phone, thief = (PhoneClient(service.gateway.keys.public_key, service.post) for _ in range(2))
    first = enrol(service, phone.enrolment(code))
    assert first.json() == {"device": phone.device.hex(), "incarnation": 1}
    assert enrol(service, phone.enrolment(code)).json() == first.json()
    refused = enrol(service, thief.enrolment(code))
    assert (refused.status_code, refused.json()["code"]) == (403, "enrolment-code")


def test_a_code_expires_after_ten_minutes(service):
    phone = PhoneClient(service.gateway.keys.public_key, service.post)
    code = service.gateway.roster.new_code(now_us() - CODE_LIFETIME_US - 1)
    assert enrol(service, phone.enrolment(code)).json()["code"] == "enrolment-code"


def test_pairing_again_is_a_new_incarnation_whose_numbers_start_over(service):
    private = bytes(range(32))
    first = service.phone(private=private)
    first.send(10)
    second = service.phone(private=private)
    assert (first.incarnation, second.incarnation) == (1, 2)
    assert second.send(5) == 5
    assert first.hello()[0] == 200  # the old installation may still drain what it holds
    assert first.send(5) == 15


def test_a_request_that_is_not_signed_by_its_own_key_is_refused(service):
    phone, other = (PhoneClient(service.gateway.keys.public_key, service.post) for _ in range(2))
    code = service.gateway.roster.new_code(now_us())
    body = json.loads(phone.enrolment(code))
    body["public_key"] = other.keys.public_key.hex()
    refused = enrol(service, json.dumps(body).encode())
    assert (refused.status_code, refused.json()["code"]) == (403, "enrolment-signature")
    assert enrol(service, phone.enrolment(code)).status_code == 200  # the code is still good


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'{"code":NaN}',
        b'{"code":1e999}',
        b"\xff\xfe",
        b'{"a":' * 2000,
        b"null",
        b'{"secret-input": 1}',
    ],
)
def test_a_malformed_request_is_a_problem_that_repeats_nothing_of_it(service, body):
    answer = enrol(service, body)
    assert (answer.status_code, answer.json()["code"]) in [(422, "request-invalid"), (400, "request-refused")]
    assert answer.headers["content-type"] == "application/problem+json"
    assert "secret-input" not in answer.text


def test_guessing_codes_is_slowed_down_and_honest_devices_are_not(start):
    from cloud_backend.gateway.rate_limits import Rate

    service = start(failure_rate=Rate(per_s=0.01, burst=5))
    honest = service.phone()
    stranger = PhoneClient(service.gateway.keys.public_key, service.post)
    statuses = [enrol(service, stranger.enrolment(bytes([i]) * 16)).status_code for i in range(8)]
    assert statuses == [403] * 5 + [429] * 3
    last = enrol(service, stranger.enrolment(bytes(16)))
    assert last.json()["code"] == "rate-limited"
    assert int(last.headers["retry-after"]) > 0
    assert honest.exchange()[0] == 200  # behind the same address
    assert honest.hello()[0] == 200


def test_a_revoked_device_is_out_within_a_tick(service):
    phone, other = service.phone("lost"), service.phone("kept")
    phone.send(10)
    before = service.log_bytes()
    from cloud_backend.coordinator.roster import Roster

    elsewhere = Roster(service.gateway.settings.roster_path)  # as the command line does, in another process
    elsewhere.revoke(phone.device, now_us())
    elsewhere.close()
    service.client.portal.call(service.gateway.tick)
    assert phone.exchange(phone.batch(10, 20))[0] == 401
    assert phone.hello()[0] == 403
    assert service.log_bytes() == before
    assert other.send(5) == 5


def test_a_key_for_which_anybody_can_sign_is_not_enrolled(service):
    weak = "01" + "00" * 31  # the curve's identity: R of the same and S of zero signs everything
    code = service.gateway.roster.new_code(now_us())
    body = json.loads(PhoneClient(service.gateway.keys.public_key, service.post).enrolment(code))
    answer = enrol(service, json.dumps(body | {"public_key": weak, "signature": weak + "00" * 32}).encode())
    assert (answer.status_code, answer.json()["code"]) == (403, "enrolment-signature")
    assert service.gateway.roster.entries() == []
