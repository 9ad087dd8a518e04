"""The icons, drawn as strokes on a grid of 24 by 24 with the origin at the top left; no font, no files."""

from __future__ import annotations

import math
from typing import Any

from kivy.graphics import Color, SmoothEllipse, SmoothLine
from kivy.metrics import dp
from kivy.uix.widget import Widget

from mobile_app.screens.widgets.appearance import look

Point = tuple[float, float]


def _arc(x: float, y: float, radius: float, start: float, end: float) -> list[Point]:
    """Points along a circle, degrees clockwise from the top."""
    steps = max(4, int(abs(end - start) / 12))
    angles = [math.radians(start + (end - start) * step / steps) for step in range(steps + 1)]
    return [(x + radius * math.sin(angle), y - radius * math.cos(angle)) for angle in angles]


def _circle(x: float, y: float, radius: float) -> list[Point]:
    return _arc(x, y, radius, 0, 360)


# name -> strokes; a stroke of one point is a dot with its radius as third number.
ICONS: dict[str, list[Any]] = {
    "record": [_circle(12, 12, 9), [(12, 12, 4.2)]],
    "live": [[(2.5, 12.5), (6.5, 12.5), (9.5, 4.5), (14, 19.5), (17, 12.5), (21.5, 12.5)]],
    "flow": [_circle(12, 4.8, 2.4), _circle(5.8, 19.2, 2.4), _circle(18.2, 19.2, 2.4),
             [(12, 7.4), (12, 11.6)], [(5.8, 16.6), (5.8, 14), (8.2, 11.6), (15.8, 11.6), (18.2, 14), (18.2, 16.6)]],
    "buffer": [[(4, 6), (5.2, 4.4), (8, 3.3), (12, 3), (16, 3.3), (18.8, 4.4), (20, 6),
               (18.8, 7.6), (16, 8.7), (12, 9), (8, 8.7), (5.2, 7.6), (4, 6), (4, 18), (5.2, 19.6), (8, 20.7), (12, 21),
               (16, 20.7), (18.8, 19.6), (20, 18), (20, 6)],
               [(4, 12), (5.2, 13.6), (8, 14.7), (12, 15), (16, 14.7), (18.8, 13.6), (20, 12)]],
    "results": [[(4, 3.5), (4, 20.5), (20.5, 20.5)], [(8.5, 16.5), (8.5, 12)], [(13, 16.5), (13, 7)],
                [(17.5, 16.5), (17.5, 10)]],
    "setup": [[(3, 7), (11.5, 7)], [(17.5, 7), (21, 7)], _circle(14.5, 7, 2.7), [(3, 17), (6.5, 17)],
              [(12.5, 17), (21, 17)], _circle(9.5, 17, 2.7)],
    "stop": [[(7, 7), (17, 7), (17, 17), (7, 17), (7, 7)]],
    "flag": [[(5, 21.5), (5, 3.5), (18.5, 3.5), (15.5, 8.3), (18.5, 13), (5, 13)]],
    "check": [[(4.5, 12.5), (9.5, 17.5), (19.5, 6.5)]],
    "close": [[(6, 6), (18, 18)], [(18, 6), (6, 18)]],
    "back": [[(20, 12), (4.5, 12)], [(11, 5.5), (4.5, 12), (11, 18.5)]],
    "next": [[(9, 5), (16, 12), (9, 19)]],
    "down": [[(5, 9), (12, 16), (19, 9)]],
    "more": [[(12, 5.5, 1.7)], [(12, 12, 1.7)], [(12, 18.5, 1.7)]],
    "share": [_circle(6, 12, 2.6), _circle(17.5, 5.2, 2.6), _circle(17.5, 18.8, 2.6), [(8.3, 10.7), (15.2, 6.6)],
              [(8.3, 13.3), (15.2, 17.4)]],
    "trash": [[(4, 6.5), (20, 6.5)], [(9, 6.3), (9.6, 3.5), (14.4, 3.5), (15, 6.3)],
              [(6, 6.8), (7, 20.5), (17, 20.5), (18, 6.8)], [(10.2, 10.5), (10.5, 17)], [(13.8, 10.5), (13.5, 17)]],
    "edit": [[(4, 20), (4.8, 15.8), (16.2, 4.4), (19.6, 7.8), (8.2, 19.2), (4, 20)], [(13.8, 6.8), (17.2, 10.2)]],
    "cloud": [[(7, 19), (4.6, 18.2), (3, 16), (3.2, 13.2), (5, 11.3), (6.7, 10.8), (7.6, 7.8), (10, 5.8), (13, 5.4),
               (16, 6.8), (17.6, 9.6), (17.8, 11), (20, 12), (21.2, 14.4), (20.6, 17), (18.6, 18.7), (17, 19),
               (7, 19)]],
    "phone": [[(8.5, 2.5), (15.5, 2.5), (17, 4), (17, 20), (15.5, 21.5), (8.5, 21.5), (7, 20), (7, 4), (8.5, 2.5)],
              [(10.8, 18.6), (13.2, 18.6)]],
    "alert": [[(12, 3.5), (21.5, 20), (2.5, 20), (12, 3.5)], [(12, 9.8), (12, 14)], [(12, 17, 1.1)]],
    "info": [_circle(12, 12, 9), [(12, 11), (12, 16.5)], [(12, 7.7, 1.2)]],
    "offline": [[(3.5, 3.5), (20.5, 20.5)], _arc(12, 19, 9.5, -42, -14), _arc(12, 19, 9.5, 12, 42),
                _arc(12, 19, 14.5, -42, -22), _arc(12, 19, 14.5, -2, 42), [(12, 18.8, 1.5)]],
    "online": [_arc(12, 19, 5, -42, 42), _arc(12, 19, 9.7, -42, 42), _arc(12, 19, 14.4, -42, 42), [(12, 18.6, 1.5)]],
    "lock": [[(5.5, 10.5), (18.5, 10.5), (18.5, 20.5), (5.5, 20.5), (5.5, 10.5)],
             [(8, 10.3), (8, 7.5), *_arc(12, 7.5, 4, -90, 90), (16, 7.5), (16, 10.3)]],
    "link": [[(10, 14), (14, 10)], [(11, 7.5), *_arc(15.6, 8.4, 3.9, -60, 150), (16.5, 13)],
             [(13, 16.5), *_arc(8.4, 15.6, 3.9, 120, 330), (7.5, 11)]],
    "qr": [[(4, 4), (10, 4), (10, 10), (4, 10), (4, 4)], [(14, 4), (20, 4), (20, 10), (14, 10), (14, 4)],
           [(4, 14), (10, 14), (10, 20), (4, 20), (4, 14)], [(14, 14), (14, 17), (17, 17)], [(20, 14), (20, 16)],
           [(15, 20), (20, 20), (20, 19.5)]],
    "gps": [[(12, 21.5), (6.6, 14), *_arc(12, 9.5, 6.6, -110, 110), (17.4, 14), (12, 21.5)], _circle(12, 9.5, 2.3)],
    "motion": [[(12, 12), (12, 3)], [(8.8, 6), (12, 2.8), (15.2, 6)], [(12, 12), (20, 16.6)],
               [(16.6, 18.2), (20.2, 16.7), (19.7, 12.7)], [(12, 12), (4, 16.6)],
               [(4.3, 12.7), (3.8, 16.7), (7.4, 18.2)]],
    "compass": [_circle(12, 12, 9.2), [(15.8, 8.2), (13.4, 13.4), (8.2, 15.8), (10.6, 10.6), (15.8, 8.2)]],
    "sound": [[(12, 14.5), *_arc(12, 11.5, 3, 180, 270), (9, 6), *_arc(12, 6, 3, 270, 450), (15, 11.5),
               *_arc(12, 11.5, 3, 90, 180)], [(5.5, 11.5), *_arc(12, 11.5, 6.5, 270, 90)], [(12, 18), (12, 21.5)]],
    "battery": [[(2.5, 8), (19, 8), (19, 16), (2.5, 16), (2.5, 8)], [(21.5, 10.8), (21.5, 13.2)], [(6, 11), (6, 13)],
                [(9.5, 11), (9.5, 13)]],
    "light": [_circle(12, 12, 4), *[[(12 + 6.6 * math.sin(a), 12 - 6.6 * math.cos(a)),
              (12 + 9.4 * math.sin(a), 12 - 9.4 * math.cos(a))] for a in (math.radians(d) for d in range(0, 360, 45))]],
    "clock": [_circle(12, 12, 9), [(12, 6.5), (12, 12), (16, 14.3)]],
    "gauge": [_arc(12, 14, 9, -110, 110), [(12, 14), (16, 8.6)], [(12, 14, 1.4)]],
    "list": [[(8.5, 6), (20.5, 6)], [(8.5, 12), (20.5, 12)], [(8.5, 18), (20.5, 18)], [(4, 6, 1.3)], [(4, 12, 1.3)],
             [(4, 18, 1.3)]],
    "trace": [[(4.5, 18.5), (9, 9), (14, 14.5), (19.5, 5)], [(4.5, 18.5, 2)], [(19.5, 5, 2)]],
    "filter": [[(3, 4.5), (21, 4.5), (14.5, 12), (14.5, 20), (9.5, 17.5), (9.5, 12), (3, 4.5)]],
    "window": [[(3.5, 8), (3.5, 4.5), (20.5, 4.5), (20.5, 8)], [(3.5, 16), (3.5, 19.5), (20.5, 19.5), (20.5, 16)],
               [(8, 12), (16, 12)]],
    "box": [[(4, 7.5), (12, 3), (20, 7.5), (20, 16.5), (12, 21), (4, 16.5), (4, 7.5), (12, 12), (20, 7.5)],
            [(12, 12), (12, 21)]],
    "up": [[(12, 20.5), (12, 4)], [(5.5, 10.5), (12, 4), (18.5, 10.5)]],
    "return": [[(12, 3.5), (12, 20)], [(5.5, 13.5), (12, 20), (18.5, 13.5)]],
    "walk": [[(13, 4, 2)], [(12.4, 8.2), (11, 13.6), (14.2, 16.2), (15.2, 21)], [(11, 13.6), (9.8, 17.4), (7, 21)],
             [(7.2, 12.6), (8.6, 9.6), (12.4, 8.2), (14.4, 11.2), (17.4, 12.2)]],
    "bike": [_circle(5.6, 16, 3.9), _circle(18.4, 16, 3.9), [(5.6, 16), (9.2, 9), (15.6, 9), (18.4, 16)],
             [(9.2, 9), (12.2, 16), (15.6, 9)], [(5.6, 16), (12.2, 16)], [(7.6, 6.8), (10.2, 6.8)],
             [(15.6, 9), (14.8, 6.2), (17.4, 6.2)]],
    "bus": [[(5, 4), (19, 4), (20.5, 5.5), (20.5, 18), (3.5, 18), (3.5, 5.5), (5, 4)], [(3.5, 12), (20.5, 12)],
            [(7.5, 15, 1.2)], [(16.5, 15, 1.2)], [(6.5, 18), (6.5, 20.5)], [(17.5, 18), (17.5, 20.5)]],
    "car": [[(3, 17), (3, 13), (4.6, 11.4), (7, 6), (17, 6), (19.4, 11.4), (21, 13), (21, 17), (3, 17)],
            [(4.6, 11.4), (19.4, 11.4)], [(7, 14.2, 1.2)], [(17, 14.2, 1.2)], [(5.5, 17), (5.5, 19.5)],
            [(18.5, 17), (18.5, 19.5)]],
    "train": [[(8, 3), (16, 3), (18.5, 5.5), (18.5, 14.5), (16, 17), (8, 17), (5.5, 14.5), (5.5, 5.5), (8, 3)],
              [(5.5, 10), (18.5, 10)], [(9, 13.5, 1.2)], [(15, 13.5, 1.2)], [(8.5, 17), (6, 21.5)],
              [(15.5, 17), (18, 21.5)]],
    "key": [_circle(7.5, 12, 4), [(11.5, 12), (21, 12), (21, 15.5)], [(16.8, 12), (16.8, 15)]],
}  # fmt: skip

SENSORS = {
    "gps": "gps", "location": "gps", "accelerometer": "motion", "linear_acceleration": "motion", "gravity": "motion",
    "gyroscope": "compass", "magnetometer": "compass", "compass": "compass", "orientation": "compass",
    "microphone": "sound", "battery": "battery", "light": "light", "pressure": "gauge", "barometer": "gauge",
    "network": "online", "wifi": "online", "cell": "online", "timer": "clock", "steps": "trace",
}  # fmt: skip

# Words in results that have a picture of their own.
WORDS = {"walk": "walk", "bike": "bike", "bicycle": "bike", "bus": "bus", "car": "car", "train": "train"}


def sensor_icon(name: str) -> str:
    return SENSORS.get(name, "live")


class Icon(Widget):
    """One icon; its strokes scale with its side."""

    def __init__(self, name: str, *, side: float = 24, colour: str = "ink", stroke: float = 1.8, **more: Any) -> None:
        super().__init__(size_hint=(None, None), size=(dp(side), dp(side)), **more)
        self.name = name
        self._colour = colour
        self._stroke = stroke
        self.bind(pos=self._draw, size=self._draw)
        self._draw()

    def show(self, name: str, colour: str = "") -> None:
        if (name, colour or self._colour) != (self.name, self._colour):
            self.name, self._colour = name, colour or self._colour
            self._draw()

    def _draw(self, *_: object) -> None:
        self.canvas.clear()
        scale = min(self.size) / 24
        left, top = self.center_x - 12 * scale, self.center_y + 12 * scale
        with self.canvas:
            Color(*look.colour(self._colour))
            for stroke in ICONS[self.name]:
                if len(stroke) == 1:
                    x, y, radius = stroke[0]
                    SmoothEllipse(
                        pos=(left + (x - radius) * scale, top - (y + radius) * scale), size=[2 * radius * scale] * 2
                    )
                else:
                    closed = stroke[0] == stroke[-1]
                    points = [part for x, y in stroke for part in (left + x * scale, top - y * scale)]
                    SmoothLine(
                        points=points[:-2] if closed else points, close=closed,
                        width=max(1.0, self._stroke * scale / 2),
                    )  # fmt: skip
