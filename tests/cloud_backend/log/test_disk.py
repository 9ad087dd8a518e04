"""The log's own directory: what is durable and old leaves memory, and nothing else changes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cloud_backend.log import disk as module
from cloud_backend.log.disk import LogDisk
from cloud_backend.log.log import Log
from cloud_backend.log.verify import verify
from tests.cloud_backend.log.builders import PHONE, data


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="no such call here")
def test_only_what_is_synced_and_old_is_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "KEPT_BYTES", 3000)
    monkeypatch.setattr(module, "GIVEN_BACK_AT_ONCE", 1000)
    asked: list[tuple[int, int]] = []
    synced = [0]
    log = Log.open(LogDisk(tmp_path), segment_bytes=1 << 20)

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
