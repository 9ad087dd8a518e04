"""One program with a device's, a region's and a cloud's part: the node that sends the region's rows to the gateway is
killed, and so is the gateway; Spark's results and what comes back to the phone are those of a run without failures."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import resurge as rs
from cloud_backend.log.reader import Reader
from cloud_backend.results.store import Results
from cloud_backend.spark.cluster.session import LocalRunner
from cloud_backend.spark.control.driver import JobManager, JobSettings
from mobile_app.node.results import Results as PhoneResults
from shared.identity import DeviceId, edge_id
from shared.plan.deployment import query_origin
from shared.wire.frame import FrameType, decode_one, stored_header
from shared.wire.messages import Chain
from tests.claims import Claim
from tests.patience import SPARK_PATIENCE_S, wait_until
from tests.processes.fleets import PHONE, Program, digest, ideal
from tests.processes.gateway_process import GatewayProcess
from tests.processes.governed_fleets import LAPTOP, GovernedFleet
from tests.processes.test_gateway_commands import resurge

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


# So small batches that a node signs a run of them every few seconds.
SIGNED = replace(TO_CLOUD, name="signed", text=TO_CLOUD.text.replace('"up", batch=20', '"up", batch=4'))


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

    def signers(self) -> set[DeviceId]:
        """Who has signed a run of the query's batches."""
        reader = Reader(self._log)
        frames = (record.frame for _, record in reader.read(reader.start, reader.valid_end()))
        return {Chain.of(decode_one(each)[0]).by for each in frames if stored_header(each).kind == FrameType.CHAIN}

    def count(self) -> int:
        return max((hi for _, hi, _ in self.ranges()), default=0)


@pytest.mark.soak
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


@pytest.mark.parametrize("how", ["asked", pytest.param("killed", marks=pytest.mark.soak)])
def test_batches_that_two_nodes_signed_one_after_the_other_are_verified_and_the_move_is_reported(
    tmp_path: Path, claim: Claim, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The vertex that signs a query's batches is moved, or its node is killed; where it goes on the node there signs."""
    monkeypatch.setenv("COLUMNS", "200")  # no cell of a table is broken over lines
    with GatewayProcess(tmp_path / "gateway", "--results", str(tmp_path / "results.sqlite")) as gateway:
        fleet, logged = GovernedFleet(tmp_path, gateway, SIGNED, hubs=1, rows=ROWS), Logged(gateway.home)

        def shown(*options: str) -> str:
            return resurge("contract", "show", "up", "--home", str(gateway.home), *options)

        def recovered() -> dict[str, Any]:
            """Once all that was is measured, and something was."""
            found = json.loads(shown("--json"))["now"]["query"]["recovered"]
            return found if found["count"] and not found["not_measured"] else {}

        fleet.start()
        try:
            wait_until(lambda: {LAPTOP, "hub1", PHONE} == fleet.members(), "all nodes offer")
            fleet.submit(up="hub1")
            wait_until(lambda: len(logged.signers()) == 1, "a run that hub1 signed")
            if how == "asked":
                fleet.command("fleet", "move", "q", "up", "--to", LAPTOP)
            else:
                fleet.kill("hub1")
            wait_until(lambda: len(logged.signers()) == 2, "a run that another node signed")
            found = wait_until(recovered, "the move is in the hour's findings")
            told = shown()
        except AssertionError:
            print(fleet.logs())
            raise
        finally:
            fleet.stop()
        assert gateway.stop() == 0
    (verified,) = json.loads(resurge("log", "verify", "--home", str(gateway.home), "--json"))["logs"]
    claim(
        f"signed batches by node {sorted(verified['signers'].values())}, none wrong; {found['count']} moved, "
        f"{found['seconds']:.1f} s"
    )
    assert (verified["sound"], verified["wrong_signatures"], verified["unchecked_runs"]) == (True, [], 0)
    assert set(verified["signers"]) == {signer.hex() for signer in logged.signers()}
    assert len(verified["signers"]) == 2
    assert sum(verified["signers"].values()) == verified["signed_batches"]
    (move,) = found["each"]
    assert (found["kinds"], move["before"], move["after"]) == ({"moved": 1}, ["hub1"], [LAPTOP])
    assert f"1 moved: {found['seconds']:.1f} s" in told
