"""What one device declares says nothing about the readings of another."""

from __future__ import annotations

from cloud_backend.log.format import Record
from shared.identity import edge_id
from shared.wire.frame import encode
from shared.wire.messages import Declare
from tests.cloud_backend.dashboard.house import EDGE_HEX, GPS, LAT
from tests.shared.sync.collision import same_number


def test_a_schema_with_the_same_number_shows_nobody_elses_position_under_another_name(dashboard):
    victim, attacker = dashboard.phones
    forged = same_number(GPS)
    assert forged.id == GPS.id
    for name in ("gps", "mine"):
        frame = Declare(attacker, 1, edge_id(name), name, forged).frame()
        dashboard.gateway.log.append([Record(dashboard.now_us, encode(frame))])
    dashboard.gateway.log.sync()
    viewer = dashboard.browser("viewer")
    viewer.get("/v1/api/streams")  # the history follows the log
    answer = viewer.get(f"/v1/api/streams/{EDGE_HEX}/batches", params={"device": victim.hex()}).json()
    [batch] = answer["batches"]
    assert batch["columns"] == ["time_us", *GPS.names]
    shown = [row[1] for row in batch["values"]]
    assert all(abs(lat - LAT) < 0.02 and lat != LAT for lat in shown)  # on a kilometre's grid, as for every viewer
