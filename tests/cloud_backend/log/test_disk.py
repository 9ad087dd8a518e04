"""The log's own directory: what is durable and old leaves memory, and nothing else changes."""

from __future__ import annotations

import contextlib
import os
import resource
from pathlib import Path

import pytest

from cloud_backend.log import disk as module
from cloud_backend.log.disk import LogDisk
from cloud_backend.log.log import Log
from cloud_backend.log.verify import verify
from shared.spool.disk import PosixDisk
from tests.cloud_backend.log.builders import PHONE, data


def test_only_what_is_synced_and_old_is_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "KEPT_BYTES", 3000)
    monkeypatch.setattr(module, "GIVEN_BACK_AT_ONCE", 1000)
    asked: list[tuple[int, int]] = []
    synced = [0]
    log = Log.open(LogDisk(tmp_path), segment_bytes=1 << 20)
    monkeypatch.setattr(os, "POSIX_FADV_DONTNEED", 4, raising=False)  # macOS has neither name

    def advise(_fd: int, start: int, length: int, advice: int) -> None:
        assert advice == os.POSIX_FADV_DONTNEED
        assert start + length <= synced[0]
        asked.append((start, length))

    monkeypatch.setattr(module, "_advise", advise)
    for number in range(40):
        log.append([data(PHONE, number, number + 1, bytes([number]) * 200)])
        synced[0] = log.end
        log.sync()
        assert sum(length for _, length in asked) <= max(0, log.end - 3000)
    synced[0] += 1000  # the seal
    log.close()
    assert len(asked) > 5
    assert asked == [(sum(length for _, length in asked[:at]), asked[at][1]) for at in range(len(asked))]
    assert verify(LogDisk(tmp_path)).delivered == 40


def test_a_log_goes_on_in_a_process_that_may_open_no_more_files(tmp_path: Path):
    """With every descriptor taken a new segment cannot be opened; some are held for it."""
    disk = LogDisk(tmp_path / "log")
    log = Log.open(disk, segment_bytes=400)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    try:
        # A limit below a descriptor that is open would make the ones held for the log useless.
        highest = max(int(entry.name) for entry in Path("/dev/fd").iterdir())
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 64, hard))
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        for number in range(20):
            log.append([data(PHONE, number, number + 1, bytes(200))])
            log.sync()
        log.trim(log.durable_end)
    finally:
        for each in taken:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    log.close()
    assert Log.open(PosixDisk(tmp_path / "log")).high_water(PHONE) == 20
