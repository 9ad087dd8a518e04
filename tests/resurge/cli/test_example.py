"""`resurge example`: what there is, and what happens to a name or a directory that is not there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[3]


def example(*arguments: str, timeout_s: float = 2 * PATIENCE_S) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "resurge", "example", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=timeout_s)


def test_examples_are_listed():
    assert "trips" in json.loads(example("list", "--json").stdout)["examples"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(("run", "nowhere"), "example-unknown"), (("run", "trips", "--recording", "/nowhere"), "example-recording")],
)
def test_what_is_not_there_is_named(arguments, code):
    refused = example(*arguments)
    assert refused.returncode == 1
    assert f"[{code}]" in refused.stderr
    assert "Traceback" not in refused.stderr


def check(outcome: dict) -> None:
    assert outcome["digest"] == outcome["failure_free_digest"]
    assert outcome["produced"] == outcome["delivered"] + outcome["spooled"] + outcome["ledgered"]
    assert outcome["ledgered"] == outcome["duplicates"] == 0
    assert outcome["trips"] > 0
    assert outcome["outages_felt"] == outcome["outages"] > 0
    for name, outages in outcome["outages_by_person"].items():
        assert outages["felt"] == outages["scheduled"] > 0, name


@pytest.mark.soak
@pytest.mark.processes
@pytest.mark.timeout(600)
def test_made_up_people_lose_the_network_mid_trip_and_no_answer(tmp_path):
    played = example("run", "trips", "--for", "40", "--json", "--home", str(tmp_path / "home"), timeout_s=550)
    assert played.returncode == 0, played.stderr
    outcome = json.loads(played.stdout.splitlines()[-1])
    check(outcome)
    assert "/signin/once/" in played.stdout + played.stderr, "no link that signs in"
    assert 0 < outcome["gps_read"] < 0.5 * outcome["gps_unthinned"], "phones rest when their people do"


@pytest.mark.soak
@pytest.mark.processes
@pytest.mark.timeout(1800)
@pytest.mark.covers("SO-36")
def test_everyone_of_geolife_through_the_whole_product(tmp_path, outside_recordings):
    played = example(
        "run", "trips", "--for", "480", "--recording", str(outside_recordings / "geolife"), "--at-least", "2", "--json",
        "--home", str(tmp_path / "home"), timeout_s=1750,
    )  # fmt: skip
    assert played.returncode == 0, played.stderr
    check(json.loads(played.stdout.splitlines()[-1]))
