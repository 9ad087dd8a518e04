"""What a column of a result measures, from its name: `co2e_g` is CO2e in grams, `km_bike` kilometres by bike.

Programs name their columns with their unit, as in `from_m` or `minutes`. So a person can be told "19 g CO2e" without
the program having to say how. A name without a unit is told as it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from mobile_app.screens.words import number_text

# unit -> (kind, how many of the kind's own one is). Kinds that people count in several units are told in the fitting.
UNITS: dict[str, tuple[str, float]] = {
    "km": ("length", 1000.0), "m": ("length", 1.0), "metres": ("length", 1.0), "cm": ("length", 0.01),
    "kg": ("mass", 1000.0), "g": ("mass", 1.0), "mg": ("mass", 0.001),
    "h": ("time", 3600.0), "hours": ("time", 3600.0), "min": ("time", 60.0),
    "minutes": ("time", 60.0), "s": ("time", 1.0), "seconds": ("time", 1.0), "ms": ("time", 0.001),
    "bytes": ("size", 1.0), "percent": ("%", 1.0), "kmh": ("km/h", 1.0), "mps": ("m/s", 1.0), "hz": ("Hz", 1.0),
    "hpa": ("hPa", 1.0), "db": ("dB", 1.0), "lux": ("lux", 1.0), "celsius": ("°C", 1.0), "kwh": ("kWh", 1.0),
}  # fmt: skip
ALONE = {"length": "Distance", "time": "Time", "mass": "Mass", "size": "Size", "%": "Share", "km/h": "Speed",
         "m/s": "Speed", "hPa": "Pressure", "°C": "Temperature", "kWh": "Energy", "dB": "Level"}  # fmt: skip
WRITTEN = {"co2": "CO2", "co2e": "CO2e", "pm25": "PM2.5", "pm10": "PM10", "no2": "NO2", "gps": "GPS", "rms": "RMS"}
# What a row is about, first to last: how far, how long, another unit alone; CO2 in grams; counts; parts of a whole.
RANKS = {"length": 0, "time": 1}
UNIT, OF_ONE, COUNTS, PART, OF_MANY, PLAIN = range(2, 8)
MINUTE_S = 60.0  # what lasts longer is told in whole minutes
KILO = 1000.0
TENTHS_FROM = 0.95
SHORT = 2  # letters: shorter than this, a unit at the beginning of a name is more likely a letter


@dataclass(frozen=True, slots=True)
class Quantity:
    """A column: what of (`words`, empty when the unit says it all), in which unit, and how much it matters."""

    words: str
    unit: str  # as the column's name has it; "" without one
    kind: str
    factor: float
    rank: int  # of several columns, those of the lowest rank are what the row is about

    @property
    def label(self) -> str:
        """For a line of two: what, and how much."""
        name = self.words or ALONE.get(self.kind, self.kind)
        return name[:1].upper() + name[1:]

    def value(self, value: object) -> str:
        """How much, with as many digits as a person wants and the unit that fits."""
        if isinstance(value, bool):
            return "yes" if value else "no"
        if not isinstance(value, int | float):
            return "\u2013" if value is None else str(value)
        if not math.isfinite(value):
            return "\u2013"
        amount = value * self.factor
        if self.kind == "length":
            if 0 < abs(amount) < KILO:
                return f"{_digits(amount, whole_from=0.0)} m"
            return f"{_digits(amount / KILO)} km"
        if self.kind == "mass":
            if abs(amount) >= KILO:
                return f"{_digits(amount / KILO)} kg"
            if 0 < abs(amount) < 1:
                return f"{_digits(amount * KILO, whole_from=10)} mg"
            return f"{_digits(amount, whole_from=10)} g"
        if self.kind == "time":
            return number_text.duration(amount if abs(amount) < MINUTE_S else MINUTE_S * round(amount / MINUTE_S))
        if self.kind == "size":
            return number_text.size(amount)
        if self.kind:
            return f"{_digits(amount)} {self.kind}"
        if isinstance(value, int):
            return number_text.count(value)
        text = number_text.number(value)
        return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text

    def text(self, value: object) -> str:
        """The same in a sentence: 3.4 km, 19 g CO2e, 11 trips, shake 2.29."""
        words = [self.value(value), self.words]
        if self.words and not self.kind and not _is_count(value):
            words.reverse()
        elif _is_count(value) and value == 1 and self.words.endswith("s"):
            words[1] = self.words[:-1]
        return " ".join(filter(None, words)).replace(" ", "\u00a0")


def quantity(column: str, value: object = None) -> Quantity:
    """What the column measures; the value, where there is one, tells counts from other numbers."""
    parts = column.lower().split("_")
    if column in UNITS:
        kind, factor = UNITS[column]
        return Quantity("", column, kind, factor, RANKS.get(kind, UNIT))
    if len(parts) > 1 and parts[-1] in UNITS:
        kind, factor = UNITS[parts[-1]]
        return Quantity(_words(parts[:-1]), parts[-1], kind, factor, OF_ONE if len(parts) == 2 else OF_MANY)
    if len(parts) > 1 and len(parts[0]) >= SHORT and parts[0] in UNITS:
        kind, factor = UNITS[parts[0]]
        return Quantity(_words(parts[1:]), parts[0], kind, factor, PART)
    return Quantity(_words(parts), "", "", 1.0, COUNTS if _is_count(value) else PLAIN)


def _words(parts: list[str]) -> str:
    return " ".join(WRITTEN.get(part, part) for part in parts if part)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _digits(amount: float, whole_from: float = 100.0) -> str:
    """Two or three digits, none of them an idle zero."""
    magnitude = abs(amount)
    if magnitude >= whole_from:
        text = f"{amount:.0f}"
    elif magnitude >= TENTHS_FROM or not amount:
        text = f"{amount:.1f}".removesuffix(".0")
    else:
        text = f"{amount:.2g}"
    return text.replace("-", "\u2212")
