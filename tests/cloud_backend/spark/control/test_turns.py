"""Thirty jobs on a session of two cores: each comes as often as every other."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence

from cloud_backend.spark.control.turns import Turns
from cloud_backend.spark.task.specification import Outcome, Specification
from tests.claims import Claim

JOBS = [f"job {number:02d}" for number in range(30)]


class ByName:
    """Serves two at once, and of those that ask the first by name: as Spark's fair scheduler does."""

    code = "by name"

    def __init__(self) -> None:
        self.served: Counter[str] = Counter()
        self.at_once = self.most_at_once = 0
        self._asking: list[str] = []
        self._changed = threading.Condition()

    def run(self, specs: Sequence[Specification], *, timeout_s: float | None = None) -> list[list[Outcome]]:
        name = threading.current_thread().name
        with self._changed:
            self._asking.append(name)
            self._changed.wait_for(lambda: self.at_once < 2 and min(self._asking) == name)
            self._asking.remove(name)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        time.sleep(0.002)
        with self._changed:
            self.at_once -= 1
            self.served[name] += 1
            self._changed.notify_all()
        return []


def served(runner: ByName | Turns, counted: Counter[str], turns: int) -> Counter[str]:
    """How often each job was served once all together were this many times."""
    together = threading.Barrier(len(JOBS))  # who is started first must not have had turns before the others are there
    threads = [threading.Thread(target=_ask, args=(runner, counted, turns, together), name=name) for name in JOBS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return counted


def _ask(runner: ByName | Turns, counted: Counter[str], turns: int, together: threading.Barrier) -> None:
    together.wait()
    while counted.total() < turns:
        runner.run(())


def test_every_job_gets_its_turn(claim: Claim) -> None:
    alone = ByName()
    starved = [name for name in JOBS if served(alone, alone.served, 600)[name] < 3]
    assert len(starved) >= 10  # what the scheduler does without turns
    shared = ByName()
    counts = served(Turns(shared, 2), shared.served, 600)
    claim(f"of 600 turns the fewest of 30 jobs had {min(counts.values())}, the most {max(counts.values())}")
    assert set(counts) == set(JOBS)
    assert min(counts.values()) >= 15  # of 20: a thread that the system lets wait asks a little late
    assert shared.most_at_once == 2


def test_a_turn_that_raises_is_over() -> None:
    class Broken(ByName):
        def run(self, specs: Sequence[Specification], *, timeout_s: float | None = None) -> list[list[Outcome]]:
            raise ValueError

    turns = Turns(Broken(), 1)
    for _ in range(3):
        try:
            turns.run(())
        except ValueError:
            continue
