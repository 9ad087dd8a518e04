"""The overview in a real browser."""

from __future__ import annotations

import os

import pytest

from tests.user_interface.browser import CHROMIUM, chromium, overview_served
from tests.user_interface.world import build, build_empty

pytestmark = [
    pytest.mark.ui,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.skipif(not CHROMIUM.exists(), reason="Chromium is not installed; apt-get install chromium"),
]

PAINTED = """canvas => {
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  let count = 0;
  for (let i = 3; i < pixels.length; i += 4) count += pixels[i] > 0;
  return count;
}"""


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with overview_served(build(tmp_path_factory.mktemp("gateway"))) as url:
        yield url


def opened(browser, address, **options):
    """The page once it is live, and everything its console said."""
    said: list[str] = []
    page = browser.new_page(timezone_id="UTC", **options)
    page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(address)
    page.locator("#live[data-state=live]").wait_for()
    return page, said


def test_the_account_is_shown_and_adds_up(browser, address):
    page, said = opened(browser, address)
    produced, delivered, spooled, ledgered = (
        int(page.locator(f"#account-{name}").inner_text().replace(",", ""))
        for name in ("produced", "delivered", "spooled", "ledgered")
    )
    assert produced == delivered + spooled + ledgered > 0
    assert page.locator("#account-duplicates").inner_text() == "0"
    assert said == []
    page.close()


def test_charts_are_drawn_without_a_word_in_the_console(browser, address):
    page, said = opened(browser, address)
    lanes = page.locator("#arrivals canvas")
    lanes.nth(2).wait_for()
    page.locator("#results canvas").wait_for()
    assert lanes.count() == 3
    for index in range(3):
        assert lanes.nth(index).evaluate(PAINTED) > 1000
    assert page.locator("#results canvas").evaluate(PAINTED) > 1000
    assert page.locator("#account-bar").evaluate(PAINTED) > 1000
    assert said == []
    page.close()


def test_each_phone_has_a_row_that_says_offline_in_words(browser, address):
    page, _ = opened(browser, address)
    rows = page.locator("#phones tr")
    assert rows.count() == 3
    assert "offline since 07:59:19" in rows.nth(0).inner_text()
    assert "connected" in rows.nth(1).inner_text()
    assert "relay" in rows.nth(1).inner_text()
    page.close()


def test_another_value_of_a_sink_can_be_chosen(browser, address):
    page, said = opened(browser, address)
    page.locator("#results-column").select_option("points")
    page.locator("#results canvas").wait_for()
    labels = page.locator("#results .u-legend .u-label").all_inner_texts()
    assert [label for label in labels if label != "Time"] == ["bicycle-3", "bus-12", "tram-07"]
    assert said == []
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 768, 1280])
def test_nothing_needs_sideways_scrolling(browser, address, width, scheme):
    page, said = opened(browser, address, viewport={"width": width, "height": 800}, color_scheme=scheme)
    page.locator("#results canvas").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert said == []
    page.close()


def test_an_empty_gateway_says_what_to_do_first(browser, tmp_path):
    with overview_served(build_empty(tmp_path)) as url:
        page, said = opened(browser, url)
        assert page.locator("#arrivals-empty").is_visible()
        assert "resurge device pair" in page.locator("#arrivals-empty").inner_text()
        assert page.locator("#results-empty").is_visible()
        assert page.locator("#phones-empty").is_visible()
        assert said == []
        page.close()


def test_every_control_can_be_reached_by_keyboard(browser, address):
    page, _ = opened(browser, address)
    page.locator("#results canvas").wait_for()
    reached = set()
    for _step in range(20):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.className"))
    assert {"skip", "brand", "results-sink", "results-column", "scroll"} <= reached
    page.close()


def test_the_page_goes_on_by_itself_after_the_gateway_was_away(browser, tmp_path):
    feed = build(tmp_path)
    with overview_served(feed) as url:
        page, _ = opened(browser, url)
    page.locator("#live[data-state=lost]").wait_for()
    with overview_served(feed, port=int(url.rstrip("/").rsplit(":", 1)[1])):
        page.locator("#live[data-state=live]").wait_for(timeout=15_000)
        assert page.locator("#phones tr").count() == 3
        page.close()


def test_chromium_is_there_when_everything_can_be_installed():
    assert CHROMIUM.exists() or os.geteuid() != 0
