"""One program with a device's, a region's and a cloud's part: the node that sends the region's rows to the gateway is
killed, and so is the gateway; Spark's results and what comes back to the phone are those of a run without failures."""

from __future__ import annotations

from pathlib import Path

import pytest

import resurge as rs
from cloud_backend.log.reader import Reader
from cloud_backend.results.store import Results
from cloud_backend.spark.cluster.session import LocalRunner
from cloud_backend.spark.control.driver import JobManager, JobSettings
from mobile_app.node.results import Results as PhoneResults
from shared.identity import edge_id
from shared.plan.deployment import query_origin
from shared.wire.frame import FrameType, stored_header
from tests.claims import Claim
from tests.patience import SPARK_PATIENCE_S, wait_until
from tests.processes.fleets import PHONE, Program, digest, ideal
from tests.processes.gateway_process import GatewayProcess
from tests.processes.governed_fleets import LAPTOP, GovernedFleet

pytestmark = pytest.mark.processes
ROWS = 24_000  # four minutes; the test ends long before
MORE = 300  # rows in the log after each step
TO_CLOUD = Program(
    "to_cloud",
    "\n".join(
        [
            "import resurge as rs",
            'near = rs.sensor("count", every="10ms", columns={"v": "float64"}).gather("count", batch=20, within="200ms")',
            'smooth = near.sliding(count=5).aggregate(v=rs.min("v"), m=rs.mean("v"))',
            'up = smooth.sync("up", batch=20, within="300ms")',
            'up.tumbling(count=50).aggregate(v=rs.min("v"), total=rs.sum("m")).sync_back("totals")',
        ]
    ),
    {"count": "v"},
    {"totals": ("v", "total")},
    (),
    every_us=10_000,
    readings=50,
)


class Logged:
    """What the gateway's log has of the query's edge."""

    def __init__(self, home: Path) -> None:
        self._log = home / "log"

    def ranges(self) -> list[tuple[int, int, int]]:
        """(first number, number after the last, term) of each record, in the log's order."""
        reader, found = Reader(self._log), []
        for _, record in reader.read(reader.start, reader.valid_end()):
            header = stored_header(record.frame)
            if (header.source, header.edge) == (query_origin("q"), edge_id("up")):
                assert header.kind != FrameType.TOMBSTONE, "rows were given up"
                if header.kind == FrameType.DATA:
                    found.append((header.seq, header.hi, header.term))
        return found

    def count(self) -> int:
        return max((hi for _, hi, _ in self.ranges()), default=0)


@pytest.mark.covers("SO-16")
def test_rows_that_a_fleet_computed_end_in_spark_and_on_the_phone_though_who_sends_them_is_killed(
    tmp_path: Path, claim: Claim
) -> None:
    kept = tmp_path / "results.sqlite"
    with GatewayProcess(tmp_path / "gateway", "--results", str(kept)) as gateway:
        fleet, logged = GovernedFleet(tmp_path, gateway, TO_CLOUD, hubs=2, rows=ROWS), Logged(gateway.home)

        def reaches(count: int, what: str) -> None:
            wait_until(lambda: logged.count() >= count, what, patience_s=SPARK_PATIENCE_S)

        fleet.start()
        results = Results(kept)
        try:
            names = {LAPTOP, PHONE, "hub1", "hub2"}
            wait_until(lambda: fleet.members() == names, "all nodes offer", patience_s=SPARK_PATIENCE_S)
            fleet.submit(up="hub1")
            reaches(MORE, "rows in the log")
            fleet.kill("hub1")
            reaches(logged.count() + MORE, "rows from where the vertex went")
            gateway.kill()
            gateway.start()
            reaches(logged.count() + MORE, "rows after the gateway is back")
            moved_to = fleet.placed()["up"]
            job = JobManager(
                gateway.home / "log", tmp_path / "store", rs.load_program(fleet.path), results=results,
                runner=LocalRunner(), settings=JobSettings(epoch_s=0.0, balance=False),
            )  # fmt: skip
            job.drain()
            there = len(results.current())
            phone = PhoneResults(fleet.folder / PHONE)
            wait_until(lambda: phone.count() >= there, "the phone has the results")
            job.drain()
        except AssertionError:
            print(fleet.logs())
            raise
        finally:
            fleet.stop()
        ranges = logged.ranges()
    edges = [lo for lo, _, _ in ranges] + [ranges[-1][1]]
    assert edges == [0] + [hi for _, hi, _ in ranges], "a number is missing or came twice"
    rows = [tuple(row.values[name] for name in ("v", "total")) for row in results.current()]
    found = {"totals": sorted(rows)}
    same = ideal(TO_CLOUD, fleet.path, ROWS, found)  # type: ignore[arg-type]
    mine, theirs = digest(found["totals"]), digest(same["totals"])  # type: ignore[arg-type]
    terms = sorted({term for _, _, term in ranges})
    claim(
        f"2 kills (hub1 that sent, gateway), {ranges[-1][1]} rows in the log under terms {terms}, each number once; the "
        f"vertex went to {moved_to}; {len(rows)} results compared, digests {mine} = {theirs}; {there} came to the phone"
    )
    assert moved_to != "hub1"
    assert len(terms) > 1
    assert mine == theirs
    assert there > 0
