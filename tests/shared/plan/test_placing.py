"""Where vertices go: within capacities, where their operator types are, along a connected way, or truly nowhere."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import strategies as st

import resurge as rs
from resurge import col
from shared.identity import device_id
from shared.plan.deployment import Link, Peer
from shared.plan.placing import STRATEGIES, Placed, Refused, Task, place, tasks_of
from shared.plan.topology import LANES, Topology
from tests.examples_drawn import examples_drawn


def peer(name: str, **changed: Any) -> Peer:
    key = name.encode().ljust(32, b".")
    made = Peer(device_id(key).hex(), name, key, "a" * 40, ("tcp://127.0.0.1:9000",))
    return replace(made, **changed)


def topology(capacities: Mapping[str, int], *links: str, cloud: str = "", **peers: Mapping[str, Any]) -> Topology:
    """Links like "phone-hub" or "phone-hub:wifi"."""
    made = {name: peer(name, capacity=room, **peers.get(name, {})) for name, room in capacities.items()}
    found = []
    for link in links:
        ends, _, lane = link.partition(":")
        one, other = ends.split("-")
        lane = lane or "wired"
        found.append(Link((made[one].node, made[other].node), lane, LANES[lane]))
    return Topology(list(made.values()), found, cloud=made[cloud].node if cloud else "")


def node(name: str) -> str:
    return peer(name).node


def chain(*names: str, feeders: Sequence[str] = ("phone",), **needs: str) -> tuple[Task, ...]:
    return tuple(
        Task(
            name,
            names[at - 1 : at] if at else (),
            () if at else tuple(map(node, feeders)),
            frozenset(filter(None, [needs.get(name)])),
        )
        for at, name in enumerate(names)
    )


def named(found: Placed | Refused) -> dict[str, str]:
    assert isinstance(found, Placed), found
    names = {peer(name).node: name for name in NAMES}
    return {vertex: names[host] for vertex, host in found.hosts.items()}


NAMES = ("phone", "watch", "hub", "hub1", "hub2", "laptop", "beside", *(f"w{number}" for number in range(9)))

# The paper's Fig. 4: the coordinator, eight workers in three rows, the source at the bottom with room for one filter.
WORKERS = {"w0": 0, **{f"w{number}": 0 for number in range(1, 8)}, "w8": 1}
UPPER = ("w0-w1", "w1-w2", "w1-w3", "w2-w4", "w2-w5", "w3-w6", "w3-w7")
FILTERS = chain("filter1", "filter2", feeders=("w8",))


@pytest.mark.covers("NB-2")
@pytest.mark.parametrize(
    ("link", "rooms", "expected", "way"),
    [
        ("w5-w8", {"w5": 1}, {"filter1": "w8", "filter2": "w5"}, "w8 w5 w2 w1 w0"),  # left: w2 and w1 forward
        ("w6-w8", {"w6": 1}, {"filter1": "w8", "filter2": "w6"}, "w8 w6 w3 w1 w0"),  # middle: the same operator there
        ("w2-w8", {"w8": 0, "w2": 1, "w1": 1}, {"filter1": "w2", "filter2": "w1"}, "w8 w2 w1 w0"),  # right: a subset
    ],
)
def test_the_three_placements_of_figure_4(link: str, rooms: dict[str, int], expected: dict[str, str], way: str) -> None:
    found = place(FILTERS, topology(WORKERS | rooms, *UPPER, link), [node("w8")], node("w0"))
    assert named(found) == expected
    assert isinstance(found, Placed)
    names = {peer(name).node: name for name in NAMES}
    assert " ".join(names[each] for each in found.paths[node("w8")].nodes) == way


LINE = ("phone-hub1:wifi", "hub1-hub2", "hub2-laptop")


@pytest.mark.covers("NB-2")
@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("push-down", ["phone", "hub1", "hub1", "hub2"]),
        ("bottom-up", ["phone", "hub1", "hub1", "hub2"]),
        ("top-down", ["hub1", "hub2", "hub2", "laptop"]),
        ("cloud-only", ["laptop"] * 4),
        ("spread", ["phone", "hub1", "hub2", "hub1"]),  # the phone has no more room
    ],
)
def test_the_strategies_on_a_line(strategy: str, expected: list[str]) -> None:
    rooms = {"phone": 1, "hub1": 2, "hub2": 2, "laptop": 1 if strategy == "top-down" else 4}
    found = place(
        chain("a", "b", "c", "d"), topology(rooms, *LINE, cloud="laptop"), [node("phone")], node("laptop"), strategy
    )
    assert list(named(found).values()) == expected


def test_pushing_down_stays_on_the_cheapest_way_and_bottom_up_leaves_it() -> None:
    rooms = {"phone": 0, "hub": 1, "beside": 5, "laptop": 5}
    made = topology(rooms, "phone-hub:wifi", "hub-laptop:cellular", "hub-beside:wifi")
    for strategy, second in (("push-down", "laptop"), ("bottom-up", "beside")):
        found = place(chain("a", "b"), made, [node("phone")], node("laptop"), strategy)
        assert named(found) == {"a": "hub", "b": second}, strategy


def test_the_cheapest_way_is_by_lane_and_not_by_hops() -> None:
    links = ("phone-laptop:cellular", "phone-hub1:wifi", "hub1-hub2", "hub2-laptop")
    found = place(chain("a"), topology(dict.fromkeys(("phone", "hub1", "hub2", "laptop"), 1), *links),
                  [node("phone")], node("laptop"), only=[node("hub2"), node("laptop")])  # fmt: skip
    assert named(found) == {"a": "hub2"}
    assert isinstance(found, Placed)
    assert found.paths[node("phone")].cost == 4


def test_where_rows_of_several_origins_meet_is_on_all_their_ways() -> None:
    tasks = (
        Task("of_phone", (), (node("phone"),)), Task("of_watch", (), (node("watch"),)),
        Task("both", ("of_phone", "of_watch")), Task("after", ("both",)),
    )  # fmt: skip
    links = ("phone-hub1:wifi", "watch-hub2:wifi", "hub1-hub", "hub2-hub", "hub-laptop")
    rooms = dict.fromkeys(("phone", "watch", "hub1", "hub2", "hub", "laptop"), 1)
    found = place(tasks, topology(rooms, *links), [node("phone"), node("watch")], node("laptop"))
    assert named(found) == {"of_phone": "phone", "of_watch": "watch", "both": "hub", "after": "laptop"}


def test_a_node_without_an_address_feeds_and_runs_nothing() -> None:
    made = topology({"phone": 9, "hub": 9, "laptop": 9}, phone={"addresses": ()})
    for strategy in STRATEGIES:
        if strategy != "cloud-only":
            found = place(chain("a", "b"), made, [node("phone")], node("laptop"), strategy)
            assert "phone" not in named(found).values()
    refused = place(chain("a"), made, [node("hub")], node("phone"))
    assert isinstance(refused, Refused)
    assert "has no address" in refused.why


def test_equal_ways_are_told_apart_by_their_length() -> None:
    places = {"phone": (47.0, 8.0), "hub1": (47.5, 8.0), "hub2": (47.001, 8.0), "laptop": (47.0, 8.001)}
    made = topology(
        {"phone": 0, "hub1": 1, "hub2": 1, "laptop": 1}, "phone-hub1", "phone-hub2", "hub1-laptop", "hub2-laptop",
        **{name: {"position": place} for name, place in places.items()},
    )  # fmt: skip
    assert named(place(chain("a"), made, [node("phone")], node("laptop"))) == {"a": "hub2"}


def test_a_place_is_left_for_a_vertex_that_has_no_other() -> None:
    """Filling the first node with the first vertex would leave none for the second."""
    made = topology({"phone": 0, "hub": 1, "laptop": 5}, "phone-hub", "hub-laptop", hub={"operators": ("fft@1",)})
    found = place(chain("a", "b", b="fft@1"), made, [node("phone")], node("laptop"))
    assert named(found) == {"a": "laptop", "b": "hub"}
    assert isinstance(found, Placed)
    assert "hub is left for 'b'" in found.why["a"]


@pytest.mark.parametrize(
    ("changed", "code", "words"),
    [
        ({"strategy": "nearest"}, "place-strategy", "there is no strategy 'nearest'"),
        ({"tasks": chain("a", a="fft@1")}, "place-operator", "no node that the query reaches has fft@1"),
        ({"tasks": chain(*"abcdefg")}, "place-capacity", "7 vertices need one (a, b, c, d, e, f, g)"),
        ({"used": {node("hub"): 3, node("laptop"): 3}}, "place-capacity", "hub has room for 0"),
        ({"only": [node("beside")]}, "place-path", "of beside none is there"),
        ({"origins": [node("beside")]}, "place-path", "beside has no way to laptop"),
        ({"origins": [node("watch")]}, "place-path", "is not there, and the query takes rows from it"),
        ({"sink": node("watch")}, "place-path", "is not there, and the query ends on it"),
        ({"strategy": "cloud-only", "tasks": chain(*"abcd")}, "place-capacity", "laptop has room for 3"),
    ],
)
def test_what_cannot_be_placed_is_refused_with_what_is_lacking(changed: dict[str, Any], code: str, words: str) -> None:
    made = topology({"phone": 0, "hub": 3, "laptop": 3, "beside": 5}, "phone-hub:wifi", "hub-laptop", cloud="laptop")
    asked: dict[str, Any] = {"tasks": chain("a"), "origins": [node("phone")], "sink": node("laptop")} | changed
    found = place(asked.pop("tasks"), made, asked.pop("origins"), asked.pop("sink"), **asked)
    assert isinstance(found, Refused)
    assert (found.code, words in found.why) == (code, True), found.why
    assert found.error("q").code == code


def test_the_vertices_of_a_plan() -> None:
    near = rs.stream("x", {"v": "float64"}).gather("near")
    mean = near.where(col.v > 1.5).key_by().tumbling("1m").aggregate(v=rs.mean("v"))
    plan = rs.plan_of(mean.sliding(count=3).aggregate(v=rs.max("v")).subscribe("peak"))
    first, second = tasks_of(plan, ["one", "two"])
    assert (first.feeders, first.inputs) == (("one", "two"), ())
    assert (second.feeders, second.inputs) == ((), (first.name,))


# --- properties -------------------------------------------------------------------------------------------------------

KINDS = ("fft@1", "qrs@1")


@st.composite
def worlds(draw: st.DrawFn) -> dict[str, Any]:
    count = draw(st.integers(2, 5))
    peers = [
        peer(
            f"w{number}",
            capacity=draw(st.integers(0, 2)),
            operators=tuple(draw(st.sets(st.sampled_from(KINDS)))),
            addresses=("tcp://127.0.0.1:9000",) if draw(st.integers(0, 4)) else (),
            lane=draw(st.sampled_from(["", "wifi", "cellular"])),
        )
        for number in range(count)
    ]
    pairs = list(itertools.combinations([each.node for each in peers], 2))
    listed = draw(st.lists(st.sampled_from(pairs), unique=True)) if draw(st.booleans()) else []
    links = [Link(pair, "wired", draw(st.integers(1, 4))) for pair in listed]
    tasks = []
    origins = draw(st.lists(st.sampled_from([each.node for each in peers]), min_size=1, max_size=2, unique=True))
    for number in range(draw(st.integers(1, 4))):
        before = draw(st.sets(st.integers(0, number - 1))) if number else set()
        feeders = tuple(origins) if not before or draw(st.integers(0, 3)) == 0 else ()
        needs = frozenset(draw(st.sets(st.sampled_from(KINDS), max_size=1)))
        tasks.append(Task(f"v{number}", tuple(f"v{each}" for each in sorted(before)), feeders, needs))
    return {
        "tasks": tuple(tasks),
        "topology": Topology(peers, links, cloud=peers[0].node),
        "origins": origins,
        "sink": draw(st.sampled_from(peers)).node,
        "strategy": draw(st.sampled_from(sorted(STRATEGIES))),
        "used": {each.node: draw(st.integers(0, 1)) for each in peers},
    }


def can_reach(made: Topology) -> set[tuple[str, str]]:
    """Every pair of which the first can bring rows to the second, by walking and nothing else."""
    reached = {(each, each) for each in made.peers} | {(one, to) for one in made.peers for to in made.neighbours(one)}
    while True:
        more = {(a, d) for a, b in reached for c, d in reached if b == c} - reached
        if not more:
            return reached
        reached |= more


def holds(world: dict[str, Any], hosts: Mapping[str, str], reached: set[tuple[str, str]]) -> bool:
    """Whether a placement is one: nothing else than this defines it."""
    made: Topology = world["topology"]
    counts = Counter(hosts.values())
    if any(count > made.peers[host].capacity - world["used"][host] for host, count in counts.items()):
        return False
    read = {name for task in world["tasks"] for name in task.inputs}
    for task in world["tasks"]:
        host = hosts[task.name]
        starts = [*task.feeders, *(hosts[name] for name in task.inputs)]
        ends = [world["sink"]] if task.name not in read else []
        if not task.needs <= {*made.peers[host].operators} or not made.peers[host].addresses:
            return False
        if any((start, host) not in reached for start in starts) or any((host, end) not in reached for end in ends):
            return False
        if not made.peers[world["sink"]].addresses:
            return False
    return world["strategy"] != "cloud-only" or {*hosts.values()} == {made.cloud}


@examples_drawn(100, 2_000, worlds())
def test_every_placement_holds_and_every_refusal_is_true(world: dict[str, Any]) -> None:
    made: Topology = world["topology"]
    found = place(world["tasks"], made, world["origins"], world["sink"], world["strategy"], used=world["used"])
    reached = can_reach(made)
    names = [task.name for task in world["tasks"]]
    if isinstance(found, Placed):
        assert list(found.hosts) == names
        assert holds(world, found.hosts, reached)
        assert all(found.why[name] for name in names)
    else:
        assert found.why
        for hosts in itertools.product(made.peers, repeat=len(names)):
            placed = dict(zip(names, hosts, strict=True))
            origins_reach = all((origin, world["sink"]) in reached for origin in world["origins"])
            assert not (origins_reach and holds(world, placed, reached)), f"refused ({found.why}), and {placed} holds"
