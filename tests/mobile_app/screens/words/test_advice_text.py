"""One plain sentence on the buffer's size, as the phone's page and the command say it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mobile_app.node.view_state import STATUS_FILE, advice_view
from mobile_app.screens.words.advice_text import advice_line, buffer_words, loss_words
from resurge.cli import stream as cli
from shared.spool.advice import advise
from tests.user_interface import phone_world

MB = 1 << 20


@pytest.mark.parametrize(
    ("rate", "outages", "line"),
    [
        (0.0, [], "How long it would last without a gateway is not known yet."),
        (1000.0, [], "Empty, it lasts about 2 h 39 min without a gateway; no outage was seen so far."),
        (1000.0, [9.0] * 4, "Empty, it lasts about 2 h 39 min without a gateway; only 4 outages were seen so far."),
        (1000.0, [9.0] * 99 + [1e6], "Empty, it lasts about 2 h 39 min without a gateway; 99 of 100 outages ended within 9 s."),
        (1000.0, [9.0] * 98 + [36_000.0] * 2, "Empty, it lasts about 2 h 39 min without a gateway, but 1 of 100 outages lasted 10 h or longer: "
         "that long takes 39.8 MB."),
        (1000.0, [9.0] * 90 + [36_000.0] * 10, "Empty, it lasts about 2 h 39 min without a gateway, but 5 of 100 outages lasted 10 h or "
         "longer: that long takes 39.8 MB."),
    ],
)  # fmt: skip
def test_the_sentence(rate: float, outages: list[float], line: str) -> None:
    assert advice_line(advice_view(advise({"x": rate} if rate else {}, 10 * MB, outages))) == line


def test_what_waits_for_other_nodes_is_said_beside_what_waits_for_the_gateway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, fleet = advice_view(advise({}, 10 * MB, [])), advice_view(advise({"near": 1000.0}, 10 * MB, []))
    view = {
        "advice": own,
        "fleet_buffer": {"spool": {"used_bytes": 2 * MB, "capacity_bytes": 10 * MB}, "advice": fleet},
    }
    said = "Empty, it lasts about 2 h 39 min without other nodes; no outage was seen so far."
    assert said in buffer_words(view)
    assert buffer_words({**view, "fleet_buffer": None}) == advice_line(own)
    monkeypatch.setattr("mobile_app.service.inspection.inspect", lambda _home: view)
    printed = CliRunner().invoke(cli.app, ["advise", "--node", str(tmp_path)]).output
    assert said in printed.replace("\n", " ")
    as_json = json.loads(CliRunner().invoke(cli.app, ["advise", "--node", str(tmp_path), "--json"]).output)
    assert as_json["fleet"] == fleet


def test_losses_in_words() -> None:
    assert [loss_words(share) for share in (None, 0.0, 0.1234)] == [
        "lose nobody knows how much yet", "lose nothing", "lose 12.3 % of its readings",
    ]  # fmt: skip


def test_the_command_says_rates_sizes_and_losses_of_a_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    view: dict[str, Any] = phone_world.offline()
    (tmp_path / STATUS_FILE).write_text(json.dumps(view))
    monkeypatch.setattr("mobile_app.service.inspection.inspect", lambda _home: view)
    said = CliRunner().invoke(cli.app, ["advise", "--node", str(tmp_path), "--outage", "6h"])
    assert said.exit_code == 0, said.output
    lines = said.output.splitlines()
    assert lines[0] == "motion  4.0 KB/s behind the device's operators"
    assert lines[2].startswith(
        "buffer  52.4 MB. Empty, it lasts about 3 h 16 min without a gateway, but 1 of 100 outages"
    )
    assert "an outage of 6 h (6h) would lose 45.7 % of its readings" in lines
    shown = json.loads(CliRunner().invoke(cli.app, ["advise", "--node", str(tmp_path), "--json"]).output)
    assert shown["rates"] == {"trips": 41.0, "motion": 4020.0}
    assert set(shown["loss_at"]) == {"p95", "p99"}
