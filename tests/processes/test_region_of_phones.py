"""One region of eight phones as processes, on Wi-Fi and cellular as slow as the paper's, where those can be made."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from mobile_app.node.hosting import REPORT_S
from resurge.up.process_fleet import COORDINATOR, PHONE
from shared.hosting.copies import PREFIX
from shared.hosting.keeper import Keeper, cut_of
from shared.hosting.presence import PING_S, PING_TIMEOUT_S
from shared.recovery.strategies import STRATEGIES
from shared.spool.disk import PosixDisk
from tests.claims import Claim
from tests.patience import SPARK_PATIENCE_S, let_pass, wait_until
from tests.processes.fleets import Program, digest, ideal
from tests.processes.region_fleets import Air, Loopback, RegionOfPhones, air

pytestmark = [pytest.mark.processes, pytest.mark.soak]
PHONES, THRESHOLD = 8, 4
ROWS, EVERY_US = 90_000, 5_000
LOSS = 0.1  # of the datagrams, at each phone
PROBES = 10  # datagrams with which a phone finds out how others are reached
RECOVERED_S = 10.0  # on a machine that has nothing else to do; nine processes share it with whatever else there is
PROGRAM = Program(
    "watched",
    "\n".join(
        [
            "import resurge as rs",
            'near = rs.sensor("count", every="5ms", columns={"v": "float64"}).gather("count", batch=300, within="2s")',
            'lows = near.sliding(count=2000).aggregate(v=rs.min("v"), m=rs.mean("v"))',
            'means = lows.sliding(count=1500).aggregate(v=rs.min("v"), m=rs.mean("m"), s=rs.sum("m"))',
            'means.sliding(count=1000).aggregate(v=rs.min("v"), m=rs.mean("m"), s=rs.max("s")).subscribe("out")',
        ]
    ),
    {"count": "v"},
    {"out": ("v", "m", "s")},
    (),
    every_us=EVERY_US,
    readings=2,
)


def running(folder: Path, network: Air | Loopback, strategy: str) -> RegionOfPhones:
    fleet = RegionOfPhones(folder, PROGRAM, network, phones=PHONES, strategy=strategy, rows=ROWS, threshold=THRESHOLD)
    fleet.start()
    return fleet


def settled(fleet: RegionOfPhones) -> float:
    """All are members, there are results, and there is something to go back to on every one of them. Returns how long no
    result came meanwhile, at most."""
    wait_until(lambda: fleet.members() == PHONES, "eight members", patience_s=SPARK_PATIENCE_S)
    fleet.wait_for(100, "first results")
    at, count = fleet.cut(), fleet.count()
    if goes_back_together(fleet):
        return fleet.longest_pause_s(lambda: fleet.cut() > at, "a cut that all members keep")
    return fleet.longest_pause_s(lambda: fleet.count() > count + 2400, "two snapshots of every vertex")


def goes_back_together(fleet: RegionOfPhones) -> bool:
    query = fleet.query()
    assert query is not None
    return STRATEGIES[query.row].row.of_region


def on_the_air(fleet: RegionOfPhones) -> str:
    """Snapshots that were broadcast between namespaces: every phone took some of it. Rows that enter this region are so
    few bytes that they go in exchanges."""
    if not isinstance(fleet.network, Air):
        return "none is counted here"
    counted = {name: fleet.network.broadcasts(name) for name in fleet.network.phones}
    assert all(taken > PROBES for _, taken in counted.values()), counted
    assert any(counted[name][0] > PROBES for name in fleet.hosting()), f"snapshots: {counted}"
    assert fleet.network.lost()
    return (
        f"{sum(sent for sent, _ in counted.values())} datagrams broadcast and "
        f"{sum(taken for _, taken in counted.values())} taken from the air; {fleet.network.lost()} of all were not heard"
    )


def compared(fleet: RegionOfPhones, claim: Claim, what: str) -> None:
    found = fleet.results()
    same = ideal(fleet.program, fleet.path, ROWS, found)
    (mine,), (theirs,) = map(digest, found.values()), map(digest, same.values())
    claim(f"{fleet.network.kind}: {what}; {len(found['out'])} rows compared, digests {mine} = {theirs}")
    assert found["out"]
    assert mine == theirs


@pytest.mark.covers("MS-6", "MS-9", "MS-16", "MS-18", "MS-19", "MS-24", "MS-26")
@pytest.mark.parametrize("strategy", ["token", "ecoc-region"])
def test_half_of_a_region_is_killed_at_once_and_the_results_are_the_same(
    strategy: str, tmp_path: Path, claim: Claim
) -> None:
    names = [COORDINATOR, PHONE, *(f"hub{number}" for number in range(1, PHONES))]
    with air(names, tmp_path, LOSS) as network:
        fleet = running(tmp_path, network, strategy)
        try:
            before_s = settled(fleet)
            heard = on_the_air(fleet)
            hosts = fleet.hosting()
            gone = [*hosts, *(name for name in names[2:] if name not in hosts)][: PHONES // 2]
            until = fleet.count() + 2500
            for name in gone:
                fleet.processes[name].kill()
            for name in gone:
                fleet.kill(name)
            pause_s = fleet.longest_pause_s(lambda: fleet.count() > until, f"results after killing {gone}")
            busy = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
            wait_until(lambda: not {*gone} & {*fleet.placed().values()}, "none of them runs a vertex")
            if goes_back_together(fleet):
                at = fleet.cut()
                wait_until(lambda: fleet.cut() > at, "a cut of those who are left", patience_s=SPARK_PATIENCE_S)
        except AssertionError:
            print(fleet.logs())
            raise
        finally:
            fleet.stop()
    compared(
        fleet, claim,
        f"{strategy}, {len(gone)} of {PHONES} phones killed, {len(hosts)} of which ran vertices: {pause_s:.1f} s without "
        f"results with {busy:.1f} processes for each processor, {before_s:.1f} s while snapshots were taken; {heard}",
    )  # fmt: skip
    assert hosts
    assert pause_s <= RECOVERED_S * busy


@pytest.mark.covers("MS-31", "MS-33")
def test_three_phones_lose_the_wifi_at_once_go_on_over_cellular_and_hand_over(tmp_path: Path, claim: Claim) -> None:
    names = [COORDINATOR, PHONE, *(f"hub{number}" for number in range(1, PHONES))]
    with air(names, tmp_path, LOSS) as network:
        if not isinstance(network, Air):
            claim(f"{network.kind}: no Wi-Fi to lose")
            return
        fleet = running(tmp_path, network, "token")
        try:
            settled(fleet)
            hosts, began = fleet.hosting(), fleet.terms()
            gone = [*hosts, *(name for name in names[2:] if name not in hosts)][:3]
            until = fleet.count() + 3500
            for name in gone:
                network.lose_wifi(name)
            pause_s = fleet.longest_pause_s(lambda: fleet.count() > until, f"results without the Wi-Fi of {gone}")
            wait_until(
                lambda: not {*gone} & {*fleet.placed().values()}, "all is handed over", patience_s=SPARK_PATIENCE_S
            )
            terms, passed = fleet.terms(), fleet.shown()["passed"]
        except AssertionError:
            print(fleet.logs())
            raise
        finally:
            fleet.stop()
    compared(
        fleet, claim,
        f"3 of {PHONES} phones lost the Wi-Fi, {len(hosts)} of which ran vertices: {passed} exchanges over cellular by way of "
        f"the coordinator, {pause_s:.1f} s without results, terms {began} to {terms}",
    )  # fmt: skip
    assert hosts
    assert passed
    stayed = {vertex for vertex, host in fleet.placed().items()} & {v for v, term in terms.items() if term == began[v]}
    assert stayed or len(gone) >= len(began), "nobody goes back"


SMALL_PHONES = 4
SILENT_S = PING_S + PING_TIMEOUT_S
TRIES, STANDS_STILL_S = 30, 1.0  # to find a cut under way, and how long it then is without one of its phones


def parts(fleet: RegionOfPhones, name: str) -> dict[int, set[str]]:
    """By cut, the vertices of which a phone has its part on its disk."""
    found: dict[int, set[str]] = {}
    for part in Keeper(PosixDisk(fleet.folder / name / "fleet")).cuts():
        found.setdefault(cut_of(part), set()).add(part.vertex)
    return found


def copied(fleet: RegionOfPhones, name: str) -> tuple[set[str], set[int]]:
    """The edges of which a phone has the rows on its disk, and the cuts behind whose marks they stand."""
    files = [each.name for each in (fleet.folder / name / "fleet").iterdir() if each.name.startswith(PREFIX)]
    ends = [each.removeprefix(PREFIX).rpartition("-") for each in files]
    return {edge for edge, _, _ in ends}, {int(cut, 16) for _, _, cut in ends}


def under_way(fleet: RegionOfPhones) -> int:
    """The cut that has begun and is not complete."""
    query = fleet.query()
    return 0 if query is None or query.cuts.begun <= query.cuts.complete else query.cuts.begun


def stopped_in_a_cut(fleet: RegionOfPhones) -> tuple[str, int]:
    """A phone that runs a vertex stands still while a cut is under way, which therefore cannot end; its name, and the
    cut. Where the cut was quicker it runs on, and is stopped in a later one."""
    for _ in range(TRIES):
        begun = wait_until(lambda: under_way(fleet), "a cut begins", patience_s=SPARK_PATIENCE_S)
        name = [host for host in fleet.placed().values() if host != PHONE][-1]  # those before it have their part
        fleet.processes[name].send_signal(signal.SIGSTOP)
        let_pass(STANDS_STILL_S)
        if under_way(fleet) == begun:
            return name, begun
        fleet.processes[name].send_signal(signal.SIGCONT)
        wait_until(lambda begun=begun: fleet.cut() >= begun, "it goes on", patience_s=SPARK_PATIENCE_S)  # type: ignore[misc]
    raise AssertionError("every cut was over before a phone could be stopped")


@pytest.mark.covers("MS-13", "MS-15", "MS-17", "MS-23")
def test_who_dies_while_a_cut_is_under_way_makes_all_go_back_to_the_one_before(tmp_path: Path, claim: Claim) -> None:
    names = [COORDINATOR, PHONE, *(f"hub{number}" for number in range(1, SMALL_PHONES))]
    network = Loopback(names)
    fleet = RegionOfPhones(
        tmp_path, PROGRAM, network, phones=SMALL_PHONES, strategy="token", rows=ROWS, threshold=2, cuts="4s"
    )
    fleet.start()
    try:
        wait_until(lambda: fleet.members() == SMALL_PHONES, "all are members", patience_s=SPARK_PATIENCE_S)
        wait_until(lambda: fleet.cut() > 1, "two cuts", patience_s=SPARK_PATIENCE_S)
        vertices = {*fleet.placed()}

        def all_keep() -> int:
            """The newest cut of which every phone has every vertex's part, and which the coordinator calls complete."""
            every = [{cut for cut, found in parts(fleet, name).items() if found == vertices} for name in names[1:]]
            return max((cut for cut in set.intersection(*every) if cut <= fleet.cut()), default=0)

        wait_until(lambda: all_keep() > 1, "a whole cut on every phone", patience_s=SPARK_PATIENCE_S)
        gone, begun = stopped_in_a_cut(fleet)
        whole = fleet.cut()
        live = [name for name in names[1:] if name != gone]
        kept = {name: (parts(fleet, name), *copied(fleet, name)) for name in live}
        fleet.processes[gone].kill()
        fleet.kill(gone)
        until = fleet.count() + 1500
        fleet.wait_for(until, f"results after killing {gone}")
        terms = fleet.terms()
        wait_until(lambda: fleet.cut() > whole, "a cut of those who are left", patience_s=SPARK_PATIENCE_S)
        later = fleet.cut()
        wait_until(
            lambda: all(whole not in copied(fleet, name)[1] | {*parts(fleet, name)} for name in live),
            "what stands before it is given up", patience_s=SPARK_PATIENCE_S,
        )  # fmt: skip
        silent = next(name for name in names[2:] if name not in (gone, *fleet.placed().values()))
        fleet.processes[silent].send_signal(signal.SIGSTOP)
        since, members = time.monotonic(), fleet.members()
        wait_until(lambda: fleet.members() < members, f"{silent} is given up", patience_s=SPARK_PATIENCE_S)
        after_s = time.monotonic() - since
        fleet.processes[silent].send_signal(signal.SIGCONT)
    except AssertionError:
        print(fleet.logs())
        raise
    finally:
        fleet.stop()
    for cuts, edges, _ in kept.values():
        assert cuts[whole] == vertices, "each has all of the cut before"
        assert len(edges) == 1, "what enters the region is kept, and nothing between vertices"
    assert all(min(behind) <= whole for _, _, behind in kept.values()), (
        "what came since then, while the next is under way"
    )
    assert later > begun, "which never becomes complete"
    assert min(terms.values()) > 1, "all went back"
    assert after_s > SILENT_S - REPORT_S - 1.0
    compared(
        fleet, claim,
        f"cut {whole} whole on {SMALL_PHONES} phones, {gone} killed in the middle of cut {begun}, of which "
        f"{sum(begun in cuts for cuts, _, _ in kept.values())} had parts: terms {terms}, the next complete cut is {later}; "
        f"{silent} stopped, given up after {after_s:.0f} s",
    )  # fmt: skip
