"""What is wrong in a program is said before anything runs, with the line of the program."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable

import pytest

import resurge as rs
from resurge import col
from shared.errors import UsageError

gps = rs.sensor("gps", every="5s")
words = rs.stream("words", {"w": "str", "n": "int64"})


def cycle(merge: str) -> rs.Stream:
    back = rs.feedback("back", {"lat": "float64"})
    both = gps.select("lat").union(back, merge=merge)
    both.where(col.lat < 0.0).feed(back)
    return both


WRONG: list[tuple[Callable[[], object], str, str]] = [
    (lambda: rs.sensor("gsp", every="5s"), "sensor-unknown", "did you mean 'gps'"),
    (lambda: rs.timer("5 seconds"), "duration", "5 seconds"),
    (lambda: gps.sync("up", within="fast"), "duration", "fast"),
    (lambda: gps.sync("up", deadline="soon"), "duration", "soon"),
    (lambda: gps.sync("up", codec="zip"), "sync-batch", "codec 'zip' is not one of auto"),
    (lambda: gps.sync("up", evict="never"), "sync-batch", "evict 'never' is not one of query"),
    (lambda: gps.key_by("device", idle_after="later"), "duration", "later"),
    (lambda: gps.join(gps, within="near"), "duration", "near"),
    (lambda: gps.join(gps), "join-interval", "within="),
    (lambda: gps.zip("gps"), "graph-input", "expected a stream, not str 'gps'"),  # type: ignore[arg-type]
    (lambda: gps.union(col.lat), "graph-input", "expected a stream, not Formula"),  # type: ignore[arg-type]
    (lambda: rs.stream("s", {"v": "double"}), "schema-kind", "expected one of bool"),
    (lambda: gps.where(col.lat > 1 and col.lon > 2), "expression-truth", "use & | ~"),  # type: ignore[arg-type]
    (lambda: gps.where(1 < col.lat < 2), "expression-truth", "use & | ~"),  # type: ignore[arg-type]
    (lambda: gps.select(x=col.lat.cast("integer")), "schema-kind", "'integer' is not a kind"),
    (lambda: gps.select("latt"), "column-unknown", "has: device, lat, lon"),
    (lambda: gps.tumbling("1m").aggregate(x=col.lat), "aggregate-type", "rs.mean"),  # type: ignore[arg-type]
    (lambda: words.tumbling("1m").aggregate(x=rs.mean("w")), "aggregate-type", "takes a number column"),
    (lambda: gps.sliding(count=1.5), "window-size", "whole number of rows"),  # type: ignore[arg-type]
    (lambda: gps.tumbling("1m", lateness="long"), "duration", "long"),
    (lambda: gps.state({"top": 0}, top=col.lat), "state-type", "start with 0.0"),
    (lambda: gps.sliding("1m", lateness="5s").aggregate(n=rs.count()), "window-lateness", "sliding 1m"),
    (lambda: gps.tumbling(count=5, lateness="5s").aggregate(n=rs.count()), "window-lateness", "tumbling 5 rows"),
    (lambda: gps.tumbling("1m", lateness="5s").apply("anything"), "window-lateness", "before apply('anything')"),
    (lambda: gps.extend(device="other"), "select-key", "assigns the key column 'device'"),
    (lambda: gps.tumbling("1m").aggregate(rs.count()), "aggregate-type", "needs a name"),
    (lambda: rs.explain(gps.tumbling("1m")), "graph-input", "end a window with .aggregate"),  # type: ignore[arg-type]
    (lambda: rs.plan_of("gps"), "graph-input", "not str"),  # type: ignore[arg-type]
    (lambda: gps.state({"device": "a"}, device="b"), "select-key", "makes the key column 'device' anew"),
    (lambda: gps.state({"device": "a"}, keep=True, device="b"), "select-key", "give it another name"),
    (lambda: gps.tumbling("1m").aggregate(device=rs.count()), "select-key", "key_by that name"),
    (lambda: gps.key_by("device", "floor").select("lat"), "column-unknown", "'floor' is not in this stream"),
    (lambda: rs.sum(col.lat), "column-name", "write 'lat' instead of col.lat"),  # type: ignore[arg-type]
    (lambda: gps.tumbling("1m").mean(col.lat), "column-name", "write 'lat'"),  # type: ignore[arg-type]
    (lambda: gps.select(col.lat), "column-name", "write 'lat' instead of col.lat"),  # type: ignore[arg-type]
    (lambda: gps.key_by(col.lat % 2), "column-name", "first: .extend(name=...)"),  # type: ignore[arg-type]
    (lambda: gps.significant(col.lat, change=1.0), "column-name", "write 'lat'"),  # type: ignore[arg-type]
    (lambda: gps.extend(z=[1]), "expression-literal", "a column like col.v"),  # type: ignore[arg-type]
    (lambda: gps.where(functools.reduce(operator.and_, [col.lat > 0] * 70)), "expression-depth", "deeper than 64"),
    (lambda: rs.evaluate(cycle("ordered"), {}), "graph-cycle", "merge='arrival'"),
    (lambda: rs.Live(cycle("ordered").subscribe("out")), "graph-cycle", "merges ordered"),
    (lambda: gps.select("lat").feed(rs.feedback("f", {"lon": "float64"})), "graph-alphabet", "but is fed"),
    (lambda: rs.sql("SELECT lat AS a, lon AS a FROM gps", gps=gps), "sql-name", "called 'a'"),
    (lambda: rs.sql("SELECT round(lat, 1) AS a FROM gps", gps=gps), "sql-unsupported", "ROUND(lat * 10) / 10"),
    (lambda: rs.sql("SELECT lat FROM gps AS g", gps=gps), "sql-unsupported", "without 'g'"),
    (lambda: rs.sql("SELECT CAST(lat AS DECIMAL) AS a FROM gps", gps=gps), "sql-unsupported", "DECIMAL is no kind"),
    (
        lambda: rs.sql("SELECT avg(lat) AS a FROM gps GROUP BY TUMBLE(1 SECOND) HAVING count(*) > 1", gps=gps),
        "sql-having",
        "COUNT(*) AS n",
    ),
    (lambda: rs.sql(f"SELECT {'+'.join(['lat'] * 900)} AS a FROM gps", gps=gps), "sql-size", "deep"),
    (lambda: rs.limited_loss(2), "contract", "between 0 and 1"),
    (lambda: rs.evaluate(gps, {"gps": {"time": [0], "lta": [1.0]}}), "evaluate-input", "no column 'lta'"),
    (lambda: rs.evaluate(words, {"words": {"time": [0], "w": ["a"], "n": ["b"]}}), "evaluate-input", "not int64"),
    (lambda: rs.evaluate([gps], {}), "evaluate-program", "not list"),  # type: ignore[arg-type]
]


@pytest.mark.covers("EC-5")
@pytest.mark.parametrize(("program", "code", "says"), WRONG)
def test_the_error_names_what_is_wrong_and_the_line(program: Callable[[], object], code: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        program()
    assert caught.value.code == code
    assert says in caught.value.message
    assert caught.value.message.count(", at test_wrong_programs.py:") == 1


def test_a_sink_can_be_evaluated_under_its_own_name() -> None:
    assert list(rs.evaluate(words.subscribe("all"), {"words": {"time": [0], "w": ["a"], "n": [1]}})) == ["all"]
