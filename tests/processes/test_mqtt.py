"""A real MQTT broker on both sides: its messages are a node's readings, and results are its messages."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cloud_backend.log.partitions import ONLY, open_log
from cloud_backend.results.store import ResultRow, Results
from shared.plan.encoding import encode_plan
from shared.stream.program import load_program
from shared.wire.frame import decode_one
from tests.log_batches import log_batches
from tests.patience import PATIENCE_S, wait_until
from tests.processes.brokers import Broker
from tests.processes.gateway_process import ROOT, GatewayProcess
from tests.processes.node_processes import Command, enrolment_link

pytestmark = pytest.mark.processes

PROGRAM = """
import resurge as rs

levels = rs.sensor("level", every="1s", columns={"topic": "str", "level": "float64"})
levels.sync("levels", batch=10, within="1s")
"""
READY = -1.0  # asks whether anybody hears


def logged(log: Path) -> list[tuple[str, float]]:
    reader = open_log(log)
    records = reader.read(ONLY, reader.starts()[ONLY], reader.ends()[ONLY])
    rows: list[tuple[str, float]] = []
    numbers: list[int] = []
    for batch in log_batches((decode_one(record.frame)[0] for _, record in records), "levels"):
        rows += zip(batch.columns["topic"].tolist(), batch.columns["level"].tolist(), strict=True)
        numbers += batch.seq.tolist()
    assert numbers == list(range(len(numbers)))  # each once, in order
    return [row for row in rows if row[1] != READY]


def test_messages_become_readings_also_those_that_came_while_the_node_was_dead(tmp_path, claim):
    (tmp_path / "program.py").write_text(PROGRAM)
    plan = tmp_path / "plan.bin"
    plan.write_bytes(encode_plan(load_program(tmp_path / "program.py")))
    sent = [("noise/hall", float(number)) for number in range(30)]
    with (
        Broker(tmp_path / "broker") as broker,
        GatewayProcess(tmp_path / "gateway", "--plan", str(plan)) as gateway,
        broker.client() as out,
    ):
        log, home = gateway.home / "log", tmp_path / "node"
        home.mkdir()
        (home / "settings.toml").write_text("loss_window_s = 0.5\nspool_mb = 4\n")
        run = (
            "run", "--home", str(home), "--link", enrolment_link(gateway), "--json",
            "--sensor", f"level=mqtt://127.0.0.1:{broker.port}/noise/+?client=bridge",
        )  # fmt: skip
        node = Command(*run)
        try:

            def hears() -> bool:
                out.publish("noise/probe", READY)
                return json.loads((home / "status.json").read_bytes()).get("produced", 0) > 0

            wait_until(hears, "the node to subscribe", again_after=(FileNotFoundError, ValueError))
            out.publish("noise/hall", *(level for _, level in sent[:10]), '{"loudness": "very"}', "loud")
            wait_until(lambda: len(logged(log)) == 11, "the first messages in the log")
            node.kill()
            out.publish("noise/hall", *(level for _, level in sent[10:20]))
            broker.stop()  # and it is back before the node is
            broker.start()
            node = Command(*run)
            out.publish("noise/hall", *(level for _, level in sent[20:]))
            wait_until(lambda: len(logged(log)) >= len(sent) + 1, "all messages in the log")
        finally:
            node.end()
        found = logged(log)
    # An object without the column is a row without a value; text is no number and never a row.
    assert [row for row in found if row[1] == row[1]] == sent
    assert len(found) == len(sent) + 1
    claim(f"faults 2, {len(sent)} messages in order in the log")


def rows(payloads: list[bytes]) -> dict[str, dict]:
    """What a receiver keeps: the highest revision of each identity."""
    kept: dict[str, dict] = {}
    for row in map(json.loads, payloads):
        if row["id"] not in kept or row["revision"] >= kept[row["id"]]["revision"]:
            kept[row["id"]] = row
    return kept


def command(gateway: GatewayProcess, *arguments: str) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-m", "resurge", *arguments, "--home", str(gateway.home), "--json"],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def answer(number: int, revision: int = 1) -> ResultRow:
    return ResultRow("km", "", ("tram 7", number), number, number + 1, revision, False, True, {"km": number * revision})


def test_results_reach_a_broker_that_was_away_and_a_killed_gateway_goes_on(tmp_path, claim):
    path = tmp_path / "results.sqlite"
    job = Results(path)
    job.publish(1, [answer(number) for number in range(10)])
    with (
        Broker(tmp_path / "broker") as broker,
        GatewayProcess(tmp_path / "gateway", "--results", str(path)) as gateway,
        broker.client("results/#") as heard,
    ):
        url = f"mqtt://127.0.0.1:{broker.port}/results/trams"
        command(gateway, "results", "follow", "hall", "km", url, "--private", "--retained")
        wait_until(lambda: len(rows([payload for _, payload in heard.messages])) == 10, "the first results")
        broker.stop()
        job.publish(2, [answer(number) for number in range(10, 20)] + [answer(0, 2)])

        def state() -> dict[str, object]:
            return command(gateway, "results", "followers")["followers"][0]

        wait_until(lambda: state()["state"] == "failing", "the failure to be said")
        gateway.kill()
        broker.start()
        gateway.start()
        wait_until(lambda: state()["state"] == "level", "the broker to be level")
        with broker.client("results/trams/tram 7/0") as late:
            wait_until(lambda: late.messages, "the row that the broker kept")
            assert [json.loads(payload)["values"] for _, payload in late.messages] == [{"km": 0}]
        wait_until(lambda: len(rows([payload for _, payload in heard.messages])) == 20, "all results")
    found = rows([payload for _, payload in heard.messages])
    assert sorted((row["key"][1], row["revision"]) for row in found.values()) == [
        (number, 2 if number == 0 else 1) for number in range(20)
    ]  # fmt: skip
    assert {topic for topic, _ in heard.messages} == {f"results/trams/tram 7/{number}" for number in range(20)}
    job.close()
    claim(f"faults 2, {len(found)} results at the broker, {len(heard.messages)} messages")
