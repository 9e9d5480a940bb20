"""A real Chromium, and pages opened in it. Its packages are in the browser extra."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, NamedTuple

from tests.console.stage import NOW

NAMES = ("chromium", "chromium-browser", "google-chrome")
DESK = {"width": 1280, "height": 860}
TABLET = {"width": 768, "height": 1024}
PHONE = {"width": 390, "height": 844}
NARROWEST = {"width": 320, "height": 640}
"""What WCAG 1.4.10 asks pages to fit: also a desk's screen at four times the size."""


class Look(NamedTuple):
    """What a person looks at a page with."""

    name: str
    size: dict[str, int]
    dark: bool


LOOKS = [
    Look("light", DESK, dark=False),
    Look("dark", DESK, dark=True),
    Look("tablet", TABLET, dark=False),
    Look("phone", PHONE, dark=False),
    Look("phone-dark", PHONE, dark=True),
    Look("narrowest", NARROWEST, dark=False),
]
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
"""What axe looks for."""
BUSY_MS = 60_000
"""How long anything may take on a machine that is busy with other things."""


def executable() -> str:
    """Return the browser: CHROMIUM, or the first of the usual names."""
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        raise RuntimeError(f"no Chromium: install Debian's chromium, or set CHROMIUM ({NAMES})")
    return found


@asynccontextmanager
async def chromium() -> AsyncIterator[Any]:
    """A browser for the length of a block."""
    from playwright.async_api import async_playwright

    async with async_playwright() as driver:
        # No sandbox inside a sandbox: a container and root have none to offer.
        flags = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = await driver.chromium.launch(executable_path=executable(), args=flags)
        try:
            yield browser
        finally:
            await browser.close()


class Complaints(list[str]):
    """What the browser has to say against a page: errors, refused loads, broken policies."""


@asynccontextmanager
async def opened(
    browser: Any,
    url: str = "about:blank",
    *,
    dark: bool = False,
    size: dict[str, int] | None = None,
    scripts: bool = True,
) -> AsyncIterator[tuple[Any, Complaints]]:
    """A page at the stage's time; what is wrong with it is collected."""
    context = await browser.new_context(
        color_scheme="dark" if dark else "light",
        viewport=size or DESK,
        java_script_enabled=scripts,
        # axe is put into the page by the test; what the policy forbids is seen by its complaints.
        bypass_csp=False,
    )
    context.set_default_timeout(BUSY_MS)
    page = await context.new_page()
    complaints = Complaints()
    page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
    page.on(
        "console",
        lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None,
    )
    if scripts:
        await page.clock.set_fixed_time(datetime.fromtimestamp(NOW, UTC))
    await page.goto(url)
    try:
        yield page, complaints
    finally:
        await context.close()


async def violations(page: Any, passes: int = 10) -> list[str]:
    """Return what axe finds, as a person can act on it; more than so many rules must hold."""
    from axe_playwright_python.base import AXE_FILE_PATH

    # evaluate() is not under the page's policy, which allows no script but ours.
    await page.evaluate(AXE_FILE_PATH.read_text("utf-8"))
    found = await page.evaluate(
        "(rules) => axe.run(document, {runOnly: {type: 'tag', values: rules}})", RULES
    )
    assert len(found["passes"]) > passes, "it has looked"
    return [
        f"{one['id']}: {one['help']} at {[node['target'] for node in one['nodes'][:5]]}"
        for one in found["violations"]
    ]


async def too_wide(page: Any) -> list[str]:
    """Return by how much the page is wider than the screen; nothing where it fits."""
    wide = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
    return [f"{wide} pixels wider than the screen"] if wide > 0 else []


async def scrolled_tables(page: Any) -> list[str]:
    """Return the tables of which a part is outside the screen."""
    found: list[str] = await page.evaluate(
        """Array.from(document.querySelectorAll('.table-wrap'))
        .filter((one) => one.scrollWidth > one.clientWidth)
        .map((one) => `${one.querySelector('table').ariaLabel}: scrolled`)"""
    )
    return found
