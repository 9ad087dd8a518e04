"""A fleet's file as a person writes it."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from shared.errors import UsageError
from shared.hosting.fleet_file import EVERY, HANGING_S, read_fleet
from shared.plan.deployment import HostedQuery
from shared.recovery.strategies import STRATEGIES
from shared.recovery.strategies.row import Home, Include, Keep

NODE = f'[[node]]\nname = "laptop"\npublic_key = "{"ab" * 32}"\ncurve_key = "{"0" * 40}"\n'


def written(folder: Path, *lines: str) -> Path:
    path = folder / "fleet.toml"
    path.write_text("\n".join(['coordinator = "laptop"', *lines, NODE]))
    return path


def test_how_long_an_operator_may_take(tmp_path: Path) -> None:
    assert read_fleet(written(tmp_path)).hanging_s == HANGING_S
    assert read_fleet(written(tmp_path, 'hanging = "1500ms"')).hanging_s == 1.5


@pytest.mark.parametrize("value", ['"2m"', "5", '"soon"', '""', '"0s"'])
def test_a_time_that_makes_no_sense_is_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(UsageError, match=r"hanging|duration"):
        read_fleet(written(tmp_path, f"hanging = {value}"))


def test_a_coordinator_that_is_no_node_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.write_text(path.read_text().replace('"laptop"', '"desk"', 1))
    with pytest.raises(UsageError, match=r"`coordinator` is one of laptop \[fleet-file\]"):
        read_fleet(path)


QUERY = """
[[query]]
name = "beats"
program = "{program}"
strategy = "{strategy}"
sources = ["a"]
sink = "a"
keepers = 2
"""


@pytest.mark.parametrize(
    ("strategy", "hosts", "keepers"), [("ecoc", 1, 2), ("local", 1, 0), ("rep-2", 2, 0), ("none", 1, 0)]
)
def test_a_strategy_has_the_hosts_and_keepers_it_needs(tmp_path: Path, strategy: str, hosts: int, keepers: int) -> None:
    nodes = [
        f'[[node]]\nname = "{name}"\npublic_key = "{place:02x}{"ab" * 31}"\ncurve_key = "{"0" * 40}"\n'
        f'address = "tcp://192.0.2.{place}:7300"\n'
        for place, name in enumerate("abcd", 1)
    ]
    program = Path("resurge/examples/peers/beats.py").resolve()
    path = tmp_path / "fleet.toml"
    path.write_text('coordinator = "a"\n' + "\n".join(nodes) + QUERY.format(program=program, strategy=strategy))
    (query,) = read_fleet(path).hosted()
    for placed in query.placements:
        assert (len(placed.hosts), len(placed.keepers)) == (hosts, keepers)
        assert len({*placed.hosts, *placed.keepers}) == hosts + keepers


def hosted(folder: Path, contract: str, *lines: str) -> HostedQuery:
    keys = {name: Ed25519PrivateKey.from_private_bytes(name.encode() * 32).public_key() for name in "abc"}
    nodes = [
        f'[[node]]\nname = "{name}"\npublic_key = "{key.public_bytes_raw().hex()}"\ncurve_key = "{"0" * 40}"\n'
        f'address = "tcp://127.0.0.1:{7000 + ord(name)}"\n'
        for name, key in keys.items()
    ]
    (folder / "mean.py").write_text(
        "import resurge as rs\n"
        f"near = rs.sensor('noise', every='1s', columns={{'db': 'float64'}}).gather('noise', within='2s'{contract})\n"
        "near.key_by().tumbling('1m').aggregate(db=rs.mean('db')).subscribe('loud')\n"
    )
    query = ["[[query]]", 'name = "q"', 'program = "mean.py"', 'sources = ["a"]', 'sink = "a"', *lines]
    path = folder / "fleet.toml"
    path.write_text("\n".join(['coordinator = "a"', *nodes, *query]))
    (found,) = read_fleet(path).hosted()
    return found


def test_what_is_promised_picks_the_strategy(tmp_path: Path) -> None:
    plain = hosted(tmp_path, "")
    bounded = hosted(tmp_path, ", contract=rs.lossless(delay='30s')")
    loose = hosted(tmp_path, ", contract=rs.limited_loss(0.5)")
    for query in (plain, bounded):
        row = STRATEGIES[query.row].row
        assert (row.include, row.keep, row.home) == (Include.STATE, Keep.RECEIPT, Home.PEERS)
    assert plain.every == EVERY
    tight = hosted(tmp_path, ", contract=rs.lossless(delay='8s')")
    assert 0 < tight.every < bounded.every
    assert STRATEGIES[loose.row].row.include is Include.NOTHING
    assert hosted(tmp_path, "", 'strategy = "dist-2"', "keepers = 2").row == "dist-2"


def test_a_promise_that_no_strategy_keeps_is_refused_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the nearest is") as refused:
        hosted(tmp_path, ", contract=rs.lossless(delay='3s')")
    assert refused.value.code == "contract-refused"
