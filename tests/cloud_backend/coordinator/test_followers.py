"""Who is sent results: the place that is kept, and when somebody who fails is tried again."""

from __future__ import annotations

import socket

import pytest
from paho.mqtt import client as mqtt

from cloud_backend.coordinator.followers import FILE, FOLLOWERS_MAX, HOLD_US, RETRY_US_MAX, Followers
from cloud_backend.coordinator.mqtt_broker import publish, topic_of
from cloud_backend.database import URL_FILE
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
    followers.hold("desk", 90)
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
        followers.failed(followers.hold("desk", now_us), "the receiver answered 500", now_us)
        waits.append(followers.find("desk").retry_us - now_us)
    found = followers.find("desk")
    assert waits[:4] == [1_000_000, 2_000_000, 4_000_000, 8_000_000]
    assert waits[-1] == RETRY_US_MAX
    assert (found.place, found.failures, found.failing_us, found.problem) == (0, 12, 0, "the receiver answered 500")
    followers.hold("desk", 99)
    followers.took(desk, 3, 1, 99)
    found = followers.find("desk")
    assert (found.place, found.failures, found.failing_us, found.retry_us, found.problem) == (3, 0, None, 0, "")


def test_what_was_sent_for_one_that_was_removed_counts_nothing_for_its_namesake(followers):
    former = add(followers)
    followers.remove("desk")
    followers.add("desk", "trips", HTTP, place=0, now_us=6, private=False, retained=False, password="")
    assert followers.hold("desk", 99) is not None
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


@pytest.fixture
def gateways(where):
    """The followers as two gateways on one database have them."""
    both = Followers(where(FILE)), Followers(where(FILE))
    for number, each in enumerate(both):
        each._holder = str(number)  # as on a server; a file is one gateway's
    yield both
    for each in both:
        each.close()


def test_of_two_gateways_one_sends_to_a_follower_until_it_is_silent_for_long(gateways):
    first, second = gateways
    add(first)
    desk = first.hold("desk", 1_000)
    assert desk.place == 0
    assert second.hold("desk", 2_000) is None
    assert first.took(desk, 9, 2, 5_000_000)  # and holds it again
    assert second.hold("desk", 1_000 + HOLD_US) is None
    assert second.hold("desk", 5_000_000 + HOLD_US).place == 9  # from there, not from where the other began
    assert not first.took(desk, 5, 1, 5_000_001 + HOLD_US)  # it was paused meanwhile
    first.failed(desk, "the webhook could not be reached", 5_000_001 + HOLD_US)
    assert (second.find("desk").failures, second.find("desk").retry_us) == (0, 0)
    assert (second.find("desk").place, second.find("desk").delivered) == (9, 2)
    assert first.hold("desk", 5_000_001 + HOLD_US) is None


def test_a_gateway_that_ends_lets_go_of_its_followers_and_a_removed_one_is_held_by_nobody(gateways, where):
    first, second = gateways
    add(first)
    assert first.hold("desk", 1_000) is not None
    leaving = Followers(where(FILE))
    leaving._holder = first._holder
    leaving.close()
    assert second.hold("desk", 1_001) is not None
    first.remove("desk")
    assert second.hold("desk", 1_002) is None
    add(first)
    assert first.hold("desk", 1_003) is not None


def test_followers_of_a_home_go_to_the_database_that_it_shares_once(tmp_path, where, monkeypatch):
    for name in ("in_home", "located"):  # the results are in the same database
        monkeypatch.setattr(f"cloud_backend.coordinator.followers.{name}", lambda *_: where("shared.sqlite"))
    monkeypatch.setattr("cloud_backend.coordinator.followers.Served", type(where("shared.sqlite")))
    for gateway, place in (("a", 4), ("b", 9)):
        home = tmp_path / gateway
        home.mkdir()
        own = Followers(home / FILE)
        own.add(
            "desk",
            "trips",
            f"https://{gateway}.example.org",
            place=place,
            now_us=5,
            private=False,
            retained=False,
            password="",
        )
        kept = (home / FILE).read_bytes()
        own.close()
        Followers.of_home(home, "shared").close()
        assert not (home / FILE).exists()
        (home / FILE).write_bytes(kept)  # as if it had been killed before it was moved away
        Followers.of_home(home, "shared").close()
    shared = Followers(where("shared.sqlite"))
    assert {(each.name, each.url, each.place) for each in shared.all()} == {
        ("desk", "https://a.example.org", 4), ("desk-2", "https://b.example.org", 9),
    }  # fmt: skip
    shared.close()


@pytest.mark.parametrize("results", [None, "results.sqlite", "postgresql://db.example.org/others"])
def test_followers_of_results_that_are_a_gateways_own_stay_in_its_home(tmp_path, results):
    """Their places are changes of those results: of another gateway's they would leave out or repeat answers."""
    (tmp_path / URL_FILE).write_text("postgresql://db.example.org/town\n")
    own = Followers.of_home(tmp_path, results)
    add(own, place=7)
    own.close()
    again = Followers(tmp_path / FILE)
    assert [each.place for each in again.all()] == [7]
    again.close()
