"""Why did it stop? What is in the node's way, and what happened to it, kept across the end of its process.

Two kinds of entries. A *condition* lasts: it is set while it holds and cleared when it does not. An *incident* is over:
it stays for a day, or until its person dismisses it. Each has a stable code, a sentence, since when, and what to do.

The file must be writable when nothing else is, because "the storage is full" is one of the things it has to say. So it
is allocated once, as two slots that are overwritten in turn in place; a slot is believed when its checksum holds, and
the newer of two counts. It also says whether a node is running: one that finds this at its start was killed.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from shared.spool.disk import PosixDisk

HEALTH_FILE = "health"
SLOT_BYTES = 32 * 1024
HEADER = struct.Struct("<IQI")  # checksum of the rest, generation, length
INCIDENTS_KEPT = 20
INCIDENT_LASTS_US = 24 * 3600 * 1_000_000
WHAT_CHARACTERS_MAX = 175  # all codes at once still fit a slot

# code: what to do. The order is how bad it is: what stops the recording comes first.
REMEDIES = {
    "storage-full": "make room on this device (delete recordings, photos, apps), then start again",
    "storage-low": "make room on this device, or raise the limit for recordings in Setup",
    "disk-failed": "restart the device; if it comes back, copy your recordings away and send the diagnostics",
    "operator-failed": "what is held is safe and still sent. It is tried again by itself; if it comes back, update the "
    "program, or ask for a corrected plan: it goes on from its last snapshot",
    "killed": "exempt the app from battery optimisation, and do not force-stop it",
    "crashed": "send the diagnostics: this is a defect of ours. What was durable is safe",
    "rebooted": "nothing: it went on after the device was started again",
    "battery-floor": "charge the device, or lower the battery floor in Setup",
    "sensor-permission": "give the permission back in the system's settings for this app",
    "sensor-missing": "this device has no such sensor, or it is switched off; the rest runs",
    "rows-unreadable": "repair the file or export it again; every row that can be read is used",
    "recording-over": "give another --home to play it from its beginning: each home plays on from its own first start",
    "all-filtered": "look at the program's filters: a comparison with a value that is not there is never true",
    "rows-late": "nothing, if they are few. Give the program's window lateness=, or take the rows with .late()",
    "consent-needed": "look at Setup: allow the sensor, or refuse it",
    "spool-full": "connect to the network, so that the spool can be delivered, or allow it to give up the oldest",
    "sensor-overrun": "nothing, if it was once. If it comes back, ask for fewer readings a second or close other apps",
    "results-malformed": "update the app; if it comes back, send the text to the operator",
    "clock-jump": "nothing: readings keep their own clock, which follows slowly. Check the device's date",
    "revoked": "ask the operator to pair this device again; until then everything stays here",
    "gateway-refuses": "send the text to the operator; everything stays here",
    "plan-withheld": "install the app that is named, or ask the operator for it; the plan before goes on",
    "waiting-wifi": "nothing: it is sent when there is Wi-Fi. Change it in Setup",
    "waiting-unmetered": "nothing: it is sent when the network is free of charge. Change it in Setup",
    "waiting-home-network": "nothing: it is sent when the device does not roam any more. Change it in Setup",
    "no-network": "nothing: everything is kept and sent when there is a network",
    "gateway-unreachable": "check that the gateway runs and that this network reaches it",
    "not-paired": "pair with a gateway in Setup if readings should go there; recording works without",
}
ORDER = {code: place for place, code in enumerate(REMEDIES)}


@dataclass(frozen=True, slots=True)
class Entry:
    code: str
    what: str
    since: int  # wall time, microseconds
    over: bool  # an incident of the past


class Health:
    """One home's health. `wall_us` tells the wall time; `boot` names this boot."""

    def __init__(self, home: Path, *, wall_us: Callable[[], int], boot: str) -> None:
        self._wall_us = wall_us
        self._boot = boot
        self._conditions: dict[str, Entry] = {}
        self._incidents: list[Entry] = []
        self._running: dict[str, Any] | None = None
        disk = PosixDisk(home)
        new = HEALTH_FILE not in disk.names()
        self._file = disk.open(HEALTH_FILE, create=True)
        if new or self._file.size() < 2 * SLOT_BYTES:
            self._file.write(0, bytes(2 * SLOT_BYTES))
            self._file.sync()
            disk.sync()
        self._generation, kept = max(
            (self._slot(number) for number in (0, 1)), key=lambda slot: slot[0], default=(0, {})
        )
        self._incidents = [Entry(**entry) for entry in kept.get("incidents", [])]
        self._conditions = {entry["code"]: Entry(**entry) for entry in kept.get("conditions", [])}
        self._running = kept.get("running")

    # --- the life of the process -----------------------------------------------------------------------------------

    def began(self) -> None:
        """A node starts here. If the last one never said that it ended, say what became of it."""
        last = self._running
        if last is not None:
            if last.get("boot") != self._boot:
                self._add("rebooted", "the device was restarted or its battery ran empty while recording", last)
            else:
                self._add("killed", "the system ended the service without a word", last)
        self._running = {"since": self._wall_us(), "boot": self._boot, "seen": self._wall_us()}
        self._conditions.clear()  # what still holds will be found again
        self._save()

    def _add(self, code: str, what: str, last: dict[str, Any]) -> None:
        self._incidents.append(Entry(code, what, int(last.get("seen", 0)), over=True))
        self._incidents = self._incidents[-INCIDENTS_KEPT:]

    def ended(self, code: str = "", what: str = "") -> None:
        """The node ends in an orderly way; with a code when it had to."""
        self._running = None
        if code:
            self._incidents.append(Entry(code, what[:WHAT_CHARACTERS_MAX], self._wall_us(), over=True))
        self._save()

    def note_alive(self) -> None:
        """It still runs; called now and then, so that a kill is dated well."""
        if self._running is not None:
            self._running["seen"] = self._wall_us()
            self._save()

    def close(self) -> None:
        self._file.close()

    # --- what it says ------------------------------------------------------------------------------------------------

    def hold(self, conditions: dict[str, str]) -> None:
        """These conditions, code: sentence, hold now and no others. Written when the set of codes changes."""
        now_us = self._wall_us()
        before = self._conditions
        self._conditions = {
            code: Entry(code, what[:WHAT_CHARACTERS_MAX], before[code].since if code in before else now_us, over=False)
            for code, what in conditions.items()
        }
        if before.keys() != self._conditions.keys():
            self._save()

    def happened(self, code: str, what: str) -> None:
        """An incident; durable when this returns."""
        self._incidents.append(Entry(code, what[:WHAT_CHARACTERS_MAX], self._wall_us(), over=True))
        self._incidents = self._incidents[-INCIDENTS_KEPT:]
        self._save()

    def dismiss(self, code: str) -> None:
        self._incidents = [entry for entry in self._incidents if entry.code != code]
        self._save()

    def entries(self) -> list[dict[str, Any]]:
        """What holds, then what happened, each worst first."""
        oldest_us = self._wall_us() - INCIDENT_LASTS_US
        recent = [entry for entry in self._incidents if entry.since >= oldest_us]
        ordered = sorted(self._conditions.values(), key=lambda entry: ORDER[entry.code])
        ordered += sorted(recent, key=lambda entry: (ORDER[entry.code], -entry.since))
        return [{**asdict(entry), "remedy": REMEDIES[entry.code]} for entry in ordered]

    # --- the file -----------------------------------------------------------------------------------------------

    def _save(self) -> None:
        self._generation += 1
        text = self._text()
        while len(text) > SLOT_BYTES - HEADER.size and self._incidents:
            self._incidents.pop(0)
            text = self._text()
        body = struct.pack("<QI", self._generation, len(text)) + text
        slot = struct.pack("<I", zlib.crc32(body)) + body
        self._file.write(self._generation % 2 * SLOT_BYTES, slot)
        self._file.sync()

    def _text(self) -> bytes:
        value = {
            "conditions": [asdict(entry) for entry in self._conditions.values()],
            "incidents": [asdict(entry) for entry in self._incidents],
            "running": self._running,
        }
        return json.dumps(value).encode()

    def _slot(self, number: int) -> tuple[int, dict[str, Any]]:
        slot = self._file.read(number * SLOT_BYTES, SLOT_BYTES)
        if len(slot) < HEADER.size:
            return 0, {}
        checksum, generation, length = HEADER.unpack_from(slot)
        end = HEADER.size + length
        if end > len(slot) or zlib.crc32(slot[4:end]) != checksum:
            return 0, {}
        return generation, json.loads(slot[HEADER.size : end])
