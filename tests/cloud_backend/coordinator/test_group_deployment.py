"""A group's program: what it may differ in, and what is refused by name."""

from __future__ import annotations

import pytest

import resurge as rs
from cloud_backend.coordinator.deployment import prepare as prepare_for_all
from cloud_backend.coordinator.group_deployment import misfits, prepare
from cloud_backend.coordinator.groups import GroupPlan
from resurge import col
from shared.errors import UsageError
from shared.plan.encoding import encode_plan


def program(*, every="5s", kind="int32", more=False, window="1m", own=False, extra=False, good=50, missing=None):
    gps = rs.sensor("gps", every=every).where(col.accuracy < good).extend(cell=rs.floor(col.lat).cast(kind))
    columns = ["lat", "cell", *(["speed"] if more else [])]
    up = gps.select(*columns).sync("gps", missing=missing)
    sinks = [up.tumbling(window).aggregate(n=rs.count()).sync_back("points")]
    sinks += [rs.sensor("battery", every="1m").sync("battery")] if own else []
    sinks += [up.tumbling("1h").aggregate(n=rs.count()).subscribe("hours")] if extra else []
    return rs.plan_of(*sinks, name="walks")


def made(plan, of_all=None, former=None):
    return prepare("pilots", plan, of_all or program(), former, newest=6, devices=())


def test_another_rate_filter_and_stream_on_the_phone_are_the_groups_own():
    found = made(program(every="1s", good=20, own=True)).to_json()
    assert (found["group"], found["version"], found["before"]) == ("pilots", 7, 1)
    assert found["edges_own"] == ["battery"]
    words = "\n".join(found["words"])
    assert "this is for the 0 devices of group 'pilots'; all others keep what they have" in words
    assert "phones take version 7 with their next exchange and begin their windows anew" in words
    assert "each phone asks its person before it reads 'battery'" in words
    assert "edge 'battery' is the group's own: the log keeps it for queries and DataFrames" in words
    assert "Spark goes on with the program of all" in words


def test_more_and_narrower_columns_are_read_as_those_of_the_program_of_all():
    made(program(more=True))
    made(program(), of_all=program(kind="int64"))
    with pytest.raises(UsageError, match=r"'cell' of edge 'gps' is int64 .* as int32.*\[group-columns\]"):
        made(program(kind="int64"))


@pytest.mark.parametrize("change", [{"window": "5m"}, {"extra": True}])
def test_another_computation_in_the_cloud_is_refused_by_name(change):
    with pytest.raises(UsageError, match=r"(points|hours).* in the cloud.*\[group-cloud\]"):
        made(program(**change))
    made(program(), of_all=program(extra=True))  # the program of all may compute more


def test_the_same_again_and_a_bad_name_are_refused():
    with pytest.raises(UsageError, match="program-same"):
        made(program())
    own = program(every="1s")
    with pytest.raises(UsageError, match="program-same"):
        made(own, former=GroupPlan(3, encode_plan(own)))
    assert made(program(), former=GroupPlan(3, encode_plan(own))).plan.version == 7  # back to what all have
    with pytest.raises(UsageError, match="group-name"):
        prepare("Pilots!", own, program(), None, newest=6, devices=())


def test_a_program_for_all_that_a_groups_does_not_fit_says_so_and_gets_a_version_above_the_groups():
    plans = {"pilots": GroupPlan(3, encode_plan(program(every="1s")))}
    assert misfits(plans, program(good=10)) == []
    (said,) = misfits(plans, program(window="5m"))
    assert said.startswith("group 'pilots' keeps its own program, which does not fit this one")
    found = prepare_for_all(program(window="5m"), program(), None, (), newest=9, remarks=[said])
    assert found.plan.version == 10
    assert said in found.to_json()["words"]
