"""Alerts from rules on results: opened and closed by what the results say, told once, over restarts and corrections."""

from __future__ import annotations

import json

import pytest

from cloud_backend.coordinator import alerts as alerts_module
from cloud_backend.coordinator.alerts import Alerts
from cloud_backend.coordinator.result_rules import rule_of
from cloud_backend.dashboard import result_alerts as module
from cloud_backend.dashboard.result_alerts import check_against, hand_over, judge
from cloud_backend.results.rows import ResultRow
from cloud_backend.results.store import Results
from shared.errors import UsageError
from shared.wire.alerts import ALERT_SINK, BEGAN, OVER

MINUTE = 60_000_000


class World:
    """Results and alerts on disk, a roster of two phones, and a clock."""

    def __init__(self, path) -> None:
        self.phones = {"aa" * 16: "tram-1", "bb" * 16: "tram-2"}
        self.path = path
        self.epoch = 0
        self.now_us = 1_000_000_000_000
        self.roster = self
        self.open()

    def open(self) -> None:
        self.results = Results(self.path / "results.sqlite")
        self.alerts = Alerts(self.path / "alerts.sqlite")

    def restart(self) -> None:
        self.close()
        self.open()

    def close(self) -> None:
        self.results.close()
        self.alerts.close()

    def name(self, device: str) -> str:
        return self.phones.get(device, "")

    def clock_us(self) -> int:
        self.now_us += 1_000_000
        return self.now_us

    def say(self, minute: int, level: float, *, key: str = "aa" * 16, revision: int = 1, retract: bool = False) -> None:
        self.epoch += 1
        start = minute * MINUTE
        values = {"level": level}
        row = ResultRow("noise", "", (key,), start, start + MINUTE, revision, retract, True, values)
        self.results.publish(self.epoch, [row])

    def watch(self, *phones: str, condition: str = "level > 80", during: str = "3m", name: str = "noisy") -> None:
        rule = rule_of(name, "noise", condition, during=during, phones=phones)
        self.alerts.add_result_rule(rule, self.results.change())

    def look(self) -> list[tuple[str, str]]:
        """What began and ended at this look."""
        return [("began" if each.ended_us is None else "ended", each.detail) for each in judge(self)]

    def told(self, device: str) -> list[tuple[int, int, bool]]:
        """(alert, revision, is over) of what waits for a phone."""
        rows = [row for _, row in self.results.downlink(device, 0)]
        assert {row.sink for row in rows} <= {ALERT_SINK}
        return [(row.key[0], row.revision, row.values["over"]) for row in rows]


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path)
    yield made
    made.close()


NOISY = "noisy: level > 80 for 3m (tram-1)"


def test_an_alert_begins_and_ends_with_the_rows(world: World):
    world.watch()
    seen = []
    for minute, level in enumerate([85, 86, 87, 88, 70]):
        world.say(minute, level)
        seen.append(world.look())
    assert seen == [[], [], [("began", NOISY)], [], [("ended", NOISY)]]


def test_each_key_is_judged_by_itself(world: World):
    world.watch()
    for minute in range(3):
        world.say(minute, 90)
        world.say(minute, 90 if minute else 10, key="bb" * 16)
    assert world.look() == [("began", NOISY)]
    world.say(3, 90, key="bb" * 16)
    assert world.look() == [("began", "noisy: level > 80 for 3m (tram-2)")]
    assert len(world.alerts.alerts(only_open=True)) == 2


def test_a_correction_opens_and_closes_what_it_changes(world: World):
    world.watch()
    world.say(0, 90)
    world.say(1, 20)
    world.say(2, 90)
    assert world.look() == []
    world.say(1, 90, revision=2)  # a late reading
    assert world.look() == [("began", NOISY)]
    world.say(1, 20, revision=3)
    assert world.look() == [("ended", NOISY)]
    world.say(1, 90, revision=4)
    world.say(2, 90, revision=5, retract=True)  # a rollback took it back
    assert world.look() == []


def test_a_correction_that_changes_nothing_rings_nobody_again(world: World):
    world.watch("own")
    for minute in range(3):
        world.say(minute, 90)
    assert len(world.look()) == 1
    hand_over(world)
    for revision in (2, 3):
        world.say(1, 90 + revision, revision=revision)
        assert world.look() == []
    hand_over(world)
    assert world.told("aa" * 16) == [(1, BEGAN, False)]


@pytest.mark.parametrize("crash", ["before-judging", "before-handing-over", "while-handing-over"])
def test_one_opening_rings_once_whenever_the_gateway_is_killed(world: World, crash: str, monkeypatch):
    world.watch("own", "bb" * 16)
    for minute in range(3):
        world.say(minute, 90)
    if crash != "before-judging":
        assert world.look() == [("began", NOISY)]
    if crash == "while-handing-over":
        with monkeypatch.context() as patch:
            patch.setattr(world.alerts, "handed_over", _killed)
            with pytest.raises(KeyboardInterrupt):
                hand_over(world)
    world.restart()
    world.look()
    assert hand_over(world) == set(world.phones)
    for _ in range(3):
        world.restart()
        assert world.look() == []
        assert hand_over(world) == set()
    assert [world.told(device) for device in world.phones] == [[(1, BEGAN, False)]] * 2
    world.say(3, 10)
    world.look()
    assert hand_over(world) == set(world.phones)
    assert world.told("aa" * 16) == [(1, BEGAN, False), (1, OVER, True)]


def _killed(_rings) -> None:
    raise KeyboardInterrupt


def test_other_alerts_do_not_end_those_of_results_nor_the_other_way_round(world: World):
    world.watch()
    for minute in range(3):
        world.say(minute, 90)
    world.look()
    gap = alerts_module.Condition("gap", "aa", "not heard")
    assert [each.kind for each in world.alerts.update([gap], world.clock_us())] == ["gap"]
    world.say(4, 10, key="cc")
    assert world.look() == []
    assert {each.kind for each in world.alerts.alerts(only_open=True)} == {"gap", "result"}


def test_webhooks_hear_of_it_as_of_any_alert(world: World):
    world.alerts.add_webhook("https://example.org/hook", world.clock_us())
    world.watch(during="")
    world.say(0, 90)
    world.look()
    (message,) = world.alerts.due(world.clock_us())
    body = json.loads(message.body)
    assert (body["event"], body["kind"], body["detail"]) == ("alert-began", "result", "noisy: level > 80 (tram-1)")


def test_removing_a_rule_ends_what_it_opened_and_says_so_to_phones(world: World):
    world.watch("own", during="")
    world.say(0, 90)
    world.look()
    assert [each.ended_us is not None for each in world.alerts.remove_result_rule("noisy", world.clock_us())] == [True]
    hand_over(world)
    assert world.told("aa" * 16) == [(1, BEGAN, False), (1, OVER, True)]
    world.say(1, 90)
    assert world.look() == []
    with pytest.raises(UsageError) as refused:
        world.alerts.remove_result_rule("noisy", world.clock_us())
    assert refused.value.code == "alert-not-found"


def test_rows_from_before_a_rule_count_with_the_next_row_of_their_key(world: World):
    for minute in range(3):
        world.say(minute, 90)
    world.watch()
    assert world.look() == []
    world.say(3, 90)
    assert world.look() == [("began", NOISY)]


def test_a_look_costs_what_changed_whatever_there_is(world: World, monkeypatch):
    for key in range(300):
        world.say(0, 10, key=f"key {key}")
    world.watch(during="")
    asked = []
    of_key = world.results.of_key
    monkeypatch.setattr(world.results, "of_key", lambda *a, **k: asked.append(a) or of_key(*a, **k))
    world.say(1, 90, key="key 7")
    assert len(world.look()) == 1
    assert len(asked) == 1
    assert world.look() == []
    assert len(asked) == 1


def test_of_very_many_keys_a_number_is_said(world: World, monkeypatch):
    monkeypatch.setattr(alerts_module, "HOLDING_SHOWN", 2)
    world.watch("own", during="")
    for key in range(4):
        world.say(0, 90, key=f"key {key}")
    began = world.look()
    assert len(began) == 3
    assert began[-1] == ("began", "noisy holds for more than 2 keys")


def test_results_that_were_made_anew_are_followed_from_their_beginning(world: World):
    world.watch(during="")
    world.say(0, 90, key="x")
    world.say(0, 90, key="y")
    world.look()
    world.results.close()
    for path in world.path.glob("results.sqlite*"):
        path.unlink()
    world.results = Results(world.path / "results.sqlite")
    world.say(1, 10, key="x")
    assert [each[0] for each in world.look()] == ["ended"]


def test_what_holds_ends_at_a_review_when_its_rows_are_gone(world: World):
    world.watch(during="")
    world.say(0, 90)
    world.look()
    world.results.forget_sink("noise")
    assert world.look() == []
    assert [each.ended_us is not None for each in judge(world, review=True)] == [True]


def test_what_waits_for_a_phone_that_is_away_is_bounded(world: World, monkeypatch):
    monkeypatch.setattr("cloud_backend.results.store.TOLD_MAX", 5)
    world.watch("own", during="")
    for minute in range(10):
        world.say(minute, 90 if minute % 2 else 10)
        world.look()
        hand_over(world)
    assert [seq for seq, _ in world.results.downlink("aa" * 16, 0)] == [5, 6, 7, 8, 9]


def test_a_rule_on_what_nobody_says_is_refused(world: World):
    world.queries = world
    world.all = list
    world.say(0, 90)
    for sink, column, code in (("nowhere", "level", "alert-query"), ("noise", "lvl", "alert-column")):
        with pytest.raises(UsageError) as refused:
            check_against(world, rule_of("noisy", sink, f"{column} > 80"))
        assert refused.value.code == code
    check_against(world, rule_of("noisy", "noise", "level > 80"))


def test_a_look_ends_in_time_and_the_next_goes_on(world: World, monkeypatch):
    monkeypatch.setattr(module, "CHANGES", 1)
    monkeypatch.setattr(module, "SECONDS_MAX", -1.0)
    world.watch(during="")
    world.say(0, 90, key="x")
    world.say(0, 90, key="y")
    assert [len(world.look()) for _ in range(3)] == [1, 1, 0]
