"""The pages of observe mode in a real Chromium; ./run test-browser."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.console.browser import LOOKS, Look, opened, too_wide, violations
from tests.console.observed_stage import observed_cluster
from tests.console.site import Site, serving

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

VIEWS = {
    "observed": "observed",
    "observed-gangs": "",
    "observed-gang": "gang?name=frontier-run",
    "observed-decisions": "decisions",
    "observed-cluster": "cluster",
}


@pytest_asyncio.fixture(loop_scope="module")
async def site() -> AsyncIterator[Site]:
    async with serving(observed_cluster()) as one:
        yield one


@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look.name)
async def test_no_view_has_a_violation_and_all_fit(
    browser: Any, site: Site, pictures: Path, look: Look
) -> None:
    found: dict[str, list[str]] = {}
    async with opened(browser, dark=look.dark, size=look.size) as (page, complaints):
        for view, address in VIEWS.items():
            await page.goto(site.url(address))
            found[view] = [*await violations(page), *await too_wide(page)]
            await page.screenshot(path=pictures / f"{view}-{look.name}.png", full_page=True)
        assert not complaints
    assert not {view: wrong for view, wrong in found.items() if wrong}


async def test_picture_for_the_docs(browser: Any, site: Site) -> None:
    """Written where CONSOLE_PICTURES says; else it is looked only whether that could be done."""
    async with opened(browser, site.url("observed"), size={"width": 1280, "height": 1010}) as (
        page,
        _,
    ):
        picture = await page.screenshot()
        assert len(picture) < 250_000
        if folder := os.environ.get("CONSOLE_PICTURES"):
            Path(folder, "console-observed.png").write_bytes(picture)


async def test_page_reads_without_scripts(browser: Any, site: Site) -> None:
    async with opened(browser, site.url(""), scripts=False) as (page, complaints):
        await page.click("text=What it did, and what would have been done")
        await page.wait_for_url("**/observed")
        told = await page.text_content("main")
        assert "evicted 3 pods; broke pod-group:vision/vit-sweep, 1 left in part" in told
        assert "4 seats, 4 pods evicted, with pod-group:research/llama-pretrain whole" in told
        assert await page.locator("figure.chart svg[aria-label]").count() == 4
        await page.select_option("[name=week]", index=1)
        await page.click("button:text-is('Show')")
        await page.wait_for_url("**/observed?week=*")
        assert "bio · pod-group" in await page.text_content("main")
        assert not complaints
