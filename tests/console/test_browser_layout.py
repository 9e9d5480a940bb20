"""What stands where on a tablet's and a desk's screen, in a real Chromium; ./run test-browser."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from extender.gang.tell.decisions import Outcome
from extender.model.plan import Code
from tests.console.browser import DESK, TABLET, opened
from tests.console.site import Site, serving
from tests.console.stage import Stage, training_cluster

# One browser for all: its start costs more than most tests.
pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

WINNER, VICTIM = "pod-group:research/frontier-run", "pod-group:research/moe-ablation"
both = pytest.mark.parametrize("size", [TABLET, DESK], ids=["tablet", "desk"])


@pytest_asyncio.fixture(loop_scope="module")
async def site() -> AsyncIterator[Site]:
    async with serving(training_cluster()) as one:
        yield one


async def box(page: Any, selector: str) -> dict[str, float]:
    found: dict[str, float] = await page.locator(selector).first.bounding_box()
    return found


async def test_a_gang_is_a_card_on_a_tablet_with_its_reason_below(browser: Any, site: Site) -> None:
    """The reason stood outside the screen, beside 150 pixels of nothing in each row."""
    row = "tr[data-key='g-pod-group:research/giant-eval']"
    async with opened(browser, site.url(""), size=TABLET) as (page, _):
        card, name = await box(page, row), await box(page, f"{row} th")
        state, why = await box(page, f"{row} .badge"), await box(page, f"{row} .why")
        assert why["y"] >= max(name["y"] + name["height"], state["y"] + state["height"])
        assert why["x"] + why["width"] <= 768
        assert why["width"] > 0.9 * card["width"] - 40
        assert abs(state["y"] - name["y"]) < 12, "in the first line"
        assert card["height"] < 150
    async with opened(browser, site.url(""), size=DESK) as (page, _):
        state, why = await box(page, f"{row} .badge"), await box(page, f"{row} .why")
        assert why["x"] > state["x"] + state["width"], "a column of the table"


@both
async def test_no_bar_is_empty(browser: Any, site: Site, size: dict[str, int]) -> None:
    """Where nothing runs a bar was full, of what waits; an empty node had three empty ones."""
    empty = """Array.from(document.querySelectorAll('svg.bar')).filter((bar) =>
        !Array.from(bar.querySelectorAll('rect:not(.b-rest)'))
        .some((part) => part.width.baseVal.value > 0)
    ).map((bar) => bar.ariaLabel)"""
    async with opened(browser, site.url(""), size=size) as (page, _):
        row = page.locator(f"tr[data-key='g-{WINNER}']")
        assert await row.locator("svg.bar").count() == 0
        assert "0/8" in await row.text_content()
        for view in ("", "cluster", f"gang?name={VICTIM}", "node?name=gpu-b-00"):
            await page.goto(site.url(view))
            assert await page.evaluate(empty) == [], view


@both
async def test_memory_has_a_bar_only_where_a_pod_asks_for_it(
    browser: Any, site: Site, size: dict[str, int]
) -> None:
    async with opened(browser, site.url("cluster"), size=size) as (page, _):
        used = page.locator("li[data-key='c-gpu-a-00'] .line")
        assert "memory" in " ".join(await used.all_text_contents())
        empty = page.locator("li[data-key='c-gpu-b-00'] .line")
        assert await empty.all_text_contents() == ["gpu0/8"], "no pod is there"


def forming() -> Stage:
    """A gang whose pods come one after the other, and another one that does not fit."""
    stage = training_cluster()
    late = "pod-group:speech/late-joiners"
    for there, ago in ((1, 90.0), (2, 60.0), (3, 30.0)):
        told = f"waits for members: {there} of 6 exist, nothing is evicted"
        stage.tell(late, Outcome.REFUSAL, told, ago, code=Code.INCOMPLETE)
    return stage


@both
async def test_a_gang_that_forms_is_told_in_one_grey_line(
    browser: Any, size: dict[str, int]
) -> None:
    """Three red "refused" said that three pods had not been created yet."""
    late = "pod-group:speech/late-joiners"
    async with serving(forming()) as site, opened(browser, size=size) as (page, _):
        await page.goto(site.url(f"decisions?q={late}"))
        rows = page.locator("table[aria-label='Decisions'] > tbody > tr")
        assert await rows.count() == 1
        assert "3 of 6 exist" in await rows.text_content()
        assert "3 times" in await rows.text_content()
        badge = rows.locator(".badge")
        assert "incomplete" in await badge.text_content()
        assert "stop" not in await badge.get_attribute("class")
        await page.goto(site.url(f"gang?name={late}"))
        moments = page.locator(".timeline li:has-text('incomplete')")
        assert await moments.count() == 1
        assert "stop" not in (await moments.get_attribute("class") or "")
        assert "refused" not in await page.text_content("main")
        await page.goto(site.url(""))
        badge = page.locator(f"tr[data-key='g-{late}'] .badge")
        assert await badge.get_attribute("class") == "badge plain"


@both
async def test_a_decision_is_one_line_of_a_table(
    browser: Any, site: Site, size: dict[str, int]
) -> None:
    """Nineteen decisions took three screens. What is folded opens in its row."""
    async with opened(browser, site.url("decisions"), size=size) as (page, _):
        rows = page.locator("table[aria-label='Decisions'] > tbody > tr")
        assert await rows.count() == 19
        heights = [(await row.bounding_box())["height"] for row in await rows.all()]
        assert max(heights) < (48 if size == DESK else 90), heights
        folded = rows.first.locator("details").first
        assert not await page.locator("text=its gang is evicted as a whole").first.is_visible()
        await folded.locator("summary").first.click()
        assert await page.locator("text=its gang is evicted as a whole").first.is_visible()


@both
async def test_victims_and_whom_they_go_for_lead_to_each_other(
    browser: Any, site: Site, size: dict[str, int]
) -> None:
    async with opened(browser, size=size) as (page, _):
        for view in ("", f"gang?name={VICTIM}", f"decisions?q={WINNER}", "node?name=gpu-b-01"):
            await page.goto(site.url(view))
            scope = f"tr[data-key='g-{VICTIM}']" if not view else "main"
            link = page.locator(f"{scope} a:has-text('{WINNER}')").first
            assert await link.count(), view
            await link.click()
            await page.wait_for_selector("h1:text-is('frontier-run')")
        for view in ("", f"gang?name={WINNER}"):
            await page.goto(site.url(view))
            scope = f"tr[data-key='g-{WINNER}'] .why" if not view else ".reason"
            await page.locator(f"{scope} a:has-text('{VICTIM}')").first.click()
            await page.wait_for_selector("h1:text-is('moe-ablation')")


@both
async def test_an_error_has_the_head_of_every_page(
    browser: Any, site: Site, size: dict[str, int]
) -> None:
    async with opened(browser, size=size) as (page, _):
        for address in ("nothing", "nothing/at/all", "gang?name=nobody", "static/none"):
            await page.goto(site.url(address))
            names = await page.locator("header.top nav a").all_text_contents()
            assert names == ["Gangs", "Cluster", "Decisions", "What if"], address
            await page.click("nav >> text=Cluster")
            await page.wait_for_selector("h1:text-is('Cluster')")


@both
async def test_the_bare_address_leads_to_the_list(
    browser: Any, site: Site, size: dict[str, int]
) -> None:
    async with opened(browser, site.server.url, size=size) as (page, _):
        assert page.url == site.url("")
        await page.wait_for_selector("h1:text-is('Gangs')")
