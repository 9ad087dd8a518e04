"""A node's keys towards the other nodes of its fleet."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from mobile_app.home.files import write_durably
from mobile_app.home.keys import Keys, SessionKey, load_keys
from mobile_app.links.peers import CurveKeys
from shared.errors import DamagedData

CURVE_FILE = "curve.key"


@dataclass(frozen=True, slots=True)
class FleetKeys:
    """The device's own key, for calling and for answering nodes."""

    home: Path

    def calling(self, peer: bytes) -> Keys:
        return load_keys(self.home, peer)

    def answering(self) -> AnsweringKeys:
        return AnsweringKeys(load_keys(self.home))


class AnsweringKeys:
    """As the gateway has them towards devices, with the device's own key."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    @property
    def public_key(self) -> bytes:
        return self._keys.public_key

    def sign(self, message: bytes) -> bytes:
        return self._keys.sign(message)

    def verify(self, public_key: bytes, message: bytes, signature: bytes) -> bool:
        try:
            Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
        except (InvalidSignature, ValueError):
            return False
        return True

    def ephemeral(self) -> SessionKey:
        return SessionKey()

    def random(self, count: int) -> bytes:
        return os.urandom(count)


def load_curve_keys(home: Path) -> CurveKeys:
    """This home's CURVE keys; made on first use and durable before they are used."""
    path = home / CURVE_FILE
    try:
        public, secret = path.read_text().split()
    except FileNotFoundError:
        keys = CurveKeys.generate()
        write_durably(path, f"{keys.public} {keys.secret}\n".encode())
        return keys
    except ValueError:
        raise DamagedData(
            f"the keys in {str(path)!r} cannot be read; move the file away and give the fleet this node's new card",
            code="key-damaged",
        ) from None
    return CurveKeys(public, secret)
