from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from shared.identity import is_small_order

FIELD = 2**255 - 19
D = -121665 * pow(121666, -1, FIELD) % FIELD
IDENTITY = (0, 1)
# The identity and its other spellings, the point of order 2, those of order 4, and those of order 8.
WEAK = [
    "01" + "00" * 31, "01" + "00" * 30 + "80", "ee" + "ff" * 30 + "7f", "ec" + "ff" * 30 + "7f",
    "00" * 32, "00" * 31 + "80", "ed" + "ff" * 30 + "7f",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
]  # fmt: skip


def point(key: bytes) -> tuple[int, int]:
    y = (int.from_bytes(key, "little") & ((1 << 255) - 1)) % FIELD
    square = (y * y - 1) * pow(D * y * y + 1, -1, FIELD) % FIELD
    x = pow(square, (FIELD + 3) // 8, FIELD)
    if (x * x - square) % FIELD:
        x = x * pow(2, (FIELD - 1) // 4, FIELD) % FIELD
    assert (x * x - square) % FIELD == 0
    return x, y


def doubled(p: tuple[int, int]) -> tuple[int, int]:
    x, y = p
    mixed = D * x * x * y * y
    return (
        2 * x * y * pow(1 + mixed, -1, FIELD) % FIELD,
        (y * y + x * x) * pow(1 - mixed, -1, FIELD) % FIELD,
    )


@pytest.mark.parametrize("key", WEAK)
def test_a_key_for_which_anybody_can_sign_is_known(key: str) -> None:
    at = point(bytes.fromhex(key))
    assert doubled(doubled(doubled(at))) == IDENTITY  # so it is of small order indeed
    assert is_small_order(bytes.fromhex(key))


def test_an_honest_key_is_not_of_small_order() -> None:
    for seed in range(50):
        key = Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32).public_key().public_bytes_raw()
        assert not is_small_order(key)


def test_the_library_alone_takes_a_signature_that_nobody_made() -> None:
    forged = bytes.fromhex(WEAK[0]) + bytes(32)  # R is the identity, S is zero
    Ed25519PublicKey.from_public_bytes(bytes.fromhex(WEAK[0])).verify(forged, b"whatever it says")
