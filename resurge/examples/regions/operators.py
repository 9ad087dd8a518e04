"""The operator types of the bus and traffic programs, registered by name (`resurge.toml`: modules =
["resurge.examples.regions.operators"]).

Those that read pictures take a `cost`: so many passes of a 3 x 3 filter over each picture, a fraction of a millisecond
each (`resurge lab run regions-throughput` measures it). The face detection that they stand for takes seconds on a
phone: the labs count 0.93 s a pass of the bus program and 0.31 s of the traffic program, *modelled* after the paper's
throughput. With the costs given here programs are quick to try.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

import resurge as rs
from resurge.examples.regions import pictures

ARRIVAL, ALIGHTING, BOARDING = 0, 1, 2  # kinds of what the join of a bus stop reads
PART = {"kind": "int64", "value": "float64"}
PICTURE = {"picture": "str"}
SPOT = {"colour": "int64", "top": "int64", "left": "int64"}


def worked(pixels: np.ndarray, cost: int) -> None:
    """Smooth a picture so many times: what looking at it costs."""
    smooth: Any = pixels.astype(np.float32)
    for _ in range(cost):
        padded = np.pad(smooth, 1, mode="edge")
        smooth = sum(padded[y : y + pictures.SIZE, x : x + pictures.SIZE] for y in range(3) for x in range(3)) / 9.0


class Remembering:
    """A machine whose state is one JSON value."""

    state: Any = None

    def snapshot(self) -> bytes:
        return json.dumps(self.state).encode()

    def restore(self, state: bytes) -> None:
        self.state = json.loads(state)


# --- a bus stop ------------------------------------------------------------------------------------------------------


@rs.operator(
    "bus_noise", takes={"bus": "int64", "passengers": "float64"}, gives={"bus": "int64", "passengers": "float64"}
)
class Noise(Remembering):
    """Counts of passengers, each the median of the last three."""

    def __init__(self) -> None:
        self.state = []

    def process(self, _port: str, row: Mapping[str, float]) -> Iterator[dict[str, float]]:
        self.state = [*self.state, row["passengers"]][-3:]
        yield {"bus": row["bus"], "passengers": float(np.median(self.state))}


@rs.operator("bus_arrival", takes={"bus": "int64", "passengers": "float64"}, gives=PART)
class Arrival(Remembering):
    """Minutes until the bus is here: a fuller one stops for longer."""

    def __init__(self) -> None:
        self.state = 4.0

    def process(self, _port: str, row: Mapping[str, float]) -> Iterator[dict[str, float]]:
        self.state = round(0.8 * self.state + 0.2 * (3.0 + row["passengers"] / 20.0), 6)
        yield {"kind": ARRIVAL, "value": self.state}


@rs.operator("bus_alighting", takes={"bus": "int64", "passengers": "float64"}, gives=PART)
class Alighting(Remembering):
    """How many of the passengers leave the bus here: a share that follows what was seen."""

    def __init__(self) -> None:
        self.state = [0.2, 0.0]

    def process(self, _port: str, row: Mapping[str, float]) -> Iterator[dict[str, float]]:
        share, before = self.state
        self.state = [round(0.95 * share + 0.05 * (0.3 if row["passengers"] > before else 0.1), 6), row["passengers"]]
        yield {"kind": ALIGHTING, "value": round(row["passengers"] * share, 6)}


@rs.operator("bus_dispatch", takes=PICTURE, gives={"picture": "str", "way": "int64"})
class Dispatch(Remembering):
    """Pictures in turn to so many that look at them."""

    def __init__(self, *, ways: int = 2) -> None:
        self._ways, self.state = ways, 0

    def process(self, _port: str, row: Mapping[str, object]) -> Iterator[dict[str, object]]:
        yield {"picture": row["picture"], "way": self.state}
        self.state = (self.state + 1) % self._ways


@rs.operator("bus_passers_by", takes=PICTURE, gives=PICTURE)
class PassersBy(Remembering):
    """Pictures without what was not there in the one before: whoever only passes by."""

    def __init__(self, *, cost: int = 1) -> None:
        self._cost, self.state = cost, ""

    def process(self, _port: str, row: Mapping[str, str]) -> Iterator[dict[str, str]]:
        pixels = pictures.decoded(row["picture"])
        worked(pixels, self._cost)
        before = pictures.decoded(self.state) if self.state else pixels
        self.state = row["picture"]
        yield {"picture": pictures.redrawn(row["picture"], np.where((pixels > 128) & (before > 128), 220, 0))}


@rs.operator("bus_count", takes=PICTURE, gives={"people": "int64"})
class Count(Remembering):
    """How many people a picture shows."""

    def __init__(self, *, cost: int = 4) -> None:
        self._cost, self.state = cost, 0

    def process(self, _port: str, row: Mapping[str, str]) -> Iterator[dict[str, int]]:
        pixels = pictures.decoded(row["picture"])
        worked(pixels, self._cost)
        self.state = len(pictures.blobs(pixels > 128))
        yield {"people": self.state}


@rs.operator("bus_boarding", takes={"people": "int64"}, gives=PART)
class Boarding(Remembering):
    """How many will get on: those who wait, and those who come until then."""

    def __init__(self) -> None:
        self.state = []

    def process(self, _port: str, row: Mapping[str, int]) -> Iterator[dict[str, float]]:
        self.state = [*self.state, row["people"]][-12:]
        grows = max(0.0, (self.state[-1] - self.state[0]) / len(self.state))
        yield {"kind": BOARDING, "value": round(row["people"] + grows, 6)}


@rs.operator("bus_capacity", takes=PART, gives={"bus": "int64", "passengers": "float64"})
class Capacity(Remembering):
    """How full the bus is when it leaves: each time it is said when it comes, from the newest of all models."""

    def __init__(self, *, seats: float = 90.0) -> None:
        self._seats, self.state = seats, [0, 0.0, 0.0, 0.0]  # the bus, who is on it, who leaves, who gets on

    def process(self, _port: str, row: Mapping[str, float]) -> Iterator[dict[str, float]]:
        bus, on_it, leaves, gets_on = self.state
        if row["kind"] == ARRIVAL:
            on_it = min(self._seats, max(0.0, round(on_it - leaves + gets_on, 6)))
            bus += 1
            yield {"bus": bus, "passengers": on_it}
        elif row["kind"] == ALIGHTING:
            leaves = min(row["value"], on_it)
        else:
            gets_on = row["value"]
        self.state = [bus, on_it, leaves, gets_on]


# --- a crossing ------------------------------------------------------------------------------------------------------


@rs.operator("light_colour", takes=PICTURE, gives=PICTURE)
class Colour(Remembering):
    """Pictures with nothing but red, yellow and green."""

    def __init__(self, *, cost: int = 2) -> None:
        self._cost, self.state = cost, 0

    def process(self, _port: str, row: Mapping[str, str]) -> Iterator[dict[str, str]]:
        pixels = pictures.decoded(row["picture"])
        worked(pixels, self._cost)
        self.state += 1
        yield {"picture": pictures.redrawn(row["picture"], np.where(pixels <= pictures.GREEN, pixels, 0))}


@rs.operator("light_shape", takes=PICTURE, gives={"spots": "str"})
class Shape(Remembering):
    """The spots of a picture that are round: as wide as high, and as full as a circle."""

    def __init__(self, *, cost: int = 4) -> None:
        self._cost, self.state = cost, 0

    def process(self, _port: str, row: Mapping[str, str]) -> Iterator[dict[str, str]]:
        pixels = pictures.decoded(row["picture"])
        worked(pixels, self._cost)
        found = []
        for colour in pictures.PHASES_S:
            for top, left, height, width, size in pictures.blobs(pixels == colour):
                if height == width and 0.6 < size / (height * width) < 0.95:
                    found.append([colour, top, left])
        self.state += len(found)
        yield {"spots": json.dumps(found)}


@rs.operator("light_motion", takes={"spots": "str"}, gives=SPOT)
class Motion(Remembering):
    """Of the spots those that were there before, in whatever colour: lights stand by the roadside, cars do not."""

    def __init__(self) -> None:
        self.state = []

    def process(self, _port: str, row: Mapping[str, str]) -> Iterator[dict[str, int]]:
        spots = json.loads(row["spots"])
        for colour, top, left in spots:
            if [top, left] in self.state:
                yield {"colour": colour, "top": top, "left": left}
        self.state = [spot[1:] for spot in spots]


@rs.operator("light_vote", takes=SPOT, gives={"colour": "int64"})
class Vote(Remembering):
    """What most of the last three say."""

    def __init__(self) -> None:
        self.state = []

    def process(self, _port: str, row: Mapping[str, int]) -> Iterator[dict[str, int]]:
        self.state = [*self.state, row["colour"]][-3:]
        yield {"colour": max(sorted({*self.state}), key=self.state.count)}


@rs.operator(
    "light_group", takes={"colour": "int64", "seconds": "float64"}, gives={"colour": "int64", "lasted": "float64"}
)
class Group(Remembering):
    """Runs of one colour, and how long each lasted; what the crossing before expects counts as one of its own."""

    def __init__(self) -> None:
        self.state = [0, 0]

    def process(self, _port: str, row: Mapping[str, float]) -> Iterator[dict[str, float]]:
        colour, since = self.state
        if row["seconds"] >= 0.0:
            yield {"colour": row["colour"], "lasted": row["seconds"]}
        elif colour != row["colour"]:
            if colour:
                yield {"colour": colour, "lasted": round((row["time"] - since) / 1e6, 3)}
            self.state = [row["colour"], int(row["time"])]


@rs.operator(
    "light_predict", takes={"colour": "int64", "lasted": "float64"}, gives={"light": "int64", "seconds": "float64"}
)
class Predict(Remembering):
    """How long the colour that follows will last: a support vector regression for each colour, trained with every
    run that ends."""

    def __init__(self, *, rate: float = 0.3, tube: float = 0.5) -> None:
        self._rate, self._tube = rate, tube
        self.state = {str(colour): [10.0, 0.0] for colour in pictures.PHASES_S}

    def process(self, _port: str, row: Mapping[str, float]) -> Iterator[dict[str, float]]:
        weights = self.state[str(int(row["colour"]))]
        error = row["lasted"] - (weights[0] + weights[1] * row["lasted"])
        if abs(error) > self._tube:
            step = self._rate * (1.0 if error > 0 else -1.0) * max(1.0, abs(error) / 2)
            self.state[str(int(row["colour"]))] = [round(weights[0] + step, 6), round(0.99 * weights[1], 6)]
        colours = list(pictures.PHASES_S)
        follows = colours[(colours.index(int(row["colour"])) + 1) % len(colours)]
        yield {"light": follows, "seconds": self.state[str(follows)][0]}
