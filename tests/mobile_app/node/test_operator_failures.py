"""An operator of the user's that raises stops the computing, never the node, and leaves the disk as a kill would.

`tally` numbers the fixes it has seen, so its state shows in every row: restored too old it repeats a number, too new
it skips one. What is compared: the rows in the gateway's log, (number, time, speed, n), with those that a tally of
the sensor's own readings gives when it leaves out one stretch of time, that in which nothing was computed. The sensor
is a function of event time, so the second does not come from the node.
"""

from __future__ import annotations

import hashlib
import itertools
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import resurge as rs
from mobile_app.android.notice import notice
from mobile_app.node.computation import OperatorFailed
from mobile_app.sensors.synthetic import Synthetic
from mobile_app.spool.opening import STATE
from mobile_app.spool.snapshots import FILES
from shared.engine.pipeline import Pipeline
from shared.identity import edge_id
from shared.plan.encoding import encode_plan
from shared.wire.frame import Frame, FrameType
from tests.log_batches import log_batches
from tests.mobile_app.node.test_loop import RAW, Bench, bench, plan  # noqa: F401 - bench is a fixture

EVERY_US = 1_000_000
TALLY = "rs.sensor('gps', every='1s').apply('failing_tally').sync('tally', batch=7, within='20s')"
OPEN = "rs.sensor('gps', every='1s').apply('failing_tally').sync('tally', batch=9999, within='9h')"

Row = tuple[int, int, float, int]  # number on the edge, event time, speed, n


class Garbled(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


@rs.operator("failing_tally", takes={"speed": "float64"}, gives={"speed": "float64", "n": "int64"})
class Tally:
    raises: Mapping[str, Exception] = {}  # by method; the program's newer code puts these right

    def __init__(self) -> None:
        self.n = 0

    def process(self, port: str, row: Mapping[str, float]) -> Iterator[dict[str, float]]:
        if self.n % 5 == 4:  # in the middle of a turn's rows
            self._may_fail("process")
        self.n += 1
        yield {"speed": row["speed"], "n": self.n}

    def snapshot(self) -> bytes:
        self._may_fail("snapshot")
        return struct.pack("<q", self.n)

    def restore(self, state: bytes) -> None:
        self._may_fail("restore")
        (self.n,) = struct.unpack("<q", state)

    def _may_fail(self, method: str) -> None:
        if method in Tally.raises:
            raise Tally.raises[method]


@pytest.fixture(autouse=True)
def repaired() -> Iterator[None]:
    yield
    Tally.raises = {}


def logged(records: list[Frame], edge: str) -> list[Row]:
    rows: list[Row] = []
    for batch in log_batches(records, edge):
        values = (batch.columns[name].tolist() for name in ("speed", "n"))
        rows += zip(batch.seq.tolist(), batch.time_us.tolist(), *values, strict=True)
    return rows


def without_failure(origin_us: int, times_us: list[int], failures: int) -> list[Row]:
    """What a tally gives over the sensor's readings from the beginning to the end but for so many longest silences."""
    silences = sorted(itertools.pairwise(times_us), key=lambda step: step[1] - step[0])[-failures:]
    samples = Synthetic("gps", seed=3, every_us=EVERY_US, origin_us=origin_us).read(times_us[-1] + 1)
    speeds = samples.columns["speed"].tolist()
    computed = [
        (time_us, speed)
        for time_us, speed in zip(samples.time_us.tolist(), speeds, strict=True)
        if not any(start < time_us < end for start, end in silences)
    ]
    return [(number, time_us, speed, number + 1) for number, (time_us, speed) in enumerate(computed)]


def digest(rows: list[Row]) -> str:
    return hashlib.sha256(repr(rows).encode()).hexdigest()


def check_log(bench: Bench, failures: int = 1) -> int:  # noqa: F811
    """No number twice, none left out, every row as it must be; returns how many there are."""
    rows = logged(bench.gateway.records, "tally")
    times_us = [time_us for _, time_us, _, _ in rows]
    expected = without_failure(bench.node.stores.clock.anchor.origin_us, times_us, failures)
    assert digest(rows) == digest(expected), (rows[:30], expected[:30])
    ranges = [(frame.seq, frame.seq + frame.count) for frame in bench.gateway.records
              if frame.type is FrameType.DATA and frame.edge == edge_id("raw")]  # fmt: skip
    assert [lo for lo, _ in ranges] == [0, *(hi for _, hi in ranges)][: len(ranges)]
    return len(rows)


def check_account(bench: Bench) -> None:  # noqa: F811
    account = bench.node.final_account()
    assert account["produced"] == account["delivered"] + account["spooled"] + account["ledgered"]
    heads = sum(bench.node.stores.spool.head(edge) for edge in bench.node.stores.spool.edges())
    assert account["produced"] == heads


def on_disk(home: Path) -> list[bytes]:
    """Both snapshots."""
    return [(home / STATE / name).read_bytes() for name in FILES]


def said(bench: Bench) -> dict[str, object] | None:  # noqa: F811
    return next((entry for entry in bench.node.view()["health"] if entry["code"] == "operator-failed"), None)


def run_until_failed(bench: Bench) -> None:  # noqa: F811
    bench.run_until(lambda: said(bench) is not None)
    assert bench.node.runner.computation is None


def fail_in_the_middle(bench: Bench, program: rs.Plan, method: str = "process") -> None:  # noqa: F811
    """Batches wait in the spool, rows in open batches, and then the operator raises."""
    bench.gateway.down = True
    bench.start(plan=program)
    bench.run_until(lambda: bench.node.final_account()["produced"] >= 40)
    Tally.raises = {method: ValueError("no such mode: 7")}
    run_until_failed(bench)


@pytest.mark.parametrize("method", ["process", "snapshot"])
def test_an_operator_that_raises_stops_the_computing_and_the_spool_still_drains(bench, tmp_path, method):  # noqa: F811
    fail_in_the_middle(bench, plan(tmp_path, RAW, TALLY), method)
    node, kept = bench.node, on_disk(bench.home)
    waiting = node.stores.spool.head(edge_id("tally"))
    assert waiting >= 20
    entry = said(bench)
    assert "not computed now: operator type 'failing_tally' raised ValueError: no such mode: 7" in entry["what"]
    assert "safe and still sent" in entry["remedy"]
    assert not entry["over"]
    assert node.view()["plan"]["version"] == 1
    assert notice(node.view())[0].startswith("Not computing")
    (told,) = [event for event in bench.events if isinstance(event, OperatorFailed)]
    assert told.code == "operator-failed"

    bench.gateway.down = False
    bench.run_until(lambda: node.final_account()["spooled"] == 0)
    assert check_log(bench) == waiting
    assert bench.delivered("raw") == node.stores.spool.head(edge_id("raw")) > 0
    check_account(bench)
    node.stores.recordings.start("by hand", {"gps": EVERY_US}, node.stores.clock.now_us())
    bench.run_until(lambda: node.stores.recordings.state()["readings"].get("gps", 0) > 20)
    node.stores.recordings.stop(node.stores.clock.now_us())
    assert on_disk(bench.home) == kept, "nothing of a half computed turn may be saved"
    assert said(bench)["since"] == entry["since"]

    Tally.raises = {}
    node.close()
    assert on_disk(bench.home) == kept
    bench.start(plan=node.runner.plan)
    bench.run_until(lambda: bench.delivered("tally") >= waiting + 40 and said(bench) is None)
    check_log(bench)
    check_account(bench)


def test_a_kill_after_the_failure_finds_what_a_kill_at_the_failure_would(bench, tmp_path):  # noqa: F811
    program = plan(tmp_path, RAW, TALLY)
    fail_in_the_middle(bench, program)
    waiting = bench.node.stores.spool.head(edge_id("tally"))
    bench.kill()
    Tally.raises = {}
    bench.gateway.down = False
    bench.start(plan=program)
    bench.run_until(lambda: bench.delivered("tally") >= waiting + 40)
    check_log(bench)
    check_account(bench)


def test_a_repaired_operator_goes_on_in_the_same_process_when_the_plan_is_begun_anew(bench, tmp_path):  # noqa: F811
    fail_in_the_middle(bench, plan(tmp_path, RAW, TALLY))
    bench.gateway.down = False
    bench.node.runner.begin_again()  # consent does this; its code is as broken as before
    bench.run_until(lambda: bench.node.runner._next is None and bench.node.runner.computation is None)
    Tally.raises = {}
    waiting = bench.node.stores.spool.head(edge_id("tally"))
    bench.node.runner.begin_again()
    bench.run_until(lambda: bench.delivered("tally") >= waiting + 40 and said(bench) is None)
    check_log(bench, failures=2)  # it may have computed a few rows before it failed again
    check_account(bench)


def test_a_failed_plan_is_tried_again_by_itself_and_less_often_while_it_fails(bench, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setattr("mobile_app.node.retry.WAIT_S", 0.5)
    fail_in_the_middle(bench, plan(tmp_path, RAW, TALLY))
    Tally.raises = {"restore": ValueError("and nothing else")}  # at once, at the first row
    bench.gateway.down = False
    bench.run_until(lambda: len([event for event in bench.events if isinstance(event, OperatorFailed)]) >= 3)
    assert bench.node.runner._retry._wait_s >= 1.0, "it must wait longer each time"
    waiting = bench.node.stores.spool.head(edge_id("tally"))
    Tally.raises = {}  # the reading that was to blame has passed
    bench.run_until(lambda: bench.delivered("tally") >= waiting + 40 and said(bench) is None)
    rows = logged(bench.gateway.records, "tally")
    assert [(number, n) for number, _, _, n in rows] == [(number, number + 1) for number in range(len(rows))]
    check_account(bench)


@pytest.mark.parametrize("when", ["the first row", "the start"])
def test_a_snapshot_that_newer_code_refuses_is_kept_for_code_that_takes_it(bench, tmp_path, monkeypatch, when):  # noqa: F811
    program = plan(tmp_path, TALLY)
    bench.gateway.down = True
    bench.start(plan=program)
    bench.run_until(lambda: bench.node.final_account()["produced"] >= 40)
    waiting = bench.node.close()["spooled"]
    kept = on_disk(bench.home)
    bench.gateway.down = False
    with monkeypatch.context() as patch:
        if when == "the start":

            def refuse(*_: object) -> None:
                raise ValueError("state of 8 bytes, expected 16")

            patch.setattr(Pipeline, "restore", refuse)
        else:
            Tally.raises = {"restore": ValueError("state of 8 bytes, expected 16")}
        for _ in range(3):  # however often it is started
            bench.start(plan=program)
            run_until_failed(bench)
            assert "raised ValueError: state of 8 bytes" in said(bench)["what"]
            bench.run_until(lambda: bench.node.final_account()["spooled"] == 0)
            bench.node.close()
            if when == "the start":  # before a first row turns without rows are whole, and saved
                assert on_disk(bench.home) == kept
    Tally.raises = {}
    bench.start(plan=program)
    bench.run_until(lambda: bench.delivered("tally") >= waiting + 60)
    check_log(bench)
    check_account(bench)


def test_a_plan_that_arrives_replaces_the_failed_one_and_what_that_held_is_sent_once(bench, tmp_path):  # noqa: F811
    bench.gateway.plan_to_send = plan(tmp_path, OPEN)
    bench.start()
    bench.node.access.consents.decide("gps", allow=True)
    bench.run_until(lambda: (kept := bench.node.stores.snapshots.newest()) is not None and "tally" in kept.edges
                    and kept.edges["tally"].rows is not None and len(kept.edges["tally"].rows) > 20)  # fmt: skip
    Tally.raises = {"process": ValueError("no such mode: 7")}
    run_until_failed(bench)
    held = bench.node.stores.snapshots.newest().edges["tally"].rows
    bench.gateway.plan_to_send = plan(tmp_path, RAW, version=2)
    bench.run_until(
        lambda: bench.delivered("raw") >= 40 and bench.delivered("tally") > 0 and said(bench) is None
    )  # health is looked at every few seconds
    assert bench.node.view()["plan"]["version"] == 2
    rows = logged(bench.gateway.records, "tally")
    assert [row[0] for row in rows] == held.seq.tolist()
    assert [row[3] for row in rows] == held.columns["n"].tolist() == list(range(1, len(rows) + 1))
    bench.node.drain(10.0, lambda: False)
    check_account(bench)


def test_a_plan_that_arrives_while_the_old_ones_state_cannot_be_saved_takes_over_too(bench, tmp_path):  # noqa: F811
    bench.gateway.plan_to_send = plan(tmp_path, TALLY)
    bench.start()
    bench.node.access.consents.decide("gps", allow=True)
    bench.run_until(lambda: bench.delivered("tally") >= 20)
    bench.node.runner.arrive(encode_plan(plan(tmp_path, RAW, version=2)))
    Tally.raises = {"snapshot": ValueError("cannot")}
    bench.run_until(lambda: bench.delivered("raw") >= 40)
    assert said(bench) is None
    bench.node.drain(10.0, lambda: False)
    check_log(bench)
    check_account(bench)


@pytest.mark.parametrize(
    ("error", "text"), [(ValueError("x" * 10_000 + "\n"), "ValueError: xxx"), (Garbled(), "Garbled"), (OSError(28, "full"), "OSError: [Errno 28]")]
)  # fmt: skip
def test_whatever_it_raises_is_said_in_bounds(bench, tmp_path, error, text):  # noqa: F811
    Tally.raises = {"process": error}
    bench.start(plan=plan(tmp_path, TALLY))
    run_until_failed(bench)
    assert f"raised {text}" in said(bench)["what"]
    assert len(bench.node.runner.failure) < 250
