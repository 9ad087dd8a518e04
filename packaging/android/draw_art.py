"""Draws the app's icon, its adaptive parts and the picture of its start, from the dashboard's mark.

    python packaging/android/draw_art.py        writes packaging/android/art and mobile_app/icon.png

The mark is a line that sinks and comes back. `cloud_backend/dashboard/static/mark.svg` has it as SVG, in the same
numbers: a grid of 32 by 32. A notification's icon must be one shape without colours, so that is a vector of its own,
`res/drawable/notice.xml`.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

ART = Path(__file__).parent / "art"
WINDOW_ICON = Path(__file__).parents[2] / "mobile_app" / "icon.png"
FONT = Path(str(find_spec("kivy").origin)).parent / "data" / "fonts" / "Roboto-Bold.ttf"
GROUND, DIP, LINE = "#0a5c73", "#6fbdd2", "#ffffff"
GRID = 32
FINE = 4  # drawn this much larger, then made smaller: smooth edges
MIDDLE = (16.0, 17.3)  # of what is drawn, a little below the grid's own middle

Point = tuple[float, float]
DIPPING = (
    ((10.5, 12.0), (13.5, 12.0), (12.5, 23.0), (16.0, 23.0)),
    ((16.0, 23.0), (19.5, 23.0), (18.5, 12.0), (21.5, 12.0)),
)


def bezier(start: Point, one: Point, other: Point, end: Point, steps: int = 60) -> list[Point]:
    def at(share: float) -> Point:
        rest = 1 - share
        weights = (rest**3, 3 * rest**2 * share, 3 * rest * share**2, share**3)
        x, y = (
            sum(w * point[axis] for w, point in zip(weights, (start, one, other, end), strict=True)) for axis in (0, 1)
        )
        return x, y

    return [at(step / steps) for step in range(steps + 1)]


def mark(image: Image.Image, *, unit: float, centre: Point) -> None:
    """Draw the mark with `unit` pixels to one of the grid, its middle at `centre`."""
    draw = ImageDraw.Draw(image)

    def place(point: Point) -> Point:
        return centre[0] + (point[0] - MIDDLE[0]) * unit, centre[1] + (point[1] - MIDDLE[1]) * unit

    def stroke(points: list[Point], width: float, colour: str) -> None:
        placed, radius = [place(point) for point in points], width * unit / 2
        for x, y in placed:
            draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=colour)
        draw.line(placed, fill=colour, width=round(2 * radius))

    stroke([point for part in DIPPING for point in bezier(*part)], 3.2, DIP)
    stroke([(4, 12), (11, 12)], 3.6, LINE)
    stroke([(21, 12), (28, 12)], 3.6, LINE)


def canvas(width: int, height: int, colour: str | None) -> Image.Image:
    return Image.new("RGBA", (width * FINE, height * FINE), colour or (0, 0, 0, 0))


def smooth(image: Image.Image) -> Image.Image:
    return image.resize((image.width // FINE, image.height // FINE), Image.Resampling.LANCZOS)


def icon(side: int) -> Image.Image:
    """For launchers without adaptive icons and for windows: rounded by itself."""
    image = canvas(side, side, None)
    ImageDraw.Draw(image).rounded_rectangle((0, 0, side * FINE - 1, side * FINE - 1), side * FINE / 4, fill=GROUND)
    mark(image, unit=side * FINE / GRID * 0.94, centre=(side * FINE / 2, side * FINE / 2))
    return smooth(image)


def foreground() -> Image.Image:
    """108 dp at four pixels each; launchers cut any shape that leaves the middle 66 dp, so the mark stays in there."""
    side = 108 * 4
    image = canvas(side, side, None)
    mark(image, unit=1.9 * 4 * FINE, centre=(side * FINE / 2, side * FINE / 2))
    return smooth(image)


def presplash() -> Image.Image:
    """The mark and the name; the ground around the picture is android.presplash_color."""
    image = canvas(720, 1280, GROUND)
    mark(image, unit=9 * FINE, centre=(360 * FINE, 580 * FINE))
    face = ImageFont.truetype(str(FONT), 58 * FINE)
    ImageDraw.Draw(image).text((360 * FINE, 735 * FINE), "Resurge", font=face, fill=LINE, anchor="mm")
    return smooth(image)


def main() -> None:
    ART.mkdir(exist_ok=True)
    icon(512).save(ART / "icon.png", optimize=True)
    foreground().save(ART / "foreground.png", optimize=True)
    Image.new("RGB", (432, 432), GROUND).save(ART / "background.png", optimize=True)
    presplash().convert("RGB").save(ART / "presplash.png", optimize=True)
    icon(256).save(WINDOW_ICON, optimize=True)


if __name__ == "__main__":
    main()
