from __future__ import annotations

from pathlib import Path

import pytest

from cloud_backend.coordinator.roster import CODE_LIFETIME_US, Roster
from shared.errors import PeerError, UsageError
from shared.identity import device_id
from shared.wire.status import DeviceStatus
from tests.cloud_backend.conftest import Where

KEY, OTHER = bytes(range(32)), bytes(32)


@pytest.fixture
def roster(where: Where):
    roster = Roster(where("roster.sqlite"))
    yield roster
    roster.close()


def test_a_code_is_kept_as_a_hash_only(tmp_path: Path):
    roster = Roster(tmp_path / "roster.sqlite")
    code = roster.new_code(0)
    roster.enrol(code, KEY, "phone", 1)
    roster.close()
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert code not in stored


def test_an_enrolled_device_is_found_with_its_newest_incarnation(roster: Roster):
    for expected in (1, 2, 3):
        assert roster.enrol(roster.new_code(0), KEY, "phone", 1) == expected
    assert roster.find(device_id(KEY)).incarnation == 3
    assert roster.find(device_id(OTHER)) is None


def test_a_revoked_device_can_be_paired_again_by_its_operator(roster: Roster):
    roster.enrol(roster.new_code(0), KEY, "phone", 1)
    roster.revoke(device_id(KEY), 2)
    assert roster.find(device_id(KEY)).revoked
    assert roster.revoked() == {device_id(KEY)}
    assert roster.enrol(roster.new_code(0), KEY, "phone", 3) == 2
    assert not roster.find(device_id(KEY)).revoked


def test_an_unknown_used_and_expired_code_sound_the_same(roster: Roster):
    used = roster.new_code(0)
    roster.enrol(used, OTHER, "other", 1)
    texts = set()
    for code, now in ((bytes(16), 1), (used, 1), (roster.new_code(0), CODE_LIFETIME_US + 1)):
        with pytest.raises(PeerError) as error:
            roster.enrol(code, KEY, "phone", now)
        texts.add(str(error.value))
    assert len(texts) == 1


def test_revoking_a_stranger_says_how_to_find_the_right_id(roster: Roster):
    with pytest.raises(UsageError, match="resurge device list"):
        roster.revoke(device_id(KEY), 1)


def test_what_was_seen_and_said_is_kept_across_a_restart(roster: Roster, where: Where):
    roster.enrol(roster.new_code(0), KEY, "phone", 1)
    roster.seen([(device_id(KEY), 7, DeviceStatus(plan=4, battery=50))])
    roster.seen([(device_id(KEY), 9, None)])
    again = Roster(where("roster.sqlite"))
    (entry,) = again.entries()
    assert (entry.seen_us, entry.plan_version, entry.status.battery) == (9, 4, 50)
    again.close()


def test_another_process_s_change_is_noticed(roster: Roster, where: Where):
    before = roster.changes()
    other = Roster(where("roster.sqlite"))
    other.new_code(0)
    other.close()
    assert roster.changes() != before


def test_enrolments_and_revocations_leave_an_audit_line(roster: Roster):
    roster.enrol(roster.new_code(0), KEY, "phone", 1)
    roster.revoke(device_id(KEY), 2)
    assert [(at_us, act) for at_us, act, _, _ in roster.audit_lines()] == [(2, "revoked"), (1, "enrolled")]


def test_what_this_process_decides_is_noticed_like_what_another_one_does(where):
    roster = Roster(where("roster.sqlite"))
    roster.enrol(roster.new_code(1_000), b"k" * 32, "phone", 1_000)
    before = roster.changes()
    roster.seen([(device_id(b"k" * 32), 1_000, None)])
    assert roster.changes() == before  # who was seen decides nothing
    roster.configure(device_id(b"k" * 32), {"sampling_rate": 0.5}, 1_000)
    roster.revoke(device_id(b"k" * 32), 1_000)
    assert roster.changes() == before + 2
    roster.close()


def test_a_renamed_device_keeps_its_name_and_a_deletion_is_remembered(where):
    roster = Roster(where("roster.sqlite"))
    roster.enrol(roster.new_code(1_000), b"k" * 32, "phone", 1_000)
    device = device_id(b"k" * 32)
    roster.rename(device, "ferry", 1_000)
    asked = roster.delete_data(device, 1_000)
    assert (asked.incarnation, asked.done_us) == (1, None)
    roster.deletion_done(asked, 1_000 + 5, {"batches": 3})
    roster.close()
    roster = Roster(where("roster.sqlite"))
    [entry] = roster.entries()
    assert (entry.name, entry.revoked_us, entry.status) == ("ferry", 1_000, DeviceStatus())
    [done] = roster.deletions()
    assert (done.done_us, done.report) == (1_000 + 5, {"batches": 3})
    with pytest.raises(UsageError, match="device-not-found"):
        roster.rename(device_id(b"other"), "x", 1_000)
    roster.close()
