"""Sonora, section 5.4: the inference of transport modes on the phone, or moved to the cloud by one line of the program.

The paper moves it and sends twice the bytes for 40 % less power. Bytes here are frames that phones really send under
the two plans (`resurge.examples.trips.move_modes`); power is *modelled* (`shared/energy_model.py`), from the bytes and
exchanges of each and the processor time of the phone's part on this machine.

Ours differ, and for two reasons. The paper's cloud then needs accelerometer, GSM and battery readings as well; here the
phone sums its shaking up under both plans, so two numbers for each fix go up in addition. And the paper puts its 40 %
down to what its sync stream then does with the readings. Here both plans batch and pack what they send, so that is in
both; what is left is the inference's own processor time, which is next to nothing in this model.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from resurge.examples.trips.move_modes import compare
from resurge.examples.trips.people import made_up_people
from resurge.lab._figure import draw, report, shape

PEOPLE, HOURS = 4, 6.0
PAPER_BYTES, PAPER_POWER = 2.0, 0.6  # in the cloud over on the phone
QUICK = {"people": 2, "hours": 1.5}
WHY = (
    "Bytes: the paper's cloud then needs accelerometer, GSM and battery readings, too. Here shaking is summed "
    "up on the phone under both plans, and two numbers for each fix go up in addition. Power: the paper puts "
    "its 40 % down to what its sync stream does with the readings that it then carries; here both plans batch "
    "and pack what they send, sensors are read alike, and the inference itself takes next to nothing of a "
    "processor."
)
PHONE, CLOUD = "modes on the phone", "modes in the cloud"
LESS_POWER = "power, in the cloud over on the phone (modelled)"


def run(people: int = PEOPLE, hours: float = HOURS) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="resurge-lab-") as directory:
        found = compare(Path(directory), made_up_people(people, hours), at_least=2)
    phone, cloud = found[PHONE], found[CLOUD]
    more = cloud["bytes"] / phone["bytes"]
    parts = {
        name: (phone["modelled_joules"][name], cloud["modelled_joules"][name]) for name in phone["modelled_joules"]
    }
    power = parts["total"][1] / parts["total"][0]
    differs = max((name for name in parts if name != "total"), key=lambda name: abs(parts[name][1] - parts[name][0]))
    inference = parts["cpu"][0] - parts["cpu"][1]
    needed = (1 - PAPER_POWER) * parts["total"][0]
    shapes = [
        shape("the answers are the same", "-", found["same_answer"], found["same_answer"]),
        shape("bytes sent, in the cloud over on the phone", PAPER_BYTES, round(more, 2), more > 1),
        shape(LESS_POWER, PAPER_POWER, round(power, 3), power <= PAPER_POWER + 0.1),
        shape("what the paper's 40 % would be here, and what inference takes of the processor, J (modelled)",
              "by its sync stream", [round(needed, 1), round(inference, 1)], 0 < inference < needed),
    ]  # fmt: skip
    series = {
        "ours": [(phone["bytes"] / 1000, parts["total"][0]), (cloud["bytes"] / 1000, parts["total"][1])],
        "paper, scaled to our phone": [
            (phone["bytes"] / 1000, parts["total"][0]),
            (PAPER_BYTES * phone["bytes"] / 1000, PAPER_POWER * parts["total"][0]),
        ],
    }
    drawn = draw("sonora-moved", "Mode inference moved from phone to cloud", "kB sent", "J (modelled)", series)
    return report(
        "sonora-moved", "Sonora section 5.4", shapes, modelled=True, drawn=drawn, measured=found,
        joules_phone_and_cloud=parts, largest_difference=differs,
        parameters={"people": people, "hours": hours, "rows": "made up"},
        why=WHY,
    )  # fmt: skip
