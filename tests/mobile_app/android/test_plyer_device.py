"""Conveniences through plyer: they work, or say that they do not."""

from __future__ import annotations

from types import SimpleNamespace

import plyer
import pytest

from mobile_app.android import plyer_device


def test_what_the_platform_has_is_done(monkeypatch: pytest.MonkeyPatch):
    done: list[object] = []
    monkeypatch.setattr(plyer, "vibrator", SimpleNamespace(vibrate=done.append))
    assert plyer_device.vibrate(0.05)
    assert done == [0.05]


def test_what_it_lacks_is_said_and_no_error(monkeypatch: pytest.MonkeyPatch):
    def absent(*_: object, **__: object) -> None:
        raise NotImplementedError("No usable implementation found!")

    monkeypatch.setattr(plyer, "vibrator", SimpleNamespace(vibrate=absent))
    assert not plyer_device.vibrate(1.0)
