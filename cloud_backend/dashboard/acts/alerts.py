"""Acts on alerts: what is watched, and who is told."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Path
from pydantic import Field

from cloud_backend.coordinator.webhooks import URL_CHARACTERS_MAX, check_url
from cloud_backend.dashboard.acts.act import Act, Attempt, Fields, NoFields, NumberInPath

Kind = Annotated[Literal["gap", "lag", "ledger", "job", "contract", "disk"], Path(description="what is watched")]


class SetRule(Fields):
    threshold: float = Field(ge=0, le=1e12, strict=False, description="a number from 0")
    enabled: bool = True


class AddWebhook(Fields):
    url: str = Field(max_length=URL_CHARACTERS_MAX, description="http:// or https://HOST/PATH")
    private: bool = Field(False, description="the receiver is on a private network, and that is meant")


def set_rule(attempt: Attempt[SetRule]) -> None:
    threshold, enabled = attempt.fields.threshold, attempt.fields.enabled
    attempt.note(f"{threshold:g}, {'on' if enabled else 'off'}")
    attempt.sources.alerts.set_rule(attempt.subject, threshold=threshold, enabled=enabled)


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
ACTS = (SET_RULE, ADD_WEBHOOK, REMOVE_WEBHOOK, TEST_WEBHOOK)
