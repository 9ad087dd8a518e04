"""Bytes that nobody honest would send: understood or refused, never anything else.

Small here: the corpus and some hundred mutations that Hypothesis chooses. `make soak` goes on for ten minutes with each
decoder and adds to `tests/fuzz/corpus` what was answered in a new way; what made a decoder fail stays there too.
"""

from __future__ import annotations

import hashlib
import time
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.decoders import DECODERS
from tests.fuzz.mutation import mutated

CORPUS = Path(__file__).parent / "corpus"
KEPT_BYTES_MAX = 8192
KEPT_MAX = 200  # of one decoder
SOAK_S = 600.0


def corpus(name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((CORPUS / name).glob("*")) if path.is_file()]


def outcome(name: str, content: bytes) -> str:
    """What became of it; an exception that its module does not promise is raised, with the input kept."""
    decoder = DECODERS[name]
    try:
        return decoder.decode(content)
    except decoder.expected as error:
        return f"{type(error).__name__} {getattr(error, 'code', '')}"
    except BaseException:
        keep(name, content, "failed")
        raise


def keep(name: str, content: bytes, why: str) -> None:
    directory = CORPUS / name
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{why}-{hashlib.sha256(content).hexdigest()[:16]}").write_bytes(content)


@pytest.mark.parametrize("name", DECODERS)
def test_what_is_right_is_understood_and_everything_in_the_corpus_is_answered(name: str) -> None:
    seeds = DECODERS[name].seeds()
    assert [outcome(name, seed) for seed in seeds] == [DECODERS[name].decode(seed) for seed in seeds]
    for content in corpus(name):
        outcome(name, content)


@pytest.mark.parametrize("name", DECODERS)
def test_whatever_is_changed_is_understood_or_refused(name: str) -> None:
    seeds = [*DECODERS[name].seeds(), *corpus(name)]

    @given(st.randoms(use_true_random=False))
    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), database=None, derandomize=True)
    def changed(random: Random) -> None:
        outcome(name, mutated(random, seeds))

    changed()


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", DECODERS)
def test_ten_minutes_of_changes_are_understood_or_refused(name: str, claim) -> None:
    seeds = [*DECODERS[name].seeds(), *corpus(name)]
    seen = {outcome(name, seed) for seed in seeds}
    seed = time.time_ns()
    random = Random(seed)
    tries, until = 0, time.monotonic() + SOAK_S
    while time.monotonic() < until:
        content = mutated(random, seeds)
        answer = outcome(name, content)
        if answer not in seen and len(content) <= KEPT_BYTES_MAX and len(seeds) < KEPT_MAX:
            seen.add(answer)
            seeds.append(content)
            keep(name, content, "new")
        tries += 1
    claim(f"{name}: {tries} tries with seed {seed}, {len(seen)} kinds of answers")
