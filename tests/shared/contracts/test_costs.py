"""Choosing a strategy for a contract: the cheapest row that qualifies, its `every`, or a refusal that says what lacks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

import resurge as rs
from resurge import col
from shared.contracts.costs import EVERY, Choice, Host, Load, choose, expected_loss, guess, of_lone_device, recovery_s
from shared.contracts.promises import check_kept, contract_lines, of_fleet
from shared.errors import UsageError
from shared.plan.contracts import LOSSLESS, Contract
from shared.plan.graph import Plan
from shared.recovery.strategies import STRATEGIES
from shared.recovery.strategies.costs import VertexLoad
from shared.recovery.strategies.row import Home, Include, Keep

LOAD = Load(VertexLoad(state_bytes=100_000, outputs=(80.0,), source_bytes=80.0), per_s=30.0, element_bytes=80.0)
PHONES = tuple(Host(f"phone {number}", region="bus") for number in range(4))
MINUTE_US = 60_000_000


@rs.operator("rarely_gives", takes={"v": "float64"}, gives={"v": "float64"}, most_per_second=5)
def _rarely(v: float) -> float:
    return v


def plan_with(contract: Contract = LOSSLESS, *, within: str = "1m") -> Plan:
    return rs.plan_of(rs.sensor("gps", every="1s").sync("up", contract=contract, within=within))


def chosen(contract: Contract, hosts: tuple[Host, ...] = PHONES, load: Load = LOAD, plan: Plan | None = None) -> Choice:
    return choose(contract, plan or plan_with(), {"one": load}, hosts)


def qualifies(name: str, contract: Contract, hosts: tuple[Host, ...], load: Load = LOAD) -> bool:
    return choose(contract, plan_with(), {"one": load}, hosts, rows=[STRATEGIES[name].row]).row is not None


def test_a_lossless_contract_never_gets_a_row_that_loses() -> None:
    for hosts in (PHONES, PHONES[:2], PHONES[:1]):
        choice = chosen(LOSSLESS, hosts)
        assert choice.row is not None
        assert choice.row.include is not Include.NOTHING or choice.row.copies > 1
        assert expected_loss(choice.row, LOAD, hosts) == 0.0


def test_the_choice_is_the_cheapest_of_all_that_qualify() -> None:
    bare = tuple(replace(host, returns=False) for host in PHONES)  # what is on their disks goes with them
    for contract in (LOSSLESS, Contract(delay_us_max=2 * MINUTE_US), Contract(kept_min=0.9), Contract(kept_min=0.2)):
        for hosts in (PHONES, bare, bare[:2]):
            choice = chosen(contract, hosts)
            assert choice.row is not None
            each = {
                name: choose(contract, plan_with(), {"one": LOAD}, hosts, rows=[strategy.row])
                for name, strategy in STRATEGIES.items()
                if strategy.row.home is not Home.STORE
            }
            least = min((c.bytes_per_element, c.memory_bytes) for c in each.values() if c.row is not None)
            assert (choice.bytes_per_element, choice.memory_bytes) == least
    assert chosen(LOSSLESS, bare).row is not None
    assert chosen(LOSSLESS, bare).row.home is not Home.LOCAL  # type: ignore[union-attr]


def test_a_node_alone_that_does_not_return_cannot_be_lossless() -> None:
    alone = (Host("phone", returns=False),)
    choice = chosen(LOSSLESS, alone)
    assert choice.row is None
    assert "the nearest is local, which lacks: it may lose" in choice.refused
    assert "0.00% is allowed" in choice.refused


@pytest.mark.parametrize(
    ("name", "hosts", "words"),
    [
        ("ecoc", PHONES[:1], "1 other nodes to keep snapshots on, there are 0"),
        ("dist-3", PHONES[:3], "3 other nodes to keep snapshots on, there are 2"),
        ("rep-2", PHONES[:1], "2 nodes to run copies on, there are 1"),
        ("token", tuple(replace(host, region="") for host in PHONES), "a region that all its nodes are in"),
    ],
)
def test_a_row_is_refused_by_the_name_of_what_it_lacks(name: str, hosts: tuple[Host, ...], words: str) -> None:
    choice = choose(LOSSLESS, plan_with(), {"one": LOAD}, hosts, rows=[STRATEGIES[name].row])
    assert choice.row is None
    assert f"the nearest is {name}, which lacks: {words}" in choice.refused
    assert qualifies(name, LOSSLESS, PHONES)


def test_a_cycle_needs_a_row_that_extends() -> None:
    loop = rs.feedback("loop", {"lat": "float64"})
    both = rs.sensor("gps", every="5s").select("lat").union(loop, merge="logged")
    both.where(col.lat > 90).feed(loop)
    cyclic = rs.plan_of(both)
    without, extending = (
        choose(LOSSLESS, cyclic, {"one": LOAD}, PHONES, rows=[STRATEGIES[name].row])
        for name in ("ecoc", "extended-ecoc")
    )
    assert "an extension, which edges that form a cycle need" in without.refused
    assert extending.row is not None


def test_what_varies_when_it_runs_again_is_refused_unless_a_region_goes_back_or_wrong_ones_are_allowed() -> None:
    places = rs.sensor("gps", every="5s").select("lat")
    varying = rs.plan_of(places.union(rs.sensor("light", every="5s").select(lat=col.lux), merge="arrival").sync("up"))
    check_kept(varying)  # a phone alone reads its sensors on, and runs nothing again
    ecoc, token = (STRATEGIES[name].row for name in ("ecoc", "token"))
    assert (
        "the same rows when 'union' runs again" in choose(LOSSLESS, varying, {"v": LOAD}, PHONES, rows=[ecoc]).refused
    )
    assert choose(LOSSLESS, varying, {"v": LOAD}, PHONES, rows=[token]).row is token
    assert choose(Contract(1.0, 0.1), varying, {"v": LOAD}, PHONES, rows=[ecoc]).row is ecoc


def test_every_is_the_largest_that_the_delay_and_the_spool_allow() -> None:
    row = STRATEGIES["ecoc"].row
    for delay_s in (7, 10, 30, 300):
        contract = Contract(delay_us_max=delay_s * 1_000_000)
        choice = choose(contract, plan_with(), {"one": LOAD}, PHONES, rows=[row])
        assert choice.row is row
        assert recovery_s(row, LOAD, choice.every, PHONES) <= delay_s
        larger = [every for every in EVERY if every > choice.every]
        fits = [every for every in larger if recovery_s(row, LOAD, every, PHONES) <= delay_s]
        assert all(every * LOAD.element_bytes > PHONES[0].spool_bytes for every in fits)
    small = tuple(replace(host, spool_bytes=80_000) for host in PHONES)
    load = replace(LOAD, outage_s=10.0)
    assert choose(LOSSLESS, plan_with(), {"one": load}, small, rows=[row]).every == 1000
    too_short = choose(Contract(delay_us_max=1_000_000), plan_with(), {"one": LOAD}, PHONES)
    assert too_short.row is None
    assert "1s is allowed" in too_short.refused


def test_an_outage_longer_than_the_spool_lasts_is_expected_to_lose() -> None:
    small = (replace(PHONES[0], spool_bytes=80_000),)
    assert expected_loss(STRATEGIES["local"].row, LOAD, small) == pytest.approx((3 * 3600 * 30 - 1000) / (86400 * 30))
    assert chosen(LOSSLESS, small).row is None


def test_a_lone_device_keeps_until_receipt_or_as_much_as_fits() -> None:
    plan = plan_with()
    (edge,) = plan.edges
    lossless = of_lone_device(plan, edge)
    limited = of_lone_device(plan, replace(edge, contract=Contract(kept_min=0.95)))
    assert lossless.row is not None
    assert lossless.row.keep is Keep.RECEIPT
    assert limited.row is not None
    assert limited.row.keep is Keep.RING
    assert guess(plan, edge).per_s == 1.0


@pytest.mark.parametrize(
    ("stream", "per_s"),
    [
        (lambda fast: fast, 200.0),
        (lambda fast: fast.where(col.v > 1), 200.0),
        (lambda fast: fast.tumbling("10s").aggregate(v=rs.mean("v")), 0.1),
        (lambda fast: fast.hopping("10s", every="1s").aggregate(v=rs.mean("v")), 1.0),
        (
            lambda fast: (
                fast.select(room=col.v.cast("int64")).key_by("device", "room").tumbling("10s").aggregate(n=rs.count())
            ),
            200.0,
        ),
        (lambda fast: fast.tumbling(count=50).aggregate(v=rs.mean("v")), 4.0),
        (lambda fast: fast.apply("rarely_gives"), 5.0),
        (lambda fast: fast.union(fast.where(col.v > 1)), 400.0),
    ],
)
def test_what_comes_to_an_edge_is_guessed_from_what_stands_before_it(
    stream: Callable[[rs.Stream], rs.Stream], per_s: float
) -> None:
    plan = rs.plan_of(stream(rs.sensor("fast", every="5ms", columns={"v": "float64"})).sync("up"))
    assert guess(plan, plan.edges[0]).per_s == pytest.approx(per_s)


def test_a_rate_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="more than 0"):
        rs.operator("never_gives", takes={"v": "float64"}, gives={"v": "float64"}, most_per_second=0)


def test_a_program_is_told_what_was_picked_and_why() -> None:
    first, second = contract_lines(plan_with(Contract(delay_us_max=10 * MINUTE_US)))
    assert first == "up: lossless within 10m (LOLE, LIDE(10m), IASO)"
    assert second.startswith("    local, a snapshot at least every ")
    assert second.endswith("of 10m allowed")
    check_kept(plan_with())


def test_a_delay_shorter_than_a_batch_may_wait_is_refused_by_name() -> None:
    plan = plan_with(Contract(delay_us_max=MINUTE_US // 2))
    with pytest.raises(
        UsageError, match=r"sync 'up' promises what cannot be kept: .* local, which lacks: waiting in a"
    ):
        check_kept(plan)
    assert "refused: no strategy keeps it; the nearest is local" in contract_lines(plan)[1]
    check_kept(plan_with(Contract(delay_us_max=MINUTE_US // 2), within="5s"))


def test_a_fleets_strategy_keeps_the_strictest_of_what_its_gathers_promise() -> None:
    def plan(*contracts: Contract) -> Plan:
        streams = [
            rs.sensor(f"s{place}", every="1s", columns={"v": "float64"}).gather(f"s{place}", within="2s", contract=each)
            for place, each in enumerate(contracts)
        ]
        return rs.plan_of(*(each.subscribe(f"out{place}") for place, each in enumerate(streams)))

    loose, strict = rs.limited_loss(0.5), rs.lossless(delay="30s")
    alone, both = of_fleet(plan(loose)), of_fleet(plan(loose, strict))
    assert alone.row is not None
    assert both.row is not None
    assert alone.row.include is Include.NOTHING
    assert both.row.include is Include.STATE
    assert both.row == of_fleet(plan(strict)).row
    assert of_fleet(plan(loose, rs.lossless(delay="3s"))).row is None


@pytest.mark.parametrize("name", ["beats", "average", "one_attenuated", "both_attenuated"])
def test_the_examples_for_several_nodes_have_a_strategy_that_keeps_them(name: str) -> None:
    choice = of_fleet(rs.load_program(f"resurge/examples/peers/{name}.py"))
    assert choice.row is not None, choice.refused
    assert choice.row.include is Include.STATE
