"""What a device says of itself: bounded, typed, and tolerant of what another version says."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import PeerError
from shared.moves import PREVIEW, REFUSED, Move, MoveAnswer, MovePreview, MoveRequest
from shared.wire.fleet_status import (
    BYTES_MAX,
    AppliedStatus,
    FleetNodeStatus,
    FleetQueryStatus,
    FleetStatus,
    PlacementStatus,
)
from shared.wire.live import LiveReading
from shared.wire.messages import decode_json, encode_json
from shared.wire.status import (
    OPERATORS_MAX,
    AdviceStatus,
    BackStatus,
    CutStatus,
    DeviceStatus,
    HostOffer,
    InstanceStatus,
    KeptStatus,
    PaceStatus,
    TookStatus,
    reportable_operators,
)

FLEET = FleetStatus(
    4, (FleetNodeStatus("hub", "ab" * 16, 1_700_000_000_000_000), FleetNodeStatus("laptop", "cd" * 16)),
    (FleetQueryStatus("beats", "ecoc", 500, ("hub",), "laptop"),),
    (PlacementStatus("beats", "qrs", 2, ("laptop",), ("hub",), "failed", "it raised", 7, 14, 900, 1_700_000_000_000_001),),
    (Move(1_700_000_000_000_002, "beats", "qrs", 2, ("hub",), ("laptop",), "hub is silent"),), 3,
)  # fmt: skip
FULL = DeviceStatus(
    live=(LiveReading("gps", 5, (("lat", 47.5),)),),
    accuracy_m=4.5,
    advice=AdviceStatus(1200.0, 7, 61.0, 300.0), base="e3b0c44298fc1c14", battery=83, boot=3, build="My trips 1.0 (org.example.trips)", charging=True, clock_doubt_s=0.12, full_in_s=3600.0, incarnation=2, lane="wifi", late=6, leaving="battery low", malformed_results=1,
    missing_sensors=("gps", "light"), operators=("track@1", "trip@2"), overruns=5, pace=PaceStatus(60.0, 1_794_817_500_000_000, 1_794_605_100_000_000), plan=3, poll_s=30.0, produced=12, python="3.11.9", refusal="no", refused_sensors=("gps",),
    spool_bytes=4, spool_capacity_bytes=9, version="1.0", unreachable=("ab" * 16,), urgent=("cd" * 16,),
    fleet=FLEET, back=BackStatus(("beats",), ("ab" * 16,)), stamps=(7, 1 << 31), took=(TookStatus("beats", "ecg", ("ab" * 16,)),),
    deployment=(3, 8), offer=HostOffer("hub", "0" * 40, ("tcp://192.0.2.7:7301",), 64, "wifi", (47.37, 8.54), cloud=True), neighbours=(("ab" * 16, 2),),
    instances=(InstanceStatus("beats", "qrs", 2, "failed", "it raised", 7, 14, 900), InstanceStatus("beats", "band", 2, "running", cut=4)), kept=(KeptStatus("beats", "qrs", 2, 14),),
    offered=(KeptStatus("beats", "band", 2, 15),), cuts=(CutStatus("beats", 5, 4, 5),), position=(47.37, 8.54),
)  # fmt: skip


def test_a_status_comes_back_as_it_was_said() -> None:
    assert all(getattr(FULL, field.name) != field.default for field in fields(DeviceStatus))
    assert DeviceStatus.from_json(decode_json(encode_json(FULL.to_json()))) == FULL
    assert DeviceStatus.from_json(DeviceStatus().to_json()) == DeviceStatus()


def test_an_offer_of_before_there_were_lanes_is_read_and_one_without_is_said_as_then() -> None:
    before = ["hub", "0" * 40, ["tcp://192.0.2.7:7301"], 8]
    plain = HostOffer("hub", "0" * 40, ("tcp://192.0.2.7:7301",), 8)
    assert DeviceStatus.from_json({"offer": before}).offer == plain
    assert DeviceStatus(offer=plain).to_json() == {"offer": before}
    assert DeviceStatus.from_json({"offer": [*before, {"room": 3, "lane": "wifi"}]}).offer == replace(
        plain, lane="wifi"
    )


def test_a_device_that_plays_time_is_where_its_pace_brought_it_and_never_later_than_now() -> None:
    pace = PaceStatus(60.0, 1_000_000_000, 400_000_000)
    assert pace.now_us(1_000_000_000) == 400_000_000
    assert pace.now_us(1_001_000_000) == 460_000_000
    assert pace.now_us(1_100_000_000) == 1_100_000_000


def test_unknown_keys_are_ignored_and_missing_ones_have_their_defaults() -> None:
    assert DeviceStatus.from_json({"name": "Pixel", "region": {"deep": [1]}, "plan": None}) == DeviceStatus()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("produced", -5), ("produced", 1 << 54), ("produced", True), ("produced", 1.5), ("produced", "many"),
        ("battery", 101), ("battery", {"level": 0.5}), ("charging", 1), ("full_in_s", float("nan")),
        ("full_in_s", float("inf")), ("full_in_s", -1), ("poll_s", 90_000), ("lane", 3), ("plan", -2),
        ("missing_sensors", "gps"), ("missing_sensors", [1]), ("refused_sensors", {"gps": 1}), ("incarnation", 1 << 32), ("overruns", -1),
        ("operators", "track@1"), ("operators", [1]), ("operators", ["x"] * 129), ("operators", ["x" * 101]),
        ("operators", ["a\x1bb"]), ("build", 7), ("clock_doubt_s", -0.1), ("boot", -1), ("instances", [["q", "v", -1, "failed", "", 0]]),
        ("instances", [["q", "v", 1, "failed", "", 0, -1, 9]]), ("instances", [["q", "v", 1, "failed", "", 0, 4]]),
        ("deployment", [1]), ("deployment", [1 << 32, 1]), ("deployment", [1, -1]), ("offer", ["hub", "k", [], -1]),
        ("offer", ["", "k", [], 1]), ("offer", ["hub", "k", [], 1, {"lane": 3}]), ("offer", ["hub", "k", [], 1, {"cloud": 1}]),
        ("offer", ["hub", "k", [], 1, {"position": [91, 0]}]), ("neighbours", [["ab", 0]]), ("neighbours", [["ab", 1]] * 65), ("neighbours", {"ab": 1}), ("offer", ["hub", "k", "tcp://x:1", 1]), ("offer", ["hub", "k", ["x"] * 17, 1]),
        ("pace", 60), ("pace", [True, 5, 3]), ("pace", [0, 5, 3]), ("pace", [2e6, 5, 3]), ("pace", [float("nan"), 5, 3]), ("pace", [60.0, 5.5, 3]), ("pace", [60.0, -5, 3]), ("fleet", []), ("fleet", {"version": 1}), ("fleet", FLEET.to_json() | {"nodes": [["hub"]]}), ("fleet", FLEET.to_json() | {"left_off": -1}),
        ("fleet", FLEET.to_json() | {"moves": [[1, "q", "v", 1, ["a"] * 65, [], ""]]}), ("fleet", FLEET.to_json() | {"moves": [[]] * 1001}),
        ("fleet", FLEET.to_json() | {"queries": [["q", "ecoc", "often", [], "s"]]}), ("fleet", FLEET.to_json() | {"placements": [["q", "v", 1 << 32, [], [], "", "", 0, 1, 1, 1]]}),
        ("back", ["q"]), ("back", [["q"], [1]]), ("stamps", [-1]), ("stamps", [1 << 32]), ("stamps", 3),
        ("took", ["q"]), ("took", [["q", "g"]]), ("took", [["q", "g", [1]]]), ("took", [[]] * 257),
        ("instances", [["q"]]), ("instances", [[]] * 257), ("kept", [["q", "v", 1, "x"]]), ("kept", {"q": 1}), ("offered", [["q", "v"]]),
    ],
)  # fmt: skip
def test_a_value_that_makes_no_sense_is_refused_by_its_name(name: str, value: object) -> None:
    with pytest.raises(PeerError, match=rf"{name} of a STATUS .*\[message-status\]"):
        DeviceStatus.from_json({name: value})


def test_text_is_cut_and_rid_of_what_cannot_be_printed() -> None:
    status = DeviceStatus.from_json(
        {"refusal": "a\x1b[2Jb\ud800" + "c" * 1000, "lane": "x" * 999, "missing_sensors": ["g\nps"] * 500}
    )
    assert status.refusal == "a[2Jb" + "c" * 195
    assert len(status.lane) == 40
    assert status.missing_sensors == ("gps",) * 64


@given(st.dictionaries(st.sampled_from([field.name for field in fields(DeviceStatus)]), st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text("a\x1b\ud800é", max_size=5), lambda inner: st.lists(inner, max_size=3)
)))  # fmt: skip
def test_whatever_is_said_is_read_as_something_sendable_or_refused(values: dict[str, object]) -> None:
    try:
        status = DeviceStatus.from_json(values)
    except PeerError:
        return
    assert DeviceStatus.from_json(decode_json(encode_json(status.to_json()))) == status


def test_a_fleet_whose_vertices_move_comes_back_as_it_was_said() -> None:
    preview = MovePreview(("hub",), ("laptop",), ("up",), 0.5, None, 1, 0, 1, 64, 0, 64)
    asked = (
        MoveAnswer(MoveRequest("beats", "qrs", "laptop", "hub", True, "7f"), PREVIEW, preview=preview),
        MoveAnswer(MoveRequest("beats", "qrs", "depot"), REFUSED, "no such node", "move-node"),
    )
    placed = replace(FLEET.placements[0], reads=("band",), begins=True, ends=True, to="hub")
    nodes = (replace(FLEET.nodes[0], room=4, apart=("laptop",)), FLEET.nodes[1])
    ways = (("beats", "phone", ("hub", "attic")),)
    fleet = replace(
        FLEET, asked=asked, links=(("hub", "laptop", "wifi"),), placements=(placed,), nodes=nodes, ways=ways,
        applied=(AppliedStatus("beats", "phone", "hub", ("where mv > 0", "select mv")),),
    )  # fmt: skip
    assert FleetStatus.from_json(json.loads(json.dumps(fleet.to_json()))) == fleet
    for wrong in (
        {"asked": [["7f"]]},
        {"asked": {}},
        {"links": [["hub"]]},
        {"ways": [["beats", "phone", "hub"]]},
        {"ways": 3},
        {"applied": [["beats", "phone", "hub", "where mv > 0"]]},
        {"applied": {}},
        {"asked": [[*fleet.to_json()["asked"][0][:-1], [1]]]},
    ):
        with pytest.raises(ValueError, match=r"answer|applied|link|preview|way"):
            FleetStatus.from_json(fleet.to_json() | wrong)


def test_what_a_later_version_adds_to_a_fleet_is_ignored() -> None:
    fleet = replace(FLEET, placements=(replace(FLEET.placements[0], reads=("band",)),))
    said = fleet.to_json() | {"weather": "fine"}
    said["placements"][0].append("more")
    said["moves"][0].append(9)
    assert DeviceStatus.from_json({"fleet": said}).fleet == fleet


def test_a_fleet_s_words_are_cut_and_rid_of_what_cannot_be_printed() -> None:
    said = replace(FLEET, moves=(replace(FLEET.moves[0], why="a\x1b[2J" + "b" * 300, after=("h\nub" * 50,)),))
    (move,) = DeviceStatus.from_json({"fleet": said.to_json()}).fleet.moves  # type: ignore[union-attr]
    assert (move.why, move.after) == ("a[2J" + "b" * 196, (("hub" * 50)[:60],))


def test_a_fleet_that_is_too_large_says_fewer_moves_then_fewer_words_then_counts_vertices() -> None:
    many = replace(FLEET, moves=FLEET.moves * 1000)
    assert len(many.fitted().moves) == 40
    wordy = replace(many, placements=(replace(FLEET.placements[0], why="w" * 200),) * 90)
    assert wordy.fitted().bytes <= BYTES_MAX < replace(wordy, moves=()).bytes
    assert (wordy.fitted().moves, len(wordy.fitted().placements), wordy.fitted().left_off) == ((), 90, 3)
    large = replace(FLEET, placements=FLEET.placements * 1000)
    fitted = large.fitted()
    assert fitted.bytes <= BYTES_MAX
    assert len(fitted.placements) + fitted.left_off == 1000 + 3
    assert FleetStatus.from_json(fitted.to_json()) == fitted
    nodes = replace(FLEET, nodes=FLEET.nodes * 500)
    assert nodes.fitted() == FleetStatus(4, left_off=4)  # not even its nodes fit: it says so much


def test_having_no_operators_is_not_the_same_as_not_saying() -> None:
    said = DeviceStatus(operators=())
    assert said.to_json() == {"operators": []}
    assert DeviceStatus.from_json(said.to_json()).operators == ()
    assert DeviceStatus.from_json({}).operators is None


def test_operators_that_do_not_fit_are_not_said_at_all() -> None:
    assert reportable_operators({"b@1", "a@2"}) == ("a@2", "b@1")
    assert reportable_operators({f"o{n}@1" for n in range(OPERATORS_MAX + 1)}) is None  # cut, it would deny the rest
    assert reportable_operators({"x" * 99 + "@1"}) is None
    assert reportable_operators({"tab\t@1"}) is None
