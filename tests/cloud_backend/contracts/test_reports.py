"""Reports on contracts: durable, chained, signed; one byte that was changed shows."""

from __future__ import annotations

import hashlib
import sqlite3
from functools import partial
from pathlib import Path

import pytest

from cloud_backend.contracts.reports import FILE, Reports
from cloud_backend.gateway.keys import Keys, is_signed_by
from shared.errors import DamagedData

KEYS = Keys(bytes(range(32)))
IS_SIGNED = partial(is_signed_by, KEYS.public_key)


def content(hour: int, sink: str = "up", verdict: str = "kept") -> dict[str, object]:
    return {"sink": sink, "from_us": hour * 10, "to_us": hour * 10 + 10, "verdict": verdict, "kept": 0.969}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    reports = Reports(tmp_path / FILE, sign=KEYS.sign)
    reports.save({"place": {"position": 5}}, tuple(content(hour) for hour in range(5)))
    reports.close()
    return tmp_path / FILE


def edit(path: Path, *statements: str) -> None:
    with sqlite3.connect(path) as database:
        for trigger in ("reports_stay", "reports_last"):
            database.execute(f"DROP TRIGGER {trigger}")
        for statement in statements:
            database.execute(statement)
    database.close()


def verified(path: Path, keys: Keys = KEYS) -> int:
    reports = Reports(path, sign=keys.sign)
    try:
        return reports.verify(partial(is_signed_by, keys.public_key))
    finally:
        reports.close()


def test_reports_and_where_the_audit_stands_survive_together(path: Path) -> None:
    reports = Reports(path, sign=KEYS.sign)
    assert reports.verify(IS_SIGNED) == 5
    assert reports.state("place") == {"position": 5}
    assert [each.number for each in reports.reports(before=4, limit=2)] == [3, 2]
    assert reports.reports(sink="other") == []
    with pytest.raises(TypeError):
        reports.save({"place": {"position": 6}}, ({**content(9), "kept": object()},))
    assert (reports.state("place"), reports.verify(IS_SIGNED)) == ({"position": 5}, 5)
    reports.close()


def test_every_single_byte_of_a_report_counts() -> None:
    reports = Reports(None, sign=KEYS.sign)
    reports.save({}, tuple(content(hour) for hour in range(5)))
    body = reports.reports(before=4, limit=1)[0].body
    with reports._database.transaction() as database:
        database.execute("DROP TRIGGER reports_stay")
    for place in range(len(body)):
        changed = body[:place] + chr(ord(body[place]) ^ 1) + body[place + 1 :]
        with reports._database.transaction() as database:
            database.execute("UPDATE reports SET body = ? WHERE number = 3", (changed,))
        with pytest.raises(DamagedData, match=r"report 3 on contracts was changed .*\[contract-chain\]"):
            reports.verify(IS_SIGNED)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE reports SET verdict = 'broken' WHERE number = 2",
        "UPDATE reports SET sink = 'other' WHERE number = 2",
        "DELETE FROM reports WHERE number = 2",
        "UPDATE reports SET hash = zeroblob(32) WHERE number = 2",
    ],
)
def test_a_changed_or_removed_report_is_named(path: Path, statement: str) -> None:
    edit(path, statement)
    with pytest.raises(DamagedData, match=r"report 2 .*\[contract-chain\]"):
        verified(path)


def test_a_chain_computed_anew_lacks_the_signature(path: Path) -> None:
    with pytest.raises(DamagedData, match=r"report 1 .*\[contract-signature\]"):
        verified(path, Keys(bytes(32)[:-1] + b"\x01"))
    edit(path, "UPDATE reports SET signature = zeroblob(64) WHERE number = 4")
    with pytest.raises(DamagedData, match=r"report 4 .*\[contract-signature\]"):
        verified(path)


def test_the_file_itself_refuses_to_change_a_report(path: Path) -> None:
    with sqlite3.connect(path) as database, pytest.raises(sqlite3.IntegrityError, match="append-only"):
        database.execute("UPDATE reports SET verdict = 'kept'")
    database.close()


def test_the_chain_of_a_report_is_the_one_it_always_was(path: Path) -> None:
    reports = Reports(path, sign=KEYS.sign)
    first, second = reversed(reports.reports(before=3))
    reports.close()
    assert first.body == '{"from_us":0,"kept":0.969,"number":1,"sink":"up","to_us":10,"verdict":"kept"}'
    assert first.hash == hashlib.sha256(first.body.encode()).digest()
    assert second.hash == hashlib.sha256(first.hash + second.body.encode()).digest()
    assert second.signature == KEYS.sign(b"resurge-contract-report" + (2).to_bytes(8, "big") + second.hash)
