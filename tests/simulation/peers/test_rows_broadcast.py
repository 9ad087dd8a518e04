"""Rows that enter a region go over the air once, however many of its nodes keep a copy; and a node that reads its copy
again goes on answering."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shared.hosting import here, taking, vertices
from tests.claims import Claim
from tests.simulation.peers.programs import settings, undisturbed
from tests.simulation.peers.world import Fault, Outcome, PeerWorld, SimulatedNode
from tests.simulation.peers.worlds import every_checker

pytestmark = pytest.mark.sim
NODES = 9


class Counted(PeerWorld):
    """What goes through the air: a datagram once, whoever hears it."""

    air = 0

    def carry(self, sender: SimulatedNode, to: SimulatedNode, message: object, boot: int | None) -> None:
        if sender is not to:
            self.air += len(message.body)  # type: ignore[attr-defined]
        super().carry(sender, to, message, boot)


def played(*, heard: float | None, faults: tuple[Fault, ...] = (), batch: int = 120) -> tuple[Counted, Outcome]:
    setting = settings(
        "wide", row="token", seed=3, nodes=NODES, batch=batch, every_s=0.5, cut_s=60.0, heard=heard, faults=faults,
        within_s=90.0, settle_s=1.0,
    )  # fmt: skip
    world = Counted(replace(setting, rows=600), observers=every_checker())
    outcome = world.run(undisturbed("wide").elements)
    assert not outcome.violation
    assert outcome.digest == undisturbed("wide").digest
    return world, outcome


@pytest.mark.covers("MS-16", "MS-18")
@pytest.mark.parametrize("lost", [0.0, 0.1])
def test_rows_go_over_the_air_once_for_all_who_keep_them(lost: float, claim: Claim) -> None:
    one_by_one, _ = played(heard=None)
    world, outcome = played(heard=lost)
    rows = 600 * 8 * 6
    claim(
        f"{NODES} nodes keep {rows} bytes of rows, {lost:.0%} of datagrams lost: {one_by_one.air} bytes in exchanges "
        f"alone, {world.air + outcome.broadcast_bytes} with broadcasts"
    )
    assert outcome.broadcast_bytes < 3 * rows, "copies of rows, and no cut meanwhile"
    assert one_by_one.air - (world.air + outcome.broadcast_bytes) > 3 * rows


@pytest.mark.covers("MS-23", "MS-26")
def test_a_node_that_reads_its_copy_again_answers_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """All vertices go back to the beginning and read 600 rows again: in turns, each of one batch here."""
    monkeypatch.setattr(vertices, "TURN_BYTES", 1)
    turns: list[int] = []
    read_on = vertices.Vertices._read_on

    def counted(self: vertices.Vertices, *of: object) -> None:
        before = sum(sum(one.taken.values()) for one in self._here.instances.values())
        read_on(self, *of)  # type: ignore[arg-type]
        turns.append(sum(sum(one.taken.values()) for one in self._here.instances.values()) - before)

    monkeypatch.setattr(vertices.Vertices, "_read_on", counted)
    world, outcome = played(heard=0.0, faults=(Fault(4.0, 2, "crash", 100.0),), batch=60)
    assert outcome.recoveries
    read = [rows for rows in turns if rows]
    assert len(read) > 3, f"one go: {turns}"
    assert max(read) <= 2 * 60
    assert not any(node.host.vertices.catches_up for node in world.nodes if node.up)


@pytest.mark.covers("MS-26", "MS-28")
def test_a_node_that_reads_its_copy_again_waits_while_its_readers_have_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that came is read again by whoever begins anew: more than may wait for its readers, and more than those have
    who need none of it again."""
    undisturbed("wide")
    monkeypatch.setattr(vertices, "TURN_BYTES", 1)
    monkeypatch.setattr(here, "MADE_BYTES", 16 << 10)
    for module in (here, taking):
        monkeypatch.setattr(module, "CREDIT_BYTES", 8 << 10)
    most: list[int] = []
    catch_up = vertices.Vertices.catch_up

    def counted(self: vertices.Vertices) -> None:
        catch_up(self)
        most.append(self._here.made.used_bytes)

    monkeypatch.setattr(vertices.Vertices, "catch_up", counted)
    world, outcome = played(heard=0.0, faults=(Fault(9.0, 2, "crash", 100.0),), batch=30)
    assert outcome.recoveries
    assert not outcome.failed
    assert max(most) > 8 << 10, "there was no room for a while"
    assert not any(node.host.vertices.catches_up for node in world.nodes if node.up)
