"""What kube-scheduler and the Eviction API would refuse is never planned."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from extender.decode.from_json import decode_documents
from extender.model.objects import (
    DisruptionBudget,
    LabelSelector,
    Owner,
    Pod,
    Requirement,
)
from extender.model.plan import Plan, Refusal
from extender.settings.policy import SYSTEM_CRITICAL
from extender.settings.settings import PlanSettings, Settings
from tests.gang.world import evicted, group, node, plan_for, pod, seats, snapshot

HIGH = 100
NODES = [node("n0"), node("n1")]


def members(count: int = 1, **more: object) -> list[Pod]:
    return [
        pod(f"high-{i}", priority=HIGH, group="high", **more)  # type: ignore[arg-type]
        for i in range(count)
    ]


NOT_READY: tuple[dict[str, Any], ...] = (
    {"conditions": [{"type": "Ready", "status": "False"}]},
    {"conditions": [{"type": "Ready", "status": "Unknown"}]},
    {"conditions": [{"type": "PodScheduled", "status": "True"}]},
    {"conditions": []},
    {},
)
"""Statuses of a pod that podutil.IsPodReady calls not ready, as the Eviction API does."""


def budget(name: str, allowed: int, label: str, *, unready_free: bool = False) -> DisruptionBudget:
    chosen = LabelSelector((Requirement(label, "In", ("yes",)),))
    return DisruptionBudget(name, "default", name, chosen, allowed, unready_free=unready_free)


def nominee(priority: int) -> Pod:
    return replace(pod("nominee", priority=priority), nominated="n0")


def test_room_of_a_nominated_pod_is_taken_for_who_is_no_more_urgent() -> None:
    for priority, free in ((HIGH + 1, ["n1"]), (HIGH, ["n1"]), (HIGH - 1, ["n0", "n1"])):
        count = len(free)
        state = snapshot(NODES, [nominee(priority), *members(count)], [group("high", count)])
        assert sorted(seats(plan_for(state, "high")).values()) == free
    state = snapshot(NODES, [nominee(HIGH), *members(2)], [group("high", 2)])
    assert isinstance(plan_for(state, "high"), Refusal)


@pytest.mark.parametrize(
    ("own", "of_group", "waits", "kept"),
    [(0, 100, 50, True), (0, 100, 0, True), (100, 0, 50, True), (100, 100, 50, False)],
)
def test_a_nominated_pod_keeps_its_room_from_members_less_urgent_than_their_group(
    own: int, of_group: int, waits: int, *, kept: bool
) -> None:
    """kube-scheduler compares the priorities of the pods; nor does such a seat give way."""
    mine = [replace(each, priority=own) for each in members()]
    groups = [group("high", 1, priority=of_group)]
    answer = plan_for(snapshot([node("n0")], [nominee(waits), *mine], groups), "high")
    assert isinstance(answer, Refusal if kept else Plan), answer


def test_of_members_that_differ_the_least_urgent_decides_where_pods_are_nominated() -> None:
    """Room is kept on a node, not from a kind of member."""
    two = [replace(each, priority=p) for each, p in zip(members(2), (100, 0), strict=True)]
    groups = [group("high", 2, priority=100)]
    assert isinstance(plan_for(snapshot(NODES, [nominee(50), *two], groups), "high"), Refusal)
    assert isinstance(plan_for(snapshot(NODES, two, groups), "high"), Plan)


def test_a_member_nominated_itself_takes_no_room_from_its_gang() -> None:
    mine = [replace(member, nominated="n0") for member in members(2)]
    state = snapshot(NODES, mine, [group("high", 2)])
    assert sorted(seats(plan_for(state, "high")).values()) == ["n0", "n1"]


def test_a_nominated_pod_that_ends_keeps_nothing() -> None:
    ending = replace(nominee(HIGH), deleting=1.0)
    state = snapshot([node("n0")], [ending, *members()], [group("high", 1)])
    assert isinstance(plan_for(state, "high"), Plan)


def test_a_pod_under_two_budgets_is_no_victim_where_budgets_are_respected() -> None:
    low = pod("low", on="n0", labels={"a": "yes", "b": "yes"})
    budgets = [budget("one", 5, "a"), budget("two", 5, "b")]
    state = snapshot([node("n0")], [low, *members()], [group("high", 1)], budgets=budgets)
    answer = plan_for(state, "high")
    assert isinstance(answer, Refusal)
    assert any("2 disruption budgets" in line for line in answer.details)
    prefers = Settings(plan=PlanSettings(pdb_policy="prefer"))
    assert evicted(plan_for(state, "high", prefers)) == {"low"}
    state = snapshot([node("n0")], [low, *members()], [group("high", 1)], budgets=budgets[:1])
    assert evicted(plan_for(state, "high")) == {"low"}


def test_a_whole_gang_with_a_pod_under_two_budgets_stays() -> None:
    low = [
        pod("low-0", on="n0", group="low", labels={"a": "yes", "b": "yes"}),
        pod("low-1", on="n1", group="low"),
    ]
    budgets = [budget("one", 5, "a"), budget("two", 5, "b")]
    groups = [group("high", 1), group("low", 2)]
    state = snapshot(NODES, [*low, *members()], groups, budgets=budgets)
    assert isinstance(plan_for(state, "high"), Refusal)


def test_members_of_a_gang_below_its_quorum_cost_as_single_pods() -> None:
    """Two of four run: they lose nothing together, so one of them goes, not both."""
    low = [pod(f"low-{i}", on=f"n{i}", group="low") for i in range(2)]
    state = snapshot(NODES, [*low, *members()], [group("high", 1), group("low", 4)])
    answer = plan_for(state, "high")
    assert len(evicted(answer)) == 1
    assert isinstance(answer, Plan)
    assert {cost.level: cost.value for cost in answer.costs}["gangs@0"] == 0
    whole = snapshot(NODES, [*low, *members()], [group("high", 1), group("low", 2)])
    assert evicted(plan_for(whole, "high")) == {"low-0", "low-1"}


def test_static_pods_and_those_of_daemon_sets_stay() -> None:
    low = pod("low", on="n0")
    mirror = replace(low, annotations={"kubernetes.io/config.mirror": "hash"})
    static = replace(mirror, owner=Owner("Node", "n0", "node-n0"))
    daemon = replace(low, owner=Owner("DaemonSet", "agents", "uid"))
    for stays in (static, daemon):
        state = snapshot([node("n0")], [stays, *members()], [group("high", 1)])
        assert isinstance(plan_for(state, "high"), Refusal)
    allowed = Settings(plan=PlanSettings(evict_daemon_set_pods=True))
    state = snapshot([node("n0")], [daemon, *members()], [group("high", 1)])
    assert evicted(plan_for(state, "high", allowed)) == {"low"}
    state = snapshot([node("n0")], [static, *members()], [group("high", 1)])
    assert isinstance(plan_for(state, "high", allowed), Refusal)
    # The API server takes the annotation from whoever names the node; kubelet names it as owner.
    for owner in (None, Owner("Node", "n0", "uid"), Owner("Node", "n1", "node-n0")):
        state = snapshot(
            [node("n0")], [replace(mirror, owner=owner), *members()], [group("high", 1)]
        )
        assert evicted(plan_for(state, "high")) == {"low"}
    critical = replace(mirror, owner=Owner("Node", "n0", "before"), priority=SYSTEM_CRITICAL)
    urgent = [replace(each, priority=SYSTEM_CRITICAL + 1) for each in members()]
    state = snapshot([node("n0")], [critical, *urgent], [group("high", 1)])
    assert isinstance(plan_for(state, "high"), Refusal), "kubelet renews it when the node is new"


@pytest.mark.parametrize(
    ("unready_free", "unready", "goes"),
    [(True, True, True), (False, True, False), (True, False, False)],
)
def test_a_pod_that_is_not_ready_may_go_where_its_budget_says_so(
    *, unready_free: bool, unready: bool, goes: bool
) -> None:
    low = replace(pod("low", on="n0", labels={"a": "yes"}), unready=unready)
    state = snapshot(
        [node("n0")],
        [low, *members()],
        [group("high", 1)],
        budgets=[budget("one", 0, "a", unready_free=unready_free)],
    )
    assert isinstance(plan_for(state, "high"), Plan) == goes


def test_readiness_the_policy_and_the_mirror_annotation_are_decoded() -> None:
    raw = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "p",
            "namespace": "default",
            "uid": "u",
            "annotations": {"kubernetes.io/config.mirror": "x", "other": "y"},
        },
        "spec": {"nodeName": "n0", "containers": [{"name": "c"}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }
    (ready,) = decode_documents(raw)
    assert isinstance(ready, Pod)
    assert not ready.unready
    assert ready.annotations == {"kubernetes.io/config.mirror": "x"}
    for others in NOT_READY:
        raw["status"] = {"phase": "Running", **others}
        (unready,) = decode_documents(raw)
        assert isinstance(unready, Pod)
        assert unready.unready, others
    document = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default", "uid": "u"},
        "spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow", "selector": {}},
        "status": {"disruptionsAllowed": 0},
    }
    (found,) = decode_documents(document)
    assert isinstance(found, DisruptionBudget)
    assert found.unready_free
