"""Every Python example of README, tutorial, semantics and heart runs, and prints what the page says it prints.

The blocks of one page share their names, from top to bottom. A ```text block right after a ```python block is its output.
"""

from __future__ import annotations

import contextlib
import io
import linecache
import re
import threading
from pathlib import Path

import pytest

import resurge as rs
from mobile_app.headless import RunOptions, run
from mobile_app.sensors.choose import parse_choices
from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/tutorial.md", "docs/semantics.md", "docs/heart.md")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)


def examples(page: str) -> list[tuple[int, str, str | None]]:
    """(line, code, expected output or None) of each Python block of a page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = list(FENCE.finditer(text))
    found = []
    for block, following in zip(blocks, [*blocks[1:], None], strict=True):
        if block[1] != "python":
            continue
        directly = (
            following is not None and following[1] == "text" and not text[block.end() : following.start()].strip()
        )
        line = text.count("\n", 0, block.start()) + 2
        found.append((line, block[2], following[2] if directly and following else None))
    return found


GPX = """<gpx xmlns="http://www.topografix.com/GPX/1/1"><trk><trkseg>{}</trkseg></trk></gpx>"""
POINT = """<trkpt lat="{}" lon="8.5"><time>2024-05-01T10:{:02}:{:02}Z</time></trkpt>"""


def test_the_readmes_program_keeps_the_fixes_of_a_gpx_without_accuracies(tmp_path) -> None:
    points = [POINT.format(47 + second / 1e5, second // 60, second % 60) for second in range(0, 3000, 5)]
    (tmp_path / "walk.gpx").write_text(GPX.format("".join(points)))
    (tmp_path / "program.py").write_text(examples("README.md")[0][1])
    stop = threading.Event()
    account = run(
        RunOptions(
            home=tmp_path / "home", plan=rs.load_program(tmp_path / "program.py"), speed=600.0, for_s=PATIENCE_S,
            sensors=parse_choices([f"gps=recording:{tmp_path}/walk.gpx"]), stop=stop,
            on_view=lambda view: stop.set() if view["produced"] > 50 else None,
        )
    )  # fmt: skip
    assert account["produced"] > 0
    assert account["filtered"] == 0


@pytest.mark.parametrize("page", PAGES)
def test_every_example_of_a_page_runs_and_prints_what_it_says(page: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)  # an example may write files
    names: dict[str, object] = {"__name__": "program"}
    blocks = examples(page)
    assert blocks, f"{page} has no example"
    for line, code, expected in blocks:
        place = f"{page}:{line}"
        # Errors quote the user's line: let linecache find it in the page.
        linecache.cache[place] = (len(code), None, code.splitlines(keepends=True), place)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, place, "exec"), names)
        if expected is not None:
            assert printed.getvalue() == expected, place
