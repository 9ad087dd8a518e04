"""The energy model reproduces Sonora's watts from its parameters, and says that it is one."""

from __future__ import annotations

import json

import pytest

from resurge.lab import sonora_energy
from shared.energy_model import PhonePower, adaptive_w, joules, radio_share, sensing_w, syncing_w

PHONE = PhonePower()


@pytest.mark.covers("SO-42", "SO-43")
def test_the_papers_tables_follow_from_the_parameters() -> None:
    report = sonora_energy.run()
    assert [shape["name"] for shape in report["shapes"] if not shape["holds"]] == []
    assert report["modelled"] is True
    json.dumps(report)


def test_reading_less_often_than_the_paper_costs_less_and_more_often_no_more() -> None:
    assert sensing_w(PHONE, {"gps": 50.0}) == pytest.approx(0.071)
    assert sensing_w(PHONE, {"gps": 1.0}) == sensing_w(PHONE, {"gps": 5.0}) == pytest.approx(0.71)
    assert sensing_w(PHONE, {"gyroscope": 5.0}) == PHONE.other_sensor_w
    assert sensing_w(PHONE, {}) == 0.0


def test_longer_batches_let_the_radio_sleep_until_their_bytes_take_over() -> None:
    shares = [radio_share(PHONE, 1000.0 * every, every) for every in (1.0, 15.0, 60.0, 600.0)]
    assert shares[0] == 1.0
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] > 1000 / PHONE.uplink_bytes_per_s
    assert syncing_w(PHONE, 0.0, 1.0) == PHONE.radio_w


def test_adapting_never_costs_more_than_its_two_parts() -> None:
    outdoors, indoors = {"gps": 5.0, "cell": 5.0}, {"cell": 5.0}
    watts = [adaptive_w(PHONE, outdoors, indoors, share / 10) for share in range(11)]
    assert watts == sorted(watts, reverse=True)
    assert watts[-1] == pytest.approx(PHONE.base_w + 0.11)


def test_a_runs_joules_are_the_tables_watts_times_its_seconds() -> None:
    half_hour = joules(
        seconds=1800.0, readings={"gps": 360, "accelerometer": 360, "battery": 360}, exchanges=0, bytes_sent=0
    )
    assert half_hour["total"] / 1800 == pytest.approx(1.00)
    batched = joules(seconds=1800.0, readings={}, exchanges=30, bytes_sent=2_087_000)
    assert batched["total"] / 1800 == pytest.approx(0.50, abs=0.01)
    assert joules(seconds=10.0, readings={}, exchanges=100, bytes_sent=0)["radio"] == pytest.approx(11.8)
