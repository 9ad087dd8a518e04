"""Each lab reproduces its figure: the paper's shape shows, and what the paper leaves open is stated."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree

import pytest

from resurge.lab import mss_buffer, mss_loss, sonora_bytes, sonora_daily
from resurge.lab._figure import line_chart


@pytest.mark.covers("NB-17", "NB-18", "NB-19", "T7", "T8")
@pytest.mark.recordings
def test_loss_against_time_offline_has_the_papers_shape() -> None:
    report = mss_loss.run()
    assert [shape["name"] for shape in report["shapes"] if not shape["holds"]] == []
    assert dict(report["curves"]["query-aware"])[30.0] == pytest.approx(39.4, abs=0.2)
    assert dict(report["curves"]["query-aware, unfiltered"])[30.0] == pytest.approx(56.7, abs=0.2)
    json.dumps(report)


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
