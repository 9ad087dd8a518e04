"""A model of what sensing and sending cost, in watts. **Modelled**, never measured: no meter is attached to this phone.

Theory. A phone that is awake draws a base; every sensor that is read adds its own draw; the radio adds its draw while
it sends and for a tail after each exchange, because the network keeps it ready for more. The parameters come from the
two tables of Sonora (an HTC phone on a 3G network), by this arithmetic:

    Table 3 gives one sensor alone (base + sensor) for four sensors, and Fixed = GPS + accelerometer + battery = 1.00.
        (0.88 - b) + (0.27 - b) + (0.19 - b) + b = 1.00         ->  base b = 0.17
        GPS 0.71, accelerometer 0.10, GSM 0.11, battery 0.02
        The fifth figure is then a prediction: half the time outdoors with GSM read as well, half indoors with GSM and
        battery only = (1.11 + 0.30) / 2 = 0.705; the paper measured 0.70.
    Table 4 gives three figures for three unknowns, so it fixes them and predicts nothing:
        always on 1.35 = b + r                                  ->  radio r = 1.18
        69.6 KB a minute 0.50, 13.1 KB a minute 0.45            ->  tail 13.7 s, uplink 22 KB/s
        Both are what others measured of 3G: tails of ten to fifteen seconds, uplinks of some hundred kbit/s.

A phone that sleeps is not in the paper. Carroll and Heiser (An Analysis of Power Consumption in a Smartphone, USENIX
ATC 2010) measured 68.6 mW of a suspended phone with its GSM radio registered; that is taken here. The number is quoted
from memory of that paper, whose text was not at hand to check it, and their phone is not Sonora's. That a wake keeps
the processor up for at least a second, and that a receiver that was off needs five seconds for a fix, are assumptions.

A sensor that is read less often than every five seconds (the paper's rate) is taken to rest between readings, its draw
falling in proportion. That is this model's own assumption; a GPS receiver needs longer to find its satellites again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

READ_EVERY_S = 5.0  # at this spacing or a shorter one a sensor draws its full power


@dataclass(frozen=True, slots=True)
class PhonePower:
    """Draws in watts. The defaults are the paper's phone."""

    base_w: float = 0.17
    sensors_w: Mapping[str, float] = field(
        default_factory=lambda: {"gps": 0.71, "accelerometer": 0.10, "cell": 0.11, "battery": 0.02}
    )
    other_sensor_w: float = 0.10  # one the paper did not measure: taken to be like the accelerometer
    radio_w: float = 1.18
    tail_s: float = 13.65
    uplink_bytes_per_s: float = 22_270.0
    asleep_w: float = 0.0686
    wake_s: float = 1.0  # the processor is up for at least this long after each wake
    fix_s: float = 5.0  # a positioning receiver is on for this long per fix, when fixes are further apart
    core_w: float = 0.5  # a busy core; not in the paper, an assumption


def sensing_w(phone: PhonePower, every_s: Mapping[str, float]) -> float:
    """What these sensors add to the base, each read at this spacing."""
    return sum(
        phone.sensors_w.get(sensor, phone.other_sensor_w) * min(1.0, READ_EVERY_S / every)
        for sensor, every in every_s.items()
        if every > 0
    )


def radio_share(phone: PhonePower, exchange_bytes: float, every_s: float) -> float:
    """The share of time for which the radio is awake, when so many bytes go out so often."""
    return min(1.0, (exchange_bytes / phone.uplink_bytes_per_s + phone.tail_s) / every_s)


def syncing_w(phone: PhonePower, exchange_bytes: float, every_s: float) -> float:
    """What an exchange of so many bytes every so many seconds adds to the base."""
    return phone.radio_w * radio_share(phone, exchange_bytes, every_s)


def adaptive_w(phone: PhonePower, outdoors: Mapping[str, float], indoors: Mapping[str, float], share: float) -> float:
    """Base and sensing of a program that reads one set outdoors and another for this share of time, indoors."""
    return phone.base_w + (1.0 - share) * sensing_w(phone, outdoors) + share * sensing_w(phone, indoors)


def joules(
    *,
    seconds: float,
    readings: Mapping[str, int],
    exchanges: int,
    bytes_sent: int,
    cpu_s: float = 0.0,
    phone: PhonePower | None = None,
) -> dict[str, float]:
    """What a run of so many seconds cost by this model, by where it went; `total` is the sum of the others."""
    phone = PhonePower() if phone is None else phone
    every_s = {sensor: seconds / count for sensor, count in readings.items() if count > 0}
    awake_s = min(seconds, bytes_sent / phone.uplink_bytes_per_s + exchanges * phone.tail_s)
    parts = {
        "base": phone.base_w * seconds,
        "sensors": sensing_w(phone, every_s) * seconds,
        "radio": phone.radio_w * awake_s,
        "cpu": phone.core_w * cpu_s,
    }
    return {**parts, "total": sum(parts.values())}


@dataclass(frozen=True, slots=True)
class HourOfHosting:
    """What it costs a phone for an hour to be awake for others, beside an hour of its own pace."""

    exchanges: int  # that it makes at least, to be heard
    wakes_alone: int  # of its processor, which would sleep else
    watt_hours: float  # that it takes more, modelled

    @staticmethod
    def of(
        report_every_s: float, look_every_s: float, ask_every_s: float, phone: PhonePower | None = None
    ) -> HourOfHosting:
        """Where it says how it is so often; else it would look around and ask its gateway so often. What it sends is
        left out: the radio is up for longer after each word than a word takes."""
        phone = PhonePower() if phone is None else phone
        awake_w = phone.base_w + syncing_w(phone, 0.0, report_every_s)
        up_share = min(1.0, phone.wake_s / look_every_s)
        alone_w = phone.asleep_w * (1.0 - up_share) + phone.base_w * up_share + syncing_w(phone, 0.0, ask_every_s)
        hour_s = 3600.0
        return HourOfHosting(round(hour_s / report_every_s), round(hour_s / look_every_s), max(0.0, awake_w - alone_w))
