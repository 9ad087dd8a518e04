"""What tests claim is said at the end of the run, also of those that other processes ran."""

from __future__ import annotations

from typing import Any

import pytest

from tests.claims import Claim

CLAIM = "claim"
CASES_MAX = 3  # of one test, a line each; of more, only the first


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
