"""Acts on followers: who is sent the results of a sink."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from cloud_backend.coordinator.webhooks import URL_CHARACTERS_MAX
from cloud_backend.dashboard.acts.act import Act, Attempt, Fields, NameInPath, NoFields
from cloud_backend.dashboard.result_alerts import sinks
from shared.errors import UsageError


class AddFollower(Fields):
    name: str = Field(max_length=40, description="what to call it")
    sink: str = Field(max_length=200, description="the query, or a sink of the program, whose answers it gets")
    url: str = Field(max_length=URL_CHARACTERS_MAX, description="http(s)://HOST/PATH or mqtt(s)://[USER@]HOST/TOPIC")
    password: str = Field("", max_length=200, description="of the broker's user")
    private: bool = Field(False, description="the receiver is on a private network, and that is meant")
    retained: bool = Field(False, description="MQTT: the broker keeps the last row of each topic")
    new_only: bool = Field(False, description="only what is answered from now on")


def add_follower(attempt: Attempt[AddFollower]) -> dict[str, Any]:
    """Send every answer of a sink there. The secret that HTTP bodies are signed with is in this answer and no other."""
    sources, fields = attempt.sources, attempt.fields
    sources.followers.check(fields.name, fields.url)
    if fields.sink not in sinks(sources):
        raise UsageError("nothing says results under this name; resurge query list shows queries", code="follower-sink")
    attempt.note(fields.sink, subject=fields.name)
    added = sources.followers.add(
        fields.name, fields.sink, fields.url, place=sources.results.change() if fields.new_only else 0,
        now_us=sources.clock_us(), private=fields.private, retained=fields.retained, password=fields.password,
    )  # fmt: skip
    return {"name": added.name, "sink": added.sink, "url": added.url, "secret": "" if added.is_mqtt else added.secret}


def remove_follower(attempt: Attempt[NoFields]) -> None:
    follower = attempt.sources.followers.find(attempt.subject)
    attempt.note()
    attempt.sources.followers.remove(follower.name)


ADD_FOLLOWER = Act(
    add_follower, AddFollower, "admin", "follower-added", "POST /v1/api/followers", "POST /followers",
    "Send every answer of a sink to a receiver; answers the secret that bodies are signed with, once",
)  # fmt: skip
REMOVE_FOLLOWER = Act(
    remove_follower, NoFields, "admin", "follower-removed", "DELETE /v1/api/followers/{name}",
    "POST /followers/{name}/remove", "Send it nothing more", NameInPath, "It is sent nothing more.", "/results",
)  # fmt: skip
ACTS = (ADD_FOLLOWER, REMOVE_FOLLOWER)
