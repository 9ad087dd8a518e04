"""The audit log on disk: what was changed, cut off or written anew is found."""

from __future__ import annotations

import sqlite3
from functools import partial

import pytest

from cloud_backend.coordinator.audit import AuditLog
from cloud_backend.gateway.keys import Keys, is_signed_by
from shared.errors import DamagedData

KEYS = Keys(b"k" * 32)
IS_SIGNED = partial(is_signed_by, KEYS.public_key)


@pytest.fixture
def audit(tmp_path):
    log = AuditLog(tmp_path / "audit.sqlite", sign=KEYS.sign)
    for number in range(5):
        log.append(number, person="ada", role="admin", action="revoked", subject=f"device {number}")
    yield log
    log.close()


def test_lines_come_newest_first_page_by_page(audit):
    first = audit.lines(limit=2)
    assert [line.number for line in first] == [5, 4]
    assert [line.number for line in audit.lines(limit=9, before=4)] == [3, 2, 1]


def test_a_line_can_neither_be_changed_nor_removed(audit, tmp_path):
    assert audit.verify(IS_SIGNED) == 5
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
        audit.verify(IS_SIGNED)


def edited(path, *statements: str) -> None:
    with sqlite3.connect(path) as database:
        for trigger in ("lines_stay", "lines_last"):
            database.execute(f"DROP TRIGGER IF EXISTS {trigger}")
        for statement in statements:
            database.execute(statement)
    database.close()


def written_anew(path, *, sign=None) -> None:
    """Somebody leaves a line out and computes the whole chain again, as this class would."""
    kept = sqlite3.connect(path).execute("SELECT at_us, person, role, action, subject, detail FROM lines").fetchall()
    path.unlink()
    log = AuditLog(path, sign=sign)
    for at_us, person, role, action, subject, detail in kept[:2] + kept[3:]:
        log.append(at_us, person=person, role=role, action=action, subject=subject, detail=detail)
    log.append(9, person="eve", role="admin", action="signed-in")
    log.close()


def test_a_cut_end_shows_against_an_anchor(audit, tmp_path):
    head = audit.head()
    audit.check_anchor(head.number, head.hash)
    edited(tmp_path / "audit.sqlite", "DELETE FROM lines WHERE number > 3", "DELETE FROM heads WHERE number > 3")
    assert audit.verify(IS_SIGNED) == 3  # the chain alone says nothing
    with pytest.raises(DamagedData, match=r"cut off.*audit-anchor"):
        audit.check_anchor(head.number, head.hash)


def test_a_chain_that_was_computed_anew_lacks_the_gateway_s_signature(audit, tmp_path):
    for sign in (Keys(b"e" * 32).sign, None):
        path = tmp_path / "audit.sqlite"
        signatures = sqlite3.connect(path).execute("SELECT number, signature FROM heads").fetchall()
        written_anew(path, sign=sign)
        if sign is None:
            edited(path, *(f"INSERT OR REPLACE INTO heads VALUES ({n}, x'{s.hex()}')" for n, s in signatures))
        log = AuditLog(path)
        with pytest.raises(DamagedData, match="audit-signature"):
            log.verify(IS_SIGNED)
        log.close()


def test_a_chain_signed_anew_by_whoever_has_the_key_shows_against_an_anchor(audit, tmp_path):
    head = audit.head()
    assert IS_SIGNED(head.message(), head.signature)
    written_anew(tmp_path / "audit.sqlite", sign=KEYS.sign)
    log = AuditLog(tmp_path / "audit.sqlite")
    assert log.verify(IS_SIGNED) == 5
    with pytest.raises(DamagedData, match=r"written anew.*audit-anchor"):
        log.check_anchor(head.number, head.hash)
    log.close()


def test_lines_from_before_there_were_signatures_are_fine(tmp_path):
    path = tmp_path / "audit.sqlite"
    for sign in (None, KEYS.sign):
        log = AuditLog(path, sign=sign)
        log.append(1, person="ada", role="admin", action="revoked")
        log.close()
    log = AuditLog(path)
    assert log.verify(IS_SIGNED) == 2
    log.close()
