"""What the examples over several nodes share: two test sensors, their sum over 100 rows, its mean over 100.

The names of the ECOC paper's experiments: SP2 is `average.py`, SP3 `one_attenuated.py`, SP4 `both_attenuated.py`. Rows
of the two sensors meet in the region, whichever devices they come from: the n-th with the n-th.
"""

from __future__ import annotations

import resurge as rs
import resurge.examples.peers.operators  # registers attenuate
from resurge import col
from resurge.examples.peers.operators import BLOCK

ANSWERS = {"answer": "bool", "v": "float64"}


def readings_of(name: str) -> rs.Stream:
    """A sensor's rows in the region, of all its devices together."""
    readings = rs.sensor(name, every="5ms", columns={"v": "float64"})
    return readings.gather(name, batch=50, within="250ms").key_by()


def average(first: rs.Stream, second: rs.Stream) -> rs.Stream:
    """The mean over 100 rows of the sum over 100 rows of both."""
    both = first.zip(second).select(v=col.v + col.v_right)
    sums = both.sliding(count=100).aggregate(v=rs.sum("v"))
    return sums.sliding(count=100).aggregate(v=rs.mean("v"))


def feedback(name: str) -> rs.Stream:
    """What comes back: an answer to each block of readings."""
    return rs.feedback(name, ANSWERS, key=())


def attenuated(readings: rs.Stream, answers: rs.Stream) -> rs.Stream:
    """The readings, smaller where an earlier answer was too high."""
    taken = readings.select(answer=False, v=col.v)
    return taken.union(answers, merge="logged").apply("attenuate", threshold=150.0, factor=0.5)


def answers_to(mean: rs.Stream) -> rs.Stream:
    """Every 100th mean, to be fed back."""
    each = mean.tumbling(count=BLOCK).aggregate(v=rs.last("v"))
    return each.select(answer=True, v=col.v)
