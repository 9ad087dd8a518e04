"""Bodies of exchanges while they come: what is held in memory, for whom, and when it is given back.

Nothing is reserved for what a request only announces: bytes count when they are here. A stranger has little to say, so
of a body that claims no open session only the start is kept, enough to refuse it by; the rest is read and dropped, and
whoever sends it still hears why it was refused. A device may have a few bodies under way: one exchange, and those of
connections that broke without telling. So neither strangers nor one device can use up the budget of all.
"""

from __future__ import annotations

from collections.abc import Callable

from cloud_backend.gateway.http_problems import Problem
from shared.sync.session import GatewaySessions
from shared.wire.envelope import SESSION_ID_BYTES, is_envelope

STRANGER_BYTES_MAX = 4096  # a HELLO has a few hundred
BODIES_PER_DEVICE_MAX = 3


class Bodies:
    """The budget for all bodies at once."""

    def __init__(self, sessions: GatewaySessions, *, body_bytes_max: int, bytes_max: int) -> None:
        self.sessions = sessions
        self.body_bytes_max = body_bytes_max
        self.bytes_max = bytes_max
        self.bytes = 0
        self.of_devices: dict[bytes, int] = {}  # large ones under way; by session where another gateway has that
        self.is_issued: Callable[[bytes], bool] = lambda _: False  # whether another gateway of ours has a session

    def too_large(self) -> Problem:
        return Problem("exchange-too-large", f"an exchange has at most {self.body_bytes_max} bytes; send smaller ones")


class Body:
    """One body. Call `release` when its exchange is over, however it ended; once or more often."""

    _size = 0
    _held = 0
    _is_known = False  # whether it was looked at who sends it; small ones need no look
    _device: bytes | None = None

    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies
        self._parts: list[bytes] = []

    def add(self, data: bytes) -> None:
        """Take what came. Problem when it is too much, for this body or for all of them."""
        bodies = self._bodies
        size = len(data)
        self._size += size
        if self._size > bodies.body_bytes_max:
            raise bodies.too_large()
        if self._is_known and self._device is None:
            return
        if bodies.bytes + size > bodies.bytes_max:
            raise Problem("gateway-busy", "too many bytes are on their way already", retry_after_s=1)
        bodies.bytes += size
        self._held += size
        self._parts.append(data)
        if self._size > STRANGER_BYTES_MAX and not self._is_known:
            self._identify()

    def whole(self) -> bytes:
        """All of it; of a stranger's, the start."""
        parts, self._parts = self._parts, []
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def release(self) -> None:
        bodies = self._bodies
        bodies.bytes -= self._held
        self._held = 0
        self._parts = []
        if self._device is not None:
            left = bodies.of_devices[self._device] - 1
            if left:
                bodies.of_devices[self._device] = left
            else:
                del bodies.of_devices[self._device]
            self._device = None

    def _identify(self) -> None:
        bodies = self._bodies
        start = self.whole()
        session = bodies.sessions.claimed(start) if is_envelope(start) else None
        self._is_known = True
        whose: bytes | None = None if session is None else session.device
        if whose is None and is_envelope(start) and bodies.is_issued(start):
            whose = start[:SESSION_ID_BYTES]
        if whose is None:
            start = start[:STRANGER_BYTES_MAX]
            bodies.bytes -= self._held - len(start)
            self._held = len(start)
        else:
            under_way = bodies.of_devices.get(whose, 0)
            if under_way >= BODIES_PER_DEVICE_MAX:
                raise Problem("gateway-busy", "exchanges of this device are on their way already", retry_after_s=1)
            bodies.of_devices[whose] = under_way + 1
            self._device = whose
        self._parts = [start]
