"""Accounts and the audit log on disk."""

from __future__ import annotations

import sqlite3

import pytest

from cloud_backend.coordinator.accounts import Accounts
from cloud_backend.coordinator.audit import AuditLog
from shared.errors import DamagedData, UsageError


@pytest.fixture
def accounts(tmp_path):
    made = Accounts(tmp_path / "accounts.sqlite")
    yield made
    made.close()


def test_no_secret_is_in_the_file(accounts, tmp_path):
    accounts.put("ada", "viewer", 1, "a very long password")
    link = accounts.new_link(1)
    session = accounts.open_session(accounts.check_password("ada", "a very long password"), 1)
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    for secret in ("a very long password", link, session):
        assert secret.encode() not in stored
    assert (tmp_path / "accounts.sqlite").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("name", ["", "A", "a b", "-a", "a" * 41, "ä", "a\n", "<b>", "a/b", "../a"])
def test_a_name_is_short_and_plain(accounts, name):
    with pytest.raises(UsageError, match="account-name"):
        accounts.put(name, "viewer", 1)


def test_a_role_is_one_of_three_and_a_password_long_enough(accounts):
    with pytest.raises(UsageError, match="account-role"):
        accounts.put("ada", "king", 1)
    with pytest.raises(UsageError, match="account-password"):
        accounts.put("ada", "viewer", 1, "short")


def test_an_account_without_a_password_cannot_sign_in_with_none(accounts):
    accounts.put("ada", "admin", 1)
    assert accounts.check_password("ada", "") is None
    assert accounts.needs_admin()


@pytest.fixture
def audit(tmp_path):
    log = AuditLog(tmp_path / "audit.sqlite")
    for number in range(5):
        log.append(number, person="ada", role="admin", action="revoked", subject=f"device {number}")
    yield log
    log.close()


def test_lines_come_newest_first_page_by_page(audit):
    first = audit.lines(limit=2)
    assert [line.number for line in first] == [5, 4]
    assert [line.number for line in audit.lines(limit=9, before=4)] == [3, 2, 1]


def test_a_line_can_neither_be_changed_nor_removed(audit, tmp_path):
    assert audit.verify() == 5
    with sqlite3.connect(tmp_path / "audit.sqlite") as database:
        for statement in ("UPDATE lines SET person = 'eve'", "DELETE FROM lines"):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                database.execute(statement)


@pytest.mark.parametrize(
    "statement", ["UPDATE lines SET person = 'eve' WHERE number = 3", "DELETE FROM lines WHERE number = 3"]
)
def test_whoever_edits_the_file_is_found_at_that_line(audit, tmp_path, statement):
    with sqlite3.connect(tmp_path / "audit.sqlite") as database:
        database.execute("DROP TRIGGER lines_stay")
        database.execute("DROP TRIGGER lines_last")
        database.execute(statement)
    with pytest.raises(DamagedData, match="line 3"):
        audit.verify()
