"""Conveniences through plyer: they work, or say that they do not."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import plyer
import pytest

from mobile_app.android import plyer_device


def test_what_the_platform_has_is_done(monkeypatch: pytest.MonkeyPatch):
    done: list[object] = []
    monkeypatch.setattr(plyer, "notification", SimpleNamespace(notify=lambda **said: done.append(said["message"])))
    monkeypatch.setattr(plyer, "vibrator", SimpleNamespace(vibrate=done.append))
    monkeypatch.setattr(plyer, "storagepath", SimpleNamespace(get_downloads_dir=lambda: "/downloads"))
    assert plyer_device.notify("Resurge", "recording stopped")
    assert plyer_device.vibrate(0.05)
    assert done == ["recording stopped", 0.05]
    assert plyer_device.downloads() == Path("/downloads")


def test_what_it_lacks_is_said_and_no_error(monkeypatch: pytest.MonkeyPatch):
    def absent(*_: object, **__: object) -> None:
        raise NotImplementedError("No usable implementation found!")

    monkeypatch.setattr(plyer, "notification", SimpleNamespace(notify=absent))
    monkeypatch.setattr(plyer, "vibrator", SimpleNamespace(vibrate=absent))
    monkeypatch.setattr(plyer, "storagepath", SimpleNamespace(get_downloads_dir=lambda: ""))
    assert not plyer_device.notify("Resurge", "x")
    assert not plyer_device.vibrate(1.0)
    assert plyer_device.downloads() is None
