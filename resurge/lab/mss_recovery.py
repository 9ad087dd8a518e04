"""NebulaStream-MSS, Fig 8: from the moment a phone is back elsewhere until all it spooled has arrived, by the length of
the way and by how many ways are used at once. Production nodes in virtual time (`_walking_fleet`).

The paper deploys a forwarding query on every path, one after the other, and sends what was spooled over all of them.
Both are run with the same nodes: *one by one* deploys so many ways like that. *Ours* gives all nodes the one deployment
that says what they should do, and uses one way, however many there are. Rows that go over several ways leave the phone
several times, so its radio is given a bounded number of bytes a second, which is modelled.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from resurge.lab._figure import draw, report, shape
from resurge.lab._walking_fleet import Recovery, recover

LENGTHS = (4, 5, 7)  # nodes from the phone to the one that reads its rows, both included: the paper's topologies
PATHS = (1, 2, 4)
QUICK = {"lengths": (4, 7), "paths": (1, 2)}
LENGTH = 5  # where the number of paths varies
BATCH = 8_000  # rows, ten times a second: many times what goes over the first way before another is known
UPLINK = 8_000_000.0  # bytes a second


def run(lengths: tuple[int, ...] = LENGTHS, paths: tuple[int, ...] = PATHS) -> dict[str, Any]:
    by_length = {nodes: recover(2, nodes - 2, "dynamic") for nodes in lengths}
    ours = {count: _recover(count, 0) for count in paths}
    theirs = {count: _recover(count, count) for count in paths}
    every = [*by_length.values(), *ours.values(), *theirs.values()]
    decided = [each.deployed_s for each in (*by_length.values(), *ours.values())]
    drained = [each.drained_s for each in by_length.values()]
    least, most = min(paths), max(paths)
    told = {name: [_told_s(found[count]) for count in paths] for name, found in (("ours", ours), ("theirs", theirs))}
    sent = round(theirs[most].megabytes / theirs[least].megabytes, 2)
    longer = round(theirs[most].drained_s / theirs[least].drained_s, 2)
    flat = round(max(each.drained_s for each in ours.values()) / min(each.drained_s for each in ours.values()), 2)
    shapes = [
        shape("ours: the new way is known to all of its nodes after the same time, whatever its length and how many "
              "there are, s", "grows", [min(decided), max(decided)], max(decided) - min(decided) <= 0.1),
        shape("until all has arrived, by length, s", "grows", drained, max(drained) <= 1.7 * min(drained)),
        shape(f"deploying {list(paths)} ways one by one, from the decision until all of their nodes know, s", "grows",
              told["theirs"], _rises(told["theirs"])),
        shape("and ours beside it, s", "future work", told["ours"], max(told["ours"]) <= 1.5 * min(told["ours"])),
        # Not so many times the bytes as ways: one that is behind skips what its reader has from another.
        shape(f"{most} ways one by one send so many times the bytes of {least}", "all paths carry all", sent,
              sent >= 1.2),
        shape("and take so many times as long until all has arrived", "grows slightly", longer, longer >= 1.1),
        shape("ours until all has arrived, longest over shortest by how many ways there are", "future work", flat,
              flat <= 1.05),
        shape("vertices that moved or began again", "the query is deployed again", sum(each.others for each in every),
              not any(each.others for each in every)),
    ]  # fmt: skip
    curves = {
        "one by one, all has arrived": [(float(count), each.drained_s) for count, each in theirs.items()],
        "ours, all has arrived": [(float(count), each.drained_s) for count, each in ours.items()],
    }
    lengths_drawn = {
        "all has arrived": [(float(nodes), each.drained_s) for nodes, each in by_length.items()],
        "its nodes know the new way": [(float(nodes), each.deployed_s) for nodes, each in by_length.items()],
    }
    drawn = [
        draw("mss-recovery", "A phone that is back elsewhere", "nodes on the way", "seconds", lengths_drawn),
        draw("mss-recovery-paths", "A phone that is back elsewhere", "ways", "seconds", curves),
    ]
    return report(
        "mss-recovery", "NebulaStream-MSS Fig 8", shapes, curves=lengths_drawn, curves_by_paths=curves, drawn=drawn,
        by_length={str(nodes): asdict(each) for nodes, each in by_length.items()},
        by_paths={
            name: {str(count): asdict(each) for count, each in found.items()}
            for name, found in (("ours", ours), ("one by one", theirs))
        },
        setting="production hosts in one process; network, disks and clock in memory; 5 s out of reach; 5,000 rows "
        f"spooled by length, {50 * BATCH:,} by ways and then a radio of {UPLINK / 1e6:g} MB/s (modelled); seconds are "
        "those of polls, messages and that radio, not of a processor",
    )  # fmt: skip


def _recover(count: int, one_by_one: int) -> Recovery:
    return recover(count + 1, LENGTH - 2, "dynamic", batch=BATCH, uplink=UPLINK, one_by_one=one_by_one)


def _told_s(each: Recovery) -> float:
    return round(each.deployed_s - each.decided_s, 3)


def _rises(values: list[float]) -> bool:
    return values == sorted({*values}) and values[-1] >= 1.2 * values[0]
