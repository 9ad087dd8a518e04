"""What Prometheus is told, and that the alert rules speak of it."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from tests.cloud_backend.dashboard.house import House

ROOT = Path(__file__).resolve().parents[3]
RULES = ROOT / "packaging" / "prometheus" / "alerts.yml"


def text_of(house: House) -> str:
    browser = house.browser()
    browser.bearer = (house.settings.home / "operator.token").read_text().strip()
    answer = browser.get("/metrics")
    assert answer.status_code == 200
    return answer.text


def test_the_state_of_devices_streams_and_jobs_is_told(dashboard):
    store = dashboard.settings.stable.parent
    store.mkdir(parents=True)
    (store / "stable.json").write_text('{"0": 0, "read": 0, "quarantined": 3}')
    (store / "status.json").write_text('{"epoch": 41, "parked": {"trips 0-512": "no"}}')
    text = text_of(dashboard)
    assert 'resurge_devices{state="heard"} 2.0' in text
    assert 'resurge_stream_elements{stream="gps"} 16.0' in text
    assert 'resurge_stream_ledgered_elements{stream="gps"} 4.0' in text
    assert 'resurge_job_epoch{job="main"} 41.0' in text
    assert 'resurge_job_quarantined_elements{job="main"} 3.0' in text
    assert 'resurge_job_parked_vertices{job="main"} 1.0' in text
    assert re.search(r'resurge_job_backlog_bytes\{job="main"\} [1-9]', text)


def test_a_job_that_said_nonsense_is_no_reason_to_fail(dashboard):
    store = dashboard.settings.stable.parent
    store.mkdir(parents=True)
    (store / "stable.json").write_text("[1]")
    (store / "status.json").write_text("{")
    assert "resurge_disk_free_bytes" in text_of(dashboard)


def test_every_alert_rule_speaks_of_a_metric_there_is_and_says_what_to_do(dashboard):
    text = text_of(dashboard)
    [group] = yaml.safe_load(RULES.read_text())["groups"]
    assert len(group["rules"]) >= 10
    for rule in group["rules"]:
        for name in re.findall(r"resurge_\w+", rule["expr"]):
            base = name.removesuffix("_bucket")
            assert f"# TYPE {base} " in text or f"# TYPE {base.removesuffix('_total')} " in text, name
        assert rule["annotations"]["remedy"]
        assert rule["labels"]["severity"] in ("info", "warning", "critical")
