"""Each lab reproduces its figure: the paper's shape shows, and what the paper leaves open is stated."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree

import pytest

from resurge.lab import mss_buffer, mss_loss, mss_recovery, mss_redeploy, mss_runtime, sonora_bytes, sonora_daily
from resurge.lab._figure import line_chart
from resurge.lab._paper_load import MEGABYTE, alerts_lost, loss
from shared.spool.evict import Evict


@pytest.mark.covers("T7", "T8")
@pytest.mark.recordings
def test_a_phone_out_of_reach_loses_what_its_spool_cannot_hold_and_no_rare_alert() -> None:
    assert 100 * loss(30, 50 * MEGABYTE, "filtered", Evict.QUERY_AWARE) == pytest.approx(39.4, abs=0.2)
    assert (alerts_lost(50 * MEGABYTE, Evict.OLDEST), alerts_lost(50 * MEGABYTE, Evict.QUERY_AWARE)) == (3, 0)


@pytest.mark.covers("NB-18", "NB-19", "T7", "NB-24")
@pytest.mark.soak
@pytest.mark.recordings
def test_loss_against_time_offline_has_the_papers_shape() -> None:
    report = mss_loss.run()
    assert [shape["name"] for shape in report["shapes"] if not shape["holds"]] == []
    assert dict(report["curves"]["query-aware"])[30.0] == pytest.approx(39.4, abs=0.2)
    assert dict(report["curves"]["query-aware, unfiltered"])[30.0] == pytest.approx(56.7, abs=0.2)
    json.dumps(report)


@pytest.mark.soak
@pytest.mark.covers("NB-22")
@pytest.mark.recordings
def test_loss_against_the_size_of_the_spool_has_the_papers_shape() -> None:
    report = mss_buffer.run()
    assert [shape["name"] for shape in report["shapes"] if not shape["holds"]] == []
    json.dumps(report)


@pytest.mark.covers("SO-11", "SO-12", "SO-43")
@pytest.mark.recordings
def test_batching_and_compression_save_at_least_what_the_paper_saved() -> None:
    report = sonora_bytes.run()
    assert [shape["name"] for shape in report["shapes"] if not shape["holds"]] == []
    assert report["megabytes"]["batch + codec"] < report["megabytes"]["batch 1 min"] < report["megabytes"]["none"]
    json.dumps(report)


@pytest.mark.covers("SO-41")
def test_daily_views_of_a_program_give_the_answers_of_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sonora_daily, "WORDS_A_DAY", 3000)
    report = sonora_daily.run()
    held = {shape["name"]: shape["holds"] for shape in report["shapes"]}
    assert held["answers agree on every day asked"]
    assert held["share of the views' bytes that a late word changes"]
    json.dumps(report)


def test_a_chart_is_well_formed_and_names_its_lines() -> None:
    text = line_chart("a < b", "seconds", "percent", {"FIFO & co": [(0.0, 0.0), (1.0, 2.0)]})
    assert ElementTree.fromstring(text).tag.endswith("svg")
    assert "FIFO &amp; co" in text


@pytest.mark.covers("NB-23")
def test_a_phone_that_is_back_elsewhere_recovers_alike_on_every_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mss_recovery, "draw", lambda *_: None)
    report = mss_recovery.run((4, 5), (1, 2))
    assert [shape["name"] for shape in report["shapes"] if not shape["holds"]] == []
    assert all(each["rows"] > 4_000 for each in report["by_length"].values()), "it had something to bring back"
    theirs, ours = report["by_paths"]["one by one"], report["by_paths"]["ours"]
    assert theirs["2"]["megabytes"] > 1.1 * theirs["1"]["megabytes"], "the second way carries rows, too"
    assert ours["2"]["megabytes"] < 1.05 * ours["1"]["megabytes"]
    json.dumps(report)


@pytest.mark.covers("NB-20", "NB-21")
def test_a_query_takes_as_long_where_its_phone_was_out_of_reach_and_longer_where_it_is_deployed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One disconnection in few and small batches: the shapes themselves take minutes."""
    monkeypatch.setattr(mss_runtime, "BATCH", 100)
    monkeypatch.setattr(mss_runtime, "TUPLES", 8_000)
    ways = (mss_runtime.OURS, mss_runtime.WHOLE, mss_runtime.VANILLA)
    undisturbed = mss_runtime.LeavingFleet(mss_runtime.OURS, 0, 0).runtime()
    ours, whole, vanilla = (mss_runtime.LeavingFleet(way, 1, 1).runtime() for way in ways)
    assert ours <= 1.1 * undisturbed
    assert vanilla >= undisturbed + mss_runtime.AWAY_S
    assert whole == pytest.approx(vanilla, rel=0.15)


@pytest.mark.soak
@pytest.mark.covers("NB-18", "NB-20", "NB-21")
def test_the_runtime_of_a_query_has_the_papers_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mss_runtime, "draw", lambda *_: None)
    report = mss_runtime.run()
    assert [shape["name"] for shape in report["shapes"] if not shape["holds"]] == []
    json.dumps(report)


@pytest.mark.covers("NB-10", "NB-11")
def test_only_the_query_that_needs_it_is_deployed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mss_redeploy, "QUERIES", 2)
    monkeypatch.setattr(mss_redeploy, "AFTER_S", 5.0)
    nothing, one, all_of_them = (mss_redeploy.redeploy(4, which) for which in mss_redeploy.CASES)
    assert (nothing.deployed_s, nothing.begun, nothing.read_again) == (0.0, 0, 0)
    assert one.deployed_s > 0
    assert (one.begun, one.read_again) == (0, 0)
    assert one.others_s == pytest.approx(nothing.others_s, abs=0.1)
    assert all_of_them.begun == 2
    assert all_of_them.read_again > 0


@pytest.mark.soak
@pytest.mark.covers("NB-10", "NB-11")
def test_deploying_one_of_eight_queries_again_is_cheaper_than_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mss_redeploy, "draw", lambda *_: None)
    report = mss_redeploy.run()
    # Of what is left of a deployment most is its header and signature, for the one as for all: a goal that is missed.
    assert [shape["name"] for shape in report["shapes"] if not shape["holds"]] == [mss_redeploy.SHORTER]
    json.dumps(report)
