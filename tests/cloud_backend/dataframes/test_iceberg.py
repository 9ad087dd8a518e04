"""What only an Iceberg table can meet: two who write it at once, kills inside of a commit, a catalog of somebody else."""

from __future__ import annotations

from dataclasses import replace

import pyiceberg.catalog
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.utils.config import Config

from cloud_backend.dataframes import iceberg, lake
from cloud_backend.dataframes.iceberg import IcebergTable
from cloud_backend.dataframes.lake import keep_up
from cloud_backend.results.rows import ResultRow
from cloud_backend.results.store import Results
from shared.errors import UsageError
from tests.cloud_backend.dataframes.lakes import rows_of

ROW = ResultRow("trips", "", ("ann",), 0, 10, 1, False, True, {"km": 1.5})


class Killed(BaseException):
    pass


@pytest.fixture
def results(tmp_path):
    return Results(tmp_path / "results.sqlite")


def follow(results, directory, **how):
    return list(keep_up(results, "trips", IcebergTable(str(directory), "trips"), **how))


@pytest.mark.parametrize("committed", [False, True], ids=["before the catalog has it", "after the catalog has it"])
def test_killed_inside_of_a_commit_it_goes_on_exactly(results, tmp_path, monkeypatch, committed):
    results.publish(1, [replace(ROW, key=(f"p{number}",)) for number in range(3)])
    follow(results, tmp_path / "lake")
    results.publish(2, [replace(ROW, key=("p1",), revision=2, values={"km": 9.0}), replace(ROW, key=("new",))])
    real = SqlCatalog.commit_table

    def dying(*arguments):
        if committed:
            real(*arguments)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(SqlCatalog, "commit_table", dying)
        with pytest.raises(Killed):
            follow(results, tmp_path / "lake")
    assert len(follow(results, tmp_path / "lake")) == (0 if committed else 1)
    assert [(row["key_1"], row["km"]) for row in rows_of("iceberg", tmp_path / "lake", "trips")] == [
        ("new", 1.5), ("p0", 1.5), ("p1", 9.0), ("p2", 1.5),
    ]  # fmt: skip


def test_of_two_who_write_at_once_one_is_refused_and_no_row_is_there_twice(results, tmp_path, monkeypatch):
    results.publish(1, [ROW])
    follow(results, tmp_path / "lake")
    results.publish(2, [replace(ROW, key=("bob",))])
    real, others = SqlCatalog.commit_table, []

    def overtaken(*arguments):
        if not others:
            others.append(1)
            follow(results, tmp_path / "lake")  # between what this one read and what it writes
        return real(*arguments)

    monkeypatch.setattr(SqlCatalog, "commit_table", overtaken)
    with pytest.raises(UsageError, match="cannot be read or written: Requirement failed") as refused:
        follow(results, tmp_path / "lake")
    assert refused.value.code == "dataframe-table"
    assert [row["key_1"] for row in rows_of("iceberg", tmp_path / "lake", "trips")] == ["ann", "bob"]
    assert follow(results, tmp_path / "lake") == []


def test_a_step_without_a_row_is_refused_too_when_somebody_wrote_what_it_would_have_taken_back(
    results, tmp_path, monkeypatch
):
    """Its place alone would be ahead of a row that nobody takes back any more."""
    results.publish(1, [ROW])
    follow(results, tmp_path / "lake")
    bob = replace(ROW, key=("bob",))
    results.publish(2, [bob])
    results.publish(3, [replace(bob, revision=2, retract=True, values={})])
    real, others = SqlCatalog.commit_table, []

    def overtaken(*arguments):
        if not others:
            others.append(1)
            late = IcebergTable(str(tmp_path / "lake"), "trips")  # of a process that read before the retraction came
            late.merge(lake._as_table([bob], late.types(), ()), "trips", 2)
        return real(*arguments)

    monkeypatch.setattr(SqlCatalog, "commit_table", overtaken)
    with pytest.raises(UsageError, match="Requirement failed"):
        follow(results, tmp_path / "lake")
    follow(results, tmp_path / "lake")
    assert [row["key_1"] for row in rows_of("iceberg", tmp_path / "lake", "trips")] == ["ann"]


def test_a_catalog_that_pyiceberg_is_configured_for_has_the_table(results, tmp_path, monkeypatch):
    monkeypatch.setenv("PYICEBERG_CATALOG__TOWN__URI", f"sqlite:///{tmp_path}/town.sqlite")
    monkeypatch.setenv("PYICEBERG_CATALOG__TOWN__WAREHOUSE", (tmp_path / "warehouse").as_uri())
    monkeypatch.setattr(pyiceberg.catalog, "_ENV_CONFIG", Config())  # as it is read when a process begins
    catalog = load_catalog("town")
    catalog.create_namespace("lake")
    results.publish(1, [ROW])
    table = IcebergTable("lake.trips", "trips", "town")
    assert len(list(keep_up(results, "trips", table, ["who"]))) == 1
    assert catalog.load_table("lake.trips").scan().to_arrow()["who"].to_pylist() == ["ann"]
    with catalog.load_table("lake.trips").transaction() as others:  # its retries would write a row twice
        others.set_properties({"commit.retry.num-retries": "4"})
    results.publish(2, [replace(ROW, revision=2, values={"km": 3.0})])
    assert len(list(keep_up(results, "trips", table, ["who"]))) == 1
    assert catalog.load_table("lake.trips").properties["commit.retry.num-retries"] == "0"
    catalog.close()


@pytest.mark.parametrize("name", ["trips", "lake.", ".trips"])
def test_a_name_without_a_namespace_is_refused(name):
    with pytest.raises(UsageError, match=r"write NAMESPACE\.TABLE") as refused:
        IcebergTable(name, "trips", "town")
    assert refused.value.code == "dataframe-table"


@pytest.mark.parametrize("uri", ["", "http://127.0.0.1:9/", "postgresql://127.0.0.1:9/none", "thrift://127.0.0.1:9/"])
def test_a_catalog_that_is_not_configured_or_does_not_answer_is_refused_in_one_line(monkeypatch, uri):
    if uri:
        monkeypatch.setenv("PYICEBERG_CATALOG__NOWHERE__URI", uri)
    monkeypatch.setattr(pyiceberg.catalog, "_ENV_CONFIG", Config())
    with pytest.raises(UsageError, match="cannot be read or written") as refused:
        IcebergTable("lake.trips", "trips", "nowhere").place("trips")
    assert "\n" not in refused.value.message
    assert refused.value.code == "dataframe-table"


def test_a_table_that_is_followed_for_long_lists_its_last_states_only(results, tmp_path, monkeypatch):
    """Each commit would cost more than the one before it."""
    monkeypatch.setitem(iceberg.MADE, iceberg.KEEP, "4")
    monkeypatch.setitem(iceberg.MADE, "write.metadata.previous-versions-max", "3")
    monkeypatch.setitem(iceberg.MADE, "commit.manifest.min-count-to-merge", "5")
    for number in range(12):
        results.publish(number + 1, [replace(ROW, key=(f"p{number}",), window_start_us=number)])
    first = IcebergTable(str(tmp_path / "lake"), "trips")
    assert len(list(keep_up(results, "trips", first, step=1))) == 12
    catalog = SqlCatalog("resurge", uri=f"sqlite:///{tmp_path}/lake/catalog.sqlite")
    table = catalog.load_table("resurge.trips")
    assert len(table.snapshots()) == 4
    assert len(list((tmp_path / "lake").rglob("*.metadata.json"))) <= 5
    assert len(table.inspect.manifests()) <= 5
    assert len(rows_of("iceberg", tmp_path / "lake", "trips")) == 12
    with table.transaction() as others:  # somebody wants all of them
        others.remove_properties(iceberg.KEEP)
    catalog.close()
    results.publish(13, [replace(ROW, key=(f"p{number}",), window_start_us=number, revision=2) for number in range(6)])
    list(keep_up(results, "trips", IcebergTable(str(tmp_path / "lake"), "trips"), step=1))
    assert len(catalog.load_table("resurge.trips").snapshots()) > 4 + 6
    catalog.close()
