"""The battery as plyer tells it. plyer raises whatever its platform code meets: all of it means "not to be had"."""

from __future__ import annotations

import plyer

from mobile_app.sensors.source import SensorMissing


def battery() -> tuple[float, bool]:
    """(level 0 to 1, charging). Raises SensorMissing."""
    try:
        status = plyer.battery.status
    except Exception as error:
        text = str(error) or type(error).__name__
        raise SensorMissing(f"plyer cannot give 'battery': {text}", code="sensor-refused") from error
    if status["percentage"] is None:
        raise SensorMissing("the battery's level is not known yet", code="sensor-refused")
    return float(status["percentage"]) / 100.0, bool(status["isCharging"])
