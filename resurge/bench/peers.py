"""`resurge bench peers`: elements per second over an edge between two nodes, and what recovery costs there.

The reader is a node process as users start it (`resurge node run --fleet`), with a vertex that looks at every row and
keeps none. The maker is the same hosting, driven by this bench in place of sensors; its batches are made beforehand.
Exchanges are sealed, CURVE is on, rows are decoded and numbered. Against it a bare exchange of the same bytes: pyzmq,
CURVE, DEALER to ROUTER and back, one at a time, nothing read. Ours has up to three under way while there is a backlog,
and puts small batches into one exchange. Edges between vertices are kept in memory, so the homes
lie in memory here; a phone's own edge is on its disk, which is reported. NATS JetStream, where it is installed, takes
and acknowledges the batches and hands them to nobody: it does less.

Checkpoints cost processor time per element: all nodes of SP2 in one process (`resurge lab run ecoc-cpu`). The time from
kill -9 to the first new output is that of `resurge lab run ecoc-recovery`, most of it silence that must be sure.

Pauses (`_pauses.py`): how long results stop when a phone is back, when its rows get another way on the paper's nine
nodes, and when a vertex moves.
"""

from __future__ import annotations

import functools
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import zmq

from mobile_app.links.peers import CurveKeys
from mobile_app.node.hosting import Hosting
from mobile_app.node.stores import open_stores
from mobile_app.sensors.access import SensorAccess
from mobile_app.settings import load_settings
from resurge.bench._fleet import NatsFleet, drive
from resurge.bench._pauses import AWAY_S, move, walk
from resurge.bench._rounds import Rates, at_least, at_most, interleave, ratio, versions
from resurge.bench.gateway import _end, _nats, _scratch
from resurge.lab._kills import kill_once
from resurge.lab.ecoc_cpu import seconds_of
from resurge.up.process_fleet import COORDINATOR, ProcessFleet
from shared.batch import Batch
from shared.hosting.fleet_file import read_fleet
from shared.language.codecs import NONE
from shared.spool.entry import SpooledBatch
from shared.spool.evict import Evict
from shared.spool.ring import SpoolFull
from shared.sync.outbox import Reading
from shared.wire import codecs

SIZES = {"1 KB": (1_000, 2_000), "64 KB": (65_536, 512), "1 MB": (1_000_000, 48)}  # bytes of a batch, batches a round
BARE, JETSTREAM = 0.5, 1.0
BACK_S, TOLD_S, MOVED_S = 1.0, 1.0, 2.0
KILLS = 1
PATIENCE_S = 60.0
TURN_BYTES = 256 << 10  # that a turn of the maker offers before it looks what is due
READER = "phone"
PROGRAM = """
import resurge as rs
from resurge import col

near = rs.sensor("x", every="1ms", columns={"x": "float64"}).gather("x", batch=50, within="1s")
near.where(col.x > 1e300).subscribe("none")
"""


def run(rounds: int = 5, quick: bool = False) -> dict[str, Any]:
    checks: list[dict[str, Any]] = []
    figures: dict[str, Any] = {}
    reported: dict[str, float] = {}
    absent: dict[str, str] = {}
    memory = Path("/dev/shm")
    with ExitStack() as stack:
        fast = stack.enter_context(_Edge(memory if memory.is_dir() else None))
        on_disk = stack.enter_context(_Edge(None))
        bare = stack.enter_context(_Bare())
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="resurge-bench-", dir=_scratch())))
        port = _nats(stack, work)
        if port is None:
            absent["nats"] = "no nats-server or nats-py on this machine"
        for label, (size, batches) in SIZES.items():
            few = max(8, batches // 16) if quick else batches
            rates, rows = _measure(
                size, few, {"ours": fast, "ours, from its disk": on_disk}, bare, port, 1 if quick else rounds
            )
            goals = {"pyzmq": BARE, "nats": JETSTREAM} if label != "1 KB" else {}
            for peer, words in (("pyzmq", "bare pyzmq exchange"), ("nats", "NATS JetStream")):
                if peer in rates:
                    name = f"{label}: elements/s, ours / {words}"
                    if peer in goals:
                        checks.append(at_least(name, ratio(rates, "ours", peer), goals[peer]))
                    else:
                        reported[name] = round(ratio(rates, "ours", peer), 3)
            figures[label] = {name: round(statistics.median(each)) for name, each in rates.items()}
            figures[label]["elements in a batch"] = rows
    figures["checkpoints"] = _checkpoint_cost(rounds, quick)
    reported["checkpoints, c = 500: microseconds per element"] = figures["checkpoints"]["us_per_element"]
    if not quick:
        kills = [kill_once("SP2", "ecoc", 500, seed).first_output for seed in range(KILLS)]
        figures["kill_to_first_output_s"] = [round(each, 2) for each in kills]
        reported["from kill -9 to the first new output, s"] = round(statistics.median(kills), 3)
    figures["pauses"], found, without_goal = _pauses(1 if quick else rounds)
    checks += found
    figures["reported"] = reported | without_goal
    return {
        "bench": "peers",
        "checks": checks,
        "figures": figures,
        "rounds": 1 if quick else rounds,
        "absent": absent,
        "load_average": round(os.getloadavg()[0], 1),
        "versions": versions("pyzmq", "numpy"),
    }


def _measure(
    size: int, count: int, edges: dict[str, _Edge], bare: _Bare, nats_port: int | None, rounds: int
) -> tuple[Rates, int]:
    """Elements per second of each contender, and how many elements a batch has."""
    sample = edges["ours"].batch_of(size)

    def over(edge: _Edge) -> float:
        batches = edge.batches_of(sample.rows, count)
        return count * sample.rows / edge.send(batches)

    contenders: dict[str, Callable[[], float]] = {name: functools.partial(over, edge) for name, edge in edges.items()}
    contenders["pyzmq"] = lambda: count * sample.rows / bare.send(sample.payload, count)
    if nats_port is not None:
        nats = NatsFleet(nats_port, sample.payload)
        contenders["nats"] = lambda: drive(nats, 1, count)[0] * sample.rows
    return interleave(contenders, rounds), sample.rows


def _checkpoint_cost(rounds: int, quick: bool) -> dict[str, float]:
    """Of SP2, all nodes together, with a checkpoint every 500 elements."""
    elements = 500 if quick else 6_000
    plain, marked = ("SP2", "none", 500), ("SP2", "ecoc", 500)
    took = [seconds_of([plain, marked], elements) for _ in range(1 if quick else rounds + 1)][0 if quick else 1 :]
    more = statistics.median(each[marked] - each[plain] for each in took)
    return {
        "us_per_element": round(more / elements * 1e6, 2),
        "us_per_element_without": round(statistics.median(each[plain] for each in took) / elements * 1e6, 2),
    }


def _pauses(rounds: int) -> tuple[dict[str, Any], list[dict[str, Any]], dict[str, float]]:
    """Figures, checks, and what has no goal."""
    walked, moved = walk(rounds), move(rounds)
    figures: dict[str, Any] = {"links": walked.links, "away_s": AWAY_S}
    checks, reported = [], {}
    for name, seconds, goal in (
        ("a phone is back: until the first of what it spooled is a result, s", walked.back_s, BACK_S),
        ("back elsewhere: from the decision until all 8 nodes follow it, s", walked.told_s, TOLD_S),
        ("back elsewhere: until the first of what it spooled is a result, s", walked.elsewhere_s, None),
        ("a vertex moves: longest time without a result, s", moved, MOVED_S),
    ):
        figures[name] = [round(each, 3) for each in seconds]
        value = statistics.median(seconds)
        if goal is None:
            reported[name] = round(value, 3)
        else:
            checks.append(at_most(name, value, goal))
    return figures, checks, reported


class _Edge:
    """A maker in this process and a reader in another, with one edge between them."""

    def __init__(self, place: Path | None) -> None:
        self._stack = ExitStack()
        directory = None if place is None else str(place)
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="resurge-bench-", dir=directory)))
        program = folder / "edge.py"
        program.write_text(PROGRAM)
        # The maker coordinates and has the sink; the other node of the fleet runs the vertex.
        self._fleet = ProcessFleet(
            folder, program, hubs=0, strategy="none", every=500, recordings={}, modules=(), keepers=0,
            hosts={}, sources=(COORDINATOR,),
        )  # fmt: skip
        self._home = folder / COORDINATOR
        self._head = 0

    def __enter__(self) -> _Edge:
        self._fleet.start(READER)
        self._stack.callback(self._fleet.stop)
        self._home.mkdir(exist_ok=True)
        settings = load_settings(self._home)
        stores = open_stores(self._home, settings, None, speed=1.0)
        self._stack.callback(stores.close)
        access = SensorAccess(
            self._home, stores.clock, {}, own_plan=None, first_start=stores.first_start,
            ran_unpaired=stores.ran_unpaired, now=time.monotonic,
        )  # fmt: skip
        self._woken = threading.Event()
        self._hosting = Hosting(
            self._home, read_fleet(self._fleet.file), stores, access, None, wake=self._woken.set, say=lambda _: None,
            news=lambda: None, speed=1.0, loss_window_s=settings.loss_window_s, now=time.monotonic(),
        )  # fmt: skip
        self._stack.callback(self._hosting.close)
        self._until(lambda: bool(self._hosting.host.gathers()))
        (self._edge,) = self._hosting.host.gathers()
        (self._node,) = self._edge.readers
        self._until(lambda: self._edge.key.edge in self._reading().taken)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _reading(self) -> Reading:
        return self._hosting.host.outbox.reading(self._node)

    def batch_of(self, size: int) -> SpooledBatch:
        """A batch of so many bytes, or a little less."""
        rows = 1
        for _ in range(4):
            rows = max(1, rows * size // len(self._batch(rows).payload))
        return self._batch(rows)

    def batches_of(self, rows: int, count: int) -> list[SpooledBatch]:
        """The next batches of this edge. Making them is not the edge's work."""
        made = []
        for _ in range(count):
            made.append(self._batch(rows))
            self._head += rows
        return made

    def _batch(self, rows: int) -> SpooledBatch:
        lo, hi = self._head, self._head + rows
        time_us = np.arange(lo, hi) * 1000
        values = np.random.default_rng(lo).normal(size=rows)
        schema = self._edge.schema
        batch = Batch.of(schema, {"x": values}, time_us, lo=lo, frontier_us=int(time_us[-1]))
        codec, payload = codecs.encode(batch, NONE)
        return SpooledBatch(self._edge.key.edge, lo, hi, rows, schema.id, 0, batch.frontier_us, codec, payload)

    def send(self, batches: Sequence[SpooledBatch]) -> float:
        """Seconds until the reader has taken them. As in a node's own turns: what came is offered, then whatever is due
        is done. An edge that promises nothing is never given up for room, so a full spool waits."""
        host, key = self._hosting.host, self._edge.key
        left = deque(batches)
        given_up = self._given_up()
        begun = time.perf_counter()
        while True:
            full, offered = False, 0
            while left and not full and offered < TURN_BYTES:
                try:
                    host.offer(key, left[0], time.monotonic(), Evict.BLOCK)
                    offered += len(left.popleft().payload)
                except SpoolFull:
                    full = True
            self._hosting.step(time.monotonic())
            if self._reading().taken[key.edge] >= batches[-1].hi:
                break
            if full or not left:
                self._wait()
        took_s = time.perf_counter() - begun
        if self._given_up() != given_up:
            raise RuntimeError("elements were given up on the way: they were not carried, and do not count")
        return took_s

    def _given_up(self) -> int:
        return sum(self._hosting.host.here.sources_spool.statistics().ledgered.values())

    def _wait(self) -> None:
        due = self._hosting.next_wake()
        self._woken.wait(1.0 if due is None else max(0.0, due - time.monotonic()))
        self._woken.clear()

    def _until(self, is_so: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE_S
        while not is_so():
            if time.monotonic() > end:
                raise RuntimeError(f"the nodes of the bench did not meet\n{self._fleet.logs()}")
            self._hosting.step(time.monotonic())
            self._wait()


class _Bare:
    """DEALER to ROUTER and back with CURVE, in two processes: a body there, a word back, one at a time."""

    def __enter__(self) -> _Bare:
        self._stack = ExitStack()
        context = zmq.Context()
        self._stack.callback(context.destroy, 0)
        ours = CurveKeys.generate()
        process = subprocess.Popen([sys.executable, "-m", "resurge.bench.peers"], stdout=subprocess.PIPE)
        self._stack.callback(_end, process)
        address, key = (process.stdout.readline() if process.stdout else b"").decode().split()
        self._dealer = context.socket(zmq.DEALER)
        self._dealer.curve_publickey, self._dealer.curve_secretkey = ours.public.encode(), ours.secret.encode()
        self._dealer.curve_serverkey = key.encode()
        self._dealer.connect(address)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def send(self, payload: bytes, count: int) -> float:
        begun = time.perf_counter()
        for number in range(count):
            self._dealer.send_multipart([b"%d" % number, payload], copy=False)
            answer = self._dealer.recv_multipart()
            if answer[0] != b"%d" % number:
                raise RuntimeError("an answer to another exchange")
        return time.perf_counter() - begun


def answer_forever() -> None:
    """The other end of a bare exchange; says where it listens, and its key."""
    keys = CurveKeys.generate()
    router = zmq.Context().socket(zmq.ROUTER)
    router.curve_server = True
    router.curve_publickey, router.curve_secretkey = keys.public.encode(), keys.secret.encode()
    router.bind("tcp://127.0.0.1:*")
    print(router.get_string(zmq.LAST_ENDPOINT), keys.public, flush=True)
    while True:
        identity, number, _ = router.recv_multipart()
        router.send_multipart([identity, number, b"taken"])


if __name__ == "__main__":
    answer_forever()
