"""What every test may use: the recordings outside the repository, and a claim that is printed at the end of the run."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.claims import Claim
from tests.skips import RECORDINGS

CLAIM = "claim"
CASES_MAX = 3  # of one test, a line each; of more, only the first
GARBAGE = (50_000, 20, 50)


# A busy machine is no reason to fail: speed is measured by benches.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


@pytest.fixture(scope="session")
def outside_recordings() -> Path:
    """The directory of recordings that lie outside the repository; where there is none, the test is skipped."""
    from resurge.bench._recordings import directory

    found = directory()
    if found is None:
        pytest.skip(f"{RECORDINGS}: RESURGE_RECORDINGS names none, and beside this clone is no ../shared/data")
    return found


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "outside_recordings" in getattr(item, "fixturenames", ()):
            item.add_marker("recordings")


def pytest_collection_finish() -> None:
    """What is imported by now stays: looking through it for garbage again and again took a fifth of the units' time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GARBAGE)


def pytest_unconfigure() -> None:
    """Libraries that count their objects at the end find them gone."""
    gc.unfreeze()


@pytest.fixture
def claim(request: pytest.FixtureRequest) -> Claim:
    """Say what was shown: faults that fired, rows compared, both digests. Asserting them is up to the test."""
    # Not by `record_property`: beside `--junitxml` it warns that the newer report form has no place for properties.
    return lambda text: request.node.user_properties.append((CLAIM, str(text)))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    claims: dict[str, list[str]] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) == "call":
                said = [str(text) for name, text in report.user_properties if name == CLAIM]
                claims.setdefault(report.nodeid.partition("[")[0], []).extend(said)
    lines: list[str] = []
    for test, said in sorted(claims.items()):
        name = test.rpartition("::")[2]
        more = f" (and {len(said) - 1} more cases)" if len(said) > CASES_MAX else ""
        lines += [f"{name}: {text}{more}" for text in (said[:1] if more else said)]
    if lines:
        terminalreporter.section("claims")
        for line in lines:
            terminalreporter.line(line)
