"""Tests wait for a condition (tests/patience.py). A bare sleep is a guess at how fast a machine is."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOOKS_AGAIN = "between two looks at a condition of its own"
WORLD = "is part of the world that is tested: a slow link, a sensor, a process that lasts"
MAY = {
    "tests/patience.py": "the one place",
    "tests/packaging/device_run.py": LOOKS_AGAIN,
    "tests/processes/test_node_failures.py": "kills at a random moment, and " + LOOKS_AGAIN,
    "tests/processes/test_fleet_kills.py": "kills at a random moment",
    "tests/processes/faulty_operators.py": WORLD,
    "tests/processes/attackers.py": WORLD,
    "tests/processes/test_gateway_attacks.py": WORLD,
    "tests/processes/fleets.py": LOOKS_AGAIN,
    "tests/processes/region_fleets.py": LOOKS_AGAIN,
    "tests/processes/newcomer.py": LOOKS_AGAIN,
    "tests/processes/test_contracts.py": LOOKS_AGAIN,
    "tests/processes/test_fleet.py": LOOKS_AGAIN,
    "tests/processes/test_gateway_kills.py": LOOKS_AGAIN,
    "tests/processes/test_up.py": LOOKS_AGAIN,
    "tests/processes/test_live.py": WORLD,
    "tests/mobile_app/node/test_watchdog.py": "an operator that sleeps is what is interrupted",
    "tests/mobile_app/sensors/termux/commands/fake.py": WORLD,
    "tests/mobile_app/links/test_links.py": WORLD,
    "tests/spark/operators.py": WORLD,
    "tests/cloud_backend/spark/control/test_turns.py": WORLD,
    "tests/cloud_backend/spark/control/test_erasure.py": LOOKS_AGAIN,
    "tests/user_interface/phone.py": "between two frames",
    "tests/docs/test_story.py": LOOKS_AGAIN,
}


def sleeps(text: str) -> list[int]:
    """Lines that call time.sleep, or import it under a name of its own."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and node.attr == "sleep" and isinstance(node.value, ast.Name):
            found += [node.lineno] if node.value.id == "time" else []
        elif isinstance(node, ast.ImportFrom) and node.module == "time":
            found += [node.lineno for name in node.names if name.name == "sleep"]
    return found


def test_no_test_sleeps_for_a_time():
    found = {
        path.relative_to(ROOT).as_posix(): lines
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if (lines := sleeps(path.read_text(encoding="utf-8")))
    }
    assert {where: lines for where, lines in found.items() if where not in MAY} == {}, "wait_until, or let_pass"
    assert [where for where in MAY if where not in found] == [], "these sleep no more"


def test_where_time_is_the_subject_it_has_a_name():
    found = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "let_pass":
                named = isinstance(node.args[0], ast.Name) and node.args[0].id.isupper()
                found += [] if named else [f"{path.relative_to(ROOT)}:{node.lineno}"]
    assert found == []


def test_a_sleep_is_found_however_it_is_written():
    assert sleeps("import time\ntime.sleep(2.0)\n") == [2]
    assert sleeps("from time import sleep\nsleep(2.0)\n") == [1]
    assert sleeps("import asyncio\nasyncio.sleep(0)\n") == []
