"""What can be done with a recording that is kept: rename, export and share, delete."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mobile_app import wording
from mobile_app.screens.controls import PushButton
from mobile_app.screens.page import Desk
from mobile_app.screens.sheets import Entry, Question, Sheet, buttons
from mobile_app.screens.text import Text

MIMES = {"csv": "text/csv", "gpx": "application/gpx+xml", "zip": "application/zip"}


class RecordingSheet(Sheet):
    def __init__(self, desk: Desk, recording: dict[str, Any]) -> None:
        self._desk, self._recording = desk, recording
        counts = ", ".join(
            f"{wording.count(count)} {sensor}" for sensor, count in sorted(recording["readings"].items())
        )
        super().__init__(
            recording["name"], counts or "No reading was kept.",
            Text("Export and share", size="label", colour="faint", bold=True),
            buttons(*(PushButton(word, lambda kind=kind: self._export(kind), kind="tonal")
                      for kind, word in (("csv", "CSV"), ("gpx", "GPX"), ("zip", "zip")))),
            buttons(PushButton("Rename", self._rename, kind="outlined", icon="edit"),
                    PushButton("Delete", self._ask_delete, kind="danger", icon="trash")),
        )  # fmt: skip

    def _export(self, kind: str) -> None:
        self.close()
        export(self._desk, kind, self._recording["id"])

    def _rename(self) -> None:
        def rename(name: str) -> None:
            self._desk.do("rename_recording", lambda _done: self._desk.say("Renamed"),
                          recording=self._recording["id"], name=name)  # fmt: skip

        self._desk.open_sheet(Entry("Rename", "Name", "Rename", rename, value=self._recording["name"]))

    def _ask_delete(self) -> None:
        def delete() -> None:
            self._desk.do("delete_recording", lambda _done: self._desk.say("Deleted"), recording=self._recording["id"])

        self._desk.open_sheet(
            Question(
                f"Delete “{self._recording['name']}”?",
                "Its readings are removed from this phone for good. What was sent to a gateway stays there.",
                "Delete", delete, danger=True,
            )
        )  # fmt: skip


def export(desk: Desk, kind: str, recording: str) -> None:
    """Have the service write the file, then hand it to whatever can share it here."""
    desk.say("Writing the file")
    desk.do("export", lambda answer: desk.share(Path(answer["path"]), MIMES[kind]), kind=kind, recording=recording)
