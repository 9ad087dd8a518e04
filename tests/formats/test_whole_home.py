"""Everything that commit 808284e kept: a phone, a gateway, a Spark job. The present code must go on with all of it.

`home_808284e.tar.xz` was made by the script `made_by.py` inside it, run with that commit. The phone had delivered 766
readings, lost its network, recorded on and was killed; the job had read a part of the log; a phone was renamed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn

import resurge as rs
from cloud_backend.coordinator.audit import AuditLog
from cloud_backend.coordinator.roster import Roster
from cloud_backend.gateway.app import create_app
from cloud_backend.gateway.settings import Settings
from cloud_backend.log.verify import verify
from cloud_backend.results.store import Results
from cloud_backend.spark.cluster.session import LocalRunner
from cloud_backend.spark.control.driver import JobManager, JobSettings
from mobile_app.headless import RunOptions, run
from mobile_app.sensors.choose import parse_choices
from mobile_app.spool.opening import spool_cipher
from resurge.up.account import Account, count, open_spool
from shared.spool.disk import PosixDisk
from tests.formats.archives import unpack
from tests.patience import PATIENCE_S, wait_until

ARCHIVE = Path(__file__).with_name("home_808284e.tar.xz")
DEVICE = bytes.fromhex("1e13ae301e6acad65cbcab311f75c5e3")
KEPT = Account(produced=998, delivered=766, spooled=232, ledgered=0, duplicates=0)
RESULTS = (23, "b04232dc8902a155")  # rows, and the digest of their contents


@pytest.fixture
def home(tmp_path: Path) -> Path:
    unpack(ARCHIVE, tmp_path)
    return tmp_path


def counted(home: Path) -> Account:
    spool = open_spool(home / "phone" / "spool", spool_cipher(home / "phone"))
    try:
        return count(home / "gateway" / "log", [spool])
    finally:
        spool.close()


def contents(results: Path) -> list[str]:
    store = Results(results)
    try:
        return sorted(row.content() for row in store.current())
    finally:
        store.close()


@contextlib.contextmanager
def gateway(home: Path) -> Iterator[str]:
    """The present gateway over the kept home; its address."""
    settings = Settings(
        home=home / "gateway", plan=home / "plan.bin", results=home / "results.sqlite",
        stable=home / "spark" / "stable.json",
    )  # fmt: skip
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(create_app(settings), log_level="warning", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        wait_until(lambda: server.started, "the gateway")
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(PATIENCE_S)
        listener.close()


def go_on(home: Path, address: str) -> dict[str, object]:
    """The phone records a little more and delivers; only the gateway's address is another."""
    kept = home / "phone" / "gateway.json"
    kept.write_text(json.dumps(json.loads(kept.read_text()) | {"url": address}))
    return run(
        RunOptions(
            home / "phone", sensors=parse_choices(["gps=synthetic:5"]), speed=40.0, for_s=1.0, signals=False
        )
    )  # fmt: skip


def drive(home: Path, store: Path, results: Path) -> list[str]:
    """Let a job read the whole log; the contents of all its results."""
    kept = Results(results)
    job = JobManager(
        home / "gateway" / "log", store, rs.load_program(home / "program.py"), results=kept, runner=LocalRunner(),
        settings=JobSettings(epoch_s=0.0, balance=False),
    )  # fmt: skip
    job.drain()
    kept.close()
    return contents(results)


def test_what_was_kept_is_read(home):
    assert counted(home) == KEPT
    found = verify(PosixDisk(home / "gateway" / "log"))
    assert (found.records, found.delivered, found.duplicates, found.gaps, found.torn_bytes) == (86, 766, 0, 0, 0)
    rows = contents(home / "results.sqlite")
    assert (len(rows), hashlib.sha256(repr(rows).encode()).hexdigest()[:16]) == RESULTS
    roster = Roster(home / "gateway" / "roster.sqlite")
    assert [(entry.device, entry.name) for entry in roster.entries()] == [(DEVICE, "tram-7")]
    roster.close()
    audit = AuditLog(home / "gateway" / "audit.sqlite")
    assert audit.verify() == len(audit.lines()) > 0
    audit.close()


def test_the_phone_delivers_what_it_held_and_the_job_goes_on_to_the_same_results(home, tmp_path):
    with gateway(home) as address:
        account = go_on(home, address)
        again = go_on(home, address)
    assert account["spooled"] == again["spooled"] == 0
    after = counted(home)
    assert after.adds_up
    assert (after.spooled, after.ledgered, after.duplicates) == (0, 0, 0)
    assert after.delivered > KEPT.produced
    resumed = drive(home, home / "spark", home / "results.sqlite")
    assert resumed == drive(home, tmp_path / "afresh", tmp_path / "afresh.sqlite")
    assert len(resumed) > RESULTS[0]
    results = Results(home / "results.sqlite")
    assert results.downlink_head(DEVICE.hex()) > 0
    results.close()
