"""What a PodGroup object says of its gang, and what is not done for it.

See docs/security.md, row 5.
"""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import pytest
from msgspec.structs import replace

from extender.gang.core.last_check import KeptGangs
from extender.gang.runtime.background import Background
from extender.gang.status import group_conditions
from extender.gang.status.group_conditions import TYPE, GroupConditions, condition_of
from extender.gang.tell.decisions import Decision, Outcome, Verb
from extender.groups.resolver import Resolver
from extender.kube.api_errors import ApiError, Forbidden, NotFound
from extender.model.plan import Code
from extender.settings.settings import GroupSettings, Settings
from tests.gang.hearing import Hearing
from tests.gang.rig import FAST, Rig, full_cluster
from tests.gang.showing import Showing
from tests.gang.world import group, node, pod, snapshot

GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"


async def condition(rig: Rig, group: str) -> dict[str, Any]:
    found = (await rig.client.get(f"{GROUPS}/{group}")).get("status", {}).get("conditions", [])
    return next((each for each in found if each["type"] == TYPE), {})


async def until_said(rig: Rig, group: str, reason: str) -> dict[str, Any]:
    for _ in range(3000):
        said = await condition(rig, group)
        if said.get("reason") == reason:
            return said
        await asyncio.sleep(0.01)
    raise AssertionError(f"{group} does not say {reason} but {said}; {rig.messages(group)}")


async def test_a_podgroup_says_why_it_waits_and_when_it_sits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(group_conditions, "PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(group_conditions, "MAKING_SECONDS", 0.0)
    async with Rig() as rig:
        await rig.nodes(2)
        await rig.classes(low=1, high=100)
        theirs = {"type": "PodGroupInitiallyScheduled", "status": "False", "reason": "Mine"}
        await rig.group("high", 2, "high")
        await rig.client.patch(
            f"{GROUPS}/high/status", {"status": {"conditions": [theirs]}}, kind="strategic"
        )
        await rig.pod("high-0", cls="high", group="high")
        await rig.filter("high-0", "n0", "n1")
        said = await until_said(rig, "high", "Incomplete")
        assert said["status"] == "False"
        assert "1 of 2 exist" in said["message"]
        began = said["lastTransitionTime"]
        assert began
        await rig.gang("low", 2, "low", on="n", grace=60)
        await rig.pod("high-1", cls="high", group="high")
        await rig.until(lambda: rig.cache.pod_named("default", "high-1") is not None)
        await rig.preempt("high-0", n0=["low-0"])
        said = await until_said(rig, "high", "Preempting")
        assert said["lastTransitionTime"] == began
        for i in range(2):
            await rig.remove(f"low-{i}")
        for i in range(2):
            await rig.bind(f"high-{i}", f"n{i}")
        assert (await until_said(rig, "high", "Scheduled"))["status"] == "True"
        found = (await rig.client.get(f"{GROUPS}/high"))["status"]["conditions"]
        assert theirs in found
        assert len(found) == 2


async def test_nothing_is_written_where_that_is_off() -> None:
    settings = replace(FAST, groups=replace(FAST.groups, conditions=False))
    assert GroupSettings().conditions
    async with Rig(settings) as rig:
        await rig.nodes(2)
        await rig.classes(low=1, high=100)
        await full_cluster(rig)
        await rig.preempt("high-0", n0=["low-0"])
        await rig.until_names("high-0", "high-1")
        rig.coordinator.telling.conditions.round()
        assert not rig.coordinator.telling.conditions._known
        assert await condition(rig, "high") == {}


class Api:
    """Answers patches, or raises."""

    def __init__(self) -> None:
        self.answer: ApiError | None = None
        self.patches: list[tuple[str, dict[str, Any]]] = []

    async def get(self, path: str) -> dict[str, Any]:
        if "v1beta1" in path:
            raise NotFound(404, "NotFound", path)
        return {"resources": [{"name": "podgroups", "verbs": ["list", "watch"]}]}

    async def patch(self, path: str, body: dict[str, Any], kind: str) -> dict[str, Any]:
        self.patches.append((path, body))
        assert kind == "strategic"
        if self.answer is not None:
            raise self.answer
        return {}


class Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now

    wall = monotonic


class Alone:
    acts = True


class Bench:
    """GroupConditions with everything but the API server."""

    def __init__(self, groups: int = 1) -> None:
        self.api, self.clock, self.heard = Api(), Clock(), Hearing()
        self.state = snapshot(
            [],
            [pod(f"m{i}", group=f"g{i}") for i in range(groups)],
            [group(f"g{i}", 1) for i in range(groups)],
        )
        self.background = Background()
        self.conditions = GroupConditions(
            self.api,  # type: ignore[arg-type]
            Showing(lambda: self.state),
            KeptGangs(Resolver(Settings().groups)),
            self.clock,  # type: ignore[arg-type]
            Alone(),  # type: ignore[arg-type]
            self.background,
            self.heard,
        )

    def refuse(self, why: str, name: str = "g0", code: Code = Code.INFEASIBLE) -> None:
        decision = Decision(
            time=0.0,
            gang=f"pod-group:default/{name}",
            verb=Verb.LOOP,
            outcome=Outcome.REFUSAL,
            code=code,
            message=why,
        )
        self.conditions.decided(decision)

    async def round(self) -> int:
        """Return how many patches were sent."""
        before = len(self.api.patches)
        self.conditions.round()
        while self.conditions._under_way:
            await asyncio.sleep(0)
        return len(self.api.patches) - before


async def test_an_object_is_written_to_once_a_minute_and_on_change_only() -> None:
    bench = Bench()
    bench.refuse("a")
    assert await bench.round() == 1
    path, body = bench.api.patches[0]
    assert path == "/apis/scheduling.k8s.io/v1alpha3/namespaces/default/podgroups/g0/status"
    assert body["metadata"]["uid"] == "group-g0"
    bench.refuse("b")
    assert await bench.round() == 0
    bench.clock.now += 59
    bench.refuse("c")
    assert await bench.round() == 0
    bench.clock.now += 1
    assert await bench.round() == 1
    (said,) = bench.api.patches[1][1]["status"]["conditions"]
    assert said["message"].startswith("c. Next: `what-if GANG` says what would change it")
    assert said["lastTransitionTime"] == body["status"]["conditions"][0]["lastTransitionTime"]
    bench.clock.now += 100
    bench.refuse("c")
    assert await bench.round() == 0
    bench.refuse("x" * 5000)
    assert await bench.round() == 1
    assert len(bench.api.patches[-1][1]["status"]["conditions"][0]["message"]) <= 1100


@pytest.mark.parametrize("code", [Code.INCOMPLETE, Code.UNSEEN])
async def test_nothing_is_missing_while_pods_are_being_made(code: Code) -> None:
    """It was written of the first pod of six, and stood there for a minute beside all of them."""
    bench = Bench()
    bench.refuse("1 of 6 exist", code=code)
    bench.clock.now += 9
    bench.refuse("5 of 6 exist", code=code)
    assert await bench.round() == 0
    bench.refuse("no room")
    assert await bench.round() == 1
    assert bench.api.patches[0][1]["status"]["conditions"][0]["reason"] == "Unschedulable"
    bench.clock.now += 100
    bench.refuse("5 of 6 exist", code=code)
    assert await bench.round() == 0
    bench.clock.now += group_conditions.MAKING_SECONDS
    assert await bench.round() == 1


async def test_writes_are_few_at_a_time() -> None:
    bench = Bench(30)
    for i in range(30):
        bench.refuse("a", f"g{i}")
    bench.conditions.round()
    bench.conditions.round()
    assert bench.conditions._under_way == group_conditions.MOST_AT_ONCE
    rounds = 0
    while await bench.round() or bench.conditions._due:
        rounds += 1
        assert rounds < 20
    assert len({path for path, _ in bench.api.patches}) == 30


async def test_one_refused_right_ends_it_with_one_line(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(3)
    bench.api.answer = Forbidden(403, "Forbidden", "no")
    for i in range(3):
        bench.refuse("a", f"g{i}")
    await bench.round()
    bench.clock.now += 1000
    bench.refuse("b")
    assert await bench.round() == 0
    assert not bench.heard.failures


async def test_objects_that_are_gone_are_no_reason_to_stop_and_a_missing_resource_is() -> None:
    bench = Bench(2)
    bench.api.answer = NotFound(404, "NotFound", "gone")
    state = bench.state
    for i in range(10):
        bench.state = state
        bench.refuse(f"a{i}")
        bench.conditions.round()
        bench.state = replace(state, groups={})
        while bench.conditions._under_way:
            await asyncio.sleep(0)
        bench.clock.now += 61
    assert len(bench.api.patches) == 10
    bench.state = state
    for i in range(10):
        bench.refuse(f"b{i}")
        await bench.round()
        bench.clock.now += 61
    assert len(bench.api.patches) == 10 + group_conditions.MOST_MISSING


async def test_any_other_failure_is_told_and_tried_again_a_minute_later() -> None:
    bench = Bench()
    bench.api.answer = ApiError(500, "InternalError", "no")
    bench.refuse("a")
    assert await bench.round() == 1
    assert await bench.round() == 0
    assert bench.heard.failures == ["condition of pod-group:default/g0"]
    bench.api.answer = None
    bench.clock.now += 60
    assert await bench.round() == 1
    assert await bench.round() == 0


async def test_what_became_untrue_is_corrected_and_what_is_gone_forgotten() -> None:
    bench = Bench(2)
    bench.refuse("a")
    bench.refuse("a", "g1")
    assert await bench.round() == 2
    bench.state = snapshot([node("n0")], [pod("m0", group="g0", on="n0")], [group("g0", 1)])
    bench.clock.now += 61
    assert await bench.round() == 1
    assert bench.api.patches[-1][1]["status"]["conditions"][0]["status"] == "True"
    assert len(bench.conditions._known) == 1


def test_only_what_lasts_is_said() -> None:
    def of(outcome: Outcome, code: Code | Literal[""] = "") -> str:
        said = condition_of(
            Decision(time=0, gang="g", verb=Verb.FILTER, outcome=outcome, code=code, message="m")
        )
        return "" if said is None else said.reason

    assert of(Outcome.REFUSAL, Code.STALE) == ""
    assert of(Outcome.REFUSAL, Code.PENALTY) == ""
    assert of(Outcome.REFUSAL, Code.SUSPENDED) == "Suspended"
    assert of(Outcome.REFUSAL, Code.UNSEEN) == "NoNodeNamed"
    assert of(Outcome.REFUSAL, Code.NOT_NEEDED) == "Scheduled"
    assert of(Outcome.BROKEN) == ""
    assert of(Outcome.PLAN) == ""
    assert of(Outcome.DONE) == "Scheduled"
