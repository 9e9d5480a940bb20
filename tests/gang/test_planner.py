"""The planner on the reference scenario's states: who goes, who sits where, and why not."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from extender.gang.incremental.planning_cache import PlanningCache
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion, SeatsQuestion
from extender.groups.resolver import Resolver
from extender.model.objects import (
    DisruptionBudget,
    HostPort,
    LabelSelector,
    Owner,
    Pod,
    PodAffinityTerm,
    PodShape,
    Requirement,
    SpreadConstraint,
)
from extender.model.plan import Hold, Plan, Refusal, Victim
from extender.model.snapshot import Snapshot
from extender.settings.settings import PlanSettings, Settings
from tests.gang.world import NOW, evicted, gang_key, group, node, plan_for, pod, seats, snapshot

HIGH = 100_000
NODES = [node(f"n{i}") for i in range(4)]


def gang(name: str, count: int, *, priority: int = 1, on: str = "n", **more: object) -> list[Pod]:
    place = on and [f"{on}{i}" for i in range(count)]
    return [
        pod(
            f"{name}-{i}",
            priority=priority,
            group=name,
            on=place[i] if place else "",
            **more,  # type: ignore[arg-type]
        )
        for i in range(count)
    ]


def waiting(name: str, count: int, *, priority: int = HIGH, **more: object) -> list[Pod]:
    return gang(name, count, priority=priority, on="", **more)


def test_reference_evicts_the_low_gang_whole_and_proves_it() -> None:
    state = snapshot(
        NODES, gang("low", 4) + waiting("high", 4), [group("low"), group("high", priority=HIGH)]
    )
    plan = plan_for(state, "high")
    assert evicted(plan) == {"low-0", "low-1", "low-2", "low-3"}
    assert sorted(seats(plan).values()) == ["n0", "n1", "n2", "n3"]
    assert isinstance(plan, Plan)
    assert plan.proof == "optimal"
    assert all(cost.value == cost.bound for cost in plan.costs)


def test_room_for_two_is_free_yet_the_low_gang_goes_together() -> None:
    nodes = [node(f"n{i}") for i in range(6)]
    state = snapshot(nodes, gang("low", 4) + waiting("high", 4), [group("low"), group("high")])
    plan = plan_for(state, "high")
    assert evicted(plan) == {"low-0", "low-1", "low-2", "low-3"}
    assert len(set(seats(plan).values())) == 4


def test_a_more_urgent_pod_in_the_way_stops_everything_and_is_named() -> None:
    low = [pod(f"low-{i}", priority=1, group="low", on=f"n{i}") for i in range(3)]
    blocker = pod("blocker", priority=HIGH + 1, on="n3")
    state = snapshot(NODES, [*low, blocker, *waiting("high", 4)], [group("low", 3), group("high")])
    answer = plan_for(state, "high")
    assert isinstance(answer, Refusal)
    assert answer.code == "infeasible"
    assert any("blocker" in line and "n3" in line for line in answer.details)


def test_equal_priority_is_never_a_victim() -> None:
    state = snapshot(
        NODES,
        gang("low", 4, priority=HIGH) + waiting("high", 4),
        [group("low"), group("high")],
    )
    assert isinstance(plan_for(state, "high"), Refusal)


def test_disruption_per_pod_takes_only_as_many_as_needed() -> None:
    state = snapshot(
        NODES,
        gang("low", 4) + waiting("high", 2),
        [group("low", whole=False), group("high", 2)],
    )
    assert len(evicted(plan_for(state, "high"))) == 2


def test_the_smaller_sufficient_gang_goes() -> None:
    nodes = [node(f"n{i}") for i in range(6)]
    big = gang("big", 4)
    small = [pod(f"small-{i}", priority=1, group="small", on=f"n{4 + i}") for i in range(2)]
    state = snapshot(
        nodes,
        [*big, *small, *waiting("high", 2)],
        [group("big"), group("small", 2), group("high", 2)],
    )
    assert evicted(plan_for(state, "high")) == {"small-0", "small-1"}


def test_a_gang_goes_whole_from_nodes_the_preemptor_does_not_use() -> None:
    state = snapshot(NODES, gang("low", 4) + waiting("high", 2), [group("low"), group("high", 2)])
    assert evicted(plan_for(state, "high")) == {"low-0", "low-1", "low-2", "low-3"}


def test_what_runs_one_by_one_goes_whole_while_one_of_it_waits() -> None:
    """An Indexed Job that waits for one of its pods has not lost its quorum: the others work."""
    job, index = Owner("Job", "train", "uid-train"), "batch.kubernetes.io/job-completion-index"
    low = [
        replace(
            pod(f"low-{i}", priority=1, on=f"n{i}" if i < 3 else "", labels={index: str(i)}),
            owner=job,
        )
        for i in range(4)
    ]
    urgent = pod("urgent", priority=HIGH, on="n3")
    groups = [group("high", 1)]
    state = snapshot(NODES, [*low, urgent, *waiting("high", 1)], groups)
    assert evicted(plan_for(state, "high")) == {"low-0", "low-1", "low-2"}


def test_heterogeneous_members() -> None:
    leader = pod("high-leader", cpu=2, priority=HIGH, group="high")
    workers = [pod(f"high-w{i}", cpu=3, priority=HIGH, group="high") for i in range(3)]
    state = snapshot(NODES, [*gang("low", 4), leader, *workers], [group("low"), group("high")])
    plan = plan_for(state, "high")
    assert len(seats(plan)) == 4
    assert evicted(plan) == {"low-0", "low-1", "low-2", "low-3"}


def test_incomplete_gang_is_refused_before_any_search() -> None:
    state = snapshot(NODES, gang("low", 4) + waiting("high", 3), [group("low"), group("high")])
    answer = plan_for(state, "high")
    assert isinstance(answer, Refusal)
    assert answer.code == "incomplete"
    assert "3 of 4" in answer.message


def test_never_policy_and_min_count_zero_evict_nothing() -> None:
    state = snapshot(
        NODES, gang("low", 4) + waiting("high", 4, preempts=False), [group("low"), group("high")]
    )
    answer = plan_for(state, "high")
    assert isinstance(answer, Refusal)
    assert "Never" in answer.message
    state = snapshot(NODES, gang("low", 4) + waiting("high", 4), [group("low"), group("high", 0)])
    answer = plan_for(state, "high")
    assert isinstance(answer, Refusal)
    assert answer.code == "conflict"


def test_respected_budget_spares_its_pods_and_prefer_counts_them() -> None:
    keep = LabelSelector((Requirement("app", "In", ("keep",)),))
    budget = DisruptionBudget("b", "default", "keep", keep, allowed=0)
    low = [pod(f"low-{i}", priority=1, on=f"n{i}", labels={"app": "keep"}) for i in range(4)]
    pods = [*low, *waiting("high", 1)]
    state = snapshot(NODES, pods, [group("high", 1)], budgets=[budget])
    assert isinstance(plan_for(state, "high"), Refusal)
    prefer = Settings(plan=PlanSettings(pdb_policy="prefer"))
    plan = plan_for(state, "high", prefer)
    assert len(evicted(plan)) == 1
    assert isinstance(plan, Plan)
    assert plan.costs[0].level == "pdb-violations"
    assert plan.costs[0].value == 1


def test_terminating_room_is_waited_for_rather_than_evicting() -> None:
    going = pod("going", priority=1, on="n0", deleting=NOW + 5)
    other = pod("other", priority=1, on="n1")
    state = snapshot(NODES[:2], [going, other, *waiting("high", 1)], [group("high", 1)])
    plan = plan_for(state, "high")
    assert evicted(plan) == set()
    assert isinstance(plan, Plan)
    assert [v.name for v in plan.waits_for] == ["going"]


def test_anti_affinity_between_members_and_to_a_victim() -> None:
    own = LabelSelector((Requirement("gang", "In", ("high",)),))
    term = PodAffinityTerm("kubernetes.io/hostname", own, ("default",))
    shape = PodShape(anti_affinity=(term,))
    members = [
        pod(f"high-{i}", cpu=1, priority=HIGH, group="high", labels={"gang": "high"}, shape=shape)
        for i in range(3)
    ]
    lookalike = pod("old", cpu=1, priority=1, on="n0", labels={"gang": "high"})
    state = snapshot(NODES[:3], [lookalike, *members], [group("high", 3)])
    plan = plan_for(state, "high")
    assert evicted(plan) == {"old"}
    assert sorted(seats(plan).values()) == ["n0", "n1", "n2"]


def test_topology_rule_keeps_all_seats_in_one_zone() -> None:
    nodes = [node(f"n{i}", labels={"zone": "a" if i < 2 else "b"}) for i in range(5)]
    low = [pod(f"low-{i}", priority=1, on=f"n{i}") for i in (3,)]
    state = snapshot(
        nodes,
        [*low, *waiting("high", 3)],
        [group("high", 3, topology_key="zone")],
    )
    plan = plan_for(state, "high")
    assert evicted(plan) == {"low-3"}
    assert set(seats(plan).values()) == {"n2", "n3", "n4"}


def test_equal_snapshots_give_equal_plans() -> None:
    def make() -> Plan | Refusal:
        return plan_for(
            snapshot(
                [node(f"n{i}") for i in range(8)],
                [
                    *gang("a", 4),
                    *(pod(f"s{i}", priority=1, on=f"n{i}") for i in range(4, 8)),
                    *waiting("high", 2),
                ],
                [group("a"), group("high", 2)],
            ),
            "high",
        )

    first = make()
    assert first == make()
    assert len(evicted(first)) == 2
    assert all(name.startswith("s") for name in evicted(first))


def test_protected_pods_stay() -> None:
    low = [
        pod("a", priority=1, on="n0", annotations={"podgroup-extender.io/protected": "true"}),
        pod("b", priority=5, on="n1"),
    ]
    allowed = {"default": {"podgroup-extender.io/opt-out": "allowed"}}
    state = snapshot(NODES[:2], [*low, *waiting("high", 1)], [group("high", 1)], namespaces=allowed)
    assert evicted(plan_for(state, "high")) == {"b"}


def test_one_snapshot_is_taken_in_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that plans shows the planner the cluster first, and then asks."""
    taken: list[int] = []
    renew = PlanningCache.renew

    def counted(self: PlanningCache, state: Snapshot) -> set[str]:
        taken.append(state.generation)
        return renew(self, state)

    monkeypatch.setattr(PlanningCache, "renew", counted)
    settings = Settings()
    resolver = Resolver(settings.groups)
    planner = Planner(settings, resolver)
    members = [pod(f"u{i}", priority=100, group="urgent") for i in range(4)]
    state = snapshot(NODES, members, [group("urgent", priority=100)])
    gang = resolver.resolve(gang_key("urgent"), state)
    planner.see(state)
    first = planner.plan(GangQuestion(gang, state))
    assert planner.plan(GangQuestion(gang, state)) == first
    assert isinstance(first, Plan)
    assert planner.check(SeatsQuestion(gang, {s.uid: s.node for s in first.seats}, state)) == ""
    assert len(taken) == 1
    planner.see(replace(state, generation=state.generation + 1))
    assert len(taken) == 2


def test_seats_are_checked_against_the_cluster_as_it_is_now() -> None:
    high = waiting("high", 2)
    state = snapshot(NODES, high, [group("high", 2)])
    planner, resolver = (
        Planner(Settings(), Resolver(Settings().groups)),
        Resolver(Settings().groups),
    )
    wanted = resolver.resolve(gang_key("high"), state)
    taken = {high[0].uid: "n0", high[1].uid: "n1"}
    assert planner.check(SeatsQuestion(wanted, taken, state)) == ""
    gone = snapshot(NODES[1:], high, [group("high", 2)])
    assert planner.check(SeatsQuestion(wanted, taken, gone)) == "node n0 is gone"
    assert "stranger is not pending" in planner.check(
        SeatsQuestion(wanted, {"stranger": "n0"}, state)
    )
    full = snapshot(NODES, [*high, pod("other", on="n0", cpu=4)], [group("high", 2)])
    assert planner.check(SeatsQuestion(wanted, taken, full)).startswith("high-0 on n0: ")
    other = Victim(uid="uid-other", namespace="default", name="other", node="n0", priority=0)
    went = Victim(uid="went", namespace="default", name="went", node="n1", priority=0)
    assert planner.check(SeatsQuestion(wanted, taken, full, (other, went))) == ""
    own = Hold(wanted.key, HIGH, high[0].uid, "n0", (("cpu", 3000),))
    assert planner.check(SeatsQuestion(wanted, taken, state, (), (own,))) == ""
    theirs = replace(own, gang=gang_key("others"), uid="uid-theirs")
    beside = snapshot(NODES, [*high, pod("theirs")], [group("high", 2)])
    assert planner.check(SeatsQuestion(wanted, taken, beside, (), (own, theirs))).startswith(
        "high-0 on n0: "
    )


def test_each_victim_is_told_why_it_goes() -> None:
    nodes = [node("n0"), node("n1")]
    alone = snapshot(
        nodes,
        [pod("low", priority=1, on="n0"), pod("top", priority=HIGH, on="n1"), *waiting("high", 1)],
        [group("high", 1)],
    )
    plan = plan_for(alone, "high")
    assert isinstance(plan, Plan)
    assert [victim.reason for victim in plan.victims] == ["its room on n0 is needed"]
    together = snapshot(
        nodes, [*gang("low", 2), *waiting("high", 1)], [group("low", 2), group("high", 1)]
    )
    plan = plan_for(together, "high")
    assert isinstance(plan, Plan)
    used = {seat.node for seat in plan.seats}
    assert {victim.node: victim.reason for victim in plan.victims} == {
        name: f"its room on {name} is needed and its gang is evicted as a whole"
        if name in used
        else f"its gang is evicted as a whole; {name} itself is not used"
        for name in ("n0", "n1")
    }


def test_room_is_said_to_be_needed_only_where_it_lacks_without_that_victim() -> None:
    """One pod holds the host port of a seat, the other its room."""
    port = PodShape(host_ports=(HostPort("0.0.0.0", "TCP", 80),))
    low = [
        pod("port", priority=1, cpu=1, on="n0", shape=port),
        pod("room", priority=1, cpu=3, on="n0"),
    ]
    members = waiting("high", 1, shape=port)
    plan = plan_for(snapshot([node("n0")], [*low, *members], [group("high", 1)]), "high")
    assert isinstance(plan, Plan)
    assert {victim.name: victim.reason for victim in plan.victims} == {
        "port": "its host port 80/TCP on n0 is needed",
        "room": "its room on n0 is needed",
    }


def test_a_pod_that_topology_spread_does_not_count_goes_with_its_gang() -> None:
    spread = SpreadConstraint(
        topology_key="kubernetes.io/hostname",
        max_skew=1,
        selector=LabelSelector((Requirement("app", "In", ("job",)),)),
    )
    low = [
        pod(f"low-{i}", priority=1, cpu=0, on="n0", group="low", labels={"app": app})
        for i, app in enumerate(("job", "other"))
    ]
    top = pod("top", priority=HIGH, cpu=4, on="n1")
    members = waiting("high", 1, labels={"app": "job"}, shape=PodShape(spread=(spread,)))
    state = snapshot(
        [node("n0"), node("n1")], [*low, top, *members], [group("low", 2), group("high", 1)]
    )
    plan = plan_for(state, "high")
    assert isinstance(plan, Plan)
    assert {victim.name: victim.reason for victim in plan.victims} == {
        "low-0": "topology spread of the members counts it and its gang is evicted as a whole",
        "low-1": "its gang is evicted as a whole; its room on n0 is not needed",
    }


def test_a_gang_is_said_to_go_whole_only_where_no_pod_of_it_stays() -> None:
    nodes = [node(f"n{i}") for i in range(3)]
    mixed = [
        pod(f"low-{i}", priority=p, group="low", on=f"n{i}") for i, p in enumerate((1, 1, HIGH))
    ]
    state = snapshot(nodes, [*mixed, *waiting("high", 1)], [group("low", 3), group("high", 1)])
    plan = plan_for(state, "high")
    assert isinstance(plan, Plan)
    (seat,) = plan.seats
    told = "its gang is evicted but for 1 pod that may not be"
    assert {victim.node: victim.reason for victim in plan.victims} == {
        name: f"its room on {name} is needed and {told}"
        if name == seat.node
        else f"{told}; {name} itself is not used"
        for name in ("n0", "n1")
    }
