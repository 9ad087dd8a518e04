"""MobiStreams, Fig 10: bytes sent for snapshots in a region of eight phones, and bytes of rows kept for replays.

Two strategies broadcast their snapshots to the whole region: ours, where only what failed goes back, and the paper's,
whose cuts all of the region go back to. dist-n sends each snapshot to n phones in exchanges, with what its outputs
still retain. Every byte is one that a production host sent (`_region_fleet`). The paper's strategy also has a copy of
what comes into the region on every phone: those copies are broadcast, too, and are told apart.
"""

from __future__ import annotations

from typing import Any

from resurge.lab._figure import draw, report, shape
from resurge.lab._region_fleet import PHONES, ran
from resurge.lab._virtual_fleet import Ran
from shared.recovery.strategies import STRATEGIES
from shared.recovery.strategies.row import Home, Include

LOSSES = (0.0, 0.01, 0.1, 0.4)
WINDOW, EVERY, ELEMENTS = 6_000, 6_000, 27_000
QUICK = {"window": 1_000, "every": 1_000, "elements": 4_500, "losses": (0.0, 0.1)}
BOUNDS = {0.01: 1.15, 0.1: 1.7}


def _rows() -> tuple[str, str, list[str]]:
    """Ours, the paper's, and those with n copies, by n."""
    rows = [each.row for each in STRATEGIES.values()]
    (ours,) = [row.name for row in rows if row.home is Home.REGION and not row.of_region]
    (paper,) = [row.name for row in rows if row.home is Home.REGION and row.of_region]
    with_copies = [row for row in rows if row.home is Home.PEERS and row.include is Include.STATE_AND_TRANSFER]
    by_copies = {row.copies: row.name for row in with_copies}
    return ours, paper, [by_copies[copies] for copies in sorted(by_copies)]


def run(
    window: int = WINDOW, every: int = EVERY, elements: int = ELEMENTS, losses: tuple[float, ...] = LOSSES
) -> dict[str, Any]:
    ours, paper, others = _rows()
    runs = {(ours, loss): ran(ours, window=window, every=every, elements=elements, loss=loss) for loss in losses}
    runs |= {(paper, loss): ran(paper, window=window, every=every, elements=elements, loss=loss) for loss in losses}
    runs |= {(row, 0.0): ran(row, window=window, every=every, elements=elements) for row in others}
    sent = {key: each.sent_for_stored / sum(each.commits.values()) / 1000 for key, each in runs.items()}
    ratio = {
        row: {loss: round(each.sent_for_stored / each.stored, 3) for (one, loss), each in runs.items() if one == row}
        for row in (ours, paper)
    }
    exchanged = [sent[row, 0.0] for row in others]
    measured = [loss for loss in BOUNDS if loss in losses]
    none, most = losses[0], losses[-1]
    sent_copies = runs[paper, none].sent
    copies = sent_copies.copies + sent_copies.elements - runs[ours, none].sent.elements
    shapes = [
        shape(f"kB per snapshot, {ours} to {PHONES - 1} phones at {most:.0%} loss over {others[-1]}", "below 1",
              round(sent[ours, most] / exchanged[-1], 2), sent[ours, most] < exchanged[-1]),
        shape(f"the same of {paper} at {most:.0%} loss", "below 1", round(sent[paper, most] / exchanged[-1], 2),
              sent[paper, most] < exchanged[-1]),
        shape(f"the same of {ours} at {none:.0%} loss over {', '.join(others)}", "below 1",
              [round(sent[ours, none] / each, 2) for each in exchanged], sent[ours, none] < exchanged[0]),
        shape(f"{', '.join(others)}: kB per snapshot grow with the copies", "grow", list(map(round, exchanged)),
              sorted(exchanged) == exchanged),
        *(shape(f"bytes sent for a byte of state at 1 % and 10 % loss, {row}", "not stated",
                [ratio[row][loss] for loss in measured], all(ratio[row][loss] <= BOUNDS[loss] for loss in measured))
          for row in (ours, paper)),
        shape("every run has permanent snapshots of all vertices, and as many results", "-",
              [min(min(each.commits.values()) for each in runs.values()), max(each.results for each in runs.values())],
              all(len(each.commits) == 3 for each in runs.values())
              and len({each.results for each in runs.values()}) == 1),
    ]  # fmt: skip
    lines = {
        row: [(100 * loss, round(kb, 1)) for (one, loss), kb in sent.items() if one == row] for row in (ours, paper)
    } | {row: [(0.0, round(sent[row, 0.0], 1)), (100 * most, round(sent[row, 0.0], 1))] for row in others}
    figure = draw(
        "regions-bytes", "Bytes sent per snapshot in a region of eight", "percent of datagrams lost at each phone",
        "kB", lines,
    )  # fmt: skip
    return report(
        "regions-bytes", "MobiStreams Fig 10", shapes, drawn=figure, kb_per_snapshot=lines,
        sent_per_state={row: {f"{loss:.0%}": each for loss, each in of.items()} for row, of in ratio.items()},
        kb_of_input_copies={paper: round(copies / 1000)},
        retained_kb={row: _retained_kb(each) for (row, loss), each in runs.items() if loss == 0.0},
        sent={f"{row} {loss:.0%}": vars(each.sent) for (row, loss), each in runs.items()},
        setting=f"production hosts in one process; network, disks and clock in memory; {PHONES} phones, three vertices "
        f"with a window of {window} rows of 16 numbers each, {elements} rows, a snapshot every {every}; datagrams, "
        "announcements, bitmaps and blocks counted, IP and UDP headers not; exchanges lose nothing, whatever the loss",
    )  # fmt: skip


def _retained_kb(each: Ran) -> float:
    """Rows that the computing phones keep for readers in memory, all of them together, on average over the run."""
    samples = [held.rows for at in each.held.values() for held in at]
    return float(round(len(each.held) * sum(samples) / len(samples) / 1000, 1))
