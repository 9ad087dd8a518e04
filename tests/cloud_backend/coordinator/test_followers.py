"""Who is sent results: the place that is kept, and when somebody who fails is tried again."""

from __future__ import annotations

import socket

import pytest
from paho.mqtt import client as mqtt

from cloud_backend.coordinator.followers import FOLLOWERS_MAX, RETRY_US_MAX, Followers
from cloud_backend.coordinator.mqtt_broker import publish, topic_of
from shared.errors import PeerError, UsageError

HTTP, MQTT = "https://example.org/rows", "mqtt://ann@broker.example.org/results/trips"


@pytest.fixture
def followers(tmp_path):
    followers = Followers(tmp_path / "followers.sqlite")
    yield followers
    followers.close()


def add(followers, name="desk", url=HTTP, place=0, password=""):
    return followers.add(
        name, "trips", url, place=place, now_us=5, private=False, retained=False, password=password
    )  # fmt: skip


def test_a_place_is_kept_after_its_rows_were_taken(followers, tmp_path):
    desk = add(followers, place=7)
    assert (desk.place, desk.delivered, desk.problem, len(desk.secret)) == (7, 0, "", 32)
    followers.took(desk, 9, 2, 100)
    followers.took(desk, 12, 0, 200)  # other sinks' answers
    again = Followers(tmp_path / "followers.sqlite")
    kept = again.find("desk")
    assert (kept.place, kept.delivered, kept.delivered_us) == (12, 2, 100)
    again.close()


def test_who_fails_is_tried_later_each_time_from_the_same_place_until_it_takes_something(followers):
    desk, waits = add(followers), []
    for now_us in range(0, 12_000_000, 1_000_000):
        followers.failed(followers.find("desk"), "the webhook answered 500", now_us)
        waits.append(followers.find("desk").retry_us - now_us)
    found = followers.find("desk")
    assert waits[:4] == [1_000_000, 2_000_000, 4_000_000, 8_000_000]
    assert waits[-1] == RETRY_US_MAX
    assert (found.place, found.failures, found.failing_us, found.problem) == (0, 12, 0, "the webhook answered 500")
    followers.took(desk, 3, 1, 99)
    found = followers.find("desk")
    assert (found.place, found.failures, found.failing_us, found.retry_us, found.problem) == (3, 0, None, 0, "")


def test_what_was_sent_for_one_that_was_removed_counts_nothing_for_its_namesake(followers):
    former = add(followers)
    followers.remove("desk")
    followers.add("desk", "trips", HTTP, place=0, now_us=6, private=False, retained=False, password="")
    followers.took(former, 40, 4, 100)
    assert (followers.find("desk").place, followers.find("desk").delivered) == (0, 0)


@pytest.mark.parametrize(
    ("name", "url", "code"),
    [
        ("Desk", HTTP, "follower-name"),
        ("desk", "ftp://example.org", "webhook-url"),
        ("desk", "mqtt://broker", "follower-mqtt"),
        ("desk", "mqtt://a:b@broker/t", "follower-mqtt"),
        ("desk", "mqtt://broker/t/#", "follower-mqtt"),
        ("desk", "mqtt://broker/t/+/x", "follower-mqtt"),
    ],
)
def test_a_bad_name_or_address_is_refused(followers, name, url, code):
    with pytest.raises(UsageError) as refused:
        add(followers, name, url)
    assert refused.value.code == code


def test_a_name_is_there_once_and_there_is_an_end(followers):
    for number in range(FOLLOWERS_MAX):
        add(followers, f"f{number}")
    with pytest.raises(UsageError, match="follower-name"):
        add(followers, "f7")
    with pytest.raises(UsageError, match="follower-many"):
        add(followers, "one-more")
    with pytest.raises(UsageError, match="follower-not-found"):
        followers.find("nobody")


def test_a_brokers_password_is_the_one_that_was_given_and_topics_have_no_signs_of_keys(followers):
    assert add(followers, url=MQTT, password="secret word").secret == "secret word"
    assert topic_of(MQTT, ("bus/7", 3, "a+#")) == "results/trips/bus_7/3/a__"
    assert topic_of(MQTT, ("",)) == "results/trips/_"
    assert topic_of(MQTT, ()) == "results/trips"


@pytest.mark.parametrize("scheme", ["mqtt", "mqtts"])
def test_a_broker_is_reached_at_the_address_that_was_checked_and_held_against_its_name(monkeypatch, scheme):
    """A name that leads elsewhere when it is asked again gains nothing."""
    reached, names = [], []

    def connect(client, host, *_: object, **_named: object) -> None:
        reached.append(host)
        if (context := client._ssl_context) is not None:
            near, far = socket.socketpair()
            with far, context.wrap_socket(near, server_hostname=host, do_handshake_on_connect=False) as channel:
                names.append((channel.server_hostname, context.check_hostname))
        raise OSError

    monkeypatch.setattr(mqtt.Client, "connect", connect)
    with pytest.raises(PeerError, match="could not be reached"):
        publish(f"{scheme}://localhost/t", [("t", b"x")], password="", retained=False, private=True)
    assert reached in (["127.0.0.1"], ["::1"])
    assert names == ([("localhost", True)] if scheme == "mqtts" else [])
