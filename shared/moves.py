"""A vertex that was given another place: what a fleet remembers of it, and tells those who ask why something runs where
it does."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Move:
    """A vertex began again, elsewhere or where it was. Nodes are named as people call them: one may be gone when
    somebody reads this."""

    at_us: int
    query: str
    vertex: str
    term: int  # the one it began with
    before: tuple[str, ...]
    after: tuple[str, ...]
    why: str


MOVED_AWAY, RESTARTED, ROLLED_BACK = "moved", "restarted", "rolled back"


@dataclass(frozen=True, slots=True)
class Recovery:
    """A vertex that began again: what became of it, and for how long it did not work."""

    move: Move
    kind: str  # moved to other nodes, restarted where it was, or rolled back there together with its region
    took_s: float | None  # from the decision until it was at work; None while it is not, or where nobody measured it


THIS_GATEWAY = "0" * 32  # in the place of a coordinator's id, where the gateway that is asked coordinates
# How far a move that a person asked for has come.
PREVIEW, UNDER_WAY, MOVED, GIVEN_UP, REFUSED = "preview", "under way", "moved", "given up", "refused"


@dataclass(frozen=True, slots=True)
class MoveRequest:
    """Somebody wants a vertex to run on another node. Nodes are named as people call them, or by their id."""

    query: str
    vertex: str
    to: str
    leaving: str = ""  # of several copies the one that goes; else the first
    dry_run: bool = False
    id: str = ""  # names it to whoever asked


@dataclass(frozen=True, slots=True)
class MovePreview:
    """What a move would do; nothing has changed yet."""

    before: tuple[str, ...]
    after: tuple[str, ...]
    streams: tuple[str, ...]  # that pause, and no others
    pause_s: float
    state_bytes: int | None  # of its last snapshot; None where it has taken none
    copies: int  # so many nodes are sent that state
    measured: int  # recoveries and moves that the pause was estimated from
    runs_there: int  # vertices on the node it would go to, with it
    room_there: int
    runs_here: int  # on the node that it would leave, without it
    room_here: int


@dataclass(frozen=True, slots=True)
class MoveAnswer:
    """What became of a request."""

    request: MoveRequest
    state: str
    why: str = ""  # it was refused or given up
    code: str = ""  # of the refusal
    preview: MovePreview | None = None
