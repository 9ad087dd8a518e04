"""Sonora, Tables 3 and 4: watts of sensing and of sending. All of it is *modelled*: see `shared/energy_model.py`.

The model's parameters are fixed by five of the six figures of Table 3 and by the three of Table 4; what it then says of
the rest is compared with the paper. The last row puts the bytes that our own frames really have into the same model.
"""

from __future__ import annotations

from typing import Any

from resurge.lab import sonora_bytes
from resurge.lab._figure import Series, draw, report, shape
from shared.energy_model import PhonePower, adaptive_w, radio_share, sensing_w, syncing_w

MINUTES = 30
EVERY_S = 5.0
ALONE = {"accelerometer": 0.27, "cell": 0.28, "battery": 0.19, "gps": 0.88}
FIXED = ("gps", "accelerometer", "battery")
OUTDOORS = (*FIXED, "cell")  # the tower tells whether it still is outdoors
INDOORS = ("cell", "battery")
TOLERANCE_W = 0.01


def run() -> dict[str, Any]:
    phone = PhonePower()
    shapes = [_watts(f"{sensor} alone", paper, adaptive_w(phone, _read(sensor), {}, 0.0)) for sensor, paper in
              ALONE.items()]  # fmt: skip
    fixed = adaptive_w(phone, _read(*FIXED), {}, 0.0)
    adaptive = adaptive_w(phone, _read(*OUTDOORS), _read(*INDOORS), 0.5)
    spared = 100 * (1 - adaptive / fixed)
    always_out = adaptive_w(phone, _read(*OUTDOORS), {}, 0.0)
    shapes += [
        _watts("fixed: GPS, accelerometer, battery", 1.00, fixed),
        _watts("adaptive, half the time indoors (predicted, not fitted)", 0.70, adaptive),
        shape("adaptive saves, percent", 30, round(spared, 1), abs(spared - 30) <= 1),
        shape("always outdoors it costs a little more, W", "small", round(always_out - fixed, 3),
              0 < always_out - fixed < 0.15),
    ]  # fmt: skip
    minute = {"none": 2.087e6 / MINUTES, "batch": 2.087e6 / MINUTES, "batch + zip": 0.392e6 / MINUTES}
    paper = {"none": 1.35, "batch": 0.50, "batch + zip": 0.45}
    sent = {
        name: phone.base_w + syncing_w(phone, size / (60 if name == "none" else 1), 1.0 if name == "none" else 60.0)
        for name, size in minute.items()
    }
    shapes += [_watts(f"sync stream: {name}", paper[name], value) for name, value in sent.items()]
    saved = 100 * (1 - sent["batch"] / sent["none"])
    ours = sonora_bytes.run()["megabytes"]["batch + codec"] * 1e6 / MINUTES
    with_ours = phone.base_w + syncing_w(phone, ours, 60.0)
    shapes += [
        shape("batching saves, percent", 60, round(saved, 1), saved >= 60),
        shape("with our frames' own bytes, W", 0.45, round(with_ours, 3), with_ours <= 0.45 + TOLERANCE_W),
    ]
    figures = [
        draw("sonora-energy", "Sensing (modelled)", "percent of time indoors", "W", _by_shelter(phone)),
        draw("sonora-energy-batching", "Sending 1 KB/s (modelled)", "seconds between exchanges", "W",
             _by_interval(phone, ours / 60)),
    ]  # fmt: skip
    return report(
        "sonora-energy", "Sonora Tables 3 and 4", shapes, modelled=True, drawn=figures[0],
        also_drawn=figures[1:], radio_awake_percent={
            "batch": round(100 * radio_share(phone, minute["batch"], 60.0), 1),
            "batch + zip": round(100 * radio_share(phone, minute["batch + zip"], 60.0), 1),
        },
    )  # fmt: skip


def _read(*sensors: str) -> dict[str, float]:
    return dict.fromkeys(sensors, EVERY_S)


def _watts(name: str, paper: float, ours: float) -> dict[str, Any]:
    return shape(f"{name}, W", paper, round(ours, 3), abs(ours - paper) <= TOLERANCE_W)


def _by_shelter(phone: PhonePower) -> Series:
    shares = [share / 10 for share in range(11)]
    fixed = phone.base_w + sensing_w(phone, _read(*FIXED))
    return {
        "fixed": [(100 * share, fixed) for share in shares],
        "adaptive": [
            (100 * share, adaptive_w(phone, _read(*OUTDOORS), _read(*INDOORS), share)) for share in shares
        ],
        "paper: fixed": [(0.0, 1.00), (50.0, 1.00)],
        "paper: adaptive": [(48.0, 0.70), (52.0, 0.70)],
    }  # fmt: skip


def _by_interval(phone: PhonePower, ours_per_s: float) -> Series:
    seconds = (1, 5, 10, 20, 30, 45, 60, 90, 120, 180, 240, 300)
    text, zipped = 2.087e6 / MINUTES / 60, 0.392e6 / MINUTES / 60

    def curve(bytes_per_s: float) -> list[tuple[float, float]]:
        return [(float(s), phone.base_w + syncing_w(phone, bytes_per_s * s, float(s))) for s in seconds]

    return {
        "text": curve(text), "zipped (paper's bytes)": curve(zipped), "our frames": curve(ours_per_s),
        "paper: none, batch": [(1.0, 1.35), (60.0, 0.50)], "paper: batch + zip": [(60.0, 0.45)],
    }  # fmt: skip
