"""Seven days of words by place: the views say what the rows say, and a late row touches its own day only."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from cloud_backend.spark.daily_views import DailyViews

pytestmark = pytest.mark.spark


@pytest.mark.covers("SO-41")
def test_views_agree_with_the_rows_and_late_rows_touch_one_day(tmp_path: Path, spark: Any) -> None:
    views = DailyViews(spark, tmp_path)
    days = [date(2026, 11, 1) + timedelta(days=number) for number in range(3)]
    for number, day in enumerate(days):
        texts = [(place, "tea " * (number + 1) + "bus") for place in (1, 2)]
        views.append(day, spark.createDataFrame(texts, "place int, text string"))
    assert views.days() == days
    before = {path: path.stat().st_mtime_ns for path in sorted((tmp_path / "view").rglob("*.parquet"))}
    late = spark.createDataFrame([(2, "bus bus bus bus bus bus bus")], "place int, text string")
    views.append(days[1], late)
    after = {path: path.stat().st_mtime_ns for path in sorted((tmp_path / "view").rglob("*.parquet"))}
    untouched = {path for path in before if days[1].isoformat() not in str(path)}
    assert {path.parent.name for path in untouched} == {str(days[0]), str(days[2])}
    assert {path.parent.name for path in before.keys() ^ after.keys()} == {str(days[1])}
    assert {path: after[path] for path in untouched} == {path: before[path] for path in untouched}
    answer = [(row["place"], row["word"], row["uses"]) for row in views.popular(days)]
    assert answer == [(1, "tea", 6), (2, "bus", 10)]
    assert views.popular(days) == views.popular_without_views(days)
