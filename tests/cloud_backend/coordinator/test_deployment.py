"""A deployment says what it means before it is done, and its version only grows."""

from __future__ import annotations

from dataclasses import replace

import pytest

import resurge as rs
from cloud_backend.coordinator.deployment import deploy, prepare
from resurge import col
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


def test_other_columns_are_warned_about():
    gps = rs.sensor("gps", every="5s").where(col.accuracy < 50).select("lat")
    after = rs.plan_of(gps.sync("gps").tumbling("1m").aggregate(n=rs.count()).sync_back("points"))
    words = "\n".join(prepare(after, program(), None, ()).to_json()["words"])
    assert "what phones still hold of the old ones is quarantined" in words


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
