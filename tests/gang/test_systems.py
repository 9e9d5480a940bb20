"""Gangs of every system on the sandbox's API server, as victims and as preemptors."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from extender.decode.metadata import keep_annotations
from extender.gang.incremental.classes import classes_of
from extender.gang.tell.decisions import Verb
from extender.gang.tell.preemption_state import PreemptionState
from extender.groups.composite import SUFFIX
from extender.groups.resolver import Resolver
from extender.model.objects import GangKey, Pod
from extender.model.texts import rfc3339
from extender.sandbox.apiserver import ApiServer
from extender.sandbox.faults import Fault
from extender.sandbox.resources import OTHER_POD_GROUPS, ServedResource
from extender.settings.custom_groups import CustomGroup, custom_annotations
from extender.settings.settings import GroupSettings, SeatSettings, Settings
from tests.gang.rig import FAST, PODS, Rig
from tests.gang.world import NOW, evicted, group, node, plan_for, pod, snapshot
from tests.groups import owners, recorded

NODES = ("n0", "n1", "n2", "n3")
CUSTOM = CustomGroup(name="ours", annotation="x.example/run", size_annotation="x.example/pods")
SYSTEMS = [*recorded.EVERY, *(f"{name} unread" for name in recorded.OBJECTS), "custom", "train-job"]


def made(system: str, i: int, size: int, gang: str) -> dict[str, Any]:
    if system == "custom":
        return {"annotations": {"x.example/run": gang, "x.example/pods": str(size)}}
    if system == "train-job":
        return owners.train_job(i, size, gang)
    if system == "skypilot":
        return {"labels": {"skypilot-cluster-name": gang}}
    return recorded.EVERY[system.removesuffix(" unread")](i, size, gang)


@asynccontextmanager
async def bed(system: str) -> AsyncIterator[Rig]:
    """Four nodes; what PodGroups the system has are served, unless they are to be unread."""
    groups = GroupSettings(
        settle_seconds=0.2, unit={"scheduling-plugins-label": "all"}, custom=(CUSTOM,)
    )
    keep_annotations(custom_annotations(groups.custom))
    patient = SeatSettings(bind_seconds=60.0, victim_slack_seconds=60.0)
    rig = Rig(replace(FAST, groups=groups, seats=patient))
    served = OTHER_POD_GROUPS if system in recorded.OBJECTS else ()
    rig.server = ApiServer(bookmark_seconds=0.05, extra=served)
    async with rig:
        await rig.nodes(4)
        await rig.classes(low=1, high=100, top=1000)
        yield rig


def member(system: str, i: int, size: int, gang: str, cls: str, *, bound: bool) -> dict[str, Any]:
    """One pod of a gang; on the node of its number, if bound."""
    spec: dict[str, Any] = {
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}],
        "terminationGracePeriodSeconds": 0,
        "priorityClassName": cls,
    }
    if bound:
        spec["nodeName"] = NODES[i]
    return {"metadata": {"name": f"{gang}-{i}", **made(system, i, size, gang)}, "spec": spec}


async def gang(rig: Rig, system: str, name: str, cls: str, *, bound: bool, size: int = 4) -> None:
    if system in recorded.OBJECTS:
        group = recorded.group_document(system, size, name)
        group["metadata"]["namespace"] = "default"
        path = f"/apis/{group['apiVersion']}/namespaces/default/podgroups"
        await rig.client.create(path, group)
    for i in range(4):
        await rig.client.create(PODS, member(system, i, size, name, cls, bound=bound))
    await rig.until(lambda: rig.cache.pod_named("default", f"{name}-3") is not None, name)
    if system in recorded.OBJECTS:
        key = (rig.resolver_key(f"{name}-0").dialect, "default", name)
        await rig.until(lambda: key in rig.cache.snapshot().groups, "the PodGroup is read")


def destroyed(rig: Rig) -> list[str]:
    """Requests that destroy and are no rehearsal."""
    return [
        path
        for method, path in rig.server.requests
        if (method == "DELETE" or path.partition("?")[0].endswith("/eviction"))
        and "dryRun" not in path
        and "configmaps" not in path
    ]


async def decided(rig: Rig, name: str, **victims: list[str]) -> str:
    """Ask as kube-scheduler does until the answer is one that stands; return its outcome."""
    who = name.rpartition("-")[0] if name.startswith("high") else name
    for _ in range(600):
        answer = await rig.preempt(name, **victims)
        assert answer.candidates == {}
        found = rig.outcomes(who)
        if found and found[-1] != "settling":
            return found[-1]
        await rig.cache.wait_change(rig.cache.generation, 0.05)
    raise AssertionError(f"no decision on {name}")


async def until_left(rig: Rig, asking: str, *names: str) -> None:
    """Wait until these pods alone exist, asking for ``asking`` whenever no plan is made.

    On a machine that stalls a plan may be given up, and somebody has to ask for the next one.
    """
    deadline = time.monotonic() + 60
    while await rig.names() != set(names):
        assert time.monotonic() < deadline, f"{await rig.names()} is not {set(names)}"
        if not len(rig.coordinator.reservations):
            here = {
                pod.node: [pod.name] for pod in rig.cache.store.pods.by_uid.values() if pod.node
            }
            await rig.preempt(asking, **here)
        await rig.cache.wait_change(rig.cache.generation, 0.05)


async def until_only(rig: Rig, asking: str, *names: str) -> None:
    """The same of pods of which none has finished: the cache has them all."""
    await until_left(rig, asking, *names)
    await rig.until_names(*names)


@pytest.mark.parametrize("system", SYSTEMS)
async def test_four_of_four_go_or_none(system: str) -> None:
    async with bed(system) as rig:
        await gang(rig, system, "low-0", "low", bound=True)
        four = [f"low-0-{i}" for i in range(4)]
        everywhere = {node: [pod] for node, pod in zip(NODES, four, strict=True)}
        await rig.pod("peer", cls="low")
        await rig.preempt("peer", **everywhere)
        await rig.pod("urgent", cls="high")
        # One that cannot sit anywhere must not cost anybody anything either.
        await rig.pod("huge", cls="top", cpu="5")
        await rig.preempt("huge", **everywhere)
        assert not destroyed(rig)
        await until_only(rig, "urgent", "peer", "urgent", "huge")


@pytest.mark.parametrize("system", SYSTEMS)
async def test_nothing_in_part_and_the_whole_when_room_can_be_made(system: str) -> None:
    async with bed(system) as rig:
        for node in NODES[:3]:
            await rig.pod(f"low-{node}", cls="low", on=node)
        await rig.pod("keep", cls="top", on="n3")
        await rig.until(lambda: rig.cache.pod_named("default", "keep") is not None)
        await gang(rig, system, "high-0", "high", bound=False)
        victims = {node: [f"low-{node}"] for node in NODES[:3]}
        outcome = await decided(rig, "high-0-0", **victims)
        assert outcome not in ("plan", "done"), rig.messages("high-0")
        four = [f"high-0-{i}" for i in range(4)]
        for name in four:
            assert (await rig.filter(name, *NODES)).node_names == []
        assert not destroyed(rig)
        await rig.remove("keep")
        await until_only(rig, "high-0-0", *four)
        await rig.until(
            lambda: [f.state for f in rig.coordinator.reservations] == [PreemptionState.OPEN],
            "seats",
        )
        taken = set()
        for name in four:
            (node,) = (await rig.filter(name, *NODES)).node_names
            await rig.bind(name, node)
            taken.add(node)
        assert taken == set(NODES)
        await rig.until(lambda: not len(rig.coordinator.reservations), "the plan ends")


@pytest.mark.parametrize("system", [*recorded.STATED, *recorded.OBJECTS, "custom"])
async def test_members_that_do_not_exist_yet_are_waited_for(system: str) -> None:
    """Four of five exist and would fit without any eviction."""
    async with bed(system) as rig:
        await gang(rig, system, "high-0", "high", bound=False, size=5)
        for i in range(4):
            assert (await rig.filter(f"high-0-{i}", *NODES)).node_names == []
        assert "incomplete" in rig.outcomes("high-0")


LED = ("training-operator", "training-operator-mpi", "ray-cluster", "spark", "kai")
"""One of their pods differs by more than a number: a master, launcher, head or driver."""


@pytest.mark.parametrize("system", recorded.EVERY)
def test_members_that_differ_by_a_number_only_are_interchangeable(system: str) -> None:
    """What makes a large gang quick to plan. A label that each pod has another value of belongs
    into PER_POD_LABELS (gang/incremental/classes.py)."""
    members = [recorded.pod(system, i, 6) for i in range(6)]
    assert len(classes_of(members)) == 1 + (system in LED)


@pytest.mark.parametrize("system", [*recorded.STATED, "custom"])
async def test_one_of_which_a_member_has_finished_goes_whole(system: str) -> None:
    """Three of four run and nobody waits: the fourth is done, and the three are one gang still."""
    async with bed(system) as rig:
        await gang(rig, system, "low-0", "low", bound=True)
        await rig.client.patch(f"{PODS}/low-0-3/status", {"status": {"phase": "Succeeded"}})
        await rig.until(lambda: rig.cache.pod_named("default", "low-0-3") is None, "it is done")
        await rig.remove("low-0-3")
        await rig.pod("keep", cls="top", on="n3")
        await rig.pod("urgent", cls="high")
        await until_only(rig, "urgent", "keep", "urgent")


@pytest.mark.parametrize("system", [*SYSTEMS, "skypilot"])
async def test_one_of_which_a_member_waits_anew_goes_whole(system: str) -> None:
    """Four ran for an hour; one was lost, and its controller has made another: the three go."""
    async with bed(system) as rig:
        await gang(rig, system, "low-0", "low", bound=True)
        hour_ago = rfc3339(time.time() - 3600)
        for i in range(3):
            await rig.client.patch(f"{PODS}/low-0-{i}/status", {"status": {"startTime": hour_ago}})
        await rig.remove("low-0-3")
        await rig.pod("keep", cls="top", on="n3")
        await rig.client.create(PODS, member(system, 3, 4, "low-0", "low", bound=False))
        await rig.pod("urgent", cls="high")
        await until_only(rig, "urgent", "keep", "urgent", "low-0-3")


COMPOSITES = ServedResource(
    "scheduling.k8s.io", "v1alpha3", "compositepodgroups", "CompositePodGroup", custom=True
)
LOW = ("low-a-0", "low-a-1", "low-b-0", "low-b-1")
HIGH = ("high-a-0", "high-a-1", "high-b-0", "high-b-1")


@asynccontextmanager
async def composite_bed() -> AsyncIterator[Rig]:
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


async def test_composite_four_of_four_go_or_none() -> None:
    async with composite_bed() as rig:
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
    async with composite_bed() as rig:
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
    async with composite_bed() as rig:
        await tree(rig, "low", "top", bound=True)
        await rig.pod("urgent", cls="high")
        answer = await rig.preempt("urgent", n0=["low-a-0"])
        assert answer.candidates == {}
        assert not destroyed(rig)


async def test_composite_nothing_in_part_and_the_whole_when_room_can_be_made() -> None:
    async with composite_bed() as rig:
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
    async with composite_bed() as rig:
        for node in NODES[2:]:
            await rig.pod(f"keep-{node}", cls="top", on=node)
        await rig.until(lambda: rig.cache.pod_named("default", "keep-n3") is not None)
        await tree(rig, "high", "high", least=None)
        assert (await rig.filter("high-a-0", "n0", "n1")).node_names != []
        assert await seated(rig, "high-a-0", "high-a-1") == {"n0", "n1"}
        assert (await rig.filter("high-b-0", *NODES)).node_names == []
        assert rig.outcomes("high-b")[-1] == "infeasible"


async def test_a_tree_that_is_none_starts_nothing_and_evicts_nothing() -> None:
    async with composite_bed() as rig:
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
    async with composite_bed() as rig:
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
    async with composite_bed() as rig:
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


APP = GangKey("yunikorn", "default", "g-0")


def placeholder(i: int, *, leaves: bool = False, disrupted: bool = False) -> Pod:
    meta = recorded.yunikorn_placeholder(i, 4, "g-0")
    made = pod(
        f"tg-{i}", on=f"n{i}", priority=1, deleting=NOW + 1 if leaves else 0.0, **_only(meta)
    )
    return replace(made, disrupted=disrupted)


def real(i: int, *, bound: bool) -> Pod:
    meta = recorded.yunikorn(i, 4, "g-0")
    made = pod(f"app-{i}", on=f"n{i}" if bound else "", priority=1, **_only(meta))
    return replace(made, created=NOW - 200, started=NOW - 5 if bound else 0.0)


def _only(meta: dict[str, Any]) -> dict[str, Any]:
    return {place: meta[place] for place in ("labels", "annotations")}


def goes_whole(pods: list[Pod]) -> bool:
    return Resolver(Settings().groups).resolve(APP, snapshot([], pods)).goes_whole


def test_an_application_of_which_some_are_replaced_goes_whole() -> None:
    """One pod has its place, one placeholder is on its way out, two hold theirs still."""
    holds = [placeholder(1, leaves=True), placeholder(2), placeholder(3)]
    waits = [real(i, bound=False) for i in range(1, 4)]
    assert goes_whole([real(0, bound=True), *holds, *waits])


def test_one_whose_placeholders_have_no_node_yet_is_single_victims() -> None:
    waits = [real(i, bound=False) for i in range(4)]
    nowhere = [replace(placeholder(i), node="") for i in (2, 3)]
    assert not goes_whole([placeholder(0), placeholder(1), *nowhere, *waits])


def test_the_room_of_a_placeholder_that_is_replaced_is_not_counted_on() -> None:
    """A pod of the application comes there; whoever planned with it would evict in vain."""
    nodes = [node("n0"), node("n1")]
    urgent = pod("urgent", priority=100, group="u")
    cheap = pod("cheap", priority=0, on="n1")
    pods = [placeholder(0, leaves=True), real(0, bound=False), cheap, urgent]
    assert evicted(plan_for(snapshot(nodes, pods, [group("u", 1)]), "u")) == {"cheap"}


def test_of_one_that_was_evicted_it_is() -> None:
    nodes = [node("n0"), node("n1")]
    urgent = pod("urgent", priority=100, group="u")
    cheap = pod("cheap", priority=0, on="n1")
    pods = [placeholder(0, leaves=True, disrupted=True), cheap, urgent]
    assert evicted(plan_for(snapshot(nodes, pods, [group("u", 1)]), "u")) == set()


CLASSES = ServedResource(
    "kueue.x-k8s.io",
    "v1beta2",
    "workloadpriorityclasses",
    "WorkloadPriorityClass",
    namespaced=False,
    custom=True,
)


@asynccontextmanager
async def kueue_bed(*, counts: bool) -> AsyncIterator[Rig]:
    """Two nodes with a gang of class low; one of class high waits, and was tried once."""
    groups = replace(FAST.groups, workload_priority=counts)
    rig = Rig(replace(FAST, groups=groups))
    rig.server = ApiServer(bookmark_seconds=0.05, extra=(CLASSES,))
    async with rig:
        await rig.nodes(2)
        for name, value in (("low", 10), ("high", 1000)):
            path = "/apis/kueue.x-k8s.io/v1beta2/workloadpriorityclasses"
            await rig.client.create(path, {"metadata": {"name": name}, "value": value})
        if counts:
            known = ("workload-priority-class", "", "high")
            await rig.until(lambda: known in rig.cache.snapshot().groups, "the classes are read")
        for name in ("low", "high"):
            for i in range(2):
                await kueue_member(rig, name, i)
        yield rig


async def kueue_member(rig: Rig, gang: str, i: int) -> None:
    meta: dict[str, Any] = recorded.kueue(i, 2, gang)
    meta["labels"]["kueue.x-k8s.io/priority-class"] = gang
    spec: dict[str, Any] = {
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}],
        "terminationGracePeriodSeconds": 0,
    }
    if gang == "low":
        spec["nodeName"] = f"n{i}"
    name = f"{gang}-{i}"
    await rig.client.create(PODS, {"metadata": {"name": name, **meta}, "spec": spec})
    await rig.until(lambda: rig.cache.pod_named("default", name) is not None)


async def test_by_default_the_class_is_named_and_nobody_goes() -> None:
    async with kueue_bed(counts=False) as rig:
        answer = await rig.filter("high-0", "n0", "n1")
        assert answer.node_names == []
        (why,) = set(answer.failed_and_unresolvable.values())
        assert "Kueue's WorkloadPriorityClass 'high' does not count" in why
        assert not destroyed(rig)


async def test_the_option_makes_it_the_gangs_priority() -> None:
    """kube-scheduler asks for nothing: to it all are equal. The loop sees them wait."""
    async with kueue_bed(counts=True) as rig:
        tried = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        for i in range(2):
            await rig.client.patch(f"{PODS}/high-{i}/status", {"status": {"conditions": [tried]}})
        await rig.until_names("high-0", "high-1")
