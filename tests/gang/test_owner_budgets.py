"""Volcano's jdb annotations: how many pods of a gang its owner can do without, if it counts."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from extender.decode.from_json import decode_group
from extender.gang.incremental.protection import Protections
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.gang.plan.validity import unit_problem, victim_problem
from extender.groups.resolver import Resolver
from extender.model.objects import GangKey, GroupObject, Pod
from extender.model.owner_budget import MAX_UNAVAILABLE, MIN_AVAILABLE, OwnerBudget, budget_of
from extender.model.plan import Plan, Refusal
from extender.model.snapshot import Snapshot
from extender.sandbox.apiserver import ApiServer
from extender.sandbox.resources import OTHER_POD_GROUPS
from extender.settings.policy import SYSTEM_CRITICAL, OptOutRule, PolicySettings
from extender.settings.settings import GroupSettings, Settings
from extender.settings.settings_rules import validate
from tests.gang.rig import FAST, PODS, Rig
from tests.gang.world import evicted, gang_key, group, node, pod, snapshot

ALLOWED = {"default": {"podgroup-extender.io/opt-out": "allowed"}}
KEY = GangKey("volcano", "default", "low")


def pod_group(least: int, **annotations: str) -> GroupObject:
    """As Volcano's job controller makes it: with the job's annotations."""
    notes = {f"volcano.sh/jdb-{key.replace('_', '-')}": text for key, text in annotations.items()}
    meta = {"name": "low", "namespace": "default", "uid": "g", "annotations": notes}
    return decode_group("volcano", {"metadata": meta, "spec": {"minMember": least}})


def low(i: int, *, on: str = "", **more: Any) -> Pod:
    notes = {"scheduling.k8s.io/group-name": "low"}
    return pod(f"low-{i}", on=on, annotations={**notes, **more.pop("notes", {})}, **more)


def state(
    said: GroupObject,
    *members: Pod,
    want: int = 1,
    priority: int = 100,
    namespaces: Any = ALLOWED,
    read: bool = True,
) -> Snapshot:
    """Members on nodes of 4 CPU, and a gang that wants so many of their places."""
    nodes = [node(name) for name in sorted({each.node for each in members if each.node})]
    high = [pod(f"high-{i}", priority=priority, group="high") for i in range(want)]
    groups = [group("high", want), said]
    found = snapshot(nodes, [*members, *high], groups, namespaces=namespaces)
    return replace(found, group_sources=frozenset({"core", "volcano"} if read else {"core"}))


def planned(found: Snapshot, settings: Settings | None = None) -> Plan | Refusal:
    settings = settings or Settings()
    resolver = Resolver(settings.groups)
    gang = resolver.resolve(gang_key("high"), found)
    return Planner(settings, resolver).plan(GangQuestion(gang, found))


@pytest.mark.parametrize(
    ("text", "members", "bound", "least", "most"),
    [
        ("2", 4, 4, 2, 2),
        ("4", 4, 4, 0, 4),
        ("9", 4, 4, 0, 4),
        ("1", 4, 2, 1, 0),
        ("3", 4, 3, 0, 2),
        ("50%", 4, 4, 2, 2),
        ("50%", 5, 5, 2, 3),
        ("1%", 5, 5, 4, 1),
        ("99%", 5, 5, 0, 5),
    ],
)
def test_how_many_may_go(text: str, members: int, bound: int, least: int, most: int) -> None:
    assert OwnerBudget(MIN_AVAILABLE, text).allowed(members, bound) == least
    assert OwnerBudget(MAX_UNAVAILABLE, text).allowed(members, bound) == most


@pytest.mark.parametrize(
    "text",
    ["", "0", "0%", "100%", "-1", "1.5", "many", "%", "5%%", "9" * 11, "²", "1 ", "x" * 300],
)
def test_what_is_no_number_does_not_count_and_is_told(text: str) -> None:
    found, why = budget_of({MIN_AVAILABLE: text, MAX_UNAVAILABLE: "1"})
    assert found is None
    assert MIN_AVAILABLE in why
    assert len(why) < 400
    gang = Resolver(GroupSettings()).resolve(KEY, state(pod_group(2, min_available=text), low(0)))
    assert gang.budget is None
    assert why in gang.notes
    assert not gang.problems


def test_the_first_key_counts() -> None:
    both = {MIN_AVAILABLE: "3", MAX_UNAVAILABLE: "50%"}
    assert budget_of(both) == (OwnerBudget(MIN_AVAILABLE, "3"), "")
    assert budget_of({MAX_UNAVAILABLE: "50%"}) == (OwnerBudget(MAX_UNAVAILABLE, "50%"), "")
    assert budget_of({"volcano.sh/jdb": "1"}) == (None, "")


WHOLE = (low(0, on="n0"), low(1, on="n1"))


class TestGangsThatGoWhole:
    @pytest.mark.parametrize("said", [{"min_available": "1"}, {"max_unavailable": "1"}])
    def test_they_stay_where_the_policy_lets_their_owner_decide(self, said: dict[str, str]) -> None:
        answer = planned(state(pod_group(2, **said), *WHOLE))
        assert isinstance(answer, Refusal)
        ((key, _),) = said.items()
        text = (
            f"volcano.sh/jdb-{key.replace('_', '-')}=1 of its gang allows 0 of 2 pods to be evicted"
        )
        assert any(text in line for line in answer.details), answer.details

    def test_they_go_where_it_does_not(self) -> None:
        found = state(pod_group(2, min_available="2"), *WHOLE, namespaces={"default": {}})
        assert evicted(planned(found)) == {"low-0", "low-1"}

    def test_they_go_where_all_of_them_may(self) -> None:
        for said in ({"max_unavailable": "2"}, {"max_unavailable": "99%"}):
            found = state(pod_group(2, **said), *WHOLE)
            assert evicted(planned(found)) == {"low-0", "low-1"}

    def test_they_go_for_system_critical_priorities(self) -> None:
        found = state(pod_group(2, min_available="2"), *WHOLE, priority=SYSTEM_CRITICAL)
        assert evicted(planned(found)) == {"low-0", "low-1"}

    def test_the_policy_names_the_key_and_against_whom_it_counts(self) -> None:
        rule = OptOutRule(preemptors_below=50)
        settings = Settings(policy=PolicySettings(opt_out={MIN_AVAILABLE: rule}))
        validate(settings)
        for priority, stays in ((49, True), (50, False)):
            found = state(pod_group(2, min_available="1"), *WHOLE, priority=priority)
            assert isinstance(planned(found, settings), Refusal) is stays
        found = state(pod_group(2, max_unavailable="1"), *WHOLE, priority=50)
        assert isinstance(planned(found, settings), Refusal), "the other key has the default rule"

    def test_a_budget_that_comes_late_stops_what_has_not_begun(self) -> None:
        before = state(pod_group(2), *WHOLE)
        plan = planned(before)
        assert isinstance(plan, Plan)
        resolver, protections = Resolver(GroupSettings()), Protections(Settings())
        after = state(pod_group(2, min_available="1"), *WHOLE)
        for now, stays in ((before, False), (after, True)):
            why = unit_problem(plan.victims, 100, now, resolver, protections)
            assert ("jdb-min-available=1" in why) is stays

    def test_where_podgroups_are_not_read_the_pods_tell(self) -> None:
        notes = {MIN_AVAILABLE: "1"}
        pods = [low(i, on=f"n{i}", notes=notes) for i in range(2)]
        assert isinstance(planned(state(pod_group(2), *pods, read=False)), Refusal)
        # What the PodGroup says counts where it is read, as in Volcano.
        assert evicted(planned(state(pod_group(2), *pods))) == {"low-0", "low-1"}


class TestSinglePods:
    """Three of a gang of five run: it has not come together, its pods go one by one."""

    THREE = tuple(low(i, on=f"n{i}") for i in range(3))

    @pytest.mark.parametrize(
        ("said", "allowed"),
        [
            ({}, 3),
            ({"min_available": "1"}, 2),
            ({"min_available": "2"}, 1),
            ({"min_available": "3"}, 0),
            ({"min_available": "50%"}, 1),
            ({"max_unavailable": "2"}, 2),
            ({"max_unavailable": "1"}, 1),
        ],
    )
    def test_no_more_go_than_may(self, said: dict[str, str], allowed: int) -> None:
        for want in (1, 2, 3):
            answer = planned(state(pod_group(5, **said), *self.THREE, want=want))
            assert isinstance(answer, Plan) is (want <= allowed)
            if isinstance(answer, Plan):
                assert len(answer.victims) == want

    def test_members_that_wait_are_unavailable(self) -> None:
        waits = low(3)
        found = state(pod_group(5, max_unavailable="1"), *self.THREE, waits)
        assert isinstance(planned(found), Refusal)
        found = state(pod_group(5, max_unavailable="2"), *self.THREE, waits)
        assert len(evicted(planned(found))) == 1

    @pytest.mark.parametrize("said", [{"min_available": "1"}, {"max_unavailable": "2"}])
    def test_the_second_of_two_may_still_go_once_the_first_does(self, said: dict[str, str]) -> None:
        plan = planned(state(pod_group(5, **said), *self.THREE, want=2))
        assert isinstance(plan, Plan)
        first, second = plan.victims
        resolver, protections = Resolver(GroupSettings()), Protections(Settings())
        left = [
            replace(each, deleting=each.started + 1e6) if each.uid == first.uid else each
            for each in self.THREE
        ]
        going = state(pod_group(5, **said), *left, want=2)
        gone = state(pod_group(5, **said), *(p for p in left if not p.deleting), want=2)
        for now in (going, gone):
            assert victim_problem(second, 100, now, resolver, protections) == ""
        third = next(p for p in self.THREE if p.uid not in (first.uid, second.uid))
        other = replace(second, uid=third.uid, name=third.name, node=third.node)
        assert "allows 1 of 2 pods to be evicted" in victim_problem(
            other, 100, going, resolver, protections
        )

    def test_the_more_urgent_stay(self) -> None:
        pods = [replace(p, priority=i) for i, p in enumerate(reversed(self.THREE))]
        found = state(pod_group(5, min_available="2"), *pods)
        assert evicted(planned(found)) == {"low-2"}

    def test_a_gang_with_a_problem_has_no_budget(self) -> None:
        said = replace(pod_group(5, min_available="3"), min_count=-1)
        assert len(evicted(planned(state(said, *self.THREE)))) == 1


async def test_kube_scheduler_is_offered_no_pod_that_the_budget_keeps() -> None:
    rig = Rig(FAST)
    rig.server = ApiServer(bookmark_seconds=0.05, extra=OTHER_POD_GROUPS)
    async with rig:
        await rig.nodes(3)
        await rig.classes(low=1, high=100)
        meta = {"name": "low", "annotations": {MIN_AVAILABLE: "2"}}
        path = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
        await rig.client.create(path, {"metadata": meta, "spec": {"minMember": 5}})
        for i in range(3):
            container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}
            spec = {"containers": [container], "nodeName": f"n{i}", "priorityClassName": "low"}
            notes = {"scheduling.k8s.io/group-name": "low"}
            made = {"metadata": {"name": f"low-{i}", "annotations": notes}, "spec": spec}
            await rig.client.create(PODS, made)
        key = ("volcano", "default", "low")
        await rig.until(lambda: key in rig.cache.snapshot().groups, "the PodGroup is read")
        await rig.until(lambda: rig.cache.pod_named("default", "low-2") is not None, "low")
        await rig.pod("urgent", cls="high")
        answer = await rig.preempt("urgent", n0=["low-0"], n1=["low-1"], n2=["low-2"])
        assert len(answer.candidates) == 1
