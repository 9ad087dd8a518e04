"""`make shots`: every page as a customer sees it, desktop and phone width, light and dark, into docs/shots.

Beside the pictures lies the hash of everything they depend on; a test compares it with the sources, so a page
cannot change without its pictures. `python -m tests.user_interface.shots devices jobs` takes only these again.
"""

from __future__ import annotations

import hashlib
import io
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page

from tests.user_interface.browser import chromium, new_page, served
from tests.user_interface.morning import ASKED_ID, Morning, build, build_empty

ROOT = Path(__file__).resolve().parents[2]
SHOTS = ROOT / "docs" / "shots"
SOURCES = SHOTS / "sources.json"
BYTES_MAX = 150_000
SIZES = {"desktop": (1280, 800), "phone": (390, 844)}
SCHEMES = ("light", "dark")
HEIGHT_MAX = 2600  # of a picture; a long table goes on below it
DRAWN_BY = ("drawing", "fleet", "history", "pages", "views")


def live(page: Page) -> None:
    page.locator("#live[data-state=live]").wait_for()


def overview(page: Page) -> None:
    live(page)
    page.locator("#results canvas").wait_for()
    page.locator("#arrivals canvas").first.wait_for()


def mapped(page: Page) -> None:
    live(page)
    page.locator("#map[data-state=shown], #map .map-note").first.wait_for()


def device(page: Page) -> None:
    mapped(page)
    page.locator("#arrivals canvas").wait_for()


def sink(page: Page) -> None:
    mapped(page)
    page.locator("#chart canvas").wait_for()


def coloured(page: Page) -> None:
    sink(page)
    page.locator("#scale:visible, #map .map-note").first.wait_for()


def pairing(page: Page) -> None:
    page.get_by_role("button", name="Make a code").click()
    page.locator(".qr-box svg").wait_for()


def query(page: Page) -> None:
    page.get_by_label("Name").fill("slow-trams")
    page.get_by_role("textbox", name="Query").fill(
        "SELECT device, AVG(speed) AS speed, COUNT(*) AS readings\n"
        "FROM gps\nWHERE speed < 3\nGROUP BY TUMBLE(10 MINUTES), device"
    )
    page.get_by_role("button", name="Explain").click()
    page.locator("#explained pre, #explained .notice").first.wait_for()


def rollback(page: Page) -> None:
    live(page)
    page.locator("#vertex").select_option(index=0)
    page.get_by_role("button", name="Dry run").click()
    page.locator("#dry-run-answer").wait_for()


def pages(morning: Morning) -> dict[str, tuple[str, Callable[[Page], None]]]:
    """Each page's picture: where it is, and what to wait for or do before it is taken."""
    first = next(phone for phone in morning.phones if phone.name == "bicycle-3").device.hex()
    return {
        "overview": ("/", overview),
        "devices": ("/devices", mapped),
        "device": (f"/devices/{first}", device),
        "fleets": ("/fleets", live),
        "move": (f"/fleets?asked={ASKED_ID}", live),
        "pair": ("/devices/pair", pairing),
        "streams": ("/streams", live),
        "stream": ("/streams/gps", live),
        "contracts": ("/contracts", live),
        "contract": ("/contracts/gps", live),
        "query": ("/queries/new", query),
        "jobs": ("/jobs", live),
        "job": ("/jobs/main", live),
        "rollback": ("/jobs/main#roll-back", rollback),
        "results": ("/results", live),
        "sink": ("/results/last_place", sink),
        "coloured": ("/results/last_place?from=2026-11-16T06:00:00Z&colour=speed", coloured),
        "logs": ("/logs", live),
        "audit": ("/audit", live),
        "account": ("/account", live),
        "people": ("/people", live),
    }


# The two pages that another world shows.
OTHERS = ("signin", "empty")


def source_hash() -> str:
    """Over every file that can change a picture."""
    dashboard = ROOT / "cloud_backend" / "dashboard"
    files = [path for room in DRAWN_BY for path in dashboard.glob(f"{room}/*.py")]
    files += dashboard.glob("templates/*")
    files += [path for path in dashboard.rglob("static/**/*") if path.is_file()]
    files += [ROOT / "tests" / "user_interface" / name for name in ("morning.py", "shots.py")]
    sha = hashlib.sha256()
    for path in sorted(files):
        sha.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return sha.hexdigest()


def save(png: bytes, path: Path) -> None:
    """Flat colours and grey text fit a palette: a third of the bytes, no difference an eye finds."""
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    picture.quantize(128, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(path, optimize=True)


def shoot(browser: Browser, address: str, name: str, prepare: Callable[[Page], None]) -> None:
    for size, (width, height) in SIZES.items():
        for scheme in SCHEMES:
            page = new_page(
                browser, viewport={"width": width, "height": height}, color_scheme=scheme, device_scale_factor=1,
                timezone_id="UTC", reduced_motion="reduce",
            )  # fmt: skip
            page.goto(address)
            prepare(page)
            path = SHOTS / f"{name}-{size}-{scheme}.png"
            # As tall as the page: the bar at the foot of a phone belongs at its foot in the picture too.
            tall = min(page.evaluate("document.documentElement.scrollHeight"), HEIGHT_MAX)
            page.set_viewport_size({"width": width, "height": max(tall, height)})
            save(page.screenshot(), path)
            page.close()
            print(f"{path.relative_to(ROOT)}  {path.stat().st_size:,} bytes", flush=True)


def main(names: list[str]) -> None:
    SHOTS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory, chromium() as browser:
        morning = build(Path(directory) / "morning")
        with served(morning.app) as address:
            for name, (place, prepare) in pages(morning).items():
                if not names or name in names:
                    shoot(browser, address + place, f"dashboard-{name}", prepare)
        empty = build_empty(Path(directory) / "empty")
        with served(empty.app, signed_in=False) as address:
            if not names or "signin" in names:
                shoot(browser, f"{address}/signin", "dashboard-signin", lambda _: None)
        with served(empty.app) as address:
            if not names or "empty" in names:
                shoot(browser, f"{address}/", "dashboard-empty", live)
    known = json.loads(SOURCES.read_text()) if SOURCES.exists() else {}
    SOURCES.write_text(json.dumps(known | {"dashboard": source_hash()}, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
