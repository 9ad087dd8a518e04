"""A node that is a fleet by itself: its vertices speak to each other without the network, whatever others send."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mobile_app.headless import NoLink
from mobile_app.home.keys import load_keys
from mobile_app.home.peer_keys import load_curve_keys
from mobile_app.links.peers import CurveKeys, PeerLinks
from mobile_app.node import hosting as hosting_module
from mobile_app.node.hosting import Gathered, Hosting
from mobile_app.node.loop import Node
from mobile_app.node.surroundings import Surroundings
from mobile_app.sensors.choose import parse_choices
from mobile_app.settings import Settings
from resurge.up.process_fleet import free_address
from shared.batch import Batch
from shared.hosting.fleet_file import read_fleet
from shared.hosting.messages import Ask
from shared.hosting.sink import sink_rows
from shared.hosting.wiring import EdgeSpec
from shared.language.codecs import NONE
from shared.plan.deployment import Peer
from shared.spool.disk import PosixDisk
from shared.spool.entry import SpooledBatch
from shared.spool.ring import SpoolFull
from shared.sync.receiver import Arrival, Reply
from shared.wire import codecs
from tests.patience import PATIENCE_S, wait_until

ROOM = 8  # for what others send
PROGRAM = """
import resurge as rs

near = rs.sensor("gps", every="1s").gather("gps", batch=5, within="5s")
pairs = near.sliding(count=2).aggregate(n=rs.count())
pairs.sliding(count=3).aggregate(n=rs.sum("n")).subscribe("sums")
"""


def fleet_file(folder: Path, *names: str) -> Path:
    """The first one coordinates, feeds the query and has its results."""
    (folder / "program.py").write_text(PROGRAM)
    cards = []
    for name in names:
        home = folder / name
        home.mkdir()
        cards.append(
            f'[[node]]\nname = "{name}"\npublic_key = "{load_keys(home).public_key.hex()}"\n'
            f"curve_key = '{load_curve_keys(home).public}'\naddress = \"{free_address()}\"\n"
        )
    first = names[0]
    file = folder / "fleet.toml"
    file.write_text(
        f'coordinator = "{first}"\n{"".join(cards)}'
        f'[[query]]\nname = "q"\nprogram = "program.py"\nstrategy = "ecoc"\nevery = 20\nsources = ["{first}"]\n'
        f'sink = "{first}"\nkeepers = 0\n'
    )
    return file


def started(home: Path, file: Path) -> Node:
    return Node(
        home,
        Surroundings(
            settings=Settings(loss_window_s=0.05, spool_mb=2, fleet_spool_mb=1), gateway=None, link=NoLink(), lane="none",
            sensors=parse_choices(["gps=synthetic:3"]), speed=60.0, fleet=read_fleet(file),
        ),
    )  # fmt: skip


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    found = started(tmp_path / "home", fleet_file(tmp_path, "home"))
    yield found
    found.close()


def hosting_of(node: Node) -> Hosting:
    assert node.hosting is not None
    return node.hosting


def results(node: Node, home: Path) -> list[dict[str, object]]:
    (query,) = hosting_of(node).host.queries()
    rows, lost = sink_rows(PosixDisk(home / "fleet"), query, "sums")
    assert not lost
    return rows


def test_what_vertices_say_to_each_other_is_not_dropped_when_others_flood_the_node(node: Node, tmp_path: Path) -> None:
    hosting = hosting_of(node)
    links = hosting._links
    links.arrivals = queue.Queue(ROOM)
    send = hosting._send

    def send_in_the_flood(message: Ask | Reply, now: float) -> None:
        if isinstance(message, Ask):
            for _ in range(ROOM + 5 - links.arrivals.qsize()):
                links._arrived(Arrival((b"somebody", b"1"), b"not an exchange"))
        send(message, now)

    hosting._send = send_in_the_flood  # type: ignore[method-assign]

    def flooded() -> bool:
        node.turn(node.rest.now())
        return bool(hosting.host.queries()) and len(results(node, tmp_path / "home")) >= 20

    wait_until(flooded, "results in spite of the flood")
    rows = results(node, tmp_path / "home")
    assert [row["number"] for row in rows] == list(range(len(rows)))
    assert {row["n"] for row in rows[2:]} == {6}
    assert links.dropped, "the flood's own messages were"
    refused = hosting.view()["refused"]
    assert refused["peers-unread"] == links.dropped
    assert refused["frame-truncated"] >= ROOM, "and those that came were refused by name"


def test_a_consent_that_is_taken_back_ends_what_the_node_feeds_until_it_is_given_again(
    node: Node, tmp_path: Path
) -> None:
    def came(count: int) -> bool:
        node.turn(node.rest.now())
        return bool(hosting_of(node).host.queries()) and len(results(node, tmp_path / "home")) >= count

    def reads() -> bool:
        node.turn(node.rest.now())
        return any(each.computation is not None and not each.computation.missing for each in runners.values())

    wait_until(lambda: came(5), "results")
    runners = hosting_of(node)._runners
    node.decide("gps", allow=False)
    wait_until(lambda: not reads(), "the sensor is closed")
    taken = node.view()["sensors"]["gps"]["readings"]
    for _ in range(20):
        node.turn(node.rest.now())
    assert node.view()["sensors"]["gps"]["readings"] == taken
    node.decide("gps", allow=True)
    wait_until(reads, "the sensor is open again")
    wished = len(results(node, tmp_path / "home")) + 10
    wait_until(lambda: came(wished), "more results")
    rows = results(node, tmp_path / "home")
    assert [row["number"] for row in rows] == list(range(len(rows)))


def test_queries_that_begin_alike_are_read_and_spooled_once_and_one_goes_on_without_the_other(tmp_path: Path) -> None:
    file = fleet_file(tmp_path, "home")
    first = file.read_text()
    head, _, query = first.partition("[[query]]")
    (tmp_path / "second.py").write_text(PROGRAM.replace("count=3", "count=4").replace("sums", "more"))
    second = query.replace('"q"', '"second"').replace("program.py", "second.py")
    file.write_text(f"{first}[[query]]{second}")

    def more(node: Node) -> list[dict[str, object]]:
        query = next(each for each in hosting_of(node).host.queries() if each.name == "second")
        rows, lost = sink_rows(PosixDisk(tmp_path / "home" / "fleet"), query, "more")
        assert not lost
        return rows

    def turned(node: Node, count: int) -> bool:
        node.turn(node.rest.now())
        return bool(hosting_of(node).host.queries()) and len(more(node)) >= count

    both = started(tmp_path / "home", file)
    try:
        wait_until(lambda: turned(both, 20), "results of both")
        hosting = hosting_of(both)
        assert len(hosting.host.queries()) == 2
        assert (len(hosting._runners), len(hosting._spool.statistics().edges)) == (1, 1)
    finally:
        both.close()
    file.write_text(f"{head}[[query]]{second}")
    left = started(tmp_path / "home", file)
    try:
        before = len(more(left))
        wait_until(lambda: turned(left, before + 20), "results of the second one alone")
        rows = more(left)
    finally:
        left.close()
    assert [row["number"] for row in rows] == list(range(len(rows)))
    assert {row["n"] for row in rows[3:]} == {8}, "no reading is missing where the first one ended"


def test_the_own_queue_comes_before_the_others_and_keeps_its_order(node: Node) -> None:
    hosting = hosting_of(node)
    bodies = [b"first", b"second", b"third"]
    took: list[bytes] = []
    hosting._machine.receive = lambda message, _now: took.append(bytes(message.body))  # type: ignore[method-assign]
    hosting._links._arrived(Arrival((b"somebody", b"1"), b"from elsewhere"))
    for body in bodies:
        hosting._send(Ask(hosting.host.node, body), 0.0)
    hosting._take_arrivals(0.0)
    assert took == [*bodies, b"from elsewhere"]
    assert not hosting._own


def test_a_key_that_is_not_in_the_fleet_gets_no_connection(node: Node) -> None:
    links = hosting_of(node)._links
    (peer,) = links._peers.values()
    stranger = PeerLinks(
        free_address(), CurveKeys.generate(), [Peer(peer.node, "it", peer.public_key, peer.curve_key, (links.address,))],
        lambda: None,
    )  # fmt: skip
    try:
        stranger.send(Ask(peer.node, b"let me in"))
        wait_until(lambda: links.strangers, "a refused connection")
    finally:
        stranger.close()
    assert links.arrivals.empty()
    assert hosting_of(node).view()["refused"]["peers-stranger"] >= 1


def test_a_node_learns_of_a_new_deployment_long_before_it_would_ask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosting_module, "PACING", replace(hosting_module.PACING, poll_s=10 * PATIENCE_S))
    file = fleet_file(tmp_path, "first", "second")
    with ExitStack() as stack:
        nodes = []
        for name in ("first", "second"):
            nodes.append(started(tmp_path / name, file))
            stack.callback(nodes[-1].close)
        first, second = map(hosting_of, nodes)
        coordinator = first._machine.coordinator
        assert coordinator is not None

        def same() -> bool:
            for node in nodes:
                node.turn(node.rest.now())
            said = coordinator.status(second.host.node)
            return said is not None and said.plan == second.host.version == coordinator.fleet.version

        wait_until(same, "the first deployment")
        before = coordinator.fleet.version
        queries = [replace(query, every=query.every + 1) for query in coordinator.fleet.queries]
        coordinator.set_fleet(coordinator.fleet.peers, queries)
        assert coordinator.fleet.version == before + 1
        wait_until(same, "the second deployment")
        wait_until(lambda: same() and not first.host.calling.behind, "nobody is called any more")


def fed(tmp_path: Path, strategy: str, contract: str = "") -> tuple[Node, Gathered, EdgeSpec]:
    """A node whose readings nobody takes, and what its device feeds."""
    file = fleet_file(tmp_path, "home")
    file.write_text(file.read_text().replace('"ecoc"', f'"{strategy}"'))
    program = tmp_path / "program.py"
    program.write_text(program.read_text().replace('within="5s"', f'within="5s"{contract}'))
    node = started(tmp_path / "home", file)
    hosting = hosting_of(node)
    wait_until(lambda: node.turn(node.rest.now()) or bool(hosting.host.gathers()), "its query")
    ((_, gathered),) = hosting._gathered.items()
    (edge,) = hosting.host.gathers()
    return node, gathered, edge


def fill(node: Node, gathered: Gathered, edge: EdgeSpec) -> int:
    """Put in what no codec makes small, until nothing more is taken; the most there is. SpoolFull where it waits."""
    random, host = np.random.default_rng(1), hosting_of(node).host
    for _ in range(40):
        lo, rows = host.head(edge.key), 1000
        columns = {field.name: random.random(rows) for field in edge.schema}
        batch = Batch.of(edge.schema, columns, np.arange(lo, lo + rows), lo=lo)
        codec, payload = codecs.encode(batch, NONE)
        spooled = SpooledBatch(edge.key.edge, lo, lo + rows, rows, edge.schema.id, 0, lo, codec, payload)
        gathered.append(spooled, node.rest.now())
        host.here.sources_spool.sync()
    return host.head(edge.key)


@pytest.mark.parametrize(("strategy", "contract"), [("ring", ""), ("none", ", contract=rs.limited_loss(0.01)")])
def test_what_may_be_lost_makes_room_when_nobody_takes_it(tmp_path: Path, strategy: str, contract: str) -> None:
    node, gathered, edge = fed(tmp_path, strategy, contract)
    try:
        head = fill(node, gathered, edge)
        statistics, advice = hosting_of(node).buffered(node.rest.now())
        assert (statistics.capacity_bytes, advice.capacity_bytes) == (1 << 20, 1 << 20), "as the settings say"
        assert statistics.used_bytes <= statistics.capacity_bytes
        lost = sum(statistics.ledgered.values())
        assert lost > 0
        (kept,) = statistics.edges
        assert lost + kept.elements == head - (kept.head - kept.elements - kept.ledgered), (
            "each is here or in the ledger"
        )
        assert node.view()["fleet_buffer"]["spool"]["ledger"] == {"evicted": lost}
    finally:
        node.close()


@pytest.mark.parametrize(
    ("strategy", "contract"), [("ecoc", ""), ("ecoc", ", contract=rs.limited_loss(0.01)"), ("none", "")]
)
def test_what_must_not_be_lost_or_may_be_read_again_makes_the_device_wait(
    tmp_path: Path, strategy: str, contract: str
) -> None:
    node, gathered, edge = fed(tmp_path, strategy, contract)
    try:
        with pytest.raises(SpoolFull):
            fill(node, gathered, edge)
        statistics, _ = hosting_of(node).buffered(node.rest.now())
        assert not statistics.ledgered
    finally:
        node.close()
