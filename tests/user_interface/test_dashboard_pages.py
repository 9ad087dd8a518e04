"""Every page in a real browser, over a day of history: usable without a mouse, without eyes, on a phone, in the dark."""

from __future__ import annotations

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.user_interface.browser import Console, new_page, no_wider_than, served
from tests.user_interface.morning import build, build_empty
from tests.user_interface.shots import pages

pytestmark = [
    pytest.mark.ui,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
LEGEND = re.compile(r"^(Time|Value|)$")  # of a chart: its first label, and the value under the pointer
NAMES = (
    "overview", "devices", "device", "fleets", "pair", "streams", "stream", "contracts", "contract", "query",
    "jobs", "job", "rollback", "results", "sink", "audit", "account", "people",
)  # fmt: skip


@pytest.fixture(scope="module")
def morning(tmp_path_factory):
    built = build(tmp_path_factory.mktemp("morning"), hours=3.0)
    yield built
    built.close()


@pytest.fixture(scope="module")
def address(morning):
    with served(morning.app) as url:
        yield url


@pytest.fixture
def opened(browser, morning, address):
    """Opens a page of a name, and collects what the console says."""
    kept = []

    def open_page(name: str, **options):
        page = new_page(browser, timezone_id="UTC", reduced_motion="reduce", **options)
        kept.append((page, Console(page)))
        place, prepare = pages(morning)[name]
        page.goto(address + place)
        prepare(page)
        return page

    yield open_page
    for page, _ in kept:
        page.close()
    assert [line for _, console in kept for line in console.lines] == []


@pytest.mark.parametrize("name", NAMES)
def test_axe_finds_nothing_serious_and_nothing_scrolls_sideways_on_a_phone(opened, name):
    page = opened(name, viewport={"width": 360, "height": 780}, color_scheme="dark")
    no_wider_than(page, 360)
    page.set_viewport_size({"width": 1280, "height": 900})
    page.emulate_media(color_scheme="light")
    serious = [
        (found["id"], [node["html"][:120] for node in found["nodes"]][:3])
        for found in Axe().run(page).response["violations"]
        if found["impact"] in ("serious", "critical")
    ]
    assert serious == []
    no_wider_than(page, 1280)


def test_the_main_pages_are_one_key_away_from_each_other(opened):
    page = opened("jobs")
    reached = []
    for _ in range(10):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.textContent.trim()"))
    for name in ("Skip to content", "Overview", "Devices", "Streams", "Jobs", "Results", "Audit"):
        assert name in reached


def test_a_dialog_opens_by_keyboard_and_closes_with_escape(opened):
    page = opened("device")
    page.get_by_role("button", name="Revoke").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#revoke")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#revoke")).to_be_hidden()


def test_a_batch_opens_to_its_rows(opened):
    page = opened("stream")
    page.get_by_role("button", name="Rows").first.click()
    expect(page.locator("#batch thead")).to_contain_text("lat")


def test_devices_are_found_by_name_and_state(opened):
    page = opened("devices")
    page.locator("#show").select_option("offline")
    page.wait_for_url("**show=offline**")
    expect(page.locator("#devices tbody tr")).to_have_count(1)
    expect(page.locator("#devices")).to_contain_text("bicycle-3")
    page.get_by_role("searchbox").fill("nobody")
    page.get_by_role("button", name="Search").click()
    page.locator("#devices .empty").wait_for()


def test_lines_of_results_are_named_after_the_phones_that_are_listed(opened):
    page = opened("overview")
    expect(page.locator("#phones tr a")).not_to_have_count(0)
    names = page.locator("#phones tr a").all_text_contents()
    expect(page.locator("#results .u-legend .u-label").filter(has_not_text=LEGEND)).to_have_text(sorted(names))


@pytest.mark.parametrize("place", ["/", "/devices", "/fleets", "/streams", "/jobs", "/results", "/audit"])
def test_an_empty_gateway_says_what_to_do_first(browser, tmp_path, place):
    empty = build_empty(tmp_path)
    with served(empty.app) as url:
        page = new_page(browser)
        page.goto(url + place)
        page.locator("#live[data-state=live]").wait_for()
        page.locator(".empty:visible").first.wait_for()
        page.close()
    empty.close()
