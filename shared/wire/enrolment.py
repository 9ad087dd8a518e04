"""How a device is introduced to a gateway: the link in the QR code, and the one request that uses it.

    resurge://HOST:PORT/#CODE.GATEWAY_KEY[.PIN]

The fragment never travels in a request line. CODE is 128 random bits, good once and for ten minutes. GATEWAY_KEY
is the Ed25519 key every WELCOME and plan will be signed with; taking it from the link and not from the answer
means that whoever sits in between can neither answer in the gateway's place nor be pinned by mistake. PIN is the
SHA-256 of the gateway's TLS key (SubjectPublicKeyInfo); with it the link is TLS to that key and no other, whatever
certificate is around it, without it plain HTTP for a loopback or a network that is trusted otherwise.

The device proves that it holds the key it enrols, for this code and this gateway. Repeating the request with the
same key is answered the same way, so an answer lost on the way costs nothing; another key with a used code is
refused. The answer names the incarnation that all of this installation's elements carry.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass

from shared.errors import PeerError, UsageError
from shared.identity import DeviceId, device_id, is_small_order

CODE_BYTES = 16
KEY_BYTES = 32
PIN_BYTES = 32
SIGNATURE_BYTES = 64
REQUEST_BYTES_MAX = 4096
NAME_CHARACTERS_MAX = 80

_LINK = re.compile(r"resurge://([A-Za-z0-9.\-]+|\[[0-9A-Fa-f:.]+\]):(\d{1,5})/#([A-Za-z0-9_\-.]+)")


@dataclass(frozen=True, slots=True)
class EnrolmentLink:
    host: str
    port: int
    code: bytes
    gateway_key: bytes
    pin: bytes = b""  # empty: no TLS

    @property
    def url(self) -> str:
        """Where the gateway answers."""
        return f"{'https' if self.pin else 'http'}://{self.host}:{self.port}"

    def __str__(self) -> str:
        secrets = ".".join(_text(part) for part in (self.code, self.gateway_key, self.pin) if part)
        return f"resurge://{self.host}:{self.port}/#{secrets}"

    @staticmethod
    def parse(link: str) -> EnrolmentLink:
        """The parts of a pasted or scanned link. Raises UsageError without repeating it: it holds a secret."""
        match = _LINK.fullmatch(link.strip())
        parts = [_bytes(part) for part in match[3].split(".")] if match else []
        lengths = [CODE_BYTES, KEY_BYTES, PIN_BYTES][: len(parts)]
        if match is None or len(parts) not in (2, 3) or [len(part) for part in parts] != lengths:
            raise UsageError(
                "this is not an enrolment link; expected resurge://HOST:PORT/#CODE.KEY[.PIN] as printed by "
                "resurge device pair, copy all of it",
                code="enrolment-link",
            )
        if is_small_order(parts[1]):
            raise UsageError(
                "anybody could sign for the key in this enrolment link; get the gateway's link another way",
                code="enrolment-link",
            )
        if not 0 < int(match[2]) < 65536:
            raise UsageError("the port in the enrolment link is not between 1 and 65535", code="enrolment-link")
        return EnrolmentLink(match[1], int(match[2]), *parts)


@dataclass(frozen=True, slots=True)
class EnrolmentRequest:
    code: bytes
    public_key: bytes
    name: str  # what the operator sees, chosen by whoever holds the device
    signature: bytes = b""

    def signed(self, gateway_key: bytes) -> bytes:
        """What the device signs: it holds this key, and means this code and this gateway."""
        return b"resurge-enrol-1" + self.code + gateway_key + self.public_key

    def encode(self) -> bytes:
        return json.dumps(
            {
                "code": _text(self.code),
                "public_key": self.public_key.hex(),
                "name": self.name,
                "signature": self.signature.hex(),
            }
        ).encode()


@dataclass(frozen=True, slots=True)
class EnrolmentAnswer:
    device: DeviceId
    incarnation: int

    def encode(self) -> bytes:
        return json.dumps({"device": self.device.hex(), "incarnation": self.incarnation}).encode()

    @staticmethod
    def decode(body: bytes, public_key: bytes) -> EnrolmentAnswer:
        """The answer to this key's request; PeerError when it is not one."""
        try:
            value = json.loads(body[:REQUEST_BYTES_MAX])
            device, incarnation = bytes.fromhex(value["device"]), value["incarnation"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise PeerError("the answer to the enrolment is not one", code="enrolment-answer") from None
        if device != device_id(public_key) or type(incarnation) is not int or not 0 < incarnation < 1 << 32:
            raise PeerError("the answer to the enrolment is for another device", code="enrolment-answer")
        return EnrolmentAnswer(DeviceId(device), incarnation)


def comparison_digits(code: bytes, public_key: bytes, gateway_key: bytes) -> str:
    """Six digits that both screens show after pairing; if they differ, another device took the code."""
    digest = hashlib.sha256(b"resurge-compare-1" + code + public_key + gateway_key).digest()
    return f"{int.from_bytes(digest[:8], 'big') % 1_000_000:06d}"


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError:
        return b""
    return data if _text(data) == text else b""  # one spelling only


def decode_code(text: str) -> bytes:
    """A code as written in a request; empty when it is none."""
    code = _bytes(text)
    return code if len(code) == CODE_BYTES else b""
