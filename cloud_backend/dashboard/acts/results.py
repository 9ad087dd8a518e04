"""Acts on results: taking a sink's rows away as a file."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from cloud_backend.dashboard.acts.act import POSITION_MAX, Act, Attempt, Fields, NameInPath
from cloud_backend.dashboard.views.exports import File, export
from cloud_backend.dashboard.views.time_range import FROM, TO, TimeRange


class Export(Fields):
    format: Literal["csv", "json", "parquet", "geojson", "gpx"] = Field("csv", description="how to write the rows")
    # Read from an address, where a number is text.
    from_us: int | None = Field(None, ge=0, le=POSITION_MAX, strict=False, description=FROM)
    to_us: int | None = Field(None, ge=0, le=POSITION_MAX, strict=False, description=TO)


def take_away(attempt: Attempt[Export]) -> File:
    """A sink's rows as a file, as the person may see them. Noted when the file is there and before it is handed out."""
    fields = attempt.fields
    within = TimeRange(fields.from_us, fields.to_us)
    file = export(attempt.sources, attempt.subject, fields.format, exact=attempt.person.sees_places, within=within)
    attempt.note(fields.format if within.is_open else f"{fields.format} {within.address}")
    return file


EXPORT = Act(
    take_away, Export, "viewer", "results-exported", "GET /v1/api/results/{sink}/export",
    "GET /results/{sink}/export/{format}", "A sink's rows as a file", NameInPath,
)  # fmt: skip
ACTS = (EXPORT,)
