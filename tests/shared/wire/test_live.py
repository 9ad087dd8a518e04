"""The newest readings in a STATUS: what is sent, what is read, and what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

from shared.batch import Batch
from shared.errors import PeerError
from shared.identity import DeviceId
from shared.language.schema import Schema
from shared.wire import live, status
from shared.wire.live import LiveReading
from shared.wire.messages import Status
from shared.wire.status import DeviceStatus

READING = LiveReading(
    "gps", 1_794_817_500_000_000, (("lat", 47.5), ("n", 3), ("on", True), ("name", "tram"), ("v", None))
)
FROZEN = b'{"live":[["gps",1794817500000000,{"lat":47.5,"n":3,"name":"tram","on":true,"v":null}]],"produced":7}'


def test_a_status_with_live_readings_has_these_bytes_and_is_read_again():
    frame = Status(DeviceId(bytes(16)), DeviceStatus(live=(READING,), produced=7)).frame()
    assert frame.payload == FROZEN
    said = Status.of(frame).status
    assert [(each.stream, each.time_us, dict(each.values)) for each in said.live] == [
        (READING.stream, READING.time_us, dict(READING.values))
    ]


def test_a_reader_that_does_not_know_them_leaves_them(monkeypatch):
    """The gateways before this knew every other key: what they make of the rest is the same."""
    monkeypatch.delitem(status._READERS, "live")
    assert DeviceStatus.from_json(json.loads(FROZEN)) == DeviceStatus(produced=7)


def test_a_status_without_them_does_not_mention_them():
    assert "live" not in DeviceStatus(produced=7).to_json()


def test_the_row_with_the_latest_event_time_is_the_newest_and_no_number_is_null():
    schema = Schema.of({"v": "float64", "text": "str"})
    batch = Batch.of(schema, {"v": [1.0, np.nan, 3.0], "text": ["a", "b\x1b", "c"]}, [10, 30, 20], lo=0)
    assert live.newest_row("s", batch) == LiveReading("s", 30, (("v", None), ("text", "b")))
    assert live.newest_row("s", Batch.of(schema, {"v": [], "text": []}, [], lo=0)) is None


def test_what_is_sent_is_bounded_and_whatever_is_sent_is_read():
    wide = [LiveReading(f"s{at}", at, tuple((f"c{each}", "x" * 100) for each in range(32))) for at in range(20)]
    sent = live.bounded(wide)
    assert 0 < len(sent) < 4
    assert live.read_live([each.to_json() for each in sent]) == sent
    assert len(live.bounded([READING] * 40)) == live.STREAMS_MAX


@pytest.mark.parametrize(
    "value",
    [
        {},
        [["gps", 1, {}]] * (live.STREAMS_MAX + 1),
        [["gps", 1, {"a": "x" * live.BYTES_MAX}]],
        [["", 1, {}]],
        [["a\n", 1, {}]],
        [["gps", True, {}]],
        [["gps", 1 << 63, {}]],
        [["gps", 1, {"lat": [1]}]],
        [["gps", 1, {"lat": 1 << 64}]],
        [["gps", 1, {f"c{each}": 1 for each in range(live.COLUMNS_MAX + 1)}]],
        [["gps", 1]],
        ["gps"],
    ],
)
def test_anything_else_is_refused(value):
    with pytest.raises(PeerError) as refused:
        DeviceStatus.from_json({"live": value})
    assert refused.value.code == "message-status"
