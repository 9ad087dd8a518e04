"""The dashboard's own threads, so that whatever people ask here keeps nothing else waiting: exchanges, revocations and
the health check use the gateway's.

Pages and views share a few threads. A question that has to be compiled runs alone and waits its turn, and only few may
wait: the size of a query is bounded before it is built (`coordinator/sql.py`), the number of them here.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from cloud_backend.gateway.http_problems import Problem
from cloud_backend.gateway.rate_limits import Buckets, Rate

THREADS = 6
QUESTIONS_MAX = 8  # that run or wait
QUESTIONS = Rate(per_s=2, burst=30)  # of one person
Answer = TypeVar("Answer")

_pages = ThreadPoolExecutor(THREADS, thread_name_prefix="dashboard")
_questions = ThreadPoolExecutor(1, thread_name_prefix="question")


class Turns:
    """How many questions run or wait now; touched by the loop only."""

    count = 0
    asked = Buckets(QUESTIONS)  # by person


async def in_thread(work: Callable[..., Answer], *arguments: Any, **named: Any) -> Answer:
    """Do what reads disks in a thread of the dashboard's; exchanges must not wait for it."""
    return await _run(_pages, work, *arguments, **named)


async def in_turn(who: str, work: Callable[..., Answer], *arguments: Any, **named: Any) -> Answer:
    """Do what computes for a while, one at a time; refused when too many wait already, or one person asks on and on."""
    now = time.monotonic()
    if Turns.count >= QUESTIONS_MAX or Turns.asked.wait_s(who, now):
        raise Problem("query-busy", "too many questions at once; ask again in a moment", status=429, retry_after_s=2)
    Turns.count += 1
    Turns.asked.take(who, now)
    try:
        return await _run(_questions, work, *arguments, **named)
    finally:
        Turns.count -= 1


async def _run(pool: ThreadPoolExecutor, work: Callable[..., Answer], *arguments: Any, **named: Any) -> Answer:
    context = contextvars.copy_context()
    call = partial(context.run, work, *arguments, **named)
    return await asyncio.get_running_loop().run_in_executor(pool, call)
