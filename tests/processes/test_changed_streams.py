"""A program whose stream gets a column and a wider one, while one phone is away with rows of the old form."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import pytest

from cloud_backend.log.partitions import ONLY, open_log
from cloud_backend.results.store import Results
from cloud_backend.spark.cluster.session import LocalRunner
from cloud_backend.spark.control.driver import JobManager, JobSettings
from cloud_backend.spark.manifest.quarantine import quarantined_count
from resurge.up.expected_results import expected_digest
from shared.identity import edge_id
from shared.plan.encoding import decode_plan, encode_plan
from shared.stream.program import load_program
from shared.wire.frame import FrameType, decode_one
from shared.wire.messages import Data
from tests.patience import PATIENCE_S, wait_until
from tests.processes.gateway_process import ROOT, GatewayProcess
from tests.processes.node_processes import NodeHome

pytestmark = pytest.mark.processes

PROGRAM = """
import resurge as rs
from resurge import col

gps = rs.sensor("gps", every="1s").extend(cell=rs.floor(col.lat * 1000).cast("{kind}"){more})
up = gps.select("lat", "cell"{columns}).sync("gps", batch=10, within="10s"{missing})
up.tumbling("1m").aggregate(n=rs.count(), cells=rs.max("cell"){sums}).sync_back("cells")
"""
OLD = PROGRAM.format(kind="int32", more="", columns="", missing="", sums="")
NEW = PROGRAM.format(
    kind="int64", more=", build=7 + 0 * rs.floor(col.lat).cast('int64')", columns=', "speed", "build"',
    missing=", missing={'build': -1}", sums=', builds=rs.min("build"), top=rs.max("speed")',
)  # fmt: skip


def forms(log: Path, phone: NodeHome) -> list[tuple[int, int, int]]:
    """(first number, number after the last, schema) of each batch in the log."""
    reader = open_log(log)
    found = []
    for _, record in reader.read(ONLY, reader.starts()[ONLY], reader.ends()[ONLY]):
        frame = decode_one(record.frame)[0]
        if frame.type == FrameType.DATA and frame.source == phone.device and frame.edge == edge_id("gps"):
            data = Data.of(frame)
            found.append((data.lo, data.hi, data.schema_id))
    return found


def builds(results: Results) -> set[int]:
    return {row.values["builds"] for row in results.current() if row.sink == "cells"}


def test_a_stream_goes_on_with_an_added_and_a_wider_column_while_a_phone_holds_rows_of_the_old_form(tmp_path, claim):
    program = tmp_path / "program.py"
    program.write_text(OLD)
    plan = tmp_path / "plan.bin"
    plan.write_bytes(encode_plan(load_program(program)))
    with GatewayProcess(tmp_path / "gateway", "--plan", str(plan), "--results", str(tmp_path / "r.sqlite")) as gateway:
        log = gateway.home / "log"
        away, there = NodeHome(tmp_path / "away", gateway, seed=3), NodeHome(tmp_path / "there", gateway, seed=4)
        try:
            away.start("--for", "1").running.finish()  # it has the old program now, and meets no gateway until below
            gateway.kill()
            away.start()
            wait_until(lambda: away.has("spooled", 50), "rows that are held")
            away.running.kill()
            gateway.start()
            there.start()
            wait_until(lambda: len(forms(log, there)) > 2, "rows of the old form")
            program.write_text(NEW)
            deploy = ("program", "deploy", str(program), "--yes", "--home", str(gateway.home))
            said = subprocess.run(
                [sys.executable, "-m", "resurge", *deploy], cwd=ROOT, capture_output=True, text=True, check=False,
                timeout=PATIENCE_S,
            )  # fmt: skip
            assert said.returncode == 0, said.stderr
            away.start()
            for phone in (away, there):
                wait_until(lambda phone=phone: len({form for *_, form in forms(log, phone)}) == 2, "both forms")
            new = decode_plan(plan.read_bytes())
            results = Results(tmp_path / "results.sqlite")
            job = JobManager(
                log, tmp_path / "store", new, results=results, runner=LocalRunner(), settings=JobSettings(epoch_s=0.0)
            )
            # A window ends when both phones are past it: they go on until one of new rows alone has.
            wait_until(lambda: job.drain() or {-1, 7} <= builds(results), "windows of old and of new rows")
        finally:
            for phone in (away, there):
                if phone.running is not None:
                    phone.running.end()
    assert "column 'build' (int64): in rows of phones that do not have it yet it is -1" in said.stdout
    assert "column 'speed' (float64): in rows of phones that do not have it yet it is NaN" in said.stdout
    assert "column 'cell' as int64: int32 of phones that run the old program is read as that" in said.stdout
    for phone in (away, there):
        batches = forms(log, phone)
        assert batches[0][0] == 0
        assert all(before[1] == after[0] for before, after in itertools.pairwise(batches))  # numbers go on
    job.drain()
    assert quarantined_count(job.manifest) == 0
    expected = expected_digest(new, log).digest
    assert results.digest() == expected
    assert builds(results) >= {-1, 7}
    claim(
        f"rows of two forms from two phones, {sum(results.sinks().values())} results, digests {results.digest()[:16]} {expected[:16]}"
    )
