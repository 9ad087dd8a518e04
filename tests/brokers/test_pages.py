"""What the page about operations says of a log in Kafka, typed as it stands there."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from cloud_backend.log.partitions import distance, open_log, place_in
from tests.brokers.cluster import Cluster
from tests.claims import Claim
from tests.docs.pages import blocks
from tests.patience import SPARK_PATIENCE_S, wait_until
from tests.processes.node_processes import ROOT

pytestmark = pytest.mark.brokers

PAGE = "docs/operations.md"


def started(words: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *words[1:]], cwd=ROOT, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def said(*words: str) -> str:
    """What a command prints that succeeds."""
    command = [sys.executable, "-m", "resurge", *words]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def test_a_gateway_and_a_job_on_kafka_as_the_page_has_them(tmp_path: Path, cluster: Cluster, claim: Claim) -> None:
    (block,) = [block for block in blocks(PAGE) if "tests/brokers" in block.marker]
    typed = [
        shlex.split(command.replace("HOST:9092,HOST:9093", cluster.address).replace("DIR", str(tmp_path)))
        for command in block.commands
    ]
    install, gateway_words, job_words, verify_words = typed
    assert install == ["pip", "install", "resurge[kafka]"]
    assert verify_words[:3] == ["resurge", "log", "verify"]
    said("plan", "resurge/examples/kilometres.py", "--output", str(tmp_path / "plan.bin"))
    gateway = started([word if word != "8750" else "0" for word in gateway_words])
    job = None
    try:
        assert json.loads(gateway.stdout.readline())["listening"]
        job = started(job_words)
        assert json.loads(job.stdout.readline())["ready"]
        link = json.loads(said("device", "pair", "--home", str(tmp_path / "gateway"), "--json").splitlines()[-1])[
            "link"
        ]
        node = ["node", "run", "--home", str(tmp_path / "phone"), "--link", link, "--sensor", "gps=synthetic:7"]
        said(*node, "--speed", "60", "--for", "5")
        log = open_log(job_words[job_words.index("--log") + 1])
        ends = wait_until(lambda: log.ends() if distance(log.starts(), log.ends()) else None, "something is in the log")
        stable = tmp_path / "spark" / "stable.json"

        def has_read() -> bool:
            read = place_in(json.loads(stable.read_bytes())["read"])
            return all(read[partition] >= end for partition, end in ends.items())

        wait_until(has_read, "the job has read it", again_after=FileNotFoundError, patience_s=SPARK_PATIENCE_S)
        checked = said(*verify_words[1:])
        assert "sound=True" in checked
        claim(f"1 gateway, 1 job, 1 node: {' '.join(checked.partition('sound=True')[2].split())}")
    finally:
        for process in filter(None, (job, gateway)):
            process.terminate()
            process.wait(60)
            process.stdout.close()
