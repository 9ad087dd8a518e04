"""A log that lost its end, or was written anew as a whole, does not fit the heads that were signed."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from cloud_backend.gateway.keys import Keys, is_signed_by
from cloud_backend.log.heads import HOUR_US, HOURLY_FILE, NEWEST_FILE, Heads, SignedHead, check_signatures, read_heads
from cloud_backend.log.log import Log
from cloud_backend.log.verify import verify
from shared.errors import DamagedData
from shared.spool.disk import PosixDisk
from tests.cloud_backend.log.builders import PHONE, data

KEYS = Keys(b"k" * 32)


def written(home: Path, numbers: range, payload: bytes = b"columns") -> list[SignedHead]:
    """Append a batch for each number, a head after each, over several segments."""
    log = Log.open(PosixDisk(home / "log"), segment_bytes=600)
    heads = Heads(home, KEYS.sign)
    for number in numbers:
        log.append([data(PHONE, number, number + 1, payload)])
        log.sync()
        heads.keep(*log.head, (number + 1) * HOUR_US)
    log.close()
    heads.keep(*log.head, 100 * HOUR_US)
    return read_heads(home)


def is_signed(message: bytes, signature: bytes) -> bool:
    return is_signed_by(KEYS.public_key, message, signature)


def test_every_head_of_an_untouched_log_fits_also_across_segments(tmp_path: Path):
    heads = written(tmp_path, range(20))
    assert len(heads) == 22  # the newest is in both files
    check_signatures(heads, is_signed)
    assert verify(PosixDisk(tmp_path / "log"), heads=heads).heads == 21


def test_a_tail_cut_off_at_a_record_is_found(tmp_path: Path):
    heads = written(tmp_path, range(20))
    shutil.copytree(tmp_path / "log", tmp_path / "cut")
    last = sorted((tmp_path / "cut").glob("*.segment"))[-1]
    last.unlink()  # what is left is a log as sound as any
    verify(PosixDisk(tmp_path / "cut"))
    with pytest.raises(DamagedData, match="log-cut"):
        verify(PosixDisk(tmp_path / "cut"), heads=heads)


def test_a_log_written_anew_with_a_chain_of_its_own_is_found(tmp_path: Path):
    heads = written(tmp_path / "home", range(20))
    written(tmp_path / "forged", range(20), b"forgery")  # of the same lengths, sound in itself
    verify(PosixDisk(tmp_path / "forged" / "log"))
    with pytest.raises(DamagedData, match="log-rewritten"):
        verify(PosixDisk(tmp_path / "forged" / "log"), heads=heads)
    written(tmp_path / "longer", range(20), b"a longer forgery")
    with pytest.raises(DamagedData, match="log-rewritten"):
        verify(PosixDisk(tmp_path / "longer" / "log"), heads=heads)


def test_a_head_that_somebody_else_signed_or_changed_is_found(tmp_path: Path):
    (head, *_) = written(tmp_path, range(2))
    for changed in (replace(head, offset=0), replace(head, chain=bytes(32)), replace(head, at_us=1)):
        with pytest.raises(DamagedData, match="log-head"):
            check_signatures([changed], is_signed)
    with pytest.raises(DamagedData, match="log-head"):
        check_signatures([replace(head, signature=Keys(b"x" * 32).sign(head.signed()))], is_signed)


def test_heads_of_what_was_trimmed_are_not_missed(tmp_path: Path):
    heads = written(tmp_path, range(20))
    log = Log.open(PosixDisk(tmp_path / "log"), segment_bytes=600)
    log.trim(log.durable_end)
    log.close()
    assert verify(PosixDisk(tmp_path / "log"), heads=heads).heads >= 1


def test_one_head_of_each_hour_is_kept_and_the_newest_and_both_for_their_owner_only(tmp_path: Path):
    heads = Heads(tmp_path, KEYS.sign)
    for minute in range(0, 180, 10):
        heads.keep(1000 + minute, bytes(32), minute * HOUR_US // 60)
    assert [head.offset for head in read_heads(tmp_path)] == [1000, 1060, 1120, 1170]
    for name in (HOURLY_FILE, NEWEST_FILE):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "line", ["", "{}", "[]", '{"offset":-1,"chain":"","at_us":0,"signature":""}', "[" * 5000, '{"offset":1}']
)
def test_a_line_that_is_no_head_is_refused(line: str):
    with pytest.raises(DamagedData, match="log-head"):
        SignedHead.decode(line)


def test_a_line_that_a_crash_cut_short_is_passed_over(tmp_path: Path):
    heads = written(tmp_path, range(2))
    with (tmp_path / HOURLY_FILE).open("a") as file:
        file.write('{"offs')
    assert read_heads(tmp_path) == heads
