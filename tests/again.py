"""Which tests of a stage are run once more, alone: those, and only those, that ran out of patience beside the others.

A stage puts many real processes side by side on whatever cores there are. A wait that ended without its condition
says that the machine was too busy, or that the product hangs; alone, the two are told apart. Whatever else is wrong (a wrong
result, two digests that differ, an error) fails the stage at once. It runs before anything is installed, as the runner does.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from patience import RAN_OUT

# How a wait of ours, pytest-timeout, subprocess, the browser and requests say that they waited too long.
TOO_LONG = re.compile(
    rf"{RAN_OUT}|\bFailed: Timeout \(>|\bTimeoutExpired: |_errors\.TimeoutError: |\bReadTimeout: |\bConnectTimeout: "
)
MOST = 12  # more than that is not a busy machine


def out_of_patience(report: Path) -> list[str] | None:
    """The tests to run once more; None where one of them failed by something else, or none failed at all."""
    names: list[str] = []
    for case in ElementTree.parse(report).iter("testcase"):
        for wrong in (*case.iter("failure"), *case.iter("error")):
            if not TOO_LONG.search(wrong.get("message", "")):
                return None
            name = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"
            if name not in names:
                names.append(name)
    return names or None
