"""What people are told of a fleet: where vertices run, how they are, what they would begin from, what moved and why."""

from __future__ import annotations

from dataclasses import asdict, replace
from types import SimpleNamespace
from typing import Any

import pytest

import resurge as rs
from shared.hosting.coordinate import Coordinator
from shared.hosting.fleet_downlink import MOVES_SENT
from shared.hosting.fleet_events import Recovered
from shared.hosting.fleet_watch import FleetWatch
from shared.hosting.fleet_words import listed, move_words, strategy_words
from shared.identity import DeviceId, device_id
from shared.moves import Move
from shared.plan.deployment import MOVES_MAX, Hop, HostedQuery, Peer, Placement, Route, decode_deployment
from shared.recovery.strategies import STRATEGIES
from shared.wire.status import DeviceStatus, InstanceStatus, KeptStatus

SILENCE_S = 4.0


def peer(number: int, name: str) -> Peer:
    key = bytes([number]) * 32
    return Peer(device_id(key).hex(), name, key, "a" * 40, ())


LAPTOP, HUB, BACKUP, PHONE = peer(1, "laptop"), peer(2, "hub"), peer(3, "backup"), peer(4, "phone")
PEERS = (LAPTOP, HUB, BACKUP, PHONE)


def query(row: str = "ecoc", hosts: tuple[Peer, ...] = (HUB,), keepers: tuple[Peer, ...] = (BACKUP,)) -> HostedQuery:
    near = rs.stream("x", {"v": "float64"}).gather("near")
    plan = rs.plan_of(near.key_by().tumbling("1m").aggregate(n=rs.count()).subscribe("hot"))
    placed = Placement("hot", tuple(each.node for each in hosts), tuple(each.node for each in keepers), 1)
    return HostedQuery("noise", 1, plan, row, 500, (PHONE.node,), LAPTOP.node, (placed,))


class Bench:
    """A coordinator, whom nodes tell how they are, and somebody who watches."""

    def __init__(self, hosted: HostedQuery | None = None, stored: bytes = b"") -> None:
        self.now = 0.0
        self.coordinator = Coordinator(
            LAPTOP.node, lambda _: b"", stored=stored, silence_s=SILENCE_S, clock_us=lambda: self.now_us
        )
        self.coordinator.set_fleet(PEERS, [hosted or query()])
        self.watch = FleetWatch(SimpleNamespace(node=LAPTOP.node), self.coordinator, self.now_us)  # type: ignore[arg-type]

    @property
    def now_us(self) -> int:
        return 1_000_000_000 + round(self.now * 1e6)

    def say(self, who: Peer, *instances: InstanceStatus, kept: tuple[KeptStatus, ...] = ()) -> None:
        self.coordinator.heard(
            DeviceId(bytes.fromhex(who.node)), self.now, DeviceStatus(instances=instances, kept=kept)
        )

    def all_say(self, at: float, *instances: InstanceStatus, hub: bool = True) -> None:
        self.now = at
        kept = KeptStatus("noise", "hot", 1, 3)
        for each in PEERS if hub else (LAPTOP, BACKUP, PHONE):
            here = self.coordinator.fleet.queries[0].placements[0].hosts == (each.node,)
            self.say(each, *(instances if here else ()), kept=(kept,) if each in (HUB, BACKUP) else ())
        self.watch.look(self.now, self.now_us)

    def hub_dies(self) -> None:
        for at in (2.0, 3.0, 4.0, 5.5):
            self.all_say(at, hub=False)

    def status(self) -> Any:
        return self.watch.status(self.now, self.now_us)


def runs(number: int | None = None, state: str = "running", why: str = "", term: int = 1) -> InstanceStatus:
    return InstanceStatus("noise", "hot", term, state, why, 0, number, None if number is None else 900)


def test_a_vertex_starts_runs_and_has_snapshots_that_are_dated_by_when_they_were_heard() -> None:
    bench = Bench()
    bench.all_say(1.0)
    (placed,) = bench.status().placements
    assert (placed.state, placed.why) == ("starting", "hub has not said that it runs")
    assert (placed.hosts, placed.keepers, placed.term, placed.snapshot) == (("hub",), ("backup",), 1, None)
    bench.all_say(2.0, runs())
    (placed,) = bench.status().placements
    assert (placed.state, placed.why, placed.snapshot_us) == ("running", "", None)
    bench.all_say(3.0, runs(7))
    bench.all_say(4.0, runs(7))
    (placed,) = bench.status().placements
    assert (placed.snapshot, placed.snapshot_bytes, placed.snapshot_us) == (7, 900, 1_003_000_000)


def test_a_snapshot_from_before_anybody_listened_has_no_date() -> None:
    bench = Bench()
    bench.all_say(1.0, runs(7))
    (placed,) = bench.status().placements
    assert (placed.snapshot, placed.snapshot_us) == (7, None)
    bench.all_say(2.0, runs(8))
    assert bench.status().placements[0].snapshot_us == 1_002_000_000
    bench.all_say(2.5, runs(8, "failed", "no"))
    bench.all_say(3.0, runs(5, term=2))  # it began again from an older one
    assert (bench.status().placements[0].snapshot, bench.status().placements[0].snapshot_us) == (5, None)
    bench.all_say(3.5, runs(4, term=2))  # marks of another source may have lower numbers
    assert bench.status().placements[0].snapshot_us == 1_003_500_000


def test_a_failed_vertex_says_why_and_is_moved_with_that_reason() -> None:
    bench = Bench()
    bench.all_say(1.0, runs(3))
    bench.all_say(2.0, runs(3, "failed", "ValueError: no\nbeat"))
    (move,) = bench.status().moves
    assert (move.query, move.vertex, move.before, move.after, move.term) == ("noise", "hot", ("hub",), ("hub",), 2)
    assert "ValueError: nobeat" in move.why
    assert move.at_us == 1_002_000_000
    assert bench.status().placements[0].state == "starting"
    bench.all_say(2.1, runs(3, "failed", "again", term=2))  # too early to try once more
    assert (bench.status().placements[0].state, bench.status().placements[0].why) == ("failed", "again")


def test_a_silent_node_is_named_since_when_and_its_vertex_moves_for_that_reason() -> None:
    bench = Bench()
    bench.all_say(1.0, runs(3))
    bench.hub_dies()
    status = bench.status()
    silent = {each.name: each.silent_us for each in status.nodes}
    assert silent == {"laptop": None, "hub": 1_001_000_000, "backup": None, "phone": None}
    (move,) = status.moves
    assert (move.before, move.after, move.why) == (("hub",), ("backup",), "hub is silent for 4 s")
    assert move_words(move) == "hot moved from hub to backup"
    assert [event for event in bench.coordinator.events() if isinstance(event, Recovered)]


def test_moves_are_stored_with_what_they_led_to_and_told_to_every_node() -> None:
    bench = Bench()
    bench.all_say(1.0, runs(3))
    bench.hub_dies()
    (stored,) = bench.coordinator.step().persist
    again = Bench(stored=stored.data)
    assert again.status().moves == bench.status().moves != ()
    deployed, encoded = again.coordinator.deployment(PHONE.node)
    assert decode_deployment(encoded).moves == deployed.moves == again.status().moves


def test_a_node_that_does_not_coordinate_knows_where_vertices_are_and_how_its_own_is() -> None:
    bench = Bench()
    bench.all_say(1.0, runs(3))
    bench.hub_dies()
    deployed, _ = bench.coordinator.deployment(BACKUP.node)
    said = DeviceStatus(instances=(runs(3, term=2),))
    host = SimpleNamespace(node=BACKUP.node, deployed=deployed, status=lambda: said)
    watch = FleetWatch(host, None, 0)  # type: ignore[arg-type]
    (placed,) = watch.status(1.0, 5).placements
    assert (placed.hosts, placed.state, placed.snapshot) == (("backup",), "running", 3)
    assert watch.status(1.0, 5).moves == bench.status().moves
    other = SimpleNamespace(node=PHONE.node, deployed=deployed, status=DeviceStatus)
    (placed,) = FleetWatch(other, None, 0).status(1.0, 5).placements  # type: ignore[arg-type]
    assert placed.state == "unknown"
    unmet = SimpleNamespace(node=PHONE.node, deployed=None, status=DeviceStatus)
    assert FleetWatch(unmet, None, 0).status(1.0, 5).placements == ()  # type: ignore[arg-type]


def test_of_copies_one_that_runs_is_enough() -> None:
    bench = Bench(query("rep-2", (HUB, BACKUP), ()))
    bench.now = 1.0
    for each in PEERS:
        bench.say(each, *((runs(),) if each is BACKUP else ()))
    (placed,) = bench.status().placements
    assert (placed.state, placed.why) == ("running", "hub has not said that it runs")


def test_only_so_many_moves_are_remembered_and_fewer_told() -> None:
    bench = Bench()
    for term in range(1, MOVES_MAX + 30):
        bench.all_say(200.0 * term, runs(3, "failed", "no", term=bench.coordinator.fleet.queries[0].placements[0].term))
    moves = bench.coordinator.fleet.moves
    assert len(moves) == MOVES_MAX
    assert [each.term for each in moves] == list(range(moves[0].term, moves[0].term + MOVES_MAX))
    assert bench.coordinator.deployment(PHONE.node)[0].moves == moves[-MOVES_SENT:]
    assert bench.status().fitted().moves == moves[-40:]


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_every_strategy_is_said_in_words_that_follow_from_its_row(name: str) -> None:
    words = strategy_words(name, 500)
    assert words.endswith(".")
    assert ("500" in words) == (STRATEGIES[name].row.trigger.value in {"every", "jittered"})


def test_words_for_moves_and_names() -> None:
    move = Move(1, "q", "hot", 2, ("hub",), ("hub",), "it raised")
    assert move_words(move) == "hot began again on hub"
    copies = replace(move, before=("hub", "backup"), after=("backup",))
    assert move_words(copies) == "hot runs on backup, no longer on hub"
    assert [listed(names) for names in ((), ("a",), ("a", "b", "c"))] == ["nobody", "a", "a, b and c"]
    assert strategy_words("of-tomorrow", 1) == "A strategy that this version does not know."
    assert strategy_words("ecoc", 500) == (
        "The vertices take a snapshot together every 500 elements, kept by another node. One is permanent once all that "
        "read from the vertex have theirs."
    )
    assert asdict(move)["before"] == ("hub",)


def test_who_passes_rows_on_is_told_and_a_direct_way_only_beside_others() -> None:
    def ways(*paths: tuple[Hop, ...]) -> Any:
        return Bench(replace(query(), routes=(Route("near", PHONE.node, 0, paths),))).status().ways

    over = (Hop(BACKUP.node, 0),)
    assert ways(()) == ()
    assert Bench(replace(query(), routes=(Route("near", PHONE.node),))).status().applied == ()
    assert ways(over) == (("noise", "phone", ("backup",)),)
    assert ways((), over) == (("noise", "phone", ()), ("noise", "phone", ("backup",)))
