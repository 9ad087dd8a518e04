"""The urgent lane where a gateway coordinates: exchanges of two nodes ride in those that each makes with the gateway.

    one end -- PASS in an exchange --> gateway: waits there for the other end -- PASS in its answer --> other end

A phone that left the Wi-Fi reaches its gateway, and cannot be called. So it asks by way of the gateway, which tells the
other end that something came (`POST /v1/wait`), and that one makes an exchange. What is not fetched soon is dropped:
who asked has asked again by then. The gateway limits these exchanges as it does all of a device, in number and bytes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container
from typing import NamedTuple

from shared.hosting.messages import Answer, Ask, Unreachable
from shared.hosting.passing import Passed, Passing
from shared.hosting.wiring import GATEWAY
from shared.identity import DEVICE_ID_BYTES, DeviceId
from shared.sync.receiver import Arrival, Reply
from shared.sync.sender import Sender
from shared.wire.frame import HEADER_BYTES
from shared.wire.passed import NOBODY, PASSED_BYTES_MAX, PassMessage

WAITING_S = 5.0  # longer than a node waits for an answer
WAITING_BYTES_MAX = 4 << 20  # for one node
ALL_BYTES_MAX = 64 << 20
TOLD, TELL_S = 3, 60.0
HELLO = 0  # the number of what says that this gateway passes on


class _Waiting(NamedTuple):
    message: PassMessage
    until: float

    @property
    def bytes(self) -> int:
        """As a frame of the answer that brings it: one without a body takes room, too."""
        return HEADER_BYTES + DEVICE_ID_BYTES + len(self.message.body)


class _Queue:
    """What waits for a node, oldest first."""

    def __init__(self) -> None:
        self.messages: deque[_Waiting] = deque()
        self.bytes = 0

    def add(self, message: _Waiting) -> None:
        self.messages.append(message)
        self.bytes += message.bytes

    def drop(self) -> int:
        """The oldest goes; its bytes."""
        gone = self.messages.popleft().bytes
        self.bytes -= gone
        return gone


class _Told(NamedTuple):
    """How often a node was told that this gateway passes on, since it started, and when last."""

    boot: int
    times: int
    at: float


class GatewayPassing:
    """The gateway's part."""

    def __init__(self) -> None:
        self._passing: Passing[str] = Passing()
        self._waiting: dict[str, _Queue] = {}  # by node, where something does
        self._told: dict[str, _Told] = {}
        self._bytes = 0

    @property
    def passed(self) -> int:
        """Exchanges that were answered."""
        return self._passing.passed

    def offered(self, node: str, boot: int, now: float) -> None:
        """A node takes what is passed on, as it says again and again: it may use this lane, and others to it. It is
        told some times, as answers are lost, and then seldom."""
        self._passing.called(node, node)
        told = self._told.get(node, _Told(boot, 0, now))
        told = told if told.boot == boot else _Told(boot, 0, now)
        if told.times >= TOLD and now < told.at + TELL_S:
            return
        self._told[node] = _Told(boot, told.times + 1, now)
        self._keep(node, PassMessage(DeviceId(bytes.fromhex(node)), HELLO, NOBODY, b""), now)

    def part(self, nodes: Container[str]) -> None:
        """These are out of the fleet: what waits for them is gone."""
        for node in [node for node in self._waiting if node in nodes]:
            self._bytes -= self._waiting.pop(node).bytes

    def take(self, message: PassMessage, nodes: Container[str], now: float) -> str:
        """A node has something for another one. For whom there is news; for nobody where it is not passed on. `nodes`
        are those of the fleet that take what is."""
        node = message.device.hex()
        passed: Passed[str] | None
        if message.is_answer:
            passed = self._passing.answer(node, message.number)
        else:
            passed = self._passing.question(node, node, message.number, message.other.hex(), nodes)
        if passed is None or passed.connection not in nodes:  # who asked may be out of the fleet since
            return ""
        other = DeviceId(bytes.fromhex(passed.other)) if passed.other else NOBODY
        told = DeviceId(bytes.fromhex(passed.connection))
        self._keep(passed.connection, PassMessage(told, int(passed.number), other, message.body), now)
        return passed.connection

    def has(self, node: str) -> bool:
        """Whether something waits for a node."""
        return node in self._waiting

    def fetch(self, node: str, now: float) -> list[PassMessage]:
        """What waits for a node. Its answer may be lost: then the other end asks again."""
        found = self._waiting.pop(node, None)
        if found is None:
            return []
        self._bytes -= found.bytes
        return [each.message for each in found.messages if now < each.until]

    def _keep(self, node: str, message: PassMessage, now: float) -> None:
        for late in [each for each, waiting in self._waiting.items() if waiting.messages[0].until <= now]:
            while late in self._waiting and self._waiting[late].messages[0].until <= now:
                self._drop(late)
        waiting = self._waiting.setdefault(node, _Queue())
        each = _Waiting(message, now + WAITING_S)
        waiting.add(each)
        self._bytes += each.bytes
        while len(waiting.messages) > 1 and waiting.bytes > WAITING_BYTES_MAX:
            self._drop(node)
        while self._bytes > ALL_BYTES_MAX:  # of somebody who has not come for longest
            self._drop(min(self._waiting, key=lambda each: self._waiting[each].messages[0].until))

    def _drop(self, node: str) -> None:
        """The oldest of what waits for a node goes."""
        waiting = self._waiting[node]
        self._bytes -= waiting.drop()
        if not waiting.messages:
            del self._waiting[node]


class ByGateway(NamedTuple):
    """Where a question came from that the gateway passed on: its answer goes back that way."""

    number: int


class PassedEnd:
    """A node's part: `sender` is its end of the exchanges with its gateway."""

    def __init__(self, device: DeviceId) -> None:
        self._device = device
        self._asked: dict[int, str] = {}  # questions whose answers still count, and to whom
        self._numbers = 0
        self.used_at = float("-inf")  # when something last came or went this way

    def ask(self, message: Ask, sender: Sender, now: float) -> Unreachable | None:
        """Ask a node by way of the gateway; or it cannot be asked."""
        if len(message.body) > PASSED_BYTES_MAX:
            return Unreachable(message.node)
        if not message.follows:
            self._asked = {number: node for number, node in self._asked.items() if node != message.node}
        self._numbers += 1
        self._asked[self._numbers] = message.node
        self._say(PassMessage(self._device, self._numbers, _id(message.node), message.body), sender, now)
        return None

    def reply(self, message: Reply, sender: Sender, now: float) -> None:
        """Answer what came by way of the gateway."""
        if isinstance(message.handle, ByGateway) and len(message.body) <= PASSED_BYTES_MAX:
            self._say(PassMessage(self._device, message.handle.number, NOBODY, bytes(message.body)), sender, now)

    def arrived(self, message: PassMessage, now: float) -> Arrival | Answer | None:
        """What the gateway passed on, for the host; None where that is nothing, or answers nothing that counts."""
        if not message.is_answer:
            self.used_at = now
            return Arrival(ByGateway(message.number), message.body)
        node = self._asked.pop(message.number, None)
        if node is None:
            return None
        self.used_at = now
        return Answer(node, message.body, urgent=True)

    def _say(self, message: PassMessage, sender: Sender, now: float) -> None:
        self.used_at = now
        sender.pass_on(message, now)


def is_passed(message: object) -> bool:
    """Whether a host's message goes by way of the gateway."""
    return (isinstance(message, Ask) and message.by == GATEWAY) or (
        isinstance(message, Reply) and isinstance(message.handle, ByGateway)
    )


def _id(node: str) -> DeviceId:
    return DeviceId(bytes.fromhex(node))
