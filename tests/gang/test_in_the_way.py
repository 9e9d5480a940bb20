"""Pods with volumes that kube-scheduler would evict have to go, and no pod goes on doubt for it.

A pod of low priority holds the last attachment of a CSI driver on its node, and the member's
requests fit beside it. The plan evicted no pod, was called optimal, and the gang waited for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from extender.gang.controller.planner_thread import PlannerThread
from extender.gang.plan.assemble import dump, restore
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.gang.runtime.clocks import Clocks
from extender.gang.scheduler_view import node_lists
from extender.gang.scheduler_view.node_lists import MEMORY_SECONDS, NAMED_SECONDS, NodeLists
from extender.gang.tell.preemption_state import PreemptionState
from extender.groups.resolver import Resolver
from extender.model.gang import Gang
from extender.model.objects import GangKey, Pod, PodShape
from extender.model.plan import Hold, Plan, Refusal
from extender.model.snapshot import Snapshot
from extender.sandbox.faults import Fault
from extender.settings.settings import Settings
from extender.wire.preempt_json import NodeVictims, PreemptArgs
from tests.gang.rig import PODS, REAL_DELETE, Obj, Rig, held_back, let_go
from tests.gang.showing import Showing
from tests.gang.world import NOW, evicted, gang_key, group, node, plan_for, pod, seats, snapshot

DISK = PodShape(unmodelled=("persistentVolumeClaim",))
SHARED = PodShape(unmodelled=("persistentVolumeClaim data",))
HEAD = PodShape(unmodelled=("persistentVolumeClaim data", "persistentVolumeClaim head"))
LEADER = PodShape(unmodelled=("persistentVolumeClaim data", "persistentVolumeClaim leader"))


def claims(*names: str) -> list[PodShape]:
    return [PodShape(unmodelled=(f"persistentVolumeClaim {name}",)) for name in names]


def waiting(
    nodes: int,
    in_the_way: Mapping[str, tuple[str, ...]],
    shapes: list[PodShape],
    *,
    cpu: float = 1,
    low: float = 1,
) -> Snapshot:
    """Nodes of 4 CPU with a low pod that has a volume each, and a gang whose members have some."""
    there = [pod(f"low-{i}", cpu=low, on=f"n{i}", priority=1, shape=DISK) for i in range(nodes)]
    members = [
        pod(f"high-{i}", cpu=cpu, priority=100, group="high", shape=shape)
        for i, shape in enumerate(shapes)
    ]
    state = snapshot(
        [node(f"n{i}", cpu=4) for i in range(nodes)],
        [*there, *members],
        [group("high", len(members), priority=100)],
    )
    uids = {each.name: each.uid for each in there}
    told = {name: tuple(uids[each] for each in found) for name, found in in_the_way.items()}
    return replace(state, in_the_way={each.uid: told for each in members} if told else {})


# -- the planner ----------------------------------------------------------------------------


def test_pods_that_fit_beside_a_member_go_where_kube_scheduler_says_so() -> None:
    state = waiting(2, {"n0": ("low-0",), "n1": ("low-1",)}, claims("a", "b"))
    plan = plan_for(state, "high")
    assert evicted(plan) == {"low-0", "low-1"}
    assert isinstance(plan, Plan)
    assert "without its volumes" in plan.victims[0].reason
    again = restore(dump(state, (), Settings()), Resolver(Settings().groups).member_key)
    assert evicted(plan_for(again, "high")) == {"low-0", "low-1"}, "a dump has them"


def test_no_pod_goes_where_another_node_is_accepted_as_it_is() -> None:
    """Nor does the cap, which is for plans that evict, spread the members of this one."""
    plan = plan_for(waiting(2, {"n0": ("low-0",)}, claims("a", "b")), "high")
    assert evicted(plan) == set()
    assert set(seats(plan).values()) == {"n1"}


def test_one_attachment_is_not_counted_on_for_two_members() -> None:
    refused = plan_for(waiting(1, {"n0": ("low-0",)}, claims("a", "b")), "high")
    assert isinstance(refused, Refusal)
    assert "volumes of its own" in refused.message


@pytest.mark.parametrize("shapes", [claims("a", "b"), [DISK, DISK], [SHARED, LEADER, HEAD]])
def test_members_with_volumes_of_their_own_are_apart_where_pods_go(
    shapes: list[PodShape],
) -> None:
    """Also those of several classes, and where the pods go for their CPU alone."""
    refused = plan_for(waiting(1, {}, shapes, low=3.5), "high")
    assert isinstance(refused, Refusal), refused
    assert "volumes of its own" in refused.message
    two = plan_for(waiting(2, {}, shapes[-2:], low=3.5), "high")
    assert evicted(two) == {"low-0", "low-1"}


@pytest.mark.parametrize("shapes", [[SHARED, SHARED, SHARED], [SHARED, SHARED, HEAD]])
def test_members_that_share_a_claim_are_together(shapes: list[PodShape]) -> None:
    """What is enough for one is enough for others that name no more claims than it."""
    plan = plan_for(waiting(1, {}, shapes, low=3.5), "high")
    assert evicted(plan) == {"low-0"}


def test_a_pod_with_a_volume_that_is_named_goes_though_another_makes_room() -> None:
    """The other one costs less, and kube-scheduler would then refuse the member its volume."""
    state = waiting(1, {"n0": ("low-0",)}, claims("a"), cpu=3, low=1)
    other = pod("cheap", cpu=2, on="n0", priority=0)
    state = replace(state, bound={"n0": (*state.bound["n0"], other)})
    assert evicted(plan_for(state, "high")) == {"low-0", "cheap"}


def test_a_named_pod_that_stays_closes_the_node() -> None:
    state = waiting(1, {"n0": ("low-0",)}, claims("a"))
    bound = tuple(replace(each, priority=100) for each in state.bound["n0"])
    assert isinstance(plan_for(replace(state, bound={"n0": bound}), "high"), Refusal)


def test_a_seat_held_for_another_pod_with_a_volume_is_not_counted_on() -> None:
    state = waiting(2, {}, claims("a"), low=3.5)
    other = pod("other", cpu=0.1, priority=100, group="other", shape=DISK)
    state = replace(state, pending={**state.pending, other.uid: other})
    gang = Resolver(Settings().groups).resolve(gang_key("high"), state)
    planner = Planner(Settings(), Resolver(Settings().groups))

    def planned(where: str) -> Plan | Refusal:
        hold = Hold(
            gang=gang_key("other"),
            uid=other.uid,
            node=where,
            requests=other.requests,
            priority=other.priority,
        )
        return planner.plan(GangQuestion(gang, state, holds=(hold,)))

    assert seats(planned("n0")) == {"high-0": "n1"}
    assert seats(planned("n1")) == {"high-0": "n0"}


def changed(
    low: Mapping[int, Pod | None],
    *,
    has_evicted: bool = True,
    free: int = 0,
    shapes: list[PodShape] | None = None,
    cpu: float = 1,
) -> Plan | Refusal:
    """What is planned for members in the place of a plan; ``low``: who is left of those whom
    kube-scheduler named, None: it has gone. ``free``: further nodes, which it accepts as they
    are."""
    state = waiting(len(low) + free, {}, shapes or claims("a", "b"), cpu=cpu)
    there = {f"n{i}": () if pod is None else (pod,) for i, pod in low.items()}
    told = {name: tuple(pod.uid for pod in pods) for name, pods in there.items()}
    told_all = dict.fromkeys(state.pending, told)
    gone = {f"n{i}" for i, pod in low.items() if pod is None or pod.deleting}
    nodes = frozenset(gone if has_evicted else ())
    state = replace(state, bound=there, in_the_way=told_all, evicted_from=nodes)
    again = restore(dump(state, (), Settings()), Resolver(Settings().groups).member_key)
    return plan_for(again, "high")


def low(at: int, *, deleting: float = 0.0) -> Pod:
    return pod(f"low-{at}", on=f"n{at}", priority=1, shape=DISK, deleting=deleting)


def test_a_changed_plan_seats_members_with_volumes_apart_as_the_plan_before() -> None:
    """All that was to go has gone, or goes: the plan names no victims any more, and one attachment
    is free on each node."""
    plan = changed({0: None, 1: low(1, deleting=NOW + 30)})
    assert sorted(seats(plan).values()) == ["n0", "n1"]
    assert evicted(plan) == set()


def test_a_changed_plan_evicts_another_pod_where_one_node_is_lost() -> None:
    plan = changed({0: None, 1: low(1)})
    assert sorted(seats(plan).values()) == ["n0", "n1"]
    assert evicted(plan) == {"low-1"}


def test_a_changed_plan_evicts_no_other_pod_where_a_free_node_is_accepted_as_it_is() -> None:
    """Nor where only some of the members fit apart on the nodes that pods went from."""
    two = changed({0: low(0)}, free=1)
    assert evicted(two) == set()
    three = changed({0: None, 1: low(1)}, free=1, shapes=claims("a", "b", "c"), cpu=2)
    assert sorted(seats(three).values()) == ["n0", "n2", "n2"]
    assert evicted(three) == set()


def test_a_changed_plan_without_another_node_is_left_to_kube_scheduler() -> None:
    plan = changed({0: None})
    assert sorted(seats(plan).values()) == ["n0", "n0"]


def test_a_plan_that_evicts_nothing_takes_what_kube_scheduler_accepts() -> None:
    plan = changed({0: None, 1: low(1)}, has_evicted=False)
    assert sorted(seats(plan).values()) == ["n0", "n0"]


# -- what is kept of kube-scheduler's answers ---------------------------------------------------


class Seen:
    """A node with two low pods that have volumes, and a gang that waits."""

    def __init__(self, shape: PodShape = DISK) -> None:
        self.now = 0.0
        self.low = [pod(f"low-{i}", on="n0", priority=1, shape=DISK) for i in range(2)]
        self.bare = pod("bare", on="n0", priority=1)
        self.members = tuple(pod(f"m-{i}", priority=100, group="g", shape=shape) for i in range(2))
        self.state = snapshot([node("n0"), node("n1")], [*self.low, self.bare, *self.members], [])
        key = GangKey("pod-group", "default", "g")
        self.gang = Gang(key=key, members=self.members, min_count=2)
        self.evidence = NodeLists(Clocks(lambda: self.now), Showing(lambda: self.state))

    def named(self, member: int, *victims: Pod, node: str = "n0") -> None:
        uids = tuple(each.uid for each in victims)
        self.evidence.accepts(self.members[member], [node], {node: uids})

    def told(self) -> dict[str, Mapping[str, tuple[str, ...]]]:
        return self.evidence.in_the_way(self.gang, self.state)

    def open(self) -> bool:
        """Whether the node counts for the first member."""
        masks = self.evidence.masks(self.gang, self.state.nodes, self.told())
        return "n0" not in masks.get(self.members[0].uid, frozenset({"n0"}))

    def bound(self, *pods: Pod) -> None:
        self.state = replace(self.state, bound={"n0": pods})


def test_victims_with_volumes_are_kept_for_all_members_of_a_kind() -> None:
    seen = Seen()
    seen.named(0, seen.low[0], seen.bare)
    assert seen.told() == {each.uid: {"n0": (seen.low[0].uid,)} for each in seen.members}
    assert seen.open()


def test_victims_without_volumes_are_for_the_search() -> None:
    seen = Seen()
    seen.named(0, seen.bare)
    assert seen.told() == {}
    assert seen.open()


def test_they_are_as_old_as_the_name_of_the_node() -> None:
    seen = Seen()
    seen.named(0, seen.low[0])
    seen.now = MEMORY_SECONDS
    assert seen.told() == {}
    assert not seen.evidence.accepted.get(seen.members[0].uid)


def test_what_is_said_last_counts() -> None:
    seen = Seen()
    seen.named(0, seen.low[0])
    version = seen.evidence.version()
    seen.named(0, seen.low[1])
    assert seen.told()[seen.members[0].uid] == {"n0": (seen.low[1].uid,)}
    assert seen.evidence.version() > version
    seen.evidence.accepts(seen.members[0], ["n0"])
    assert seen.told() == {}
    assert seen.open()
    seen.named(0, seen.low[0])
    assert seen.told()


def test_a_node_with_other_volumes_is_not_named_any_more() -> None:
    """One that comes takes the place of the one that goes; where one leaves none may have to go."""
    seen = Seen()
    seen.named(0, seen.low[0])
    seen.bound(*seen.low, seen.bare, pod("new", on="n0", shape=DISK))
    assert (seen.told(), seen.open()) == ({}, False)
    seen.bound(seen.low[0], seen.bare)
    assert (seen.told(), seen.open()) == ({}, False)
    seen.bound(*seen.low, seen.bare, pod("new", on="n0"))
    assert seen.open(), "a pod without volumes holds none"


def test_victims_beside_a_nominated_pod_with_volumes_are_not_believed() -> None:
    """kube-scheduler counts that pod, and its nomination may be cleared in a moment."""
    seen = Seen()
    seen.named(0, seen.low[0])
    other = pod("other", priority=100, shape=DISK)
    pending = {**seen.state.pending, other.uid: replace(other, nominated="n0")}
    seen.state = replace(seen.state, pending=pending)
    seen.named(0, *seen.low)
    assert (seen.told(), seen.open()) == ({}, False)


def test_a_victim_that_is_not_known_yet_has_to_go() -> None:
    seen = Seen()
    late = pod("late", on="n0", priority=1, shape=DISK)
    seen.named(0, late)
    assert not seen.open()
    seen.bound(*seen.low, seen.bare, late)
    assert seen.told()[seen.members[0].uid] == {"n0": (late.uid,)}


def test_they_are_bounded_as_names_are() -> None:
    seen = Seen()
    seen.named(0, *seen.low)
    assert seen.evidence.accepted.size == 1 + 2 + 2


def claims_of_their_own() -> Seen:
    """The members' claims differ, so that what is said of one says nothing of the other."""
    seen = Seen()
    shapes = claims("a", "b")
    seen.members = tuple(
        replace(each, shape=shape) for each, shape in zip(seen.members, shapes, strict=True)
    )
    seen.gang = replace(seen.gang, members=seen.members)
    return seen


def run_out(seen: Seen) -> list[str]:
    return [pod.name for pod, _ in seen.evidence.run_out(seen.gang, seen.state)]


def test_a_member_that_was_tried_long_before_another_has_run_out() -> None:
    seen = claims_of_their_own()
    seen.named(0, seen.low[0])
    seen.now = MEMORY_SECONDS
    assert run_out(seen) == [], "kube-scheduler has tried none of them lately"
    seen.named(1, seen.low[0])
    assert run_out(seen) == ["m-0"]
    assert run_out(seen) == [], "once is enough: it may name no node"
    seen.named(0, seen.low[0])
    seen.now += MEMORY_SECONDS - 1
    assert run_out(seen) == []


def test_a_member_whose_nodes_have_other_volumes_by_now_has_run_out() -> None:
    seen = claims_of_their_own()
    seen.named(0, seen.low[0])
    seen.bound(*seen.low, seen.bare, pod("new", on="n0", shape=DISK))
    assert run_out(seen) == []
    seen.named(1, seen.low[0])
    assert run_out(seen) == ["m-0"]
    assert run_out(seen) == []


def test_a_member_of_a_kind_that_was_named_lately_has_not_run_out() -> None:
    seen = Seen()
    seen.named(0, seen.low[0])
    seen.now = MEMORY_SECONDS
    seen.named(1, seen.low[0])
    assert run_out(seen) == []


def test_it_is_not_remembered_for_ever_that_a_member_was_named() -> None:
    """kube-scheduler has tried it since, and it named no node."""
    seen = claims_of_their_own()
    seen.named(0, seen.low[0])
    seen.now = NAMED_SECONDS
    seen.named(1, seen.low[0])
    assert run_out(seen) == []


# -- both together --------------------------------------------------------------------------


async def with_volume(rig: Rig, name: str, *, on: str = "") -> None:
    """A low pod, or a member of the gang; each has a claim of its own."""
    member = name.startswith("g-")
    spec: Obj = {
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
        "terminationGracePeriodSeconds": 0,
        "priorityClassName": "high" if member else "low",
        "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": name}}],
        **({"nodeName": on} if on else {}),
        **({"schedulingGroup": {"podGroupName": "g"}} if member else {}),
    }
    await rig.client.create(PODS, {"metadata": {"name": name}, "spec": spec})
    await rig.until(lambda: rig.cache.pod_named("default", name) is not None)


async def attached(rig: Rig) -> None:
    """Room for two members beside low pods, which hold the last attachment of each node."""
    for i in range(2):
        await with_volume(rig, f"low-{i}", on=f"n{i}")
    await rig.group("g", 2, "high")
    for i in range(2):
        await with_volume(rig, f"g-{i}")


def victims(rig: Rig) -> set[str]:
    """Whom the one plan under way evicts."""
    (preemption,) = rig.coordinator.reservations
    return {victim.name for victim in preemption.plan.victims}


async def test_the_pods_that_hold_the_attachments_go(rig: Rig) -> None:
    await attached(rig)
    for i in range(2):
        await rig.preempt(f"g-{i}", n0=["low-0"], n1=["low-1"])
    assert victims(rig) == {"low-0", "low-1"}
    await rig.until_names("g-0", "g-1")


async def test_another_volume_does_not_take_the_place_of_the_one_that_went(rig: Rig) -> None:
    """A Deployment makes a victim anew, and its CPU is free beside the member's."""
    await attached(rig)
    for i in range(2):
        await rig.preempt(f"g-{i}", n0=["low-0"], n1=["low-1"])
    await rig.until_names("g-0", "g-1")
    await with_volume(rig, "anew")
    await rig.pod("bare", cls="low", cpu="1")
    assert (await rig.filter("anew", "n0", "n1")).node_names == []
    assert (await rig.filter("bare", "n0", "n1")).node_names == ["n0", "n1"]


VOLUME = {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "other"}}]}
DEVICE = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpus"}]}


async def other_gang(rig: Rig, cls: str, needs: Obj, name: str = "other") -> None:
    """A gang of one pod of 1 CPU."""
    await rig.group(name, 1, cls)
    spec = {
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
        "priorityClassName": cls,
        "schedulingGroup": {"podGroupName": name},
        **needs,
    }
    await rig.client.create(PODS, {"metadata": {"name": f"{name}-0"}, "spec": spec})
    await rig.until(lambda: rig.cache.pod_named("default", f"{name}-0") is not None)


@pytest.mark.parametrize("cls", ["low", "high"])
async def test_another_gangs_volume_does_not_take_the_place_either(rig: Rig, cls: str) -> None:
    """Each node has one attachment left, so kube-scheduler names both for the other gang."""
    await attached(rig)
    for i in range(2):
        await rig.preempt(f"g-{i}", n0=["low-0"], n1=["low-1"])
    await rig.until_names("g-0", "g-1")
    await other_gang(rig, cls, VOLUME)
    await other_gang(rig, cls, {}, "bare")
    assert (await rig.filter("other-0", "n0", "n1")).node_names == []
    assert rig.outcomes("other") == ["infeasible"]
    assert "2 nodes are held for other gangs whose members need volumes" in rig.messages("other")
    assert await placed(rig, "bare-0")
    await rig.nodes(1, first=2)
    assert await placed(rig, "other-0", "n2") == ["n2"]


async def test_another_gang_that_is_more_urgent_has_the_node(rig: Rig) -> None:
    await attached(rig)
    for i in range(2):
        await rig.preempt(f"g-{i}", n0=["low-0"], n1=["low-1"])
    await rig.until_names("g-0", "g-1")
    await other_gang(rig, "top", VOLUME)
    assert await placed(rig, "other-0")


async def test_another_gangs_device_does_not_take_the_place_either(rig: Rig) -> None:
    for i in range(2):
        await rig.pod(f"low-{i}", cls="low", on=f"n{i}", cpu="4")
    await other_gang(rig, "high", DEVICE, "g")
    await rig.preempt("g-0", n0=["low-0"])
    await rig.until_names("g-0", "low-1")
    await other_gang(rig, "low", DEVICE)
    await other_gang(rig, "low", {}, "bare")
    assert (await rig.filter("other-0", "n0")).node_names == []
    assert "1 node is held for other gangs whose members need" in rig.messages("other")
    assert await placed(rig, "bare-0", "n0") == ["n0"]


async def placed(rig: Rig, name: str, *nodes: str) -> list[str]:
    """Ask for a pod until it has a node, and return which."""
    for _ in range(100):
        answer = await rig.filter(name, *(nodes or ("n0", "n1")))
        if answer.node_names:
            return answer.node_names
        await rig.rounds(1)
    raise AssertionError(f"{name} has no node: {rig.messages(name)}")


async def no_node(rig: Rig, name: str) -> None:
    """kube-scheduler has found no node for a pod: its gang is planned without being asked about."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    body = {"status": {"conditions": [condition]}}
    await rig.client.patch(f"{PODS}/{name}/status", body, "strategic")
    await rig.until(lambda: rig.cached(name).tried, f"{name} was tried")


def tried_again(rig: Rig, name: str) -> bool:
    """Whether kube-scheduler is made to try a pod again: a nomination of it begins and ends."""
    path = f"/api/v1/namespaces/default/pods/{name}/status"
    return [method for method, at in rig.server.requests if at == path].count("PATCH") >= 2


@pytest.mark.parametrize("by_filter", [False, True])
async def test_a_member_that_was_tried_long_before_the_others_is_tried_again(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, *, by_filter: bool
) -> None:
    """What kube-scheduler said of it counts no more, and no event would bring it back."""
    await rig.nodes(1, first=2)
    for i in range(2):
        await with_volume(rig, f"low-{i}", on=f"n{i}")
    await rig.group("g", 2, "high")
    await with_volume(rig, "g-0")
    with monkeypatch.context() as patched:
        patched.setattr(node_lists, "MEMORY_SECONDS", 0.0)
        await rig.preempt("g-0", n0=["low-0"], n1=["low-1"])
    await with_volume(rig, "g-1")
    await no_node(rig, "g-1")
    if by_filter:
        await rig.filter("g-1", "n2")
    else:
        await rig.preempt("g-1", n0=["low-0"], n1=["low-1"])
    await rig.until(lambda: tried_again(rig, "g-0"), "the first member is tried again")
    assert not tried_again(rig, "g-1")
    await rig.preempt("g-0", n0=["low-0"], n1=["low-1"])
    await rig.until(lambda: bool(len(rig.coordinator.reservations)), "the gang has a plan")


@pytest.mark.parametrize("used", [False, True])
async def test_one_event_has_all_members_tried_again_that_it_wakes(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, *, used: bool
) -> None:
    """A member of which a pod on a node names the claim waits for an event of its own: that of
    another claim is none to VolumeRestrictions."""
    await attached(rig)
    for i in range(2, 6):
        await with_volume(rig, f"g-{i}")
    if used:
        spec = {
            "containers": [{"name": "c", "image": "i"}],
            "nodeName": "n0",
            "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "g-1"}}],
        }
        await rig.client.create(PODS, {"metadata": {"name": "user"}, "spec": spec})
        await rig.until(lambda: rig.cache.pod_named("default", "user") is not None)
    with monkeypatch.context() as patched:
        patched.setattr(node_lists, "MEMORY_SECONDS", 0.0)
        for i in range(5):
            await rig.preempt(f"g-{i}", n0=["low-0"], n1=["low-1"])
    await rig.preempt("g-5", n0=["low-0"], n1=["low-1"])

    def woken() -> set[str]:
        return {f"g-{i}" for i in range(6) if tried_again(rig, f"g-{i}")}

    await rig.until(lambda: len(woken()) == 1 + used, "events were made")
    await rig.rounds(2)
    assert len(woken()) == 1 + used
    assert "g-1" in woken() or not used


async def test_a_member_whose_nodes_have_another_volume_is_tried_again(rig: Rig) -> None:
    for i in range(2):
        await with_volume(rig, f"low-{i}", on=f"n{i}")
    await rig.group("g", 2, "high")
    await with_volume(rig, "g-0")
    await rig.preempt("g-0", n0=["low-0"], n1=["low-1"])
    for i in range(2):
        await with_volume(rig, f"other-{i}", on=f"n{i}")
    await with_volume(rig, "g-1")
    await no_node(rig, "g-1")
    both = {f"n{i}": [f"low-{i}", f"other-{i}"] for i in range(2)}
    await rig.preempt("g-1", **both)
    await rig.until(lambda: tried_again(rig, "g-0"), "the first member is tried again")
    await rig.preempt("g-0", **both)
    await rig.until(lambda: bool(len(rig.coordinator.reservations)), "the gang has a plan")
    assert victims(rig) == {"low-0", "low-1", "other-0", "other-1"}


async def test_no_pod_goes_for_one_attachment_and_two_members(rig: Rig) -> None:
    await attached(rig)
    for i in range(2):
        await rig.preempt(f"g-{i}", n0=["low-0"])
    assert not len(rig.coordinator.reservations)
    assert rig.outcomes("g")[-1] == "infeasible"


async def test_no_pod_goes_where_another_has_taken_the_attachment(rig: Rig) -> None:
    """A pod with a volume came to a node after kube-scheduler had named it for a member."""
    await attached(rig)
    await rig.preempt("g-0", n1=["low-1"])
    await with_volume(rig, "other", on="n1")
    await rig.preempt("g-1", n0=["low-0"])
    assert not len(rig.coordinator.reservations)
    for _ in range(100):  # the refusal stands for a moment
        await rig.preempt("g-0", n1=["low-1", "other"])
        if len(rig.coordinator.reservations):
            break
        await asyncio.sleep(0.05)
    assert victims(rig) == {"low-0", "low-1", "other"}


async def test_victims_that_are_named_while_a_plan_is_searched_for_count(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan was made for others, and one of them would have stayed."""
    await attached(rig)
    await with_volume(rig, "other", on="n1")
    evidence, search = rig.coordinator.evidence, PlannerThread.plan
    searched: list[Plan] = []

    async def plan(thread: PlannerThread, *question: Any) -> Plan | Refusal:
        found = await search(thread, *question)
        if not searched and isinstance(found, Plan):
            searched.append(found)
            uids = tuple(rig.cached(name).uid for name in ("low-1", "other"))
            for i in range(2):
                evidence.accepts(rig.cached(f"g-{i}"), ["n1"], {"n1": uids})
        return found

    monkeypatch.setattr(PlannerThread, "plan", plan)
    for i in range(2):
        await rig.preempt(f"g-{i}", n0=["low-0"], n1=["low-1"])
    assert {victim.name for victim in searched[0].victims} == {"low-0", "low-1"}
    assert victims(rig) == {"low-0", "low-1", "other"}


async def test_a_plan_is_changed_once_the_first_attachment_is_free(wide: Rig) -> None:
    """The node of a victim that has gone is accepted still: nothing else has changed there."""
    rig = wide
    for i in range(3):
        await with_volume(rig, f"low-{i}", on=f"n{i}")
    await rig.pod("full", cls="top", on="n3", cpu="4")
    await rig.group("g", 2, "high")
    for i in range(2):
        await with_volume(rig, f"g-{i}")
    offered = {f"n{i}": [f"low-{i}"] for i in range(3)}
    held = held_back(rig, "POST", "configmaps", times=10_000)
    for i in range(2):
        await rig.preempt(f"g-{i}", **offered)
    await rig.until(lambda: held.hits > 0, "the record is being written")
    (plan,) = rig.coordinator.reservations
    first, second = sorted(victim.name for victim in plan.plan.victims)
    rig.server.faults.clear()
    refuses = Fault(times=10_000, method="DELETE", path=f"{second}{REAL_DELETE}", status=429)
    rig.server.faults.plan(refuses)
    let_go(held)
    await rig.until(lambda: rig.cache.pod_named("default", first) is None, "the first is gone")
    node = rig.cached(second).node
    await rig.client.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
    await rig.until(lambda: rig.outcomes("g").count("plan") > 1, "another node is planned with")
    assert "gave-up" not in rig.outcomes("g")
    (plan,) = rig.coordinator.reservations
    assert len(set(plan.seats.values())) == 2, "one attachment is free on the first node"
    assert victims(rig) == {"low-0", "low-1", "low-2"} - {first, second}


@pytest.mark.parametrize("restarted", [False, True])
async def test_no_other_volume_comes_to_seats_of_a_changed_plan(
    rig: Rig, *, restarted: bool
) -> None:
    """Its victims have gone for the plan before, and it names none itself."""
    await attached(rig)
    for i in range(2):
        await rig.preempt(f"g-{i}", n0=["low-0"], n1=["low-1"])
    await rig.until_names("g-0", "g-1")
    await rig.nodes(1, first=2)
    for i in range(2):
        rig.coordinator.evidence.accepts(rig.cached(f"g-{i}"), ["n2"])
    (plan,) = rig.coordinator.reservations
    await rig.until(lambda: plan.state is PreemptionState.OPEN, "the seats are open")
    await rig.client.patch("/api/v1/nodes/n1", {"spec": {"unschedulable": True}})

    def changed() -> bool:
        plans = [each for each in rig.coordinator.reservations if each is not plan]
        return [each.state for each in plans] == [PreemptionState.OPEN]

    await rig.until(changed, "another plan took its place")
    if restarted:
        await rig.kill()
        await rig.start()
    (plan,) = rig.coordinator.reservations
    assert sorted(plan.seats.values()) == ["n0", "n2"]
    assert not plan.plan.victims
    await with_volume(rig, "anew")
    assert (await rig.filter("anew", "n0", "n2")).node_names == []


async def test_no_further_pod_goes_to_keep_volumes_apart_where_a_victim_stays(wide: Rig) -> None:
    """Free room is taken as it is then: kube-scheduler decides whether both volumes fit."""
    rig = wide
    for i in range(3):
        await with_volume(rig, f"low-{i}", on=f"n{i}")
    await rig.pod("full", cls="top", on="n3", cpu="4")
    await rig.client.patch(f"{PODS}/low-1", {"metadata": {"finalizers": ["example.com/stays"]}})
    await rig.group("g", 2, "high")
    for i in range(2):
        await with_volume(rig, f"g-{i}")
    for i in range(2):
        await rig.preempt(f"g-{i}", n0=["low-0"], n1=["low-1"])
    assert victims(rig) == {"low-0", "low-1"}
    for i in range(2):
        gone = {"n2": (rig.cached("low-2").uid,)}
        rig.coordinator.evidence.accepts(rig.cached(f"g-{i}"), ["n2"], gone)
    await rig.until(lambda: rig.outcomes("g").count("plan") > 1, "another plan is made")
    (plan,) = rig.coordinator.reservations
    assert not plan.plan.victims
    assert set(plan.seats.values()) == {"n0"}
    assert "low-2" in await rig.names()


@pytest.mark.parametrize("shared", [False, True])
def test_a_member_that_sits_where_a_pod_went_has_what_was_freed(*, shared: bool) -> None:
    """Unless the other member names no more claims than it."""
    shapes = [HEAD, SHARED] if shared else claims("a", "b")
    state = waiting(2, {}, shapes)
    one, other = (each for each in state.pending.values() if each.priority == 100)
    left = next(iter(state.bound["n1"]))
    members = (replace(one, node="n0"), other)
    gang = Gang(key=gang_key("high"), members=members, min_count=2, preemptor_priority=100)
    state = replace(
        state,
        pending={other.uid: other},
        bound={"n0": members[:1], "n1": (left,)},
        in_the_way={other.uid: {"n0": (), "n1": (left.uid,)}},
        evicted_from=frozenset({"n0"}),
    )
    plan = Planner(Settings(), Resolver(Settings().groups)).plan(GangQuestion(gang, state))
    assert evicted(plan) == (set() if shared else {"low-1"})
    assert set(seats(plan).values()) == {"n0" if shared else "n1"}


async def claiming(rig: Rig, name: str) -> None:
    """A member of the gang that claims devices."""
    spec: Obj = {
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}],
        "priorityClassName": "high",
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpus"}],
        "schedulingGroup": {"podGroupName": "g"},
    }
    await rig.client.create(PODS, {"metadata": {"name": name}, "spec": spec})
    await rig.until(lambda: rig.cache.pod_named("default", name) is not None)


@pytest.mark.parametrize("devices", [False, True])
async def test_no_further_pod_goes_where_a_new_node_is_accepted_as_it_is(
    wide: Rig, *, devices: bool
) -> None:
    """Both nodes that pods went from are lost: what is free of them is nothing to keep apart on."""
    rig = wide
    for i in range(3):
        await (
            rig.pod(f"low-{i}", cls="low", on=f"n{i}")
            if devices
            else with_volume(rig, f"low-{i}", on=f"n{i}")
        )
    await rig.pod("full", cls="top", on="n3", cpu="4")
    await rig.group("g", 2, "high")
    for i in range(2):
        await (claiming(rig, f"g-{i}") if devices else with_volume(rig, f"g-{i}"))
    for i in range(2):
        await rig.preempt(f"g-{i}", n0=["low-0"], n1=["low-1"])
    await rig.until_names("g-0", "g-1", "low-2", "full")
    (plan,) = rig.coordinator.reservations
    await rig.until(lambda: plan.state is PreemptionState.OPEN, "the seats are open")
    await rig.nodes(1, cpu=16, first=4)
    for i in range(2):
        member, there = rig.cached(f"g-{i}"), rig.cached("low-2").uid
        rig.coordinator.evidence.accepts(member, ["n4", "n2"] if devices else ["n4"])
        if not devices:
            rig.coordinator.evidence.accepts(member, ["n2"], {"n2": (there,)})
    for i in range(2):
        await rig.client.patch(f"/api/v1/nodes/n{i}", {"spec": {"unschedulable": True}})
    await rig.until(lambda: rig.outcomes("g").count("plan") > 1, "another plan is made")
    (plan,) = rig.coordinator.reservations
    assert not plan.plan.victims
    assert set(plan.seats.values()) == {"n4"}
    assert "low-2" in await rig.names()


def test_seats_of_a_less_urgent_gang_with_volumes_are_taken_over() -> None:
    low = [pod(f"low-{i}", on=f"n{i}", priority=1, cpu=3.5) for i in range(2)]
    disk = PodShape(unmodelled=("persistentVolumeClaim",))
    mid = [pod(f"mid-{i}", group="mid", priority=50, shape=disk) for i in range(2)]
    high = [pod(f"high-{i}", group="high", priority=100, shape=disk) for i in range(2)]
    groups = [group("mid", 2, priority=50), group("high", 2, priority=100)]
    state = snapshot([node("n0"), node("n1")], [*low, *mid, *high], groups)
    holds = tuple(
        Hold(gang=gang_key("mid"), uid=p.uid, node=f"n{i}", requests=p.requests, priority=50)
        for i, p in enumerate(mid)
    )
    resolver = Resolver(Settings().groups)
    gang = resolver.resolve(gang_key("high"), state)
    plan = Planner(Settings(), resolver).plan(GangQuestion(gang, state, holds=holds))
    assert isinstance(plan, Plan), plan
    assert plan.takes_over


async def test_a_pod_that_came_to_the_last_attachment_goes_again(rig: Rig) -> None:
    """Another tenant's pod with a volume takes a seat's attachment past filter (spec.nodeName). It
    is evicted for the member within seconds; the refused seat was left out for 300 s."""
    await attached(rig)
    await rig.client.create("/api/v1/namespaces", {"metadata": {"name": "evil"}})
    for i in range(2):
        await rig.preempt(f"g-{i}", n0=["low-0"], n1=["low-1"])
    await rig.until_names("g-0", "g-1")
    (plan,) = rig.coordinator.reservations
    await rig.until(lambda: plan.state is PreemptionState.OPEN, "the seats are open")
    (seat,) = (await rig.filter("g-0", "n0", "n1")).node_names
    await rig.bind("g-0", seat)
    other = {"n0": "n1", "n1": "n0"}[seat]
    spec: Obj = {
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}],
        "terminationGracePeriodSeconds": 0,
        "priorityClassName": "low",
        "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "sq"}}],
        "nodeName": other,
    }
    body = {"metadata": {"name": "sq"}, "spec": spec}
    made = await rig.client.create("/api/v1/namespaces/evil/pods", body)
    await rig.until(lambda: rig.cache.pod_named("evil", "sq") is not None, "it is there")
    uid = made["metadata"]["uid"]
    async with asyncio.timeout(2 * rig.patience):
        while rig.cache.pod_named("evil", "sq") is not None:
            shown = {other: NodeVictims((uid,))}
            await rig.verbs.preempt(PreemptArgs(rig.cached("g-1"), shown))
            await asyncio.sleep(0.3)
    async with asyncio.timeout(rig.patience):
        while not (await rig.filter("g-1", other)).node_names:
            await asyncio.sleep(0.3)
