"""Acts on results: taking a sink's rows away as a file."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from cloud_backend.dashboard.acts.act import Act, Attempt, Fields, NameInPath
from cloud_backend.dashboard.views.exports import File, export


class Export(Fields):
    format: Literal["csv", "parquet", "geojson", "gpx"] = Field("csv", description="how to write the rows")


def take_away(attempt: Attempt[Export]) -> File:
    """A sink's rows as a file, as the person may see them. Noted when the file is there and before it is handed out."""
    file = export(attempt.sources, attempt.subject, attempt.fields.format, exact=attempt.person.sees_places)
    attempt.note(attempt.fields.format)
    return file


EXPORT = Act(
    take_away, Export, "viewer", "results-exported", "GET /v1/api/results/{sink}/export",
    "GET /results/{sink}/export/{format}", "A sink's rows as a file", NameInPath,
)  # fmt: skip
ACTS = (EXPORT,)
