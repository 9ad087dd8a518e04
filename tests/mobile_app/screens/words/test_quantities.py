"""What a column's name says that it measures, and how much of it a person is told."""

from __future__ import annotations

import pytest

from mobile_app.screens.words.quantities import quantity


@pytest.mark.parametrize(
    ("column", "value", "told"),
    [
        ("km", 3.3524, "3.4 km"), ("km", 0.3571, "357 m"), ("km", 0.0, "0 km"), ("km", 110.2, "110 km"),
        ("metres", 1234, "1.2 km"), ("minutes", 12.75, "13 min"), ("minutes", 0.5, "30 s"), ("minutes", 75.0, "1 h 15 min"),
        ("co2e_g", 18.773, "19 g CO2e"), ("co2e_g", 4004.48, "4 kg CO2e"), ("co2e_g", 0.0, "0 g CO2e"),
        ("co2e_g", 5.6, "5.6 g CO2e"), ("vehicle_pm25_mg", 342.8, "343 mg vehicle PM2.5"),
        ("vehicle_pm10_mg", 0.002, "0.002 mg vehicle PM10"), ("near_sites_s", 590.0, "10 min near sites"),
        ("km_bike", 1.8563, "1.9 km bike"), ("speed_kmh", 23.44, "23.4 km/h speed"), ("trips", 11, "11 trips"),
        ("trips", 1, "1 trip"), ("points", 12_480, "12\u2009480 points"), ("shake", 1.66, "shake 1.66"),
        ("shake", float("nan"), "shake \u2013"), ("m_odd", 2.0, "m odd 2"), ("climb_m", -3.0, "\u22123 m climb"),
        ("late", None, "late \u2013"),
    ],
)  # fmt: skip
def test_a_value_is_told_with_its_unit_and_as_many_digits_as_mean_something(column, value, told):
    assert quantity(column, value).text(value).replace("\u00a0", " ") == told


@pytest.mark.parametrize(
    ("column", "label"),
    [("km", "Distance"), ("minutes", "Time"), ("co2e_g", "CO2e"), ("km_bike", "Bike"), ("hpa", "Pressure"),
     ("near_sites_pm25_mg", "Near sites PM2.5"), ("top_speed", "Top speed"), ("lux", "Lux")],
)  # fmt: skip
def test_a_column_has_a_name_a_person_reads(column, label):
    assert quantity(column).label == label


def test_how_far_and_how_long_come_before_what_it_cost_and_that_before_counts_and_parts():
    columns = {
        "points": 83,
        "vehicle_pm10_mg": 9.0,
        "km_bike": 3.2,
        "shake": 1.5,
        "co2e_g": 19.0,
        "minutes": 12.0,
        "km": 3.2,
    }
    ranked = sorted(columns, key=lambda column: quantity(column, columns[column]).rank)
    assert ranked == ["km", "minutes", "co2e_g", "points", "km_bike", "vehicle_pm10_mg", "shake"]
