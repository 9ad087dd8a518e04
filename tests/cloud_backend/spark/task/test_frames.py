"""Frame operators without a session: what they see, what is refused, and what a job makes of one that raises."""

from __future__ import annotations

from pathlib import Path

import pytest

import resurge as rs
import tests.spark.frame_operators  # noqa: F401  registers them
from cloud_backend.spark.rollback.roll_back import roll_back
from shared.engine import frame_rows
from shared.engine.pipeline import Pipeline
from shared.plan.graph import Plan
from shared.plan.placement import cloud_fragment
from tests.spark.worlds import World

GIVEN = {"walk": {"time": [0, 1_000_000, 2_000_000], "x": [1.0, -2.0, 3.0], "cell": [2, 2, 3]}}


def walk() -> rs.Stream:
    return rs.sensor("walk", every="1s", columns={"x": "float64", "cell": "int64"})


def scored_plan(faults: str = "", factor: float = 2.0) -> Plan:
    """A frame vertex, then one by cell behind it."""
    scored = walk().sync("walk", batch=20).apply("tests_frame_scores", faults=faults, factor=factor)
    cells = scored.key_by("cell").tumbling("30s").aggregate(n=rs.count(), total=rs.sum("x"))
    return rs.plan_of(scored.subscribe("scored"), cells.subscribe("cells"), name="scored")


def test_a_frame_may_have_fewer_rows_and_more() -> None:
    found = rs.evaluate(walk().sync("walk").apply("tests_frame_scores"), GIVEN)["out"]
    assert found["label"].tolist() == ["once", "twice", "once"]
    assert found["x"].tolist() == [1.0, 2.0, 3.0]
    assert found["time"].tolist() == [0, 0, 2_000_000]


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("missing", "lacks the column 'n'"),
        ("nan", "column 'n' .* takes int64, not nan in row 1"),
        ("text", "column 'n' .* takes int64, not one "),
        ("late", "column 'time' is 3600000000 us in row 0"),
        ("key", "column 'device' says 'another' in row 0"),
        ("none", "gave NoneType"),
    ],
)
def test_a_bad_frame_is_refused_by_operator_column_and_row(how: str, says: str) -> None:
    with pytest.raises(rs.UsageError, match=says) as refused:
        rs.evaluate(walk().sync("walk").apply("tests_frame_bad", how=how), GIVEN)
    assert refused.value.code == "operator-output"
    assert "tests_frame_bad" in str(refused.value)


@pytest.mark.parametrize("key", [("cell",), ("device", "cell"), ()])
def test_times_are_held_against_the_rows_of_their_own_key(key: tuple[str, ...]) -> None:
    """Cell 2 has rows until second 1, cell 3 at second 2 only: a second later is behind each of them."""
    shifted = walk().sync("walk").key_by(*key).apply("tests_frame_bad", how="second")
    says = "2000000 us in row 1; .* from 0 to 1000000 us" if key else "3000000 us in row 2; .* from 0 to 2000000 us"
    with pytest.raises(rs.UsageError, match=says):
        rs.evaluate(shifted, GIVEN)


@pytest.mark.parametrize("side", ["device", "region"])
def test_a_frame_operator_outside_the_cloud_is_refused_by_name(side: str) -> None:
    near = walk() if side == "device" else walk().gather("near")
    with pytest.raises(rs.UsageError, match=f"'tests_frame_scores' stands on the {side}") as refused:
        rs.plan_of(near.apply("tests_frame_scores").sync("walk"))
    assert refused.value.code == "placement-frame"


def test_without_dataframes_it_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_rows, "_callers", [])
    with pytest.raises(rs.UsageError, match="tests_frame_scores") as refused:
        Pipeline(cloud_fragment(scored_plan()))
    assert refused.value.code == "operator-frame"


def test_a_job_gives_what_one_pipeline_gives(tmp_path: Path) -> None:
    world = World(tmp_path, scored_plan())
    world.started(3)
    world.check(least_rows=100)


def test_the_row_it_cannot_bear_is_quarantined_and_the_others_count(tmp_path: Path) -> None:
    world = World(tmp_path, scored_plan())
    driver = world.driver()
    world.append(poison=2)
    driver.drain()
    left_out = [
        each
        for lineage in driver.manifest.vertices["scored"].values()
        for commit in lineage.commits.values()
        for each in commit.quarantined
    ]
    assert [each.code for each in left_out] == ["task-operator"]
    assert "cannot bear 666" in left_out[0].reason
    assert len(world.results.current()) > 50


def refusing_plan(operator: str, behind: str, faults: str) -> Plan:
    """An operator that raises for every row, behind the log or behind a vertex whose rows wait for time to pass."""
    up = walk().sync("walk", batch=20)
    mine = up.tumbling("10s").aggregate(total=rs.sum("x"), cell=rs.last("cell"))
    cells = up.key_by("cell").tumbling("30s").aggregate(n=rs.count())
    source, others = (up.extend(total=rs.col.x), cells) if behind == "log" else (mine.key_by("cell"), mine)
    marked = source.apply(operator, faults=faults)
    return rs.plan_of(others.subscribe("others"), marked.subscribe("marked"), name="refusing")


@pytest.mark.parametrize("operator", ["tests_frame_refuses", "tests_rows_refuse"])
@pytest.mark.parametrize(
    ("behind", "says"),
    [("log", "more than 64 batches of one epoch raise"), ("vertex", "ValueError: cannot bear anything")],
)
def test_one_that_raises_for_every_row_waits_as_any_other_and_the_rest_goes_on(
    tmp_path: Path, operator: str, behind: str, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(tmp_path, refusing_plan(operator, behind, str(tmp_path)), devices=40)
    driver = world.started(2)
    parked = driver.status()["parked"]
    assert all(f"range {name} is parked" in caplog.text for name in parked)
    assert says not in caplog.text, "an exception may hold what somebody measured: it is on the job's page only"
    assert {name.split()[0] for name in parked} == {"marked"}
    assert all(why.startswith("operator: ") and says in why for why in parked.values())
    assert {(each["vertex"], each["kind"]) for each in driver.status()["exceptions"]} == {("marked", "operator")}
    assert (driver.manifest.position("others"), driver.manifest.position("marked")) == (2, 0)
    assert {row.sink for row in world.results.current()} == {"others"}
    (tmp_path / "cured").touch()
    world.driver().drain()
    world.check(least_rows=200)


def test_a_rollback_through_a_frame_vertex_gives_the_same_digest(tmp_path: Path) -> None:
    world = World(tmp_path, scored_plan())
    driver = world.started(4)
    before, commits = world.results.digest(), driver.events.commits
    roll_back(driver.store.root, "scored", 1)
    driver.drain()
    assert driver.events.commits - commits == 3  # epochs 2 to 4 of the frame vertex; its rows were the same
    assert driver.events.cascades == 0
    assert world.results.digest() == before
    world.check(least_rows=100)


def test_a_rollback_with_a_corrected_frame_operator_corrects_what_reads_it(tmp_path: Path) -> None:
    world = World(tmp_path, scored_plan(factor=7.0))
    driver = world.started(4)
    fixed = scored_plan()
    roll_back(driver.store.root, "scored", 0, fixed=fixed)
    world.append()
    driver.drain()
    world.plan = fixed
    world.check(least_rows=100)
