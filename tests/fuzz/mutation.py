"""Changing bytes as damage and malice do: a few edits of something that was once right."""

from __future__ import annotations

from random import Random

NUMBERS = [bytes(size) for size in (1, 2, 4, 8)] + [b"\xff" * size for size in (1, 2, 4, 8)] + [
    b"\x7f", b"\x80", b"\x01\x00\x00\x00", b"\x00\x00\x00\x01", b"\xff\xff\xff\x7f", b"\x00\x00\x40\x00",
]  # fmt: skip
WORDS = [
    b'"\\ud800"',
    b"NaN",
    b"[" * 40,
    b"{}",
    b"null",
    b"\r\n",
    b"\r\n\r\n",
    b"0\r\n",
    b"RS",
    b"RSrc",
    b"\xe1",
    b"1e999",
]


def mutated(random: Random, seeds: list[bytes], bytes_max: int = 1 << 16) -> bytes:
    """One of the seeds with one to eight edits; now and then two of them joined, or nothing but noise."""
    if random.random() < 0.02:
        return random.randbytes(random.randrange(300))
    data = bytearray(random.choice(seeds))
    if random.random() < 0.1:
        other = random.choice(seeds)
        data = data[: random.randrange(len(data) + 1)] + other[random.randrange(len(other) + 1) :]
    for _ in range(random.randrange(1, 9)):
        at = random.randrange(len(data) + 1)
        match random.randrange(6):
            case 0 if data:
                data[at % len(data)] ^= 1 << random.randrange(8)
            case 1:
                data[at : at + random.randrange(1, 9)] = b""
            case 2:
                data[at:at] = random.choice(WORDS)
            case 3:
                number = random.choice(NUMBERS)
                data[at : at + len(number)] = number
            case 4:
                data[at:at] = data[at : at + random.randrange(64)]
            case _:
                data = data[: random.randrange(len(data) + 1)] if random.random() < 0.2 else data
    return bytes(data[:bytes_max])
