from __future__ import annotations

from cloud_backend.gateway.rate_limits import Allowance, Buckets, Rate
from tests.cloud_backend.gateway.phone_client import PhoneClient, through


def test_a_bucket_lets_a_burst_through_and_then_its_rate():
    buckets = Buckets(Rate(per_s=2, burst=3))
    for _ in range(3):
        assert buckets.wait_s("a", 0.0) == 0
        buckets.take("a", 0.0)
    assert buckets.wait_s("a", 0.0) == 0.5
    assert buckets.wait_s("b", 0.0) == 0
    assert buckets.wait_s("a", 0.5) == 0


def test_an_allowance_counts_exchanges_and_bytes_and_takes_nothing_when_it_refuses():
    exchanges, volume = Rate(per_s=1, burst=2), Rate(per_s=100, burst=1000)
    allowance = Allowance(exchanges, volume, 0.0)
    assert allowance.take(900, exchanges, volume, 0.0) == 0
    assert allowance.take(300, exchanges, volume, 0.0) == 2.0  # bytes: 100 left
    assert allowance.take(100, exchanges, volume, 0.0) == 0
    assert allowance.take(0, exchanges, volume, 0.0) == 1.0  # exchanges
    assert allowance.take(10**9, exchanges, volume, 1000.0) == 0  # larger than the burst: a full bucket pays for it


def test_a_device_over_its_rate_is_told_when_to_come_back_and_loses_nothing(start):
    service = start(exchange_rate=Rate(per_s=0.001, burst=3))
    phone, other = service.phone("fast"), service.phone("slow")
    statuses = [phone.exchange(phone.declare(), phone.batch(0, 10))[0] for _ in range(5)]
    assert statuses == [200, 200, 200, 429, 429]
    response = service.client.post(
        "/v1/exchange", content=phone.session.seal([]), headers={"content-type": "application/vnd.resurge.exchange"}
    )
    assert int(response.headers["retry-after"]) > 100
    assert through(other.exchange(other.declare(), other.batch(0, 5))[1]) == 5


def test_bodies_beyond_what_fits_in_memory_at_once_are_asked_to_wait(start):
    service = start(in_flight_bytes_max=500)
    phone = service.phone()
    assert phone.exchange(phone.declare(), phone.batch(0, 10, bytes(600)))[0] == 503
    assert phone.exchange(phone.declare(), phone.batch(0, 10, bytes(20)))[0] == 200


def test_bad_hellos_do_not_slow_down_neighbours_behind_the_same_address(start):
    service = start(failure_rate=Rate(per_s=0.01, burst=5), bad_hello_rate=Rate(per_s=0.01, burst=20))
    honest = service.phone("honest")
    strangers = [PhoneClient(service.gateway.keys.public_key, service.post) for _ in range(40)]
    for stranger in strangers:
        assert stranger.hello()[0] == 401
    assert honest.exchange()[0] == 200
    assert honest.hello()[0] == 200  # nobody failed with this key
    assert strangers[0].hello()[0] == 401
    answers = [strangers[0].hello()[0] for _ in range(6)]  # now that the gateway is busy with them
    assert answers == [401] * 3 + [429] * 3
    assert honest.hello()[0] == 200


def test_a_few_bad_hellos_slow_nobody_down(start):
    service = start(failure_rate=Rate(per_s=0.01, burst=5))
    stranger = PhoneClient(service.gateway.keys.public_key, service.post)
    assert {stranger.hello()[0] for _ in range(50)} == {401}
