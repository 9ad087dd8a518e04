"""How the app looks, as plain data: two palettes of the same names, one type scale, one set of distances.

The colours are the dashboard's, so phone and fleet page are one product. Series colours are Okabe and Ito's, which
stay apart under every common kind of colour blindness; nothing is said by colour alone.
"""

from __future__ import annotations

from dataclasses import dataclass

# Sizes of text in scale-independent pixels: they follow the phone's own text size.
TYPE = {"display": 38, "headline": 26, "title": 17, "body": 15, "label": 13.5, "caption": 12}

# Distances in density-independent pixels.
GAP = 12  # between cards
INSET = 18  # from the edge of a card to what is in it
TOUCH = 48  # no control is smaller
CORNER = 16


@dataclass(frozen=True, slots=True)
class Palette:
    """Every colour has a part to play; screens name the part."""

    name: str
    page: str
    card: str
    raised: str  # what lies on a card: fields, chips, tracks of switches
    line: str
    ink: str
    soft: str  # second voice: still at least 4.5 : 1 on page and card
    faint: str
    accent: str
    on_accent: str
    tint: str  # the accent as a surface
    on_tint: str
    good: str
    warn: str
    bad: str
    warn_tint: str
    bad_tint: str
    grid: str
    delivered: str
    spooled: str
    ledgered: str
    series: tuple[str, ...]


LIGHT = Palette(
    name="light", page="#f5f6f4", card="#ffffff", raised="#eef0ed", line="#e1e4e0", ink="#17211f", soft="#5a6663",
    faint="#66716d", accent="#0a5c73", on_accent="#ffffff", tint="#dcecf0", on_tint="#0a4a5d", good="#00735a",
    warn="#a34700", bad="#b3261e", warn_tint="#fbeee2", bad_tint="#fbe9e7", grid="#e8ebe7", delivered="#0a7a99",
    spooled="#d9a21b", ledgered="#b5485d",
    series=("#0072b2", "#c24e00", "#00855f", "#a5518a", "#a87400", "#3a87b7"),
)  # fmt: skip

DARK = Palette(
    name="dark", page="#0f1413", card="#171e1d", raised="#222b2a", line="#28312f", ink="#e7ecea", soft="#a2aeab",
    faint="#8f9c98", accent="#63c3dc", on_accent="#06272f", tint="#123844", on_tint="#a9e2f1", good="#4cc9a2",
    warn="#f0995a", bad="#f2867c", warn_tint="#33231a", bad_tint="#361f1d", grid="#26302e", delivered="#3fb0cd",
    spooled="#e6b03f", ledgered="#e07a8c",
    series=("#56b4e9", "#f08a4b", "#3cc79d", "#d993bd", "#e6b03f", "#9fd2f2"),
)  # fmt: skip

PALETTES = {"light": LIGHT, "dark": DARK}


def rgb(colour: str) -> tuple[float, float, float]:
    """Red, green and blue of `#rrggbb`, each 0 to 1."""
    return tuple(int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))  # type: ignore[return-value]


def contrast(one: str, other: str) -> float:
    """The contrast ratio of WCAG 2: 1 for the same colour, 21 for black on white."""

    def luminance(colour: str) -> float:
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in rgb(colour)]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)
