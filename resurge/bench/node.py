"""`resurge bench node`: what an hour of two sensors at 100 Hz and GPS costs a phone, offline and draining.

The whole node runs: reading, computing, measuring rates, snapshots, spool with encryption, health, status, the sender
and its link. Time is compressed, the work is not: the node takes the same 3,600 turns that it takes in an hour. Against
it, in the same run: a bare CSV logger that writes the same readings, a hundred at a time and without a single sync;
and one JSON object per reading posted with `requests` over one kept connection, of which a sample is timed and scaled,
because the whole hour would take ten minutes. The readings are made beforehand. CPU is this process's, all its threads;
both servers are processes of their own.

Beside it, what an hour costs a phone's battery, counted from the node's own loop under a clock of our own (_wakes.py):
wakes, seconds awake, radio, positioning; before (the processor held awake, a turn a second, a question every 30 s) and
as it is. The milliwatts are modelled (shared/energy_model.py).
"""

from __future__ import annotations

import csv
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import requests

from mobile_app.home.clock import Anchor, EventClock
from mobile_app.links.enrolment import enrol
from mobile_app.links.gateway import GatewayLink
from mobile_app.links.link import LinkDown
from mobile_app.node.loop import Node
from mobile_app.node.schedule import TURN_S
from mobile_app.node.surroundings import Surroundings
from mobile_app.sensors.source import Samples, SensorMissing, SoftwareSource, Source
from mobile_app.sensors.synthetic import Synthetic
from mobile_app.settings import Settings, load_gateway
from resurge.bench._rounds import at_most, versions
from resurge.bench._wakes import an_hour
from resurge.bench.gateway import _scratch, _server
from resurge.bench.sender import _link
from shared.language.durations import microseconds
from shared.plan.graph import Plan

MICROSECONDS = 1_000_000
SENSORS = {"accelerometer": 10_000, "gyroscope": 10_000, "gps": MICROSECONDS}  # microseconds between readings
POSTS = 2000
SCENARIOS = {
    "idle paired": ("", ""),
    "gps once a minute": ("gps", "60s"),
    "gps 1 Hz": ("gps", "1s"),
    "gps 1 Hz, lying still": ("gps", "1s"),
    "accelerometer 100 Hz": ("accelerometer", "10ms"),
}
PROGRAM = """
import resurge as rs
for name, every in (("accelerometer", "10ms"), ("gyroscope", "10ms"), ("gps", "1s")):
    rs.sensor(name, every=every).sync(name, batch=6000, within="60s")
"""
SERVER = """
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(204)
        self.end_headers()
    def log_message(self, *_):
        pass
server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


def run(rounds: int = 5, quick: bool = False) -> dict[str, Any]:
    seconds = 120 if quick else 3600
    origin_us = time.time_ns() // 1000 - (seconds + 60) * MICROSECONDS
    readings = {sensor: _readings(sensor, seconds, origin_us) for sensor in SENSORS}
    hour = 3600 / seconds
    ours: list[dict[str, float]] = []
    logged: list[dict[str, float]] = []
    posted: list[dict[str, float]] = []
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="resurge-bench-", dir=_scratch())))
        port, json_port = _server(stack, "gateway", work), _json_server(stack)
        plan = _plan(work)
        hours = _hours(work, port)
        for turn in range(rounds + 1):
            mine = _run_node(work, work / f"phone-{turn}", port, plan, readings, seconds, origin_us)
            log = _log_csv(work / f"csv-{turn}", readings, seconds, origin_us)
            posts = _post_json(json_port, readings, POSTS // 10 if quick else POSTS)
            if turn:
                ours.append(mine)
                logged.append(log)
                posted.append(posts)

    def ratio(mine: str, theirs: list[dict[str, float]], name: str) -> float:
        return statistics.median(one[mine] / other[name] for one, other in zip(ours, theirs, strict=True))

    checks = [
        at_most("CPU offline, ours / bare CSV logger", ratio("offline_cpu_s", logged, "cpu_s"), 2.0),
        at_most("CPU offline and draining, ours / bare CSV logger", ratio("cpu_s", logged, "cpu_s"), 2.0),
        at_most("CPU offline and draining, ours / JSON per reading", ratio("cpu_s", posted, "cpu_s"), 0.3),
        at_most("bytes sent, ours / JSON per reading", ratio("sent_bytes", posted, "bytes"), 0.2),
        at_most("bytes written and sent, ours / JSON per reading", ratio("bytes", posted, "bytes"), 0.2),
        at_most("wakes in an hour, paired and idle", hours["idle paired"]["now"]["wakes"], 6),
        at_most("radio wakes in an hour, paired and idle", hours["idle paired"]["now"]["radio_wakes"], 2),
        at_most("wakes in an hour, a position a minute", hours["gps once a minute"]["now"]["wakes"], 70),
    ]
    figures = {
        "battery": hours, "ours": _medians(ours, hour), "csv": _medians(logged, hour), "json": _medians(posted, hour),
    }  # fmt: skip
    return {
        "bench": "node", "per": "hour of 2 x 100 Hz and GPS", "checks": checks, "figures": figures, "rounds": rounds,
        "json_posts_timed": POSTS // 10 if quick else POSTS, "versions": versions("numpy", "requests", "cryptography"),
    }  # fmt: skip


def _hours(work: Path, port: int) -> dict[str, dict[str, dict[str, float]]]:
    """{scenario: {before, now: figures of an hour}}."""
    from shared.stream.program import load_program

    answer: dict[str, dict[str, dict[str, float]]] = {}
    for number, (scenario, (sensor, every)) in enumerate(SCENARIOS.items()):
        plan, periods_us = None, {}
        if sensor:
            program = work / f"scenario-{number}.py"
            edge = "sync('out', batch=1_000_000, within='15m')"
            program.write_text(f"import resurge as rs\nrs.sensor({sensor!r}, every={every!r}).{edge}\n")
            plan, periods_us = load_program(program), {sensor: microseconds(every)}
        answer[scenario] = {}
        for name, sparing in (("before", False), ("now", True)):
            home = work / f"scenario-{number}-{name}"
            enrol(home, str(_link(port, work / "gateway")))
            gateway = load_gateway(home)
            if gateway is None:
                raise RuntimeError("the bench's phone is not enrolled")
            spent = an_hour(
                home, gateway, GatewayLink(gateway.url, pin=gateway.pin), plan=plan, periods_us=periods_us,
                origin_us=time.time_ns() // 1000 - 2 * 3600 * MICROSECONDS, sparing=sparing,
                lying_still=scenario.endswith("lying still"),
            )  # fmt: skip
            answer[scenario][name] = spent.figures()
    return answer


def _medians(measured: list[dict[str, float]], hour: float) -> dict[str, float]:
    return {name: round(statistics.median(one[name] for one in measured) * hour, 3) for name in measured[0]}


class _SwitchedLink(GatewayLink):
    """Without a network, until it is switched on."""

    online = False

    def exchange(self, body: bytes) -> bytes:
        if not self.online:
            raise LinkDown("no network")
        return super().exchange(body)


class _Made(SoftwareSource):
    """Readings made beforehand, handed out by time."""

    def __init__(self, samples: Samples) -> None:
        self._samples = samples
        self._next = 0

    def read(self, until_us: int) -> Samples:
        start, self._next = self._next, int(np.searchsorted(self._samples.time_us, until_us))
        part = slice(start, self._next)
        columns = {name: column[part] for name, column in self._samples.columns.items()}
        return Samples(self._samples.time_us[part], columns, until_us)

    def at(self, time_us: np.ndarray) -> Samples:
        raise NotImplementedError("the bench's plan asks for nothing by request")

    def sample_every(self, period_us: int) -> None:
        """The bench's gateway sends no hints."""


def _readings(sensor: str, seconds: int, origin_us: int) -> Samples:
    """There is no made-up gyroscope; another accelerometer has as many digits."""
    made, seed = ("accelerometer", 2) if sensor == "gyroscope" else (sensor, 1)
    source = Synthetic(made, seed=seed, every_us=SENSORS[sensor], origin_us=origin_us)
    parts: list[Samples] = []
    while len(part := source.read(origin_us + seconds * MICROSECONDS)):
        parts.append(part)
    columns = {name: np.concatenate([part.columns[name] for part in parts]) for name in parts[0].columns}
    return Samples(np.concatenate([part.time_us for part in parts]), columns, 0)


def _plan(work: Path) -> Plan:
    from shared.stream.program import load_program

    path = work / "program.py"
    path.write_text(PROGRAM)
    return load_program(path)


def _run_node(
    work: Path, home: Path, port: int, plan: Plan, readings: dict[str, Samples], seconds: int, origin_us: int
) -> dict[str, float]:
    enrol(home, str(_link(port, work / "gateway")))
    gateway = load_gateway(home)
    if gateway is None:
        raise RuntimeError("the bench's phone is not enrolled")

    def open_source(sensor: str, *_: object, **__: object) -> Source:
        if sensor not in readings:
            raise SensorMissing(f"no {sensor} in this bench", code="sensor-missing")
        return _Made(readings[sensor])

    link = _SwitchedLink(gateway.url, pin=gateway.pin)
    now_us = [0]
    anchor = Anchor("bench", 0, origin_us, origin_us, 0, 1.0, origin_us)
    around = Surroundings(
        settings=Settings(), gateway=gateway, link=link, sensors={}, plan=plan, open_source=open_source,
        clock=EventClock(anchor, lambda: now_us[0]),
    )  # fmt: skip
    node = Node(home, around)
    try:
        return _drive(node, now_us, link, seconds)
    finally:
        node.leave()


def _drive(node: Node, now_us: list[int], link: _SwitchedLink, seconds: int) -> dict[str, float]:
    written, cpu = _written(), time.process_time()
    for turn in range(1, round(seconds / TURN_S) + 1):
        now_us[0] = round(turn * TURN_S * MICROSECONDS)
        node.turn(turn * TURN_S)
        if node.uplink.outstanding:
            node.uplink.wait(10.0)  # without a network the answer comes at once
    offline_cpu = time.process_time() - cpu
    link.online = True
    node.drain(120.0, lambda: False)
    account = node.final_account()
    cpu = time.process_time() - cpu
    expected = sum(seconds * MICROSECONDS // every_us for every_us in SENSORS.values())
    if account["delivered"] != expected:
        raise RuntimeError(f"{account['delivered']} of {expected} readings were delivered; the figures mean nothing")
    written = _written() - written
    sent = float(account["bytes_sent"])
    return {
        "offline_cpu_s": offline_cpu, "cpu_s": cpu, "written_bytes": written, "sent_bytes": sent,
        "bytes": written + sent, "exchanges": float(account["exchanges"]),
    }  # fmt: skip


def _written() -> float:
    """Bytes this process has handed to files; sockets are not in it."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith("wchar")))


def _log_csv(directory: Path, readings: dict[str, Samples], seconds: int, origin_us: int) -> dict[str, float]:
    directory.mkdir()
    sources = {sensor: _Made(samples) for sensor, samples in readings.items()}
    cpu = time.process_time()
    with ExitStack() as stack:
        files = {name: stack.enter_context((directory / f"{name}.csv").open("w", newline="")) for name in sources}
        writers = {name: csv.writer(file) for name, file in files.items()}
        for turn in range(1, round(seconds / TURN_S) + 1):
            until_us = origin_us + round(turn * TURN_S * MICROSECONDS)
            for sensor, source in sources.items():
                samples = source.read(until_us)
                columns = (column.tolist() for column in samples.columns.values())
                writers[sensor].writerows(zip(samples.time_us.tolist(), *columns, strict=True))
                files[sensor].flush()
        bytes_written = float(sum(file.tell() for file in files.values()))
    return {"cpu_s": time.process_time() - cpu, "bytes": bytes_written}


def _post_json(port: int, readings: dict[str, Samples], posts: int) -> dict[str, float]:
    """CPU and bytes of posting every reading, from a sample of those of the fast sensors."""
    samples = readings["accelerometer"]
    total = sum(len(each) for each in readings.values())
    session = requests.Session()
    session.trust_env = False
    url = f"http://127.0.0.1:{port}/readings"
    sent = 0
    cpu = time.process_time()
    for row in range(posts):
        reading = {"sensor": "accelerometer", "time": int(samples.time_us[row])}
        reading |= {name: float(column[row]) for name, column in samples.columns.items()}
        answer = session.post(url, json=reading, timeout=20)
        body = answer.request.body or b""
        lines = sum(len(name) + len(str(value)) + 4 for name, value in answer.request.headers.items())
        sent += len("POST /readings HTTP/1.1\r\nHost: 127.0.0.1:00000\r\n\r\n") + lines + len(body)
    cpu = time.process_time() - cpu
    session.close()
    return {"cpu_s": cpu * total / posts, "bytes": sent * total / posts}


def _json_server(stack: ExitStack) -> int:
    process = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)
    stack.callback(process.wait)
    stack.callback(process.kill)
    if process.stdout is None:
        raise RuntimeError("the small server has no output")
    stack.callback(process.stdout.close)
    return int(process.stdout.readline())
