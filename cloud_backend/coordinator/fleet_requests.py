"""What people ask of fleets whose coordinator is a paired node: kept until it answers, or for a minute.

A coordinator hears of a request in the answer to its next exchange, and its STATUS says what became of it. A request
that is too old is not passed on: whoever asked has gone, and the fleet may be another by then. So nothing is stored;
what a gateway forgets in a restart was never done.
"""

from __future__ import annotations

import secrets
import threading
from dataclasses import dataclass, replace

from shared.identity import DeviceId
from shared.moves import MoveRequest
from shared.wire.status import DeviceStatus

LASTS_US = 60_000_000
WAITING_MAX = 8  # of one fleet; more are refused


@dataclass(frozen=True, slots=True)
class Asked:
    device: DeviceId  # the coordinator
    request: MoveRequest
    at_us: int


class FleetRequests:
    """Asked by threads of pages, read by the gateway's loop."""

    def __init__(self) -> None:
        self._asked: dict[str, Asked] = {}
        self._lock = threading.Lock()

    def ask(self, device: DeviceId, request: MoveRequest, now_us: int) -> MoveRequest | None:
        """The request with its id; None while the coordinator has too many that it has not answered."""
        with self._lock:
            self._forget(now_us)
            if sum(each.device == device for each in self._asked.values()) >= WAITING_MAX:
                return None
            named = replace(request, id=secrets.token_hex(8))
            self._asked[named.id] = Asked(device, named, now_us)
            return named

    def waiting(self, device: DeviceId, now_us: int) -> tuple[MoveRequest, ...]:
        """What a coordinator has not answered yet."""
        if not self._asked:  # asked with every exchange
            return ()
        with self._lock:
            self._forget(now_us)
            return tuple(each.request for each in self._asked.values() if each.device == device)

    def find(self, id: str) -> MoveRequest | None:
        with self._lock:
            found = self._asked.get(id)
            return None if found is None else found.request

    def heard(self, device: DeviceId, status: DeviceStatus) -> None:
        """A coordinator said what became of requests."""
        if not self._asked or status.fleet is None:
            return
        with self._lock:
            for answer in status.fleet.asked:
                found = self._asked.get(answer.request.id)
                if found is not None and found.device == device:
                    del self._asked[answer.request.id]

    def _forget(self, now_us: int) -> None:
        self._asked = {id: each for id, each in self._asked.items() if now_us - each.at_us < LASTS_US}
