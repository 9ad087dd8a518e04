"""The look in force: palette, room that system bars take, and colours ready for the canvas.

Screens read it while they are built; the app builds them anew when it changes, so nothing needs to follow it.
"""

from __future__ import annotations

from dataclasses import dataclass

from kivy.metrics import dp, sp

from mobile_app.theme import LIGHT, PALETTES, TYPE, Palette, rgb

Colour = tuple[float, float, float, float]


@dataclass(slots=True)
class Look:
    palette: Palette = LIGHT
    insets: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)  # left, top, right, bottom, in pixels

    def choose(self, name: str) -> None:
        self.palette = PALETTES[name]

    def colour(self, part: str, alpha: float = 1.0) -> Colour:
        """The colour of a part of the palette, `#rrggbb`, or `series-2`."""
        if part.startswith("series-"):
            part = self.palette.series[int(part[7:]) % len(self.palette.series)]
        elif not part.startswith("#"):
            part = getattr(self.palette, part)
        return (*rgb(part), alpha)


look = Look()


def text_size(name: str) -> float:
    return float(sp(TYPE[name]))


def pixels(distance: float) -> float:
    return float(dp(distance))
