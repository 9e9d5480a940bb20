"""The console in a real Chromium: accessible, quiet, alive, and its pictures for the docs."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import pytest_asyncio

from extender.console import events
from extender.gang.tell.decisions import Outcome, Verb
from extender.model.plan import Code
from tests.console.browser import (
    DESK,
    LOOKS,
    NARROWEST,
    PHONE,
    TABLET,
    Look,
    opened,
    scrolled_tables,
    too_wide,
    violations,
)
from tests.console.observed_stage import observed_cluster
from tests.console.site import Site, serving
from tests.console.stage import Stage, training_cluster

# One browser for all: its start costs more than most tests.
pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]
VIEWS = {
    "gangs": "",
    "gang": "gang?name=pod-group:research/frontier-run",
    "refused": "gang?name=giant-eval",
    "decisions": "decisions",
    "cluster": "cluster",
    "node": "node?name=gpu-b-01",
    "what-if": "what-if?gang=nightly-distill",
    "form": "what-if",
    "no-answer": "what-if?gang=nobody",
    "nothing-found": "?q=nobody",
}
ERRORS = {
    "no-page": ("nothing/at/all", 404),
    "no-escaped-page": ("nothing%2fat%2fall", 404),
    "no-gang": ("gang?name=nobody", 404),
    "no-number": ("?page=x", 400),
}


def large_cluster() -> Stage:
    """900 nodes: a map of cells."""
    stage = Stage()
    names = [f"node-{index:04}" for index in range(900)]
    for index, name in enumerate(names):
        stage.node(name, f"eu-west-1{'abc'[index % 3]}", closed=index % 131 == 7)
    for index in range(90):
        least = index * 10
        stage.gang(f"train-{index}", names[least : least + 3 + index % 7], priority=1000 + index)
    for index in range(9, 900, 10):
        stage.single(f"web-{index}", names[index], gpus=index % 8, priority=5000)
    key = stage.gang("frontier", (), size=420, priority=9000)
    stage.plan(key, "waiting", gone=30)
    stage.month()
    return stage


@pytest_asyncio.fixture(loop_scope="module")
async def site() -> AsyncIterator[Site]:
    async with serving(training_cluster()) as one:
        yield one


async def asked(page: Any) -> None:
    """Ask what would be with another priority."""
    await page.fill("[name=priority]", "6000")
    await page.click("button:text-is('Ask')")
    await page.wait_for_selector(".diff")


async def shown(page: Any, view: str) -> None:
    """Open what is folded, so that it is looked at too; ask what is to be asked."""
    if view == "what-if":
        await asked(page)
    if view == "no-answer":
        await page.click("button:text-is('Ask')")
        await page.wait_for_selector("[role=alert]")
    await page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")


by_look = pytest.mark.parametrize("look", LOOKS, ids=lambda look: look.name)


@by_look
async def test_no_view_has_a_violation_and_all_fit(
    browser: Any, site: Site, pictures: Path, look: Look
) -> None:
    found: dict[str, list[str]] = {}
    async with opened(browser, dark=look.dark, size=look.size) as (page, complaints):
        for view, address in VIEWS.items():
            await page.goto(site.url(address))
            await shown(page, view)
            wide = [*await too_wide(page), *await scrolled_tables(page)]
            found[view] = [*await violations(page), *wide]
            await page.screenshot(path=pictures / f"{view}-{look.name}.png", full_page=True)
        site.stage.problems = ("the cache is stale",)
        await page.goto(site.url(""))
        await page.wait_for_selector("main .notice.stop")
        found["not ready"] = [*await violations(page), *await too_wide(page)]
        assert not complaints
    assert not {view: wrong for view, wrong in found.items() if wrong}


@by_look
async def test_no_error_has_a_violation_and_all_fit(
    browser: Any, site: Site, pictures: Path, look: Look
) -> None:
    found: dict[str, list[str]] = {}
    async with opened(browser, dark=look.dark, size=look.size) as (page, complaints):
        for error, (address, status) in ERRORS.items():
            answer = await page.goto(site.url(address))
            assert answer.status == status
            # An address may have more parts than a page's: what is relative must lead to ours.
            width = "getComputedStyle(document.getElementById('main')).maxWidth"
            assert await page.evaluate(width) != "none", error
            found[error] = [*await violations(page, passes=8), *await too_wide(page)]
            await page.screenshot(path=pictures / f"{error}-{look.name}.png", full_page=True)
            await page.click("text=All gangs")
            await page.wait_for_selector("h1:text-is('Gangs')")
        assert not [one for one in complaints if "status of 40" not in one]
    assert not {error: wrong for error, wrong in found.items() if wrong}


async def test_what_is_unfolded_can_be_read(browser: Any, site: Site) -> None:
    """No line of text stands in a column of single letters."""
    narrow = """Array.from(document.querySelectorAll('li, p, td, dd')).filter((one) => {
        const text = document.createRange();
        text.selectNodeContents(one);
        const box = text.getBoundingClientRect();
        return one.textContent.trim().length > 30 && box.height > 60 && box.width < 60;
    }).map((one) => one.textContent.trim().slice(0, 60))"""
    found: dict[str, list[str]] = {}
    async with opened(browser) as (page, _):
        for view, address in VIEWS.items():
            await page.goto(site.url(address))
            await shown(page, view)
            found[view] = await page.evaluate(narrow)
    assert not {view: lines for view, lines in found.items() if lines}


@pytest.mark.parametrize("size", [DESK, PHONE, NARROWEST], ids=["desk", "phone", "narrowest"])
async def test_no_short_word_is_broken_over_lines(
    browser: Any, site: Site, size: dict[str, int]
) -> None:
    """What is proved stood below itself, a letter a line, in the costs' last column at 320 px."""
    broken = """() => {
        const found = [];
        const main = document.getElementById('main');
        const texts = document.createTreeWalker(main, NodeFilter.SHOW_TEXT);
        for (let text; (text = texts.nextNode());) {
            if (text.parentElement.closest('code, .sr, thead')) continue;
            for (const word of text.data.matchAll(/(?<![\\w.:/-])[A-Za-z]{2,10}(?![\\w.:/-])/g)) {
                const range = document.createRange();
                range.setStart(text, word.index);
                range.setEnd(text, word.index + word[0].length);
                const boxes = Array.from(range.getClientRects());
                const tops = new Set(boxes.map((box) => Math.round(box.top)));
                if (tops.size > 1) found.push(word[0]);
            }
        }
        return found;
    }"""
    found: dict[str, list[str]] = {}
    async with opened(browser, size=size) as (page, _):
        for view, address in VIEWS.items():
            await page.goto(site.url(address))
            await shown(page, view)
            found[view] = await page.evaluate(broken)
    assert not {view: words for view, words in found.items() if words}


@pytest.mark.parametrize("size", [PHONE, NARROWEST], ids=["phone", "narrowest"])
async def test_a_plan_that_evicts_nobody_fits(browser: Any, size: dict[str, int]) -> None:
    """Where nobody goes the costs are one sentence, which took one line however long."""
    stage = Stage()
    for index in range(2):
        stage.node(f"free-{index}", "eu-west-1a")
    key = stage.gang("lucky", (), size=2)
    assert not stage.plan(key).victims
    async with serving(stage) as site, opened(browser, size=size) as (page, _):
        await page.goto(site.url(f"gang?name={key}"))
        await page.wait_for_selector("text=Nothing: no pod is evicted")
        assert await too_wide(page) == []


async def test_large_map_has_no_violation_and_tells_nodes(browser: Any, pictures: Path) -> None:
    async with serving(large_cluster()) as site:
        for look in LOOKS:
            async with opened(browser, site.url("cluster"), dark=look.dark, size=look.size) as (
                page,
                complaints,
            ):
                first = page.locator("svg.map").first
                await first.scroll_into_view_if_needed()
                box = await first.bounding_box()
                await page.mouse.move(box["x"] + 5, box["y"] + 5)
                await page.wait_for_selector("#tip:not([hidden])")
                assert "node-0000" in await page.text_content("#tip")
                assert not [*await violations(page), *await too_wide(page)]
                await page.screenshot(path=pictures / f"large-map-{look.name}.png")
                await page.mouse.click(box["x"] + 5, box["y"] + 5)
                await page.wait_for_url("**/node?name=node-0000")
                assert not complaints


async def test_page_follows_the_cluster_and_leaves_the_reader_alone(
    browser: Any, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "LOOK_SECONDS", 0.05)
    async with opened(browser, site.url("decisions")) as (page, complaints):
        await page.clock.resume()
        await page.wait_for_selector("#live button")
        await page.locator("details summary").first.click()
        await page.fill("[name=q]", "half typed")
        await page.evaluate("window.kept = document.querySelector('details')")
        site.stage.generation += 1
        site.stage.problems = ("the cache is stale",)
        site.stage.decisions.insert(
            0,
            site.stage.decisions[-1].__class__(
                time=site.stage.decisions[0].time + 9,
                gang="pod-group:a/brand-new",
                verb=Verb.LOOP,
                outcome=site.stage.decisions[-1].outcome,
                message="just now",
            ),
        )
        await page.wait_for_selector("text=brand-new")
        await page.wait_for_selector("text=not ready")
        assert await page.input_value("[name=q]") == "half typed"
        assert await page.evaluate("document.activeElement.name") == "q"
        assert await page.evaluate("window.kept.isConnected && window.kept.open"), "kept, and open"
        assert not complaints


async def test_updates_stop_when_asked(
    browser: Any, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second page that was not asked to stop says when the first would have changed."""
    monkeypatch.setattr(events, "LOOK_SECONDS", 0.05)
    async with (
        opened(browser, site.url("")) as (page, _),
        opened(browser, site.url("")) as (other, _),
    ):
        await page.clock.resume()
        await other.clock.resume()
        button = page.locator("#live button")
        await button.click()
        assert await button.get_attribute("aria-pressed") == "false"
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        # There is a second between two updates, so the second one is past any that was due.
        for problem in ("the cache is stale", "no watch of pods"):
            site.stage.generation += 1
            site.stage.problems = (problem,)
            await other.wait_for_selector(f"text={problem}")
        assert not asked
        assert "Not ready" not in await page.text_content("main")
        await button.click()
        await page.wait_for_selector("text=no watch of pods")
        assert site.url("") in asked


async def test_everything_is_reached_by_keyboard(browser: Any, site: Site) -> None:
    async with opened(browser, site.url("")) as (page, _):
        await page.keyboard.press("Tab")
        assert await page.evaluate("document.activeElement.className") == "skip"
        await page.keyboard.press("Enter")
        assert page.url.endswith("#main")
        # From there on: tiles, the form, then the first gang.
        for _ in range(20):
            await page.keyboard.press("Tab")
            if await page.evaluate("document.activeElement.textContent") == "frontier-run":
                break
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/gang?name=*")


async def test_pages_read_without_scripts(browser: Any, site: Site) -> None:
    async with opened(browser, site.url(VIEWS["gang"]), scripts=False) as (page, complaints):
        assert "8 seats are reserved" in (await page.text_content("main"))
        assert "2026-11-18 11:05:48" in (await page.text_content(".timeline"))
        await page.click("text=What if …")
        await page.fill("[name=priority]", "7")
        await page.click("button:text-is('Ask')")
        assert "With priority 7" in (await page.text_content("main"))
        assert not complaints


async def test_what_a_tenant_writes_does_not_run(browser: Any) -> None:
    from tests.console.test_bounds import PAGES, hostile

    async with serving(hostile()) as site, opened(browser) as (page, complaints):
        ran: list[str] = []
        page.on("dialog", lambda dialog: ran.append(dialog.message))
        from urllib.parse import urlencode

        for path, query in PAGES[:-1]:
            await page.goto(f"{site.url(path)}?{urlencode(query)}")
            assert await page.evaluate("document.scripts.length") <= 1
        assert not ran
        wrong = [one for one in complaints if "404" not in one]
        assert not wrong


async def test_pictures_for_the_docs(browser: Any, site: Site) -> None:
    """Writes them where CONSOLE_PICTURES says; else looks only whether that could be done."""
    folder = os.environ.get("CONSOLE_PICTURES")
    wanted = {
        "console-gangs.png": ("", False),
        "console-gang.png": (VIEWS["gang"], True),
        "console-what-if.png": (VIEWS["what-if"], False),
    }
    for name, (address, dark) in wanted.items():
        async with opened(browser, site.url(address), dark=dark) as (page, _):
            if "what-if" in name:
                await asked(page)
            picture = await page.screenshot()
            assert len(picture) < 250_000
            if folder:
                Path(folder, name).write_bytes(picture)
    async with (
        serving(large_cluster()) as large,
        opened(browser, large.url("cluster")) as (page, _),
    ):
        # One of the thirteen days that are known had nothing to decide.
        assert await page.locator(".strip.month g:has(.b-move)").count() == 12
        strip = await page.locator(".strip.month").bounding_box()
        below = strip["y"] + strip["height"] + 20
        shown = {"x": 0, "y": 0, "width": page.viewport_size["width"], "height": below}
        picture = await page.screenshot(full_page=True, clip=shown)
        if folder:
            Path(folder, "console-map.png").write_bytes(picture)


WINNER, VICTIM = "pod-group:research/frontier-run", "pod-group:research/moe-ablation"
both = pytest.mark.parametrize("size", [TABLET, DESK], ids=["tablet", "desk"])


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


NODES = tuple(f"node-{'x' * 245}{index}" for index in range(4))
SPACE = "n" * 63
LONG_VIEWS = (
    "",
    f"gang?name={quote(f'pod-group:{SPACE}/' + 'w' * 250)}",
    f"gang?name={quote(f'pod-group:{SPACE}/' + 'y' * 250)}",
    "decisions",
    "cluster",
    f"node?name={NODES[0]}",
    f"node?name={NODES[3]}",
    "what-if",
)


def long_names() -> Stage:
    stage = Stage()
    for name in NODES:
        stage.node(name, "z" * 63)
    stage.gang("g" * 240, NODES[:3], namespace=SPACE, priority=2**31 - 11)
    stage.plan(stage.gang("w" * 250, (), size=4, namespace=SPACE, priority=2**31 - 10), "waiting")
    stage.refuse(stage.gang("y" * 250, (), size=40, namespace=SPACE, priority=5))
    stage.tell(f"pod-group:{SPACE}/{'w' * 250}", Outcome.REFUSAL, "m" * 800, 3.0)
    stage.single("p" * 250, NODES[3], gpus=1)
    stage.problems = ("P" * 400,)
    return stage


@pytest.mark.parametrize("size", [DESK, PHONE, {"width": 360, "height": 740}, NARROWEST], ids=str)
async def test_views_fit(browser: Any, size: dict[str, int]) -> None:
    async with serving(long_names()) as site, opened(browser, size=size) as (page, _):
        for view in LONG_VIEWS:
            await page.goto(site.url(view))
            await page.evaluate(
                "document.querySelectorAll('details').forEach((d) => d.open = true)"
            )
            assert await too_wide(page) == [], view


OBSERVED_VIEWS = {
    "observed": "observed",
    "observed-gangs": "",
    "observed-gang": "gang?name=frontier-run",
    "observed-decisions": "decisions",
    "observed-cluster": "cluster",
}


@pytest_asyncio.fixture(loop_scope="module")
async def observed_site() -> AsyncIterator[Site]:
    async with serving(observed_cluster()) as one:
        yield one


@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look.name)
async def test_observed_no_view_has_a_violation_and_all_fit(
    browser: Any, observed_site: Site, pictures: Path, look: Look
) -> None:
    found: dict[str, list[str]] = {}
    async with opened(browser, dark=look.dark, size=look.size) as (page, complaints):
        for view, address in OBSERVED_VIEWS.items():
            await page.goto(observed_site.url(address))
            found[view] = [*await violations(page), *await too_wide(page)]
            await page.screenshot(path=pictures / f"{view}-{look.name}.png", full_page=True)
        assert not complaints
    assert not {view: wrong for view, wrong in found.items() if wrong}


async def test_picture_for_the_docs(browser: Any, observed_site: Site) -> None:
    """Written where CONSOLE_PICTURES says; else it is looked only whether that could be done."""
    async with opened(
        browser, observed_site.url("observed"), size={"width": 1280, "height": 1010}
    ) as (
        page,
        _,
    ):
        picture = await page.screenshot()
        assert len(picture) < 250_000
        if folder := os.environ.get("CONSOLE_PICTURES"):
            Path(folder, "console-observed.png").write_bytes(picture)


async def test_page_reads_without_scripts(browser: Any, observed_site: Site) -> None:
    async with opened(browser, observed_site.url(""), scripts=False) as (page, complaints):
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
