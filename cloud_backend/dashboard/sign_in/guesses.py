"""How often somebody may try a password: paid before it is checked, so that guesses sent all at once cost as much as
guesses one after the other; the right one is paid back.

Who pays is who guesses, never whose name is guessed: a stranger's tries count for the address they come from. A browser
in which this person has signed in before carries a mark that only it has, and pays for itself. So nobody can lock
somebody else out: not by guessing their name from anywhere, and not from behind the same address either, once they have
signed in there. Somebody new behind an address that is guessing uses a link (`resurge person link`).

Checking takes 64 MiB and a processor for a moment, so one stranger and one known browser are checked at a time, and
only few strangers may wait.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable

from cloud_backend.coordinator.people import Person
from cloud_backend.dashboard.threads import in_thread
from cloud_backend.gateway.http_problems import Problem
from cloud_backend.gateway.rate_limits import Buckets, Rate

FAILURES = Rate(per_s=0.2, burst=10)
WAITING_MAX = 40


class Guesses:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._paid = Buckets(FAILURES)
        self._turns = {False: asyncio.Semaphore(1), True: asyncio.Semaphore(1)}  # by whether the browser is known
        self._waiting = 0

    async def check(self, who: Hashable, look: Callable[[], Person | None], *, is_known: bool) -> Person | None:
        """Whom `look` finds by a password, None for a wrong one; raises Problem when `who` has to wait first."""
        if wait_s := self._paid.wait_s(who, self._clock()):
            seconds = int(wait_s + 0.999)
            raise Problem(
                "signin-wait", f"too many attempts; try again in {seconds} s", status=429, retry_after_s=seconds
            )
        if not is_known and self._waiting >= WAITING_MAX:
            raise Problem("signin-busy", "too many people sign in at once; try again", status=503, retry_after_s=2)
        self._paid.take(who, self._clock())
        self._waiting += not is_known
        try:
            async with self._turns[is_known]:
                found = await in_thread(look)
        finally:
            self._waiting -= not is_known
        if found is not None:
            self._paid.take(who, self._clock(), -1.0)
        return found
