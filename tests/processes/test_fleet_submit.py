"""Queries that a running fleet is given: placed by its links and capacities, the same results as `evaluate`, dropped."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from resurge.up.process_fleet import COORDINATOR
from shared.hosting.sink import sink_rows
from shared.hosting.store import stored_fleet
from shared.plan.deployment import Deployment, decode_deployment
from tests.claims import Claim
from tests.patience import SPARK_PATIENCE_S, wait_until
from tests.processes.fleets import Fleet, Program, digest, ideal
from tests.processes.gateway_process import ROOT

pytestmark = pytest.mark.processes
ROWS = 30_000
HEAD = """
import resurge as rs
from resurge import col
near = rs.sensor("count", every="5ms", columns={"v": "float64"}).gather("count", batch=20, within="200ms")
"""
FIRST = HEAD + 'near.sliding(count=2).aggregate(v=rs.min("v"), n=rs.count()).subscribe("first")\n'
SECOND = HEAD + (
    'pairs = near.where(col.v >= 0).sliding(count=2).aggregate(v=rs.min("v"), total=rs.sum("v"))\n'
    'pairs.sliding(count=3).aggregate(v=rs.min("v"), total=rs.sum("total")).subscribe("second")\n'
)
LINKS = '\n[[link]]\nbetween = ["phone", "hub1"]\nlane = "wifi"\n[[link]]\nbetween = ["hub1", "hub2"]\n[[link]]\nbetween = ["hub2", "laptop"]\n'


def run(*arguments: str, code: int = 0) -> dict[str, Any]:
    """A command's last line, or its refusal."""
    done = subprocess.run(
        [sys.executable, "-m", "resurge", "query", *arguments, "--json"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    value: dict[str, Any] = json.loads(done.stdout.splitlines()[-1]) if done.stdout.strip() else {"error": done.stderr}
    return value


@pytest.mark.covers("NB-1", "NB-2")
def test_a_query_is_submitted_to_a_running_fleet_placed_equal_and_dropped(tmp_path: Path, claim: Claim) -> None:
    first = Program("first", FIRST, {"count": "v"}, {"first": ("v", "n")}, ("tests.processes.faulty_operators",))
    fleet = Fleet(tmp_path, first, hubs=2, strategy="ecoc", rows=ROWS, every=100, hosts={"first": "hub2"})
    text = fleet.file.read_text()
    for name in ("phone", "hub1"):  # the phone runs nothing, the first hub has room for one vertex
        text = text.replace(f'name = "{name}"\n', f'name = "{name}"\ncapacity = {int(name == "hub1")}\n')
    fleet.file.write_text(text + LINKS)
    second = Program("second", SECOND, {"count": "v"}, {"second": ("v", "total")}, first.modules)
    path = tmp_path / "second.py"
    path.write_text(SECOND)
    home = str(tmp_path / COORDINATOR)

    def deployed() -> Deployment:
        return decode_deployment(stored_fleet(fleet.disk))

    def found(name: str, sink: str, *columns: str) -> list[tuple[Any, ...]]:
        query = next(query for query in deployed().queries if query.name == name)
        rows, lost = sink_rows(fleet.disk, query, sink)
        assert not lost
        assert [row["number"] for row in rows] == list(range(len(rows))), "a number is missing or came twice"
        return [tuple(row[column] for column in columns) for row in rows]

    fleet.start()
    try:
        fleet.wait_for(50, "results of the query in the file")
        asked = ["--from", "phone", "--to", COORDINATOR, "--home", home]
        before = deployed()
        refused = run("submit", "pairs", str(path), *asked, "--place", "push-down", "--on", "phone", code=1)
        assert "place-capacity" in str(refused)
        assert deployed() == before, "what is refused changes nothing"
        explained = run("explain", str(path), "--name", "pairs", *asked, "--place", "push-down")
        assert deployed() == before, "neither does what is only explained"
        submitted = run("submit", "pairs", str(path), *asked, "--place", "push-down", "--strategy", "ecoc")
        assert [each["hosts"] for each in submitted["vertices"]] == [["hub1"], ["hub2"]]
        assert [each["hosts"] for each in explained["vertices"]] == [["hub1"], ["hub2"]]
        assert [hop["node"] for hop in submitted["ways"][0]["hops"]] == ["phone", "hub1", "hub2", COORDINATOR]
        assert "query-name-taken" in str(run("submit", "pairs", str(path), *asked, code=1))
        wait_until(lambda: len(found("pairs", "second", "v")) >= 300, "results", patience_s=SPARK_PATIENCE_S)
        rows = found("pairs", "second", "v", "total")
        same = ideal(second, path, ROWS, {"second": rows})["second"]
        # SQL over what the fleet gathers is one more query.
        text = "SELECT v, v * 2 AS twice FROM count WHERE v >= 0"
        run("submit", "doubled", text, *asked, "--place", "cloud-only")
        wait_until(lambda: len(found("doubled", "doubled", "v")) >= 50, "rows of SQL", patience_s=SPARK_PATIENCE_S)
        doubled = found("doubled", "doubled", "v", "twice")
        # Neither is forgotten when the coordinator is killed, and both are dropped.
        fleet.kill(COORDINATOR)
        had = len(found("pairs", "second", "v"))
        fleet.start(COORDINATOR)
        wait_until(
            lambda: len(found("pairs", "second", "v")) > had + 100,
            "results after a restart",
            patience_s=SPARK_PATIENCE_S,
        )
        assert {each["name"]: each["submitted"] for each in run("list", "--home", home)["queries"]} == {
            "q": False, "pairs": True, "doubled": True,
        }  # fmt: skip
        assert "query-in-file" in str(run("drop", "q", "--home", home, code=1))
        old = next(query.incarnation for query in deployed().queries if query.name == "pairs")
        run("drop", "doubled", "--home", home)
        run("drop", "pairs", "--home", home)
        assert "query-not-found" in str(run("drop", "pairs", "--home", home, code=1))
        assert [query.name for query in deployed().queries] == ["q"]
        # Under its old name it is another query, which has read nothing yet.
        run("submit", "pairs", str(path), *asked, "--place", "top-down", "--strategy", "ecoc")
        assert next(query.incarnation for query in deployed().queries if query.name == "pairs") > old
        wait_until(
            lambda: len(found("pairs", "second", "v")) >= 100, "results of another query", patience_s=SPARK_PATIENCE_S
        )
        again = found("pairs", "second", "v", "total")
        same_again = ideal(second, path, ROWS, {"second": again})["second"]
        fleet.wait_for(fleet.count() + 100, "the query of the file goes on")
        states = {tmp.name for tmp in (tmp_path / "phone" / "fleet").glob("submitted-*")}
    except AssertionError:
        print(fleet.logs())
        raise
    finally:
        fleet.stop()
    compared = [(rows, same), (again, same_again)]
    claim(
        f"1 coordinator killed, 3 queries submitted, {sum(len(one) for one, _ in compared)} rows compared, digests "
        + ", ".join(f"{digest(one)} = {digest(other)}" for one, other in compared)
    )
    assert all(one and digest(one) == digest(other) for one, other in compared)
    assert again[0][0] > rows[0][0], "it began with the readings of its own time"
    assert all(twice == 2 * v for v, twice in doubled)
    assert len(states) == 1, "of those that were dropped nothing is kept on the phone"
