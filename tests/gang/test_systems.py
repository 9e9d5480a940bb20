"""Gangs of every system, as victims and as preemptors, on the sandbox's API server.

The pods are those of tests/groups/recorded.py. Each gang has four; room is what nodes of
4 CPU leave to pods of 3 CPU.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from extender.decode.metadata import keep_annotations
from extender.gang.incremental.classes import classes_of
from extender.gang.tell.preemption_state import PreemptionState
from extender.model.texts import rfc3339
from extender.sandbox.apiserver import ApiServer
from extender.sandbox.resources import OTHER_POD_GROUPS
from extender.settings.custom_groups import CustomGroup, custom_annotations
from extender.settings.settings import GroupSettings, SeatSettings
from tests.gang.rig import FAST, PODS, Rig
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
