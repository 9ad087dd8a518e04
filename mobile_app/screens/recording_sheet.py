"""What can be done with a recording that is kept: rename, export and share, delete."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mobile_app.screens.widgets.controls import PushButton
from mobile_app.screens.widgets.sheets import Entry, Question, Sheet, buttons
from mobile_app.screens.widgets.text import Text
from mobile_app.screens.words import number_text

if TYPE_CHECKING:
    from mobile_app.app import ResurgeApp

MIMES = {"csv": "text/csv", "gpx": "application/gpx+xml", "zip": "application/zip"}


class RecordingSheet(Sheet):
    def __init__(self, app: ResurgeApp, recording: dict[str, Any]) -> None:
        self._desk, self._recording = app, recording
        counts = ", ".join(
            f"{number_text.count(count)} {sensor}" for sensor, count in sorted(recording["readings"].items())
        )
        super().__init__(
            recording["name"], counts or "No reading was kept.",
            Text("Export and share", size="label", colour="faint", bold=True),
            buttons(*(PushButton(word, partial(self._export, kind), kind="tonal")
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


def export(app: ResurgeApp, kind: str, recording: str) -> None:
    """Have the service write the file, then hand it to whatever can share it here."""
    app.say("Writing the file")
    app.do("export", lambda answer: app.share(Path(answer["path"]), MIMES[kind]), kind=kind, recording=recording)
