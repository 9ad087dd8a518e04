"""A region under a gateway, as a person makes one: phones are paired, `resurge region add`, one is killed, it is dropped."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from resurge.lab._linked_nodes import may_make_namespaces
from shared.hosting.keeper import Keeper, cut_of
from shared.hosting.sink import sink_rows
from shared.hosting.store import Memory
from shared.plan.deployment import decode_deployment
from shared.spool.disk import PosixDisk
from tests.claims import Claim
from tests.patience import SPARK_PATIENCE_S, wait_until
from tests.processes.cellular import CLOUD, Cellular
from tests.processes.fleets import PHONE, Program, digest, ideal
from tests.processes.gateway_process import GatewayProcess
from tests.processes.governed_fleets import LAPTOP, SMOOTHED, GovernedFleet, counted

pytestmark = [pytest.mark.processes, pytest.mark.soak]
ROWS = 24_000  # four minutes; the test ends long before
LONG = 60_000  # where several regions begin one after the other
HUBS = ("hub1", "hub2", "hub3")
HERE, AWAY = "1.3521,103.8198", "1.4,103.8"
MORE = 300


def region_of(fleet: GovernedFleet) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(fleet.command("region", "list", "--json"))["regions"][0]
    return found


LINE = """\
import resurge as rs

near = rs.sensor("before", every="10ms", columns={"v": "float64", "m": "float64"}).gather("before", batch=20, within="200ms")
near.sliding(count=3).aggregate(v=rs.max("v"), m=rs.mean("m")).subscribe("smooth")
"""
PLACES = ("1.3521,103.8198", "1.3621,103.8198", "1.3721,103.8198")


def regions_of(fleet: GovernedFleet) -> dict[str, dict[str, Any]]:
    found = json.loads(fleet.command("region", "list", "--json"))["regions"]
    return {each["name"]: each for each in found}


FORKED = Program(
    "forked",
    "\n".join(
        [
            "import resurge as rs",
            "from resurge import col",
            'near = rs.sensor("count", every="10ms", columns={"v": "float64"}).gather("count", batch=20, within="200ms")',
            'seen = near.sliding(count=5).aggregate(v=rs.min("v"))',
            'seen.where(col.v % 2 == 0).subscribe("even")',
            'seen.where(col.v % 2 == 1).subscribe("odd")',
        ]
    ),
    {"count": "v"},
    {"even": ("v",), "odd": ("v",)},
    (),
    every_us=10_000,
)
PART = """\
import resurge as rs

near = rs.sensor("before", every="20ms", columns={"v": "float64"}).gather("before", batch=20, within="200ms")
near.sliding(count=3).aggregate(v=rs.max("v")).subscribe("part")
"""


def rows_of(fleet: GovernedFleet, region: str, sink: str = "smooth") -> list[dict[str, Any]]:
    """Results of a region as it runs now; one that begins anew has none."""
    told = Memory.read(fleet.disk).deployment
    queries = decode_deployment(told).queries if told else ()
    query = next((each for each in queries if each.name == region), None)
    if query is None:
        return []
    rows, lost = sink_rows(fleet.disk, query, sink)
    assert not lost
    assert [row["number"] for row in rows] == [*range(len(rows))]
    return rows


def results_of(fleet: GovernedFleet, region: str) -> int:
    return len(rows_of(fleet, region))


def cut_on(fleet: GovernedFleet, name: str) -> int:
    """The oldest cut of which a member has a part on its disk: one that is complete, or none was."""
    return min((cut_of(part) for part in Keeper(PosixDisk(fleet.folder / name / "fleet")).cuts()), default=0)


def kept(fleet: GovernedFleet, name: str) -> list[str]:
    """Files of a region on a phone: rows that came in, and snapshots."""
    return [each.name for each in (fleet.folder / name / "fleet").iterdir() if each.name.startswith(("copy-", "kept-"))]


@pytest.mark.covers("MS-6", "MS-30")
def test_a_region_is_added_runs_loses_a_phone_and_is_dropped(tmp_path: Path, claim: Claim) -> None:
    with GatewayProcess(tmp_path / "gateway", "--results", str(tmp_path / "results.sqlite")) as gateway:
        fleet = GovernedFleet(tmp_path, gateway, SMOOTHED, hubs=len(HUBS), rows=ROWS)
        for name in (*HUBS, LAPTOP):
            place = AWAY if name == LAPTOP else HERE
            (fleet.folder / name / "settings.toml").write_text(f'position = "{place}"\n')
        fleet.start(LAPTOP, PHONE)
        try:
            wait_until(lambda: fleet.members() == {LAPTOP, PHONE}, "two nodes offer", patience_s=SPARK_PATIENCE_S)
            said = fleet.command(
                "region", "add", "q", str(fleet.path), "--from", PHONE, "--to", LAPTOP, "--center", HERE, "--radius",
                "20", "--threshold", "2", "--dwell", "1s",
            )  # fmt: skip
            assert "it begins when 2 are in it" in said
            assert region_of(fleet)["state"] == "forming"
            fleet.start(*HUBS)
            wait_until(lambda: region_of(fleet)["state"] == "running", "it runs", patience_s=SPARK_PATIENCE_S)
            fleet.wait_for(MORE, "results")
            wait_until(lambda: len(region_of(fleet)["members"]) == len(HUBS), "all three are members")
            listed = " ".join(fleet.command("region", "list").split())
            assert all(name in listed for name in HUBS)
            (gone,) = {*fleet.placed().values()}
            fleet.kill(gone)
            fleet.wait_for(fleet.count() + MORE, f"results after killing {gone}")
            takes_over = {*fleet.placed().values()}
            left = [name for name in HUBS if name != gone]
            assert all(kept(fleet, name) for name in left), "who is there keeps what comes in"
            found = fleet.results()
            fleet.command("region", "drop", "q")
            wait_until(lambda: not any(kept(fleet, name) for name in left), "their copies are deleted")
            assert json.loads(fleet.command("region", "list", "--json"))["regions"] == []
        except AssertionError:
            print(fleet.logs())
            raise
        finally:
            fleet.stop()
    (mine,), (theirs,) = map(digest, found.values()), map(digest, ideal(SMOOTHED, fleet.path, ROWS, found).values())
    claim(
        f"{len(HUBS)} members; {gone} killed, {sorted(takes_over)} took over, {len(found['smooth'])} rows "
        f"compared, digests {mine} = {theirs}"
    )
    assert takes_over < {*HUBS} - {gone}
    assert mine == theirs


def passed(gateway: GatewayProcess) -> int:
    """Exchanges that the gateway passed on."""
    return counted(gateway, "resurge_fleet_passed")


@pytest.mark.covers("MS-31", "MS-33")
def test_a_phone_that_loses_the_wifi_goes_on_by_way_of_the_gateway_and_hands_over(tmp_path: Path, claim: Claim) -> None:
    if not may_make_namespaces():
        claim("no network namespaces here: no Wi-Fi to lose")
        return
    gateway = GatewayProcess(tmp_path / "gateway", "--host", "0.0.0.0", "--results", str(tmp_path / "results.sqlite"))
    with Cellular([PHONE, *HUBS]) as network:
        gateway.host, gateway.run_by = CLOUD, network.run_by("cloud")
        with gateway:
            options = {PHONE: ("--lane", "wifi")}
            fleet = GovernedFleet(
                tmp_path, gateway, SMOOTHED, hubs=len(HUBS), rows=ROWS, options=options, network=network
            )
            for name in (PHONE, *HUBS):
                (fleet.folder / name / "settings.toml").write_text(f'position = "{HERE}"\ncapacity = 1\n')
            (fleet.folder / PHONE / "settings.toml").write_text(f'position = "{HERE}"\ncapacity = 0\n')
            fleet.start()
            try:
                wait_until(lambda: len(fleet.members()) == 2 + len(HUBS), "all offer", patience_s=SPARK_PATIENCE_S)
                fleet.command(
                    "region", "add", "q", str(fleet.path), "--from", PHONE, "--to", LAPTOP, "--center", HERE,
                    "--radius", "20", "--threshold", "2", "--dwell", "1s",
                )  # fmt: skip
                fleet.wait_for(MORE, "results")
                wait_until(lambda: len(region_of(fleet)["members"]) >= len(HUBS), "all are members")
                (stray,), terms = {*fleet.placed().values()}, fleet.terms()
                before = passed(gateway)
                network.lose_wifi(stray)
                fleet.wait_for(fleet.count() + MORE, f"results without the Wi-Fi of {stray}")
                by_way = passed(gateway) - before
                wait_until(lambda: stray not in fleet.placed().values(), "it hands over", patience_s=SPARK_PATIENCE_S)
                fleet.wait_for(fleet.count() + MORE, "results of who took over")
                history = [
                    event["text"]
                    for event in json.loads(fleet.command("fleet", "show", "--json"))["fleets"][0].get("events", [])
                ]
                found = fleet.results()
            except AssertionError:
                print(fleet.logs())
                raise
            finally:
                fleet.stop()
    (mine,), (theirs,) = map(digest, found.values()), map(digest, ideal(SMOOTHED, fleet.path, ROWS, found).values())
    claim(
        f"{network.kind}: {stray} lost the Wi-Fi, {by_way} exchanges by way of the gateway, terms {terms}, "
        f"{len(found['smooth'])} rows compared, digests {mine} = {theirs}; {history}"
    )
    assert by_way
    assert mine == theirs


@contextmanager
def on_cellular(folder: Path, program: Program, places: Mapping[str, int]) -> Iterator[GovernedFleet]:
    """Hubs at these places; where namespaces can be made each place has a Wi-Fi of its own, and the phone that feeds is on
    that of the first."""
    hubs = sorted(places)
    homes = folder / "gateway", "--results", str(folder / "results.sqlite")
    with ExitStack() as made:
        if may_make_namespaces():
            network = made.enter_context(Cellular([PHONE, *hubs], places))
            gateway = GatewayProcess(*homes, "--host", "0.0.0.0")
            gateway.host, gateway.run_by = CLOUD, network.run_by("cloud")
        else:
            network, gateway = None, GatewayProcess(*homes)
        made.enter_context(gateway)
        fleet = GovernedFleet(folder, gateway, program, hubs=len(hubs), rows=LONG, network=network)
        for name in (*hubs, LAPTOP):
            settle(fleet, name, PLACES[places[name]] if name in places else AWAY)
        fleet.start()
        try:
            wait_until(lambda: len(fleet.members()) == 2 + len(hubs), "all offer", patience_s=SPARK_PATIENCE_S)
            yield fleet
        except AssertionError:
            print(fleet.logs())
            raise
        finally:
            fleet.stop()


def settle(fleet: GovernedFleet, name: str, place: str) -> None:
    (fleet.folder / name / "settings.toml").write_text(f'position = "{place}"\n')


def add(fleet: GovernedFleet, region: str, path: Path, place: int, *came: str, strategy: str) -> None:
    fleet.command(
        "region", "add", region, str(path), *came, "--to", LAPTOP, "--center", PLACES[place], "--radius", "20",
        "--threshold", "1", "--dwell", "1s", "--strategy", strategy,
    )  # fmt: skip


def by_way_of_the_gateway(fleet: GovernedFleet) -> str:
    """What the gateway passed on from one place to another, for the claim; where they have one Wi-Fi it is nothing."""
    if fleet.network is None:
        return "one network"
    exchanges = passed(fleet.gateway)
    assert exchanges, "from one region to the next there is cellular alone"
    return f"{fleet.network.kind}, a Wi-Fi for each region, {exchanges} exchanges by way of the gateway"


def results_past(fleet: GovernedFleet, region: str, before: int) -> int:
    """Results of a region behind so many others: none while its sink still is that of an earlier beginning."""
    rows = rows_of(fleet, region)
    return len(rows) if rows and rows[-1]["m"] - rows[-1]["v"] == 2 - before else 0


def numbers(rows: Sequence[Mapping[str, Any]], *, before: int) -> list[int]:
    """The readings with which the first windows of these rows begin, where so many regions in a line came before: each
    of them begins two rows later, and means lie one lower beside the greatest."""
    assert all(row["m"] - row["v"] == 2 - before for row in rows), "they came another way"
    return [round(row["v"]) - 2 * before for row in rows]


@pytest.mark.covers("MS-2", "MS-6", "MS-7", "MS-13", "MS-29", "MS-30", "MS-34")
@pytest.mark.parametrize("strategy", ["token", "ecoc-region"])
def test_regions_in_a_line_lose_phones_and_the_one_between_is_bypassed(
    strategy: str, tmp_path: Path, claim: Claim
) -> None:
    """Two phones at the first stop, one at each of the others. hub3 alone is at the second."""
    (tmp_path / "line.py").write_text(LINE)
    with on_cellular(tmp_path, SMOOTHED, {"hub1": 0, "hub2": 0, "hub3": 1, "hub4": 2}) as fleet:
        for number in range(3):
            came = ["--after", f"before=stop{number - 1}/smooth"] if number else ["--from", PHONE]
            add(
                fleet, f"stop{number}", tmp_path / "line.py" if number else fleet.path, number, *came, strategy=strategy
            )
        wait_until(lambda: results_of(fleet, "stop2") > MORE, "results of the last", patience_s=SPARK_PATIENCE_S)
        count = results_of(fleet, "stop2")
        host = next(one["hosts"][0] for one in fleet.shown()["placements"] if one["hosts"][0] in ("hub1", "hub2"))
        fleet.kill(host)
        wait_until(lambda: results_of(fleet, "stop2") > count + MORE, f"without {host}", patience_s=SPARK_PATIENCE_S)
        in_line = [numbers(rows_of(fleet, f"stop{number}"), before=number) for number in range(3)]
        assert kept(fleet, "hub3"), "a member keeps what comes in"
        fleet.kill("hub3")
        wait_until(
            lambda: regions_of(fleet)["stop1"]["state"] == "bypassed", "too few are left", patience_s=SPARK_PATIENCE_S
        )
        assert regions_of(fleet)["stop1"]["members"] == []
        wait_until(
            lambda: results_past(fleet, "stop2", before=1) > MORE, "what the first feeds", patience_s=SPARK_PATIENCE_S
        )
        past = numbers(rows_of(fleet, "stop2"), before=1)
        assert results_of(fleet, "stop1") == 0
        others = ("hub4", *({"hub1", "hub2"} - {host}))
        cuts = {name: cut_on(fleet, name) for name in others}
        if strategy == "token":
            wait_until(
                lambda: all(cut_on(fleet, name) > cut for name, cut in cuts.items()),
                "the others are cut while it is not there", patience_s=SPARK_PATIENCE_S,
            )  # fmt: skip
        settle(fleet, "hub3", AWAY)
        fleet.start("hub3")
        wait_until(lambda: not kept(fleet, "hub3"), "who has left deletes its copies", patience_s=SPARK_PATIENCE_S)
        fleet.kill("hub3")
        settle(fleet, "hub3", PLACES[1])
        fleet.start("hub3")
        wait_until(lambda: results_of(fleet, "stop1") > MORE, "it begins again", patience_s=SPARK_PATIENCE_S)
        wait_until(
            lambda: results_past(fleet, "stop2", before=2) > MORE, "and feeds the last", patience_s=SPARK_PATIENCE_S
        )
        again = [numbers(rows_of(fleet, f"stop{number}"), before=number) for number in range(3)]
        state, ways = regions_of(fleet)["stop1"]["state"], by_way_of_the_gateway(fleet)
    assert state in ("running", "checkpointing")
    for found in (*in_line, past, *again):
        assert found == [*range(found[0], found[0] + len(found))], "each reading once, and none is missing"
    assert in_line[0][0] == again[0][0], "the first region goes on with what it had"
    claim(
        f"{strategy}, 3 regions in a line, {host} and hub3 killed: {list(map(len, in_line))} rows compared, {len(past)} past "
        f"the bypassed region, {list(map(len, again))} when it ran again; {ways}"
    )


@pytest.mark.covers("MS-2")
def test_a_region_sends_each_of_two_others_its_own_part(tmp_path: Path, claim: Claim) -> None:
    """The one that runs the region before them is killed meanwhile."""
    (tmp_path / "part.py").write_text(PART)
    with on_cellular(tmp_path, FORKED, {"hub1": 0, "hub2": 0, "hub3": 1, "hub4": 2}) as fleet:
        add(fleet, "stop0", fleet.path, 0, "--from", PHONE, strategy="token")
        for number, sink in enumerate(FORKED.sinks, 1):
            add(fleet, f"{sink}er", tmp_path / "part.py", number, "--after", f"before=stop0/{sink}", strategy="token")

        def least() -> int:
            return min(len(rows_of(fleet, f"{sink}er", "part")) for sink in FORKED.sinks)

        wait_until(lambda: least() > MORE / 2, "results of both", patience_s=SPARK_PATIENCE_S)
        wait_until(lambda: cut_on(fleet, "hub1") > 0, "a cut to go back to", patience_s=SPARK_PATIENCE_S)
        count = least()
        host = next(one["hosts"][0] for one in fleet.shown()["placements"] if one["hosts"][0] in ("hub1", "hub2"))
        fleet.kill(host)
        wait_until(lambda: least() > count + MORE / 2, f"without {host}", patience_s=SPARK_PATIENCE_S)
        found = {sink: [round(row["v"]) for row in rows_of(fleet, f"{sink}er", "part")] for sink in FORKED.sinks}
        ways = by_way_of_the_gateway(fleet)
    for sink, rest in (("even", 0), ("odd", 1)):
        first = found[sink][0]
        assert first % 2 == rest
        assert found[sink] == [*range(first, first + 2 * len(found[sink]), 2)], "its part, each once and nothing else"
    claim(f"{ {sink: len(rows) for sink, rows in found.items()} } rows compared, {host} killed; {ways}")
