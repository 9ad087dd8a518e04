"""A contract from the wire to the command: a real gateway, killed on the way, says what a phone lost and how late it was."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import numpy as np
import pytest

import resurge as rs
from shared.batch import Batch
from shared.plan.encoding import encode_plan
from shared.wire import codecs
from shared.wire.frame import encode
from shared.wire.messages import Data
from tests.claims import Claim
from tests.cloud_backend.gateway.phone_client import SCHEMA
from tests.patience import PATIENCE_S
from tests.processes.gateway_process import GatewayProcess
from tests.processes.test_gateway_commands import resurge

pytestmark = pytest.mark.processes
SECOND_US = 1_000_000


def now_of(home: Path) -> dict[str, object]:
    found = json.loads(resurge("contract", "show", "--home", str(home), "--json"))["contracts"]
    return found[0]["now"] if found else {"delivered": -1, "ledgered": 0}  # the audit has not looked yet


def until(home: Path, numbered: int) -> dict[str, object]:
    """What is found once so many numbers were audited."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = now_of(home)
        if found["delivered"] + found["ledgered"] >= numbered or time.monotonic() > deadline:
            return found
        time.sleep(0.2)


def test_a_killed_gateway_still_reports_the_loss_that_was_injected_and_a_row_one_second_late(
    tmp_path: Path, claim: Claim
) -> None:
    columns = {field.name: field.kind for field in SCHEMA.fields}
    plan = tmp_path / "plan.bin"
    contract = rs.limited_loss(0.95, delay="10m")
    plan.write_bytes(encode_plan(rs.plan_of(rs.stream("gps", columns).sync("gps", within="5s", contract=contract))))
    home = tmp_path / "gateway"
    gone = set(random.Random(31).sample(range(200), 6)) | {200}  # with the last, shorter one 3.1 % of 2,000
    with GatewayProcess(home, "--plan", str(plan), "--results", str(tmp_path / "results.sqlite")) as gateway:
        phone = gateway.phone()
        until(home, 0)  # the audit has begun
        at = 0
        for number in range(201):
            count = 2 if number == 200 else 10 if number < 199 else 8
            if number in gone:
                status, _ = phone.exchange(phone.declare(), phone.tombstone(at, at + count))
            else:
                age_s = 601.0 if number == 121 else 1.0
                status, _ = phone.exchange(phone.declare(), batch(phone, at, count, age_s))
            assert status == 200
            at += count
            if number == 100:
                gateway.kill()
                gateway.posts[-1].close()
                gateway.start()
                phone.hello()
        found = until(home, at)
        assert gateway.stop() == 0
    lost = sum(2 if number == 200 else 10 for number in gone)
    assert (at, found["delivered"], found["ledgered"]) == (2000, at - lost, lost)
    assert abs((1 - found["kept"]) - lost / at) < 0.0005
    assert (found["verdict"], found["why"]) == ("broken", ["delay"])
    assert found["late"] == 10
    assert found["twice"] == found["swapped"] == 0
    claim(f"{100 * lost / at:.2f} % injected and {100 * (1 - found['kept']):.2f} % reported, 1 kill, {at} numbers")


def batch(phone, lo: int, count: int, age_s: float) -> bytes:
    """A batch whose rows are all so old."""
    times = np.full(count, time.time_ns() // 1000 - round(age_s * SECOND_US), np.int64)
    values = {field.name: np.zeros(count) for field in SCHEMA.fields}
    codec, payload = codecs.encode(Batch.of(SCHEMA, values, times, lo=lo), "none")
    hi = lo + count
    return encode(
        Data(phone.device, phone.incarnation, phone.edge, lo, hi, count, SCHEMA.id, 0, codec, payload).frame()
    )
