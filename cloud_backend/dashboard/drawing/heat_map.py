"""A heat map as SVG: hours across, rows down. Pure text; classes are coloured by the stylesheet, light and dark.

One hue from pale to dark, so that it reads without telling colours apart; what is missing is hatched, what was given
up carries a mark, and every cell says its numbers in a tooltip.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from markupsafe import Markup

from cloud_backend.dashboard.drawing.number_text import percent
from cloud_backend.dashboard.history.completeness import Cell, Row

CELL, GAP, NAME, TOP = 22, 2, 130, 20
LEVELS = (0.5, 0.9, 0.99, 0.9999)
STRIP = Markup('<svg class="heat strip" viewBox="0 0 {width} {height}" role="img" aria-label="{words}">{cells}</svg>')


def level(share: float | None) -> str:
    """The class of a cell: none, or 0 (under half) to 4 (complete)."""
    return "none" if share is None else f"l{sum(share >= bound for bound in LEVELS)}"


def strip(cells: Sequence[Cell], name: str) -> Markup:
    """One row for a table: no names, no hours."""
    drawn = Markup("").join(_cell(cell, index * 12, 0, 10, 18) for index, cell in enumerate(cells))
    return STRIP.format(width=len(cells) * 12 - 2, height=18, words=summary(name, cells), cells=drawn)


def heat_map(rows: Sequence[Row]) -> Markup:
    if not rows:
        return Markup("")
    step = CELL + GAP
    width, height = NAME + len(rows[0].cells) * step, TOP + len(rows) * step
    parts = [
        Markup('<text x="{}" y="13">{}</text>').format(NAME + index * step, clock(cell.hour))
        for index, cell in enumerate(rows[0].cells)
        if cell.hour % 4 == 0
    ]
    for number, row in enumerate(rows):
        top = TOP + number * step
        parts.append(
            Markup('<a href="{}"><text class="name" x="0" y="{}">{}</text></a>').format(
                row.link, top + 15, _cut(row.name)
            )
        )
        parts += [_cell(cell, NAME + index * step, top, CELL, CELL) for index, cell in enumerate(row.cells)]
    return Markup(
        '<svg class="heat" viewBox="0 0 {} {}" role="group" aria-label="Completeness by hour">{}</svg>'
    ).format(width, height, Markup("").join(parts))


def summary(name: str, cells: Sequence[Cell]) -> str:
    """The row in words, for those who do not see it."""
    known = [cell.share for cell in cells if cell.share is not None]
    if not known:
        return f"{name}: nothing yet"
    whole = sum(share >= LEVELS[-1] for share in known)
    return f"{name}: {whole} of {len(known)} hours complete, worst {percent(min(known))}"


def clock(hour: int) -> str:
    return datetime.fromtimestamp(hour * 3600, UTC).strftime("%H:00")


def _cell(cell: Cell, left: int, top: int, width: int, height: int) -> Markup:
    words = f"{clock(cell.hour)} UTC: " + (
        "nothing yet" if cell.share is None else f"{percent(cell.share)} complete, {cell.delivered:,} delivered"
    )
    if cell.ledgered:
        words += f", {cell.ledgered:,} given up"
    mark = Markup('<path class="mark" d="M{} {}h7v7z"/>').format(left + width - 7, top) if cell.ledgered else Markup("")
    return Markup('<g><title>{}</title><rect class="{}" x="{}" y="{}" width="{}" height="{}" rx="3"/>{}</g>').format(
        words, level(cell.share), left, top, width, height, mark
    )


def _cut(name: str) -> str:
    return name if len(name) <= 18 else f"{name[:17]}…"
