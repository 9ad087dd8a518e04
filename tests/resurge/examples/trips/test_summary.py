"""What a person reads after a run says whether all was kept."""

from __future__ import annotations

from cloud_backend.results.rows import ResultRow
from resurge.examples.trips.summary import of_run

FOUND = {
    "people": 1, "trips": 1, "results": {"my_trips": 1, "my_days": 1}, "results_on_phones": 2, "produced": 10,
    "delivered": 9, "spooled": 1, "ledgered": 0, "duplicates": 0, "outages": 2, "outages_felt": 1, "outage_minutes": 40,
    "gps_read": 5, "gps_unthinned": 20, "bytes_sent": 1234, "speed": 100.0, "seconds": 12.0, "digest": "a" * 64,
    "failure_free_digest": "a" * 64,
}  # fmt: skip
TRIP = ResultRow(
    "my_trips", "ann", ("ann",), 0, 1, 0, False, True,
    {"mode": "bus", "began_us": 0, "km": 4.25, "minutes": 12.0, "co2e_g": 568.7, "near_sites_s": 90.0},
)  # fmt: skip


def test_a_run_tells_trips_the_account_and_whether_the_report_is_right():
    text = "\n".join(of_run(FOUND, [TRIP]))
    assert "bus        4.2       12      569              1.5" in text
    assert "10 produced = 9 delivered + 1 spooled + 0 given up" in text
    assert "of which 1 refused" in text
    assert "the same as without failures" in text
    assert "NOT that" in "\n".join(of_run(FOUND | {"failure_free_digest": "b" * 64}, []))
