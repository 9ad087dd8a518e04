"""Results that are sent on: every answer at least once and in order, whatever the receiver does."""

from __future__ import annotations

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from cloud_backend.coordinator.followers import FILE, Followers
from cloud_backend.coordinator.webhooks import signature
from cloud_backend.dashboard import following
from cloud_backend.results.rows import ResultRow


class Receiver:
    """Takes bodies over HTTP; the next ones are answered with what `answers` says, and then with 200."""

    def __init__(self) -> None:
        self.bodies: list[tuple[dict[str, str], bytes]] = []
        self.answers: list[int] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.bodies.append(({name.lower(): value for name, value in self.headers.items()}, body))
                self.send_response(receiver.answers.pop(0) if receiver.answers else 200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Nothing on the terminal."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/rows"

    def rows(self) -> list[dict]:
        return [row for _, body in self.bodies for row in json.loads(body)["rows"]]

    def latest(self) -> dict[str, dict]:
        """As a receiver keeps them: the highest revision of each identity."""
        kept: dict[str, dict] = {}
        for row in self.rows():
            if row["id"] not in kept or row["revision"] >= kept[row["id"]]["revision"]:
                kept[row["id"]] = row
        return kept


@pytest.fixture
def receiver():
    receiver = Receiver()
    yield receiver
    receiver.server.shutdown()
    receiver.server.server_close()


def row(number: int, *, sink: str = "km", revision: int = 1, retract: bool = False, km: float = 1.0) -> ResultRow:
    return ResultRow(sink, "", (f"d{number}",), 0, 60_000_000, revision, retract, complete=True, values={"km": km})


@pytest.fixture
def sources(dashboard):
    return dashboard.app.state.sources


def follow(sources, url: str, sink: str = "km"):
    sources.followers.add(
        "desk", sink, url, place=sources.results.change(), now_us=1, private=True, retained=False, password=""
    )  # fmt: skip


def run(sources) -> None:
    for each in following.due(sources):
        following.keep_up(sources, each.name)


def test_every_answer_of_the_sink_arrives_signed_and_with_its_identity(sources, receiver):
    follow(sources, receiver.url)
    sources.results.publish(900, [row(1), row(2, km=float("nan")), row(3, sink="other")])
    run(sources)
    [(headers, body)] = receiver.bodies
    assert headers["idempotency-key"] == hashlib.sha256(body).hexdigest()
    stamp = int(headers["x-resurge-signature"].partition(",")[0].removeprefix("t="))
    secret = sources.followers.find("desk").secret
    assert headers["x-resurge-signature"] == signature(body, secret=secret, now_s=stamp)
    assert json.loads(body)["sink"] == "km"
    assert [(each["key"], each["revision"], each["values"]) for each in receiver.rows()] == [
        (["d1"], 1, {"km": 1.0}), (["d2"], 1, {"km": None}),
    ]  # fmt: skip
    assert following.due(sources) == []
    sources.results.publish(901, [row(1, revision=2, km=5.0), row(2, revision=2, retract=True)])
    run(sources)
    latest = {each["key"][0]: (each["revision"], each["retract"]) for each in receiver.latest().values()}
    assert latest == {"d1": (2, False), "d2": (2, True)}
    assert len({each["id"] for each in receiver.rows()}) == 2


def test_a_receiver_that_fails_gets_everything_later_and_its_state_says_why_meanwhile(sources, receiver, dashboard):
    follow(sources, receiver.url)
    receiver.answers = [500, 503, 500]
    sources.results.publish(900, [row(number) for number in range(3 * following.STEP)])
    clock = [sources.clock_us()]
    object.__setattr__(sources, "clock_us", lambda: clock[0])
    for tries in range(3):
        run(sources)
        assert len(receiver.bodies) == tries + 1
        run(sources)  # too early to be tried again
        assert len(receiver.bodies) == tries + 1
        clock[0] += 10_000_000
    (shown,) = dashboard.browser("viewer").get("/v1/api/followers").json()["followers"]
    assert (shown["state"], shown["problem"], shown["failures"]) == ("failing", "the receiver answered 500", 3)
    assert shown["url"] == "http"  # a viewer does not see addresses
    page = dashboard.browser("admin").get("/results").text
    assert "failing since" in page
    assert receiver.url in page
    assert "desk has taken no results of km" in dashboard.browser("viewer").get("/").text
    run(sources)
    assert len(receiver.latest()) == 3 * following.STEP
    assert len({body for _, body in receiver.bodies[:4]}) == 1  # the same body, and the same key, until it was taken
    (shown,) = dashboard.browser("viewer").get("/v1/api/followers").json()["followers"]
    assert (shown["state"], shown["delivered"], shown["problem"]) == ("level", 3 * following.STEP, "")


def test_what_was_taken_before_a_kill_that_was_not_kept_comes_again_and_counts_once(sources, receiver, monkeypatch):
    follow(sources, receiver.url)
    sources.results.publish(900, [row(number) for number in range(5)])

    class Killed(BaseException):
        """As by a signal: nothing after it runs."""

    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(type(sources.followers), "took", killed)
        with pytest.raises(Killed):
            run(sources)
    run(sources)
    assert len(receiver.rows()) == 10
    assert len(receiver.latest()) == 5


def test_what_another_gateway_sends_is_not_sent_here_and_once_that_one_ends_it_is(sources, receiver):
    follow(sources, receiver.url)
    sources.results.publish(900, [row(1)])
    other = Followers(sources.home / FILE)
    other._holder = "another gateway"
    assert other.hold("desk", sources.clock_us()) is not None
    run(sources)
    assert receiver.bodies == []
    other.close()
    run(sources)
    assert len(receiver.rows()) == 1


def test_results_that_were_made_anew_are_sent_from_their_beginning(sources, receiver):
    follow(sources, receiver.url)
    follower = sources.followers.find("desk")
    sources.followers.hold("desk", sources.clock_us())
    sources.followers.took(follower, 10_000, 0, sources.clock_us())
    sources.results.publish(900, [row(1)])
    run(sources)
    assert len(receiver.rows()) == 1


def test_a_receiver_that_fails_when_results_were_made_anew_misses_none_once_they_are_as_many_again(sources, receiver):
    follow(sources, receiver.url)
    sources.followers.took(sources.followers.hold("desk", sources.clock_us()), 10_000, 0, sources.clock_us())
    sources.results.publish(900, [row(1)])
    receiver.answers = [500]
    run(sources)
    assert sources.followers.find("desk").place == 0


def test_answers_that_were_removed_before_they_were_sent_leave_nobody_behind(sources, receiver):
    follow(sources, receiver.url)
    sources.results.publish(900, [row(1)])
    sources.results.forget_sink("km")
    run(sources)
    assert receiver.bodies == []
    assert following.due(sources) == []


def test_who_is_removed_while_it_is_sent_something_gets_nothing_more(sources, receiver, monkeypatch):
    follow(sources, receiver.url)
    sources.results.publish(900, [row(number) for number in range(3 * following.STEP)])
    send = following.send

    def removed_meanwhile(*given, **named) -> None:
        send(*given, **named)
        sources.followers.remove("desk")

    monkeypatch.setattr(following, "send", removed_meanwhile)
    run(sources)
    assert len(receiver.bodies) == 1


def test_a_receiver_in_a_private_network_is_only_reached_where_that_was_said(sources, receiver):
    sources.followers.add("desk", "km", receiver.url, place=0, now_us=1, private=False, retained=False, password="")
    sources.results.publish(900, [row(1)])
    run(sources)
    assert receiver.bodies == []
    assert "private network" in sources.followers.find("desk").problem
