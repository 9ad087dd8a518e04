"""Every act by page and by API: the same role, the same word in the audit log, refused alike, by walking the table."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

import resurge as rs
from cloud_backend.coordinator.groups import GroupPlan
from cloud_backend.coordinator.result_rules import rule_of
from cloud_backend.dashboard.acts import alerts, devices, fleets, followers, jobs, moves, people, queries, results
from cloud_backend.dashboard.acts import program as program_acts
from cloud_backend.dashboard.acts.act import Act, NoFields
from cloud_backend.dashboard.acts.table import ACTS
from cloud_backend.spark.cluster.session import LocalRunner
from cloud_backend.spark.control.driver import JobManager, JobSettings
from cloud_backend.spark.manifest.manifest import ManifestLog
from cloud_backend.spark.storage.store import Store
from shared.plan.encoding import encode_plan
from shared.sync.exchange import StatusReceived
from shared.wire.fleet_status import FleetStatus
from shared.wire.status import DeviceStatus, HostOffer
from tests.cloud_backend.dashboard.house import House, every_route, program

SQL = "SELECT device, count(*) AS n FROM gps GROUP BY TUMBLE(10 SECONDS), device"
ROLES = ("viewer", "operator", "admin")


@dataclass(frozen=True)
class Example:
    """An act that succeeds and one that the act itself refuses, both as JSON; a form where it is not the same."""

    fields: dict[str, Any] = field(default_factory=dict)
    subject: Callable[[House], str] = lambda _: ""
    form: Callable[[dict[str, Any]], dict[str, str]] = lambda fields: {name: str(each) for name, each in fields.items()}
    before: Callable[[House], None] = lambda _: None
    refused_subject: str = ""
    refused_fields: dict[str, Any] | None = None


def first_device(house: House) -> str:
    return house.phones[0].hex()


def coordinates(house: House) -> None:
    """The first device coordinates a fleet, and is heard."""
    sources = house.app.state.sources
    status = DeviceStatus(produced=12, incarnation=1, fleet=FleetStatus(1), poll_s=30.0)
    house.gateway.roster.seen([(house.phones[0], sources.clock_us(), status)])
    sources.look_again()


def query_form(fields: dict[str, Any]) -> dict[str, str]:
    if isinstance(fields.get("plan"), dict):
        return {"name": str(fields.get("name", "")), "kind": "plan", "text": json.dumps(fields["plan"])}
    text = fields.get("sql", fields.get("plan", ""))
    return {"name": str(fields.get("name", "")), "kind": "plan" if "plan" in fields else "sql", "text": str(text)}


def rollback_form(fields: dict[str, Any]) -> dict[str, str]:
    return {name: str(each) for name, each in fields.items() if name != "dry_run"}


def plan_of(**changed: Any) -> dict[str, Any]:
    plan: dict[str, Any] = json.loads(encode_plan(program(**changed)))
    return plan


def deploy_form(fields: dict[str, Any]) -> dict[str, str]:
    return {"text": json.dumps(fields["plan"]), "group": str(fields.get("group", ""))}


FOLLOWER = {"name": "desk", "sink": "my_trips", "url": "https://example.org/rows", "private": False}


def unfollowed(house: House) -> None:
    house.app.state.sources.followers.remove("desk")


def followed(house: House) -> None:
    unfollowed(house)
    house.app.state.sources.followers.add(
        "desk", "my_trips", "https://example.org/rows", place=0, now_us=1, private=False, retained=False, password=""
    )


def grouped(house: House) -> None:
    """A group has a program of its own."""
    house.gateway.roster.groups.deploy("pilots", GroupPlan(7, encode_plan(program(good=20.0))))


def submitted(house: House) -> None:
    if house.browser("operator").get("/v1/api/queries").json()["queries"]:
        return  # by an act before
    answer = house.browser("operator").post("/v1/api/queries", json={"name": "counts", "sql": SQL})
    assert answer.status_code == 200, answer.text


def hooked(house: House) -> None:
    house.app.state.sources.alerts.add_webhook("https://example.org/hook", house.now_us)


WATCHED = {"name": "far", "sink": "my_trips", "condition": "km > 2", "during": "5m", "phones": ["own", "tram-07"]}


def unwatched(house: House) -> None:
    known = house.app.state.sources.alerts
    for rule in known.result_rules():
        known.remove_result_rule(rule.name, house.now_us)


def watched(house: House) -> None:
    unwatched(house)
    house.app.state.sources.alerts.add_result_rule(rule_of("far", "my_trips", "km > 2"), 0)


def newest_hook(house: House) -> str:
    return str(max((hook.number for hook in house.app.state.sources.alerts.webhooks()), default=1))


def ran(house: House) -> None:
    """The program's job over the house's log, its tasks in this process; once."""
    store = house.settings.stable.parent
    if store.exists():
        return
    manager = JobManager(
        house.settings.home / "log", store, program(), results=house.gateway.results, runner=LocalRunner(),
        settings=JobSettings(epoch_s=1.0, balance=False), clock=lambda: house.now_us / 1e6,
    )  # fmt: skip
    manager.drain()
    for device in house.phones:
        house.deliver(device, seq=8)
        manager.drain()


def rolled_back(house: House) -> None:
    ran(house)
    if house.browser("operator").get("/v1/api/jobs/main").json()["rollbacks"]:
        return  # by an act before
    body = {"vertex": "my_trips", "to": 1, "dry_run": False}
    answer = house.browser("operator").post("/v1/api/jobs/main/rollback", json=body)
    assert answer.status_code == 200, answer.text


def saved(house: House) -> None:
    ran(house)
    if ManifestLog(Store(house.settings.stable.parent)).state.savepoints:
        return  # by an act before
    answer = house.browser("operator").post("/v1/api/jobs/main/savepoints", json={"savepoint": "release-1"})
    assert answer.status_code == 200, answer.text


def added(house: House) -> None:
    house.access.people.put("ada", "viewer", house.now_us)


def region_plan() -> str:
    near = rs.sensor("noise", every="1s", columns={"db": "float64"}).gather("noise")
    return encode_plan(rs.plan_of(near.sliding(count=5).aggregate(db=rs.mean("db")).subscribe("loud"))).decode()


ON_FLEET: dict[str, Any] = {
    "name": "noise", "plan": region_plan(), "sink": "hub", "sources": ["hub"], "keepers": 0, "every": 100,
    "strategy": "ecoc", "on": ["loud=hub"],
}  # fmt: skip


def fleet_form(fields: dict[str, Any]) -> dict[str, str]:
    return {name: " ".join(each) if isinstance(each, list) else str(each) for name, each in fields.items()}


def offered(house: House) -> None:
    """A phone of the house hosts vertices."""
    offer = HostOffer("hub", "0" * 40, ("tcp://127.0.0.1:7301",), 8)
    house.gateway.fleet.notice(StatusReceived(house.phones[0], 1, DeviceStatus(offer=offer)))


def deployed(house: House) -> None:
    offered(house)
    if house.gateway.fleet.runs(ON_FLEET["name"]):
        return  # by an act before
    answer = house.browser("operator").post("/v1/api/fleets/queries", json=ON_FLEET)
    assert answer.status_code == 200, answer.text


IN_REGION: dict[str, Any] = {
    "name": "stop", "plan": region_plan(), "sink": "hub", "sources": ["hub"], "center": "1.35,103.8", "radius_m": 20.0,
    "threshold": 2, "dwell_s": 30.0,
}  # fmt: skip


def formed(house: House) -> None:
    offered(house)
    answer = house.browser("operator").post("/v1/api/fleets/regions", json=IN_REGION)
    assert answer.status_code == 200 or answer.json()["code"] == "region-taken", answer.text


EXAMPLES: dict[Act[Any], Example] = {
    devices.PAIR: Example({"host": "gateway.example.org"}, refused_fields={"host": "not a host"}),
    devices.RENAME: Example({"name": "tram 7"}, first_device, refused_subject="0" * 32),
    devices.CONFIGURE: Example(
        {"sampling_rate": 0.5, "note": "old"}, first_device, refused_fields={"sampling_rate": 0.5, "note": "a\u0007b"}
    ),
    moves.MOVE: Example(
        {"query": "noise", "vertex": "band", "to": "hub"}, first_device, before=coordinates, refused_subject="f" * 32
    ),
    devices.GROUP: Example({"group": "pilots"}, first_device, refused_subject="0" * 32),
    devices.REVOKE: Example({}, first_device, refused_subject="0" * 32),
    devices.DELETE_DATA: Example({"name": "tram-07"}, first_device, refused_fields={"name": "bus-12"}),
    program_acts.DEPLOY: Example(
        {"plan": plan_of(window="7m"), "dry_run": False}, form=deploy_form,
        refused_fields={"plan": plan_of(), "dry_run": False},
    ),
    program_acts.WITHDRAW: Example({}, lambda _: "pilots", before=grouped, refused_subject="other"),
    queries.SUBMIT: Example(
        {"name": "counts", "sql": SQL}, form=query_form, refused_fields={"name": "counts", "sql": "SELECT x FROM gps"}
    ),
    queries.STOP: Example({}, lambda _: "counts", before=submitted, refused_subject="other"),
    queries.RESUME: Example({}, lambda _: "counts", before=submitted, refused_subject="other"),
    queries.DROP: Example({}, lambda _: "counts", before=submitted, refused_subject="other"),
    jobs.ROLLBACK: Example(
        {"vertex": "my_trips", "to": 1, "dry_run": False}, lambda _: "main", rollback_form, before=ran,
        refused_fields={"vertex": "nobody", "to": 1, "dry_run": False},
    ),
    jobs.UNDO: Example(
        {"entry": 0, "dry_run": False}, lambda _: "main", rollback_form, before=rolled_back,
        refused_fields={"entry": 1, "dry_run": False},
    ),
    jobs.CREATE_SAVEPOINT: Example(
        {"savepoint": "release-1"}, lambda _: "main", before=ran, refused_fields={"savepoint": "7 o'clock"},
    ),
    jobs.DROP_SAVEPOINT: Example(
        {"savepoint": "release-1"}, lambda _: "main", before=saved, refused_fields={"savepoint": "release-2"},
    ),
    results.EXPORT: Example({"format": "csv"}, lambda _: "my_trips", refused_subject="nothing"),
    people.PUT_PERSON: Example({"name": "ada", "role": "viewer"}, refused_fields={"name": "admin", "role": "viewer"}),
    people.REMOVE_PERSON: Example({}, lambda _: "ada", before=added, refused_subject="nobody"),
    people.MAKE_LINK: Example({"name": "ada", "role": "viewer"}),
    fleets.SUBMIT: Example(ON_FLEET, form=fleet_form, before=offered, refused_fields=ON_FLEET | {"sink": "nobody"}),
    fleets.EDIT: Example({"plan": ON_FLEET["plan"]}, lambda _: "noise", before=deployed, refused_subject="other"),
    fleets.DROP: Example({}, lambda _: "noise", before=deployed, refused_subject="other"),
    fleets.ADD_REGION: Example(IN_REGION, form=fleet_form, before=offered, refused_fields=IN_REGION | {"center": "here"}),
    fleets.DROP_REGION: Example({}, lambda _: "stop", before=formed, refused_subject="other"),
    alerts.SET_RULE: Example({"threshold": 60.0, "enabled": True}, lambda _: "gap"),
    alerts.ADD_RESULT_RULE: Example(
        WATCHED, form=lambda fields: fields | {"phones": " ".join(fields["phones"])}, before=unwatched,
        refused_fields=WATCHED | {"condition": "miles > 2"},
    ),
    alerts.REMOVE_RESULT_RULE: Example({}, lambda _: "far", before=watched, refused_subject="other"),
    alerts.ADD_WEBHOOK: Example({"url": "https://example.org/hook"}, refused_fields={"url": "ftp://example.org"}),
    alerts.REMOVE_WEBHOOK: Example({}, newest_hook, before=hooked, refused_subject="77"),
    followers.ADD_FOLLOWER: Example(
        FOLLOWER, form=lambda fields: {name: str(each) for name, each in fields.items() if each is not False},
        before=unfollowed, refused_fields=FOLLOWER | {"sink": "nobody"},
    ),
    followers.REMOVE_FOLLOWER: Example({}, lambda _: "desk", before=followed, refused_subject="other"),
    alerts.TEST_WEBHOOK: Example({}, newest_hook, before=hooked, refused_subject="77"),
}  # fmt: skip
# What these leave behind would be in the way of others; for the rest, one house by API and one by page do.
ALONE = {devices.RENAME, devices.REVOKE, devices.DELETE_DATA, program_acts.DEPLOY}
NOTED = [act for act in ACTS if act.word]
ids = [act.do.__name__ for act in NOTED]


def ask(house: House, act: Act[Any], role: str, way: str, subject: str, fields: dict[str, Any]):
    """Try an act as somebody of this role, by API or by page."""
    browser = house.browser(role)
    method, _, path = getattr(act, way).partition(" ")
    values = dict(fields)
    if act.subject is not None:
        path = path.replace("{" + act.subject_name + "}", subject)
    if way == "api":
        sent = {"params": values} if method == "GET" else {"json": values} if act.fields is not NoFields else {}
    else:
        form = EXAMPLES[act].form(values)
        for name in re.findall(r"\{(\w+)\}", path):
            path = path.replace("{" + name + "}", form.pop(name, "none"))
        sent = {"params": form} if method == "GET" else {"data": form}
    headers = {"x-csrf-token": browser.csrf, "accept": "application/json"}
    return browser.ask(method, path, headers=headers, **sent)


def lines(house: House) -> list[tuple[str, str, str, str]]:
    """Audit lines but those of signing in, oldest first."""
    found = [
        (each.person, each.action, each.subject, each.detail) for each in house.access.audit_log.lines(limit=10_000)
    ]
    return [each for each in found if not each[1].startswith("signed-in")][::-1]


def entry_of(house: House, act: Act[Any], fields: dict[str, Any]) -> dict[str, Any]:
    """An undo names the entry of the rollback, which the manifest numbered."""
    if act is not jobs.UNDO or fields["entry"]:
        return fields
    facts = house.browser("operator").get("/v1/api/jobs/main").json()
    return fields | {"entry": facts["rollbacks"][-1]["n"]}


@pytest.fixture(scope="module")
def lived_in(tmp_path_factory):
    """A house for each way: what is done in one is done in the other, too."""
    made = {way: House(tmp_path_factory.mktemp(way)) for way in ("api", "page")}
    yield made
    for house in made.values():
        house.close()


@pytest.fixture
def new_houses(tmp_path):
    made = {way: House(tmp_path / way) for way in ("api", "page")}
    yield made
    for house in made.values():
        house.close()


@pytest.fixture(scope="module")
def house_that_ran(tmp_path_factory):
    """For acts that are refused, and so leave it as it was."""
    made = House(tmp_path_factory.mktemp("ran"))
    ran(made)
    yield made
    made.close()


def test_every_act_has_a_route_by_page_and_by_api_and_no_other_route_changes_anything(house):
    made = {f"{method} {route.path}" for route in every_route(house.app) for method in route.methods}
    named = {address for act in ACTS for address in (act.api, act.page)}
    assert named <= made
    own = {"POST /signin", "POST /signout", "POST /account/password", "POST /v1/enrol"}
    assert {each for each in made if not each.startswith(("GET ", "HEAD "))} - named == own


@pytest.mark.parametrize("act", NOTED, ids=ids)
def test_page_and_api_do_the_same_and_note_the_same(request, act):
    example = EXAMPLES[act]
    noted = {}
    for way, house in request.getfixturevalue("new_houses" if act in ALONE else "lived_in").items():
        example.before(house)
        known = len(lines(house))
        answer = ask(house, act, act.role, way, example.subject(house), entry_of(house, act, example.fields))
        assert answer.status_code in (200, 303), answer.text
        noted[way] = lines(house)[known:]
    assert noted["api"] == noted["page"]
    assert [(person, action) for person, action, _, _ in noted["api"]] == [(act.role, act.word)]


@pytest.mark.parametrize("act", [each for each in NOTED if each.role != "viewer"], ids=lambda act: act.do.__name__)
def test_who_may_not_is_refused_and_noted_alike(house, act):
    example = EXAMPLES[act]
    lower = ROLES[ROLES.index(act.role) - 1]
    noted = {}
    for way in ("api", "page"):
        known = len(lines(house))
        answer = ask(house, act, lower, way, example.subject(house), example.fields)
        assert (answer.status_code, answer.json()["code"]) == (403, "role-required")
        noted[way] = lines(house)[known:]
    assert noted["api"] == noted["page"] == [(lower, f"{act.word}-refused", example.subject(house), "role-required")]


REFUSABLE = [act for act in NOTED if EXAMPLES[act].refused_subject or EXAMPLES[act].refused_fields is not None]


@pytest.mark.parametrize("act", REFUSABLE, ids=lambda act: act.do.__name__)
def test_what_an_act_refuses_is_refused_and_noted_alike(house_that_ran, act):
    example, house = EXAMPLES[act], house_that_ran
    fields = example.fields if example.refused_fields is None else example.refused_fields
    noted, answered = {}, {}
    for way in ("api", "page"):
        known = len(lines(house))
        subject = example.refused_subject or example.subject(house)
        answered[way] = ask(house, act, act.role, way, subject, fields)
        noted[way] = lines(house)[known:]
    assert answered["api"].status_code == answered["page"].status_code
    assert noted["api"] == noted["page"]
    [(person, action, _, code)] = noted["api"]
    assert (person, action, code) == (act.role, f"{act.word}-refused", answered["api"].json()["code"])


WRONG = {
    "name": "", "host": "h" * 300, "note": "n" * 600, "sampling_rate": 7, "role": "king", "password": "short",
    "url": "u" * 600, "threshold": -1, "vertex": "", "to": -1, "ranges": "everything", "entry": -1, "format": "docx",
    "sql": "s" * 21_000, "link": "l" * 600, "savepoint": "", "sources": ["x"] * 65, "strategy": "s" * 60,
    "every": 0, "keepers": -1, "on": ["v=n"] * 300, "place": "p" * 60, "submit_to_fleet sink": "n" * 300,
    "query": "", "leaving": "l" * 100, "move_vertex to": "", "absent": "a" * 60,
    "forward": "f" * 60,
    "add_region sink": "n" * 300, "center": "c" * 100, "radius_m": -1, "corners": ["1,1"] * 300, "dwell_s": -1,
    "after": ["a=b/c"] * 100, "add_result_rule sink": "n" * 300, "condition": "c" * 300, "during": "d" * 30,
    "phones": ["p"] * 100, "add_follower sink": "n" * 300, "add_follower password": "p" * 300,
    "from_us": -1, "to_us": "now",
}  # fmt: skip
WRONG_NAMES = {
    "rename": "",
    "delete_data": "n" * 100,
    "submit": "No Name",
    "put_person": "No Name",
    "make_link": "-",
    "submit_to_fleet": "No Name",
    "add_region": "No Name",
    "add_result_rule": "n" * 50,
    "add_follower": "n" * 50,
}
LOOSE = {
    "dry_run",
    "enabled",
    "private",
    "plan",
    "retained",
    "new_only",
}  # a form cannot say these wrongly: a box is ticked or not


def field_cases() -> list[Any]:
    return [
        pytest.param(act, name, id=f"{act.do.__name__}-{name}")
        for act in ACTS
        for name in act.fields.model_fields
        if name not in LOOSE and act in EXAMPLES
    ]


@pytest.mark.parametrize(("act", "name"), field_cases())
def test_a_field_is_refused_alike_and_nothing_is_noted(house, act, name):
    example = EXAMPLES[act]
    value = WRONG_NAMES[act.do.__name__] if name == "name" else WRONG.get(f"{act.do.__name__} {name}", WRONG.get(name))
    fields = example.fields | {name: value}
    known = lines(house)
    subject = example.subject(house)
    by_api = ask(house, act, act.role, "api", subject, fields | ({"ranges": ["all"]} if name == "ranges" else {}))
    by_page = ask(house, act, act.role, "page", subject, fields)
    assert (by_api.status_code, by_page.status_code) == (422, 422), (by_api.text, by_page.text)
    assert by_api.json()["code"] == "request-invalid"
    if by_page.headers["content-type"].startswith("application/problem"):
        assert by_page.json()["code"] == "request-invalid"
    assert lines(house) == known
