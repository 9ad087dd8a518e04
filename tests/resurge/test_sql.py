"""SQL means the same as the verbs it stands for; what is outside the subset is refused by name."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import strategies as st

import resurge as rs
from resurge import col
from shared.errors import ResurgeError, UsageError
from shared.stream.drafts import Program, collecting, stop_collecting
from tests.examples_drawn import examples_drawn

FOOTBALL = {"sid": "int64", "v": "float64", "vx": "float64", "az": "float64", "team": "str"}
S = 1_000_000

ROWS = {
    "football": {
        "time": [0, S // 2, S // 2, S, 3 * S],
        "device": ["a", "b", "a", "a", "b"],
        "sid": [10, 10, 11, 10, 11],
        "v": [1.0, 3.0, 5.0, 7.0, 9.0],
        "vx": [1.0, 1.0, 1.0, -1.0, 2.0],
        "az": [0.0, 2.0, 2.0, 2.0, 2.0],
        "team": ["x", "y", "x", "y", "x"],
    }
}


def football() -> rs.Stream:
    return rs.stream("football", FOOTBALL).sync("football")


def same(query: str, verbs: rs.Stream, stream: rs.Stream) -> dict[str, list]:
    answers = [rs.evaluate(one, ROWS)["out"] for one in (rs.sql(query, football=stream), verbs)]
    lists = [{name: column.tolist() for name, column in answer.items()} for answer in answers]
    assert lists[0] == lists[1]
    assert all(lists[0].values()), "two empty answers are the same whatever was asked"
    return lists[0]


def test_the_query_of_the_manual() -> None:
    up = football()
    verbs = up.where(col.vx > 0).key_by("sid").tumbling("1s").aggregate(avg_v=rs.mean("v"))
    found = same("SELECT sid, avg(v) FROM football WHERE vx > 0 GROUP BY TUMBLE(1 SECOND), sid", verbs, up)
    assert found["sid"] == [10, 11, 11]
    assert found["avg_v"] == [2.0, 5.0, 9.0]


def test_days_of_a_place() -> None:
    up = football()
    verbs = up.key_by("team").tumbling("1w", zone="Asia/Tokyo").aggregate(count=rs.count())
    found = same("SELECT team, count(*) FROM football GROUP BY TUMBLE(1 WEEK, 'Asia/Tokyo'), team", verbs, up)
    assert found["window_start"] == [-(3 * 24 + 9) * 3600 * S] * 2  # the Monday before 1970, in Tokyo


def test_all_aggregates_hop_session_and_having() -> None:
    up = football()
    keyed = up.key_by("team")
    names = (
        "count(*), count(v), count(DISTINCT sid), sum(v), min(v), max(v), var_pop(v), stddev_pop(v), quantile(v, 0.5)"
    )
    verbs = keyed.hopping("2s", every="1s").aggregate(
        count=rs.count(), count_v=rs.count("v"), distinct_sid=rs.distinct("sid"), sum_v=rs.sum("v"), min_v=rs.min("v"),
        max_v=rs.max("v"), variance_v=rs.variance("v"), stddev_v=rs.std("v"), quantile_v=rs.quantile("v", 0.5),
    )  # fmt: skip
    same(f"SELECT team, {names} FROM football GROUP BY HOP(2 SECONDS, 1 SECOND), team", verbs, up)
    sessions = keyed.session("1500ms").aggregate(n=rs.count()).where(col.n > 1)
    same(
        "SELECT team, count(*) AS n FROM football GROUP BY team, SESSION(1500 MILLISECONDS) HAVING count(*) > 1",
        sessions,
        up,
    )


def test_expressions_and_aggregates_of_expressions() -> None:
    up = football()
    query = """SELECT CAST(v AS INT) AS whole, CASE WHEN vx > 0 AND NOT az > 1 THEN -v ELSE abs(v) * 2 END AS odd
               FROM football WHERE v BETWEEN 2 AND 8.5 AND team IN ('x', 'y')"""
    verbs = up.where((col.v >= 2) & (col.v <= 8.5) & ((col.team == "x") | (col.team == "y"))).select(
        whole=col.v.cast("int32"), odd=rs.if_else((col.vx > 0) & ~(col.az > 1), -col.v, abs(col.v) * 2)
    )
    same(query, verbs, up)
    kmh = up.extend(argument_1=col.v * 3.6).key_by().tumbling("1d").aggregate(top=rs.max("argument_1"))
    same("SELECT max(v * 3.6) AS top FROM football GROUP BY TUMBLE(1 DAY)", kmh, up)


def test_aggregates_of_some_rows_and_arithmetic_on_aggregates() -> None:
    up = football()
    opened = up.key_by("team").tumbling("1d")
    fast = rs.count(where=col.v > 2)
    query = """SELECT team, count(*) FILTER (WHERE v > 2) AS fast, sum(v) / count(*) AS rate,
                      100 * count(*) FILTER (WHERE v > 2) / count(*) AS share, max(sid) FILTER (WHERE vx < 0) AS back,
                      count(DISTINCT sid) FILTER (WHERE v > 2)
               FROM football GROUP BY TUMBLE(1 DAY), team HAVING rate > 1"""
    verbs = opened.aggregate(
        fast=fast, rate=rs.sum("v") / rs.count(), share=100 * fast / rs.count(), back=rs.max("sid", where=col.vx < 0),
        distinct_sid=rs.distinct("sid", where=col.v > 2),
    ).where(col.rate > 1)  # fmt: skip
    found = same(query, verbs, up)
    assert (found["fast"], found["rate"], found["back"]) == ([2, 2], [5.0, 5.0], [0, 10])


def test_text_and_missing_values() -> None:
    up = football()
    query = """SELECT team || '-' || concat(team, 'q') AS both, split_part('a-b', '-', 2) AS part, trim(' x ') AS bare,
                      replace(team, 'x', 'z') AS other, coalesce(sqrt(vx), 0.5) AS root, least(v, 4, az) AS low,
                      sqrt(vx) IS NULL AS none, power(v, 2) AS squared, starts_with(team, 'x') AS starts
               FROM football WHERE team LIKE 'x%' OR NOT team NOT LIKE '_'"""
    verbs = up.where(rs.like(col.team, "x%") | ~~rs.like(col.team, "_")).select(
        both=rs.concat(rs.concat(col.team, "-"), rs.concat(col.team, "q")), part=rs.split("a-b", "-", 1),
        bare=rs.call("trim", " x "), other=rs.call("replace", col.team, "x", "z"), root=rs.sqrt(col.vx).fill(0.5),
        low=rs.call("minimum", rs.call("minimum", col.v, 4), col.az), none=rs.is_missing(rs.sqrt(col.vx)),
        squared=col.v**2, starts=rs.call("starts_with", col.team, "x"),
    )  # fmt: skip
    found = same(query, verbs, up)
    assert found["none"] == [False, False, False, True, False]
    assert found["part"] == ["b"] * 5


def test_from_finds_the_sync_edges_of_the_program_being_written() -> None:
    program = Program()
    token = collecting(program)
    try:
        football()
        rs.sql("SELECT sid, avg(v) FROM football GROUP BY TUMBLE(1 SECOND), sid").subscribe("speeds")
    finally:
        stop_collecting(token)
    assert program.plan().sink("speeds").schema.names[-2] == "avg_v"


@pytest.mark.parametrize(
    ("query", "code", "says"),
    [
        ("SELECT v FROM football ORDER BY v", "sql-unsupported", "ORDER"),
        ("SELECT v FROM football LIMIT 3", "sql-unsupported", "LIMIT"),
        ("SELECT DISTINCT v FROM football", "sql-unsupported", "DISTINCT"),
        ("SELECT v FROM football JOIN football ON TRUE", "sql-unsupported", r"JOIN.*\.with_latest\(other\)"),
        ("WITH x AS (SELECT 1) SELECT v FROM football", "sql-unsupported", "WITH"),
        ("SELECT v FROM (SELECT v FROM football)", "sql-unsupported", "subquery"),
        ("SELECT asin(v) AS s FROM football", "sql-unsupported", "ASIN"),
        ("SELECT v FROM football WHERE vx IS TRUE", "sql-unsupported", "IS TRUE"),
        ("SELECT v FROM football WHERE team IS NULL", "expression-type", "is_missing"),
        ("SELECT trim('x' FROM team) AS t FROM football", "sql-unsupported", "EXPRESSION"),
        ("SELECT v FROM football WHERE team LIKE 'a' ESCAPE '!'", "sql-unsupported", "ESCAPE"),
        ("SELECT split_part(team, '-', sid) AS t FROM football", "sql-unsupported", r"rs\.split"),
        ("SELECT sid, sum(v) + 1 FROM football GROUP BY TUMBLE(1 SECOND), sid", "sql-name", "AS name"),
        ("SELECT sid, vx / sum(v) AS r FROM football GROUP BY TUMBLE(1 SECOND), sid", "column-unknown", "vx"),
        ("SELECT sid, sum(sum(v)) FROM football GROUP BY TUMBLE(1 SECOND), sid", "sql-having|aggregate-place", ""),
        ("SELECT rank() OVER (ORDER BY v) AS r FROM football", "sql-unsupported", "RANK"),
        ("INSERT INTO football VALUES (1)", "sql-unsupported", "INSERT"),
        ("SELECT sid AS s, avg(v) FROM football GROUP BY TUMBLE(1 SECOND), sid", "sql-unsupported", "key column sid"),
        ("SELECT sid, avg(v) FROM football GROUP BY LUNAR(1 SECOND), sid", "sql-unsupported", "LUNAR"),
        ("SELECT avg(v) FROM football", "sql-window", "a stream does not end"),
        ("SELECT sid, avg(v) FROM football GROUP BY sid", "sql-window", "takes one window"),
        ("SELECT team, avg(v) FROM football GROUP BY TUMBLE(1 SECOND), sid", "sql-group", "team"),
        ("SELECT v + 1 FROM football", "sql-name", "AS name"),
        ("SELECT v FROM handball", "sql-stream", "has: football"),
        ("SELECT FROM WHERE", "sql-syntax|sql-stream|sql-unsupported", ""),
        ("SELECT w FROM football", "column-unknown", "has: device, sid"),
        ("SELECT v FROM football WHERE v", "where", "compare it"),
    ],
)
def test_anything_else_is_refused_by_name_with_the_line(query: str, code: str, says: str) -> None:
    with pytest.raises(UsageError, match=rf"(?s){says}.*test_sql\.py:\d+") as caught:
        rs.sql(query, football=football())
    assert caught.value.code in code.split("|")


WORDS = st.sampled_from(
    [
        "SELECT",
        "FROM",
        "WHERE",
        "GROUP",
        "BY",
        "HAVING",
        "football",
        "sid",
        "v",
        "vx",
        "avg(v)",
        "count(*)",
        "TUMBLE(1",
        "SECOND)",
        "HOP(",
        "SESSION(5",
        "MINUTES)",
        ",",
        "*",
        "(",
        ")",
        ">",
        "<",
        "=",
        "'x'",
        "3",
        "1.5",
        "-1",
        "AND",
        "OR",
        "NOT",
        "IN",
        "BETWEEN",
        "CASE",
        "WHEN",
        "THEN",
        "ELSE",
        "END",
        "AS",
        "n",
        "CAST(",
        "DISTINCT",
        "JOIN",
        "UNION",
        "NULL",
        ";",
    ]
)


@examples_drawn(100, 2_000, st.lists(WORDS, max_size=14).map(" ".join) | st.text(max_size=40))
def test_no_text_raises_anything_but_our_errors(text: str) -> None:
    with contextlib.suppress(ResurgeError):
        rs.sql("SELECT " + text, football=football())
    with contextlib.suppress(ResurgeError):
        rs.sql(text, football=football())


def test_what_verbs_do_about_time_is_named() -> None:
    for query, verb in (
        ("SELECT DISTINCT team FROM football", r"\.distinct\(columns, within="),
        ("SELECT * FROM football MATCH_RECOGNIZE (PATTERN (A B) DEFINE A AS v > 1)", r"\.followed_by\(other, within="),
        (
            "SELECT team, count(*) FROM football GROUP BY TUMBLE(1 HOUR, 'Asia/Tokyo'), team",
            "'1d', '1w' or '1mo', not '1h'",
        ),
    ):
        with pytest.raises(UsageError, match=verb):
            rs.sql(query, football=football())
