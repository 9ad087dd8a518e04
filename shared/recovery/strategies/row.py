"""What tells recovery strategies apart: a row of constants.

Every strategy sends marks along edges, takes snapshots and decides who keeps which elements until when. The one machine
`Checkpoints` interprets a row between nodes; the job manager's manifest does for rows whose home is the store.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Trigger(Enum):
    """What starts a snapshot."""

    NEVER = "never"
    EVERY = "every"  # c elements: at sources where readers are asked to follow, else at every vertex
    JITTERED = "jittered"  # every c/2 to 3c/2 elements, so that vertices do not all store at once
    COORDINATOR = "coordinator"  # somebody who sees all of it


class Align(Enum):
    """What a vertex does with edges whose mark came while others are still to come."""

    NONE = "none"  # each mark is answered by itself
    RECORD = "record"  # freeze at the first mark, record the other edges up to theirs
    BLOCK = "block"  # hold edges that are early; edges on a cycle are recorded
    EPOCH = "epoch"  # nothing flows between two cuts of the log


class Include(Enum):
    """What a snapshot contains."""

    NOTHING = "nothing"
    STATE = "state"
    STATE_AND_TRANSFER = "state and transfer"  # also what its outputs still retain


class Commit(Enum):
    """When a pending snapshot may be stored for good."""

    AT_ONCE = "at once"
    READERS = "readers"  # when every reader's permanent snapshot has what was sent before it
    REGION = "region"  # when all of the region have theirs
    STABLE = "stable"  # when all above it are stable


class Home(Enum):
    """Who stores it."""

    NOWHERE = "nowhere"
    LOCAL = "local"
    PEERS = "peers"
    REGION = "region"
    STORE = "store"


class Keep(Enum):
    """Which elements are retained for a replay."""

    NOTHING = "nothing"
    RING = "ring"  # on the device, as many as fit
    RECEIPT = "receipt"  # on every edge, until the reader's receipt
    SOURCES = "sources"  # on the sources' edges only
    RECORDS = "records"  # every vertex's output in the store


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    trigger: Trigger
    align: Align
    include: Include
    commit: Commit
    home: Home
    keep: Keep
    copies: int = 1  # keepers per vertex; under live copies, hosts per vertex
    extends: bool = False  # a mark may be answered with a request to extend; needed where edges form a cycle

    @property
    def between_nodes(self) -> bool:
        """Whether nodes of a fleet run it: without a store."""
        return self.home is not Home.STORE

    @property
    def of_region(self) -> bool:
        """Whether all of a region go back together, to a cut that its coordinator has begun and declared complete."""
        return self.commit is Commit.REGION
