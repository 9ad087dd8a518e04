"""NebulaStream-MSS, Fig 8: from the moment a phone is back elsewhere until all it spooled has arrived, by the length of
the way and by how many ways are used at once. Production nodes in virtual time (`_walking_fleet`).

The paper deploys a forwarding query on every path, and that takes longer the longer and the more there are. Here all
nodes get the one deployment that says what they should do. So the way's length costs only the messages along it, and
another path costs bytes.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from resurge.lab._figure import draw, report, shape
from resurge.lab._walking_fleet import recover

LENGTHS = (4, 5, 7)  # nodes from the phone to the one that reads its rows, both included: the paper's topologies
PATHS = (1, 2, 4)
QUICK = {"lengths": (4, 7), "paths": (1, 2)}
LENGTH = 5  # where the number of paths varies


def run(lengths: tuple[int, ...] = LENGTHS, paths: tuple[int, ...] = PATHS) -> dict[str, Any]:
    by_length = {nodes: recover(2, nodes - 2, "dynamic") for nodes in lengths}
    by_paths = {
        count: recover(max(paths) + 1, LENGTH - 2, "dynamic" if count == 1 else f"paths:{count}") for count in paths
    }
    every = [*by_length.values(), *by_paths.values()]
    decided = [each.deployed_s for each in every]
    drained = [each.drained_s for each in by_length.values()]
    one, most = by_paths[min(paths)], by_paths[max(paths)]
    ratio = most.megabytes / one.megabytes
    shapes = [
        shape("the new way is known to all of its nodes after the same time, whatever its length and their number, s",
              "grows", [min(decided), max(decided)], max(decided) - min(decided) <= 0.1),
        shape("until all has arrived, by length, s", "grows", drained, max(drained) <= 1.7 * min(drained)),
        shape(f"{max(paths)} paths at once send so many times the bytes of one", "not stated", round(ratio, 2),
              ratio >= 1.0),  # often everything is drained before another path is known
        shape("and are done hardly sooner, s", "grows", [one.drained_s, most.drained_s],
              most.drained_s >= 0.8 * one.drained_s),
        shape("vertices that moved or began again", "the query is deployed again", sum(each.others for each in every),
              not any(each.others for each in every)),
    ]  # fmt: skip
    curves = {
        "all has arrived": [(float(nodes), each.drained_s) for nodes, each in by_length.items()],
        "its nodes know the new way": [(float(nodes), each.deployed_s) for nodes, each in by_length.items()],
    }
    figure = draw("mss-recovery", "A phone that is back elsewhere", "nodes on the way", "seconds", curves)
    return report(
        "mss-recovery", "NebulaStream-MSS Fig 8", shapes, curves=curves, drawn=figure,
        by_length={str(nodes): asdict(each) for nodes, each in by_length.items()},
        by_paths={str(count): asdict(each) for count, each in by_paths.items()},
        setting="production hosts in one process; network, disks and clock in memory; 5,000 rows spooled in 5 s out of "
        "reach; seconds are those of polls and messages, not of a processor",
    )  # fmt: skip
