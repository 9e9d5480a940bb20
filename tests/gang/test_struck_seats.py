"""Seats that rules outside the problem forbid: struck out, and the search repeated."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from extender.gang.plan.planner import MAX_STRIKES, Planner
from extender.gang.plan.question import GangQuestion, Masks
from extender.gang.plan.schedulers import NO_ASKER
from extender.groups.resolver import Resolver
from extender.model.objects import (
    LabelSelector,
    Node,
    Pod,
    PodAffinityTerm,
    PodShape,
    Requirement,
    SpreadConstraint,
)
from extender.model.plan import Hold, Plan, Refusal
from extender.model.snapshot import Snapshot
from extender.settings.settings import Settings
from tests.gang.world import evicted, gang_key, group, node, plan_for, pod, seats, snapshot

HIGH = 100
NOT_BESIDE = LabelSelector((Requirement("app", "In", ("loud",)),))
ALONE = PodShape(
    anti_affinity=(PodAffinityTerm("kubernetes.io/hostname", NOT_BESIDE, ("default",)),)
)


def asked(
    state: Snapshot,
    holds: tuple[Hold, ...] = (),
    masks: Masks | None = None,
    offered: Masks | None = None,
) -> Plan | Refusal:
    resolver = Resolver(Settings().groups)
    gang = resolver.resolve(gang_key("high"), state)
    question = GangQuestion(gang, state, holds, masks, offered)
    return Planner(Settings(), resolver).plan(question)


def quiet() -> Pod:
    """A member that no loud pod may stand beside."""
    return pod("high-0", cpu=1, priority=HIGH, group="high", shape=ALONE)


def loud(at: str) -> tuple[Pod, Hold]:
    """A waiting pod and its seat on a node."""
    waits = pod(f"loud-{at}", cpu=1, priority=HIGH, group="others", labels={"app": "loud"})
    return waits, Hold(gang_key("others"), HIGH, waits.uid, at, (("cpu", 1000),), firm=True)


LEADS = "leads"
WITH_THE_LEADER = PodShape(
    affinity=(
        PodAffinityTerm(
            "kubernetes.io/hostname",
            LabelSelector((Requirement("app", "In", (LEADS,)),)),
            ("default",),
        ),
    )
)
"""Affinity to a member of another kind: the problem does not say it, seats are tried for it."""
LEADERS = PodShape(node_selector=(("role", LEADS),))


def led(cpu: float = 1) -> list[Pod]:
    """A leader of 1 CPU, which has one node only, and a worker that has to be on the same."""
    leader = pod("leader", cpu=1, priority=HIGH, group="high", labels={"app": LEADS}, shape=LEADERS)
    return [leader, pod("worker", cpu=cpu, priority=HIGH, group="high", shape=WITH_THE_LEADER)]


def leading(cpu: int = 4) -> Node:
    made = node("z", cpu=cpu)
    return replace(made, labels={**made.labels, "role": LEADS})


@pytest.mark.parametrize("cpu", [0.5, 2])
def test_after_a_strike_nothing_is_called_proved(cpu: float) -> None:
    """It is struck out for the class that failed, whichever of the two comes first."""
    low = pod("low", cpu=3, priority=1, on="z")
    state = snapshot([node("n0"), leading()], [low, *led(cpu)], [group("high", 2)])
    plan = asked(state)
    assert evicted(plan) == {"low"}
    assert seats(plan) == {"leader": "z", "worker": "z"}
    assert isinstance(plan, Plan)
    assert [cost.bound for cost in plan.costs] == [0] * len(plan.costs)
    assert plan.proof == "bounded"
    state = snapshot([node("n0"), leading(1)], led(cpu), [group("high", 2)])
    answer = asked(state)
    assert isinstance(answer, Refusal)
    assert answer.message.startswith("no solution was found: ")


def test_after_so_many_strikes_the_seats_that_failed_are_told() -> None:
    nodes = [node(f"n{i:02}") for i in range(MAX_STRIKES + 4)]
    answer = asked(snapshot([*nodes, leading(1)], led(), [group("high", 2)]))
    assert isinstance(answer, Refusal)
    assert f"was found in {MAX_STRIKES + 1} tries" in answer.message
    assert len(answer.details) == 1
    assert answer.details[0].startswith("worker on n")
    enough = snapshot([*nodes[:MAX_STRIKES], leading(1)], led(), [group("high", 2)])
    answer = asked(enough)
    assert isinstance(answer, Refusal)
    assert "tries" not in answer.message, "every node was struck out, so that is known"


def test_a_seat_that_is_held_is_counted_by_a_spread_rule() -> None:
    """Else the free node beside it looks good, is struck out, and nothing is proved."""
    nodes = [node(name, labels={"zone": name[0]}) for name in ("a0", "a1", "b0")]
    spread = PodShape(spread=(SpreadConstraint("zone", 1, NOT_BESIDE),))
    shown = {"app": "loud"}
    member = pod("high-0", priority=HIGH, group="high", labels=shown, shape=spread)
    waits = pod("theirs", priority=HIGH, group="others", labels=shown)
    low = pod("low", priority=1, on="b0")
    held = Hold(gang_key("others"), HIGH, waits.uid, "a0", (("cpu", 3000),), firm=True)
    state = snapshot(nodes, [waits, low, member], [group("high", 1)])
    plan = asked(state, (held,))
    assert seats(plan) == {"high-0": "b0"}
    assert isinstance(plan, Plan)
    assert plan.proof == "optimal"
    gone = snapshot(nodes, [low, member], [group("high", 1)])
    assert seats(asked(gone, (held,))) == {"high-0": "a1"}, "nobody waits for that seat"
    nowhere = replace(held, node="c0")
    assert seats(asked(state, (nowhere,))) == {"high-0": "a0"}, "its node is gone"
    unlabelled = snapshot(nodes, [replace(waits, labels={}), low, member], [group("high", 1)])
    assert seats(asked(unlabelled, (held,))) == {"high-0": "a1"}, "the rule does not count it"


def test_a_seat_that_a_spread_rule_counts_is_taken_over_though_its_room_is_of_no_use() -> None:
    """Its node is cordoned: "cannot fit" was told, as proved, though the seat may be taken over."""
    cordoned = replace(node("a0", labels={"zone": "a"}), unschedulable=True)
    nodes = [cordoned, *(node(name, labels={"zone": name[0]}) for name in ("a1", "b0"))]
    spread = PodShape(spread=(SpreadConstraint("zone", 1, NOT_BESIDE),))
    shown = {"app": "loud"}
    member = pod("high-0", priority=HIGH, group="high", labels=shown, shape=spread)
    waits = pod("theirs", priority=1, group="low", labels=shown)
    stays = pod("stays", priority=HIGH, on="b0")
    state = snapshot(nodes, [waits, stays, member], [group("high", 1), group("low", 1)])
    held = Hold(gang_key("low"), 1, waits.uid, "a0", (("cpu", 3000),))
    plan = asked(state, (held,))
    assert seats(plan) == {"high-0": "a1"}
    assert isinstance(plan, Plan)
    assert plan.takes_over == (gang_key("low"),)
    assert plan.proof == "optimal"
    assert isinstance(asked(state, (replace(held, firm=True),)), Refusal)


def test_what_is_masked_and_what_is_not_offered_add_up() -> None:
    nodes = [node(f"n{i}") for i in range(3)]
    member = pod("high-0", priority=HIGH, group="high")
    state = snapshot(nodes, [member], [group("high", 1)])
    uid = member.uid
    masks, offered = {uid: frozenset({"n0"})}, {uid: frozenset({"n0", "n2"})}
    assert seats(asked(state)) == {"high-0": "n0"}
    assert seats(asked(state, masks=masks)) == {"high-0": "n1"}
    assert seats(asked(state, masks=masks, offered=offered)) == {"high-0": "n2"}


def test_a_less_urgent_gang_whose_seats_are_taken_over_is_named() -> None:
    waits = pod("low-0", priority=1, group="low")
    member = pod("high-0", priority=HIGH, group="high")
    state = snapshot([node("n0")], [waits, member], [group("low", 1), group("high", 1)])
    held = Hold(gang_key("low"), 1, waits.uid, "n0", (("cpu", 3000),))
    plan = asked(state, (held,))
    assert isinstance(plan, Plan)
    assert plan.takes_over == (gang_key("low"),)
    assert plan.victims == ()
    firm = asked(state, (replace(held, firm=True),))
    assert isinstance(firm, Refusal)


def test_a_pod_in_the_way_goes_though_its_room_is_not_needed() -> None:
    """It asks for nothing that is short: only the member's rule is against it."""
    old = pod("old", cpu=0, priority=1, on="n0", labels={"app": "loud"})
    state = snapshot([node("n0")], [old, quiet()], [group("high", 1)])
    plan = plan_for(state, "high")
    assert evicted(plan) == {"old"}
    assert seats(plan) == {"high-0": "n0"}


def test_of_a_gang_that_goes_one_by_one_only_the_pod_in_the_way_goes() -> None:
    old = pod("old-0", cpu=0, priority=1, on="n0", labels={"app": "loud"}, group="old")
    other = pod("old-1", cpu=0, priority=1, on="n1", group="old")
    groups = [group("old", 2, whole=False), group("high", 1)]
    state = snapshot([node("n0"), node("n1", cpu=0)], [old, other, quiet()], groups)
    assert evicted(plan_for(state, "high")) == {"old-0"}


@pytest.mark.parametrize("number", [0, 1])
def test_a_held_seat_closes_its_node_for_the_class_that_it_keeps_away(number: int) -> None:
    beside, held = loud("n0")
    asks = replace(quiet(), uid=f"uid-high-{number}", name=f"high-{number}")
    plain = pod(f"high-{1 - number}", cpu=1, priority=HIGH, group="high", labels={"app": "plain"})
    state = snapshot([node("n0"), node("n1")], [beside, asks, plain], [group("high", 2)])
    assert seats(asked(state, (held,)))[asks.name] == "n1"


def test_members_that_run_have_chosen_the_domain_that_is_required() -> None:
    nodes = [node(f"n{i}", labels={"zone": "ab"[i % 2]}) for i in range(4)]
    there = pod("high-0", priority=HIGH, group="high", on="n1")
    waits = pod("high-1", priority=HIGH, group="high")
    groups = [group("high", 2, topology_key="zone")]
    assert seats(plan_for(snapshot(nodes, [there, waits], groups), "high")) == {"high-1": "n3"}


def test_a_gang_that_is_not_complete_is_told_of_members_that_nobody_asks_for() -> None:
    state = snapshot([node("n0")], [pod("high-0", group="high")], [group("high", 2)])
    resolver = Resolver(Settings().groups)
    note = f"1 member waits for another, {NO_ASKER}"
    gang = replace(resolver.resolve(gang_key("high"), state), notes=("something else", note))
    answer = Planner(Settings(), resolver).plan(GangQuestion(gang, state))
    assert isinstance(answer, Refusal)
    assert answer.message == (
        f"waits for members: 1 of 2 exist whose scheduler asks, nothing is evicted; {note}"
    )
