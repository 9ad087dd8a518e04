"""Operator types that misbehave when a file says so: how tests break a task without touching production code."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np

import resurge as rs


def _due(directory: str, fault: str) -> bool:
    """True once per file `fault.*` in the directory: taking the file is what makes it fire once."""
    if not directory:
        return False
    for path in sorted(Path(directory).glob(f"{fault}.*")):
        try:
            path.rename(path.with_name(f"fired.{path.name}"))
        except FileNotFoundError:
            continue  # another worker took it
        return True
    return False


COLUMNS = {"x": "float64", "cell": "int64"}


@rs.operator("tests_spark_troubled", takes=COLUMNS, gives=COLUMNS)
def troubled(columns: dict[str, np.ndarray], *, faults: str = "") -> dict[str, np.ndarray]:
    """The columns as they are. 666 raises until a file `cured` is there; a file in `faults` kills the worker, raises or hangs, once."""
    if bool((columns["x"] == 666.0).any()) and not Path(faults, "cured").exists():
        raise ValueError("cannot bear 666")
    if _due(faults, "kill"):
        os.kill(os.getpid(), signal.SIGKILL)
    if _due(faults, "raise"):
        raise OSError("the disk blinked")
    if _due(faults, "hang"):
        time.sleep(3600)
    return {"x": columns["x"], "cell": columns["cell"]}


MEET_S = 60.0  # longer than any worker takes to begin


@rs.operator("tests_spark_meets", takes=COLUMNS, gives=COLUMNS)
def meets(columns: dict[str, np.ndarray], *, place: str = "") -> dict[str, np.ndarray]:
    """The columns as they are, once another process is at the place as well."""
    Path(place, str(os.getpid())).touch()
    until = time.monotonic() + MEET_S
    while len(list(Path(place).iterdir())) < 2:
        if time.monotonic() > until:
            raise TimeoutError("nobody else runs meanwhile")
        time.sleep(0.01)
    return {"x": columns["x"], "cell": columns["cell"]}
