"""The lab of daily views, on little text: answers agree, and late texts touch their own day's view alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from resurge.lab import _figure, sonora_views

pytestmark = pytest.mark.spark


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch, spark: Any) -> None:
    """The session of the run, which the lab must not stop; and texts for a moment."""
    monkeypatch.setattr(_figure, "FIGURES", None)
    monkeypatch.setattr(sonora_views, "open_session", lambda *_, **__: spark)
    monkeypatch.setattr(type(spark), "stop", lambda _: None)
    monkeypatch.setattr(sonora_views, "PAPER_BYTES_A_DAY", 30_000_000)


def held(report: dict[str, Any]) -> dict[str, bool]:
    json.dumps(report)
    return {shape["name"]: shape["holds"] for shape in report["shapes"]}


@pytest.mark.usefixtures("little")
def test_answers_agree_and_late_texts_touch_one_day() -> None:
    found = held(sonora_views.run(places=2, days=3))
    assert found["answers agree on every day asked"]
    assert found["days' views that late texts touch"]


@pytest.mark.usefixtures("little")
def test_views_that_forget_late_texts_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sonora_views.DailyViews, "append", sonora_views.DailyViews.keep)
    found = held(sonora_views.run(places=2, days=2))
    assert not found["answers agree on every day asked"]
    assert not found["days' views that late texts touch"]
