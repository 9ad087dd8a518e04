"""The recovery strategies. Nothing outside this package names one: others read its row, or ask it."""

from __future__ import annotations

from shared.recovery.strategies.row import Align, Commit, Home, Include, Keep, Row, Trigger
from shared.recovery.strategies.strategy import Strategy

_NOTHING = (Trigger.NEVER, Align.NONE, Include.NOTHING, Commit.AT_ONCE, Home.NOWHERE)
_ALONE = (Align.NONE, Include.STATE_AND_TRANSFER, Commit.AT_ONCE)
_FOLLOWED = (Trigger.EVERY, Align.NONE, Include.STATE, Commit.READERS)
_EPOCHS = (Trigger.COORDINATOR, Align.EPOCH, Include.STATE, Commit.STABLE, Home.STORE)

_ROWS = (
    Row("none", *_NOTHING, Keep.NOTHING),
    Row("ring", *_NOTHING, Keep.RING),
    Row("local", Trigger.EVERY, *_ALONE, Home.LOCAL, Keep.RECEIPT),
    Row("uncoordinated", Trigger.JITTERED, *_ALONE, Home.PEERS, Keep.RECEIPT),
    *(Row(f"dist-{n}", Trigger.JITTERED, *_ALONE, Home.PEERS, Keep.RECEIPT, copies=n) for n in (1, 2, 3)),
    Row("ecoc", *_FOLLOWED, Home.PEERS, Keep.RECEIPT),
    Row("extended-ecoc", *_FOLLOWED, Home.PEERS, Keep.RECEIPT, extends=True),
    # No paper has this one: any number of a region's nodes may go, and still only what failed goes back.
    Row("ecoc-region", *_FOLLOWED, Home.REGION, Keep.RECEIPT, extends=True),
    Row("token", Trigger.COORDINATOR, Align.BLOCK, Include.STATE, Commit.REGION, Home.REGION, Keep.SOURCES),
    Row("rep-2", *_NOTHING, Keep.RECEIPT, copies=2),
    Row("partial", *_EPOCHS, Keep.RECORDS),
    Row("full", *_EPOCHS, Keep.SOURCES),
)

STRATEGIES: dict[str, Strategy] = {row.name: Strategy(row) for row in _ROWS}
OF_REGION = next(row.name for row in _ROWS if row.of_region)  # what a region's query gets unless it says otherwise
