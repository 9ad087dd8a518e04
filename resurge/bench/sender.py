"""`resurge bench sender`: what the protocol costs a phone beyond posting the bytes at all.

The device's real path, spool to receipt: compose an exchange from the spool, seal it, post it over the connections of
its `requests` session (`mobile_app/links/gateway.py`), check and apply the answer, trim. Against it a bare `requests`
POST of an exchange of the same size to the same gateway, as a program would write it: `Session.post`. CPU time of the
calling thread only: waiting for the network is not the phone's work.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

import requests

from mobile_app.home.keys import load_keys
from mobile_app.links.enrolment import enrol
from mobile_app.links.gateway import CONTENT_TYPE, GatewayLink
from resurge.bench._rounds import at_most, versions
from resurge.bench.gateway import _scratch, _server
from shared.identity import DeviceId
from shared.language.schema import Schema
from shared.spool.disk import PosixDisk
from shared.spool.entry import SpooledBatch
from shared.spool.ring import Spool
from shared.sync.composer import EdgePolicy
from shared.sync.pacing import Pacing
from shared.sync.persist import SyncSpool
from shared.sync.sender import Sender
from shared.sync.session import DeviceSession
from shared.wire.enrolment import EnrolmentLink

SIZES = {"1 KB": 1000, "64 KB": 65536}
SCHEMA = Schema.of({"x": "float64"})
GOAL = 1.2


def run(rounds: int = 5, quick: bool = False) -> dict[str, Any]:
    exchanges = 30 if quick else 200
    checks: list[dict[str, Any]] = []
    figures: dict[str, Any] = {}
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="resurge-bench-", dir=_scratch())))
        port = _server(stack, "gateway", work)
        for label, size in SIZES.items():
            phone = _SendingPhone(port, work / "gateway", work / f"phone-{size}", size)
            stack.callback(phone.close)
            ours: list[float] = []
            bare: list[float] = []
            for turn in range(rounds + 1):
                mine, theirs = phone.drain(exchanges), phone.post_bare(exchanges)
                if turn:
                    ours.append(mine)
                    bare.append(theirs)
            ratio = statistics.median(mine / theirs for mine, theirs in zip(ours, bare, strict=True))
            checks.append(at_most(f"{label}: CPU per exchange, ours / bare requests POST", ratio, GOAL))
            figures[label] = {
                "ratio": round(ratio, 3),
                "ours_us": round(statistics.median(ours) * 1e6),
                "bare_us": round(statistics.median(bare) * 1e6),
            }
    return {
        "bench": "sender",
        "checks": checks,
        "figures": figures,
        "rounds": rounds,
        "versions": versions("requests", "urllib3", "numpy"),
    }


class _SendingPhone:
    def __init__(self, port: int, gateway_home: Path, home: Path, size: int) -> None:
        self._size = size
        self._url = f"http://127.0.0.1:{port}"
        enrolled = enrol(home, str(_link(port, gateway_home)))
        device = DeviceId(bytes.fromhex(enrolled.device))
        key = bytes.fromhex(json.loads((gateway_home / "gateway.json").read_text())["key"])
        self._spool = Spool.create(
            PosixDisk(home / "spool"), capacity_bytes=64 << 20, device=device, incarnation=enrolled.incarnation
        )
        session = DeviceSession(load_keys(home, key), device, enrolled.incarnation)
        # One batch per exchange, at once: the cost per exchange is what is measured.
        self._sender = Sender(
            self._spool, session, pacing=Pacing(exchange_bytes_max=size, gather_bytes=1, poll_s=0.0), rng=Random(1)
        )
        self._edge = self._sender.declare("bench", SCHEMA, EdgePolicy(within_s=0.0))
        self._link = GatewayLink(self._url)
        self._bare = requests.Session()
        self._bare.trust_env = False
        self._lo = 0
        self._cpu_s = 0.0  # of the sender and its link; the spool's own syncs are measured by `resurge bench spool`
        self._last = b""
        while not self._last:  # the session, and the declaration with it
            self._exchange()

    def drain(self, exchanges: int) -> float:
        """CPU seconds per exchange of sending so many batches from the spool."""
        for _ in range(exchanges):
            batch = SpooledBatch(
                edge=self._edge, lo=self._lo, hi=self._lo + 50, rows=50, schema_id=SCHEMA.id, applied=0,
                frontier_us=0, codec=0, payload=os.urandom(self._size),
            )  # fmt: skip
            self._lo += 50
            self._sender.append(batch, time.monotonic())
        self._spool.sync()
        self._sender.step(time.monotonic())
        self._cpu_s = 0.0
        sent = 0
        while any(True for _ in self._spool.pending(self._edge)):
            sent += self._exchange()
        if sent < exchanges:
            raise RuntimeError(f"{exchanges} batches went in {sent} exchanges; the ratio would flatter us")
        return self._cpu_s / sent

    def post_bare(self, exchanges: int) -> float:
        """CPU seconds per POST of the last exchange, again and again: the gateway answers a replay."""
        before = time.thread_time()
        for _ in range(exchanges):
            answer = self._bare.post(
                f"{self._url}/v1/exchange", data=self._last, headers={"Content-Type": CONTENT_TYPE}, timeout=20
            )
            if answer.status_code != 200 or not answer.content:
                raise RuntimeError(f"the gateway answered {answer.status_code}")
        return (time.thread_time() - before) / exchanges

    def _exchange(self) -> int:
        """One turn of the machine; 1 if a sealed exchange went out."""
        before = time.thread_time()
        step = self._sender.step(time.monotonic())
        self._cpu_s += time.thread_time() - before
        if any(isinstance(item, SyncSpool) for item in step.persist):
            self._spool.sync()
        if not step.send:
            return 0
        before = time.thread_time()
        answer = self._link.exchange(step.send[0])
        self._sender.receive(answer, time.monotonic())
        self._sender.events()
        self._cpu_s += time.thread_time() - before
        if answer[:1] != b"\xe1":
            return 0
        self._last = step.send[0]
        return 1

    def close(self) -> None:
        self._link.close()
        self._bare.close()


def _link(port: int, gateway_home: Path) -> EnrolmentLink:
    from cloud_backend.coordinator.roster import Roster

    key = bytes.fromhex(json.loads((gateway_home / "gateway.json").read_text())["key"])
    roster = Roster(gateway_home / "roster.sqlite")
    try:
        return EnrolmentLink("127.0.0.1", port, roster.new_code(time.time_ns() // 1000), key)
    finally:
        roster.close()
