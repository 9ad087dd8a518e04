"""What every part of the API shares: parameters with their bounds, and roles.

A parameter has a pattern and bounds, a body exactly the documented fields with exactly their kinds. So what arrives in
a view or an act is well formed, and what is refused is refused before anything is read.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Path, Query

from cloud_backend.dashboard.acts.act import POSITION_MAX
from cloud_backend.dashboard.sign_in.access import Person, require
from cloud_backend.dashboard.views.time_range import FROM, TO, TimeRange
from cloud_backend.gateway.http_problems import declare

REFUSALS = declare(400, 401, 403, 404, 409, 413, 422, 429)

Viewer = Annotated[Person, Depends(require("viewer"))]
Operator = Annotated[Person, Depends(require("operator"))]
Admin = Annotated[Person, Depends(require("admin"))]

EdgeHex = Annotated[str, Path(pattern=r"^[0-9a-f]{16}$", description="the edge's number in hexadecimal")]
Limit = Annotated[int, Query(ge=1, le=1000, description="at most this many")]
Before = Annotated[int | None, Query(ge=0, le=POSITION_MAX, description="where the last answer ended")]
Number = Annotated[int, Query(ge=0, le=POSITION_MAX, description="also check that this line is there")]
HashHex = Annotated[str, Query(pattern=r"^([0-9a-f]{64})?$", description="and that this is its hash")]
ByColumn = Annotated[str, Query(max_length=200, description="a column with numbers, to colour points by")]
MaybeDevice = Annotated[str, Query(pattern=r"^([0-9a-f]{32})?$", description="only of this device")]
MaybePart = Annotated[str, Query(pattern=r"^(gateway|spark)?$", description="only what this part said")]
FromLevel = Annotated[str, Query(pattern=r"^(info|warning|error)$", description="lines of this level and above")]
InLine = Annotated[str, Query(max_length=100, description="only lines with this text, in large or small letters")]
MaybeEdge = Annotated[str, Query(pattern=r"^([0-9a-f]{16})?$", description="only of this edge")]


def in_time(
    from_us: Annotated[int | None, Query(ge=0, le=POSITION_MAX, description=FROM)] = None,
    to_us: Annotated[int | None, Query(ge=0, le=POSITION_MAX, description=TO)] = None,
) -> TimeRange:
    return TimeRange(from_us, to_us)


InTime = Annotated[TimeRange, Depends(in_time)]
