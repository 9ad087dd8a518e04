"""What is wrong in a program is said before anything runs, with the line of the program."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import resurge as rs
from resurge import col
from shared.errors import UsageError

gps = rs.sensor("gps", every="5s")
words = rs.stream("words", {"w": "str", "n": "int64"})

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
    (lambda: gps.union(col.lat), "graph-input", "expected a stream, not Term"),  # type: ignore[arg-type]
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
    (lambda: rs.lossy(keep=2), "contract", "between 0 and 1"),
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
