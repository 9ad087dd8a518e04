"""`make shots`: every page as a customer sees it, desktop and phone width, light and dark, into docs/shots.

Beside the pictures lies the hash of everything they depend on; a test compares it with the sources, so a page
cannot change without its pictures.
"""

from __future__ import annotations

import hashlib
import io
import json
import tempfile
from pathlib import Path

from PIL import Image

from tests.user_interface.browser import chromium, served
from tests.user_interface.world import build

ROOT = Path(__file__).resolve().parents[2]
SHOTS = ROOT / "docs" / "shots"
SOURCES = SHOTS / "sources.json"
BYTES_MAX = 150_000
SIZES = {"desktop": (1280, 800), "phone": (390, 844)}
SCHEMES = ("light", "dark")


def source_hash() -> str:
    """Over every file that can change a picture."""
    dashboard = ROOT / "cloud_backend" / "dashboard"
    files = [
        *dashboard.rglob("*.py"),
        *dashboard.glob("templates/*"),
        *(p for p in dashboard.rglob("static/**/*") if p.is_file()),
    ]
    files += [ROOT / "tests" / "user_interface" / name for name in ("world.py", "shots.py")]
    sha = hashlib.sha256()
    for path in sorted(files):
        sha.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return sha.hexdigest()


def save(png: bytes, path: Path) -> None:
    """Flat colours and grey text fit a palette: a third of the bytes, no difference an eye finds."""
    Image.open(io.BytesIO(png)).convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
        path, optimize=True
    )


def main() -> None:
    SHOTS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory, served(build(Path(directory))) as address, chromium() as browser:
        for size, (width, height) in SIZES.items():
            for scheme in SCHEMES:
                page = browser.new_page(
                    viewport={"width": width, "height": height}, color_scheme=scheme, device_scale_factor=1,
                    timezone_id="UTC", reduced_motion="reduce",
                )  # fmt: skip
                page.goto(address)
                page.locator("#live[data-state=live]").wait_for()
                page.locator("#results canvas").wait_for()
                path = SHOTS / f"dashboard-{size}-{scheme}.png"
                save(page.screenshot(full_page=True), path)
                page.close()
                print(f"{path.relative_to(ROOT)}  {path.stat().st_size:,} bytes")
    SOURCES.write_text(json.dumps({"dashboard": source_hash()}, indent=1) + "\n")


if __name__ == "__main__":
    main()
