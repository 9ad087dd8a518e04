"""What had to begin again on the nodes that make a query's streams, hour by hour.

The coordinator remembers its last moves, also over a restart; how long each took it knows only while it runs. So the
audit keeps what it saw of an hour until that hour's report is written.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shared.moves import Recovery

LISTED_MAX = 50  # in one report; the others are counted


class Recoveries:
    def __init__(self, saved: Iterable[dict[str, Any]] = ()) -> None:
        self._seen = {_key(each): each for each in saved}

    def take(self, found: Iterable[Recovery], from_us: int) -> None:
        """Look at what the coordinator remembers; what was before this hour was reported."""
        for each in found:
            move = each.move
            if move.at_us < from_us:
                continue
            said = {
                "query": move.query, "vertex": move.vertex, "term": move.term, "at_us": move.at_us, "kind": each.kind,
                "before": list(move.before), "after": list(move.after), "why": move.why, "took_s": each.took_s,
            }  # fmt: skip
            known = self._seen.get(_key(said))
            if known is None or said["took_s"] is not None:
                self._seen[_key(said)] = said

    def report(self, query: str, to_us: int) -> dict[str, Any]:
        """How often and how long parts of a query were recovered, as its report says it."""
        mine = [each for each in self._seen.values() if each["query"] == query and each["at_us"] < to_us]
        measured = [each["took_s"] for each in mine if each["took_s"] is not None]
        kinds = [each["kind"] for each in mine]
        return {
            "count": len(mine), "kinds": {kind: kinds.count(kind) for kind in sorted({*kinds})},
            "seconds": sum(measured), "longest_s": max(measured, default=None),
            "not_measured": len(mine) - len(measured),
            "each": [{name: value for name, value in each.items() if name != "query"} for each in mine[:LISTED_MAX]],
            "left_off": max(0, len(mine) - LISTED_MAX),
        }  # fmt: skip

    def forget(self, before_us: int) -> None:
        """Their reports are written."""
        self._seen = {key: each for key, each in self._seen.items() if each["at_us"] >= before_us}

    def to_json(self) -> list[dict[str, Any]]:
        return list(self._seen.values())


def _key(said: dict[str, Any]) -> tuple[str, str, int, int]:
    return said["query"], said["vertex"], said["term"], said["at_us"]
