"""Acts on alerts: what is watched, and who is told."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Path
from pydantic import Field

from cloud_backend.coordinator.result_rules import OWN, PHONES_MAX, rule_of
from cloud_backend.coordinator.webhooks import URL_CHARACTERS_MAX, check_url
from cloud_backend.dashboard.acts.act import Act, Attempt, Fields, NameInPath, NoFields, NumberInPath
from cloud_backend.dashboard.result_alerts import check_against
from cloud_backend.dashboard.sources import Sources
from shared.errors import UsageError

Kind = Annotated[Literal["gap", "lag", "ledger", "job", "contract", "disk"], Path(description="what is watched")]


class SetRule(Fields):
    threshold: float = Field(ge=0, le=1e12, strict=False, description="a number from 0")
    enabled: bool = True


class AddResultRule(Fields):
    name: str = Field(max_length=40, description="what to call it")
    sink: str = Field(max_length=200, description="the query, or a sink of the program, whose rows are judged")
    condition: str = Field(max_length=200, description="a column, a comparison sign and a value, like: level = 80")
    during: str = Field("", max_length=20, description="for how long, like 5m; empty: the newest row is enough")
    phones: list[str] = Field(
        default_factory=list,
        max_length=PHONES_MAX,
        description="who rings: own (whose row it is), ids or names",
    )


class AddWebhook(Fields):
    url: str = Field(max_length=URL_CHARACTERS_MAX, description="http:// or https://HOST/PATH")
    private: bool = Field(False, description="the receiver is on a private network, and that is meant")


def set_rule(attempt: Attempt[SetRule]) -> None:
    threshold, enabled = attempt.fields.threshold, attempt.fields.enabled
    attempt.note(f"{threshold:g}, {'on' if enabled else 'off'}")
    attempt.sources.alerts.set_rule(attempt.subject, threshold=threshold, enabled=enabled)


def add_result_rule(attempt: Attempt[AddResultRule]) -> dict[str, Any]:
    """Judge each key of a query by this from its next row on."""
    sources, fields = attempt.sources, attempt.fields
    phones = [OWN if each == OWN else _phone(sources, each) for each in fields.phones]
    rule = rule_of(fields.name, fields.sink, fields.condition, during=fields.during, phones=phones)
    check_against(sources, rule)
    sources.alerts.check_result_rule(rule)
    attempt.note(f"{rule.sink}: {rule.words}", subject=rule.name)
    sources.alerts.add_result_rule(rule, sources.results.change())
    return {"name": rule.name, "sink": rule.sink, "words": rule.words, "phones": list(rule.phones)}


def _phone(sources: Sources, text: str) -> str:
    """The id of the one device with this id or name."""
    if sources.roster.name(text):
        return text
    found = [entry.device.hex() for entry in sources.entries() if entry.name == text]
    if len(found) != 1:
        raise UsageError(
            f"{len(found) or 'no'} devices have such a name; give its id, or {OWN!r} for whose row it is",
            code="alert-phones",
        )
    return found[0]


def remove_result_rule(attempt: Attempt[NoFields]) -> None:
    attempt.sources.alerts.check_result_rule_name(attempt.subject)
    attempt.note()
    attempt.sources.alerts.remove_result_rule(attempt.subject, attempt.sources.clock_us())


def add_webhook(attempt: Attempt[AddWebhook]) -> dict[str, Any]:
    """Tell an address of every change from now on. Its secret is in this answer and in no other."""
    sources, fields = attempt.sources, attempt.fields
    check_url(fields.url)
    sources.alerts.check_room_for_webhook()
    attempt.note()
    added = sources.alerts.add_webhook(fields.url, sources.clock_us(), private=fields.private)
    return {"number": added.number, "url": added.url, "private": added.private, "secret": added.secret}


def remove_webhook(attempt: Attempt[NoFields]) -> None:
    number = attempt.sources.alerts.webhook(int(attempt.subject)).number
    attempt.note()
    attempt.sources.alerts.remove_webhook(number)


def send_test(attempt: Attempt[NoFields]) -> None:
    """Send it a message that says it is a test. It goes the way of all messages: what came of it is listed."""
    number = attempt.sources.alerts.webhook(int(attempt.subject)).number
    attempt.note()
    attempt.sources.alerts.test_webhook(number, attempt.sources.clock_us())


SET_RULE = Act(
    set_rule, SetRule, "admin", "alert-rule-set", "POST /v1/api/alerts/rules/{kind}", "POST /alerts/rules/{kind}",
    "Change a threshold, or switch a rule off", Kind, "Saved.", "/audit",
)  # fmt: skip
ADD_RESULT_RULE = Act(
    add_result_rule, AddResultRule, "admin", "alert-rule-added", "POST /v1/api/alerts/results", "POST /alerts/results",
    "Watch the rows of a query: a column, a comparison, a value, for how long", None, "The rule is added.", "/audit",
)  # fmt: skip
REMOVE_RESULT_RULE = Act(
    remove_result_rule, NoFields, "admin", "alert-rule-removed", "DELETE /v1/api/alerts/results/{name}",
    "POST /alerts/results/{name}/remove", "Watch it no more; what it opened ends", NameInPath, "The rule is removed.",
    "/audit",
)  # fmt: skip
ADD_WEBHOOK = Act(
    add_webhook, AddWebhook, "admin", "webhook-added", "POST /v1/api/webhooks", "POST /alerts/webhooks",
    "Tell an address of every change; answers its secret, once",
)  # fmt: skip
REMOVE_WEBHOOK = Act(
    remove_webhook, NoFields, "admin", "webhook-removed", "DELETE /v1/api/webhooks/{number}",
    "POST /alerts/webhooks/{number}/remove", "Tell it no more", NumberInPath, "Removed.", "/audit",
)  # fmt: skip
TEST_WEBHOOK = Act(
    send_test, NoFields, "admin", "webhook-tested", "POST /v1/api/webhooks/{number}/test",
    "POST /alerts/webhooks/{number}/test", "Send it a message that says it is a test", NumberInPath,
    "A test message is on its way; what came of it shows beside the webhook.", "/audit",
)  # fmt: skip
ACTS = (SET_RULE, ADD_RESULT_RULE, REMOVE_RESULT_RULE, ADD_WEBHOOK, REMOVE_WEBHOOK, TEST_WEBHOOK)
