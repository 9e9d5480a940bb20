"""Gangs of CompositePodGroups, as victims and as preemptors, on the sandbox's API server.

Groups of two pods of 3 CPU each, nodes of 4 CPU.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from extender.gang.tell.decisions import Verb
from extender.gang.tell.preemption_state import PreemptionState
from extender.groups.composite import SUFFIX
from extender.sandbox.apiserver import ApiServer
from extender.sandbox.faults import Fault
from extender.sandbox.resources import ServedResource
from extender.settings.settings import SeatSettings
from tests.gang.rig import FAST, PODS, Rig
from tests.gang.test_systems import destroyed, until_only

NODES = ("n0", "n1", "n2", "n3")
COMPOSITES = ServedResource(
    "scheduling.k8s.io", "v1alpha3", "compositepodgroups", "CompositePodGroup", custom=True
)
LOW = ("low-a-0", "low-a-1", "low-b-0", "low-b-1")
HIGH = ("high-a-0", "high-a-1", "high-b-0", "high-b-1")


@asynccontextmanager
async def bed() -> AsyncIterator[Rig]:
    patient = SeatSettings(bind_seconds=60.0, victim_slack_seconds=60.0)
    rig = Rig(replace(FAST, seats=patient))
    rig.server = ApiServer(bookmark_seconds=0.05, extra=(COMPOSITES,))
    async with rig:
        await rig.nodes(4)
        await rig.classes(low=1, high=100, top=1000)
        yield rig


async def composite(rig: Rig, name: str, cls: str, least: int | None, *, whole: bool) -> None:
    spec: dict[str, Any] = {
        "schedulingPolicy": {"basic": {}} if least is None else {"gang": {"minGroupCount": least}},
        "disruptionMode": {"all": {}} if whole else {"single": {}},
        "priorityClassName": cls,
    }
    document = {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
    await rig.client.create(COMPOSITES.path("default"), document)


async def tree(
    rig: Rig,
    name: str,
    cls: str,
    *,
    least: int | None = 2,
    whole: bool = True,
    parts: bool = False,
    bound: bool = False,
) -> None:
    """A composite of two PodGroups; ``parts``: these say all."""
    await composite(rig, name, cls, least, whole=whole)
    for at, part in enumerate("ab"):
        spec = {
            "schedulingPolicy": {"gang": {"minCount": 2}},
            "disruptionMode": {"all": {}} if parts else {"single": {}},
            "priorityClassName": "low",
            "parentCompositePodGroupName": name,
        }
        await rig.client.create(
            "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups",
            {"metadata": {"name": f"{name}-{part}"}, "spec": spec},
        )
        for i in range(2):
            on = NODES[2 * at + i] if bound else ""
            await rig.pod(f"{name}-{part}-{i}", cls=cls, group=f"{name}-{part}", on=on)
    await rig.until(lambda: rig.cache.pod_named("default", f"{name}-b-1") is not None, name)
    await rig.until(lambda: rig.cached(f"{name}-a-0").hierarchy is not None, "its hierarchy")


async def seated(rig: Rig, *names: str) -> set[str]:
    """Bind members to their seats once these are open; return the nodes."""
    await rig.until(
        lambda: [f.state for f in rig.coordinator.reservations] == [PreemptionState.OPEN], "seats"
    )
    taken = set()
    for name in names:
        (node,) = (await rig.filter(name, *NODES)).node_names
        await rig.bind(name, node)
        taken.add(node)
    await rig.until(lambda: not len(rig.coordinator.reservations), "the plan ends")
    return taken


async def test_four_of_four_go_or_none() -> None:
    async with bed() as rig:
        await tree(rig, "low", "low", bound=True)
        everywhere = {node: [pod] for node, pod in zip(NODES, LOW, strict=True)}
        await rig.pod("peer", cls="low")
        await rig.preempt("peer", **everywhere)
        await rig.pod("urgent", cls="high")
        await rig.pod("huge", cls="top", cpu="5")
        await rig.preempt("huge", **everywhere)
        assert not destroyed(rig)
        await until_only(rig, "urgent", "peer", "urgent", "huge")


async def test_only_the_group_that_says_all_goes_where_the_composite_does_not() -> None:
    async with bed() as rig:
        await tree(rig, "low", "low", whole=False, parts=True, bound=True)
        await rig.pod("urgent", cls="high")
        await rig.until(lambda: rig.cache.pod_named("default", "urgent") is not None)
        deadline = time.monotonic() + 60
        while len(await rig.names()) > 3:
            assert time.monotonic() < deadline
            if not len(rig.coordinator.reservations):
                here = {pod.node: [pod.name] for pod in map(rig.cached, LOW)}
                await rig.preempt("urgent", **here)
            await rig.cache.wait_change(rig.cache.generation, 0.05)
        await rig.until(
            lambda: [f.state for f in rig.coordinator.reservations] == [PreemptionState.OPEN],
            "a seat",
        )
        assert await rig.names() in ({"urgent", *LOW[:2]}, {"urgent", *LOW[2:]})


async def test_the_priority_on_top_counts_not_the_groups() -> None:
    """The PodGroups are of class low, the composite is more urgent than who asks."""
    async with bed() as rig:
        await tree(rig, "low", "top", bound=True)
        await rig.pod("urgent", cls="high")
        answer = await rig.preempt("urgent", n0=["low-a-0"])
        assert answer.candidates == {}
        assert not destroyed(rig)


async def test_nothing_in_part_and_the_whole_when_room_can_be_made() -> None:
    async with bed() as rig:
        for node in NODES[:3]:
            await rig.pod(f"low-{node}", cls="low", on=node)
        await rig.pod("keep", cls="top", on="n3")
        await rig.until(lambda: rig.cache.pod_named("default", "keep") is not None)
        await tree(rig, "high", "high")
        victims = {node: [f"low-{node}"] for node in NODES[:3]}
        for name in HIGH:
            assert (await rig.preempt(name, **victims)).candidates == {}
            assert (await rig.filter(name, *NODES)).node_names == []
        assert set(rig.outcomes(f"high{SUFFIX}")) == {"infeasible"}
        assert not destroyed(rig)
        await rig.remove("keep")
        await until_only(rig, "high-a-0", *HIGH)
        assert await seated(rig, *HIGH) == set(NODES)


async def test_groups_of_a_basic_composite_start_by_themselves() -> None:
    """There is room for one of both groups."""
    async with bed() as rig:
        for node in NODES[2:]:
            await rig.pod(f"keep-{node}", cls="top", on=node)
        await rig.until(lambda: rig.cache.pod_named("default", "keep-n3") is not None)
        await tree(rig, "high", "high", least=None)
        assert (await rig.filter("high-a-0", "n0", "n1")).node_names != []
        assert await seated(rig, "high-a-0", "high-a-1") == {"n0", "n1"}
        assert (await rig.filter("high-b-0", *NODES)).node_names == []
        assert rig.outcomes("high-b")[-1] == "infeasible"


async def test_a_tree_that_is_none_starts_nothing_and_evicts_nothing() -> None:
    async with bed() as rig:
        await rig.pod("low", cls="low", on="n0")
        for name, above in (("c1", "c2"), ("c2", "c1")):
            spec = {"schedulingPolicy": {"basic": {}}, "parentCompositePodGroupName": above}
            document = {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
            await rig.client.create(COMPOSITES.path("default"), document)
        spec = {
            "schedulingPolicy": {"gang": {"minCount": 1}},
            "priorityClassName": "high",
            "parentCompositePodGroupName": "c1",
        }
        await rig.client.create(
            "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups",
            {"metadata": {"name": "g"}, "spec": spec},
        )
        await rig.pod("g-0", cls="high", group="g")
        await rig.until(lambda: ("core", "default", "g") in rig.cache.snapshot().groups)
        table = rig.cache.store.groups["core-composite"]
        await rig.until(lambda: len(table.rows) == 2, "both composites")
        assert (await rig.filter("g-0", *NODES)).node_names == []
        assert (await rig.preempt("g-0", n0=["low"])).candidates == {}
        assert not destroyed(rig)
        assert "CompositePodGroup default/'c1' is above itself" in rig.messages("g")


@pytest.mark.parametrize("whole", [True, False])
async def test_a_unit_begun_is_finished_after_a_restart(*, whole: bool) -> None:
    """Evictions of the second pod of each group get no answer; then the extender is killed."""
    async with bed() as rig:
        await tree(rig, "low", "low", whole=whole, parts=not whole, bound=True)
        await rig.pod("urgent", cls="high")
        await rig.until(lambda: rig.cache.pod_named("default", "urgent") is not None)
        silent = Fault(times=10_000, method="DELETE", path="low-[ab]-1(?!.*dryRun)", status=503)
        fault = rig.server.faults.plan(silent)
        await rig.preempt("urgent", **{pod.node: [pod.name] for pod in map(rig.cached, LOW)})
        left = 3 if whole else 4
        await rig.until(lambda: len(rig.cache.store.pods.by_uid) == left and fault.hits > 0, "half")
        await rig.kill()
        rig.server.faults.clear()
        await rig.start()
        left = 1 if whole else 3
        await rig.until(lambda: len(rig.cache.store.pods.by_uid) == left, "the rest")
        expected = [{"urgent"}] if whole else [{"urgent", *LOW[:2]}, {"urgent", *LOW[2:]}]
        assert await rig.names() in expected


async def test_a_composite_that_takes_its_seats_is_left_alone() -> None:
    """What goes together is less than what starts together; its preemption is the latter's."""
    async with bed() as rig:
        await tree(rig, "mid", "low", whole=False, parts=True)
        await rig.coordinator.ensure(rig.resolver_key("mid-a-0"), Verb.LOOP)
        (preemption,) = rig.coordinator.reservations
        await rig.until(lambda: preemption.state is PreemptionState.OPEN, "seats")
        node = preemption.seats[rig.cached("mid-a-0").uid]
        assert (await rig.filter("mid-a-0", *NODES)).node_names == [node]
        await rig.bind("mid-a-0", node)
        await rig.until(lambda: bool(rig.cached("mid-a-0").node), "one sits")
        await rig.group("top", 1, "top")
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}
        spec = {
            "containers": [container],
            "priorityClassName": "top",
            "schedulingGroup": {"podGroupName": "top"},
            "nodeSelector": {"kubernetes.io/hostname": node},
        }
        await rig.client.create(PODS, {"metadata": {"name": "top-0"}, "spec": spec})
        await rig.until(lambda: rig.cache.pod_named("default", "top-0") is not None, "top")
        await rig.preempt("top-0", **{node: ["mid-a-0"]})
        await rig.until(lambda: bool(rig.messages("top")), "a decision")
        assert "are being bound" in rig.messages("top")
        assert rig.cache.pod_named("default", "mid-a-0") is not None
