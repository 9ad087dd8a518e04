"""What a service tells in the states a picture shows, recorded; served through the real socket to the real app.

The shapes are the node's own (tests/user_interface/test_phone_service.py compares them with a running node); the values
are of a morning's bicycle ride, everything a function of a fixed clock.
"""

from __future__ import annotations

import contextlib
import json
import math
import random
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from mobile_app.condition.health import REMEDIES
from mobile_app.node.view_state import KEY_PROTECTION, advice_view
from mobile_app.service.connection import ServiceRefused, ServiceServer
from shared.spool.advice import advise

SECOND = 1_000_000
NOW_US = 1_794_816_000 * SECOND + 431 * SECOND  # a fixed morning
MINUTE = 60 * SECOND
SINK_WINDOW_S = 60
TRIPS = Path(__file__).with_name("trips_results.json")
OUTAGES_S = [40.0] * 90 + [900.0] * 5 + [11_240.0] * 5
UNHARMED = {"overruns": 0, "unreadable": 0, "note": "", "over": False}  # of a sensor that loses nothing


def ride() -> dict[str, Any]:
    """Recording, paired, connected, a plan running."""
    edges = {
        "trips": {"produced": 48_312, "delivered": 48_060, "spooled": 252, "ledgered": 0, "batches": 5, "bytes": 3_910},
        "motion": {"produced": 1_204_400, "delivered": 1_203_800, "spooled": 600, "ledgered": 0, "batches": 2, "bytes": 9_204},
    }  # fmt: skip
    return {
        "name": "My phone", "device": "8f2a61c09b7d4e35a1c0ffee5ca1ab1e", "running": True,
        "produced": 1_252_712, "delivered": 1_251_860, "spooled": 852, "ledgered": 0, "results": 58,
        "exchanges": 1_406, "failures": 31, "bytes_sent": 18_734_112, "disconnections": 6, "incarnation": 1, "filtered": 0, "unreadable": 0,
        "malformed_results": 0, "empty_columns": {},
        "gateway": "https://gateway.example.org:8443", "connected": True, "why_not": "", "time_us": NOW_US,
        "time_uncertainty_us": 1200, "pace": None, "boot_id": "5d1e",
        "plan": {"name": "commute", "version": 7}, "asked_sensors": {"gps": 1.0, "accelerometer": 100.0},
        "refused_sensors": [], "to_record": {"accelerometer": 100.0, "gps": 1.0, "barometer": 1.0},
        "sensors": {
            "accelerometer": {"readings": 86_122, "rate_hz": 99.6, "asked_hz": 100.0, "gaps": 0, "gap_s": 0.0, **UNHARMED, "last_us": NOW_US - 40_000},
            "gps": {"readings": 866, "rate_hz": 0.98, "asked_hz": 1.0, "gaps": 2, "gap_s": 17.4, **UNHARMED, "last_us": NOW_US - 600_000},
            "barometer": {"readings": 4_210, "rate_hz": 3.1, "asked_hz": 5.0, "gaps": 0, "gap_s": 0.0, **UNHARMED, "last_us": NOW_US - 200_000},
        },
        "missing_sensors": {}, "edges": edges,
        "spool": {"capacity_bytes": 52_428_800, "used_bytes": 13_114, "batches": 7, "oldest_s": 41.0,
                  "full_in_s": 93_600.0, "ledger": {}, "damage": 0},
        "advice": advice_view(advise({"trips": 41.0, "motion": 468.0}, 52_428_800, OUTAGES_S)),
        "fleet_buffer": None,
        "regions": [],
        "loss_window_s": 5.0, "encrypted_at_rest": True,
        "key_protection": KEY_PROTECTION,
        "fleet": None, "build": "My trips 1.0 (org.example.trips)", "operators": ["shaking@1", "track@1", "transport_mode@2"],
        "recording": {
            "id": "20261116-075300-1", "name": "Ride to the river", "started_us": NOW_US - 727 * SECOND,
            "sensors": ["accelerometer", "gps", "barometer"],
            "readings": {"accelerometer": 72_418, "gps": 726, "barometer": 2_254}, "bytes": 1_284_400,
            "markers": [
                {"label": "start", "time_us": NOW_US - 724 * SECOND}, {"label": "bridge", "time_us": NOW_US - 402 * SECOND},
                {"label": "gravel begins", "time_us": NOW_US - 95 * SECOND},
            ],
            "missing": {},
        },
        "consents": {"accelerometer": True, "gps": True, "barometer": True, "microphone": False, "light": None},
        "last_receipt_us": NOW_US - 12 * SECOND, "goes_first": ["motion", "trips"],
        "promises": [
            {"name": "trips", "promise": "lossless within 10m", "verdict": "kept", "why": "", "delay_s": 101.0, "bound_s": 600.0,
             "produced": 48_312, "ledgered": 0},
            {"name": "motion", "promise": "at least 95 % kept", "verdict": "kept", "why": "", "delay_s": 63.0, "bound_s": None,
             "produced": 1_204_400, "ledgered": 0},
        ],
        "policies": {"wifi_only": False, "metered": True, "roaming": False, "battery_floor": 0.15, "adaptive": True, "pause_when_still": False,
                     "recordings_mb": 1000, "free_mb": 200, "name": "My phone", "record": ["accelerometer", "gps", "barometer"], "hosting": "no"},
        "battery": {"level": 0.71, "charging": False}, "lane": "cellular", "region": "", "paused": "", "pairing": None, "moving": True, "indoors": False, "held": "", "late": [], "health": [],
    }  # fmt: skip


def entry(code: str, what: str, age_s: float, *, over: bool = False) -> dict[str, Any]:
    return {"code": code, "what": what, "since": NOW_US - round(age_s * SECOND), "over": over, "remedy": REMEDIES[code]}


def offline() -> dict[str, Any]:
    view = ride()
    view["edges"]["trips"] |= {"delivered": 41_002, "spooled": 7_310, "batches": 122, "bytes": 96_400}
    view["edges"]["motion"] |= {
        "delivered": 988_400,
        "spooled": 203_488,
        "ledgered": 12_512,
        "batches": 408,
        "bytes": 3_391_000,
    }
    view |= {
        "connected": False, "why_not": "gateway.example.org did not answer within 10 s", "delivered": 1_029_402,
        "spooled": 210_798, "ledgered": 12_512, "lane": "none", "paused": "no-network",
        "last_receipt_us": NOW_US - 11_240 * SECOND,
        "advice": advice_view(advise({"trips": 41.0, "motion": 4_020.0}, 52_428_800, [*OUTAGES_S, 21_600.0, 28_800.0])),
        "promises": [
            view["promises"][0] | {"verdict": "broken", "why": "delay", "delay_s": 11_300.0},
            view["promises"][1] | {"verdict": "unknown", "why": "silent", "delay_s": 11_262.0, "ledgered": 12_512},
        ],
        "spool": view["spool"] | {"used_bytes": 45_921_208, "batches": 530, "oldest_s": 11_240.0, "full_in_s": 2_450.0,
                                  "ledger": {"evicted": 12_000, "expired": 512}},
        "health": [entry("no-network", "there is no network", 11_240),
                   entry("gateway-unreachable", "gateway.example.org did not answer within 10 s", 11_240)],
    }  # fmt: skip
    return view


def empty() -> dict[str, Any]:
    view = ride()
    nothing = {"produced": 0, "delivered": 0, "spooled": 0, "ledgered": 0, "results": 0, "exchanges": 0, "failures": 0,
               "bytes_sent": 0, "disconnections": 0}  # fmt: skip
    return view | nothing | {
        "name": "phone", "gateway": None, "connected": False, "plan": None, "asked_sensors": {}, "sensors": {}, "edges": {}, "recording": None,
        "consents": {}, "to_record": {}, "last_receipt_us": None, "goes_first": [], "promises": [], "lane": "none",
        "advice": advice_view(advise({}, 52_428_800, [])),
        "spool": view["spool"] | {"used_bytes": 0, "batches": 0, "oldest_s": None, "full_in_s": None},
        "policies": view["policies"] | {"record": []}, "health": [entry("not-paired", "no gateway is paired", 60)],
    }  # fmt: skip


def keeps_back() -> dict[str, Any]:
    """The plan does without positions, as its person chose; recordings take them."""
    view = ride()
    return view | {
        "recording": None, "consents": view["consents"] | {"gps": "recordings"}, "refused_sensors": ["gps"],
        "missing_sensors": {"gps": "'gps' is kept from this plan by its person"},
        "to_record": {"accelerometer": 100.0, "gps": 1.0},
    }  # fmt: skip


def withheld() -> dict[str, Any]:
    """The gateway has a newer program, for another app."""
    what = (
        "version 8 of the program needs transport_mode@3, which this app does not have. Install My trips 1.1 "
        "(org.example.trips), which has it."
    )
    return ride() | {"health": [entry("plan-withheld", what, 95)]}


def hosting() -> dict[str, Any]:
    """It shares queries with other nodes: runs two vertices, keeps one for another node, and one was moved here."""

    def move(age_s: float, vertex: str, term: int, before: str, after: str, why: str) -> dict[str, Any]:
        return {"at_us": NOW_US - round(age_s * SECOND), "query": "street-noise", "vertex": vertex, "term": term,
                "before": [before], "after": [after], "why": why}  # fmt: skip

    def here(vertex: str, failed: str, number: int, age_s: float, size: int) -> dict[str, Any]:
        return {"query": "street-noise", "vertex": vertex, "term": 3, "failed": failed, "unstored": "", "lost": 0,
                "taken": 86_122, "made": 1_411,
                "permanent": number, "permanent_bytes": size, "permanent_us": NOW_US - round(age_s * SECOND)}  # fmt: skip

    def placed(vertex: str, host: str, keeper: str, term: int) -> dict[str, Any]:
        return {"query": "street-noise", "vertex": vertex, "term": term, "hosts": [host], "keepers": [keeper],
                "state": "running" if host == "My phone" else "unknown", "why": "", "lost": 0, "snapshot": None,
                "snapshot_bytes": None, "snapshot_us": None}  # fmt: skip

    fleet = {
        "version": 9, "name": "My phone", "coordinates": False, "left_off": 0, "waits": [], "events": [], "sinks": [],
        "feeds": ["noise"],
        "nodes": [{"name": name, "node": f"{at:032x}", "silent_us": None} for at, name in enumerate(("My phone", "kiosk", "depot", "van-2"))],
        "queries": [{"name": "street-noise", "strategy": "ecoc", "every": 500, "sources": ["My phone"], "sink": "van-2"}],
        "placements": [placed("band", "My phone", "depot", 3), placed("level", "depot", "My phone", 2), placed("loudest", "My phone", "van-2", 3)],
        "instances": [here("band", "", 85_500, 41, 5_310),
                      here("loudest", "ValueError: no column 'db'", 1_390, 260, 2_120)],
        "kept": [{"query": "street-noise", "vertex": "level", "term": 2, "number": 85_000}],
        "moves": [move(5_320, "level", 2, "My phone", "depot", "My phone is silent for 10 s"),
                  move(1_500, "band", 3, "kiosk", "My phone", "kiosk is silent for 10 s"),
                  move(95, "loudest", 3, "My phone", "My phone", "'loudest' failed on My phone: ValueError: no column 'db'")],
    }  # fmt: skip
    view = ride()
    return view | {"fleet": fleet, "policies": view["policies"] | {"hosting": "hosts"}}


def in_region() -> dict[str, Any]:
    """It stands at a bus stop with others: computes there, and holds copies for them."""
    view = hosting()
    stop = {"name": "stop2", "place": "hosting", "dwell_s": 30.0, "threshold": 4, "member": True,
            "members": ["kiosk", "depot", "van-2"], "runs": ["people", "seats"], "kept_bytes": 3_412_000, "handed_bytes": 91_400,
            "hour": {"exchanges": 1440, "wakes_alone": 4, "watt_hours": 1.27}}  # fmt: skip
    later = {"name": "stop3", "place": "outside", "dwell_s": 30.0, "threshold": 3, "member": False, "members": [], "runs": [],
             "kept_bytes": 0, "handed_bytes": 0, "hour": None}  # fmt: skip
    return view | {"regions": [stop, later]}


def trouble() -> dict[str, Any]:
    """Recording was ended by a full disk after the system had killed the service once."""
    view = offline()
    return view | {
        "recording": None, "paused": "gateway-unreachable",
        "missing_sensors": {"gps": "the permission for location was taken back; give it again in the system's settings"},
        "sensors": {name: state for name, state in view["sensors"].items() if name != "gps"},
        "why_not": "the certificate of gateway.example.org is not the pinned one",
        "health": [
            entry("storage-full", "the storage is full; the recording was ended", 312),
            entry("sensor-permission", "gps: the permission was taken back while it was read", 640),
            entry("gateway-unreachable", "the certificate of gateway.example.org is not the pinned one", 2_960),
            entry("killed", "the system ended the service without a word", 15_300, over=True),
        ],
    }  # fmt: skip


PLAN = {
    "name": "commute", "version": 7, "missing": {},
    "operators": [
        {"id": 0, "inputs": [], "kind": "sensor", "text": "sensor gps every 1s", "side": "device"},
        {"id": 1, "inputs": [0], "kind": "where", "text": "where accuracy < 50", "side": "device"},
        {"id": 2, "inputs": [1], "kind": "significant", "text": "significant lat, lon by 15 m", "side": "device"},
        {"id": 3, "inputs": [2], "kind": "sync", "text": "sync trips: batches of 60 rows or 60s", "side": "device"},
        {"id": 4, "inputs": [], "kind": "sensor", "text": "sensor accelerometer every 10ms", "side": "device"},
        {"id": 5, "inputs": [4], "kind": "window_aggregate", "text": "tumbling 1s: rms=rms(z)", "side": "device"},
        {"id": 6, "inputs": [5], "kind": "sync", "text": "sync motion: batches of 300 rows or 60s", "side": "device"},
        {"id": 7, "inputs": [3, 6], "kind": "join", "text": "join from 1s before to 1s after", "side": "cloud"},
        {"id": 8, "inputs": [7], "kind": "key_by", "text": "key by device (ordered)", "side": "cloud"},
        {"id": 9, "inputs": [8], "kind": "window_aggregate", "text": "tumbling 60s: km=path_km(lat, lon), shake=max(rms)", "side": "cloud"},
        {"id": 10, "inputs": [9], "kind": "sync_back", "text": "sync back my_trips (commit stable)", "side": "cloud"},
    ],
    "edges": [
        {"name": "trips", "node": 3, "promise": "lossless, within 10m", "batch": 60, "within_s": 60.0,
         "columns": ["lat", "lon", "speed"]},
        {"name": "motion", "node": 6, "promise": "at least 90.0% kept", "batch": 300, "within_s": 60.0, "columns": ["rms"]},
    ],
}  # fmt: skip


def samples(sensor: str) -> dict[str, Any]:
    """Thirty seconds up to now, as the node keeps them."""
    state = ride()["sensors"].get(sensor)
    if state is None:
        return {"readings": 0, "rate_hz": None, "asked_hz": None, "gaps": 0, "gap_s": 0.0, **UNHARMED, "last_us": None,
                "recent_gaps": [], "times_us": [], "columns": {}}  # fmt: skip
    noise = random.Random(sensor)
    rate = state["asked_hz"] if sensor != "barometer" else 3.1
    seconds = [at / rate for at in range(int(rate * 30))]
    if sensor == "gps":
        seconds = [at for at in seconds if not 11 < at < 20]
    times = [NOW_US - 30 * SECOND + round(at * SECOND) for at in seconds]
    if sensor == "accelerometer":
        columns = {
            "x": [1.1 * math.sin(at * 7.1) * (1 + 0.4 * math.sin(at / 3)) + noise.gauss(0, 0.35) for at in seconds],
            "y": [2.4 + 1.6 * math.sin(at * 7.1 + 1.1) + noise.gauss(0, 0.4) for at in seconds],
            "z": [9.6 + (2.6 if 17 < at < 22 else 0.9) * math.sin(at * 14.2) + noise.gauss(0, 0.5) for at in seconds],
        }
    elif sensor == "gps":
        columns = {
            "lat": [47.3701 + at * 6.2e-5 + 2e-5 * math.sin(at / 2) for at in seconds],
            "lon": [8.5402 + at * 4.1e-5 for at in seconds],
            "altitude": [408 + 0.2 * at for at in seconds], "bearing": [38 + 6 * math.sin(at / 6) for at in seconds],
            "accuracy": [6 + 2.5 * math.sin(at / 4) for at in seconds], "speed": [5.8 + math.sin(at / 5) for at in seconds],
        }  # fmt: skip
    else:
        columns = {"hpa": [964.2 + 0.04 * at + 0.05 * math.sin(at) + noise.gauss(0, 0.02) for at in seconds]}
    return {**state, "recent_gaps": [], "times_us": times, "columns": columns}


def results() -> list[dict[str, Any]]:
    rows = []
    for number in range(1, 31):
        end = NOW_US - (30 - number) * SINK_WINDOW_S * SECOND
        rows.append({
            "number": number, "sink": "my_trips", "key": ["8f2a61c0"], "row": 0, "window_start_us": end - SINK_WINDOW_S * SECOND,
            "window_end_us": end, "revision": 1, "complete": number not in (12, 13, 30), "retract": False, "corrections": 0, "corrected_us": None, "former": None,
            "values": {
                "km": round(0.26 + 0.11 * math.sin(number / 2.3) + 0.03 * math.sin(number * 1.7), 3),
                "points": 58 - number % 4, "shake": round(2.2 + math.sin(number / 3), 2),
                "lat": 47.3701 + 3.4e-4 * number + 9e-4 * math.sin(number / 2.6),
                "lon": 8.5402 + 4.4e-4 * number + 1.5e-3 * math.sin(number / 4.1 + 1),
            },
        })  # fmt: skip
    late = rows[26]
    late |= {
        "revision": 2,
        "corrections": 1,
        "corrected_us": NOW_US - 90 * SECOND,
        "former": late["values"] | {"km": 0.112, "points": 31},
    }
    return rows


def trips_results() -> list[dict[str, Any]]:
    """A week of the trips program's own results (trips_rows.py)."""
    return list(json.loads(TRIPS.read_text()))


def recordings(running: bool) -> list[dict[str, Any]]:
    def kept(
        name: str, days: float, minutes: float, readings: dict[str, int], markers: int, size: int, by: str = ""
    ) -> dict[str, Any]:
        started = NOW_US - round(days * 86_400 * SECOND)
        return {
            "id": f"id-{name}", "name": name, "started_us": started, "ended_us": started + round(minutes * MINUTE),
            "readings": readings, "markers": [{"label": "event", "time_us": started + SECOND}] * markers, "bytes": size,
            "running": False, "ended_by": by,
        }  # fmt: skip

    return [
        kept("Stairs, left pocket", 0.9, 4.2, {"accelerometer": 25_200, "barometer": 1_260}, 6, 402_000),
        kept("Tram 7 to the lake", 2.1, 31, {"accelerometer": 186_000, "gps": 1_850}, 3, 3_120_000),
        kept("Night on the balcony", 5.4, 562, {"light": 33_700, "barometer": 168_600}, 0, 1_904_000, "battery-floor"),
    ]


def ledger() -> list[dict[str, Any]]:
    return [
        {"edge": "motion", "lo": 992_400, "hi": 998_400, "reason": "evicted"},
        {"edge": "motion", "lo": 988_912, "hi": 992_400, "reason": "evicted"},
        {"edge": "motion", "lo": 986_400, "hi": 988_912, "reason": "evicted"},
        {"edge": "trips", "lo": 40_490, "hi": 41_002, "reason": "expired"},
    ]


SENSORS = {
    name: {"available": True, "why": "", "hz": hertz}
    for name, hertz in (("accelerometer", 50.0), ("gps", 1.0), ("light", 1.0), ("microphone", 1.0), ("barometer", 1.0))
} | {"magnetometer": {"available": False, "why": "this phone has none", "hz": 50.0}}


class Recorded:
    """Answers like a service of this view, and writes down what it was told to do."""

    def __init__(
        self, view: dict[str, Any], *, full: bool = True, came_back: Callable[[], list[dict[str, Any]]] = results
    ) -> None:
        self.view = view
        self.came_back = came_back
        self.full = full
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.refusals: dict[str, ServiceRefused] = {}
        self.views = 0  # how often it was looked at

    def __call__(self, call: str, arguments: Mapping[str, Any]) -> Any:
        if call == "do":
            return self._do(arguments["name"], dict(arguments["arguments"]))
        if call == "view":
            self.views += 1
            return deepcopy(self.view)
        if call == "samples":
            after = arguments["after"]
            given = samples(arguments["sensor"])
            return given if after == 0 else given | {"times_us": [], "columns": {}}
        if call == "results":
            return [row for row in self.came_back() if row["number"] > arguments["after"]] if self.full else []
        if call == "plan":
            return PLAN if self.full else {}
        if call == "ledger":
            return ledger() if self.view["ledgered"] else []
        return self.view["health"]

    def _do(self, name: str, arguments: dict[str, Any]) -> Any:
        if name in self.refusals:
            raise self.refusals[name]
        if name == "recordings":
            return recordings(False) if self.full else []
        if name == "sensors":
            return SENSORS
        self.told.append((name, arguments))
        if name == "policy" and "record" in arguments:
            self.view["to_record"] = {sensor: SENSORS[sensor]["hz"] for sensor in arguments["record"]}
        elif name == "consent":
            self.view["consents"][arguments["sensor"]] = arguments["allow"]
            self.view["refused_sensors"] = sorted(
                each for each in self.view["asked_sensors"] if self.view["consents"][each] in (False, "recordings")
            )
        if name == "pair":
            self.view["pairing"] = {"confirmation": "482913", "gateway": "gateway.example.org"}
        elif name == "confirm_pair":
            self.view["pairing"] = None
            self.view["gateway"] = "https://gateway.example.org:8443" if arguments["yes"] else None
        return {"pair": {"confirmation": "482913", "gateway": "gateway.example.org"},
                "marker": {"label": arguments.get("label") or "Marker 1", "time_us": NOW_US},
                "stop_recording": {"name": "Ride to the river", "readings": {"gps": 726}},
                "delete_my_data": {"deleted": ["recordings"], "cloud_has": {"gateway": "gateway.example.org", "device": "8f2a",
                                   "delivered": {"trips": 41_002}}, "remedy": "Ask its operator to delete it there."},
                "export": {"path": "exports/ride.csv"}, "diagnostics": {"path": "exports/diagnostics.zip"},
                }.get(name)  # fmt: skip


@contextlib.contextmanager
def serving(home: Path, recorded: Recorded) -> Iterator[Recorded]:
    server = ServiceServer(home, recorded)
    try:
        yield recorded
    finally:
        server.close()
