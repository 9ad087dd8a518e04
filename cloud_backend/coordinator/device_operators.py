"""Which devices can run a plan: each needs the operator types of the device's side, in their versions.

A device says in its status which it has and which app it is. A plan that needs another is withheld from it; the app of
a device that has them all is the one to install.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from cloud_backend.coordinator.roster import RosterEntry
from shared.wire.status import DeviceStatus

NAMED_MAX = 3
HOW_TO_BUILD = "resurge app build makes one"


def lacking(needs: Collection[str], operators: Collection[str] | None) -> tuple[str, ...]:
    """What a device with these operator types lacks. One that did not say which it has decides by itself."""
    return () if operators is None else tuple(sorted(set(needs).difference(operators)))


def build_with(entries: Iterable[RosterEntry], needs: Collection[str]) -> str:
    """The app, of those that devices reported, that has all of these; of several the one seen last."""
    able = [
        entry for entry in entries
        if entry.status.build and entry.status.operators is not None and not lacking(needs, entry.status.operators)
    ]  # fmt: skip
    return max(able, key=lambda entry: entry.seen_us or 0).status.build if able else ""


@dataclass(frozen=True, slots=True)
class PlanNeeds:
    """What a version of the program wants of a device."""

    version: int
    operators: frozenset[str]
    build: str  # an app that has them all; empty where no device has reported one
    groups_apart: frozenset[str] = frozenset()  # groups of devices that have programs of their own instead

    def why_withheld(self, status: DeviceStatus) -> str:
        """Why a device does not get this version; empty where nothing keeps it from it."""
        lacks = lacking(self.operators, status.operators)
        if not lacks or status.plan >= self.version:
            return ""
        where = f"{self.build} has what it needs" if self.build else f"no app that was reported has it: {HOW_TO_BUILD}"
        return f"version {self.version} of the program needs {', '.join(lacks)}, which its app lacks; {where}"


def left_out(needs: Collection[str], entries: Collection[RosterEntry]) -> list[str]:
    """Before a plan is deployed: which devices will not get it, and what they need."""
    found = {
        entry.name: lacks
        for entry in entries
        if entry.revoked_us is None and (lacks := lacking(needs, entry.status.operators))
    }
    if not found:
        return []
    names = list(found)
    shown = ", ".join(names[:NAMED_MAX]) + (f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else "")
    missing = ", ".join(sorted({each for lacks in found.values() for each in lacks}))
    build = build_with(entries, needs)
    where = f"install {build} there" if build else HOW_TO_BUILD
    return [f"{shown} will not get it: {'its app lacks' if len(names) == 1 else 'their apps lack'} {missing}; {where}"]
