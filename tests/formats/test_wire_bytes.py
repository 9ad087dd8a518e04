"""Bytes that phones and gateways exchange, as the first release wrote them: both sides read them for ever.

`wire_v2.json` holds one frame of each message, the enrolment, and a whole conversation (handshake, sealed exchange,
sealed reply) under fixed keys. The frozen bytes of each side are fed to the other side of today.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from shared.identity import DeviceId, EdgeKey, device_id, edge_id
from shared.language.schema import Schema
from shared.moves import Move
from shared.sync.session import DeviceSession, Enrolment, GatewaySessions
from shared.wire import broadcast, messages
from shared.wire.enrolment import EnrolmentAnswer, EnrolmentLink, EnrolmentRequest, comparison_digits
from shared.wire.envelope import open_envelope, seal
from shared.wire.fleet_status import FleetNodeStatus, FleetQueryStatus, FleetStatus, PlacementStatus
from shared.wire.frame import FrameType, decode_all, decode_one, encode
from shared.wire.passed import PassMessage
from shared.wire.status import DeviceStatus, HostOffer, InstanceStatus

FROZEN = Path(__file__).with_name("wire_v2.json")
DEVICE = DeviceId(bytes(range(16)))
EDGE = edge_id("trips")
# What a phone of the first release told the fleet page; its name and region are no longer read.
STATUS = DeviceStatus(
    battery=83, charging=True, incarnation=2, lane="wifi", leaving="battery low", missing_sensors=("gps",), plan=3,
    produced=1200, python="3.11.9", refusal="session-expired", spool_bytes=4096, spool_capacity_bytes=52428800,
    version="1.0.0",
)  # fmt: skip
STATUS_NOW = replace(STATUS, full_in_s=3600.0, malformed_results=1, overruns=2, poll_s=30.0)
STATUS_WITH_OPERATORS = replace(
    STATUS_NOW, build="My trips 1.0 (org.example.trips)", operators=("track@1", "trip@2"), clock_doubt_s=0.12
)
STATUS_IN_A_FLEET = DeviceStatus(
    fleet=FleetStatus(
        4, (FleetNodeStatus("hub", "ab" * 16, 1_794_817_500_000_000),),
        (FleetQueryStatus("beats", "ecoc", 500, ("phone",), "laptop"),),
        (PlacementStatus("beats", "qrs", 2, ("laptop",), ("hub",), "running", "", 0, 14, 900, 1_794_817_499_000_000),),
        (Move(1_794_817_500_000_000, "beats", "qrs", 2, ("hub",), ("laptop",), "hub is silent"),),
    ),
    instances=(InstanceStatus("beats", "qrs", 2, "running", "", 0, 14, 900),),
)  # fmt: skip
STATUS_OF_A_HOST = DeviceStatus(
    deployment=(3, 8), offer=HostOffer("hub", "0" * 40, ("tcp://192.0.2.7:7301",), 64), unreachable=("ab" * 16,)
)
STATUS_OF_A_HOST_OF_REGIONS = DeviceStatus(
    deployment=(3, 8), offer=HostOffer("hub", "0" * 40, ("tcp://192.0.2.7:7301",), 64, passed=True)
)
STATUS_OF_A_MEMBER = DeviceStatus(position=(1.3521, 103.8198), urgent=("ab" * 16, "cd" * 16))
MESSAGES: dict[str, Any] = {
    "HELLO": messages.Hello(DEVICE, 2, b"p" * 32, b"e" * 32, b"g" * 16, b"s" * 64),
    "WELCOME": messages.Welcome(DEVICE, 2, b"i" * 16, b"e" * 32, 3600, b"s" * 64),
    "DECLARE": messages.Declare(DEVICE, 2, EDGE, "trips", Schema.of({"lat": "float64", "mode": "str"})),
    "DATA": messages.Data(DEVICE, 2, EDGE, 5, 9, 3, 77, 1, 1, b"columns", 123, 4),
    "TOMBSTONE": messages.LostRange(DEVICE, 2, EDGE, 5, 9, "evicted"),
    "FRONTIER": messages.Frontier(DEVICE, 2, EDGE, 9, 456),
    "STATUS": messages.Status(DEVICE, STATUS),
    "RECEIPT": messages.Receipt(DEVICE, 2, EDGE, 9),
    "RESULT": messages.Result(DEVICE, 4, {"sink": "trips", "values": {"km": 3.5}}),
    "RESULT_RECEIPT": messages.ResultReceipt(DEVICE, 4),
    "PLAN": messages.PlanMessage(DEVICE, 3, b"{}", b"s" * 64),
    "HINT": messages.Hint(DEVICE, {"gps": 0.5}),
    "REFUSAL": messages.Refusal(DEVICE, "session-unknown", "say HELLO again", 5.0),
    "WITHHELD": messages.PlanWithheld(DEVICE, 3, ("track@1",), "My trips 1.0 (org.example.trips)"),
    "CHAIN": messages.Chain(DEVICE, 2, EDGE, 0, 9, b"d" * 32, b"s" * 64),
    "MARK": messages.MarkMessage(DEVICE, 2, EDGE, 9, 40, 0xDEADBEEF, 3, True),
    "EXTEND": messages.Extend(DEVICE, 2, EDGE, 5, 40, 0xDEADBEEF),
    "DEPLOYMENT": messages.DeploymentMessage(DEVICE, 3, 8, b"{}", b"s" * 64),
    "ANNOUNCE": broadcast.Announce(
        DEVICE,
        broadcast.Announcement(EdgeKey(DEVICE, 2, EDGE), DeviceId(b"n" * 16), 3, 5, 2, 1500, b"r" * 32, b"s" * 64),
        True,
    ),
    "BITMAP": broadcast.Bitmap(DEVICE, b"i" * 8, 0b1_0000_0101, 11),
    "BLOCK": broadcast.LackedBlocks(
        DEVICE, b"i" * 8, (broadcast.Block(b"i" * 8, 1, b"one"), broadcast.Block(b"i" * 8, 7, b"seven"))
    ),
    "PASS": PassMessage(DEVICE, 41, DeviceId(b"n" * 16), b"an exchange"),
}
PEER_RECEIPT = messages.PeerReceipt(DEVICE, 2, EDGE, 5, 9, 3, 4096, 512)  # between nodes; the gateway's is shorter

# Over the batches of a query, by the node that made them; a device's own has no id.
CHAIN_BY_NODE = messages.Chain(DEVICE, 2, EDGE, 0, 9, b"d" * 32, b"s" * 64, signer=b"n" * 16, term=3)


class FixedEphemeral:
    def __init__(self, private: bytes) -> None:
        self._private = X25519PrivateKey.from_private_bytes(private)
        self.public = self._private.public_key().public_bytes_raw()

    def agree(self, other_public: bytes) -> bytes:
        return self._private.exchange(X25519PublicKey.from_public_bytes(other_public))


class FixedKeys:
    """Real keys from fixed seeds, so that a conversation is the same bytes each time."""

    def __init__(self, seed: int, gateway_key: bytes = b"") -> None:
        self._private = Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32)
        self._seed = seed
        self.public_key = self._private.public_key().public_bytes_raw()
        self.gateway_key = gateway_key

    def sign(self, message: bytes) -> bytes:
        return self._private.sign(message)

    def verify(self, public_key: bytes, message: bytes, signature: bytes) -> bool:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
        return True

    def verify_gateway(self, message: bytes, signature: bytes) -> bool:
        return self.verify(self.gateway_key, message, signature)

    def ephemeral(self) -> FixedEphemeral:
        return FixedEphemeral(bytes([self._seed + 100]) * 32)

    def random(self, count: int) -> bytes:
        return bytes(range(count))


GATEWAY_KEYS = FixedKeys(1)
DEVICE_KEYS = FixedKeys(2, GATEWAY_KEYS.public_key)
PHONE = device_id(DEVICE_KEYS.public_key)
UP = [
    encode(messages.Frontier(PHONE, 1, EDGE, 9, 456).frame()),
    encode(messages.Data(PHONE, 1, EDGE, 0, 2, 2, 7, 0, 1, b"xy").frame()),
]
DOWN = [encode(messages.Receipt(PHONE, 1, EDGE, 2).frame())]
LINK = EnrolmentLink("192.0.2.7", 8443, b"c" * 16, GATEWAY_KEYS.public_key, b"t" * 32)


class Enrolled:
    def find(self, device: DeviceId) -> Enrolment | None:
        return Enrolment(DEVICE_KEYS.public_key, 1) if device == PHONE else None


def device_end() -> DeviceSession:
    return DeviceSession(DEVICE_KEYS, PHONE, 1)


def gateway_end() -> GatewaySessions:
    return GatewaySessions(GATEWAY_KEYS, Enrolled())


def enrolment_request() -> EnrolmentRequest:
    unsigned = EnrolmentRequest(LINK.code, DEVICE_KEYS.public_key, "Pixel")
    return EnrolmentRequest(
        unsigned.code, unsigned.public_key, unsigned.name, DEVICE_KEYS.sign(unsigned.signed(LINK.gateway_key))
    )


def conversation() -> dict[str, str]:
    device, gateway = device_end(), gateway_end()
    hello = device.hello()
    welcome = gateway.greet(hello, 0.0)
    assert device.welcome(decode_one(welcome)[0], 0.0)
    request = device.seal(UP)
    opened = gateway.open(request, 0.0)
    reply = opened.session.seal(opened.counter, DOWN)
    return {"hello": hello.hex(), "welcome": welcome.hex(), "request": request.hex(), "reply": reply.hex()}


def written() -> dict[str, Any]:
    return {
        "frames": {name: encode(message.frame()).hex() for name, message in MESSAGES.items() if name != "STATUS"},
        "status_now": encode(messages.Status(DEVICE, STATUS_NOW).frame()).hex(),
        "status_with_operators": encode(messages.Status(DEVICE, STATUS_WITH_OPERATORS).frame()).hex(),
        "status_in_a_fleet": encode(messages.Status(DEVICE, STATUS_IN_A_FLEET).frame()).hex(),
        "status_of_a_host": encode(messages.Status(DEVICE, STATUS_OF_A_HOST).frame()).hex(),
        "status_of_a_host_of_regions": encode(messages.Status(DEVICE, STATUS_OF_A_HOST_OF_REGIONS).frame()).hex(),
        "status_of_a_member": encode(messages.Status(DEVICE, STATUS_OF_A_MEMBER).frame()).hex(),
        "deployment_asked": encode(messages.DeploymentMessage(DEVICE).frame()).hex(),
        "peer_receipt": encode(PEER_RECEIPT.frame()).hex(),
        "chain_by_node": encode(CHAIN_BY_NODE.frame()).hex(),
        "bare_refusal": messages.bare_refusal("device-unknown", "not enrolled", retry_after_s=2.0).hex(),
        "datagram": broadcast.Block(b"i" * 8, 7, b"seven").datagram().hex(),
        "announced": MESSAGES["ANNOUNCE"].announcement.datagram().hex(),
        "envelope": seal(b"\xe1" * 16, 7, UP, b"k" * 32).hex(),
        "conversation": conversation(),
        "enrolment": {
            "link": str(LINK),
            "request": enrolment_request().encode().decode(),
            "answer": EnrolmentAnswer(PHONE, 1).encode().decode(),
            "digits": comparison_digits(LINK.code, DEVICE_KEYS.public_key, LINK.gateway_key),
        },
    }


@pytest.fixture
def frozen() -> dict[str, Any]:
    value: dict[str, Any] = json.loads(FROZEN.read_text())
    return value


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_of_the_first_release_is_read(name: str, frozen: dict[str, Any]) -> None:
    frame, _ = decode_one(bytes.fromhex(frozen["frames"][name]))
    assert frame.type.name == name
    assert type(MESSAGES[name]).of(frame) == MESSAGES[name]


@pytest.mark.parametrize("name", [name for name in MESSAGES if name != "STATUS"])
def test_a_message_is_written_in_the_bytes_of_the_first_release(name: str, frozen: dict[str, Any]) -> None:
    assert encode(MESSAGES[name].frame()).hex() == frozen["frames"][name]


def test_a_node_s_receipt_is_frozen(frozen: dict[str, Any]) -> None:
    frame, _ = decode_one(bytes.fromhex(frozen["peer_receipt"]))
    assert messages.Receipt.of(frame) == PEER_RECEIPT
    assert encode(PEER_RECEIPT.frame()).hex() == frozen["peer_receipt"]


def test_a_signature_of_a_node_is_frozen(frozen: dict[str, Any]) -> None:
    frame, _ = decode_one(bytes.fromhex(frozen["chain_by_node"]))
    assert messages.Chain.of(frame) == CHAIN_BY_NODE
    assert encode(CHAIN_BY_NODE.frame()).hex() == frozen["chain_by_node"]


def test_a_datagram_is_frozen(frozen: dict[str, Any]) -> None:
    block = broadcast.Block(b"i" * 8, 7, b"seven")
    assert block.datagram().hex() == frozen["datagram"]
    assert broadcast.Block.of(bytes.fromhex(frozen["datagram"])) == block
    announcement = MESSAGES["ANNOUNCE"].announcement
    assert announcement.datagram().hex() == frozen["announced"]
    assert broadcast.Announcement.of_datagram(bytes.fromhex(frozen["announced"])) == announcement


def test_every_type_of_frame_is_frozen(frozen: dict[str, Any]) -> None:
    assert {kind.name for kind in FrameType} == set(frozen["frames"])


def test_a_hint_of_the_first_release_with_all_its_keys_is_read(frozen: dict[str, Any]) -> None:
    frame, _ = decode_one(bytes.fromhex(frozen["hint_with_credit"]))
    assert dict(messages.Hint.of(frame).rates) == {"gps": 0.5}


def test_a_bare_refusal_of_the_first_release_is_read(frozen: dict[str, Any]) -> None:
    refusal = messages.Refusal.of(decode_one(bytes.fromhex(frozen["bare_refusal"]))[0])
    assert (refusal.code, refusal.text, refusal.retry_after_s) == ("device-unknown", "not enrolled", 2.0)


def test_an_envelope_of_the_first_release_is_opened(frozen: dict[str, Any]) -> None:
    frames, _ = open_envelope(bytes.fromhex(frozen["envelope"]), b"k" * 32)
    assert [encode(frame) for frame in decode_all(frames)] == UP


def test_a_gateway_understands_a_device_of_the_first_release(frozen: dict[str, Any]) -> None:
    gateway, said = gateway_end(), {name: bytes.fromhex(text) for name, text in frozen["conversation"].items()}
    assert gateway.greet(said["hello"], 0.0) == said["welcome"]
    opened = gateway.open(said["request"], 0.0)
    assert [encode(frame) for frame in decode_all(opened.frames)] == UP
    assert opened.session.seal(opened.counter, DOWN) == said["reply"]


def test_a_device_understands_a_gateway_of_the_first_release(frozen: dict[str, Any]) -> None:
    device, said = device_end(), {name: bytes.fromhex(text) for name, text in frozen["conversation"].items()}
    assert device.hello() == said["hello"]
    assert device.welcome(decode_one(said["welcome"])[0], 0.0)
    assert device.seal(UP) == said["request"]
    reply = device.open(said["reply"])
    assert reply is not None
    assert bytes(reply) == DOWN[0]


def test_the_enrolment_of_the_first_release_is_understood_by_both_sides(frozen: dict[str, Any]) -> None:
    enrolment = frozen["enrolment"]
    assert EnrolmentLink.parse(enrolment["link"]) == LINK
    assert json.loads(enrolment["request"]) == json.loads(enrolment_request().encode())
    answer = EnrolmentAnswer.decode(enrolment["answer"].encode(), DEVICE_KEYS.public_key)
    assert answer == EnrolmentAnswer(PHONE, 1)


def test_the_same_words_are_the_same_bytes(frozen: dict[str, Any]) -> None:
    said = written()
    del frozen["frames"]["STATUS"]  # of the first release, which said less
    assert {name: frozen[name] for name in said} == said


def test_a_status_of_today_is_read(frozen: dict[str, Any]) -> None:
    assert messages.Status.of(decode_one(bytes.fromhex(frozen["status_now"]))[0]).status == STATUS_NOW
    said = messages.Status.of(decode_one(bytes.fromhex(frozen["status_with_operators"]))[0]).status
    assert said == STATUS_WITH_OPERATORS
    assert messages.Status.of(decode_one(bytes.fromhex(frozen["status_in_a_fleet"]))[0]).status == STATUS_IN_A_FLEET
    assert messages.Status.of(decode_one(bytes.fromhex(frozen["status_of_a_host"]))[0]).status == STATUS_OF_A_HOST
    assert messages.Status.of(decode_one(bytes.fromhex(frozen["status_of_a_member"]))[0]).status == STATUS_OF_A_MEMBER
    hosts = decode_one(bytes.fromhex(frozen["status_of_a_host_of_regions"]))[0]
    assert messages.Status.of(hosts).status == STATUS_OF_A_HOST_OF_REGIONS
    assert "urgent" not in STATUS_OF_A_HOST.to_json(), "who has no such node says what it said before"


def test_the_question_what_a_node_follows_is_read(frozen: dict[str, Any]) -> None:
    asked = messages.DeploymentMessage.of(decode_one(bytes.fromhex(frozen["deployment_asked"]))[0])
    assert asked == messages.DeploymentMessage(DEVICE)


if __name__ == "__main__" and sys.argv[1:] == ["freeze"]:
    kept, said = json.loads(FROZEN.read_text()), written()
    said["frames"]["STATUS"] = kept["frames"]["STATUS"]
    FROZEN.write_text(json.dumps(kept | said, indent=1) + "\n")
