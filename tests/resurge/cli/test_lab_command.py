"""`resurge lab all`: what was missed, and what of that the records say as well."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from resurge.cli import lab
from resurge.lab import _figure
from resurge.lab._figure import report, shape


def test_what_the_record_misses_as_well_is_told_from_what_it_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def experiment(name: str, *holds: bool) -> SimpleNamespace:
        shapes = [shape(f"shape {number}", 1, 1, held) for number, held in enumerate(holds)]
        return SimpleNamespace(run=lambda: report(name, "Fig 0", shapes))

    labs = {"good": experiment("good", True), "known": experiment("known", True, False),
            "worse": experiment("worse", False, False)}  # fmt: skip
    monkeypatch.setattr(lab, "known_figures", lambda: list(labs))
    monkeypatch.setattr(lab, "_experiment", labs.__getitem__)
    monkeypatch.setattr(_figure, "RECORDS", tmp_path)
    for name in labs:
        (tmp_path / f"{name}.json").write_text(json.dumps(experiment(name, True, False).run()))
    done = CliRunner().invoke(lab.app, ["all", "--quick", "--json"])
    assert done.exit_code == 1
    found = json.loads(done.stdout.splitlines()[-1])
    assert [(each["ok"], each["missed"], each["missed_in_record"]) for each in found["labs"]] == [
        (True, [], []), (False, ["shape 1"], ["shape 1"]), (False, ["shape 0", "shape 1"], ["shape 1"]),
    ]  # fmt: skip
    said = [line.partition(" after ")[0] for line in done.stderr.splitlines() if " after " in line]
    assert said == ["good: ok", "known: NOT OK, as in its record", "worse: NOT OK"]
