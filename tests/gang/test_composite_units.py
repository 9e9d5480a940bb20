"""A pod that goes with another group than it starts with: asked of what decides about victims."""

from __future__ import annotations

from msgspec.structs import replace

from extender.gang.core.last_check import KeptGangs, LastCheck
from extender.gang.core.victim_group import shown_in
from extender.gang.plan.assemble import assemble
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.gang.plan.validity import member_problem
from extender.groups.resolver import Resolver
from extender.model.objects import GangKey, Node, Pod
from extender.model.plan import Plan, Refusal, Victim
from extender.model.snapshot import Snapshot
from extender.settings.settings import GroupSettings, Settings
from tests.gang.showing import Showing
from tests.groups.composites import composite, pod_group

RESOLVER = Resolver(GroupSettings())
ROOT = GangKey("pod-group", "ns", "root..CompositePodGroup")
PART = GangKey("pod-group", "ns", "a")
REQUESTS = (("cpu", 3000), ("pods", 1))


def cluster(*, bound: bool = True) -> Snapshot:
    """Two groups that go alone and start together, on a node each."""
    pods = [
        Pod(
            uid=f"{group}-{i}",
            namespace="ns",
            name=f"{group}-{i}",
            node=group if bound else "",
            pod_group=group,
            requests=REQUESTS,
        )
        for group in "ab"
        for i in range(2)
    ]
    groups = [composite("root", least=2, priority=1)]
    groups += [pod_group(name, "root", whole=True) for name in "ab"]
    whole = (("cpu", 8000), ("pods", 110))
    nodes = [Node(name, name, allocatable=whole) for name in "ab"]
    return assemble(
        RESOLVER.member_key,
        nodes=nodes,
        pods=pods,
        groups=groups,
        now=1.0,
    )


def victim(name: str, unit: str) -> Victim:
    return Victim(uid=name, namespace="ns", name=name, node=name[0], priority=1, unit=unit)


def check(state: Snapshot) -> LastCheck:
    return LastCheck(Showing(lambda: state), KeptGangs(RESOLVER), Settings())


def test_the_last_check_knows_the_group_that_goes() -> None:
    state = cluster()
    gang = check(state).gang_of(victim("a-0", str(PART)))
    assert gang is not None
    assert gang.key == PART
    assert check(state).of_victim(victim("a-0", str(PART)), 9, alone=False) == ""
    single = check(state).of_victim(victim("a-0", ""), 9, alone=False)
    assert single == f"its gang {PART} is now evicted as a whole"


def test_a_unit_that_grew_is_left_alone() -> None:
    state = cluster()
    both = [victim("a-0", str(PART)), victim("a-1", str(PART))]
    assert check(state).of_unit(both, 9, state) == ""
    grown = check(state).of_unit(both[:1], 9, state)
    assert grown == f"ns/a-1 has joined the gang {PART}, which is evicted as a whole"


def test_an_eviction_on_its_way_is_seen_in_both_gangs() -> None:
    state = cluster()
    shown = shown_in(state, {"a-0": "a"}, {}, RESOLVER.member_key, lambda pod, now: False, 60)
    for key in (ROOT, PART):
        assert [pod.uid for pod in shown.members[key] if pod.deleting] == ["a-0"], key


def test_what_cannot_be_kept_is_refused_with_its_reason() -> None:
    state = cluster(bound=False)
    fine = RESOLVER.resolve(ROOT, state)
    planner = Planner(Settings(), RESOLVER)
    plan = planner.plan(GangQuestion(fine, state))
    assert isinstance(plan, Plan)
    gang = replace(fine, unplanned=("two topology rules",))
    refusal = planner.plan(GangQuestion(gang, state))
    assert isinstance(refusal, Refusal)
    assert (refusal.code, refusal.message) == ("conflict", "two topology rules")
    taken = {seat.uid: seat.node for seat in plan.seats}
    assert "two topology rules" in member_problem(plan, gang, taken)
    assert member_problem(plan, fine, taken) == ""
