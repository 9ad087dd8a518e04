"""A deployment says what it means before it is done, and its version only grows."""

from __future__ import annotations

from dataclasses import replace

import pytest

import resurge as rs
from cloud_backend.coordinator.deployment import deploy, prepare
from shared.errors import UsageError
from shared.plan.encoding import decode_plan


def program(window="1m", *, sensor="gps", sink="points"):
    good = rs.sensor(sensor, every="5s")
    return rs.plan_of(good.sync(sensor).tumbling(window).aggregate(n=rs.count()).sync_back(sink), name="walks")


def test_what_changes_starts_anew_and_is_kept_is_said_in_words():
    made = prepare(program("5m"), program(), None, ())
    assert (made.plan.version, made.before) == (2, 1)
    words = "\n".join(made.to_json()["words"])
    assert "phones take version 2 with their next exchange and go on with the windows and states they have" in words
    assert "vertex 'points' starts anew with the next epoch, its open windows go: it computes something else" in words
    assert "rollbacks from before this" in words


def test_a_new_sensor_a_new_edge_and_a_lost_sink_are_said():
    made = prepare(program(sensor="battery", sink="power"), program(), None, ())
    words = "\n".join(made.to_json()["words"])
    assert "each phone asks its person before it reads 'battery'" in words
    assert "edge 'battery' is new" in words
    assert "sink 'points' gets no more rows; what it said stays" in words
    assert "vertex 'points' ends, and its state goes" in words


def test_a_promise_that_nothing_keeps_is_refused_before_anything_changes():
    promised = rs.sensor("gps", every="5s").sync("gps", within="60s", contract=rs.lossless(delay="2s"))
    plan = rs.plan_of(promised.tumbling("1m").aggregate(n=rs.count()).sync_back("points"), name="walks")
    with pytest.raises(UsageError) as refused:
        prepare(plan, program(), None, ())
    assert refused.value.code == "contract-refused"


def counted(columns, **sync):
    steps = rs.stream("steps", columns).sync("steps", **sync)
    return rs.plan_of(steps.tumbling("1m").aggregate(n=rs.count()).sync_back("points"), name="walks")


def test_added_and_wider_columns_are_said_and_the_stream_goes_on():
    after = counted({"n": "int64", "x": "float64", "speed": "float64", "mode": "str"}, missing={"mode": "walk"})
    made = prepare(after, counted({"n": "int32", "x": "float32"}), None, ()).to_json()
    assert made["edges_reshaped"] == ["steps"]
    assert made["columns_added"] == [["steps", "speed", "float64"], ["steps", "mode", "str"]]
    assert made["columns_widened"] == [["steps", "n", "int32", "int64"], ["steps", "x", "float32", "float64"]]
    words = "\n".join(made["words"])
    assert "column 'speed' (float64): in rows of phones that do not have it yet it is NaN" in words
    assert "column 'mode' (str): in rows of phones that do not have it yet it is walk" in words
    assert "column 'n' as int64: int32 of phones that run the old program is read as that" in words


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"n": "int32"}, r"column 'x' \(float32\) would be gone"),
        ({"n": "int16", "x": "float32"}, "column 'n' would be int16, which does not hold every int32"),
        ({"n": "str", "x": "float32"}, "column 'n' would be str, which does not hold every int32"),
    ],
)
def test_a_column_that_is_gone_or_narrower_is_refused_with_what_to_do(columns, why):
    with pytest.raises(UsageError, match=rf"{why}.*\.sync\('steps2'\) \[program-columns\]"):
        prepare(counted(columns), counted({"n": "int32", "x": "float32"}), None, ())


def test_an_added_column_that_cannot_be_nan_needs_a_stated_value():
    before, columns = counted({"n": "int32"}), {"n": "int32", "steps": "int64", "on": "bool"}
    with pytest.raises(UsageError, match=r"missing=\{'steps': -1, 'on': False\}\) \[program-missing\]"):
        prepare(counted(columns), before, None, ())
    made = prepare(counted(columns, missing={"steps": -1, "on": False}), before, None, ())
    assert made.plan.edges[0].missing == (("steps", -1), ("on", False))


def test_a_value_that_is_stated_no_more_is_said():
    columns = {"n": "int32", "steps": "int64", "x": "float64"}
    before = counted(columns, missing={"steps": -1, "x": 0.0})
    words = prepare(counted({**columns, "more": "float64"}), before, None, ()).to_json()["words"]
    (said,) = [each for each in words if "states no value" in each]
    assert said.startswith("edge 'steps' states no value for column 'steps' any more")
    assert said.endswith("keep missing={'steps': -1}")
    kept = counted({**columns, "more": "float64"}, missing={"steps": -1})
    assert not any("states no value" in each for each in prepare(kept, before, None, ()).to_json()["words"])


@pytest.mark.parametrize(
    ("missing", "why"), [({"other": 1}, "does not have"), ({"n": 2**31}, "takes int32"), ({"n": "a"}, "takes int32")]
)
def test_a_stated_value_is_of_a_column_and_of_its_kind(missing, why):
    with pytest.raises(UsageError, match=rf"{why}.*\[sync-missing\]"):
        counted({"n": "int32"}, missing=missing)


def test_a_query_that_reads_a_column_narrower_than_phones_send_it_is_named():
    query = rs.plan_of(rs.stream("steps", {"n": "int32"}).sync("steps").subscribe("rows"))
    made = prepare(counted({"n": "int64"}), counted({"n": "int32"}), None, (), queries={"rows": query})
    assert any("query 'rows' reads column 'n' of edge 'steps' as int32" in each for each in made.to_json()["words"])


def test_the_epochs_that_a_parked_vertex_would_skip_are_said_before():
    behind = {"points": 3}
    words = prepare(program(window="7m"), program(), None, (), behind).to_json()["words"]
    (warned,) = [each for each in words if "never compute the 3 epochs" in each]
    assert "resurge job rollback points" in warned
    unaffected = prepare(program(window="7m"), program(), None, (), {"another": 3}).to_json()["words"]
    assert not any("never compute" in each for each in unaffected)


def test_the_version_is_above_that_of_a_plan_that_a_rollback_corrected():
    corrected = replace(program("2m"), version=4)
    made = prepare(program("5m"), program(), corrected, ())
    assert (made.plan.version, made.before) == (5, 1)
    back = prepare(program(), program(), corrected, ())  # the deployed one again, in the place of the corrected one
    assert (back.plan.version, back.phones.same) == (5, True)


def test_the_same_program_and_a_sink_of_a_query_are_refused():
    with pytest.raises(UsageError, match="program-same"):
        prepare(program(), replace(program(), version=3), None, ())
    with pytest.raises(UsageError, match="program-sink"):
        prepare(program("5m"), program(), None, {"points"})


def test_a_deployed_file_holds_the_plan_with_its_version(tmp_path):
    made = prepare(program("5m"), program(), None, ())
    deploy(tmp_path / "plan.bin", made)
    assert decode_plan((tmp_path / "plan.bin").read_bytes()).version == 2


def test_a_program_with_a_region_is_refused_while_no_node_hosts_one():
    region = rs.plan_of(rs.sensor("gps", every="5s").gather("gps").sync("up"), name="walks")
    with pytest.raises(UsageError, match=r"no node here hosts one.*\[placement-region\]"):
        prepare(region, program(), None, ())
