"""A fleet's file as a person writes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared.errors import UsageError
from shared.hosting.fleet_file import HANGING_S, read_fleet

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
