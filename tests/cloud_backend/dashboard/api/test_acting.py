"""What people do through the API, and that the audit log tells of it."""

from __future__ import annotations

import json
import time

import pytest

import resurge as rs
from cloud_backend.spark.control.jobs import JobDirectory
from shared.plan.encoding import encode_plan
from shared.wire.enrolment import EnrolmentLink, comparison_digits
from tests.cloud_backend.dashboard.house import program

SQL = "SELECT device, avg(accuracy) AS accuracy, count(*) AS n FROM gps GROUP BY TUMBLE(10 SECONDS), device"


@pytest.fixture
def admin(dashboard):
    return dashboard.browser("admin")


def actions(dashboard) -> list[str]:
    return [line.action for line in dashboard.access.audit_log.lines()]


def test_pairing_gives_a_link_a_picture_and_the_digits_to_compare(dashboard, admin):
    made = admin.post("/v1/api/devices/pair", json={"host": "gateway.example.org"}).json()
    assert made["link"].startswith("resurge://gateway.example.org:8750/#")
    assert made["qr_svg"].startswith("<svg")
    assert "style=" not in made["qr_svg"]
    asked = {"link": made["link"]}
    assert admin.post("/v1/api/devices/pairing", json=asked).json()["used"] is False
    link = EnrolmentLink.parse(made["link"])
    key = b"k" * 32
    dashboard.gateway.roster.enrol(link.code, key, "new phone", dashboard.now_us)
    used = admin.post("/v1/api/devices/pairing", json=asked).json()
    assert used["digits"] == comparison_digits(link.code, key, link.gateway_key)
    assert used["name"] == "new phone"
    assert "pairing-link-made" in actions(dashboard)
    assert link.code.hex() not in json.dumps([str(line) for line in dashboard.access.audit_log.lines()])


def test_a_device_is_renamed_configured_and_revoked(dashboard, admin):
    device = dashboard.phones[0].hex()
    assert admin.post(f"/v1/api/devices/{device}/rename", json={"name": "tram \u0007seven"}).status_code == 200
    settings = {"sampling_rate": 0.5, "note": "old battery"}
    assert admin.post(f"/v1/api/devices/{device}/configure", json=settings).json() == settings
    assert admin.post(f"/v1/api/devices/{device}/revoke").status_code == 200
    found = admin.get(f"/v1/api/devices/{device}").json()
    assert (found["name"], found["settings"], found["state"]) == ("tram seven", settings, "revoked")
    assert actions(dashboard)[:3] == ["device-revoked", "device-configured", "device-renamed"]


def test_a_configured_rate_goes_down_to_the_device_alone(dashboard, admin):
    device, other = dashboard.phones
    admin.post(f"/v1/api/devices/{device.hex()}/configure", json={"sampling_rate": 0.5})
    dashboard.gateway.downlink.device_rates = dashboard.gateway.device_rates()
    assert dashboard.gateway.downlink.hint(device).rates == {"*": 0.5}
    assert dashboard.gateway.downlink.hint(other) is None


def test_deleting_needs_the_name_once_more(dashboard, admin):
    device = dashboard.phones[0].hex()
    refused = admin.post(f"/v1/api/devices/{device}/delete-data", json={"name": "bus-12"})
    assert (refused.status_code, refused.json()["code"]) == (409, "device-confirm")
    assert admin.post(f"/v1/api/devices/{device}/delete-data", json={"name": "tram-07"}).json()["done_us"] is None
    assert admin.get(f"/v1/api/devices/{device}").json()["state"] == "deleted"


def test_a_query_is_explained_submitted_stopped_resumed_and_dropped(dashboard, admin):
    explained = admin.post("/v1/api/queries/explain", json={"sql": SQL}).json()
    assert "tumbling 10s" in explained["explanation"]
    assert explained["sinks"] == ["query"]
    named = admin.post("/v1/api/queries/explain", json={"name": "accuracy", "sql": SQL}).json()
    assert named["sinks"] == ["accuracy"]
    assert named["explanation"].startswith("plan 'accuracy'")
    submitted = admin.post("/v1/api/queries", json={"name": "accuracy", "sql": SQL})
    assert submitted.status_code == 200, submitted.text
    assert submitted.json()["wanted"] == "running"
    jobs = JobDirectory(dashboard.settings.jobs)
    assert jobs.names() == ["accuracy"]
    assert [node.operator.name for node in jobs.plan("accuracy").nodes if type(node.operator).__name__ == "Sync"] == [
        "gps"
    ]
    assert [job["name"] for job in admin.get("/v1/api/jobs").json()["jobs"]] == ["main", "accuracy"]
    admin.post("/v1/api/queries/accuracy/stop")
    assert jobs.status()["accuracy"]["wanted"] == "stopped"
    admin.post("/v1/api/queries/accuracy/resume")
    assert jobs.status()["accuracy"]["wanted"] == "running"
    assert admin.ask("DELETE", "/v1/api/queries/accuracy", headers={"x-csrf-token": admin.csrf}).status_code == 200
    assert jobs.names() == []
    assert admin.get("/v1/api/queries").json()["queries"] == []
    assert actions(dashboard)[:4] == ["query-dropped", "query-resumed", "query-stopped", "query-submitted"]


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("fast-trams", "Its rows will appear under fast-trams."),
        ("", "Its rows will appear under query."),
        ("Fast trams", "up to 40 small letters"),
    ],
)
def test_the_page_explains_a_query_under_the_name_that_was_typed(admin, typed, said):
    assert said in admin.post("/queries/explain", data={"name": typed, "kind": "sql", "text": SQL}).text


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"name": "q", "sql": "SELECT nothing FROM gps"}, "column-unknown"),
        ({"name": "q", "sql": "SELECT lat FROM nowhere"}, "sql-stream"),
        ({"name": "q", "sql": "DROP TABLE devices"}, "sql-unsupported"),
        ({"name": "q"}, "query-kind"),
        ({"name": "q", "sql": SQL, "plan": {}}, "query-kind"),
        ({"name": "q", "plan": {"nodes": []}}, "plan-json"),
        ({"name": "main", "sql": SQL}, "query-name-taken"),
        ({"name": "my_trips", "sql": SQL}, "query-name-taken"),
    ],
)
def test_a_query_that_cannot_run_is_refused_and_nothing_is_kept(house, body, code):
    admin = house.browser("admin")
    answer = admin.post("/v1/api/queries", json=body)
    assert answer.status_code in (409, 422), answer.text
    assert answer.json()["code"] == code
    assert admin.get("/v1/api/queries").json()["queries"] == []
    assert JobDirectory(house.settings.jobs).names() == []


def test_a_plan_that_tells_phones_something_is_no_query(admin):
    plan = json.loads(encode_plan(program()))
    answer = admin.post("/v1/api/queries", json={"name": "mine", "plan": plan})
    assert answer.json()["code"] == "query-sync-back"


def test_two_queries_have_two_names(dashboard, admin):
    assert admin.post("/v1/api/queries", json={"name": "a", "sql": SQL}).status_code == 200
    assert admin.post("/v1/api/queries", json={"name": "a", "sql": SQL}).json()["code"] == "query-name-taken"


@pytest.mark.parametrize(
    ("behind_s", "said_before_s", "code"), [(500.0, 10, "query-room"), (500.0, 1000, ""), (5.0, 1, "")]
)
def test_a_query_is_refused_while_a_job_that_works_does_not_keep_up(dashboard, admin, behind_s, said_before_s, code):
    jobs = JobDirectory(dashboard.settings.jobs)
    assert admin.post("/v1/api/queries", json={"name": "first", "sql": SQL}).status_code == 200
    jobs.store("first").mkdir(parents=True, exist_ok=True)
    status = {"lag_s": behind_s, "at": time.time() - said_before_s}
    (jobs.store("first") / "status.json").write_text(json.dumps(status))
    answer = admin.post("/v1/api/queries", json={"name": "second", "sql": SQL})
    assert answer.json().get("code", "") == code
    assert jobs.names() == (["first"] if code else ["first", "second"])
    if code:
        assert "job first is 500 s behind" in answer.json()["detail"]
        admin.post("/v1/api/queries/first/stop")  # as the refusal says: what it said before counts no more
        assert admin.post("/v1/api/queries", json={"name": "second", "sql": SQL}).status_code == 200
        jobs.store("second").mkdir(parents=True, exist_ok=True)
        (jobs.store("second") / "status.json").write_text(json.dumps(status))
        assert admin.post("/v1/api/queries/first/resume").json()["code"] == "query-room"
    assert admin.get("/v1/api/queries").json()["queries"][0]["lag_s"] == (behind_s if said_before_s < 300 else 0.0)


def test_a_query_reads_rows_without_a_column_as_the_program_states(dashboard, admin, monkeypatch):
    walked = rs.stream("walked", {"metres": "float64", "steps": "int64"}).sync("walked", missing={"steps": -1})
    monkeypatch.setattr(type(dashboard.app.state.sources), "program", lambda _: rs.plan_of(walked.subscribe("rows")))
    question = {"name": "far", "sql": "SELECT metres, steps FROM walked WHERE metres > 5"}
    assert admin.post("/v1/api/queries", json=question).status_code == 200
    [edge] = JobDirectory(dashboard.settings.jobs).plan("far").edges
    assert (edge.name, edge.missing) == ("walked", (("steps", -1),))


def test_people_are_added_changed_and_removed_and_one_admin_stays(dashboard, admin):
    assert admin.post("/v1/api/accounts", json={"name": "ada", "role": "viewer"}).status_code == 200
    path = admin.post("/v1/api/accounts/link", json={"name": "ada"}).json()["path"]
    ada = dashboard.browser()
    assert ada.get(path).status_code == 200
    assert ada.get("/v1/api/me").json()["role"] == "viewer"
    admin.post("/v1/api/accounts", json={"name": "ada", "role": "operator"})
    assert ada.get("/v1/api/me").status_code == 401  # what a session may do never changes while it lasts
    headers = {"x-csrf-token": admin.csrf}
    assert admin.ask("DELETE", "/v1/api/accounts/ada", headers=headers).status_code == 200
    assert admin.ask("DELETE", "/v1/api/accounts/admin", headers=headers).json()["code"] == "account-last-admin"
    assert [each["name"] for each in admin.get("/v1/api/accounts").json()["accounts"]] == ["admin"]


def test_alert_rules_and_webhooks_are_the_admins(dashboard, admin):
    assert admin.post("/v1/api/alerts/rules/gap", json={"threshold": 60}).status_code == 200
    rules = {rule["kind"]: rule for rule in admin.get("/v1/api/alerts").json()["rules"]}
    assert rules["gap"]["threshold"] == 60
    added = admin.post("/v1/api/webhooks", json={"url": "https://example.org/hook"}).json()
    assert len(added["secret"]) > 30
    listed = admin.get("/v1/api/webhooks")
    assert added["secret"] not in listed.text
    assert admin.post(f"/v1/api/webhooks/{added['number']}/test").status_code == 200
    assert len(admin.get("/v1/api/webhooks").json()["queue"]) == 1
    headers = {"x-csrf-token": admin.csrf}
    assert admin.ask("DELETE", f"/v1/api/webhooks/{added['number']}", headers=headers).status_code == 200
    assert admin.get("/v1/api/webhooks").json()["webhooks"] == []
