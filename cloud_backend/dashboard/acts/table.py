"""Every act there is. Pages and API make their routes from this; a test walks it."""

from __future__ import annotations

from typing import Any

from cloud_backend.dashboard.acts import (
    alerts,
    devices,
    fleets,
    followers,
    jobs,
    moves,
    people,
    program,
    queries,
    results,
)
from cloud_backend.dashboard.acts.act import Act

ACTS: tuple[Act[Any], ...] = (
    *devices.ACTS, *program.ACTS, *queries.ACTS, *jobs.ACTS, *results.ACTS, *people.ACTS, *alerts.ACTS,
    *fleets.ACTS, *moves.ACTS, *followers.ACTS,
)  # fmt: skip
