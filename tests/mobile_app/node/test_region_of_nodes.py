"""Nodes of one region in one process, over real sockets: a snapshot that the region keeps goes out as datagrams."""

from __future__ import annotations

from pathlib import Path

import pytest

from mobile_app.links.broadcast import BroadcastLink
from mobile_app.node.loop import Node
from shared.region.broadcast import Broadcast
from tests.claims import Claim
from tests.mobile_app.node import test_hosting
from tests.mobile_app.node.test_hosting import fleet_file, hosting_of, started
from tests.patience import wait_until

PROGRAM = """
import resurge as rs

near = rs.sensor("gps", every="1s").gather("gps", batch=5, within="5s")
means = near.sliding(count=300).aggregate(a=rs.mean("lat"), b=rs.mean("lon"), c=rs.mean("accuracy"), d=rs.mean("speed"))
means.subscribe("sums")
"""
NAMES = ("one", "two", "three", "four")


def test_a_snapshot_reaches_every_node_of_its_region_by_datagram(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, claim: Claim
) -> None:
    monkeypatch.setattr(test_hosting, "PROGRAM", PROGRAM)
    sent: list[int] = []
    carry = BroadcastLink.send

    def counted(link: BroadcastLink, message: Broadcast) -> None:
        sent.append(len(message.body))
        carry(link, message)

    monkeypatch.setattr(BroadcastLink, "send", counted)
    file = fleet_file(tmp_path, *NAMES)
    region = file.read_text().replace('"ecoc"', '"ecoc-region"').replace("keepers = 0", f"keepers = {len(NAMES) - 1}")
    file.write_text(region.replace("every = 20", "every = 60"))
    nodes = [started(tmp_path / name, file) for name in NAMES]
    try:
        wait_until(lambda: turned(nodes) and sent, "three copies of a snapshot that was broadcast")
        kept = {one.version: len(one.encode()) for node in nodes for one in hosting_of(node).host.here.keeper.held()}
        claim(
            f"{len(NAMES)} nodes: {sum(sent)} bytes in {len(sent)} datagrams, snapshots of {sorted(kept.values())} bytes kept by all"
        )
    finally:
        for node in nodes:
            node.close()
    assert all(hosting_of(node)._broadcast is not None for node in nodes)


def turned(nodes: list[Node]) -> bool:
    """One turn of each; whether by now all but one keep the same large one."""
    for node in nodes:
        node.turn(node.rest.now())
    kept = [{one.encode() for one in hosting_of(node).host.here.keeper.held() if one.size > 3_000} for node in nodes]
    held = [each for each in kept if each]
    return len(held) == len(nodes) - 1 and bool(set.intersection(*held))
