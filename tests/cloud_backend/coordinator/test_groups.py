"""Which device is in which group, and under which version it gets that group's plan."""

from __future__ import annotations

import pytest

from cloud_backend.coordinator.groups import GROUPS_MAX, GroupPlan, Membership, plan_for
from cloud_backend.coordinator.roster import Roster
from shared.errors import UsageError


@pytest.fixture
def roster(tmp_path):
    roster = Roster(tmp_path / "roster.sqlite")
    yield roster
    roster.close()


def enrolled(roster, name="phone"):
    roster.enrol(roster.new_code(1), name.encode().ljust(32), name, 1)
    return next(each.device for each in roster.entries() if each.name == name)


def test_a_device_that_changes_its_group_gets_a_version_above_all_others(roster):
    groups, device = roster.groups, enrolled(roster)
    groups.deploy("pilots", GroupPlan(4, b"pilots"))
    groups.deploy("testers", GroupPlan(5, b"testers"))
    program, versions = GroupPlan(2, b"all"), []
    for name in ("pilots", "testers", "pilots", ""):
        groups.put(device, name, newest=2)
        entry = roster.entry(device)
        assert entry.group == name
        group, plan = plan_for(groups.members()[device], groups.plans(), program)
        assert (group, plan.encoded) == (name, name.encode() or b"all")
        versions.append(plan.version)
    assert versions == [6, 7, 8, 9]
    assert groups.newest() == 9
    later = GroupPlan(10, b"newer")
    assert plan_for(groups.members()[device], groups.plans(), later) == ("", later)


def test_a_group_without_a_program_changes_nothing_on_its_devices(roster):
    device = enrolled(roster)
    roster.groups.put(device, "pilots", newest=2)
    roster.groups.put(device, "pilots", newest=2)
    assert roster.groups.members() == {device: Membership("pilots", 0)}
    program = GroupPlan(2, b"all")
    assert plan_for(roster.groups.members()[device], roster.groups.plans(), program) == ("", program)
    assert roster.groups.sizes() == {"pilots": 1}
    assert plan_for(None, {}, None) is None


def test_a_program_that_is_withdrawn_gives_its_devices_that_of_all_under_a_higher_version(roster):
    device = enrolled(roster)
    roster.groups.put(device, "pilots", newest=2)
    roster.groups.deploy("pilots", GroupPlan(3, b"pilots"))
    roster.groups.withdraw("pilots", newest=2)
    assert roster.entry(device).version == 4
    assert plan_for(roster.groups.members()[device], {}, GroupPlan(2, b"all")) == ("", GroupPlan(4, b"all"))
    with pytest.raises(UsageError, match="group-program"):
        roster.groups.withdraw("pilots", newest=2)


def test_what_is_decided_is_noticed_and_kept(roster, tmp_path):
    device, before = enrolled(roster), roster.changes()
    roster.groups.put(device, "pilots", newest=0)
    assert roster.changes() > before
    again = Roster(tmp_path / "roster.sqlite")
    assert again.entry(device).group == "pilots"
    again.close()


def test_a_name_is_checked_and_there_is_an_end_to_groups(roster):
    device = enrolled(roster)
    with pytest.raises(UsageError, match="group-name"):
        roster.groups.put(device, "Ü", newest=0)
    for number in range(GROUPS_MAX):
        roster.groups.deploy(f"g{number}", GroupPlan(number + 1, b"x"))
    with pytest.raises(UsageError, match="group-many"):
        roster.groups.put(device, "one-more", newest=0)
    roster.groups.put(device, "g7", newest=0)
