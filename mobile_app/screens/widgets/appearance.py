"""The look in force: palette, room that system bars take, and colours ready for the canvas.

Screens read it while they are built; the app builds them anew when it changes, so nothing needs to follow it.
"""

from __future__ import annotations

from dataclasses import dataclass

from kivy.metrics import dp, sp

from mobile_app.screens.widgets.theme import LIGHT, PALETTES, TYPE, Palette, rgb

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

    def blend(self, part: str, over: str, share: float) -> Colour:
        """This share of a colour over another, opaque.

        Kivy draws the soft edge of a translucent shape through a stencil of its own, and then a scrolling page no
        longer cuts it off: it would lie over the header.
        """
        top, ground = self.colour(part), self.colour(over)
        red, green, blue = (share * one + (1 - share) * other for one, other in zip(top[:3], ground[:3], strict=True))
        return red, green, blue, 1.0


look = Look()


def text_size(name: str) -> float:
    return float(sp(TYPE[name]))


def pixels(distance: float) -> float:
    return float(dp(distance))
