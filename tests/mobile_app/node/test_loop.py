"""The node's loop over the real machines, with a gateway in memory."""

from __future__ import annotations

import itertools
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import resurge as rs
from mobile_app.home.keys import load_keys
from mobile_app.node.loop import Node
from mobile_app.node.plan_runner import STEP_US
from mobile_app.node.surroundings import Surroundings
from mobile_app.sensors.choose import parse_choices
from mobile_app.service.inspection import inspect
from mobile_app.settings import Gateway, Settings
from mobile_app.spool.opening import spool_cipher
from shared.engine.pipeline import Pipeline
from shared.errors import DamagedData, UsageError
from shared.identity import edge_id
from shared.language import codecs as language_codecs
from shared.language import registry
from shared.plan.graph import Plan
from shared.sync.events import Disconnected, Reconnected, Refused
from shared.wire.frame import FrameType
from tests.log_batches import log_columns
from tests.mobile_app.small_gateway import SmallGateway
from tests.patience import PATIENCE_S, RAN_OUT

SETTINGS = Settings(loss_window_s=0.05, spool_mb=2)
SENSORS = parse_choices(["gps=synthetic:3", "accelerometer=synthetic:3"])


def plan(tmp_path: Path, *lines: str, version: int = 1) -> Plan:
    path = tmp_path / f"program{version}.py"
    path.write_text("\n".join(["import resurge as rs", "from resurge import col", *lines]))
    return rs.load_program(path, version=version)


class Bench:
    """A home, a gateway, and nodes started in it one after the other."""

    def __init__(self, directory: Path) -> None:
        self.home = directory / "home"
        self.home.mkdir()
        self.gateway = SmallGateway()
        self.gateway.enrol_key(load_keys(self.home).public_key)
        self.events: list[object] = []
        self.outputs: list[tuple[str, int]] = []
        self.node: Node | None = None

    def start(
        self,
        *,
        settings: Settings = SETTINGS,
        speed: float = 240.0,
        plan: Plan | None = None,
        incarnation: int = 1,
    ) -> Node:
        self.node = Node(
            self.home,
            Surroundings(
                settings=settings,
                gateway=Gateway("http://here", self.gateway.keys.public_key, b"", incarnation),
                link=self.gateway,
                sensors=SENSORS,
                speed=speed,
                plan=plan,
                on_event=self.events.append,
                on_output=lambda name, batch: self.outputs.append((name, len(batch))),
            ),
        )
        return self.node

    def run_until(self, condition: Callable[[], bool], timeout_s: float = PATIENCE_S) -> None:
        end = time.monotonic() + timeout_s
        self.node.run(lambda: condition() or time.monotonic() > end)
        assert condition(), f"what it waited for {RAN_OUT} {timeout_s:.0f} s"

    def kill(self) -> None:
        """Leave as SIGKILL would: nothing is flushed, the kernel gives the lock back."""
        self.node.uplink.close()
        self.node._lock.release()
        self.node.stores.results.close()
        self.node = None

    def delivered(self, edge: str) -> int:
        return sum(
            frame.count
            for frame in self.gateway.records
            if frame.type is FrameType.DATA and frame.edge == edge_id(edge)
        )


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    if bench.node is not None:
        bench.node.close()


RAW = "rs.sensor('gps', every='1s').sync('raw', batch=20, within='30s')"


def test_a_plan_comes_from_the_gateway_and_is_there_at_the_next_start(bench, tmp_path):
    bench.gateway.plan_to_send = plan(tmp_path, RAW)
    bench.start()
    bench.run_until(lambda: bench.delivered("raw") >= 40)
    account = bench.node.close()
    assert account["produced"] == account["delivered"] + account["spooled"]
    bench.gateway.down = True
    bench.start()
    bench.run_until(lambda: bench.node.final_account()["produced"] >= account["produced"] + 40)
    assert bench.node.view()["plan"] == {"name": "program1", "version": 1}


@pytest.mark.covers("SO-9")
def test_a_kill_at_any_turn_neither_repeats_nor_skips_a_number(bench, tmp_path):
    program = plan(
        tmp_path, RAW, "rs.sensor('gps', every='1s').tumbling('7s').aggregate(n=rs.count()).sync('seven', within='20s')"
    )
    for turns in (3, 9, 4, 12):
        bench.start(plan=program)
        produced = bench.node.final_account()["produced"]
        bench.run_until(
            lambda turns=turns, produced=produced: bench.node.final_account()["produced"] >= produced + turns * 5
        )
        bench.kill()
    bench.start(plan=program)
    bench.node.drain(10.0, lambda: False)
    account = bench.node.final_account()
    assert account["spooled"] == 0
    for edge in ("raw", "seven"):
        ranges = [
            (f.seq, f.seq + f.count)
            for f in bench.gateway.records
            if f.type is FrameType.DATA and f.edge == edge_id(edge)
        ]
        assert ranges[0][0] == 0
        assert all(before[1] == after[0] for before, after in itertools.pairwise(ranges))
    assert account["delivered"] == bench.delivered("raw") + bench.delivered("seven")


def test_a_new_plan_takes_over_after_everything_of_the_old_one_is_spooled(bench, tmp_path):
    bench.gateway.plan_to_send = plan(tmp_path, RAW)
    bench.start()
    bench.run_until(lambda: bench.delivered("raw") > 0)
    bench.gateway.plan_to_send = plan(tmp_path, "rs.sensor('gps', every='2s').sync('other', within='10s')", version=2)
    bench.run_until(lambda: bench.delivered("other") > 0)
    head = bench.node.stores.spool.head(edge_id("raw"))
    bench.run_until(lambda: bench.delivered("raw") == head)
    bench.run_until(lambda: bench.delivered("other") > 5)
    assert bench.node.stores.spool.head(edge_id("raw")) == head


def test_a_plan_that_arrived_just_before_a_kill_finds_the_old_ones_rows(bench, tmp_path):
    bench.start(plan=plan(tmp_path, RAW.replace("20", "9999").replace("30s", "9h")))
    bench.run_until(
        lambda: bench.node.runner.computation is not None and bench.node.runner.computation.readings()["gps"] > 30
    )
    bench.run_until(lambda: bench.node.stores.snapshots.newest() is not None)
    held = len(bench.node.stores.snapshots.newest().edges["raw"].rows)
    bench.kill()
    bench.start(plan=plan(tmp_path, "rs.sensor('gps', every='2s').sync('other', within='10s')", version=2))
    bench.run_until(lambda: bench.delivered("other") > 0)
    assert bench.delivered("raw") == bench.node.stores.spool.head(edge_id("raw")) >= held > 0


def test_results_are_kept_and_visible_after_a_restart(bench, tmp_path):
    row = {
        "sink": "trips",
        "key": [bench.home.name],
        "window_start_us": 0,
        "window_end_us": 10,
        "revision": 1,
        "values": {"km": 2.5},
    }
    bench.gateway.rows = [row, row | {"revision": 2, "values": {"km": 3.5}}]
    bench.start(plan=plan(tmp_path, RAW))
    bench.run_until(lambda: bench.node.final_account()["results"] == 1)
    bench.kill()
    bench.start()
    kept = bench.node.stores.results.latest("trips")
    assert [result.values for result in kept] == [{"km": 3.5}]


@pytest.mark.covers("SO-35")
def test_a_hint_slows_sampling_until_the_gateway_stops_repeating_it(bench, tmp_path):
    bench.gateway.rates = {"*": 0.1}
    node = bench.start(plan=plan(tmp_path, RAW))
    bench.run_until(lambda: node.rates.hint_ends is not None)
    assert node.view()["sensors"]["gps"]["asked_hz"] == 0.1
    bench.gateway.rates = {}

    def ended() -> bool:  # an answer that was already on its way may repeat the hint once more
        if node.rates.hint_ends is not None:
            node.turn(node.rates.hint_ends + 1)
        return node.view()["sensors"]["gps"]["asked_hz"] == 1.0

    bench.run_until(ended)


@pytest.mark.covers("SO-10")
def test_the_program_sees_disconnection_and_reconnection(bench, tmp_path):
    bench.start(plan=plan(tmp_path, RAW))
    bench.run_until(lambda: bench.delivered("raw") > 0)
    bench.gateway.down = True
    bench.run_until(lambda: any(isinstance(event, Disconnected) for event in bench.events))
    assert not bench.node.view()["connected"]
    assert bench.node.view()["why_not"] == "no network"
    bench.gateway.down = False
    bench.run_until(lambda: any(isinstance(event, Reconnected) for event in bench.events))
    assert bench.node.view()["connected"]


def test_a_node_that_is_slower_than_its_sensors_sends_what_it_has_read(bench, tmp_path):
    """Each turn would else read all that came while the one before it was computed, and be longer than that."""
    node = bench.start(plan=plan(tmp_path, RAW))
    bench.run_until(lambda: bench.delivered("raw") >= 40)
    sent, reached, behind = bench.delivered("raw"), node.runner.computation.reached_us, 0
    node.runner._step_us = STEP_US  # it has perhaps read more at once before
    end = time.monotonic() + PATIENCE_S
    while (bench.delivered("raw") < sent + 40 or behind < 10) and time.monotonic() < end:
        node.turn(node.rest.now(), 0.0)  # time for one step
        now_us = node.runner.computation.reached_us
        assert now_us - reached <= STEP_US
        reached, behind = now_us, behind + node.behind
    assert bench.delivered("raw") >= sent + 40
    assert behind >= 10, "four minutes pass in a second, and a step is a second at most"
    node.turn(node.rest.now())
    assert not node.behind


def test_a_full_spool_that_may_give_nothing_up_stops_reading_until_a_receipt_makes_room(bench, tmp_path):
    fast = plan(tmp_path, "rs.sensor('accelerometer', every='1ms').sync('shake', batch=5000, within='1s')")
    bench.gateway.down = True
    bench.start(settings=Settings(spool_mb=1, evict="block", loss_window_s=0.5), speed=2000.0, plan=fast)
    bench.run_until(lambda: bench.node.runner.spooler is not None and bench.node.runner.spooler.blocked)
    readings = bench.node.runner.computation.readings()["accelerometer"]
    bench.node.turn(time.monotonic())
    assert bench.node.runner.computation.readings()["accelerometer"] == readings
    bench.gateway.down = False
    bench.run_until(lambda: bench.node.runner.computation.readings()["accelerometer"] > readings)
    assert bench.node.final_account()["ledgered"] == 0
    assert bench.delivered("shake") > 0


def test_a_sensor_nobody_chose_is_said_and_the_rest_runs(bench, tmp_path):
    bench.start(plan=plan(tmp_path, RAW, "rs.sensor('barometer', every='1s').sync('air')"))
    bench.run_until(lambda: bench.delivered("raw") > 0)
    assert "--sensor barometer=" in bench.node.view()["missing_sensors"]["barometer"]


def test_local_subscriptions_and_readings_on_request_work(bench, tmp_path):
    program = plan(
        tmp_path,
        "rs.timer('5s').read('gps').subscribe('spots')",
        "rs.sensor('accelerometer', every='1s').where(col.z > 0).subscribe('good')",
    )
    bench.start(plan=program)
    bench.run_until(lambda: {name for name, _ in bench.outputs} == {"spots", "good"})


def test_a_spool_that_lost_its_memory_is_set_aside_when_the_device_is_paired_again(bench, tmp_path):
    program = plan(tmp_path, RAW)
    bench.start(plan=program)
    bench.run_until(lambda: bench.delivered("raw") > 0)
    bench.node.gateway.note(Refused("sync-overlap", "the gateway has other elements under these numbers"))
    bench.node.close()
    bench.start(plan=program)  # not paired again yet: nothing changes
    assert bench.node.stores.spool.incarnation == 1
    bench.node.close()
    bench.gateway.enrol_key(load_keys(bench.home).public_key, incarnation=2)
    bench.start(plan=program, incarnation=2)
    bench.run_until(lambda: any(frame.incarnation == 2 for frame in bench.gateway.records))
    assert (bench.home / "spool-behind-1").is_dir()
    assert (bench.home / "spool.key-behind-1").exists()


def test_a_home_restored_from_an_older_copy_sends_nothing_under_used_numbers_however_often_it_restarts(bench, tmp_path):
    program = plan(tmp_path, RAW)
    bench.start(plan=program)
    bench.run_until(lambda: bench.delivered("raw") > 0)
    head = bench.node.close()["produced"]
    copy = tmp_path / "copy"
    shutil.copytree(bench.home, copy)
    bench.start(plan=program)
    bench.run_until(lambda: bench.delivered("raw") > head)
    bench.node.close()
    shutil.rmtree(bench.home)
    shutil.move(copy, bench.home)
    bench.gateway.down = True
    for _ in range(2):  # it numbers past the gateway's mark before it meets the gateway again
        bench.start(plan=program)
        enough = bench.node.final_account()["produced"] + 60
        bench.run_until(lambda enough=enough: bench.node.final_account()["produced"] >= enough)
        bench.node.close()
    delivered = bench.delivered("raw")
    bench.gateway.down = False
    bench.start(plan=program)
    kept = bench.node.final_account()["spooled"]
    bench.run_until(lambda: "sync-sequence-behind" in bench.node.gateway.refusal)
    assert bench.node.final_account()["spooled"] >= kept > 0
    assert bench.delivered("raw") == delivered


def files_below(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file())


@pytest.mark.parametrize("encrypt", [True, False])
def test_what_lies_on_the_disk_is_encrypted_unless_the_settings_say_otherwise(bench, tmp_path, encrypt):
    program = plan(tmp_path, "rs.sensor('gps', every='1s').sync('very_recognisable_edge', batch=9999, within='9h')")
    settings = replace(SETTINGS, encrypt=encrypt)
    bench.gateway.down = True
    bench.start(plan=program, settings=settings)
    bench.run_until(
        lambda: bench.node.runner.computation is not None and bench.node.runner.computation.readings()["gps"] > 20
    )
    account = bench.node.close()
    assert account["spooled"] > 20
    assert (spool_cipher(bench.home) is not None) is encrypt
    # A snapshot holds rows and state in a plain form: its column names show whether it can be read.
    assert (b"very_recognisable_edge" in files_below(bench.home / "state")) is not encrypt
    view = inspect(bench.home)
    assert view["spooled"] == account["spooled"]
    assert view["encrypted_at_rest"] is encrypt
    assert "no key store" in view["key_protection"]
    bench.gateway.down = False
    bench.start(plan=program, settings=replace(SETTINGS, encrypt=not encrypt))  # fixed when the spool was made
    bench.run_until(lambda: bench.delivered("very_recognisable_edge") >= account["spooled"])
    assert stat.S_IMODE((bench.home / "device.key").stat().st_mode) == 0o600
    if encrypt:
        assert stat.S_IMODE((bench.home / "spool.key").stat().st_mode) == 0o600


def test_a_plan_that_needs_what_is_not_installed_is_refused_and_the_old_one_goes_on(bench, tmp_path, monkeypatch):
    bench.start(plan=plan(tmp_path, RAW))
    bench.run_until(lambda: bench.delivered("raw") > 0)
    newer = plan(
        tmp_path,
        "@rs.operator('elsewhere', takes={'speed': 'float64'}, gives={'fast': 'bool'})",
        "def elsewhere(columns): return {'fast': columns['speed'] > 3}",
        "rs.sensor('gps', every='1s').apply('elsewhere').sync('fast')",
        version=2,
    )
    monkeypatch.delitem(registry._types, "elsewhere")
    bench.gateway.plan_to_send = newer
    bench.run_until(lambda: "operator" in bench.node.gateway.refusal)
    delivered = bench.delivered("raw")
    bench.run_until(lambda: bench.delivered("raw") > delivered)
    assert bench.node.view()["plan"]["version"] == 1


def test_state_of_another_version_of_the_engine_is_dropped_and_its_rows_are_not(bench, tmp_path, monkeypatch):
    program = plan(tmp_path, RAW.replace("20", "9999").replace("30s", "9h"))
    bench.start(plan=program)
    bench.run_until(
        lambda: (
            bench.node.stores.snapshots.newest() is not None and bench.node.runner.computation.readings()["gps"] > 20
        )
    )
    bench.kill()

    def refuse(*_: object) -> None:
        raise DamagedData("written by another version", code="snapshot-version")

    monkeypatch.setattr(Pipeline, "restore", refuse)
    bench.start(plan=program)
    held = len(bench.node.stores.snapshots.newest().edges["raw"].rows)
    bench.run_until(lambda: bench.node.stores.spool.head(edge_id("raw")) >= held > 0)


ADVICE = """up = rs.sensor('gps', every='1s').sync('raw', batch=20, within='30s')
pace = up.key_by('device').tumbling('10s').aggregate(top=rs.max('speed'))
back = pace.sync_back('pace', commit='stable')
back.where(col.top >= 2.0).sync('heard', batch=1, within='1s')
back.subscribe('shown')"""


def result(number: int) -> dict[str, object]:
    start_us = number * 10_000_000
    return {
        "sink": "pace", "key": ["here"], "window_start_us": start_us, "window_end_us": start_us + 10_000_000,
        "revision": 1, "retract": False, "complete": True, "values": {"top": float(number)},
    }  # fmt: skip


@pytest.mark.covers("SO-15")
def test_results_that_come_back_act_as_sensors_and_enter_once_across_kills(bench, tmp_path):
    program = plan(tmp_path, *ADVICE.splitlines())
    bench.start(plan=program)
    bench.run_until(lambda: bench.delivered("raw") > 0)
    for number in range(6):
        bench.gateway.rows.append(result(number))
        if number % 2:
            bench.run_until(lambda number=number: bench.node.stores.results.through == number + 1)
            bench.kill()
            bench.start(plan=program)
    bench.gateway.rows += [{"sink": "pace"}, result(6) | {"values": {"other": 1}}]  # no result, and not of this plan
    bench.gateway.rows.append(result(7))
    bench.run_until(lambda: len(log_columns(bench.gateway.records, "heard").get("top", [])) >= 5)
    rows = log_columns(bench.gateway.records, "heard")
    assert rows["top"] == [2.0, 3.0, 4.0, 5.0, 7.0]
    assert rows["window_start"] == [20_000_000, 30_000_000, 40_000_000, 50_000_000, 70_000_000]
    assert "shown" in {name for name, _ in bench.outputs}


def test_rows_that_the_program_appends_are_computed_and_delivered_like_readings(bench, tmp_path):
    source = "rs.stream('mood', {'value': 'float64', 'word': 'str'})"
    bench.start(plan=plan(tmp_path, f"{source}.where(col.value > 0).sync('moods', within='1s')"))
    with pytest.raises(UsageError, match="append-stream"):
        bench.node.append("mood", value=1.0, word="early")
    bench.node.turn(time.monotonic())
    for value in (1.0, -1.0, 2.5):
        bench.node.append("mood", value=value, word=f"said {value}")
    for stream, row, code in (
        ("mood", {"value": 1.0}, "append-columns"),
        ("mood", {"value": "much", "word": "x"}, "append-columns"),
        ("weather", {"value": 1.0, "word": "x"}, "append-stream"),
    ):
        with pytest.raises(UsageError, match=code):
            bench.node.append(stream, **row)
    bench.run_until(lambda: bench.delivered("moods") >= 3)
    rows = log_columns(bench.gateway.records, "moods")
    assert rows == {"value": [1.0, 2.5], "word": ["said 1.0", "said 2.5"]}


@pytest.mark.covers("SO-12")
def test_each_edge_is_packed_as_its_program_says_and_the_cloud_reads_all_of_them(bench, tmp_path):
    """The same readings by four ways; the frames say which."""
    rs.register_codec("turned", pack=lambda data: data[::-1], unpack=lambda data, _: data[::-1])
    chosen = {"auto": 1, "columns": 1, "deflate": 2, "none": 0, "turned": 3}
    lines = [
        f"rs.sensor('gps', every='1s').sync('{codec}_edge', batch=20, within='20s', codec='{codec}')"
        for codec in chosen
    ]
    bench.gateway.plan_to_send = plan(tmp_path, *lines)
    bench.start()
    bench.run_until(lambda: all(bench.delivered(f"{codec}_edge") >= 40 for codec in chosen))
    bench.node.close()
    packed = {
        frame.edge: frame.codec for frame in bench.gateway.records if frame.type is FrameType.DATA
    }  # fmt: skip
    assert packed == {edge_id(f"{codec}_edge"): number for codec, number in chosen.items()}
    rows = [log_columns(bench.gateway.records, f"{codec}_edge")["lat"][:40] for codec in chosen]
    assert all(len(each) == 40 and each == rows[0] for each in rows)
    bench.node = None
    language_codecs._codecs.clear()


def test_an_edge_that_blocks_keeps_its_rows_while_another_gives_up_its_own(bench, tmp_path):
    program = plan(
        tmp_path,
        "rs.sensor('gps', every='1s').sync('dear', batch=10, within='5s', evict='block')",
        "rs.sensor('accelerometer', every='20ms').sync('cheap', batch=500, within='5s', codec='none', evict='oldest')",
    )
    bench.gateway.down = True
    bench.start(settings=replace(SETTINGS, spool_mb=1), speed=600.0, plan=program)
    bench.run_until(lambda: bench.node.view()["spool"]["ledger"].get("evicted", 0) > 5000)
    states = bench.node.view()["edges"]
    assert states["cheap"]["ledgered"] > 5000
    assert states["dear"]["ledgered"] == 0
    assert states["dear"]["spooled"] == states["dear"]["produced"] > 0
    assert "dear" not in bench.node.view()["goes_first"]


@pytest.mark.parametrize("dear", ["rs.lossless()", "rs.limited_loss(0.9)"])
def test_what_a_contract_keeps_is_given_up_last_and_no_more_of_it_than_it_allows(bench, tmp_path, dear):
    program = plan(
        tmp_path,
        f"rs.sensor('gyroscope', every='40ms').sync('dear', batch=250, within='5s', codec='none', contract={dear})",
        "rs.sensor('accelerometer', every='20ms').sync('cheap', batch=500, within='5s', codec='none', "
        "contract=rs.limited_loss(0.1))",
    )
    bench.gateway.down = True
    bench.start(settings=replace(SETTINGS, spool_mb=1), speed=600.0, plan=program)
    bench.run_until(lambda: bench.node.view()["edges"].get("cheap", {}).get("ledgered", 0) > 8000)
    states = bench.node.view()["edges"]
    allowed = 0.0 if "lossless" in dear else 0.1
    assert states["dear"]["ledgered"] <= allowed * states["dear"]["produced"]
    assert states["cheap"]["ledgered"] <= 0.9 * states["cheap"]["produced"]
    assert bench.node.view()["goes_first"][0] == "cheap"
