"""The overview in a real browser."""

from __future__ import annotations

import contextlib

import pytest
from playwright.sync_api import expect

from tests.user_interface.browser import ACCOUNT, Console, new_page, no_wider_than, overview_served
from tests.user_interface.world import build, build_empty

pytestmark = [
    pytest.mark.ui,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

PAINTED = """canvas => {
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  let count = 0;
  for (let i = 3; i < pixels.length; i += 4) count += pixels[i] > 0;
  return count > 1000;
}"""


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with overview_served(build(tmp_path_factory.mktemp("gateway"))) as url:
        yield url


@contextlib.contextmanager
def opened(browser, address, **options):
    """The page once it is live; nothing may be said in its console."""
    page = new_page(browser, timezone_id="UTC", **options)
    console = Console(page)
    page.goto(address)
    page.locator("#live[data-state=live]").wait_for()
    yield page
    assert console.lines == []
    page.close()


def painted(canvas):
    canvas.wait_for()
    canvas.page.wait_for_function(PAINTED, arg=canvas.element_handle())


def test_the_account_is_shown_and_adds_up(browser, address):
    with opened(browser, address) as page:
        produced, delivered, spooled, ledgered = page.evaluate(ACCOUNT)
        assert produced == delivered + spooled + ledgered > 0
        expect(page.locator("#account-duplicates")).to_have_text("0")


def test_charts_are_drawn_without_a_word_in_the_console(browser, address):
    with opened(browser, address) as page:
        lanes = page.locator("#arrivals canvas")
        expect(lanes).to_have_count(3)
        for index in range(3):
            painted(lanes.nth(index))
        painted(page.locator("#results canvas"))
        painted(page.locator("#account-bar"))


def test_each_phone_has_a_row_that_says_offline_in_words(browser, address):
    with opened(browser, address) as page:
        rows = page.locator("#phones tr")
        expect(rows).to_have_count(3)
        expect(rows.nth(0)).to_contain_text("offline since 07:59:19")
        expect(rows.nth(1)).to_contain_text("connected")
        expect(rows.nth(1)).to_contain_text("relay")


def test_another_value_of_a_sink_can_be_chosen(browser, address):
    with opened(browser, address) as page:
        page.locator("#results-column").select_option("points")
        labels = page.locator("#results .u-legend .u-label").filter(has_not_text="Time")
        expect(labels).to_have_text(["bicycle-3", "bus-12", "tram-07"])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_needs_sideways_scrolling(browser, address, scheme):
    with opened(browser, address, viewport={"width": 360, "height": 800}, color_scheme=scheme) as page:
        for width in (360, 768, 1280):
            page.set_viewport_size({"width": width, "height": 800})
            page.goto(address)  # drawn for this width, not stretched to it
            page.locator("#results canvas").wait_for()
            no_wider_than(page, width)


def test_an_empty_gateway_says_what_to_do_first(browser, tmp_path):
    with overview_served(build_empty(tmp_path)) as url, opened(browser, url) as page:
        expect(page.locator("#arrivals-empty")).to_contain_text("resurge device pair")
        for part in ("arrivals", "results", "phones"):
            expect(page.locator(f"#{part}-empty")).to_be_visible()


def test_every_control_can_be_reached_by_keyboard(browser, address):
    with opened(browser, address) as page:
        page.locator("#results canvas").wait_for()
        reached = set()
        for _step in range(20):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("document.activeElement.id || document.activeElement.className"))
        assert {"skip", "brand", "results-sink", "results-column", "scroll"} <= reached


def test_the_page_goes_on_by_itself_after_the_gateway_was_away(browser, tmp_path):
    feed = build(tmp_path)
    with overview_served(feed) as url:
        page = new_page(browser)
        page.goto(url)
        page.locator("#live[data-state=live]").wait_for()
    page.locator("#live[data-state=lost]").wait_for()
    with overview_served(feed, port=int(url.rstrip("/").rsplit(":", 1)[1])):
        page.locator("#live[data-state=live]").wait_for()
        expect(page.locator("#phones tr")).to_have_count(3)
        page.close()
