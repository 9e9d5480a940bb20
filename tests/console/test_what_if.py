"""What-if questions: true answers beside each other, and nothing comes of them."""

from __future__ import annotations

import asyncio
import threading

import aiohttp
import pytest

from extender.console import asking
from extender.gang.tell.what_ifs import TooManyAsked, WhatIfs
from extender.model.errors import InvalidInput
from extender.settings.cost_order import ORDERS
from tests.console.reading import Read
from tests.console.site import Site, serving
from tests.console.stage import Stage

MANIFEST = """
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: new, namespace: vision}
spec:
  schedulingPolicy: {gang: {minCount: 2}}
  priorityClassName: urgent
---
apiVersion: batch/v1
kind: Job
metadata: {name: train, namespace: vision}
spec:
  parallelism: 2
  completions: 2
  completionMode: Indexed
  template:
    spec:
      priorityClassName: urgent
      schedulingGroup: {podGroupName: new}
      containers: [{name: c, resources: {requests: {cpu: "80", nvidia.com/gpu: "8"}}}]
"""


async def ask(web: aiohttp.ClientSession, site: Site, **form: str) -> str:
    async with web.post(site.url("what-if"), data=form) as answer:
        assert answer.status == 200, await answer.text()
        return Read(await answer.text()).words


async def test_gang_as_it_is(site: Site, web: aiohttp.ClientSession) -> None:
    text = await ask(web, site, gang="nightly-distill")
    assert "The answer Refused infeasible" in text
    assert "Result of the change" not in text


async def test_another_priority(site: Site, web: aiohttp.ClientSession) -> None:
    before = (site.stage.capture(), len(site.stage.holds))
    text = await ask(web, site, gang="pod-group:vision/nightly-distill", priority="6000")
    assert "It would run, and 4 pods would be evicted for it." in text
    assert "As it is Refused infeasible" in text
    assert "With priority 6000" in text
    assert "gangs@1000 gangs broken of priority 1000 0 1" in text
    assert "+ agents/rl-rollouts-0 on gpu-b-10" in text
    assert (site.stage.capture(), len(site.stage.holds)) == before


async def test_another_quorum(site: Site, web: aiohttp.ClientSession) -> None:
    text = await ask(web, site, gang="nightly-distill", minCount="1")
    assert "With minCount 1" in text
    assert "It would run, and 1 pod would be evicted for it." in text
    text = await ask(web, site, gang="giant-eval", minCount="90")
    assert "Refused either way." in text


def two_ways() -> Stage:
    """Room for one member: four small pods of priority 10, or one large one of priority 50."""
    stage = Stage()
    for name in ("gpu-a-0", "gpu-a-1"):
        stage.node(name, "eu-west-1a")
    for index in range(4):
        stage.single(f"small-{index}", "gpu-a-0", gpus=2, priority=10)
    stage.single("large", "gpu-a-1", gpus=8, priority=50)
    stage.gang("urgent", (), size=1, priority=1000)
    return stage


async def test_another_cost_order(web: aiohttp.ClientSession) -> None:
    async with serving(two_ways()) as site:
        text = await ask(web, site, gang="urgent", costOrder="fewest-pods")
        assert "As it is 4 pods evicted" in text
        assert "With cost order fewest-pods 1 pod evicted" in text
        assert "1 pod more and 4 fewer would be evicted: 1 instead of 4." in text
        assert "+ batch/large on gpu-a-1" in text
        assert "\N{MINUS SIGN} batch/small-0 on gpu-a-0" in text
        # Both orders count by priority; "pods" was not counted by the first and so is no 0.
        assert "pods@50 pods evicted of priority 50 0 1" in text
        assert "pods pods evicted, whatever their priority 0 1" not in text
        # The configured order is no change, and its planner still knows its own order.
        text = await ask(web, site, gang="urgent", costOrder="default")
        assert "The answer 4 pods evicted" in text
        text = await ask(web, site, gang="urgent", costOrder="fewest-gangs")
        assert "With cost order fewest-gangs" in text


async def test_a_cost_order_that_does_not_exist(site: Site, web: aiohttp.ClientSession) -> None:
    form = {"gang": "nightly-distill", "costOrder": "cheapest"}
    async with web.post(site.url("what-if"), data=form) as answer:
        assert answer.status == 400
        assert "does not exist (known: default, gangs-by-priority" in await answer.text()


async def test_planners_of_other_orders_do_not_pile_up(web: aiohttp.ClientSession) -> None:
    """Each keeps sums over all pods: the configured order's and one more, whatever is asked."""
    async with serving(two_ways()) as site:
        for order in ORDERS:
            await ask(web, site, gang="urgent", costOrder=order)
        assert site.console._asking is not None
        assert set(site.console._asking._what_ifs._planners) == {"default", "fewest-gangs"}


async def test_manifest(site: Site, web: aiohttp.ClientSession) -> None:
    text = await ask(web, site, gang="new", manifest=MANIFEST)
    assert "The answer 4 pods evicted in 1 unit, 2 seats" in text
    assert "The answer 4 pods evicted in 1 unit, 2 seats" in await ask(web, site, manifest=MANIFEST)
    text = await ask(web, site, gang="new", manifest=MANIFEST, priority="1")
    assert "It would not run any more." in text


async def test_what_is_not_understood_is_told(site: Site, web: aiohttp.ClientSession) -> None:
    assert "No answer: no gang is named 'nobody'" in await ask(web, site, gang="nobody")
    assert "No answer: manifest" in await ask(web, site, gang="x", manifest="a: [")
    assert "choose a gang" in await ask(web, site, priority="3")
    for form in ({"priority": "x"}, {"priority": "9" * 30}, {"minCount": "0"}):
        async with web.post(site.url("what-if"), data={"gang": "x", **form}) as answer:
            assert answer.status == 400
            assert "whole number" in await answer.text()


@pytest.mark.parametrize(
    "kind", ["application/json", "text/plain", "multipart/form-data; boundary=x"]
)
async def test_a_body_that_is_no_form_is_told(
    kind: str, site: Site, web: aiohttp.ClientSession
) -> None:
    """It was read as a form without fields, and a gang was asked for that it names."""
    async with web.post(
        site.url("what-if"), data=b'{"gang": "nightly-distill"}', headers={"Content-Type": kind}
    ) as answer:
        assert answer.status == 400
        assert "Content-Type: must be application/x-www-form-urlencoded" in await answer.text()
    assert "Refused" in await ask(web, site, gang="nightly-distill")


async def test_too_many_questions(
    site: Site, web: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(self: object, asked: object) -> None:
        raise TooManyAsked("5 questions wait already")

    monkeypatch.setattr(asking.WhatIfAsker, "ask", full)
    async with web.post(site.url("what-if"), data={"gang": "x"}) as answer:
        assert answer.status == 503
        assert "5 questions wait already" in await answer.text()


async def test_who_leaves_ends_the_search(
    site: Site, web: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def endless(self: object, asked: object) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    monkeypatch.setattr(asking.WhatIfAsker, "ask", endless)
    asked = asyncio.create_task(web.post(site.url("what-if"), data={"gang": "x"}).__aenter__())
    async with asyncio.timeout(60):
        await begun.wait()
        assert site.server.app.busy == 0, "it waits, and keeps nobody busy"
        asked.cancel()
        await ended.wait()
        await site.server.app.idle()


async def test_questions_that_wait_when_the_process_stops_are_answered(
    site: Site, web: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, gate = threading.Event(), threading.Event()

    def endless(self: object, question: object, cancel: object) -> None:
        begun.set()
        gate.wait(60)
        raise InvalidInput("no caller waits for the answer any more")

    monkeypatch.setattr(WhatIfs, "_answer", endless)
    form = {"gang": "nightly-distill"}
    asked = [asyncio.create_task(web.post(site.url("what-if"), data=form)) for _ in range(3)]
    assert await asyncio.to_thread(begun.wait, 60)
    async with asyncio.timeout(60):
        while len(site.console._asking._what_ifs._flags) < 3:  # type: ignore[union-attr]
            await asyncio.sleep(0.01)
        site.console.stopping()
        gate.set()
        answers = await asyncio.gather(*asked)
    assert {answer.status for answer in answers} == {503}
    for answer in answers:
        answer.close()


async def test_following_a_link_asks_nothing(site: Site, web: aiohttp.ClientSession) -> None:
    async with web.get(site.url("what-if?gang=nightly-distill&priority=7")) as answer:
        text = await answer.text()
    assert 'value="nightly-distill"' in text
    assert 'value="7"' in text
    assert site.console._asking is None
