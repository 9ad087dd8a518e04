"""What a person at a terminal sees of `resurge up`: steps while it starts, then one live line.

Everything goes to standard error, so that standard output stays for the report. Where nobody can watch a line
change (a file, a pipe) the line is printed anew every ten seconds instead.
"""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any

from rich.console import Console
from rich.table import Table

from resurge.up.home import UpHome
from resurge.up.outcome import Outcome

LINE_EVERY_S = 1.0
LINE_EVERY_S_UNWATCHED = 10.0


class Terminal:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._began = time.monotonic()
        self._line_at = 0.0
        self._line_open = False

    def begin(self, what: str) -> None:
        """A step of the start or the end begins, and the one before it is done."""
        self._write(f"[dim]{self._clock()}[/dim]  {what} ...")

    def say(self, line: str) -> None:
        """Something worth a line of its own happened."""
        self._write(f"[dim]{self._clock()}[/dim]  [bold]{line}[/bold]")

    def tick(self, stage: UpHome, remaining_s: float | None) -> None:
        """Another moment of the run has passed."""
        watched = self._console.is_terminal
        now = time.monotonic()
        if now - self._line_at < (LINE_EVERY_S if watched else LINE_EVERY_S_UNWATCHED):
            return
        self._line_at = now
        line = f"{self._clock()}  {status_line(phones_say(stage), stage.results_so_far(), remaining_s)}"
        if watched:
            shown = line[: self._console.width - 1].ljust(self._console.width - 1)
            self._console.print(f"\r{shown}", end="", highlight=False, markup=False)
            self._line_open = True
        else:
            self._console.print(line, highlight=False, soft_wrap=True)

    def _write(self, line: str) -> None:
        if self._line_open:
            self._console.print()
            self._line_open = False
        self._console.print(line, highlight=False, soft_wrap=True)

    def _clock(self) -> str:
        minutes, seconds = divmod(int(time.monotonic() - self._began), 60)
        return f"{minutes:02d}:{seconds:02d}"


def phones_say(stage: UpHome) -> list[dict[str, Any]]:
    """Each phone's own view of itself, at most a second old; the gateway hears of it only when there is a network."""
    views: list[dict[str, Any]] = []
    for path in sorted(stage.home.glob("phones/*/status.json")):
        with contextlib.suppress(OSError, ValueError):
            views.append(json.loads(path.read_bytes()))
    return views


def status_line(phones: list[dict[str, Any]], results: int, remaining_s: float | None) -> str:
    left = "" if remaining_s is None else f"{max(remaining_s, 0):.0f} s left, "
    connected = sum(bool(phone["connected"]) for phone in phones)
    produced, delivered, spooled, ledgered = (
        sum(phone[name] for phone in phones) for name in ("produced", "delivered", "spooled", "ledgered")
    )
    return (
        f"{left}{connected} of {len(phones)} phones connected, {results:,} results, {produced:,} produced = "
        f"{delivered:,} delivered + {spooled:,} spooled + {ledgered:,} ledgered"
    )


def report(outcome: Outcome, console: Console) -> None:
    """The account as a table, and what was wrong with it."""
    account = outcome.account
    table = Table(title="The account, read from the log and the spools", title_justify="left", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name in ("produced", "delivered", "spooled", "ledgered", "duplicates"):
        table.add_row(name, f"{getattr(account, name):,}")
    if account.of_others:
        table.add_row("of devices you paired", f"{account.of_others:,}")
    table.add_section()
    table.add_row("outages", f"{outcome.outages:,}")
    table.add_row("results", f"{outcome.results:,}")
    table.add_row("of them back on phones", f"{outcome.results_on_phones:,}")
    console.print(table)
    if not outcome.problems() and outcome.unchecked:
        console.print(
            "It adds up: produced = delivered + spooled + ledgered. Spark's results were not compared with the log: "
            f"{outcome.unchecked}.",
            highlight=False,
        )
    elif not outcome.problems():
        console.print(
            "It adds up: produced = delivered + spooled + ledgered, and Spark's results are bit for bit those of "
            f"the numpy engine over the same log ({outcome.results_digest[:12]}).",
            highlight=False,
        )
