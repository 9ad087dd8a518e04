"""What is kept of a body while it comes, by who sends it."""

from __future__ import annotations

import os

import pytest

from cloud_backend.gateway.exchange_bodies import BODIES_PER_DEVICE_MAX, STRANGER_BYTES_MAX, Bodies, Body
from cloud_backend.gateway.http_problems import Problem
from cloud_backend.gateway.keys import Keys
from cloud_backend.gateway.session_ids import SessionIds
from shared.identity import DeviceId
from shared.sync.session import GatewaySessions
from shared.wire.envelope import SESSION_ID_BYTES

KEYS = Keys(bytes(range(32)))
IDS = SessionIds(KEYS)


class Nobody:
    def find(self, device: DeviceId) -> None: ...


@pytest.fixture
def bodies() -> Bodies:
    made = Bodies(GatewaySessions(KEYS, Nobody()), body_bytes_max=1 << 20, bytes_max=1 << 24)
    made.is_issued = lambda body: IDS.slot(body[:SESSION_ID_BYTES]) is not None
    return made


def test_a_body_of_a_session_that_another_gateway_gave_out_is_kept_whole(bodies: Bodies) -> None:
    sent = IDS.make(DeviceId(bytes(16))) + os.urandom(100_000)
    under_way = [Body(bodies) for _ in range(BODIES_PER_DEVICE_MAX)]
    for body in under_way:
        body.add(sent[:50_000])
        body.add(sent[50_000:])
    one_more = Body(bodies)
    with pytest.raises(Problem, match="on their way already"):
        one_more.add(sent)
    one_more.release()
    for body in under_way:
        assert body.whole() == sent
        body.release()
    assert (bodies.bytes, bodies.of_devices) == (0, {})


def test_of_a_body_under_an_id_that_was_made_up_only_the_start_is_kept(bodies: Bodies) -> None:
    body = Body(bodies)
    body.add(b"\xe1" + os.urandom(100_000))
    assert len(body.whole()) == STRANGER_BYTES_MAX
    assert bodies.bytes == STRANGER_BYTES_MAX
    body.release()
    assert bodies.bytes == 0
