"""Every `termux-*` command of the tests: one script under many names, speaking Termux:API's real formats.

What it does is told by files in $FAKE_TERMUX: `mode-COMMAND` (ok, denied, error, empty, noise, hang; mute: a stream that hangs), `seconds`
(how long each call takes), `calls.log` (what was called). The device-wide single sensor stream is a file that the
newest `termux-sensor` writes its process id to: the older one falls silent, as on a phone.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

HOME = Path(os.environ["FAKE_TERMUX"])
NAME = Path(sys.argv[0]).name
SENSORS = {
    "LSM6DSO Accelerometer": lambda n: [round(0.1 * (n // 2), 4), -0.25, 9.81],  # each value twice: polled
    "LSM6DSO Accelerometer-Wakeup Secondary": lambda n: [1.0, 2.0, 3.0],
    "LSM6DSO Acceleration Uncalibrated": lambda n: [0.1, 0.2, 9.7, 0, 0, 0],
    "BMP280 Pressure": lambda n: [1004.22, 0, 0],
    "TCS3701 Light": lambda n: [float(100 + n), 0, 0],
    "Step Counter": lambda n: [4000 + n, 0, 0],
}
BATTERY = {
    "present": True, "technology": "Li-ion", "health": "GOOD", "plugged": "UNPLUGGED", "status": "DISCHARGING",
    "temperature": 27.1, "voltage": 4213, "current": -310000, "percentage": 83, "level": 83, "scale": 100,
}  # fmt: skip
LOCATION = {
    "latitude": 39.55157048, "longitude": 2.59788352, "altitude": 124.75, "accuracy": 30.53,
    "vertical_accuracy": 384.0, "bearing": 245.4, "speed": 0.5, "elapsedMs": 50, "provider": "gps",
}  # fmt: skip
WIFI = {
    "bssid": "02:00:00:00:00:00", "frequency_mhz": 5180, "ip": "192.168.1.7", "link_speed_mbps": 433,
    "mac_address": "02:00:00:00:00:00", "network_id": 3, "rssi": -61, "ssid": "home", "ssid_hidden": False,
    "supplicant_state": "COMPLETED",
}  # fmt: skip
CELLS = [
    {"type": "lte", "registered": False, "dbm": -120, "ci": 9, "tac": 1, "mcc": 228, "mnc": 1},
    {"type": "nr", "registered": True, "dbm": -97, "nci": 123456789, "tac": 77, "mcc": "228", "mnc": "02"},
]
DENIED = {"error": "Please grant the following permission to use this command: android.permission.ACCESS_FINE_LOCATION"}


def say(value: object) -> None:
    print(json.dumps(value, indent=2), flush=True)


def setting(name: str, default: str) -> str:
    try:
        return (HOME / name).read_text().strip()
    except FileNotFoundError:
        return default


def stream(arguments: list[str]) -> None:
    """`-s names -d milliseconds`: partial names, the shortest match wins."""
    asked = arguments[arguments.index("-s") + 1].split(",")
    names = [min((name for name in SENSORS if ask.lower() in name.lower()), key=len) for ask in asked]
    every_s = int(arguments[arguments.index("-d") + 1]) / 1000
    owner = HOME / "stream.owner"
    had = owner.exists() and Path(f"/proc/{owner.read_text()}").exists()
    owner.write_text(str(os.getpid()))
    if had:
        signal.pause()  # the other's sensors were taken off, and this one gets no output itself

    def ended(*_: object) -> None:
        print("Caught signal, cleaning up\nSensor cleanup successful!", flush=True)
        owner.unlink(missing_ok=True)
        sys.exit(0)

    signal.signal(signal.SIGTERM, ended)
    sys.stdout.write(json.dumps({}, indent=2))
    count = 0
    while setting("mode-termux-sensor", "ok") != "die":
        text = json.dumps({name: {"values": SENSORS[name](count)} for name in names}, indent=2)
        if setting("mode-termux-sensor", "ok") == "noise" and count % 3 == 0:
            text = "W/{libsensor}: late\n" + text
        for part in (text[:7], text[7:]):  # in pieces, back to back, no separator
            sys.stdout.write(part)
            sys.stdout.flush()
        count += 1
        time.sleep(every_s)
    owner.unlink(missing_ok=True)


def main() -> None:
    with (HOME / "calls.log").open("a") as log:
        log.write(" ".join([NAME, *sys.argv[1:]]) + "\n")
    mode, arguments = setting(f"mode-{NAME}", "ok"), sys.argv[1:]
    if NAME == "termux-sensor" and "-s" in arguments and mode in ("ok", "noise"):
        stream(arguments)
        return
    time.sleep(float(setting("seconds", "0")))
    if mode == "hang" or (mode == "mute" and "-s" in arguments):
        signal.pause()
    if mode == "denied":
        say(DENIED)
    elif mode == "error":
        say({"API_ERROR": "Failed to get location"})
    elif mode == "empty":
        pass
    elif NAME == "termux-sensor":
        print("Sensor cleanup unnecessary") if "-c" in arguments else say({"sensors": list(SENSORS)})
    else:
        age_ms = int(setting("fix-age-ms", "50")) if "last" in arguments else 50
        say({
            "termux-location": LOCATION | {"elapsedMs": age_ms},
            "termux-battery-status": BATTERY,
            "termux-wifi-connectioninfo": WIFI,
            "termux-telephony-cellinfo": CELLS,
        }[NAME])  # fmt: skip


main()
