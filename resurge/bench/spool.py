"""`resurge bench spool`: the durable spool against SQLite, LMDB, a bare ring and the paper's buffer.

Goals 5 to 9. Instances stay open over the rounds, as in a running node; the bare ring neither knows what it holds
nor survives overwriting it, so it is a limit and not a peer.
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from resurge.bench import _recordings
from resurge.bench._rounds import Rates, at_least, at_most, interleave, ratio, timed, versions
from resurge.bench._spool_peers import BareRing, ExactPolicy, LmdbQueue, MoveUpBuffer, OurSpool, SqliteQueue
from shared.batch import Batch
from shared.language.schema import Schema
from shared.spool.disk import THREADS_MAX
from shared.spool.segment import CONTROL_BYTES
from shared.wire.columns import encode

# The paper's load: Query 1 keeps 67.6 % of 56,375 tuples of 62 bytes a second, Query 2 is a counter; 50 MB, 30 s.
CAPACITY = 50_000_000
SECONDS = 30
QUERY_1_BYTES = int(3_495_250 * 0.676)
QUERY_2_BYTES = 499_712
SMALL_BYTES = 4096
SMALL_QUERIES = 8


def run(rounds: int = 5, quick: bool = False) -> dict[str, Any]:
    rounds = 2 if quick else rounds
    checks: list[dict[str, Any]] = []
    figures: dict[str, Any] = {}
    place = os.environ.get("RESURGE_BENCH_DIR")
    with tempfile.TemporaryDirectory(prefix="resurge-bench-", dir=place) as directory:
        work = Path(directory)
        checks += _inserts(work, rounds, figures, quick)
        checks += _eviction(work, rounds, figures)
        checks += _small_batches(work, max(2, rounds - 2), figures)
        checks += _paper_load(work, figures)
        checks += _kills(work, 3 if quick else 20, figures)
    return {
        "bench": "spool",
        "checks": checks,
        "figures": figures,
        "rounds": rounds,
        "versions": versions("lmdb", "numpy") | {"sqlite": sqlite3.sqlite_version},
    }


def _inserts(work: Path, rounds: int, figures: dict[str, Any], quick: bool) -> list[dict[str, Any]]:
    checks: list[dict[str, Any]] = []
    for label, size, count, sync, goals in (
        ("488 KB, no sync", 499_712, 40, False, {"sqlite": 8, "lmdb": 2, "ring": 0.8}),
        ("488 KB, sync each", 499_712, 20, True, {"sqlite": 4, "lmdb": 1.4}),
        ("3.33 MB, sync each", 3_495_250, 6, True, {"sqlite": 5, "lmdb": 1.2}),
    ):
        rates = _insert_rates(work / label.replace(" ", "_"), os.urandom(size), 5 if quick else count, sync, rounds)
        figures[f"insert {label}"] = _medians(rates)
        names = {
            "sqlite": "SQLite WAL " + ("FULL" if sync else "NORMAL"),
            "lmdb": "LMDB" if sync else "LMDB nosync",
            "ring": "bare ring",
        }
        checks += [
            at_least(f"insert {label}: ours / {names[peer]}", ratio(rates, "ours", peer), goal)
            for peer, goal in goals.items()
        ]
    return checks


def _insert_rates(work: Path, payload: bytes, count: int, sync: bool, rounds: int) -> Rates:
    ours = OurSpool(work / "ours", sync=sync)
    ring = BareRing(work / "ring", sync=sync)

    def fill(queue: Any) -> float:
        return timed(lambda: [queue.put(1, payload) for _ in range(count)], count)

    def fill_ours() -> float:
        rate = fill(ours)
        ours.reset()
        return rate

    def fill_new(make: Callable[[Path], Any], path: Path) -> float:
        shutil.rmtree(path, ignore_errors=True)
        queue = make(path)
        rate = fill(queue)
        queue.close()
        return rate

    rates = interleave(
        {
            "ours": fill_ours,
            "ring": lambda: fill(ring),
            "sqlite": lambda: fill_new(lambda p: SqliteQueue(p, mode="FULL" if sync else "NORMAL"), work / "sqlite"),
            "lmdb": lambda: fill_new(lambda p: LmdbQueue(p, sync=sync), work / "lmdb"),
        },
        rounds,
    )
    ours.close()
    ring.close()
    shutil.rmtree(work)
    return rates


def _seed_load(queue: Any, first: bytes, second: bytes) -> None:
    for _ in range(SECONDS):
        queue.put(1, first)
        queue.put(2, second)


def _eviction(work: Path, rounds: int, figures: dict[str, Any]) -> list[dict[str, Any]]:
    """Thirty seconds of the paper's load into 50 MB; ours syncs whenever freed space runs out, as it always does."""
    losses: dict[str, float] = {}
    payloads = _random(QUERY_1_BYTES), _random(QUERY_2_BYTES)

    def contender(name: str, make: Callable[[Path], Any]) -> Callable[[], float]:
        def once() -> float:
            shutil.rmtree(work / name, ignore_errors=True)
            queue = make(work / name)
            rate = timed(lambda: _seed_load(queue, *payloads), 2 * SECONDS)
            offered = SECONDS * (QUERY_1_BYTES + QUERY_2_BYTES)
            losses[name] = (
                (1 - queue.kept_bytes() / offered) if isinstance(queue, OurSpool) else queue.evicted / offered
            )
            queue.close()
            return rate

        return once

    rates = interleave(
        {
            "ours": contender("ours", lambda p: OurSpool(p, capacity=CAPACITY)),
            "sqlite": contender("sqlite", lambda p: SqliteQueue(p, capacity=CAPACITY)),
            "move-up": contender("move-up", lambda p: MoveUpBuffer(p, capacity=CAPACITY)),
        },
        rounds,
    )
    exact = ExactPolicy(CAPACITY, CONTROL_BYTES)
    for _ in range(SECONDS):
        exact.put(1, QUERY_1_BYTES)
        exact.put(2, QUERY_2_BYTES)
    figures["eviction, the paper's load"] = _medians(rates) | {"loss": {k: round(v, 4) for k, v in losses.items()}}
    figures["eviction, the paper's load"]["loss"]["exact sizes"] = round(exact.loss, 4)
    return [
        at_least("eviction, the paper's load: ours / SQLite", ratio(rates, "ours", "sqlite"), 7),
        at_least("eviction, the paper's load: ours / the paper's move-up", ratio(rates, "ours", "move-up"), 2.5),
        at_most("loss beyond the exact-size policy, points", 100 * (losses["ours"] - exact.loss), 0.2),
    ]


def _small_batches(work: Path, rounds: int, figures: dict[str, Any]) -> list[dict[str, Any]]:
    """A full 50 MB spool, 4 KB batches of eight queries, no sync asked for.

    SQLite's batches then outlive a killed process; of ours those since the last sync may not, and do not count.
    """
    payload = os.urandom(SMALL_BYTES)
    queues: dict[str, OurSpool | SqliteQueue | MoveUpBuffer] = {
        "ours": OurSpool(work / "small-ours", capacity=CAPACITY),
        "sqlite": SqliteQueue(work / "small-sqlite", capacity=CAPACITY),
        "move-up": MoveUpBuffer(work / "small-move-up", capacity=CAPACITY),
    }
    for queue in queues.values():
        for turn in range(CAPACITY // SMALL_BYTES + 1):
            queue.put(turn % SMALL_QUERIES, payload)

    def insert(name: str) -> float:
        count = 40 if name == "move-up" else 1000
        queue = queues[name]
        return timed(lambda: [queue.put(turn % SMALL_QUERIES, payload) for turn in range(count)], count)

    rates = interleave({name: (lambda name=name: insert(name)) for name in queues}, rounds)  # type: ignore[misc]
    for name, queue in queues.items():
        queue.close()
        shutil.rmtree(work / f"small-{name}")
    figures["eviction, 4 KB batches"] = _medians(rates)
    return [
        at_least("eviction, 4 KB batches: ours / SQLite", ratio(rates, "ours", "sqlite"), 10),
        at_least("eviction, 4 KB batches: ours / the paper's move-up", ratio(rates, "ours", "move-up"), 100),
    ]


def compressed_loads(ratio_1: float) -> tuple[bytes, list[bytes]]:
    """A second of Query 1 as incompressible bytes of the compressed size, and Query 2's counter really encoded."""
    query_1 = _random(int(QUERY_1_BYTES / ratio_1))
    per_second = QUERY_2_BYTES // 8
    schema = Schema.of({"counter": "int64"})
    query_2 = []
    for second in range(SECONDS):
        values = np.arange(second * per_second, (second + 1) * per_second)
        times = second * 1_000_000 + np.arange(per_second) * 1_000_000 // per_second
        query_2.append(encode(Batch.of(schema, {"counter": values}, times))[1])
    return query_1, query_2


def _paper_load(work: Path, figures: dict[str, Any]) -> list[dict[str, Any]]:
    smaller, real = _recordings.football_compression()
    query_1, query_2 = compressed_loads(smaller)
    spool = OurSpool(work / "paper", capacity=CAPACITY)
    for counter in query_2:
        spool.put(1, query_1)
        spool.put(2, counter)
    spool.spool.sync()
    lost = sum(given_up.hi - given_up.lo for given_up in spool.spool.ledger)
    policy = ExactPolicy(CAPACITY, 24)
    for _ in range(SECONDS):
        policy.put(1, QUERY_1_BYTES)
        policy.put(2, QUERY_2_BYTES)
    figures["the paper's load, compressed"] = {
        "football rows": "real" if real else "stand-in",
        "times smaller": round(smaller, 3),
        "used bytes": spool.spool.statistics().used_bytes,
        "lost batches": lost,
        "the paper's policy loses": round(policy.loss, 4),
    }
    spool.close()
    return [
        at_most("loss of the paper's load, 50 MB and 30 s, percent", 100 * lost / (2 * SECONDS), 0.0),
        at_least("the paper's own policy loses, percent", 100 * policy.loss, 39),
    ]


def _kills(work: Path, kills: int, figures: dict[str, Any]) -> list[dict[str, Any]]:
    """kill -9 in the middle of writing 64 KB batches; then open and check everything.

    Ours checks every payload against its checksum, on all cores; SQLite reads every payload and checks nothing of it.
    Beside them ours when each payload is also handed out, one by one, on one core.
    """
    lost = 0
    seconds: dict[str, list[float]] = {"ours": [], "sqlite": []}
    handed_out: list[float] = []
    for turn in range(kills):
        for kind, times in seconds.items():
            path = work / f"kill-{kind}"
            shutil.rmtree(path, ignore_errors=True)
            acknowledged = _write_until_killed(kind, path, 600 + turn * 5)
            start = time.perf_counter()
            queue = OurSpool(path) if kind == "ours" else SqliteQueue(path)
            opened = time.perf_counter()
            found = queue.verify_all() if isinstance(queue, OurSpool) else queue.read_all()
            times.append(time.perf_counter() - start)
            if isinstance(queue, OurSpool):
                again = time.perf_counter()
                found = min(found, queue.read_all())
                handed_out.append(opened - start + time.perf_counter() - again)
            queue.close()
            lost += max(0, acknowledged - found)
            shutil.rmtree(path)
    figures["kill -9"] = {
        "kills": 2 * kills,
        "ours, open and verify all, ms": round(1000 * statistics.median(seconds["ours"]), 2),
        "ours, open and read one by one, ms": round(1000 * statistics.median(handed_out), 2),
        "sqlite, open and read all, ms": round(1000 * statistics.median(seconds["sqlite"]), 2),
        "threads that verify": min(os.cpu_count() or 1, THREADS_MAX),
    }
    share = statistics.median(ours / theirs for ours, theirs in zip(seconds["ours"], seconds["sqlite"], strict=True))
    return [
        at_most(f"acknowledged batches lost over {kills} kills", float(lost), 0.0),
        at_most("open and verify all: ours / SQLite NORMAL", share, 0.8),
    ]


def _write_until_killed(kind: str, path: Path, acknowledged_at_least: int) -> int:
    command = [sys.executable, "-m", "resurge.bench.spool", "write", kind, str(path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    if process.stdout is None:
        raise RuntimeError("no output to read acknowledgements from")
    acknowledged = 0
    for line in process.stdout:
        acknowledged = int(line)
        if acknowledged >= acknowledged_at_least:
            break
    os.kill(process.pid, signal.SIGKILL)
    rest = process.stdout.read().splitlines()
    process.wait()
    whole = [int(line) for line in rest if line.isdigit()]
    return max([acknowledged, *whole[:-1]])


def _write(kind: str, path: Path) -> None:
    """The child: writes until it is killed and says what is acknowledged; ours after each sync of ten batches."""
    payload = os.urandom(65536)
    queue: Any = OurSpool(path, capacity=64 << 20) if kind == "ours" else SqliteQueue(path)
    for count in range(1, 5000):
        queue.put(1, payload)
        if kind == "ours" and count % 10 == 0:
            queue.spool.sync()
        if kind != "ours" or count % 10 == 0:
            print(count, flush=True)


def _random(size: int) -> bytes:
    return np.random.default_rng(size).bytes(size)


def _medians(rates: Rates) -> dict[str, Any]:
    return {f"{name}, batches/s": round(statistics.median(values), 1) for name, values in rates.items()}


if __name__ == "__main__" and sys.argv[1:2] == ["write"]:
    _write(sys.argv[2], Path(sys.argv[3]))
