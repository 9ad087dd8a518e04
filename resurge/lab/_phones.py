"""The phones of the MobiStreams paper, *modelled*: what they can send and compute, from what the paper says of them.

* Pictures. Table I gives what a server gets over a 3G uplink of 0.016 to 0.32 Mbps: 0.011 to 0.22 tuples a second of
  the bus program, 0.018 to 0.36 of the traffic program. Both ends of both ranges give 182 kB and 111 kB a picture.
* Processors. Table I gives 0.54 and 0.8 tuples a second on phones without fault tolerance. That is taken as what the
  slowest operator allows: counting people, two of which share the pictures, and looking for round shapes. The others
  take as many seconds less as the programs' `cost` says. Only operators that look at pictures take time.
* Pictures under way. The paper's 32 and 25 seconds from picture to result are, at these rates, 17 and 20 pictures.

So what base does here is the paper's by calibration, where the network is fast enough for it. What the other
strategies do follows from the bytes that production hosts send.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from resurge.examples.regions import operators, pictures
from resurge.lab._medium import Rates

TUPLES_S = {"bus_capacity": 0.54, "traffic_signal": 0.8}  # the paper's, without fault tolerance
LATENCY_S = {"bus_capacity": 32.0, "traffic_signal": 25.0}
SERVER_TUPLES_S = {"bus_capacity": (0.011, 0.22), "traffic_signal": (0.018, 0.36)}
SERVER_LATENCY_S = {"bus_capacity": (60.0, 750.0), "traffic_signal": (40.0, 540.0)}
UPLINK = (0.016e6, 0.32e6)
WAYS = {"bus_capacity": 2, "traffic_signal": 1}  # that pictures are spread over
# Passes over a picture, as the operators' own `cost` has them; a vertex behind the dispatcher reads every picture and
# looks at its half.
PASSES = {
    "bus_capacity": {"bus_passers_by": 0.5, "bus_passers_by 2": 0.5, "bus_count": 4.0, "bus_count 2": 4.0},
    "traffic_signal": {"light_colour": 2.0, "light_shape": 4.0},
}


RATES = Rates()


@dataclass(frozen=True, slots=True)
class Model:
    rates: Rates = RATES
    timeout_s: float = 60.0  # that an answer is waited for: while a phone looks at a picture, it answers nobody
    silence_s: float = 40.0  # the paper's: a ping every 30 s, and 10 s for its answer
    exchange_bytes: int = 64 << 10  # of an exchange, so that it carries one picture
    spool_bytes: int = 24 << 20

    @staticmethod
    def characters(program: str) -> int:
        """Of a picture."""
        return round(UPLINK[1] / 8 / SERVER_TUPLES_S[program][1])

    @staticmethod
    def seconds(program: str) -> dict[str, float]:
        """That a vertex takes for each row, where that is any time at all."""
        passes = PASSES[program]
        each_s = WAYS[program] / TUPLES_S[program] / max(passes.values())
        return {vertex: count * each_s for vertex, count in passes.items()}

    @staticmethod
    def under_way(program: str) -> int:
        """Pictures, at most."""
        return round(TUPLES_S[program] * LATENCY_S[program])


def pass_ms(rounds: int = 200) -> float:
    """What one pass over a small picture takes on this machine."""
    pixels = pictures.decoded(pictures.of_bus_stop(7))
    times = []
    for _ in range(5):
        begun = time.perf_counter()
        operators.worked(pixels, rounds)
        times.append((time.perf_counter() - begun) / rounds)
    return float(np.median(times) * 1000)
