"""Where every vertex of a fleet runs, as its coordinator knows it: what it tells a gateway, a screen and a terminal.

On the wire it is JSON with one short list per node, query, vertex and move; what a later version adds to the end of one
is ignored. Whatever is said is bounded: a fleet that does not fit says fewer moves, then fewer words, and counts the
vertices that it leaves off.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

from shared.moves import Move, MoveAnswer, MovePreview, MoveRequest
from shared.wire.untrusted_text import clean_text

BYTES_MAX = 24 * 1024  # of a STATUS, which has other things to say
ENTRIES_MAX = 1_000
NODES_OF_ONE_MAX = 64  # hosts or keepers of a vertex
NAME_CHARACTERS = 60
WORD_CHARACTERS = 20
WHY_CHARACTERS = 200
SHORT_CHARACTERS = 40
MOVES_TOLD = 40
EVENTS_TOLD = 60
CORNERS_MAX = 1_000
METRES_MAX = 1e8
WAYS_TOLD = 40  # of a fleet that does not fit
NUMBER_MAX = 1 << 53
PAUSE_S_MAX = 86_400.0
TERM_MAX = (1 << 32) - 1

RUNNING, STARTING, FAILED, WAITING, SILENT = "running", "starting", "failed", "waiting", "silent"
UNKNOWN = "unknown"  # of a vertex elsewhere, to a node that does not coordinate


@dataclass(frozen=True, slots=True)
class FleetNodeStatus:
    name: str
    node: str  # its id, in hex
    silent_us: int | None = None  # not heard since then
    room: int | None = None  # vertices that it runs at most
    apart: tuple[str, ...] = ()  # nodes that it should send to and does not reach


@dataclass(frozen=True, slots=True)
class FleetQueryStatus:
    name: str
    strategy: str
    every: int  # elements between two snapshots
    sources: tuple[str, ...]  # nodes whose sensors feed it
    sink: str  # the node where its results end


@dataclass(frozen=True, slots=True)
class PlacementStatus:
    """One vertex: where it runs, how it is there, and what it would begin again from."""

    query: str
    vertex: str
    term: int
    hosts: tuple[str, ...]
    keepers: tuple[str, ...]
    state: str
    why: str = ""  # it does not run, or its snapshots cannot be stored
    lost: int = 0  # elements of its inputs that are nowhere any more
    snapshot: int | None = None  # elements of its inputs that its last permanent one has read
    snapshot_bytes: int | None = None
    snapshot_us: int | None = None  # when that became permanent
    reads: tuple[str, ...] = ()  # vertices whose rows it takes
    begins: bool = False  # it takes rows of the query's sources
    ends: bool = False  # it makes results
    to: str = ""  # the node that it is on its way to


@dataclass(frozen=True, slots=True)
class AppliedStatus:
    """Filters and projections that a node applies to the rows of a device, on their way or where they are read."""

    query: str
    source: str
    node: str
    operators: tuple[str, ...]  # in words


@dataclass(frozen=True, slots=True)
class RegionStatus:
    """A region: where it is, how it is, who is in it and as what, and how far its cuts are."""

    name: str
    state: str
    threshold: int
    points: tuple[tuple[float, float], ...]  # of its area, in degrees
    radius_m: float
    members: tuple[tuple[str, str], ...] = ()  # node and what it is there; those that dwell are no members yet
    cut: int = 0  # the newest that is complete
    cut_us: int | None = None  # when it became that
    after: tuple[str, ...] = ()  # regions that feed it, as it was asked for


@dataclass(frozen=True, slots=True)
class RegionEvent:
    """Something that happened in a region: for people, nothing is decided by it."""

    at_us: int
    region: str
    kind: str  # one of these
    text: str


CHECKPOINT, FAILURE, DEPARTURE, BYPASS, START = "checkpoint", "failure", "departure", "bypass", "start"


@dataclass(frozen=True, slots=True)
class FleetStatus:
    version: int  # of the deployment
    nodes: tuple[FleetNodeStatus, ...] = ()
    queries: tuple[FleetQueryStatus, ...] = ()
    placements: tuple[PlacementStatus, ...] = ()
    moves: tuple[Move, ...] = ()  # the newest last
    left_off: int = 0  # vertices that did not fit
    asked: tuple[MoveAnswer, ...] = ()  # what became of the last moves that people asked for
    links: tuple[tuple[str, str, str], ...] = ()  # two nodes and the lane between them, where the fleet says so
    ways: tuple[
        tuple[str, str, tuple[str, ...]], ...
    ] = ()  # query, device, and who passes its rows on: none beside others
    regions: tuple[RegionStatus, ...] = ()
    events: tuple[RegionEvent, ...] = ()  # of the regions, the newest last

    applied: tuple[AppliedStatus, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            **({"applied": [_applied_list(each) for each in self.applied]} if self.applied else {}),
            **({"asked": [_answer_list(each) for each in self.asked]} if self.asked else {}),
            **({"links": [list(each) for each in self.links]} if self.links else {}),
            **({"ways": [[query, source, list(nodes)] for query, source, nodes in self.ways]} if self.ways else {}),
            **({"regions": [_region_list(each) for each in self.regions]} if self.regions else {}),
            **({"events": [list(astuple(each)) for each in self.events]} if self.events else {}),
            "version": self.version,
            "nodes": [_node_list(each) for each in self.nodes],
            "queries": [
                [each.name, each.strategy, each.every, list(each.sources), each.sink] for each in self.queries
            ],
            "placements": [
                [each.query, each.vertex, each.term, list(each.hosts), list(each.keepers), each.state, each.why,
                 each.lost, each.snapshot, each.snapshot_bytes, each.snapshot_us, *_way_list(each)]
                for each in self.placements
            ],
            "moves": [
                [each.at_us, each.query, each.vertex, each.term, list(each.before), list(each.after), each.why]
                for each in self.moves
            ],
            "left_off": self.left_off,
        }  # fmt: skip

    @staticmethod
    def from_json(value: object) -> FleetStatus:
        """Raises ValueError where it is something else, or too much."""
        match value:
            case {
                "version": version, "nodes": list(nodes), "queries": list(queries), "placements": list(placements),
                "moves": list(moves), "left_off": left_off, **more
            }:  # fmt: skip
                asked, links, ways, applied, regions, events = (
                    _short_list(more.get(key, [])) for key in ("asked", "links", "ways", "applied", "regions", "events")
                )
                if max(map(len, (nodes, queries, placements, moves))) > ENTRIES_MAX:
                    raise ValueError("too many entries")
                return FleetStatus(
                    _number(version), tuple(map(_node, nodes)), tuple(map(_query, queries)),
                    tuple(map(_placement, placements)), tuple(map(_move, moves)), _number(left_off),
                    tuple(map(_answer, asked)), tuple(map(_link, links)), tuple(map(_passed_on, ways)),
                    tuple(map(_region, regions)), tuple(map(_event, events)), tuple(map(_applied, applied)),
                )  # fmt: skip
        raise ValueError("not the keys of a fleet")

    @property
    def bytes(self) -> int:
        return len(json.dumps(self.to_json(), separators=(",", ":")))

    def fitted(self, bytes_max: int = BYTES_MAX) -> FleetStatus:
        """As much of it as may be told: first older moves are left off, then words are cut, then vertices counted."""
        fits = replace(self, moves=self.moves[-MOVES_TOLD:], events=self.events[-EVENTS_TOLD:])
        if fits.bytes > bytes_max:
            fits = replace(fits, ways=fits.ways[:WAYS_TOLD], applied=fits.applied[:WAYS_TOLD])
        while fits.bytes > bytes_max and fits.events:
            fits = replace(fits, events=fits.events[len(fits.events) // 2 + 1 :])
        while fits.bytes > bytes_max and fits.moves:
            fits = replace(fits, moves=fits.moves[len(fits.moves) // 2 + 1 :])
        if fits.bytes > bytes_max:
            short = tuple(replace(each, why=each.why[:SHORT_CHARACTERS]) for each in fits.placements)
            fits = replace(fits, placements=short)
        while fits.bytes > bytes_max and fits.placements:
            kept = fits.placements[: len(fits.placements) * 3 // 4]
            fits = replace(fits, placements=kept, left_off=fits.left_off + len(fits.placements) - len(kept))
        return fits if fits.bytes <= bytes_max else FleetStatus(fits.version, left_off=fits.left_off)


def told(text: str, characters: int = NAME_CHARACTERS) -> str:
    """A text as a status carries it."""
    return clean_text(text, characters)


def _node(value: object) -> FleetNodeStatus:
    match value:
        case [str(name), str(node), silent_us, room, list(apart), *_] if len(node) <= NAME_CHARACTERS:
            return FleetNodeStatus(told(name), told(node), _maybe(silent_us), _maybe(room), _names(apart))
        case [str(name), str(node), silent_us] if len(node) <= NAME_CHARACTERS:  # of versions that could not move them
            return FleetNodeStatus(told(name), told(node), _maybe(silent_us))
    raise ValueError("a node is [name, id, silent_us, room, apart]")


def _node_list(node: FleetNodeStatus) -> list[object]:
    said: list[object] = [node.name, node.node, node.silent_us]
    return said if node.room is None and not node.apart else [*said, node.room, list(node.apart)]


def _way_list(placed: PlacementStatus) -> list[object]:
    """What the first version did not say is at the end, where there is any."""
    way = [list(placed.reads), placed.begins, placed.ends, placed.to]
    return way if any(way) else []


def _region_list(region: RegionStatus) -> list[object]:
    return [region.name, region.state, region.threshold, [list(point) for point in region.points], region.radius_m,
            [list(each) for each in region.members], region.cut, region.cut_us, list(region.after)]  # fmt: skip


def _region(value: object) -> RegionStatus:
    match value:
        case [
            str(name), str(state), threshold, list(points), int() | float() as radius_m, list(members), cut, cut_us,
            list(after), *_,
        ] if len(points) <= CORNERS_MAX and len(members) <= ENTRIES_MAX and 0 <= radius_m <= METRES_MAX:  # fmt: skip
            return RegionStatus(
                told(name), told(state, WORD_CHARACTERS), _number(threshold), tuple(map(_point, points)),
                float(radius_m), tuple(map(_member, members)), _number(cut), _maybe(cut_us), _names(after),
            )  # fmt: skip
    raise ValueError("a region is [name, state, threshold, points, radius_m, members, cut, cut_us, after]")


def _point(value: object) -> tuple[float, float]:
    match value:
        case [int() | float() as latitude, int() | float() as longitude] if (
            abs(latitude) <= 90 and abs(longitude) <= 180
        ):
            return float(latitude), float(longitude)
    raise ValueError("a point is [latitude, longitude] in degrees")


def _member(value: object) -> tuple[str, str]:
    match value:
        case [str(node), str(place), *_]:
            return told(node), told(place, WORD_CHARACTERS)
    raise ValueError("a member is [node, what it is]")


def _event(value: object) -> RegionEvent:
    match value:
        case [at_us, str(region), str(kind), str(text), *_]:
            return RegionEvent(_number(at_us), told(region), told(kind, WORD_CHARACTERS), told(text, WHY_CHARACTERS))
    raise ValueError("an event is [at_us, region, kind, text]")


def _link(value: object) -> tuple[str, str, str]:
    match value:
        case [str(one), str(other), str(lane), *_]:
            return told(one), told(other), told(lane, WORD_CHARACTERS)
    raise ValueError("a link is [node, node, lane]")


def _passed_on(value: object) -> tuple[str, str, tuple[str, ...]]:
    match value:
        case [str(query), str(source), list(nodes), *_]:
            return told(query), told(source), _names(nodes)
    raise ValueError("a way is [query, device, nodes]")


def _applied_list(applied: AppliedStatus) -> list[object]:
    return [applied.query, applied.source, applied.node, list(applied.operators)]


def _applied(value: object) -> AppliedStatus:
    match value:
        case [str(query), str(source), str(node), list(operators), *_]:
            return AppliedStatus(told(query), told(source), told(node), _names(operators))
    raise ValueError("what is applied is [query, device, node, operators]")


def _answer_list(answer: MoveAnswer) -> list[object]:
    asked, preview = answer.request, answer.preview
    said = None if preview is None else [list(each) if isinstance(each, tuple) else each for each in astuple(preview)]
    return [asked.id, told(asked.query), told(asked.vertex), told(asked.to), told(asked.leaving), asked.dry_run,
            answer.state, told(answer.why, WHY_CHARACTERS), answer.code, said]  # fmt: skip


def _answer(value: object) -> MoveAnswer:
    match value:
        case [
            str(id), str(query), str(vertex), str(to), str(leaving), bool(dry_run), str(state), str(why), str(code),
            said, *_,
        ]:  # fmt: skip
            request = MoveRequest(told(query), told(vertex), told(to), told(leaving), dry_run, told(id))
            return MoveAnswer(
                request, told(state, WORD_CHARACTERS), told(why, WHY_CHARACTERS), told(code), _preview(said)
            )
    raise ValueError("an answer is [id, query, vertex, to, leaving, dry_run, state, why, code, preview]")


def _preview(value: object) -> MovePreview | None:
    match value:
        case None:
            return None
        case [
            list(before), list(after), list(streams), int(pause_s) | float(pause_s), size, copies, measured,
            runs_there, room_there, runs_here, room_here, *_,
        ] if 0 <= pause_s <= PAUSE_S_MAX:  # fmt: skip
            return MovePreview(
                _names(before), _names(after), _names(streams), float(pause_s), _maybe(size), _number(copies),
                _number(measured), _number(runs_there), _number(room_there), _number(runs_here), _number(room_here),
            )  # fmt: skip
    raise ValueError("a preview has eleven values")


def _query(value: object) -> FleetQueryStatus:
    match value:
        case [str(name), str(strategy), every, list(sources), str(sink), *_]:
            return FleetQueryStatus(told(name), told(strategy), _number(every), _names(sources), told(sink))
    raise ValueError("a query is [name, strategy, every, sources, sink]")


def _placement(value: object) -> PlacementStatus:
    match value:
        case [
            str(query), str(vertex), term, list(hosts), list(keepers), str(state), str(why), lost, number, size, at,
            *more,
        ]:  # fmt: skip
            return PlacementStatus(
                told(query), told(vertex), _number(term, TERM_MAX), _names(hosts), _names(keepers),
                told(state, WORD_CHARACTERS), told(why, WHY_CHARACTERS), _number(lost), _maybe(number), _maybe(size),
                _maybe(at), *_way(more),
            )  # fmt: skip
    raise ValueError(
        "a placement is [query, vertex, term, hosts, keepers, state, why, lost, snapshot, snapshot_bytes, snapshot_us, "
        "reads, begins, ends, to]"
    )


def _way(said: list[object]) -> tuple[tuple[str, ...], bool, bool, str]:
    """What a vertex reads and where its rows go; versions that could not move vertices said nothing of it."""
    match said:
        case []:
            return (), False, False, ""
        case [list(reads), bool(begins), bool(ends), str(to), *_]:
            return _names(reads), begins, ends, told(to)
    raise ValueError("a placement ends with reads, begins, ends and to")


def _move(value: object) -> Move:
    match value:
        case [at_us, str(query), str(vertex), term, list(before), list(after), str(why), *_]:
            return Move(
                _number(at_us), told(query), told(vertex), _number(term, TERM_MAX), _names(before), _names(after),
                told(why, WHY_CHARACTERS),
            )  # fmt: skip
    raise ValueError("a move is [at_us, query, vertex, term, before, after, why]")


def _short_list(value: object) -> list[object]:
    if not isinstance(value, list) or len(value) > ENTRIES_MAX:
        raise ValueError("answers, links, ways and what is applied are short lists")
    return value


def _names(value: Sequence[object]) -> tuple[str, ...]:
    if len(value) > NODES_OF_ONE_MAX or not all(isinstance(each, str) for each in value):
        raise ValueError("nodes and operators are a short list of words")
    return tuple(told(str(each)) for each in value)


def _number(value: object, most: int = NUMBER_MAX) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"numbers are whole, from 0 to {most}")
    return value


def _maybe(value: object) -> int | None:
    return None if value is None else _number(value)
