"""`make test`: every suite in stages, each with its seconds, its budget and its skips.

Runs under any Python, before the environment exists: its first stage makes it. A stage over its budget is
said, not failed: machines differ. A test may be skipped for one of the two reasons in `skips.py`; any other
skip fails its stage, for root and for everybody else. `stages.py recordings` runs again, where recordings lie
beside the clone or RESURGE_RECORDINGS names them, what reads them; there none of them may be skipped. A test that ran out of
patience beside the others is run once more, alone, and that is said (`again.py`); any other failure fails its stage.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from contextlib import nullcontext
from pathlib import Path

from again import MOST, out_of_patience
from scratch import scratch
from skips import OTHER_REASON, RECORDINGS, forbidden

ROOT = Path(__file__).resolve().parent.parent
PYTHON = str(ROOT / ".venv" / "bin" / "python")
REPORTS = ROOT / ".resurge" / "test-reports"
UNIT = "not (sim or spark or processes or brokers or ui or soak)"

# What a test that passed has written goes away with it: it may lie in memory.
PYTEST = [PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "tmp_path_retention_policy=failed"]
# The whole product, which mostly waits for Spark, beside its parts, which mostly wait for each other.
TERMUX = ["tests/mobile_app/sensors/termux/test_node.py"]
FLEETS = [f"tests/processes/test_{part}.py" for part in ("fleet", "fleet_kills", "fleet_moves", "fleet_shares")]
CLOUDED = [f"tests/processes/test_{part}.py" for part in ("fleet_to_cloud", "moves_phone_hub_cloud")]
GOVERNED = [f"tests/processes/test_{part}.py" for part in ("governed_fleet", "gateway_standby", "fleet_submit")]
PRODUCT = [f"tests/processes/test_{part}.py" for part in ("up", "up_processes", "peers_bench")]
PAGES = ["tests/processes/test_pages.py", "tests/processes/test_node_failures.py", *TERMUX]
NODES = ["tests/processes/test_node.py"]
STREAMS = [f"tests/processes/test_{part}.py" for part in ("changed_streams", "mqtt", "contracts", "backup", "live")]
GATEWAYS = [f"tests/processes/test_gateway_{part}.py" for part in ("attacks", "hostile", "kills", "postgres")]
PROCESSES = (PRODUCT, FLEETS, GOVERNED, CLOUDED, PAGES, NODES, STREAMS, GATEWAYS)
# Units that belong to what another stage is about, and would make the units' own stage too long.
JOBS = ["tests/cloud_backend/spark", "tests/conformance"]
CRASHES = ["tests/cloud_backend/log/test_crashes.py", "tests/shared/spool/test_crash_images.py"]
PEERS = "tests/simulation/peers"
LABS = ["tests/resurge/lab", "tests/resurge/examples/trips/test_modes.py"]
# What the dashboard answers without a browser, beside what a browser sees of it.
SERVED = [f"tests/cloud_backend/dashboard/{part}" for part in ("acts", "api", "pages", "views")]
WHOLE = ["tests/packaging", "tests/docs/test_story.py", "tests/cloud_backend/dashboard/api/test_contract.py"]
# Runs that each collect only their own: workers of one run would each collect everything. A node's tests wait a lot.
CLOUD, DOORS = ["tests/cloud_backend"], ["tests/resurge", "tests/formats"]
NODE, HEADLESS, APPS = ["tests/mobile_app/node"], ["tests/mobile_app/test_headless.py"], ["tests/mobile_app"]
OTHER_STAGES_OWN = [f"tests/{name}" for name in ("architecture", "simulation", "spark", "processes", "brokers")]
ELSEWHERE = [*OTHER_STAGES_OWN, *JOBS, *CRASHES, *LABS, *WHOLE, *TERMUX, *SERVED]
# Brokers that are killed have a cluster of their own. Not side by side: six brokers on two cores lose their sessions.
KILLED_BROKERS = [f"tests/brokers/test_{part}.py" for part in ("faults", "several_gateways")]
PHONE = ["tests/user_interface/test_phone_screens.py"]
APP = [f"tests/user_interface/test_phone_{part}.py" for part in ("service", "starts", "window")]
STORY = ["tests/user_interface/test_dashboard_story.py"]
SIDE_BY_SIDE = {"check", "unit", "sim", "spark", "processes", "ui"}
TESTS_FAILED = 1  # pytest's own code for it; any other means that it did not get to the end
ON_DISK = {"install", "soak"}  # every other stage keeps its files in memory where it can
STAGES: dict[str, tuple[int, list[list[str]]]] = {
    "install": (240, [["make", "--no-print-directory", "setup"]]),
    "check": (
        60,
        [
            [PYTHON, "-m", "ruff", "check", "."],
            [PYTHON, "-m", "ruff", "format", "--check", "."],
            [PYTHON, "-m", "mypy"],
            [*PYTEST, "-m", "not soak", "tests/architecture", *WHOLE],
            [*PYTEST, "-q", "--collect-only"],  # every test is compiled here once, not by each worker of the next stage
        ],
    ),
    "unit": (
        120,
        [
            [*PYTEST, "-m", UNIT, *part, *(f"--ignore={path}" for path in (*others, *ELSEWHERE))]
            for part, others in (
                *((part, []) for part in (CLOUD, DOORS, NODE, HEADLESS)),
                (APPS, [*NODE, *HEADLESS]),
                (["tests"], [*CLOUD, *DOORS, *APPS]),
            )
        ],
    ),
    "sim": (
        120,
        [
            [PYTHON, "-m", "tests.simulation.run", "--seeds", "500", "--json"],
            [*PYTEST, "-m", "not soak", PEERS],
            [*PYTEST, "-m", "not soak", *LABS],
            [*PYTEST, "-m", "not soak", "tests/simulation", f"--ignore={PEERS}"],
        ],
    ),
    "spark": (240, [[*PYTEST, "-m", "not soak", "tests/spark"], [*PYTEST, "-n", "2", "-m", UNIT, *JOBS, *CRASHES]]),
    "processes": (
        120,
        [
            *([*PYTEST, "-m", "not soak", *part] for part in PROCESSES),
            [
                *PYTEST,
                "-m",
                "not soak",
                "tests/processes",
                *(f"--ignore={path}" for part in PROCESSES for path in part),
            ],
        ],
    ),
    "brokers": (
        180,
        [
            [*PYTEST, "-m", "not soak", *KILLED_BROKERS],
            [*PYTEST, "-m", "not soak", "tests/brokers", *(f"--ignore={path}" for path in KILLED_BROKERS)],
        ],
    ),
    "ui": (
        180,
        [
            *([*PYTEST, "-m", "ui and not soak", *part] for part in (PHONE, APP, STORY)),
            [*PYTEST, "-m", UNIT, *SERVED, *(f"--ignore={path}" for path in WHOLE)],
            [
                *PYTEST,
                "-m",
                "ui and not soak",
                "tests/user_interface",
                *(f"--ignore={path}" for path in (*PHONE, *APP, *STORY)),
            ],
        ],
    ),
}
# Not part of `make test`, and without a budget.
OTHER_STAGES: dict[str, list[list[str]]] = {
    "recordings": [[*PYTEST, "-m", "recordings and not soak"]],
    "soak": [
        [PYTHON, "-m", "tests.simulation.run", "--seeds", "2000", "--json"],
        [*PYTEST, "-m", "soak", "--timeout=3600"],
    ],
}


def verdict(name: str, passed: bool, skips: list[str]) -> str:
    """What is wrong with a stage that ended so; empty when nothing is."""
    if not passed:
        return "failed"
    if forbidden(skips):
        return OTHER_REASON
    if name == "recordings" and any(RECORDINGS in reason for reason in skips):
        return "failed: there are no recordings"
    return ""


def run_stage(name: str, commands: list[list[str]]) -> tuple[bool, list[str], list[str]]:
    """Run a stage's commands; return whether all passed, the reasons of skipped tests, and which passed only alone."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "RESURGE_SOAK": "1" if name == "soak" else ""}
    # Hundreds of processes start in a stage; each would compile the product again.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    reports = [
        REPORTS / f"{name}-{number}.xml" if "pytest" in command else None for number, command in enumerate(commands)
    ]
    commands = [[*c, f"--junitxml={report}"] if report else c for c, report in zip(commands, reports, strict=True)]
    for report in filter(None, reports):
        report.unlink(missing_ok=True)
    with nullcontext({}) if name in ON_DISK else scratch() as more:
        environment |= more
        if name in SIDE_BY_SIDE:
            statuses = run_side_by_side(name, commands, environment)
        else:
            statuses = [subprocess.run(c, cwd=ROOT, env=environment, check=False).returncode for c in commands]
        passed = not any(statuses)
        late = [] if passed else to_run_again(statuses, reports)
        if late:
            print(f"\n===== {name}, alone: {len(late)} that ran out of patience beside the others", flush=True)
            passed = subprocess.run([*PYTEST, *late], cwd=ROOT, env=environment, check=False).returncode == 0
    skips: list[str] = []
    for report in reports:
        if report is not None and report.exists():
            skips += [element.get("message", "") for element in ElementTree.parse(report).iter("skipped")]
    return passed, skips, late if passed else []


def to_run_again(statuses: list[int], reports: list[Path | None]) -> list[str]:
    """The tests that failed, if all of them ran out of patience and every command that failed says which they were."""
    names: list[str] = []
    for status, report in zip(statuses, reports, strict=True):
        if status:
            late = out_of_patience(report) if status == TESTS_FAILED and report and report.exists() else None
            if late is None:
                return []
            names += late
    return names if len(names) <= MOST else []


def run_side_by_side(name: str, commands: list[list[str]], environment: dict[str, str]) -> list[int]:
    """All at once, each with its output in a file that is shown when it has ended; their exit codes."""
    outputs = [REPORTS / f"{name}-{number}.txt" for number in range(len(commands))]
    running = []
    for command, output in zip(commands, outputs, strict=True):
        with output.open("wb") as file:
            running.append(subprocess.Popen(command, cwd=ROOT, env=environment, stdout=file, stderr=subprocess.STDOUT))
    statuses = []
    for process, output in zip(running, outputs, strict=True):
        statuses.append(process.wait())
        print(output.read_text(errors="replace"), flush=True)
    return statuses


def main(names: list[str]) -> int:
    REPORTS.mkdir(parents=True, exist_ok=True)
    chosen = names or list(STAGES)
    failed: list[str] = []
    lines: list[str] = []
    for name in chosen:
        budget, commands = STAGES[name] if name in STAGES else (0, OTHER_STAGES[name])
        print(f"\n===== {name}", flush=True)
        started = time.monotonic()
        passed, skips, alone = run_stage(name, commands)
        seconds = time.monotonic() - started
        wrong = verdict(name, passed, skips)
        if wrong:
            failed.append(name)
        over = f" (over its budget of {budget} s)" if budget and seconds > budget else ""
        lines.append(f"{name:<10} {wrong or 'passed':<8} {seconds:6.1f} s  skips {len(skips)}{over}")
        lines += [f"           skipped: {reason}" for reason in sorted(set(skips))]
        lines += [f"           passed when run alone, after it had run out of patience: {test}" for test in alone]
        if name == "install" and not passed:
            break
    print("\n===== stages\n" + "\n".join(lines))
    print(f"{len(chosen) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
