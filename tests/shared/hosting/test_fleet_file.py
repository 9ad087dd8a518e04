"""A fleet's file as a person writes it."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import resurge.examples.ecg.operators  # noqa: F401 - what the nodes have
from shared.errors import UsageError
from shared.hosting.asked_query import EVERY
from shared.hosting.fleet_file import HANGING_S, FleetFile, read_fleet
from shared.language.registry import references
from shared.plan.deployment import HostedQuery
from shared.recovery.strategies import STRATEGIES
from shared.recovery.strategies.row import Home, Include, Keep
from shared.region.cuts import PERIOD_S

NODE = f'[[node]]\nname = "laptop"\npublic_key = "{"ab" * 32}"\ncurve_key = "{"0" * 40}"\n'


def written(folder: Path, *lines: str) -> Path:
    path = folder / "fleet.toml"
    path.write_text("\n".join(['coordinator = "laptop"', *lines, NODE]))
    return path


def test_how_long_an_operator_may_take(tmp_path: Path) -> None:
    assert read_fleet(written(tmp_path)).hanging_s == HANGING_S
    assert read_fleet(written(tmp_path, 'hanging = "1500ms"')).hanging_s == 1.5


def test_how_often_regions_are_cut(tmp_path: Path) -> None:
    assert read_fleet(written(tmp_path)).cut_s == PERIOD_S
    assert read_fleet(written(tmp_path, 'cuts = "20s"')).cut_s == 20.0


@pytest.mark.parametrize("value", ['"1s"', "20", '"2d"', '"often"'])
def test_a_time_between_cuts_that_makes_no_sense_is_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(UsageError, match=r"cuts|duration"):
        read_fleet(written(tmp_path, f"cuts = {value}"))


@pytest.mark.parametrize("value", ['"2m"', "5", '"soon"', '""', '"0s"'])
def test_a_time_that_makes_no_sense_is_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(UsageError, match=r"hanging|duration"):
        read_fleet(written(tmp_path, f"hanging = {value}"))


def test_a_coordinator_that_is_no_node_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.write_text(path.read_text().replace('"laptop"', '"desk"', 1))
    with pytest.raises(UsageError, match=r"`coordinator` is one of laptop \[fleet-file\]"):
        read_fleet(path)


QUERY = """
[[query]]
name = "beats"
program = "{program}"
strategy = "{strategy}"
sources = ["a"]
sink = "a"
keepers = 2
"""


def fleet_of_four(folder: Path, queries: str) -> FleetFile:
    nodes = [
        f'[[node]]\nname = "{name}"\npublic_key = "{place:02x}{"ab" * 31}"\ncurve_key = "{"0" * 40}"\n'
        f'address = "tcp://192.0.2.{place}:7300"\n'
        for place, name in enumerate("abcd", 1)
    ]
    program = Path("resurge/examples/peers/beats.py").resolve()
    path = folder / "fleet.toml"
    path.write_text('coordinator = "a"\n' + "\n".join(nodes) + queries.replace("{program}", str(program)))
    return read_fleet(path, sorted(references()))


@pytest.mark.parametrize(
    ("strategy", "hosts", "keepers"), [("ecoc", 1, 2), ("local", 1, 0), ("rep-2", 2, 0), ("none", 1, 0)]
)
def test_a_strategy_has_the_hosts_and_keepers_it_needs(tmp_path: Path, strategy: str, hosts: int, keepers: int) -> None:
    (query,) = fleet_of_four(tmp_path, QUERY.replace("{strategy}", strategy)).hosted()
    for placed in query.placements:
        assert (len(placed.hosts), len(placed.keepers)) == (hosts, keepers)
        assert len({*placed.hosts, *placed.keepers}) == hosts + keepers


def hosted(folder: Path, contract: str, *lines: str) -> HostedQuery:
    keys = {name: Ed25519PrivateKey.from_private_bytes(name.encode() * 32).public_key() for name in "abc"}
    nodes = [
        f'[[node]]\nname = "{name}"\npublic_key = "{key.public_bytes_raw().hex()}"\ncurve_key = "{"0" * 40}"\n'
        f'address = "tcp://127.0.0.1:{7000 + ord(name)}"\n'
        for name, key in keys.items()
    ]
    (folder / "mean.py").write_text(
        "import resurge as rs\n"
        f"near = rs.sensor('noise', every='1s', columns={{'db': 'float64'}}).gather('noise', within='2s'{contract})\n"
        "near.key_by().tumbling('1m').aggregate(db=rs.mean('db')).subscribe('loud')\n"
    )
    query = ["[[query]]", 'name = "q"', 'program = "mean.py"', 'sources = ["a"]', 'sink = "a"', *lines]
    path = folder / "fleet.toml"
    path.write_text("\n".join(['coordinator = "a"', *nodes, *query]))
    (found,) = read_fleet(path).hosted()
    return found


def test_how_long_a_query_waits_and_which_ways_it_takes(tmp_path: Path) -> None:
    assert (hosted(tmp_path, "").absent_s, hosted(tmp_path, "").forward) == (0, "dynamic")
    query = hosted(tmp_path, "", 'absent = "5m"', 'forward = "paths:2"')
    assert (query.absent_s, query.forward, query.paths) == (300, "paths:2", 2)
    for line in ('absent = "100ms"', 'absent = "31d"', 'forward = "paths:1"', 'forward = "all"', "forward = 2"):
        with pytest.raises(UsageError, match=r"`(absent|forward)` of query 'q'.*\[fleet-file\]"):
            hosted(tmp_path, "", line)


def test_what_is_promised_picks_the_strategy(tmp_path: Path) -> None:
    plain = hosted(tmp_path, "")
    bounded = hosted(tmp_path, ", contract=rs.lossless(delay='30s')")
    loose = hosted(tmp_path, ", contract=rs.limited_loss(0.5)")
    for query in (plain, bounded):
        row = STRATEGIES[query.row].row
        assert (row.include, row.keep, row.home) == (Include.STATE, Keep.RECEIPT, Home.PEERS)
    assert plain.every == EVERY
    tight = hosted(tmp_path, ", contract=rs.lossless(delay='8s')")
    assert 0 < tight.every < bounded.every
    assert STRATEGIES[loose.row].row.include is Include.NOTHING
    assert hosted(tmp_path, "", 'strategy = "dist-2"', "keepers = 2").row == "dist-2"


def test_a_promise_that_no_strategy_keeps_is_refused_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the nearest is") as refused:
        hosted(tmp_path, ", contract=rs.lossless(delay='3s')")
    assert refused.value.code == "contract-refused"


LINKED = """
[[link]]
between = ["a", "b"]
lane = "wifi"

[[link]]
between = ["b", "c"]
cost = 7
"""


def test_links_lanes_positions_and_rooms_are_read_and_place_the_query(tmp_path: Path) -> None:
    found = hosted(tmp_path, "", 'strategy = "none"', 'place = "push-down"', "hosts = {}", LINKED)
    assert (found.place, len({host for placed in found.placements for host in placed.hosts})) == ("push-down", 1)
    path = tmp_path / "fleet.toml"
    text = path.read_text().replace(
        'name = "a"\n', 'name = "a"\ncapacity = 0\nlane = "cellular"\nposition = [47, 8.5]\n'
    )
    text = text.replace('sink = "a"', 'sink = "c"').replace('name = "b"\n', 'name = "b"\ncapacity = 1\n')
    path.write_text(text)
    fleet = read_fleet(path)
    assert [(link.lane, link.cost) for link in fleet.links] == [("wifi", 2), ("wired", 7)]
    assert (fleet.peers[0].lane, fleet.peers[0].position, fleet.peers[0].capacity) == ("cellular", (47.0, 8.5), 0)
    (query,) = fleet.hosted()
    names = {peer.node: peer.name for peer in fleet.peers}
    assert [names[placed.hosts[0]] for placed in query.placements] == ["b"], "the first with room on the way to c"
    assert query.placements[0].keepers == ()


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ('[[link]]\nbetween = ["a", "z"]', "a link is between two nodes of a, b, c"),
        ('[[link]]\nbetween = ["a", "a"]', "a link is between two nodes of a, b, c"),
        ('[[link]]\nbetween = ["a", "b"]\nlane = "carrier pigeon"', "is one of wired, wifi"),
        ('[[link]]\nbetween = ["a", "b"]\ncost = 0', "whole number from 1"),
        ('[[link]]\nbetween = ["a", "b"]\nspeed = 1', "a link says 'speed'"),
        ('keepers = -1', "`keepers` of query"),
        ('keepers = 9', "there are 2 nodes for it"),
        ('place = "nearest"', "there is no strategy 'nearest'"),
        ('hosts = { mean = "b" }', "its vertices are loud"),
        ('hosts = { loud = "z" }', "names the node 'z'"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(tmp_path: Path, lines: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        hosted(tmp_path, "", lines)


@pytest.mark.parametrize("key", ['capacity = -1', 'capacity = "many"', "position = [100, 0]", 'lane = "sea"'])  # fmt: skip
def test_a_node_that_makes_no_sense_is_refused(tmp_path: Path, key: str) -> None:
    hosted(tmp_path, "")
    path = tmp_path / "fleet.toml"
    path.write_text(path.read_text().replace('name = "b"', f'name = "b"\n{key}'))
    with pytest.raises(UsageError, match=key.split(maxsplit=1)[0]) as refused:
        read_fleet(path)
    assert refused.value.code == "fleet-file"


STOP = """
[[query]]
name = "beats"
program = "{program}"
sources = ["a"]
sink = "a"

[[region]]
query = "beats"
{place}
dwell = "30s"
threshold = 2
"""


@pytest.mark.parametrize(
    ("place", "points", "radius_m"),
    [
        ("center = [47.37, 8.54]\nradius = 20", 1, 20.0),
        ("corners = [[47.37, 8.54], [47.37, 8.55], [47.38, 8.54]]", 3, 0.0),
    ],
)
def test_a_region_s_query_is_placed_when_phones_are_there(
    tmp_path: Path, place: str, points: int, radius_m: float
) -> None:
    fleet = fleet_of_four(tmp_path, STOP.replace("{place}", place))
    assert fleet.hosted() == ()
    (region,) = fleet.regions()
    assert (len(region.area.points), region.area.radius_m, region.dwell_s, region.threshold) == (
        points,
        radius_m,
        30.0,
        2,
    )
    assert STRATEGIES[region.task.row].row.of_region
    assert (region.name, region.task.placements, region.members) == ("beats", (), ())


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("center = [47.37, 8.54]", "a center and a radius"),
        ("corners = [[47.37, 8.54], [47.38, 8.54]]", "three corners"),
        ("center = [97.37, 8.54]\nradius = 20", "a center and a radius"),
        ("center = [47.37, 8.54]\nradius = 20\nsize = 3", "says 'size'"),
        ("center = [47.37, 8.54]\nradius = inf", "a center and a radius"),
        ("center = [47.37, 8.54]\nradius = 20\nafter = [3]", "`after`"),
        ("center = [47.37, 8.54]\nradius = 20\nafter = 3", "`after`"),
        (
            'center = [47.37, 8.54]\nradius = 20\nafter = [{ gather = "g", region = "beats", sink = "out" }]',
            "no region listed before it",
        ),
        (
            'center = [47.37, 8.54]\nradius = 20\nafter = [{ gather = "g", region = "nowhere", sink = "out" }]',
            "no region listed before it",
        ),
    ],
)
def test_a_region_that_makes_no_sense_is_refused(tmp_path: Path, place: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        fleet_of_four(tmp_path, STOP.replace("{place}", place)).regions()
