"""The programs for regions: what their pictures show, and what each of them says of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from resurge.examples.regions import operators, pictures
from shared.plan.cuts import region_vertices
from shared.stream.program import load_program

FOLDER = Path(operators.__file__).parent
LETTERS = {  # of the papers' figures, and the vertices that stand for them; a source and a sink are edges
    "bus_capacity": {
        "S0": "previous", "S1": "pictures", "N": "bus_noise", "A": "bus_arrival", "L": "bus_alighting",
        "D": "bus_dispatch", "H": "bus_passers_by", "C": "bus_count", "B": "bus_boarding", "J": "union 2", "P": "capacity",
        "K": "capacity",
    },
    "traffic_signal": {
        "S0": "previous", "S1": "pictures", "C": "light_colour", "A": "light_shape", "M": "light_motion", "V": "light_vote",
        "G": "light_group", "P": "signal", "K": "signal",
    },
}  # fmt: skip


@pytest.mark.covers("MS-39")
@pytest.mark.parametrize("name", LETTERS)
def test_a_program_has_the_operators_of_its_figure(name: str) -> None:
    vertices = region_vertices(load_program(FOLDER / f"{name}.py"))
    there = {vertex.name for vertex in vertices} | {each for vertex in vertices for each in vertex.inputs}
    there |= {output.name for vertex in vertices for output in vertex.fragment.outputs}
    assert {*LETTERS[name].values()} <= there
    edges = {(source.partition("/")[0], vertex.name) for vertex in vertices for source in vertex.inputs}
    if name == "bus_capacity":
        assert {("previous", "bus_noise"), ("bus_noise", "bus_arrival"), ("bus_noise", "bus_alighting")} <= edges
        assert {("bus_arrival", "union 2"), ("bus_alighting", "union 2"), ("bus_boarding", "union 2")} <= edges
    else:
        assert {("pictures", "light_colour"), ("light_colour", "light_shape"), ("light_shape", "light_motion")} <= edges


def test_those_who_wait_are_counted_and_those_who_pass_by_are_not() -> None:
    stays, counts = operators.PassersBy(), operators.Count()
    seen = []
    for number in range(40):
        (without,) = stays.process("in", {"picture": pictures.of_bus_stop(number)})
        (found,) = counts.process("in", without)
        seen.append(found["people"])
    waited = [min(pictures.waiting_at(number), pictures.waiting_at(number - 1)) for number in range(1, 40)]
    assert seen[1:] == waited


def test_a_light_is_told_from_a_car_and_a_sign_and_its_phases_are_learned() -> None:
    chain = [
        operators.Colour(),
        operators.Shape(),
        operators.Motion(),
        operators.Vote(),
        operators.Group(),
        operators.Predict(),
    ]
    said: dict[int, list[float]] = {}
    for number in range(38 * 15):
        rows: list[dict[str, object]] = [{"picture": pictures.of_crossing(number), "time": number * 1_000_000}]
        for each in chain:
            rows = [{"seconds": -1.0, **row, "time": number * 1_000_000} for row in rows]
            rows = [made for row in rows for made in each.process("in", row)]  # type: ignore[arg-type, attr-defined]
        for row in rows:
            said.setdefault(int(row["light"]), []).append(float(row["seconds"]))  # type: ignore[call-overload, arg-type]
    assert said.keys() == pictures.PHASES_S.keys()
    for colour, seconds in pictures.PHASES_S.items():
        assert abs(np.mean(said[colour][-5:]) - seconds) < 2.5, f"{colour}: {said[colour][-5:]}"


@pytest.mark.parametrize("machine", [operators.Noise, operators.Alighting, operators.Capacity, operators.Predict])
def test_a_restored_operator_goes_on_as_if_nothing_had_happened(machine: type[operators.Remembering]) -> None:
    rows = [
        {
            "bus": n,
            "passengers": n % 13 * 3.0,
            "kind": n % 3,
            "value": n % 7 * 1.0,
            "colour": n % 3 + 1,
            "lasted": n % 9 * 1.0,
        }
        for n in range(60)
    ]
    whole, half = machine(), machine()
    ideal = [made for row in rows for made in whole.process("in", row)]  # type: ignore[attr-defined]
    found = [made for row in rows[:30] for made in half.process("in", row)]  # type: ignore[attr-defined]
    again = machine()
    again.restore(half.snapshot())
    assert found + [made for row in rows[30:] for made in again.process("in", row)] == ideal  # type: ignore[attr-defined]
