"""Every test of the phone's screens opens the app here: over a service that answers with a recorded view, or over none."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.user_interface import phone_world as world

if TYPE_CHECKING:
    from tests.user_interface.phone import Hand


@contextlib.contextmanager
def open_app(
    home: Path, view: dict[str, Any] | None = None, *, at: str = "", link: str = "", denied: list[dict[str, str]] | None = None,
    insets: tuple[float, float, float, float] | None = None, **service: Any,
) -> Iterator[Hand]:  # fmt: skip
    """The hand on the open app; `hand.bench` stands in for the platform, `hand.service` is the service. `at`: the page
    it is on, which shows what the service says."""
    from tests.user_interface import phone  # opens a window, so not before a test that needs one runs

    bench = phone.Bench(home) if insets is None else phone.Bench(home, insets=insets)
    bench.link, bench.denied = link, denied or []
    with contextlib.ExitStack() as stack:
        serving = None if view is None else stack.enter_context(world.serving(home, world.Recorded(view, **service)))
        hand = stack.enter_context(phone.Hand(bench, serving))
        if at:
            hand.until(lambda: hand.app.view)
            hand.go(at)
        yield hand
