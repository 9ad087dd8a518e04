"""Every page in a real browser, over a day of history: usable without a mouse, without eyes, on a phone, in the dark."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from cloud_backend.process_log import Line, keep
from shared.moves import PREVIEW, MoveAnswer, MovePreview
from tests.patience import wait_until
from tests.user_interface.browser import Console, new_page, no_wider_than, served
from tests.user_interface.morning import build, build_empty
from tests.user_interface.shots import pages

pytestmark = [
    pytest.mark.ui,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
LEGEND = re.compile(r"^(Time|Value|)$")  # of a chart: its first label, and the value under the pointer
NAMES = (
    "overview", "devices", "device", "fleets", "move", "pair", "streams", "stream", "contracts", "contract", "query",
    "jobs", "job", "rollback", "results", "sink", "coloured", "logs", "audit", "account", "people",
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


def drag(page, vertex: str, node: str, *, let_go: bool = True) -> None:
    """With the mouse, from the middle of the vertex to the name of the node."""
    start = page.locator(f'.chip[data-vertex="{vertex}"]').bounding_box()
    end = page.locator(f'[data-node="{node}"] .title').bounding_box()
    page.mouse.move(start["x"] + start["width"] / 2, start["y"] + start["height"] / 2)
    page.mouse.down()
    page.mouse.move(end["x"] + 5, end["y"] + 5, steps=8)
    if let_go:
        page.mouse.up()


def test_a_vertex_is_dragged_to_a_node_and_moves_only_after_its_dry_run_was_read(opened, morning):
    sources = morning.sources
    coordinator = next(phone for phone in morning.phones if phone.name == "van-2").device

    def asked() -> list[tuple[str, str, str, bool]]:
        waiting = sources.requests.waiting(coordinator, sources.clock_us())
        return [(each.vertex, each.leaving, each.to, each.dry_run) for each in waiting]

    page = opened("fleets", viewport={"width": 1280, "height": 1000})
    drag(page, "level", "tram-07", let_go=False)
    expect(page.locator(".node.target")).to_have_attribute("data-node", "tram-07")
    page.keyboard.press("Escape")
    page.mouse.up()
    drag(page, "level", "depot")  # where it is
    expect(page.locator(".chip.dragged")).to_have_count(0)
    assert asked() == []
    drag(page, "level", "tram-07")
    page.wait_for_url("**/fleets?asked=*")
    expect(page.locator("#asked")).to_have_text("Moving level to tram-07: what would it do?")
    assert asked() == [("level", "depot", "tram-07", True)], "nothing moves before somebody has said so"
    (request,) = sources.requests.waiting(coordinator, sources.clock_us())
    entry = next(each for each in sources.entries() if each.device == coordinator)
    preview = MovePreview(("depot",), ("tram-07",), ("level",), 0.9, 18_240, 2, 6, 1, 8, 1, 8)
    answers = (*entry.status.fleet.asked, MoveAnswer(request, PREVIEW, preview=preview))
    status = replace(entry.status, fleet=replace(entry.status.fleet, asked=answers))
    sources.roster.seen([(coordinator, entry.seen_us, status)])
    sources.requests.heard(coordinator, status)
    sources.look_again()
    expect(page.locator("#asked")).to_have_text("Move level to tram-07?")  # the page looks again by itself
    expect(page.locator(".asked")).to_contain_text("nothing has changed yet")
    expect(page.locator(".asked")).to_contain_text("Only level pauses, for about 0.9 s")
    assert asked() == []
    page.get_by_role("button", name="Move it").click()
    expect(page.locator("#asked")).to_have_text("Moving level to tram-07")
    assert asked() == [("level", "depot", "tram-07", False)]


def test_dragging_across_a_chart_shows_that_time_and_reset_all_of_it(opened):
    page = opened("sink", viewport={"width": 1280, "height": 900})
    everything = page.locator(".headline p").inner_text()
    chart = page.locator("#chart .u-over").bounding_box()
    page.mouse.move(chart["x"] + 0.3 * chart["width"], chart["y"] + 40)
    page.mouse.down()
    page.mouse.move(chart["x"] + 0.6 * chart["width"], chart["y"] + 60, steps=4)
    page.mouse.up()
    page.wait_for_url(re.compile(r"from=.*Z&to=.*Z"))
    expect(page.locator(".headline p")).to_contain_text("in the chosen time")
    expect(page.locator(".headline p")).not_to_contain_text(everything.split()[0])
    page.locator("#chart canvas").wait_for()
    expect(page.locator("a", has_text="CSV")).to_have_attribute("href", re.compile(r"from_us=\d+&to_us=\d+$"))
    page.get_by_role("link", name="Reset zoom").click()
    expect(page.locator(".headline p")).to_have_text(everything)


NOTES_TEXT = """
window.written = [];
const write = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, x, y, ...rest) {
  const { fontBoundingBoxAscent: up, fontBoundingBoxDescent: down } = this.measureText(text);
  const low = { top: y + up + down, bottom: y, alphabetic: y + down }[this.textBaseline] ?? y + (up + down) / 2;
  const point = this.getTransform().transformPoint({ x, y: low });
  window.written.push({ text, cut: point.y > this.canvas.height });
  return write.call(this, text, x, y, ...rest);
};
"""


def test_the_days_under_a_chart_of_several_days_are_not_cut(browser, address):
    page = new_page(browser, timezone_id="UTC", reduced_motion="reduce", viewport={"width": 1280, "height": 900})
    page.add_init_script(NOTES_TEXT)
    page.goto(f"{address}/results/last_place?from=2026-11-15T12:00:00Z&to=2026-11-17T00:00:00Z")
    page.locator("#chart canvas").wait_for()
    clock = re.compile(r"\d\d:\d\d")
    wait_until(
        lambda: any(clock.fullmatch(each["text"]) for each in page.evaluate("window.written")), "the second line"
    )
    written = page.evaluate("window.written")
    assert any(re.fullmatch(r"\d+ [A-Z][a-z]+", each["text"]) for each in written)
    assert [each["text"] for each in written if each["cut"]] == []
    page.close()


def test_a_time_is_written_in_the_readers_zone_and_sent_in_utc(browser, morning, address):
    page = new_page(browser, timezone_id="Europe/Zurich", reduced_motion="reduce")
    page.goto(f"{address}/results/last_place")
    expect(page.locator("#range-zone")).to_have_text("Europe/Zurich")
    page.get_by_label("From").fill("2026-07-01T10:00")
    page.get_by_label("To", exact=True).fill("2026-07-01T09:00")
    page.get_by_role("button", name="Show").click()
    assert (
        page.get_by_label("To", exact=True).evaluate("field => field.validationMessage")
        == "The chosen time ends before it begins."
    )
    page.get_by_label("To", exact=True).fill("2026-07-01T11:30")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**from=2026-07-01T08%3A00%3A00Z&to=2026-07-01T09%3A30%3A00Z")
    expect(page.get_by_label("From")).to_have_value("2026-07-01T10:00")
    expect(page.locator("#rows")).to_contain_text("No window ends in the chosen time")
    page.close()


def test_a_column_chosen_by_keyboard_colours_the_map_and_stays_in_the_address(opened):
    page = opened("sink", viewport={"width": 360, "height": 780})
    expect(page.locator("#scale")).to_be_hidden()
    page.get_by_label("Colour by").focus()
    page.keyboard.type("speed")
    expect(page.locator("#scale-title")).to_have_text("speed")
    expect(page.locator("#scale-note")).to_have_text(re.compile(r"^From [\d.]+ to [\d.]+ in \d+ points"))
    assert page.url.endswith("/results/last_place?colour=speed")
    no_wider_than(page, 360)
    page.get_by_role("link", name="Last hour").click()
    page.wait_for_url("**from=*&colour=speed")
    expect(page.locator("#scale-title")).to_have_text("speed")
    page.get_by_label("Colour by").select_option("")
    expect(page.locator("#scale")).to_be_hidden()
    assert "colour" not in page.url


def test_a_line_that_is_said_shows_at_once_and_an_opened_traceback_stays_open(opened, morning):
    page = opened("logs")
    rows = page.locator("#lines tbody tr")
    before = rows.count()
    page.locator("#lines summary").first.click()
    expect(page.locator("#lines pre").first).to_contain_text("OSError")
    keep(
        morning.sources.home, Line(morning.sources.clock_us(), "warning", "resurge.gateway", 1, "<i>said</i> just now")
    )
    expect(rows).to_have_count(before + 1)
    expect(rows.first).to_contain_text("<i>said</i> just now")
    expect(page.locator("#lines details[open] pre")).to_contain_text("OSError")
    page.get_by_label("Level").select_option("error")
    page.wait_for_url("**level=error**")
    expect(rows).to_have_count(1)


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


@pytest.fixture(scope="module")
def empty_page(browser, tmp_path_factory):
    empty = build_empty(tmp_path_factory.mktemp("empty"))
    with served(empty.app) as url:
        page = new_page(browser, base_url=url)
        yield page
        page.close()
    empty.close()


@pytest.mark.parametrize("place", ["/", "/devices", "/fleets", "/streams", "/jobs", "/results", "/audit", "/logs"])
def test_an_empty_gateway_says_what_to_do_first(empty_page, place):
    empty_page.goto(place)
    empty_page.locator("#live[data-state=live]").wait_for()
    empty_page.locator(".empty:visible").first.wait_for()
