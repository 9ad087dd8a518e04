"""Real processes over a slow link: a node that comes back shows where it is before it is through with where it was."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from shared.plan.encoding import encode_plan
from shared.stream.program import load_program
from tests.patience import wait_until
from tests.processes.gateway_process import GatewayProcess
from tests.processes.node_processes import NodeHome, check_rows, enrolment_link

pytestmark = pytest.mark.processes

PROGRAM = """
import resurge as rs

gps = rs.sensor("gps", every="1s")
gps.sync("raw", batch=200, within="60s", codec="none")
gps.tumbling("1000s").aggregate(fixes=rs.count()).sync("windows", batch=4, within="1h")
"""
SPEED = 8000  # event seconds per second
BACKLOG_ROWS = 60_000  # more than two exchanges take
BYTES_PER_S = 1_500_000


class SlowLink:
    """Stands before a gateway: what goes up takes its time, and nothing goes at all while it is down."""

    def __init__(self, gateway_port: int) -> None:
        self._to = ("127.0.0.1", gateway_port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        self.down = False
        self.bytes_per_s = BYTES_PER_S  # 0: as many as there are
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                if self.down:
                    near.close()
                    continue
                far = socket.create_connection(self._to)
                self._open |= {near, far}
                for source, target in ((near, far), (far, near)):
                    threading.Thread(target=self._carry, args=(source, target, source is near), daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket, upwards: bool) -> None:
        with suppress(OSError):
            while data := source.recv(16_384):
                if upwards and self.bytes_per_s:
                    time.sleep(len(data) / self.bytes_per_s)
                target.sendall(data)
        self._end(source, target)

    def _end(self, *sockets: socket.socket) -> None:
        for each in sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
            self._open.discard(each)

    def cut(self) -> None:
        self.down = True
        self._end(*list(self._open))

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()


@contextmanager
def slow_link(gateway: GatewayProcess) -> Iterator[SlowLink]:
    link = SlowLink(gateway.port)
    try:
        yield link
    finally:
        link.close()


def told(gateway: GatewayProcess, phone: NodeHome) -> dict[str, object]:
    token = (gateway.home / "operator.token").read_text()
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=30)
    try:
        path = f"/v1/api/devices/{phone.device.hex()}"
        connection.request("GET", path, headers={"authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        text = answer.read()
        assert answer.status == 200, text
        return json.loads(text)
    finally:
        connection.close()


def test_a_node_that_comes_back_shows_its_newest_position_before_its_backlog_is_through(tmp_path: Path, claim):
    program, plan = tmp_path / "program.py", tmp_path / "plan.bin"
    program.write_text(PROGRAM)
    plan.write_bytes(encode_plan(load_program(program)))
    options = ("--plan", str(plan), "--results", str(tmp_path / "results.sqlite"))  # those who have results have pages
    with GatewayProcess(tmp_path / "gateway", *options) as gateway, slow_link(gateway) as link:
        phone = NodeHome(tmp_path / "phone", gateway, seed=5)
        phone.link = enrolment_link(gateway, link.port)
        (phone.home / "settings.toml").write_text('name = "phone"\nloss_window_s = 0.5\nspool_mb = 16\n')
        phone.start("--speed", str(SPEED))
        try:
            wait_until(lambda: phone.has("delivered", 1000), "first delivery")
            assert told(gateway, phone)["position_is_live"] is False
            link.cut()
            before = int(phone.status()["delivered"])
            wait_until(lambda: phone.has("produced", before + BACKLOG_ROWS), "a backlog")
            link.down = False
            back = time.monotonic()
            seen: list[dict[str, object]] = []

            def is_live() -> bool:
                seen.append(told(gateway, phone))
                return bool(seen[-1]["position_is_live"])

            wait_until(is_live, "the newest position")
            live_s = time.monotonic() - back
            live = seen[-1]
            [reading] = [each for each in live["live"] if each["stream"] == "raw"]
            reached_us = live["trail"][-1][0]
            link.bytes_per_s = 0
            wait_until(lambda: told(gateway, phone)["live"] == [], "the end of the backlog")
            after = told(gateway, phone)
            phone.running.terminate()
        finally:
            phone.running.end()
        compared = check_rows(gateway.home / "log", phone, gaps=0)
    assert reading["time_us"] - reached_us > BACKLOG_ROWS / 2 * 1_000_000, "the log was nearly there"
    assert live["position"][1:] == [reading["values"]["lat"], reading["values"]["lon"]]
    assert after["position_is_live"] is False
    claim(f"shown {live_s:.1f} s after the link was back, {(reading['time_us'] - reached_us) / 3.6e9:.0f} h ahead of "
          f"the log; {compared}")  # fmt: skip
