"""A backup taken while things change is whole, and what is restored from it adds up."""

from __future__ import annotations

import io
import json
import sqlite3
import tarfile

import pytest

from cloud_backend.coordinator.backup import Places, create, restore
from cloud_backend.coordinator.people import People
from cloud_backend.log.log import Log
from cloud_backend.log.verify import verify
from shared.errors import DamagedData, UsageError
from shared.spool.disk import PosixDisk
from tests.cloud_backend.dashboard.house import House


@pytest.fixture
def house(tmp_path):
    made = House(tmp_path / "site")
    store = tmp_path / "site" / "spark"
    for name, text in {
        "manifest/1.json": "{}",
        "files/a.bin": "state",
        "lease.json": "me",
        "process-log.jsonl": "a line",  # grows while it is linked: in a backup it would be no whole file
        "process-log.1.jsonl": "a line",
        "plans/1.plan": "p",
    }.items():
        (store / name).parent.mkdir(parents=True, exist_ok=True)
        (store / name).write_text(text)
    yield made
    made.close()


@pytest.fixture
def backup(house, tmp_path):
    output = tmp_path / "backup.tar.gz"
    create(Places.of_home(house.settings.home), output, now_us=7)
    return output


def test_what_is_restored_has_the_log_the_people_and_the_jobs(house, backup, tmp_path):
    target = tmp_path / "new machine"
    found = restore(backup, target)
    assert (found["delivered"], found["ledgered"], found["taken_us"]) == (12, 4, 7)
    log = Log.open(PosixDisk(target / "gateway" / "log"))
    assert {key: state.high_water for key, state in log.edges()} == {
        key: state.high_water for key, state in house.gateway.log.edges()
    }
    names = {path.relative_to(target / "spark").as_posix() for path in (target / "spark").rglob("*") if path.is_file()}
    assert names == {"manifest/1.json", "files/a.bin", "plans/1.plan"}  # who drove it and what it said are not
    assert (target / "gateway" / "gateway.key").read_bytes() == (house.settings.home / "gateway.key").read_bytes()
    with sqlite3.connect(target / "gateway" / "roster.sqlite") as roster:
        assert roster.execute("SELECT count(*) FROM devices").fetchone() == (2,)
    with sqlite3.connect(target / "results.sqlite") as results:
        assert results.execute("SELECT count(*) FROM answers").fetchone() == (2,)


def test_nobody_is_signed_in_by_a_backup(house, tmp_path):
    browser = house.browser("admin")
    assert browser.get("/v1/api/me").status_code == 200
    secret = house.access.people.new_link(house.now_us)
    output = tmp_path / "backup.tar"
    create(Places.of_home(house.settings.home), output, now_us=7)
    restore(output, tmp_path / "new")
    people = People(tmp_path / "new" / "gateway" / "accounts.sqlite")
    assert [each.name for each in people.all()] == ["admin"]
    assert people.session(browser.cookies["resurge_session"], house.now_us) is None
    assert people.use_link(secret, house.now_us) is None
    people.close()


def test_the_log_may_grow_while_it_is_taken_and_the_running_one_is_not_touched(house, tmp_path, monkeypatch):
    from cloud_backend.coordinator import backup as module

    original = module._copy_database

    def grow_meanwhile(*paths) -> None:
        house.gateway.log.append([])
        original(*paths)
        if not grown:
            grown.append(True)
            house.deliver(house.enrol("late phone"))

    grown: list[bool] = []
    monkeypatch.setattr(module, "_copy_database", grow_meanwhile)
    output = tmp_path / "backup.tar"
    create(Places.of_home(house.settings.home), output, now_us=7)
    found = restore(output, tmp_path / "new")
    assert found["delivered"] in (12, 18)
    assert verify(PosixDisk(house.settings.home / "log")).delivered == 18
    assert not list(tmp_path.glob("site/.backup-*"))


def test_a_backup_is_for_its_owner_only(backup):
    assert backup.stat().st_mode & 0o777 == 0o600


def test_nothing_is_restored_over_something(backup, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").touch()
    with pytest.raises(UsageError, match="backup-target"):
        restore(backup, tmp_path / "full")


def rewritten(backup, path, change) -> None:
    """The same backup with one thing changed by somebody."""
    with tarfile.open(backup, "r:*") as old, tarfile.open(path, "w") as new:
        for member in old:
            changed, data = change(member, old.extractfile(member).read())
            changed.size = len(data)
            new.addfile(changed, io.BytesIO(data))


@pytest.mark.parametrize("name", ["../outside", "/etc/outside", "gateway/../../outside", "unnamed"])
def test_a_backup_somebody_made_cannot_write_elsewhere(backup, tmp_path, name):
    def change(member, data):
        if member.name == "plan.bin":
            member.name = name
        return member, data

    rewritten(backup, tmp_path / "evil.tar", change)
    with pytest.raises(DamagedData, match="backup-damaged"):
        restore(tmp_path / "evil.tar", tmp_path / "new")
    assert not list(tmp_path.rglob("outside"))


def test_a_changed_byte_is_found(backup, tmp_path):
    def change(member, data):
        return member, data[:-1] + bytes([data[-1] ^ 1]) if member.name == "gateway/gateway.key" else data

    rewritten(backup, tmp_path / "bad.tar", change)
    with pytest.raises(DamagedData, match="not as it was written"):
        restore(tmp_path / "bad.tar", tmp_path / "new")


def test_a_missing_file_is_found(backup, tmp_path):
    def change(member, data):
        if member.name == "backup.json":
            contents = json.loads(data)
            contents["files"]["gateway/more"] = "00"
            data = json.dumps(contents).encode()
        return member, data

    rewritten(backup, tmp_path / "short.tar", change)
    with pytest.raises(DamagedData, match="missing"):
        restore(tmp_path / "short.tar", tmp_path / "new")


def test_a_file_that_is_no_backup_is_refused(tmp_path):
    with tarfile.open(tmp_path / "other.tar", "w") as archive:
        archive.addfile(tarfile.TarInfo("backup.json"))
    with pytest.raises(UsageError, match="backup-format"):
        restore(tmp_path / "other.tar", tmp_path / "new")


def test_there_must_be_something_to_back_up(tmp_path):
    with pytest.raises(UsageError, match="gateway-home"):
        create(Places.of_home(tmp_path / "gateway"), tmp_path / "b.tar", now_us=1)


def test_a_backup_of_a_trimmed_log_remembers_how_far_everybody_had_come(house, tmp_path):
    log = house.gateway.log
    expected = {key: state.high_water for key, state in log.edges()}
    log.commit(log.take(roll=True))
    log.trim(log.durable_end)
    create(Places.of_home(house.settings.home), tmp_path / "backup.tar", now_us=7)
    restore(tmp_path / "backup.tar", tmp_path / "new")
    restored = Log.open(PosixDisk(tmp_path / "new" / "gateway" / "log"))
    assert {key: state.high_water for key, state in restored.edges()} == expected
