"""`resurge bench ui`: a frame of the app's plot against kivy_garden.graph's: 3 series of 1,000 points, new each frame.

Both draw into the same window, in turns, with axes and labels, over the same range. Points are handed over in the form
each wants, made before the clock starts. A frame is timed from handing over the points until GL has finished it, and
also until all of it was handed to GL: the rest is the graphics card's work on a phone, the processor's where there is
none (the renderer is named). Two signals: a walk as an accelerometer sees it, and noise, where a line is all corners.
Without a screen SDL's offscreen driver draws into memory.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

from resurge.bench._rounds import at_most, interleave, ratio, versions

SERIES, POINTS, SHAPES = 3, 1000, 8
FRAMES = 40
SIGNALS = {"walk": 0.06, "noise": 0.3}  # how much of the signal is noise
OURS, PEERS = "ours", ("LinePlot", "MeshLinePlot")
CONTENDERS = (OURS, *PEERS)


def run(rounds: int = 5, quick: bool = False) -> dict[str, Any]:
    if not os.environ.get("DISPLAY"):
        os.environ.setdefault("SDL_VIDEODRIVER", "offscreen")
    frames, rounds = (5, 2) if quick else (FRAMES, rounds)
    figures: dict[str, Any] = {"points": f"{SERIES} x {POINTS}"}
    checks: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as directory:
        os.environ.update(KIVY_HOME=directory, KIVY_NO_ARGS="1", KIVY_NO_FILELOG="1", KIVY_NO_CONSOLELOG="1")
        stage = _Stage()
        figures["renderer"] = stage.renderer()
        for signal in SIGNALS:
            stage.handing.clear()
            rates = interleave({name: stage.contender(name, signal, frames) for name in CONTENDERS}, rounds)
            peer = max(PEERS, key=lambda name: statistics.median(rates[name]))
            whole = 1 / ratio(rates, OURS, peer)
            handed = {name: statistics.median(stage.handing[name]) for name in CONTENDERS}
            before_gl = handed[OURS] / min(handed[name] for name in PEERS)
            figures[signal] = {
                **{f"{name}, ms": round(1000 / statistics.median(measured), 2) for name, measured in rates.items()},
                **{f"{name}, ms until handed to GL": round(1000 * seconds, 2) for name, seconds in handed.items()},
                "ours / the faster peer": round(whole, 3),
                "ours / the faster peer, until handed to GL": round(before_gl, 3),
            }  # fmt: skip
            if signal == "walk":
                checks = [
                    at_most("a frame, ours / the faster plot of kivy_garden.graph", whole, 0.5),
                    at_most("until it is handed to GL", before_gl, 0.5),
                ]
    return {
        "bench": "ui",
        "checks": checks,
        "figures": figures,
        "rounds": rounds,
        "versions": versions("kivy", "kivy_garden.graph", "numpy"),
    }


class _Stage:
    """One window; contenders take turns on it."""

    def __init__(self) -> None:
        from kivy.config import Config

        Config.set("graphics", "width", "412")
        Config.set("graphics", "height", "600")
        Config.set("graphics", "maxfps", "0")
        import numpy as np
        from kivy.app import App
        from kivy.base import EventLoop
        from kivy.core.window import Window
        from kivy.uix.boxlayout import BoxLayout
        from kivy.uix.widget import Widget
        from kivy_garden.graph import Graph, LinePlot, MeshLinePlot

        from mobile_app.screens.widgets.plots import LinePlot as Ours

        self._loop, self._window = EventLoop, Window
        place = BoxLayout()
        self._place = place

        class Bench(App):  # type: ignore[misc]
            def build(self) -> BoxLayout:
                return place

        self._app = Bench()
        self._app._run_prepare()
        x = np.linspace(0, 30, POINTS)
        random = np.random.default_rng(3)
        self._shapes = {
            signal: [
                [index + np.sin(x * (index + 1) + turn) + random.normal(0, noise, POINTS) for index in range(SERIES)]
                for turn in range(SHAPES)
            ]
            for signal, noise in SIGNALS.items()
        }  # fmt: skip
        self._pairs = {
            signal: [[list(zip(x.tolist(), y.tolist(), strict=True)) for y in series] for series in shapes]
            for signal, shapes in self._shapes.items()
        }
        self._x = x
        self._ours = Ours([f"series-{index}" for index in range(SERIES)], height=560)
        self._widgets: dict[str, Widget] = {OURS: self._ours}
        self._plots: dict[str, list[Any]] = {}
        self.handing: dict[str, list[float]] = {}
        for name, kind in zip(PEERS, (LinePlot, MeshLinePlot), strict=True):
            graph = Graph(xmin=0, xmax=30, ymin=-2, ymax=4, x_ticks_major=15, y_ticks_major=2, x_grid_label=True,
                          y_grid_label=True, y_grid=True, padding=5)  # fmt: skip
            self._plots[name] = [kind(color=(0.2 * index, 0.5, 0.8, 1)) for index in range(SERIES)]
            for plot in self._plots[name]:
                graph.add_plot(plot)
            self._widgets[name] = graph

    def _show(self, name: str, signal: str, turn: int) -> None:
        if name == OURS:
            shapes = self._shapes[signal][turn % SHAPES]
            self._ours.show(self._x, shapes, (0.0, 30.0), [(0.0, "30 s ago"), (1.0, "now")])
            return
        for plot, pairs in zip(self._plots[name], self._pairs[signal][turn % SHAPES], strict=True):
            plot.points = pairs

    def contender(self, name: str, signal: str, frames: int) -> Callable[[], float]:
        """Takes the stage, draws, and returns frames per second by its median frame."""
        from kivy.graphics.opengl import glFinish

        def draw() -> float:
            self._place.clear_widgets()
            self._place.add_widget(self._widgets[name])
            whole, handed = [], []
            for turn in range(frames + 3):
                start = time.perf_counter()
                self._show(name, signal, turn)
                self._loop.idle()
                handed.append(time.perf_counter() - start)
                glFinish()
                whole.append(time.perf_counter() - start)
            self.handing.setdefault(name, []).append(statistics.median(handed[3:]))
            return 1 / statistics.median(whole[3:])

        return draw

    def renderer(self) -> str:
        from kivy.graphics.opengl import GL_RENDERER, glGetString

        return bytes(glGetString(GL_RENDERER)).decode(errors="replace")
