"""Every operator says for itself what it reads, where its columns come from and how it runs."""

from __future__ import annotations

import dataclasses

import resurge as rs
from resurge import col, state
from shared.engine.lowering import RUNNING
from shared.plan import operators as op
from shared.plan.derivation import telling_columns
from shared.stream.declarations import plan_of
from shared.stream.stream import Stream
from tests.conformance import programs

REGISTERED = programs.scale, programs.Debounce


def source() -> Stream:
    return rs.sensor("a", every="1s", columns={"lat": "float64", "n": "int64", "tag": "str"})


def told(stream: Stream) -> set[str]:
    """Columns of a program's result that may show what `lat` said."""
    plan = plan_of(stream.subscribe("out"))
    return set(telling_columns(plan, lambda name: name == "lat")[plan.sink("out").id])


def test_every_operator_is_frozen_data_with_a_name() -> None:
    for kind, operator in op.OPERATORS.items():
        assert operator.kind == kind
        assert dataclasses.is_dataclass(operator)
        assert operator.__dataclass_params__.frozen  # type: ignore[attr-defined]


def test_every_operator_that_computes_has_a_running_form() -> None:
    fused = {op.Where, op.Select}
    ends = {kind for kind in op.OPERATORS.values() if issubclass(kind, op.Source | op.End)}
    assert set(op.OPERATORS.values()) - fused - ends == set(RUNNING)


def test_a_column_tells_what_it_was_computed_from_under_any_name() -> None:
    assert told(source().select("n", x=col.lat * 2.0)) == {"x"}
    assert told(source().tumbling("1s").aggregate(m=rs.mean("lat"), k=rs.count("lat"), n=rs.sum("n"))) == {"m"}
    assert told(source().join(source().select("lat"), within="1s")) == {"lat", "lat_right"}


def test_a_region_hides_nothing_of_what_it_was_told() -> None:
    near = source().select(x=col.lat, n=col.n).gather("near")
    mean = near.key_by().tumbling("1s").aggregate(m=rs.mean("x"), n=rs.sum("n"))
    assert told(near) == {"x"}
    assert told(mean) == {"m"}
    assert told(mean.sync("up")) == {"m"}


def test_a_state_tells_what_the_states_it_reads_tell() -> None:
    chained = source().state({"a": 0.0, "b": 0.0, "c": 0}, a=col.lat, b=state.a + state.b, c=state.c + 1)
    assert told(chained) == {"a", "b"}


def test_what_an_operator_of_users_gives_may_tell_everything() -> None:
    assert told(source().extend(x=col.lat).apply("conformance_scale")) == {"scaled"}
    assert told(source().select(x=col.n * 1.0).apply("conformance_scale")) == set()
    assert told(source().apply("conformance_debounce")) == {"seen", "n"}
