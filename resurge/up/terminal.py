"""What a person at a terminal sees of `resurge up`: steps while it starts, then one live line.

Everything goes to standard error, so that standard output stays for the report. Where nobody can watch a line
change (a file, a pipe) the line is printed anew every ten seconds instead.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from typing import Any

from rich.console import Console
from rich.table import Table

from resurge.up.run import Outcome
from resurge.up.stage import Stage

LINE_EVERY_S = 1.0
LINE_EVERY_S_UNWATCHED = 10.0


class Terminal:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._began = time.monotonic()
        self._line_at = 0.0
        self._line_open = False

    def begin(self, what: str) -> None:
        self._write(f"[dim]{self._clock()}[/dim]  {what} ...")

    def say(self, line: str) -> None:
        self._write(f"[dim]{self._clock()}[/dim]  [bold]{line}[/bold]")

    def tick(self, stage: Stage, remaining_s: float | None) -> None:
        watched = self._console.is_terminal
        now = time.monotonic()
        if now - self._line_at < (LINE_EVERY_S if watched else LINE_EVERY_S_UNWATCHED):
            return
        self._line_at = now
        line = f"{self._clock()}  {status_line(overview(stage.address), remaining_s)}"
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


def overview(address: str) -> dict[str, Any] | None:
    """What the dashboard shows now; None while the gateway is not there to ask."""
    recently = f"{address}/v1/overview?after_second={int(time.time())}&after_change={2**62}"
    try:
        with urllib.request.urlopen(recently, timeout=2) as answer:  # noqa: S310 - our own loopback address
            view: dict[str, Any] = json.load(answer)
            return view
    except (urllib.error.URLError, OSError, ValueError):
        return None


def status_line(view: dict[str, Any] | None, remaining_s: float | None) -> str:
    left = "" if remaining_s is None else f"{max(remaining_s, 0):.0f} s left, "
    if view is None:
        return f"{left}the gateway does not answer; phones keep recording"
    account = view["account"]
    connected = sum(phone["connected"] for phone in view["phones"])
    return (
        f"{left}{connected} of {len(view['phones'])} phones connected, {account['produced']:,} produced = "
        f"{account['delivered']:,} delivered + {account['spooled']:,} spooled + {account['ledgered']:,} ledgered, "
        f"{sum(view['sinks'].values()):,} results"
    )


def report(outcome: Outcome, console: Console) -> None:
    """The account as a table, and what was wrong with it."""
    account = outcome.account
    table = Table(title="The account, read from the log and the spools", title_justify="left")
    for name in ("produced", "delivered", "spooled", "ledgered", "duplicates"):
        table.add_column(name, justify="right")
    table.add_column("outages", justify="right")
    table.add_column("results", justify="right")
    table.add_column("back on phones", justify="right")
    figures = [account.produced, account.delivered, account.spooled, account.ledgered, account.duplicates]
    table.add_row(
        *(f"{figure:,}" for figure in [*figures, outcome.outages, outcome.results, outcome.results_on_phones])
    )
    console.print(table)
    if not outcome.problems():
        console.print(
            "It adds up: produced = delivered + spooled + ledgered, and Spark's results are bit for bit those of "
            f"the numpy engine over the same log ({outcome.results_digest[:12]})."
        )
