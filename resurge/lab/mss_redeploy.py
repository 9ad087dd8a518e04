"""NebulaStream-MSS, Fig 8a: a phone feeds eight queries and is back where it reaches the way of seven of them. What it
costs to give one of them another way, against deploying all that the phone feeds again, by the length of the way.
Production nodes in virtual time (`_walking_fleet`).

What is deployed again begins again, from its snapshot: its vertices get new terms and read again what came since. That
is what the paper's baseline does with every query of a device that is back. In a third run the phone is back where it
was and nothing is deployed.

Three measures, each with its own shape: frames that carry a deployment; those and the rows that are read again; and all
control traffic. Records before these names had one, all control traffic less that of the third run, plus rows.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from resurge.lab._figure import draw, report, shape
from resurge.lab._walking_fleet import EVERY_S, ROWS, STEP_S, Fed, WalkingFleet, counted, waves

QUERIES = 8
LENGTHS = (4, 5, 7)  # nodes from the phone to the one that reads its rows, both included: the paper's topologies
LINES = 3
SPOOL_BYTES = 8 << 20
SENSING_FROM_S, AWAY_FROM_S, AWAY_S, AFTER_S = 0.5, 3.0, 4.0, 8.0
QUICK = {"lengths": (4, 7)}
SHORTER = "bytes of DEPLOYMENT frames alone, all eight over the one, by length: at least 2"
CASES = NOTHING, ONE, ALL = "nothing", "one of eight", "all eight"


@dataclass(frozen=True, slots=True)
class Redeployed:
    """Since the phone was back."""

    deployed_s: float  # all nodes on the ways know; 0 where there was nothing to know
    first_s: float  # what was spooled of the query that needs another way was read
    others_s: float  # and of all others
    begun: int  # vertices that began again
    read_again: int  # rows, by those
    rows_kilobytes: float  # that nodes sent each other within the next seconds: rows and snapshots
    control_kilobytes: float  # and all else
    deployed_kilobytes: float  # of that, deployments


def redeploy(length: int, which: str) -> Redeployed:
    """The phone begins at the first two lines. When it is back it reaches the second and the third."""
    first, *others = fed = [
        Fed(f"q{number}", counted(f"player{number}"), waves, line=min(number, 1)) for number in range(QUERIES)
    ]
    fleet = WalkingFleet(LINES, length - 2, fed, row="ecoc", near=2, spool_bytes=SPOOL_BYTES)
    back_s = AWAY_FROM_S + AWAY_S
    rows = round((back_s + AFTER_S - SENSING_FROM_S) / EVERY_S) * ROWS
    for each in fed:
        fleet.at(SENSING_FROM_S, partial(fleet.sense, each, rows))
    fleet.advance(AWAY_FROM_S)
    fleet.away = True
    fleet.advance(back_s)
    heads = {each: fleet.head(each) for each in fed}
    near = fleet.lines[:2] if which == NOTHING else fleet.lines[1:]
    fleet.away, fleet.reaches = False, {line[0] for line in near}
    if which == ALL:
        again = [fleet.query(each, line=1 if each.line else 2, term=2) for each in fed]
        fleet.when_heard = partial(fleet.deploy, again)
    version, before = fleet.coordinator.fleet.version, replace(fleet.ran.sent)
    deployed_before = fleet.coordinator.deployment_bytes
    deployed_s, arrived_s, read_again = 0.0, dict[Fed, float](), 0
    taken = {each: fleet.taken(each) for each in fed}
    while fleet.now < back_s + AFTER_S:
        fleet.advance(fleet.now + STEP_S)
        routes = [route for query in fleet.coordinator.fleet.queries for route in query.routes]
        if not deployed_s and fleet.coordinator.fleet.version > version and all(map(fleet.told, routes)):
            deployed_s = fleet.now - back_s
        for each, head in heads.items():
            if fleet.reader(each) is not None:
                read_again += max(0, taken[each] - fleet.taken(each))
                taken[each] = fleet.taken(each)
            if each not in arrived_s and fleet.taken(each) >= head:
                arrived_s[each] = fleet.now - back_s
    if len(arrived_s) < QUERIES:
        raise RuntimeError(f"not everything was read within {AFTER_S:g} s")
    begun = sum(placed.term > 1 for query in fleet.coordinator.fleet.queries for placed in query.placements)
    sent = fleet.ran.sent
    control = sent.other + sent.marks - before.other - before.marks
    return Redeployed(
        round(deployed_s, 3), round(arrived_s[first], 3), round(max(arrived_s[each] for each in others), 3), begun,
        read_again, round((sent.elements - before.elements) / 1e3, 1), round(control / 1e3, 1),
        round((fleet.coordinator.deployment_bytes - deployed_before) / 1e3, 3),
    )  # fmt: skip


def run(lengths: tuple[int, ...] = LENGTHS) -> dict[str, Any]:
    found = {which: {nodes: redeploy(nodes, which) for nodes in lengths} for which in CASES}
    # Who is asked first decides whether some rows are sent twice in any of the runs. Only what is read again counts.
    deployed = {which: {nodes: each.deployed_kilobytes for nodes, each in found[which].items()} for which in (ONE, ALL)}
    with_rows = {
        which: {
            nodes: round(
                each.deployed_kilobytes
                + (each.rows_kilobytes - found[ONE][nodes].rows_kilobytes if each.read_again else 0), 1,
            )
            for nodes, each in found[which].items()
        }
        for which in (ONE, ALL)
    }  # fmt: skip
    # Polls that come or fall away for another reason are in it, too: they can be more than what is deployed.
    control = {
        which: {
            nodes: round(each.control_kilobytes - found[NOTHING][nodes].control_kilobytes, 1)
            for nodes, each in found[which].items()
        }
        for which in (ONE, ALL)
    }
    cheaper = [round(with_rows[ALL][nodes] / with_rows[ONE][nodes], 2) for nodes in lengths]
    shorter = [round(deployed[ALL][nodes] / deployed[ONE][nodes], 2) for nodes in lengths]
    less_control = [round(control[ALL][nodes] - control[ONE][nodes], 1) for nodes in lengths]
    later_s = [round(found[ONE][nodes].others_s - found[NOTHING][nodes].others_s, 3) for nodes in lengths]
    known_s = [found[ONE][nodes].deployed_s for nodes in lengths]
    begun = [max(each.begun for each in found[which].values()) for which in CASES]
    again = [max(each.read_again for each in found[which].values()) for which in CASES]
    shapes = [
        shape("nothing is deployed for a phone that is back where it was", True,
              [each.deployed_s for each in found[NOTHING].values()],
              not any(each.deployed_s for each in found[NOTHING].values())),
        shape("rows that are read again: nothing, one, all deployed", "not stated", again,
              again[:2] == [0, 0] and again[2] > 0),
        shape(SHORTER, "not stated", shorter, min(shorter) >= 2),
        shape("bytes of DEPLOYMENT frames and of rows read again, all eight over the one, by length", "not stated",
              cheaper, min(cheaper) >= 2),
        shape("all control traffic, so many KB more for all eight than for the one, by length", "not stated",
              less_control, min(less_control) > 0),
        shape("vertices that begin again: nothing, one, all deployed", "the query's; all of the device's", begun,
              begun == [0, 0, QUERIES]),
        shape("the other seven are read so much later than if nothing was deployed, s", "not stated", later_s,
              max(later_s) <= 0.05),
        shape("the new way is known to all of its nodes, s, by length", "grows", known_s,
              max(known_s) - min(known_s) <= 0.1),
    ]  # fmt: skip
    curves = {
        which: [(float(nodes), each) for nodes, each in by_length.items()] for which, by_length in with_rows.items()
    }
    figure = draw("mss-redeploy", "Deployments and rows read again", "nodes on the way", "kilobytes", curves)
    return report(
        "mss-redeploy", "NebulaStream-MSS Fig 8a", shapes, curves=curves, drawn=figure,
        deployed_kilobytes={which: {str(nodes): each for nodes, each in of.items()} for which, of in deployed.items()},
        control_more_than_nothing_kilobytes={
            which: {str(nodes): each for nodes, each in of.items()} for which, of in control.items()
        },
        by_length={
            which: {str(nodes): asdict(each) for nodes, each in by_length.items()}
            for which, by_length in found.items()
        },
        setting="production hosts in one process; network, disks and clock in memory; eight queries of 1,000 rows a "
        f"second each, ecoc, {AWAY_S:g} s out of reach; seconds are those of polls and messages, not of a processor",
    )  # fmt: skip
