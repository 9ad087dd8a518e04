"""`make test`: every suite in stages, each with its seconds, its budget and its skips.

Runs under any Python, before the environment exists: its first stage makes it. A stage over its budget is
said, not failed: machines differ. A skip fails the run when root, because then everything can be installed;
only recordings that lie outside the repository may be absent.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = str(ROOT / ".venv" / "bin" / "python")
REPORTS = ROOT / ".resurge" / "test-reports"
UNIT = "not (sim or spark or processes or ui or soak)"
RECORDINGS_ABSENT = "recordings absent"

PYTEST = [PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
STAGES: dict[str, tuple[int, list[list[str]]]] = {
    "install": (240, [["make", "--no-print-directory", "setup"]]),
    "check": (
        60,
        [
            [PYTHON, "-m", "ruff", "check", "."],
            [PYTHON, "-m", "ruff", "format", "--check", "."],
            [PYTHON, "-m", "mypy"],
            [*PYTEST, "tests/architecture"],
        ],
    ),
    "unit": (
        120,
        [
            [
                *PYTEST,
                "-n",
                "2",
                "-m",
                UNIT,
                "--ignore=tests/architecture",
                "--ignore=tests/simulation",
                "--ignore=tests/spark",
                "--ignore=tests/processes",
            ]
        ],
    ),
    "sim": (
        120,
        [
            [PYTHON, "-m", "tests.simulation.run", "--seeds", "500", "--json"],
            [*PYTEST, "-n", "2", "-m", "not soak", "tests/simulation"],
        ],
    ),
    "spark": (240, [[*PYTEST, "-m", "not soak", "tests/spark"]]),
    "processes": (120, [[*PYTEST, "-m", "not soak", "tests/processes"]]),
    "ui": (180, [[*PYTEST, "-m", "ui and not soak", "tests/user_interface"]]),
}
SOAK = [
    [PYTHON, "-m", "tests.simulation.run", "--seeds", "2000", "--json"],
    [*PYTEST, "-m", "soak", "--timeout=3600"],
]


def run_stage(name: str, commands: list[list[str]]) -> tuple[bool, list[str]]:
    """Run a stage's commands until one fails; return whether all passed, and the reasons of skipped tests."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "RESURGE_SOAK": "1" if name == "soak" else ""}
    skips: list[str] = []
    for number, command in enumerate(commands):
        is_pytest = "pytest" in command
        report = REPORTS / f"{name}-{number}.xml"
        arguments = [*command, f"--junitxml={report}"] if is_pytest else command
        passed = subprocess.run(arguments, cwd=ROOT, env=environment, check=False).returncode == 0
        if is_pytest and report.exists():
            skips += [element.get("message", "") for element in ElementTree.parse(report).iter("skipped")]
        if not passed:
            return False, skips
    return True, skips


def main(names: list[str]) -> int:
    REPORTS.mkdir(parents=True, exist_ok=True)
    chosen = names or list(STAGES)
    failed: list[str] = []
    lines: list[str] = []
    for name in chosen:
        budget, commands = (0, SOAK) if name == "soak" else STAGES[name]
        print(f"\n===== {name}", flush=True)
        started = time.monotonic()
        passed, skips = run_stage(name, commands)
        seconds = time.monotonic() - started
        forbidden = [skip for skip in skips if RECORDINGS_ABSENT not in skip] if os.geteuid() == 0 else []
        if not passed or forbidden:
            failed.append(name)
        over = f" (over its budget of {budget} s)" if budget and seconds > budget else ""
        verdict = "failed" if not passed else "skips are not allowed as root" if forbidden else "passed"
        lines.append(f"{name:<10} {verdict:<8} {seconds:6.1f} s  skips {len(skips)}{over}")
        lines += [f"           skipped: {reason}" for reason in sorted(set(skips))]
        if name == "install" and not passed:
            break
    print("\n===== stages\n" + "\n".join(lines))
    print(f"{len(chosen) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
