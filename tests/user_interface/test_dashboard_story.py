"""An operator's day in a real browser, over one running product: from pairing a phone to revoking it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.patience import SPARK_PATIENCE_S
from tests.user_interface.browser import ACCOUNT, Console, chromium, new_page, wait_in
from tests.user_interface.product import Product, running

pytestmark = [
    pytest.mark.ui,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def product(tmp_path_factory):
    with running(tmp_path_factory.mktemp("product")) as started:
        yield started


@pytest.fixture(scope="module")
def opened(product):
    """One page, and what its console said over the whole day."""
    with chromium() as browser:
        page = new_page(browser, viewport={"width": 1280, "height": 900}, accept_downloads=True)
        console = Console(page)
        page.goto(product.sign_in_link())
        page.wait_for_url(f"{product.address}/")
        yield page, console


@pytest.fixture(scope="module")
def page(opened):
    return opened[0]


@pytest.fixture(scope="module")
def console(opened):
    return opened[1]


def go(page: Page, product: Product, place: str) -> None:
    page.goto(product.address + place)
    page.locator("#live[data-state=live]").wait_for()


def number(text: str) -> int:
    return int(re.sub(r"\D", "", text) or 0)


def test_nobody_sees_anything_before_signing_in(product, page):
    stranger = new_page(page.context.browser)
    stranger.goto(f"{product.address}/devices")
    expect(stranger).to_have_url(f"{product.address}/signin")
    stranger.close()


def test_a_phone_is_paired_by_its_link_and_shows_the_same_digits(product, page):
    go(page, product, "/devices")
    page.get_by_role("link", name="Pair a device").click()
    page.get_by_role("button", name="Make a code").click()
    expect(page.locator(".qr-box svg")).to_be_visible()
    product.start_phone("tram-07", page.locator("#link").inner_text().strip())
    page.locator(".digits").wait_for()
    expect(page.locator(".digits")).to_have_text(re.compile(r"^\s*\d{3} ?\d{3}\s*$"))
    page.get_by_role("link", name="Go to tram-07").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("tram-07")


def test_its_data_arrives_while_one_looks(product, page):
    go(page, product, "/")
    wait_in(page, "() => Number(document.getElementById('account-delivered').textContent.replace(/\\D/g, '')) > 20")
    produced, delivered, spooled, ledgered = page.evaluate(ACCOUNT)
    assert produced == delivered + spooled + ledgered
    page.locator("#results canvas").wait_for()
    expect(page.locator("#headline")).to_contain_text("connected")


def test_cut_off_it_records_on_and_the_ledger_stays_empty(product, page):
    go(page, product, "/devices")
    page.get_by_role("link", name="tram-07").click()
    page.locator("#facts .state.on").wait_for()
    product.network.cut()
    page.locator("#facts .state.off").wait_for()
    waiting = "() => Number((document.getElementById('buffered').textContent.match(/about ([\\d,]+)/) ?? [0, '0'])[1].replace(/,/g, ''))"
    wait_in(page, f"() => ({waiting})() > 8")
    before = page.evaluate(f"({waiting})()")
    wait_in(page, f"(before) => ({waiting})() > before", before)
    expect(page.locator("#ledgered")).to_have_text("0")
    product.network.restore()
    page.locator("#facts .state.on").wait_for()
    wait_in(page, "() => !document.getElementById('buffered').textContent.includes('about')")
    expect(page.locator("#ledgered")).to_have_text("0")


def test_a_query_is_explained_submitted_and_answers(product, page):
    go(page, product, "/streams")
    page.get_by_role("link", name="New query").click()
    page.get_by_label("Name").fill("counts")
    page.get_by_role("textbox", name="Query").fill(
        "SELECT device, COUNT(*) AS n FROM gps GROUP BY TUMBLE(2 SECONDS), device"
    )
    page.get_by_role("button", name="Explain").click()
    expect(page.locator("#explained")).to_contain_text("vertices on the cloud")
    expect(page.locator("#explained")).to_contain_text("Its rows will appear under counts.")
    page.get_by_role("button", name="Submit").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Job counts")
    go(page, product, "/streams")
    page.locator("#queries .state.on").wait_for()
    wait_in(page, "() => Number(document.querySelector('#queries td[data-label=Rows]').textContent) > 0")


def test_a_killed_range_goes_back_alone_and_recovers(product, page):
    go(page, product, "/jobs/main")
    wait_in(page, "() => Number(document.getElementById('epoch').textContent.replace(/\\D/g, '')) > 6")
    killed = product.kill_range("my_trips")
    page.locator("#rollbacks-title").wait_for()
    back = page.locator("li.rollback").first
    back.wait_for()
    expect(back).to_contain_text(f"R: my_trips {killed}.")
    wait_in(page, "() => !document.querySelector('.state.wrong, .state.work')")
    epoch = number(page.locator("#epoch").inner_text())
    wait_in(page, "(epoch) => Number(document.getElementById('epoch').textContent.replace(/\\D/g, '')) > epoch", epoch)


def test_a_rollback_is_tried_dry_then_done_then_undone(product, page):
    go(page, product, "/jobs/main")
    page.locator("#vertex").select_option("my_trips")
    epoch = number(page.locator("#epoch").inner_text())
    page.get_by_label("Last epoch to keep").fill(str(epoch - 2))
    page.get_by_role("button", name="Dry run").click()
    answer = page.locator("#dry-run-answer")
    expect(answer).to_contain_text("Nothing was changed yet")
    expect(answer.locator(".in-R")).not_to_have_count(0)
    expect(answer).to_contain_text("my_trips")
    page.get_by_role("button", name=re.compile("Roll back to epoch")).click()
    expect(page.locator(".notice")).to_contain_text("Rolled back")
    page.locator("li.rollback", has_text="asked for").first.wait_for()
    page.get_by_role("button", name="Undo", exact=True).first.click()
    page.get_by_role("button", name="Undo it").click()
    expect(page.locator(".notice")).to_contain_text("undone")
    expect(page.locator("li.rollback .badge").first).to_have_text("undone")


@pytest.mark.parametrize("kind", ["CSV", "Parquet"])
def test_results_are_taken_away(product, page, kind):
    go(page, product, "/results/my_trips")
    page.locator("#chart canvas").wait_for()
    with page.expect_download() as taken:
        page.get_by_role("link", name=kind, exact=True).click()
    data = Path(taken.value.path()).read_bytes()
    assert taken.value.suggested_filename == f"my_trips.{kind.lower()}"
    assert b"km" in data
    assert len(data) > 100


def test_the_page_goes_on_by_itself_after_the_gateway_was_away(product, page, console):
    go(page, product, "/devices")
    before = len(console.lines)
    product.restart_gateway()
    page.locator("#live[data-state=live]").wait_for()
    del console.lines[before:]  # a browser says of itself that a connection was refused meanwhile
    go(page, product, "/devices")
    # Phones that meet no gateway wait longer each time; on a busy machine, as long as Spark may take.
    page.locator("#devices .state.on").first.wait_for(timeout=SPARK_PATIENCE_S * 1000)


def test_a_hidden_tab_costs_nothing(product, page):
    go(page, product, "/devices")
    page.evaluate(
        "() => { Object.defineProperty(document, 'hidden', { value: true, configurable: true });"
        " document.dispatchEvent(new Event('visibilitychange')); }"
    )
    page.locator("#live[data-state=paused]").wait_for()
    page.evaluate(
        "() => { Object.defineProperty(document, 'hidden', { value: false, configurable: true });"
        " document.dispatchEvent(new Event('visibilitychange')); }"
    )
    page.locator("#live[data-state=live]").wait_for()


def test_a_revoked_phone_is_refused_and_all_of_it_is_in_the_audit_log(product, page):
    go(page, product, "/devices")
    page.get_by_role("link", name="tram-07").click()
    page.get_by_role("button", name="Revoke").click()
    page.locator("#revoke").get_by_role("button", name="Revoke").click()
    expect(page.locator(".notice")).to_contain_text("revoked")
    page.locator("#facts", has_text="revoked").wait_for()
    go(page, product, "/audit")
    for done in (
        "device revoked", "job rolled back", "job rollback undone", "query submitted", "results exported",
        "pairing link made",
    ):  # fmt: skip
        expect(page.locator("#lines")).to_contain_text(done)


def test_the_console_said_nothing_all_day(page, console):
    page.evaluate("1")
    assert console.lines == []
