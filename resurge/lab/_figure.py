"""What every lab shares: the report's form, and a small line chart in SVG drawn without any library."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

# Drawn only inside a checkout: an installed package has no docs to put figures into.
RECORDS = Path(__file__).resolve().parents[2] / "docs" / "evaluation"
FIGURES: Path | None = RECORDS / "figures"
COLOURS = ("#2f6f9f", "#c8553d", "#588157", "#8e6c8a", "#b08900", "#444444", "#7fb2d6", "#e0a899")
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 640, 400, 60, 52, 40

PAPER = "paper"  # how the names of its points begin

Series = Mapping[str, Sequence[tuple[float, float]]]


@contextmanager
def undrawn() -> Iterator[None]:
    """Within it nothing is drawn: a quick run must not replace the figures of whole ones."""
    global FIGURES  # noqa: PLW0603 - where to draw is one for all labs of a process
    before, FIGURES = FIGURES, None
    try:
        yield
    finally:
        FIGURES = before


def shape(name: str, paper: object, ours: object, holds: bool) -> dict[str, Any]:
    """One thing the paper shows, and whether it shows here."""
    return {"name": name, "paper": paper, "ours": ours, "holds": holds, "value": ours, "ok": holds}


def report(lab: str, figure: str, shapes: list[dict[str, Any]], **more: object) -> dict[str, Any]:
    return {"lab": lab, "figure": figure, "ok": all(s["holds"] for s in shapes), "shapes": shapes, **more}


def draw(name: str, title: str, across: str, up: str, series: Series) -> str | None:
    """Write the chart into the documentation of this checkout; returns its name, None where there is no checkout. A
    series whose name begins with "paper" is drawn as the paper's points."""
    if FIGURES is None or not FIGURES.parent.is_dir():
        return None
    FIGURES.mkdir(exist_ok=True)
    (FIGURES / f"{name}.svg").write_text(line_chart(title, across, up, series))
    return f"figures/{name}.svg"


def line_chart(title: str, across: str, up: str, series: Series) -> str:
    points = [point for line in series.values() for point in line]
    x_max = max(x for x, _ in points) or 1.0
    y_max = max(y for _, y in points) or 1.0
    right, base = WIDTH - 20, HEIGHT - BOTTOM

    def place(x: float, y: float) -> tuple[float, float]:
        return LEFT + x / x_max * (right - LEFT), base - y / y_max * (base - TOP)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"',
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{WIDTH / 2}" y="20" text-anchor="middle" font-size="14">{escape(title)}</text>',
        f'<text x="{(LEFT + right) / 2}" y="{HEIGHT - 12}" text-anchor="middle">{escape(across)}</text>',
        f'<text transform="translate(16 {(TOP + base) / 2}) rotate(-90)" text-anchor="middle">{escape(up)}</text>',
    ]
    for step in range(6):
        x, y = place(x_max * step / 5, y_max * step / 5)
        parts.append(f'<line x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{y_max * step / 5:.3g}</text>')
        parts.append(f'<text x="{x:.1f}" y="{base + 18}" text-anchor="middle">{x_max * step / 5:.3g}</text>')
    for place_in_legend, (label, line) in enumerate(series.items()):
        colour = COLOURS[place_in_legend % len(COLOURS)]
        placed = [place(*point) for point in line]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        dashes = ' stroke-dasharray="3 4"' if label.startswith(PAPER) else ""
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>')
        if dashes or len(placed) == 1:
            parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>' for x, y in placed]
        y = TOP + 6 + 16 * place_in_legend
        sample = f'x1="{LEFT + 12}" x2="{LEFT + 36}" y1="{y}" y2="{y}"'
        parts.append(f'<line {sample} stroke="{colour}" stroke-width="2"{dashes}/>')
        parts.append(f'<text x="{LEFT + 42}" y="{y + 4}">{escape(label)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"
