"""Each lab has its record, the charts that it draws with the paper's points, and a test that runs it."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import resurge.lab
from resurge.lab._figure import PAPER

ROOT = Path(__file__).resolve().parents[3]
RECORDS = ROOT / "docs" / "evaluation"
LABS = sorted(each.name for each in pkgutil.iter_modules(resurge.lab.__path__) if not each.name.startswith("_"))
# Of these the text of the paper that there is prints no points, as the page about the evaluation says.
NO_POINTS = {
    "ecoc_cpu", "ecoc_memory", "ecoc_overhead", "ecoc_recovery", "mss_recovery", "mss_redeploy", "regions_bytes",
    "regions_failures", "regions_throughput", "sonora_disconnect", "sonora_failure", "sonora_rebalance",
}  # fmt: skip
NOT_RECORDED = {"regions_server"}


@pytest.mark.parametrize("lab", LABS)
def test_a_lab_has_a_record_a_chart_with_the_papers_points_and_a_test(lab: str) -> None:
    tests = (path for path in (ROOT / "tests").rglob("test_*.py") if path.name != Path(__file__).name)
    assert any(lab in path.read_text() for path in tests), "nobody runs it"
    record = RECORDS / f"{lab.replace('_', '-')}.json"
    if lab in NOT_RECORDED and not record.is_file():
        return
    report = json.loads(record.read_text())
    charts = [(RECORDS / name).read_text() for name in drawn(report)]
    assert charts
    assert all(shape["paper"] != "" for shape in report["shapes"])
    if lab not in NO_POINTS:
        assert any(f">{PAPER}" in chart for chart in charts)


def drawn(report: dict[str, object]) -> Iterator[str]:
    for name in ("drawn", "also_drawn"):
        found = report.get(name, [])
        yield from [found] if isinstance(found, str) else found  # type: ignore[misc]


@pytest.mark.parametrize("lab", LABS)
def test_a_lab_can_be_called_as_its_quick_run_is(lab: str) -> None:
    experiment = importlib.import_module(f"resurge.lab.{lab}")
    inspect.signature(experiment.run).bind_partial(**getattr(experiment, "QUICK", {}))
