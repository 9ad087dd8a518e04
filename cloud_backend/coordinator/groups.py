"""Groups of devices, and the programs that only they run.

A device is in one group or in none. A group may have a program of its own; while it has none, its devices run the
program of all. Versions come from one sequence, whoever they are for: a device takes a plan of a higher version only,
so one that changes its group gets a version above all others for itself, with the plan of the group that it came to.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cloud_backend.database import Database, Statements
from shared.errors import UsageError
from shared.identity import DeviceId

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
GROUPS_MAX = 100
SCHEMA = """
CREATE TABLE IF NOT EXISTS group_plans (
  name TEXT PRIMARY KEY, version INTEGER NOT NULL, plan BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS members (
  device BLOB PRIMARY KEY, name TEXT NOT NULL, version INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class Membership:
    group: str  # "" since it left one
    version: int  # at least this one, so that it takes the plan; 0: the plan's own


@dataclass(frozen=True, slots=True)
class GroupPlan:
    version: int
    encoded: bytes


class Groups:
    """In the roster's database. `on_change` hears that something here was decided."""

    def __init__(self, database: Database, on_change: Callable[[DeviceId | None], None]) -> None:
        self._database = database
        self._on_change = on_change

    def plans(self) -> dict[str, GroupPlan]:
        rows = self._database.read("SELECT name, version, plan FROM group_plans ORDER BY name")
        return {name: GroupPlan(version, bytes(plan)) for name, version, plan in rows}

    def members(self) -> dict[DeviceId, Membership]:
        """Those that are in a group or were in one."""
        rows = self._database.read("SELECT device, name, version FROM members")
        return {DeviceId(device): Membership(name, version) for device, name, version in rows}

    def sizes(self) -> dict[str, int]:
        """How many devices are in each group, by name; a group with a program may have none."""
        rows = self._database.read("SELECT name, count(*) FROM members WHERE name <> '' GROUP BY name")
        return dict(sorted((dict.fromkeys(self.plans(), 0) | dict(rows)).items()))

    def newest(self) -> int:
        """No plan or device has a higher version because of a group."""
        [(plans,)] = self._database.read("SELECT max(version) FROM group_plans")
        [(members,)] = self._database.read("SELECT max(version) FROM members")
        return max(plans or 0, members or 0)

    def put(self, device: DeviceId, name: str, *, newest: int) -> None:
        """Have a device in a group from now on; "" takes it out of its own. `newest`: the version of the program of
        all."""
        if name:
            check_group_name(name)
        with self._database.transaction() as database:
            known = {row[0] for row in database.execute("SELECT name FROM group_plans")}
            names = known | {row[0] for row in database.execute("SELECT DISTINCT name FROM members")}
            if name and name not in names and len(names - {""}) >= GROUPS_MAX:
                raise UsageError(f"there are {GROUPS_MAX} groups already; use one of them", code="group-many")
            row = database.execute("SELECT name, version FROM members WHERE device = ?", (device,)).fetchone()
            former, version = row or ("", 0)
            if name == former:
                return
            if {name, former} & known:  # else it runs the program of all before and after
                version = max(newest, _newest(database)) + 1
            database.execute(
                "INSERT INTO members VALUES (?, ?, ?) ON CONFLICT (device) DO UPDATE SET name = excluded.name,"
                " version = excluded.version",
                (device, name, version),
            )
        self._on_change(device)

    def deploy(self, name: str, plan: GroupPlan) -> None:
        """Give a group a program of its own; durable when this returns."""
        check_group_name(name)
        with self._database.transaction() as database:
            database.execute(
                "INSERT INTO group_plans VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE SET version = excluded.version,"
                " plan = excluded.plan",
                (name, plan.version, plan.encoded),
            )
        self._on_change(None)

    def withdraw(self, name: str, *, newest: int) -> None:
        """The group's devices run the program of all again."""
        with self._database.transaction() as database:
            version = max(newest, _newest(database)) + 1
            if not database.execute("DELETE FROM group_plans WHERE name = ?", (name,)).rowcount:
                raise UsageError("this group has no program of its own", code="group-program")
            database.execute("UPDATE members SET version = ? WHERE name = ?", (version, name))
        self._on_change(None)


def plan_for(
    membership: Membership | None, plans: Mapping[str, GroupPlan], program: GroupPlan | None
) -> tuple[str, GroupPlan] | None:
    """The group whose program a device should run ("" for that of all), and the plan under the version that the device
    gets it as."""
    group = membership.group if membership is not None and membership.group in plans else ""
    plan = plans[group] if group else program
    if plan is None:
        return None
    least = 0 if membership is None else membership.version
    return group, GroupPlan(max(plan.version, least), plan.encoded)


def check_group_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise UsageError(
            "this cannot name a group; use up to 40 of a-z, 0-9, - and _, a letter or digit first", code="group-name"
        )


def _newest(database: Statements) -> int:
    plans = database.execute("SELECT max(version) FROM group_plans").fetchone()
    members = database.execute("SELECT max(version) FROM members").fetchone()
    return max(plans[0] or 0, members[0] or 0)
