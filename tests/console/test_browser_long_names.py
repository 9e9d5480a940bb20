"""Names as long as Kubernetes lets them be, without a blank: no view is wider than the screen."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from extender.gang.tell.decisions import Outcome
from tests.console.browser import DESK, NARROWEST, PHONE, opened, too_wide
from tests.console.site import serving
from tests.console.stage import Stage

# One browser for all: its start costs more than most tests.
pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

NODES = tuple(f"node-{'x' * 245}{index}" for index in range(4))
SPACE = "n" * 63
VIEWS = (
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
        for view in VIEWS:
            await page.goto(site.url(view))
            await page.evaluate(
                "document.querySelectorAll('details').forEach((d) => d.open = true)"
            )
            assert await too_wide(page) == [], view
