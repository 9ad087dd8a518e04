"""One driver holds the lease; another gets it once it has run out or was given up."""

from __future__ import annotations

from pathlib import Path

import pytest

from cloud_backend.lease import Lease
from cloud_backend.spark.storage.store import Store


@pytest.mark.covers("SO-32")
def test_a_lease_runs_out_and_passes_on(tmp_path: Path) -> None:
    clock = [100.0]
    store = Store(tmp_path)
    first = Lease(store, owner="first", duration_s=10, now=lambda: clock[0])
    second = Lease(store, owner="second", duration_s=10, now=lambda: clock[0])
    assert first.acquire()
    assert not second.acquire()
    clock[0] += 9
    assert first.acquire()  # renewed
    clock[0] += 9
    assert not second.acquire()
    clock[0] += 2
    assert second.acquire()
    assert not first.acquire()
    assert second.holder() == ("second", 10.0)


def test_a_clean_stop_gives_the_lease_up_but_never_another_s(tmp_path: Path) -> None:
    store = Store(tmp_path)
    first = Lease(store, owner="first", duration_s=10, now=lambda: 0.0)
    second = Lease(store, owner="second", duration_s=10, now=lambda: 0.0)
    first.acquire()
    second.release()
    assert first.holder() is not None
    first.release()
    assert second.acquire()


def test_a_garbled_lease_counts_as_none(tmp_path: Path) -> None:
    (tmp_path / "lease.json").write_text("{")
    assert Lease(Store(tmp_path), owner="any", duration_s=10, now=lambda: 0.0).acquire()
