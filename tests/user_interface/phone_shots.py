"""`make shots`, the phone's part: every screen of the real app, light and dark, in each state, into docs/shots.

Beside the pictures lies what could be read on each when it was taken, and the hash of everything they depend on. A
test compares both with the sources, so a screen cannot change without its pictures.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
SHOTS = ROOT / "docs" / "shots"
MANIFEST = SHOTS / "phone.json"
BYTES_MAX = 150_000
SCHEMES = ("light", "dark")
DENSITY = "2"
SETTLE_S = 1.2  # scroll bars fade, ripples end


@dataclass(frozen=True, slots=True)
class Shot:
    """One state of one screen, and what must be readable on it."""

    name: str
    screen: str
    state: str  # a state of phone_world, "gone" for no service, or "welcome"
    says: tuple[str, ...]
    steps: tuple[tuple[str, str], ...] = ()  # ("tap", text), ("type", "hint=text"), ("scroll", text)
    waits_for: str = ""  # further down, so not among what is readable
    text_size: str = "normal"


SCREENS = (
    Shot("welcome-1", "welcome", "welcome", ("Record what your phone senses", "Next")),
    Shot("welcome-2", "welcome", "welcome", ("Offline is normal here",), (("tap", "Next"),)),
    Shot("welcome-3", "welcome", "welcome", ("You decide what is read", "Start"), (("tap", "Next"), ("tap", "Next"))),
    Shot("record-data", "record", "ride", ("Ride to the river", "00:12:07", "gravel begins", "Mark this moment"),
         waits_for="Stairs, left pocket"),
    Shot("record-empty", "record", "empty", ("No sensor may be recorded yet", "Choose sensors"), waits_for="None yet"),
    Shot("record-offline", "record", "offline", ("Offline", "Ride to the river"), waits_for="Stairs, left pocket"),
    Shot("record-error", "record", "trouble", ("The storage is full; the recording was ended.", "Recordings"),
         waits_for="Stairs, left pocket"),
    Shot("record-sheet", "record", "quiet", ("Export and share", "Rename", "Delete"), (("tap", "Tram 7 to the lake"),),
         waits_for="Tram 7"),
    Shot("live-data", "live", "ride", ("accelerometer  m/s²", "100 Hz of 100 Hz", "2 gaps, silent for 17 s in all"),
         waits_for="965.3"),
    Shot("record-sensors", "record", "quiet", ("What a recording takes", "accelerometer", "100 Hz; the plan reads it too"),
         (("tap", "Choose sensors"),), waits_for="Tram 7"),
    Shot("record-plan", "record", "keeps_back", ("For the plan “commute”", "Kept from the plan “commute”; the gateway is told"),
         (("tap", "Choose sensors"), ("scroll", "Kept from the plan")), waits_for="Tram 7"),
    Shot("live-magnitude", "live", "ride", ("accelerometer  m/s²", "magnitude"), (("tap", "Magnitude"),), waits_for="965.3"),
    Shot("live-spectrum", "live", "ride", ("accelerometer  m/s²", "Strongest: y at 1.13 Hz, 1.6 m/s²"), (("tap", "Spectrum"),),
         waits_for="965.3"),
    Shot("live-empty", "live", "empty", ("No sensor is being read",)),
    Shot("live-offline", "live", "offline", ("Offline", "accelerometer  m/s²"), waits_for="965.3"),
    Shot("live-error", "live", "trouble", ("gps is missing",), waits_for="965.3"),
    Shot("flow-data", "flow", "ride", ("On this phone", "In the cloud", "commute"), waits_for="key by device"),
    Shot("flow-empty", "flow", "empty", ("No plan runs here",)),
    Shot("flow-offline", "flow", "offline", ("On this phone", "Offline"), waits_for="7\u2009310 waiting"),
    Shot("flow-error", "flow", "trouble", ("gps is missing", "On this phone"), waits_for="key by device"),
    Shot("buffer-data", "buffer", "ride", ("852", "readings wait for a receipt", "1 d 2 h", "What would go first")),
    Shot("buffer-empty", "buffer", "empty", ("Nothing waits: no plan sends readings yet",)),
    Shot("buffer-offline", "buffer", "offline", ("No network", "210\u2009798", "41 min", "that long takes 97.5 MB", "Given up")),
    Shot("promises-kept", "buffer", "ride", ("What is promised", "Kept", "Lossless within 10m."),
         (("scroll", "Last receipt"),), waits_for="Last receipt"),
    Shot("promises-broken", "buffer", "offline", ("Broken", "Unknown"), (("scroll", "Last receipt"),),
         waits_for="Last receipt"),
    Shot("buffer-error", "buffer", "gone", ("The recorder is not running", "Start the recorder")),
    Shot("ledger-data", "buffer", "offline", ("Given up", "12\u2009512", "Which ones"), (("tap", "Ledger"),)),
    Shot("ledger-empty", "buffer", "ride", ("Nothing was given up",), (("tap", "Ledger"),)),
    Shot("health-error", "buffer", "trouble", ("3 things to look at", "What to do"),
         (("tap", "Health"),)),
    Shot("health-empty", "buffer", "ride", ("Nothing is in its way",), (("tap", "Health"),)),
    Shot("health-crash", "buffer", "crashed", ("The recorder crashed", "Send the report"), (("tap", "Health"),)),
    Shot("health-withheld", "buffer", "withheld", ("needs transport_mode@3", "My trips 1.1"), (("tap", "Health"),)),
    Shot("health-fleet", "buffer", "hosting", ("Vertices on this device", "Running", "Snapshots kept for other nodes"), (("tap", "Health"),)),
    Shot("health-region", "buffer", "in_region", ("Region stop2", "You and kiosk, depot", "What leaving would cost"), (("tap", "Health"),)),
    Shot("health-moves", "buffer", "hosting", ("Moved here or away", "band moved from kiosk to My phone"),
         (("tap", "Health"), ("scroll", "My phone is silent for 10 s"))),
    Shot("results-data", "results", "ride", ("Distance in km", "latest", "30 results, 3 of them incomplete (lighter)"),
         waits_for="Shake"),
    Shot("results-trace", "results", "ride", ("The way",), (("tap", "Trace"),), waits_for="Shake"),
    Shot("results-list", "results", "ride", ("incomplete", "corrected"), (("tap", "List"),), waits_for="Shake"),
    Shot("results-empty", "results", "empty", ("Results come from a gateway",)),
    Shot("results-offline", "results", "offline", ("Offline", "Distance in km"), waits_for="Shake"),
    Shot("results-error", "results", "gone", ("The recorder is not running",)),
    Shot("trips-list", "results", "trips", ("My trips", "Today", "Yesterday", "Bike"), waits_for="My weeks"),
    Shot("trips-detail", "results", "trips", ("Distance", "CO2e", "From"), (("tap", "Train"),), waits_for="My weeks"),
    Shot("trips-days", "results", "trips", ("Yesterday", "CO2e", "corrected"), (("tap", "My days"),),
         waits_for="My weeks"),
    Shot("trips-weeks", "results", "trips", ("7 days to yesterday", "Distance", "Trips"), (("tap", "My weeks"),)),
    Shot("trips-chart", "results", "trips", ("CO2e in g",), (("tap", "My days"), ("tap", "Chart"), ("tap", "CO2e")),
         waits_for="My weeks"),
    Shot("setup-data", "setup", "ride", ("Gateway", "https://gateway.example.org:8443", "accelerometer"),
         waits_for="magnetometer"),
    Shot("setup-fleet", "setup", "hosting", ("Work with other devices", "Compute", "Costs the most battery"),
         waits_for="magnetometer"),
    Shot("setup-policies", "setup", "ride", ("Only over Wi-Fi", "Stop reading below this battery level"),
         (("scroll", "Room for recordings"),), waits_for="magnetometer"),
    Shot("setup-data-acts", "setup", "ride", ("Stop the recorder", "Save diagnostics", "Delete my data"),
         (("scroll", "Delete my data"),), waits_for="magnetometer"),
    Shot("setup-about", "setup", "ride", ("My trips 1.0 (org.example.trips)", "transport_mode@2", "Rename this device"),
         (("scroll", "Where the key lies"),), waits_for="magnetometer"),
    Shot("background", "buffer", "asks", ("Positions while the app is closed", "Not now", "Continue"),
         (("tap", "Health"), ("tap", "Allow"))),
    Shot("setup-empty", "setup", "empty", ("Pair with a gateway", "Scan the QR code", "Sensors"), waits_for="magnetometer"),
    Shot("setup-offline", "setup", "offline", ("Offline; everything is kept here until it answers",),
         waits_for="magnetometer"),
    Shot("setup-pair", "setup", "pairing", ("Is this the number on the other screen?", "482 913", "It differs"),
         waits_for="magnetometer"),
    Shot("setup-error", "setup", "gone", ("The recorder is not running",)),
    Shot("large-text", "buffer", "offline", ("Held on this phone",), text_size="largest"),
)  # fmt: skip


def source_hash() -> str:
    """Over every file that can change a picture."""
    app = ROOT / "mobile_app"
    files = [*(app / "screens").rglob("*.py"), app / "app.py", app / "platforms.py", app / "home" / "preferences.py"]
    files += [
        ROOT / "tests" / "user_interface" / f"{name}.py" for name in ("opening", "phone", "phone_world", "phone_shots")
    ]
    files.append(ROOT / "tests" / "user_interface" / "trips_results.json")
    sha = hashlib.sha256()
    for path in sorted(files):
        sha.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return sha.hexdigest()


def path_of(shot: Shot, scheme: str) -> Path:
    return SHOTS / f"phone-{shot.name}-{scheme}.png"


def compressed(pixels: bytes, size: tuple[int, int]) -> bytes:
    """Flat colours and grey text fit a palette: a third of the bytes, no difference an eye finds."""
    image = Image.frombytes("RGBA", size, pixels).transpose(Image.Transpose.FLIP_TOP_BOTTOM).convert("RGB")
    file = io.BytesIO()
    image.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(file, "PNG", optimize=True)
    return file.getvalue()


def states() -> dict[str, Callable[[], dict[str, Any]]]:
    from tests.user_interface import phone_world as world

    return {
        "ride": world.ride, "offline": world.offline, "empty": world.empty, "trouble": world.trouble,
        "trips": lambda: world.ride() | {"recording": None, "plan": {"name": "trips", "version": 1}},
        "crashed": world.ride, "asks": world.ride, "withheld": world.withheld, "hosting": world.hosting, "in_region": world.in_region, "quiet": lambda: world.ride() | {"recording": None}, "keeps_back": world.keeps_back, "welcome": world.empty, "gone": world.ride,
        "pairing": lambda: world.empty() | {"pairing": {"confirmation": "482913", "gateway": "gateway.example.org"}},
    }  # fmt: skip


def take(shot: Shot, scheme: str) -> dict[str, Any]:
    """Open the app in this state, look, and return what was readable; the picture is written."""
    from mobile_app.home.crashes import note_crash
    from mobile_app.home.preferences import Preferences
    from tests.user_interface import phone_world
    from tests.user_interface.opening import open_app

    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        Preferences(welcomed=shot.state != "welcome", appearance=scheme, text_size=shot.text_size).save(home)
        view = None if shot.state == "gone" else states()[shot.state]()
        # The bars of a phone that draws edge to edge: clock above, gesture line below.
        insets = (0, 24 * float(DENSITY), 0, 16 * float(DENSITY))
        came_back = phone_world.trips_results if shot.state == "trips" else phone_world.results
        full = shot.state not in ("empty", "pairing")
        denied = [{"name": "background location", "why": "positions while the screen is off", "how": "ask"}]
        if shot.state == "crashed":
            note_crash(home, "service", ValueError("could not convert string to float: 'north'"))
        with open_app(
            home, view, insets=insets, full=full, came_back=came_back, denied=denied if shot.state == "asks" else None
        ) as hand:
            if shot.state == "gone":
                hand.until(lambda: hand.app.gone is not None, "the service is missed")
            elif shot.state != "welcome":
                hand.until(lambda: hand.app.view is not None, "a view")
            if hand.app.shell is not None:
                hand.app.shell.go(shot.screen)
            if shot.waits_for:
                hand.until_text(shot.waits_for)
            hand.settle(0.2)  # what is to be tapped has its place
            for act, text in shot.steps:
                if act == "scroll":
                    hand.show_top(text)
                else:
                    hand.tap(text)
            for text in shot.says:
                hand.until(lambda text=text: any(text in one for one in hand.texts()), f"{text!r} in sight")
            hand.settle(SETTLE_S)
            texts, picture = hand.texts(), compressed(*hand.pixels())
    path = path_of(shot, scheme)
    path.write_bytes(picture)
    return {"texts": texts, "sha256": hashlib.sha256(picture).hexdigest()}


def main(names: list[str]) -> None:
    """All of them, or only those of these names."""
    os.environ.update(KIVY_METRICS_DENSITY=DENSITY, TZ="UTC")
    time.tzset()
    SHOTS.mkdir(parents=True, exist_ok=True)
    before = json.loads(MANIFEST.read_text())["shots"] if names else {}
    manifest: dict[str, Any] = {"sources": source_hash(), "shots": {}}
    for shot in SCREENS:
        for scheme in SCHEMES:
            if names and shot.name not in names:
                manifest["shots"][f"{shot.name}-{scheme}"] = before[f"{shot.name}-{scheme}"]
                continue
            manifest["shots"][f"{shot.name}-{scheme}"] = take(shot, scheme)
            path = path_of(shot, scheme)
            print(f"{path.relative_to(ROOT)}  {path.stat().st_size:,} bytes", flush=True)
    wanted = {path_of(shot, scheme) for shot in SCREENS for scheme in SCHEMES}
    for path in set(SHOTS.glob("phone-*.png")) - wanted:
        path.unlink()
    MANIFEST.write_text(json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
