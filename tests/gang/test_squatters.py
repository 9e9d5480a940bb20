"""Pods that come to held seats without an offer, as with spec.nodeName."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from msgspec.structs import replace

from extender.gang.controller.scheduling_cycle import MOST_DISPLACED
from extender.gang.core.reservations import Preemption
from extender.gang.tell.decisions import Verb
from extender.gang.tell.preemption_state import PreemptionState
from extender.model.plan import Refusal
from extender.settings.settings import EvictionSettings, SeatSettings, Settings
from tests.gang.limited import rigged
from tests.gang.rig import FAST, HIGH, Rig

ONCE = replace(FAST, seats=replace(FAST.seats, give_ups=1, max_replans=1))
"""One plan that counts as given up suspends the gang."""


async def squat(
    rig: Rig, name: str, node: str, *, namespace: str = "tenant", cpu: str = "3"
) -> None:
    """Make a pod that is on a node from the beginning."""
    spec: dict[str, Any] = {
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}],
        "terminationGracePeriodSeconds": 0,
        "priorityClassName": "low",
    }
    if node:
        spec["nodeName"] = node
    await rig.client.create(
        f"/api/v1/namespaces/{namespace}/pods", {"metadata": {"name": name}, "spec": spec}
    )


class Squatter:
    """A tenant that makes a pod on the node of each of its pods that goes, at once."""

    def __init__(self, rig: Rig, most: int, namespace: str) -> None:
        self._rig = rig
        self._most = most
        self._namespace = namespace
        self._tasks: set[asyncio.Task[None]] = set()
        self.made: list[str] = []

    def observe(self, change: Any) -> None:
        gone = change.kind == "pod" and change.new is None and change.old.node
        if gone and change.old.namespace == self._namespace and len(self.made) < self._most:
            self.made.append(f"squat-{len(self.made)}")
            made = squat(self._rig, self.made[-1], change.old.node, namespace=self._namespace)
            task = asyncio.create_task(made)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


@asynccontextmanager
async def squatted(
    settings: Settings, most: int, namespace: str = "tenant"
) -> AsyncIterator[tuple[Rig, Squatter]]:
    """Two nodes with a low pod each, whose owner squats ``most`` times; a gang of two waits."""
    async with rigged(settings) as rig:
        if namespace != "default":
            await rig.client.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        squatter = Squatter(rig, most, namespace)
        for node in ("n0", "n1"):
            await squat(rig, f"low-{node}", node, namespace=namespace)
        await rig.until(lambda: len(rig.cache.store.pods.by_uid) == 2, "two pods")
        rig.cache.subscribe(squatter.observe)
        await rig.gang("high", 2, "high")
        yield rig, squatter


async def plan(rig: Rig) -> Preemption | Refusal:
    """Have the gang planned; no penalty of a plan before keeps it waiting."""
    rig.coordinator._reading.waiting.succeeded(rig.resolver_key("high-0"))
    return await rig.coordinator.ensure(rig.resolver_key("high-0"), Verb.LOOP)


async def ends(rig: Rig, number: int) -> None:
    """Let so many of the gang's plans end; kube-scheduler is there, and asks about another pod."""
    await rig.pod("other", cls="low")
    for done in range(number):
        assert isinstance(await plan(rig), Preemption)
        while rig.outcomes("high").count("gave-up") == done:
            await rig.filter("other", "elsewhere")
            await rig.client.get("/api/v1/nodes")


async def open_seats(rig: Rig) -> Preemption:
    def opened() -> list[Preemption]:
        return [
            preemption
            for preemption in rig.coordinator.reservations
            if preemption.state is PreemptionState.OPEN
        ]

    await rig.until(lambda: bool(opened()), "the seats are open")
    return opened()[0]


async def test_squatters_are_victims_of_the_plan_whose_seats_they_took() -> None:
    """maxReplans is 0: nothing of it is spent on them."""
    seats = SeatSettings(bind_seconds=30.0, victim_slack_seconds=1.0, give_ups=1, max_replans=0)
    async with squatted(replace(FAST, seats=seats), 1) as (rig, squatter):
        await plan(rig)
        await rig.until(lambda: len(rig.outcomes("high")) == 2, "the plan is changed, or ends")
        assert rig.outcomes("high") == ["plan", "plan"], rig.messages("high")
        preemption = await open_seats(rig)
        assert squatter.made == ["squat-0"]
        for i, name in enumerate(HIGH):
            assert (await rig.filter(name, "n0", "n1")).node_names
            await rig.bind(name, f"n{i}")
        await rig.until(lambda: "done" in rig.outcomes("high"), "it sits")
        assert preemption.replans == 0
        assert rig.outcomes("high") == ["plan", "plan", "done"]
        assert "tenant/squat-0" in rig.messages("high")


async def test_a_tireless_squatter_gets_nobody_suspended_and_evictions_end() -> None:
    async with squatted(ONCE, 1000) as (rig, squatter):
        await ends(rig, 2)
        refusal = await plan(rig)
        assert isinstance(refusal, Refusal)
        why = "pods of namespace tenant came or changed in the way of"
        assert why in " ".join(refusal.details)
        assert "suspended" not in rig.outcomes("high")
        assert rig.coordinator.admission.describe()["suspended"] == []
        plans = rig.outcomes("high").count("plan")
        assert plans <= 2 * (1 + MOST_DISPLACED)
        made = len(squatter.made)
        await rig.rounds()
        assert len(squatter.made) == made <= 2 * plans, "no eviction while the refusal stands"
        assert rig.coordinator.admission.counted["seats-taken"] == 2


async def test_squatters_are_charged_to_their_own_namespace() -> None:
    limits = EvictionSettings(per_namespace_hour=2)
    async with squatted(replace(ONCE, eviction=limits), 1000) as (rig, _):
        await ends(rig, 1)
        assert "budget" not in rig.outcomes("high")
        admission = rig.coordinator.admission
        now = rig.coordinator.clocks.monotonic()
        assert admission.budget.totals(now)["default"] == 2
        assert admission.budget.totals(now)["tenant"] >= MOST_DISPLACED
        assert admission.turns.used("tenant", now) > 0


async def test_others_are_tried_where_squatters_always_win() -> None:
    async with squatted(ONCE, 1000) as (rig, _):
        await rig.classes(mid=50)
        await rig.nodes(2, first=2)
        for i in (2, 3):
            await rig.pod(f"mid-{i}", cls="mid", on=f"n{i}")
        await rig.until(lambda: rig.cache.pod_named("default", "mid-3") is not None, "mid-3")
        await ends(rig, 2)
        await plan(rig)
        preemption = await open_seats(rig)
        assert set(preemption.seats.values()) == {"n2", "n3"}


async def test_who_squats_on_seats_of_its_own_namespace_has_itself_to_blame() -> None:
    async with squatted(ONCE, 1000, namespace="default") as (rig, _):
        await ends(rig, 1)
        assert rig.coordinator.admission.describe()["suspended"] != []
        assert rig.outcomes("high").count("plan") == 2, "as often as maxReplans says"


async def test_a_pod_that_grows_beside_a_seat_is_the_fault_of_others_too() -> None:
    async with rigged(ONCE) as rig:
        await rig.client.create("/api/v1/namespaces", {"metadata": {"name": "tenant"}})
        await squat(rig, "low", "n0", cpu="1")
        await rig.until(lambda: rig.cache.pod_named("tenant", "low") is not None, "low")
        await rig.gang("high", 2, "high")
        preemption = await plan(rig)
        assert isinstance(preemption, Preemption)
        old = rig.cache.pod_named("tenant", "low")
        assert old is not None
        grown = replace(old, requests=(("cpu", 3000), ("pods", 1)))
        rig.coordinator.observe(old, grown)
        assert preemption.unadmitted == {old.uid: grown}
        shrunk = replace(old, requests=(("cpu", 500), ("pods", 1)))
        preemption.unadmitted.clear()
        rig.coordinator.observe(old, shrunk)
        assert preemption.unadmitted == {}


async def test_a_pod_that_was_offered_the_node_is_no_squatter() -> None:
    async with rigged(ONCE) as rig:
        await rig.client.create("/api/v1/namespaces", {"metadata": {"name": "tenant"}})
        await rig.gang("high", 2, "high")
        preemption = await plan(rig)
        assert isinstance(preemption, Preemption)
        await squat(rig, "asks", "")
        await rig.until(lambda: rig.cache.pod_named("tenant", "asks") is not None, "asks")
        pod = rig.cache.pod_named("tenant", "asks")
        assert pod is not None
        rig.coordinator.offers.note(pod, ["n0"])
        rig.coordinator.observe(pod, replace(pod, node="n0"))
        assert preemption.unadmitted == {}
        rig.coordinator.observe(pod, replace(pod, node="n0"))
        assert preemption.unadmitted == {}, "its volume may have taken longer than offers are kept"
        rig.coordinator.observe(None, replace(pod, uid="other", node="n0"))
        assert list(preemption.unadmitted) == ["other"]


async def test_any_number_of_pods_after_it_hides_no_squatter() -> None:
    """Those that go again are forgotten, those that stay are as many as the nodes hold."""
    async with rigged(ONCE) as rig:
        await rig.client.create("/api/v1/namespaces", {"metadata": {"name": "tenant"}})
        await squat(rig, "robber", "n0")
        await rig.until(lambda: rig.cache.pod_named("tenant", "robber") is not None, "robber")
        robber = rig.cache.pod_named("tenant", "robber")
        assert robber is not None
        await rig.gang("high", 2, "high")
        preemption = await plan(rig)
        assert isinstance(preemption, Preemption)
        rig.coordinator.observe(None, robber)
        decoys = [replace(robber, uid=f"d{i}", name=f"d{i}", requests=()) for i in range(3000)]
        for decoy in decoys:
            rig.coordinator.observe(None, decoy)
        assert robber.uid in preemption.unadmitted
        for decoy in decoys:
            rig.coordinator.observe(decoy, None)
        assert list(preemption.unadmitted) == [robber.uid]
