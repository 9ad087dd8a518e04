"""Daily materialised views: counts per place and word for each day, in native Spark SQL (SO-41).

A question about seven days adds up seven small views instead of reading seven days of rows. Each day is a partition
directory of its own, so late rows touch only the day they belong to: that day is counted again and replaced, no
other file is opened. A day is replaced by renaming a finished directory over it; a reader sees the old or the new day.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

ROWS = "rows"  # what arrived, by day: place, text
VIEW = "view"  # how often each word was used at each place, by day


class DailyViews:
    def __init__(self, session: SparkSession, root: Path) -> None:
        self._session = session
        self._root = root
        for name in (ROWS, VIEW):
            (root / name).mkdir(parents=True, exist_ok=True)

    def append(self, day: date, rows: DataFrame) -> None:
        """Keep rows (place, text) of a day and count that day again. Late rows come the same way."""
        self.keep(day, rows)
        self.count(day)

    def keep(self, day: date, rows: DataFrame) -> None:
        """Keep rows without counting them yet: while a day still goes on."""
        rows.select("place", "text").write.mode("append").parquet(str(self._root / ROWS / day.isoformat()))

    def days(self) -> list[date]:
        return sorted(date.fromisoformat(path.name) for path in (self._root / VIEW).iterdir() if path.name[0] != ".")

    def popular(self, days: Sequence[date], *, top: int = 1) -> list[Row]:
        """The most used words at each place over these days, by (place, uses falling, word)."""
        present = [str(self._root / VIEW / day.isoformat()) for day in days if day in set(self.days())]
        return self._top(self._session.read.parquet(*present).groupBy("place", "word").agg({"uses": "sum"}), top)

    def popular_without_views(self, days: Sequence[date], *, top: int = 1) -> list[Row]:
        """The same answer from the rows themselves: what it costs when nothing was materialised."""
        paths = [str(self._root / ROWS / day.isoformat()) for day in days]
        return self._top(self._counted(self._session.read.parquet(*paths)).withColumnRenamed("uses", "sum(uses)"), top)

    def count(self, day: date) -> None:
        """Count a day's rows and replace its view."""
        rows = self._session.read.parquet(str(self._root / ROWS / day.isoformat()))
        target = self._root / VIEW / day.isoformat()
        fresh = self._root / VIEW / f".{uuid.uuid4().hex}"
        self._counted(rows).write.parquet(str(fresh))
        old = self._root / VIEW / f".{uuid.uuid4().hex}"
        if target.exists():
            target.rename(old)
        fresh.rename(target)
        shutil.rmtree(old, ignore_errors=True)

    @staticmethod
    def _counted(rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as f

        words = rows.select("place", f.explode(f.split("text", " ")).alias("word"))
        return words.groupBy("place", "word").agg(f.count("*").alias("uses"))

    def _top(self, counted: DataFrame, top: int) -> list[Row]:
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        order = Window.partitionBy("place").orderBy(f.col("sum(uses)").desc(), "word")
        ranked = counted.withColumn("rank", f.row_number().over(order)).where(f.col("rank") <= top)
        return ranked.select("place", "word", f.col("sum(uses)").alias("uses")).orderBy("place", "rank").collect()
