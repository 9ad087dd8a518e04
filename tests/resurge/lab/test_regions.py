"""The examples for regions in virtual time, with production hosts: several places in a line, phones that fail."""

from __future__ import annotations

import pytest

from resurge.lab import regions_failures
from resurge.lab._virtual_regions import VirtualRegions
from shared.region.controller import State
from tests.claims import Claim


def ran(program: str, regions: int, phones: int, rows: int, fail: int = 0) -> VirtualRegions:
    world = VirtualRegions(program, regions, phones, 3, cut_s=20.0)
    end = world.feed_rows(rows, start=35.0)
    world.advance(35.0 + rows / 2)
    assert all(world.state(region) in (State.RUNNING, State.CHECKPOINTING) for region in range(regions))
    for region in range(regions):
        world.stop(world.hosting(region)[:fail])
    world.advance(end + 60.0)
    return world


@pytest.mark.soak
@pytest.mark.covers("MS-10", "MS-26", "MS-39")
@pytest.mark.parametrize("program", ["bus_capacity", "traffic_signal"])
@pytest.mark.parametrize(("regions", "phones", "fail"), [(2, 4, 1), (4, 8, 3)])
def test_places_in_a_line_say_the_same_whoever_fails(
    program: str, regions: int, phones: int, fail: int, claim: Claim
) -> None:
    ideal, disturbed = ran(program, regions, phones, 60), ran(program, regions, phones, 60, fail)
    expected = [ideal.results(region) for region in range(regions)]
    found = [disturbed.results(region) for region in range(regions)]
    sent = ideal.ran.sent
    claim(
        f"{program}: {regions} places of {phones} phones, {fail * regions} stopped, "
        f"{sum(rows for rows, _, _ in found)} rows compared, {found} = {expected}; marks are "
        f"{sent.marks / sent.elements:.4%} of the bytes of elements; cuts {[ideal.cut(each) for each in range(regions)]}"
    )
    assert found == expected
    assert all(rows and not lost for rows, lost, _ in found)
    assert all(ideal.cut(region) for region in range(regions))
    assert 0 < sent.marks < 0.01 * sent.elements


@pytest.mark.soak
@pytest.mark.covers("MS-27", "MS-28")
def test_a_failure_costs_the_same_however_many_fail_and_a_departure_next_to_nothing(
    monkeypatch: pytest.MonkeyPatch, claim: Claim
) -> None:
    monkeypatch.setattr(regions_failures, "draw", lambda *_: None)
    report = regions_failures.run((0, 1, 3), rows=40)
    claim(f"{report['rows']} rows compared; pauses {report['pause_s']}, departures {report['departures_s']} seconds")
    assert [shape["name"] for shape in report["shapes"] if not shape["holds"]] == []
