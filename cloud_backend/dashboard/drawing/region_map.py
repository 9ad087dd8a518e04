"""The regions of a fleet as SVG: where they are and who is in them, and what happened in each over the last hour.

A region's area is drawn where it is, to scale as far as circles that can be read allow it. Phones are drawn in their
region, never where they stand: nobody is told that. Who may not see places gets the regions in a row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

WIDTH, HEIGHT, ROW_HEIGHT, MARGIN = 760, 320, 210, 84
RADIUS, RADIUS_MAX, DOT = 50.0, 92.0, 7.0
METRES_PER_DEGREE = 111_195.0
ROW, LEFT, AXIS, SPAN_US = 44, 120, 26, 3_600_000_000
KINDS = ("checkpoint", "failure", "departure", "bypass", "start")
LIGHTS = {"running": "fine", "checkpointing": "fine", "starting": "again", "recovering": "wrong"}
SCALES_M = (10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 50_000, 100_000, 500_000)


def region_map(regions: Sequence[Mapping[str, Any]], *, exact: bool) -> Markup:
    spots, radii, scale = _to_scale(regions) if exact else _in_row(regions)
    arrows = [
        _arrow(spots[other], radii[other], spots[each["name"]], radii[each["name"]])
        for each in regions for other in each["after"] if other in spots
    ]  # fmt: skip
    drawn = [_region(each, spots[each["name"]], radii[each["name"]]) for each in regions]
    width = max(WIDTH, *(x + radii[name] + 30 for name, (x, _) in spots.items()))
    height = HEIGHT if scale is not None else ROW_HEIGHT
    words = "; ".join(f"{each['name']} is {each['state']}, {len(each['members'])} phones" for each in regions)
    return Markup(
        '<svg class="graph regions" viewBox="0 0 {0:.0f} {1}" width="{0:.0f}" height="{1}" role="img" '
        'aria-label="Regions: {2}">{3}{4}{5}</svg>'
    ).format(width, height, words, Markup("").join(arrows), Markup("").join(drawn), _ruler(scale, height))


def region_timeline(regions: Sequence[Mapping[str, Any]], events: Sequence[Mapping[str, Any]], now_us: int) -> Markup:
    """One line for each region, the newest at the right."""
    height = AXIS + ROW * len(regions) + 8
    parts = []
    for place, region in enumerate(regions):
        y = AXIS + ROW * place + ROW / 2
        parts.append(
            Markup(
                '<text class="title" x="0" y="{:.0f}">{}</text>'
                '<line class="way" x1="{}" x2="{}" y1="{:.0f}" y2="{:.0f}"/>'
            ).format(y + 5, _short(region["name"]), LEFT, WIDTH - 12, y, y)
        )
        for event in events:
            age_us = now_us - event["at_us"]
            if event["region"] == region["name"] and 0 <= age_us <= SPAN_US:
                x = WIDTH - 12 - (WIDTH - 12 - LEFT) * age_us / SPAN_US
                parts.append(_mark(event, x, y))
    for minutes in (60, 45, 30, 15, 0):
        x = WIDTH - 12 - (WIDTH - 12 - LEFT) * minutes / 60
        parts.append(
            Markup(
                '<text x="{:.0f}" y="14" text-anchor="{}">{}</text>'
                '<line class="tick" x1="{:.0f}" x2="{:.0f}" y1="20" y2="{}"/>'
            ).format(x, "end" if not minutes else "middle", f"{minutes} min ago" if minutes else "now", x, x, height)
        )
    return Markup(
        '<svg class="graph regions timeline" viewBox="0 0 {0} {1}" width="{0}" height="{1}" role="img" '
        'aria-label="What happened in the last hour; the table below says the same">{2}</svg>'
    ).format(WIDTH, height, Markup("").join(parts))


def _mark(event: Mapping[str, Any], x: float, y: float) -> Markup:
    """Each kind has its own shape, so that nobody has to tell colours apart."""
    kind = event["kind"] if event["kind"] in KINDS else "start"
    shapes = {
        "checkpoint": Markup('<line x1="{x:.1f}" x2="{x:.1f}" y1="{a:.1f}" y2="{b:.1f}"/>'),
        "failure": Markup('<path d="M{l:.1f} {a:.1f}L{r:.1f} {b:.1f}M{r:.1f} {a:.1f}L{l:.1f} {b:.1f}"/>'),
        "departure": Markup('<path d="M{l:.1f} {a:.1f}L{r:.1f} {y:.1f}L{l:.1f} {b:.1f}Z"/>'),
        "bypass": Markup('<rect x="{l:.1f}" y="{a:.1f}" width="12" height="12"/>'),
        "start": Markup('<circle cx="{x:.1f}" cy="{y:.1f}" r="6"/>'),
    }
    shape = shapes[kind].format(x=x, y=y, l=x - 6, r=x + 6, a=y - 6, b=y + 6)
    return Markup('<g class="event {}"><title>{}: {}</title>{}</g>').format(kind, kind, event["text"], shape)


def _to_scale(
    regions: Sequence[Mapping[str, Any]],
) -> tuple[dict[str, tuple[float, float]], dict[str, float], float | None]:
    """Where they are, if circles that can be read do not cover each other; else in a row."""
    middles = {each["name"]: _middle(each) for each in regions}
    sizes = {each["name"]: max(each["radius_m"], _reach_m(each)) for each in regions}
    shrink = math.cos(math.radians(sum(lat for lat, _ in middles.values()) / len(middles)))
    metres = {
        name: (lon * METRES_PER_DEGREE * shrink, -lat * METRES_PER_DEGREE) for name, (lat, lon) in middles.items()
    }
    left, top = min(x for x, _ in metres.values()), min(y for _, y in metres.values())
    wide, high = max(x for x, _ in metres.values()) - left, max(y for _, y in metres.values()) - top
    fits = [(WIDTH - 2 * MARGIN - 60) / wide if wide else math.inf, (HEIGHT - 2 * MARGIN) / high if high else math.inf]
    scale = min(*fits, RADIUS_MAX / max(*sizes.values(), 1.0))
    radii = {name: min(RADIUS_MAX, max(RADIUS, size * scale)) for name, size in sizes.items()}
    x0, y0 = (WIDTH - wide * scale) / 2, (HEIGHT - high * scale) / 2
    spots = {name: (x0 + (x - left) * scale, y0 + (y - top) * scale - 8) for name, (x, y) in metres.items()}
    names = list(spots)
    covers = any(
        math.dist(spots[one], spots[other]) < radii[one] + radii[other] + 16
        for place, one in enumerate(names)
        for other in names[place + 1 :]
    )
    return _in_row(regions) if covers else (spots, radii, scale)


def _in_row(
    regions: Sequence[Mapping[str, Any]],
) -> tuple[dict[str, tuple[float, float]], dict[str, float], float | None]:
    apart = max(150.0, WIDTH / len(regions))
    spots = {each["name"]: (apart * (place + 0.5), ROW_HEIGHT / 2 - 20) for place, each in enumerate(regions)}
    return spots, dict.fromkeys(spots, 58.0), None


def _region(region: Mapping[str, Any], spot: tuple[float, float], radius: float) -> Markup:
    (x, y), members = spot, region["members"]
    count = max(1, len(members))
    dot = DOT if count <= 16 else 4.0
    turn = 2 * math.pi / count
    dots = [
        Markup('<circle class="phone {}" cx="{:.1f}" cy="{:.1f}" r="{}"><title>{}: {}</title></circle>').format(
            place, x + radius * math.sin(turn * at), y - radius * math.cos(turn * at), dot, name, place
        )
        for at, (name, place) in enumerate(members)
    ]
    light = LIGHTS.get(region["state"], "off")
    here = sum(place != "dwelling" for _, place in members)
    return Markup(
        '<g class="region {0}"><circle class="area" cx="{1:.1f}" cy="{2:.1f}" r="{3:.1f}"/>{4}'
        '<text class="count" x="{1:.1f}" y="{5:.1f}" text-anchor="middle">{6}</text>'
        '<text x="{1:.1f}" y="{7:.1f}" text-anchor="middle">of {8} needed</text>'
        '<text class="title" x="{1:.1f}" y="{9:.1f}" text-anchor="middle">{10}</text>'
        '<text x="{1:.1f}" y="{11:.1f}" text-anchor="middle">{12}</text></g>'
    ).format(
        light, x, y, radius, Markup("").join(dots), y + 1, here, y + 16, region["threshold"], y + radius + 22,
        _short(region["name"]), y + radius + 37, region["state"],
    )  # fmt: skip


def _arrow(one: tuple[float, float], from_r: float, other: tuple[float, float], to_r: float) -> Markup:
    far = math.dist(one, other) or 1.0
    dx, dy = (other[0] - one[0]) / far, (other[1] - one[1]) / far
    start = (one[0] + dx * (from_r + 4), one[1] + dy * (from_r + 4))
    end = (other[0] - dx * (to_r + 5), other[1] - dy * (to_r + 5))
    base = (end[0] - dx * 9, end[1] - dy * 9)
    return Markup(
        '<path class="edge" d="M{:.1f} {:.1f}L{:.1f} {:.1f}"/>'
        '<path class="tip" d="M{:.1f} {:.1f}L{:.1f} {:.1f}L{:.1f} {:.1f}Z"/>'
    ).format(*start, *base, *end, base[0] - dy * 5, base[1] + dx * 5, base[0] + dy * 5, base[1] - dx * 5)


def _ruler(scale: float | None, height: int) -> Markup:
    if scale is None:
        return Markup('<text x="8" y="{}">Not to scale</text>').format(height - 6)
    metres = next((each for each in SCALES_M if each * scale >= 60), SCALES_M[-1])
    text = f"{metres} m" if metres < 1_000 else f"{metres // 1_000} km"
    return Markup(
        '<path class="edge" d="M8 {0}v5h{1:.1f}v-5"/>'
        '<text x="{2:.1f}" y="{3}">{4}; areas are drawn larger where they would be too small</text>'
    ).format(height - 14, metres * scale, 16 + metres * scale, height - 6, text)


def _middle(region: Mapping[str, Any]) -> tuple[float, float]:
    points = region["points"]
    return sum(point[0] for point in points) / len(points), sum(point[1] for point in points) / len(points)


def _reach_m(region: Mapping[str, Any]) -> float:
    """From the middle of corners to the farthest."""
    middle = _middle(region)
    shrink = math.cos(math.radians(middle[0]))
    return max(
        math.hypot((lat - middle[0]) * METRES_PER_DEGREE, (lon - middle[1]) * METRES_PER_DEGREE * shrink)
        for lat, lon in region["points"]
    )


def _short(name: str) -> str:
    return name if len(name) <= 16 else f"{name[:15]}…"
