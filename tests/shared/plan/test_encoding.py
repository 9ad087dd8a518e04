"""Plans travel as data: exact, versioned, bounded, and nothing unknown gets in."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import strategies as st

import resurge as rs
from resurge import col, state
from shared.errors import ResurgeError, UsageError
from shared.language.registry import _types
from shared.plan.encoding import decode_plan, encode_plan
from shared.plan.operators import OPERATORS
from tests.examples_drawn import examples_drawn


@rs.operator("encoding_speed", takes={"lat": "float64"}, gives={"a": {"v": "float64"}, "b": {"v": "float64"}})
class Speed:
    def __init__(self, *, floor: float = 0.5, label: str = "é") -> None: ...

    def process(self, port, row):
        yield ("a", {"v": row["lat"]})

    def snapshot(self):
        return b""

    def restore(self, state):
        pass


@rs.function(version=7)
def tenfold(lat: float, *, factor: float = 10.0) -> float:
    return lat * factor


def every_operator() -> tuple[rs.Stream, ...]:
    """A plan in which each operator type occurs."""
    loop = rs.feedback("loop", {"lat": "float64"})
    gps = rs.sensor("gps", every="5s").where(col.accuracy < 50.5).significant("lat", "lon", metres=15.0)
    lat = gps.select("lat").union(loop, merge="arrival")
    lat.where(col.lat > 1e300)
    fed = lat.where((col.lat > 90) & (col.lat != -0.0)).feed(loop)
    config = rs.stream("config", {"floor": "float64"})
    both = lat.map(tenfold, keep=True).apply("encoding_speed", config=config, floor=0.25)
    paired = both.port("a").zip(both.port("b")).combine(lat).join(lat, within="5s", suffix="_j", left=True)
    peak = lat.state(
        {"peak": float("nan"), "n": 0}, peak=rs.if_else(col.lat > state.peak, col.lat, state.peak), n=state.n + 1
    )
    ticks = rs.timer("30s").with_latest(peak, defaults={"peak": 0.0, "n": 0}, tolerance="1h")
    read = ticks.where(col.n >= 0).read("barometer")
    again = lat.distinct("lat", within="10m").state({"n": 0}, expire="1h", n=state.n + 1)
    paired = paired.followed_by(again, within="5m", suffix="_f")
    up = paired.sync("up", contract=rs.limited_loss(0.9, delay="1h"), deadline="1d")
    trips = (
        up.key_by("device")
        .hopping("1m", every="10s", lateness="5m")
        .aggregate(q=rs.quantile("lat", 0.5), top=rs.top_k("lat", 2), low=rs.min("device", where=col.lat > 1))
    )
    late = up.tumbling("1m", lateness="5m").late()
    near = gps.gather("near", batch=30, within="2s", contract=rs.lossless(delay="5s"))
    crowd = near.key_by().tumbling("1m").aggregate(n=rs.count()).sync("crowd")
    return (
        fed,
        late.sync_back("late"),
        crowd,
        read.sync("air").session("5m").aggregate(n=rs.count()).sync_back("air"),
        trips.sync_back("trips", commit="stable"),
    )


def plan() -> rs.Stream:
    from shared.stream.drafts import Program, collecting, stop_collecting

    program = Program()
    token = collecting(program)
    try:
        every_operator()
    finally:
        stop_collecting(token)
    kept = [draft for draft in program.drafts if "1e300" not in draft.line.text]
    return Program(drafts=kept).plan()


def test_every_operator_round_trips_exactly() -> None:
    made = plan()
    seen = {node.operator.kind for node in made.nodes}
    assert set(OPERATORS) - seen == {"subscribe"}
    encoded = encode_plan(made)
    again = decode_plan(encoded)
    assert encode_plan(again) == encoded
    assert [node.type for node in again.nodes] == [node.type for node in made.nodes]
    assert again.node(3).line == made.node(3).line


def test_equal_programs_give_equal_bytes() -> None:
    assert encode_plan(plan()) == encode_plan(plan())


def test_a_plan_with_an_operator_type_of_the_other_side_still_decodes(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded = encode_plan(plan())
    monkeypatch.delitem(_types, "encoding_speed")
    assert encode_plan(decode_plan(encoded)) == encoded


def node(document: dict, operator: str) -> dict:
    return next(entry for entry in document["nodes"] if entry["operator"] == operator)


def damaged(change) -> bytes:
    document = json.loads(encode_plan(plan()))
    change(document)
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda d: d.update(format=2), "plan-format"),
        (lambda d: d.pop("format"), "plan-json"),
        (lambda d: d.update(version=0), "plan-json"),
        (lambda d: d.update(extra=1), "plan-json"),
        (lambda d: d["nodes"][0].update(operator="exec"), "plan-operator"),
        (lambda d: d["nodes"][0]["fields"].update(code="import os"), "plan-json"),
        (lambda d: d["nodes"][0]["fields"].pop("name"), "plan-json"),
        (lambda d: d["nodes"][0]["fields"].update(every_us="5"), "plan-json"),
        (lambda d: d["nodes"][0]["fields"].update(every_us=True), "plan-json"),
        (lambda d: d["nodes"][1].update(inputs=[1]), "plan-order"),
        (lambda d: node(d, "where").update(inputs=[]), "graph-input"),
        (lambda d: node(d, "where").update(key=["lat"]), "graph-alphabet"),
        (lambda d: d["nodes"][1].update(schema=[["lat", "object"]]), "schema-kind"),
        (lambda d: d["nodes"][-1]["fields"].update(commit="maybe"), "sync-back"),
    ],
)
def test_a_plan_that_was_tampered_with_is_refused_by_name(change, code: str) -> None:
    with pytest.raises(UsageError) as caught:
        decode_plan(damaged(change))
    assert caught.value.code == code


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b"3", b'{"format":1}', b" " * (5 * 1024 * 1024)]
)
def test_bytes_that_are_no_plan_are_refused(data: bytes) -> None:
    with pytest.raises(UsageError):
        decode_plan(data)


@examples_drawn(60, 1_000, st.data())
def test_random_damage_never_raises_anything_but_our_errors(data: st.DataObject) -> None:
    encoded = bytearray(
        encode_plan(rs.plan_of(rs.sensor("gps", every="5s").where(col.lat > 0.5).sync("up").sync_back("x")))
    )
    for _ in range(data.draw(st.integers(1, 4))):
        encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.sampled_from(b'0123456789"[]{},:aelnrstu-'))
    with contextlib.suppress(ResurgeError):
        decode_plan(bytes(encoded))
