"""Owners on the sandbox's API server: sizes, deletion, names made again, namespaces that end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from extender.decode.from_json import decode_namespace
from extender.gang.plan.assemble import dump, restore
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.gang.plan.single import single_gang
from extender.gang.tell.preemption_state import PreemptionState
from extender.groups.resolver import Resolver
from extender.model.objects import GangKey, GroupObject, Namespace, Owner
from extender.model.plan import Code, Refusal
from extender.sandbox.apiserver import ApiServer
from extender.sandbox.resources import ServedResource
from extender.settings.settings import Settings
from tests.gang.rig import FAST, PODS, Rig, half_evicted, held_back
from tests.gang.test_systems import NODES, destroyed
from tests.gang.world import NOW, evicted, gang_key, group, node, plan_for, pod, snapshot
from tests.groups.owners import job, jobset, jobset_pod, replicated

MADE = {"name": "default", "uid": "d"}


def test_a_namespace_is_ending_from_its_deletion_on() -> None:
    deleted = {**MADE, "deletionTimestamp": "2026-10-01T09:00:00Z"}
    assert decode_namespace({"metadata": deleted}).ending
    assert not decode_namespace({"metadata": MADE}).ending


async def test_a_plan_ends_when_its_namespace_is_being_deleted() -> None:
    async with Rig() as rig:
        await rig.nodes(2)
        await rig.classes(low=1, high=100)
        await rig.gang("low", 2, "low", on="n")
        hung = held_back(rig, "POST", "configmaps", times=10_000)
        await rig.gang("high", 2, "high")
        await rig.filter("high-0", "n0", "n1")
        await rig.until(lambda: hung.hits > 0, "the record hangs")
        rig.cache.store.namespaces.put(Namespace("default", uid="d", ending=True, version=10**9))
        await rig.until(lambda: not list(rig.coordinator.reservations), "the plan ends")
        assert "namespace default is being deleted" in rig.messages("high")
        assert await rig.names() == {"low-0", "low-1", "high-0", "high-1"}


def test_a_dump_of_a_decision_replays_it() -> None:
    pods = [pod("low", on="n0", priority=1), pod("high", group="high", priority=100)]
    state = snapshot([node("n0")], pods, [group("high", 1, priority=100)])
    assert evicted(plan_for(state, "high")) == {"low"}
    ending = replace(state, ending=frozenset({"default"}))
    again = restore(dump(ending, (), Settings()), Resolver(Settings().groups).member_key)
    for each in (ending, again):
        refusal = plan_for(each, "high")
        assert isinstance(refusal, Refusal)
        assert refusal.code == Code.CONFLICT


def test_a_pod_of_no_gang_is_refused_too_and_a_gang_that_runs_is_not_told_of_it() -> None:
    ending = frozenset({"default"})
    lone = pod("lone", priority=100)
    runs = pod("high", on="n0", group="high", priority=100)
    state = snapshot([node("n0")], [lone, runs], [group("high", 1, priority=100)])
    state = replace(state, ending=ending)
    resolver = Resolver(Settings().groups)
    planner = Planner(Settings(), resolver)
    for gang, code in (
        (single_gang(lone), Code.CONFLICT),
        (resolver.resolve(gang_key("high"), state), Code.NOT_NEEDED),
    ):
        refusal = planner.plan(GangQuestion(gang, state))
        assert isinstance(refusal, Refusal)
        assert refusal.code == code


async def test_kube_scheduler_evicts_no_pod_for_a_pod_of_no_gang_there() -> None:
    async with Rig() as rig:
        await rig.nodes(1)
        await rig.classes(low=1, high=100)
        await rig.pod("low", cls="low", on="n0")
        await rig.pod("lone", cls="high")
        await rig.until(lambda: rig.cache.pod_named("default", "low") is not None, "low is cached")
        assert list((await rig.preempt("lone", n0=["low"])).candidates) == ["n0"]
        rig.cache.store.namespaces.put(Namespace("default", uid="d", ending=True, version=10**9))
        assert not (await rig.preempt("lone", n0=["low"])).candidates
        assert not rig.coordinator.hints.held_back.pods()


def delete(rig: Rig) -> None:
    """The PodGroup gets a deletionTimestamp; its protection keeps it while pods of it are there."""
    table = rig.cache.store.groups["core"]
    row = table.rows["core", "default", "high"]
    table.put(replace(row, ending=True, version=10**9))


def test_nothing_is_evicted_for_it_and_a_gang_that_runs_is_not_told_of_it() -> None:
    pods = [pod("low", on="n0", priority=1), pod("high", group="high", priority=100)]
    row = group("high", 1, priority=100)
    assert evicted(plan_for(snapshot([node("n0")], pods, [row]), "high")) == {"low"}
    state = snapshot([node("n0")], pods, [replace(row, ending=True)])
    refusal = plan_for(state, "high")
    assert isinstance(refusal, Refusal)
    assert refusal.code == Code.CONFLICT
    assert refusal.message == "PodGroup default/high is being deleted"


async def test_before_the_first_eviction_the_plan_ends() -> None:
    async with Rig() as rig:
        await rig.nodes(2)
        await rig.classes(low=1, high=100)
        await rig.gang("low", 2, "low", on="n")
        hung = held_back(rig, "POST", "configmaps", times=10_000)
        await rig.gang("high", 2, "high")
        await rig.filter("high-0", "n0", "n1")
        await rig.until(lambda: hung.hits > 0, "the record hangs")
        delete(rig)
        await rig.until(lambda: not list(rig.coordinator.reservations), "the plan ends")
        assert "PodGroup default/high is being deleted" in rig.messages("high")
        assert await rig.names() == {"low-0", "low-1", "high-0", "high-1"}


async def test_between_two_evictions_the_second_is_not_sent() -> None:
    async with Rig() as rig:
        await rig.nodes(2)
        await rig.classes(low=1, high=100)
        await half_evicted(rig)
        delete(rig)
        await rig.until(lambda: not list(rig.coordinator.reservations), "the plan ends")
        assert "PodGroup default/high is being deleted" in rig.messages("high")
        rig.server.faults.clear()
        await rig.rounds()
        assert await rig.names() == {"low-1", "high-0", "high-1"}


@pytest.fixture
async def of_three(patient: Rig) -> Rig:
    """Of high-0 to high-2, a Job made each, two make the quorum; there is room for two."""
    rig = patient
    for i in range(2):
        await rig.pod(f"low-{i}", cls="low", on=f"n{i}", grace=i)
    await rig.group("high", 2, "high")
    for i in range(3):
        await rig.pod(f"high-{i}", cls="high", group="high", job=f"j{i}")
    await rig.until(lambda: len(rig.cache.store.pods.by_uid) == 5, "all pods are cached")
    await rig.preempt("high-0", n0=["low-0"], n1=["low-1"])
    await rig.until(lambda: rig.cache.pod_named("default", "low-0") is None, "low-0 is gone")
    return rig


def seated(rig: Rig) -> set[str]:
    return {
        preemption.pods[uid].name
        for preemption in rig.coordinator.reservations
        for uid in preemption.seats
    }


def ends(rig: Rig, member: str) -> None:
    """The deletion of the Job that made a member begins."""
    name = f"j{member[-1]}"
    row = GroupObject(source="job", uid=f"uid-{name}", namespace="default", name=name, ending=True)
    rig.cache.store.groups["job"].put(row)


@pytest.mark.parametrize("opened", [False, True])
async def test_the_end_of_a_job_whose_pod_has_no_seat_ends_no_plan(
    of_three: Rig,
    opened: bool,  # noqa: FBT001
) -> None:
    rig = of_three
    (preemption,) = rig.coordinator.reservations
    (other,) = {"high-0", "high-1", "high-2"} - seated(rig)
    if opened:
        await rig.remove("low-1")
        await rig.until(lambda: preemption.state is PreemptionState.OPEN, "the seats are open")
    ends(rig, other)
    await rig.rounds()
    assert list(rig.coordinator.reservations) == [preemption]
    assert preemption.state in (PreemptionState.WAITING, PreemptionState.OPEN)
    assert rig.outcomes("high") == ["plan"]


async def test_another_member_has_the_seat_of_one_whose_job_ends(of_three: Rig) -> None:
    rig = of_three
    (other,) = {"high-0", "high-1", "high-2"} - seated(rig)
    ends(rig, goes := max(seated(rig)))
    await rig.until(lambda: other in seated(rig), "the other member has a seat")
    assert goes not in seated(rig)
    assert "gave-up" not in rig.outcomes("high")
    assert await rig.names() == {"low-1", "high-0", "high-1", "high-2"}


async def test_the_end_of_a_job_whose_pod_is_bound_ends_no_plan(of_three: Rig) -> None:
    """It would be a plan in vain; a new one waits for the room of the pod that goes."""
    rig = of_three
    (other,) = {"high-0", "high-1", "high-2"} - seated(rig)
    await rig.nodes(1, first=2)
    await rig.bind(other, "n2")
    await rig.until(lambda: rig.cached(other).node == "n2", "it is bound")
    ends(rig, other)
    await rig.rounds()
    assert len(seated(rig)) == 2
    assert rig.outcomes("high") == ["plan"]


def test_nothing_is_evicted_while_a_member_with_a_node_goes_with_its_job() -> None:
    low = [pod(f"low-{i}", on=f"n{i}", priority=1) for i in range(2)]
    job = GroupObject(source="job", uid="uid-old", namespace="default", name="old", ending=True)
    old = replace(
        pod("old-0", on="n2", group="high", priority=100), owner=Owner("Job", "old", "uid-old")
    )
    new = [pod(f"new-{i}", group="high", priority=100) for i in range(2)]
    nodes = [node(f"n{i}") for i in range(3)]
    refusal = plan_for(
        snapshot(nodes, [*low, old, *new], [group("high", 2, priority=100), job]), "high"
    )
    assert isinstance(refusal, Refusal)
    assert refusal.message == "Job default/old is being deleted"
    gone = replace(old, deleting=NOW + 5)
    state = snapshot(nodes, [*low, gone, *new], [group("high", 2, priority=100), job])
    assert len(evicted(plan_for(state, "high"))) == 1


async def member(rig: Rig, life: str, index: int, on: str = "") -> None:
    """A pod of the JobSet that had, or has, this uid."""
    name = f"{life}-{index}"
    meta = jobset_pod(index, "w", "high", index)
    meta["labels"]["jobset.sigs.k8s.io/jobset-uid"] = life
    spec: dict[str, Any] = {
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}],
        "terminationGracePeriodSeconds": 0,
        "priorityClassName": "high",
    }
    if on:
        spec["nodeName"] = on
    await rig.client.create(PODS, {"metadata": {"name": name, **meta}, "spec": spec})
    await rig.until(lambda: rig.cache.pod_named("default", name) is not None)


async def test_while_its_old_pods_run_the_new_ones_are_held_and_then_start_whole() -> None:
    async with bed(1) as rig:
        await rig.nodes(4, first=1)
        await high(rig, jobset(replicated("w", each=3), name="high"))
        for i in range(3):
            await member(rig, "old", i, NODES[1 + i])
        await member(rig, "new", 0)
        answer = await rig.filter("new-0", *NODES)
        assert answer.node_names == [], "the others of its own JobSet are not there yet"
        assert rig.outcomes("high")[-1] == "incomplete"
        await member(rig, "new", 1)
        await member(rig, "new", 2)
        assert (await rig.filter("new-0", *NODES)).node_names == [], "there is room for two"
        for i in range(3):
            await rig.remove(f"old-{i}")
        await rig.until(lambda: rig.cache.pod_named("default", "old-2") is None, "they have gone")
        while not (await rig.filter("new-0", *NODES)).node_names:
            await asyncio.sleep(0.05)
        assert [preemption.state for preemption in rig.coordinator.reservations] == [
            PreemptionState.OPEN
        ]
        taken = {tuple((await rig.filter(f"new-{i}", *NODES)).node_names) for i in range(3)}
        assert len(taken) == 3
        assert all(len(seat) == 1 for seat in taken)


KEY = GangKey("jobset", "default", "high")
JOBSETS = ServedResource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet", custom=True)


@asynccontextmanager
async def bed(low_nodes: int, *, served: bool = True) -> AsyncIterator[Rig]:
    """Nodes n0.. full of a low gang, one pod on each; JobSets may be read, or are not served."""
    groups = replace(FAST.groups, settle_seconds=0.0)
    rig = Rig(replace(FAST, groups=groups))
    rig.server = ApiServer(bookmark_seconds=0.05, extra=(JOBSETS,) if served else ())
    async with rig:
        await rig.nodes(low_nodes)
        await rig.classes(low=1, high=100)
        for i in range(low_nodes):
            await rig.pod(f"low-{i}", cls="low", on=NODES[i], labels={"skypilot-cluster-name": "l"})
        await rig.until(lambda: rig.cache.pod_named("default", f"low-{low_nodes - 1}") is not None)
        yield rig


async def high(rig: Rig, made: dict[str, Any]) -> None:
    made["metadata"]["namespace"] = "default"
    path = f"/apis/{made['apiVersion']}/namespaces/default/{made['kind'].lower()}s"
    await rig.client.create(path, made)
    key = (made["kind"].lower(), "default", made["metadata"]["name"])
    await rig.until(lambda: key in rig.cache.snapshot().groups, "the owner is read")


async def size_member(rig: Rig, name: str, part: str, index: int = 0, number: int = 0) -> None:
    await rig.client.create(
        PODS,
        {
            "metadata": {"name": name, **jobset_pod(0, part, "high", index, number)},
            "spec": {
                "containers": [
                    {"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}
                ],
                "terminationGracePeriodSeconds": 0,
                "priorityClassName": "high",
            },
        },
    )
    await rig.until(lambda: rig.cache.pod_named("default", name) is not None)


def victims(count: int) -> dict[str, list[str]]:
    return {NODES[i]: [f"low-{i}"] for i in range(count)}


async def outcome(rig: Rig, name: str, **victims: list[str]) -> str:
    """Ask as kube-scheduler does; return what became of it."""
    answer = await rig.preempt(name, **victims)
    assert answer.candidates == {}
    return rig.outcomes("high")[-1]


async def test_a_jobset_whose_jobs_come_back_one_after_the_other() -> None:
    """At 10 s one of four pods exists: no gang of four goes for it."""
    async with bed(4) as rig:
        await high(rig, jobset(replicated("w", replicas=4), name="high"))
        await size_member(rig, "high-w-0", "w", number=0)
        assert await outcome(rig, "high-w-0", **victims(4)) == "incomplete"
        assert (await rig.filter("high-w-0", *NODES)).node_names == []
        assert not destroyed(rig)
        for i in (1, 2, 3):
            await size_member(rig, f"high-w-{i}", "w", number=i)
        await rig.preempt("high-w-3", **victims(4))
        await rig.until_names(*(f"high-w-{i}" for i in range(4)))


async def test_nobody_goes_for_a_leader_whose_workers_cannot_fit() -> None:
    """startupPolicy InOrder: the leader is there alone, its three workers have no fourth node."""
    async with bed(3) as rig:
        parts = (replicated("lead"), replicated("w", replicas=3))
        await high(rig, jobset(*parts, name="high", in_order=True))
        await size_member(rig, "high-lead-0", "lead")
        assert await outcome(rig, "high-lead-0", **victims(3)) == "infeasible"
        answer = await rig.filter("high-lead-0", *NODES[:3])
        assert answer.node_names == []
        (why,) = set(answer.failed_and_unresolvable.values())
        assert "with the 3 pods that are created once these run" in why
        assert not destroyed(rig)


async def test_leader_and_then_workers_where_there_can_be_room() -> None:
    async with bed(4) as rig:
        parts = (replicated("lead"), replicated("w", replicas=3))
        await high(rig, jobset(*parts, name="high", in_order=True))
        await size_member(rig, "high-lead-0", "lead")
        await rig.preempt("high-lead-0", **victims(4))
        await rig.until_names("high-lead-0")
        await rig.until(
            lambda: [f.state for f in rig.coordinator.reservations] == [PreemptionState.OPEN],
            "seats",
        )
        (node,) = (await rig.filter("high-lead-0", *NODES)).node_names
        await rig.bind("high-lead-0", node)
        await rig.until(lambda: not len(rig.coordinator.reservations), "the leader has started")
        await size_member(rig, "high-w-0", "w")
        assert (await rig.filter("high-w-0", *NODES)).node_names == []
        assert rig.outcomes("high")[-1] == "incomplete"
        for i in (1, 2):
            await size_member(rig, f"high-w-{i}", "w", number=i)
        taken = {node}
        await rig.filter("high-w-0", *NODES)
        await rig.until(
            lambda: [f.state for f in rig.coordinator.reservations] == [PreemptionState.OPEN],
            "seats",
        )
        for i in range(3):
            (seat,) = (await rig.filter(f"high-w-{i}", *NODES)).node_names
            taken.add(seat)
        assert taken == set(NODES)


async def test_without_the_jobset_its_gang_is_what_is_there() -> None:
    """As before it was read; the decision says so."""
    async with bed(4, served=False) as rig:
        await size_member(rig, "high-w-0", "w")
        await rig.preempt("high-w-0", **victims(4))
        await rig.until_names("high-w-0")
        gang = rig.coordinator.resolver.resolve(KEY, rig.cache.snapshot())
        assert "not served or must not be read" in gang.notes[0]


@pytest.mark.parametrize("of", ["high", ""])
async def test_of_jobs_those_of_jobsets_are_read(of: str) -> None:
    async with bed(1) as rig:
        made = job("high-w-0", 1, of=of)
        made["metadata"]["namespace"] = "default"
        await rig.client.create("/apis/batch/v1/namespaces/default/jobs", made)
        await high(rig, jobset(replicated("w"), name="high"))
        await rig.until(lambda: "job" in rig.cache.snapshot().group_sources, "Jobs are read")
        found = ("job", "default", "high-w-0")
        if of:
            await rig.until(lambda: found in rig.cache.snapshot().groups)
        else:
            # Made before the Jobs were listed, or told of in their watch: neither brings it.
            await high(rig, job("later", 1, of="high"))
            assert found not in rig.cache.snapshot().groups
