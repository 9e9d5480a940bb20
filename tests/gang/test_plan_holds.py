"""What makes a plan, or one of its victims, one that does not hold any more."""

from __future__ import annotations

from msgspec.structs import replace

from extender.gang.incremental.protection import Protections
from extender.gang.plan.validity import (
    covered_by_budget,
    gangs_of,
    member_problem,
    present,
    quick_problem,
    unchanged,
    unit_problem,
    victim_problem,
    whole_again,
)
from extender.groups.resolver import Resolver
from extender.model.gang import UNIT_SINGLE, Gang
from extender.model.objects import (
    DisruptionBudget,
    GangKey,
    LabelSelector,
    Node,
    Pod,
    PodAffinityTerm,
    PodShape,
    Requirement,
    SpreadConstraint,
)
from extender.model.plan import Hold, Plan, Seat, Victim
from extender.model.snapshot import Snapshot
from extender.settings.settings import PlanSettings, Settings
from tests.gang.world import NOW, evicted, gang_key, group, node, plan_for, pod, snapshot

SETTINGS = Settings()
RESOLVER = Resolver(SETTINGS.groups)
PROTECTIONS = Protections(SETTINGS)
HIGH = gang_key("high")
BUDGET = DisruptionBudget("uid-b", "default", "b", None, 1)
SEATS = {"uid-high-0": "n0", "uid-high-1": "n1"}


def cluster(*more: Pod, low: int = 0, whole: bool = True) -> Snapshot:
    return snapshot(
        [node(f"n{i}") for i in range(3)],
        [
            pod("low-0", on="n0", group="low", priority=low),
            pod("low-1", on="n1", group="low", priority=low),
            pod("high-0", group="high", priority=100),
            pod("high-1", group="high", priority=100),
            *more,
        ],
        [group("low", 2, priority=low, whole=whole), group("high", 2, priority=100)],
    )


def high(state: Snapshot) -> Gang:
    return RESOLVER.resolve(HIGH, state)


def victim(name: str, node: str, gang: str = "low", *, unit: bool = True) -> Victim:
    key = str(gang_key(gang))
    return Victim(f"uid-{name}", "default", name, node, 0, gang=key, unit=key if unit else "")


LOW = (victim("low-0", "n0"), victim("low-1", "n1"))


def planned(*victims: Victim, waits: tuple[Victim, ...] = ()) -> Plan:
    seats = tuple(Seat(uid, "default", uid.removeprefix("uid-"), on) for uid, on in SEATS.items())
    return Plan(HIGH, 100, seats, victims, waits)


# -- nothing has changed ---------------------------------------------------------------------


def test_a_plan_rests_on_its_nodes_who_is_there_its_members_budgets_and_groups() -> None:
    before = cluster(pod("aside", on="n2"))
    plan = planned(victim("low-0", "n0"))
    assert unchanged(plan, high(before), before, before)

    def still(**other: object) -> bool:
        return unchanged(plan, high(before), before, replace(before, generation=9, **other))

    def anew(mapping: object, key: object, value: object) -> object:
        return {**mapping, key: value}  # type: ignore[dict-item]

    assert still()
    assert not still(budgets=(BUDGET,))
    assert not still(groups=dict(before.groups))
    assert not still(members=anew(before.members, HIGH, before.members[HIGH][:1]))
    assert still(members=anew(before.members, gang_key("low"), ()))
    assert not still(nodes=anew(before.nodes, "n0", node("n0", cpu=8)))
    assert not still(bound=anew(before.bound, "n1", ()))
    assert still(nodes=anew(before.nodes, "n2", node("n2", cpu=8)))
    assert still(bound=anew(before.bound, "n2", ()))


def test_a_plan_of_members_that_count_other_pods_rests_on_all_nodes() -> None:
    """A pod that they require in their zone may have been on any of its nodes."""
    before = cluster(pod("aside", on="n2"))
    now = replace(before, bound={**before.bound, "n2": ()})
    term = PodAffinityTerm("zone", LabelSelector(), ("default",))
    spread = SpreadConstraint("zone", 1, LabelSelector())
    for shape in (
        PodShape(affinity=(term,)),
        PodShape(anti_affinity=(term,)),
        PodShape(spread=(spread,)),
    ):
        gang = high(before)
        members = tuple(replace(member, shape=shape) for member in gang.members)
        assert not unchanged(planned(), replace(gang, members=members), before, now)
        assert unchanged(planned(), replace(gang, members=members), before, before)


def test_a_plan_rests_on_the_nodes_of_those_it_waits_for() -> None:
    before = cluster(pod("aside", on="n2"))
    now = replace(before, bound={**before.bound, "n2": ()})
    assert unchanged(planned(), high(before), before, now)
    assert not unchanged(planned(waits=(victim("aside", "n2"),)), high(before), before, now)
    assert not unchanged(planned(victim("aside", "n2")), high(before), before, now)


# -- members ---------------------------------------------------------------------------------


def test_the_members_of_a_plan_wait_and_are_enough() -> None:
    gang = high(cluster())
    assert member_problem(planned(*LOW), gang, SEATS) == ""
    assert "has a problem: why" in member_problem(
        planned(), replace(gang, problems=("why",)), SEATS
    )
    assert "not planned for any more: why" in member_problem(
        planned(), replace(gang, unplanned=("why",)), SEATS
    )
    one = {"uid-high-0": "n0"}
    assert "now lacks 2 members" in member_problem(planned(), gang, one)


def test_a_member_that_has_its_node_needs_no_seat() -> None:
    gang = high(cluster())
    first, second = sorted(gang.members, key=lambda member: member.uid)
    seated = replace(gang, members=(replace(first, node="n0", phase="Running"), second))
    assert "default/high-0 is not pending" in member_problem(planned(), seated, SEATS)
    assert member_problem(planned(), seated, {"uid-high-1": "n1"}) == ""


def test_who_may_no_longer_evict_has_no_plan_with_victims() -> None:
    gang = high(cluster())
    for other in (replace(gang, preemptor_priority=99), replace(gang, preempts=False)):
        assert "may no longer evict at priority 100" in member_problem(planned(*LOW), other, SEATS)
        assert member_problem(planned(), other, SEATS) == ""


# -- victims ---------------------------------------------------------------------------------


def why_stays(state: Snapshot, which: Victim = LOW[0], priority: int = 100, **more: bool) -> str:
    return victim_problem(which, priority, state, RESOLVER, PROTECTIONS, **more)


def test_a_victim_is_less_urgent() -> None:
    assert why_stays(cluster()) == ""
    assert why_stays(cluster(low=99)) == ""
    assert why_stays(cluster(low=100)) == "its priority 100 is not below 100"
    assert why_stays(cluster(low=100), victim("nobody", "n0")) == ""


def test_a_single_victim_whose_gang_goes_whole_by_now_stays() -> None:
    single = victim("low-0", "n0", unit=False)
    assert why_stays(cluster(), single) == f"its gang {gang_key('low')} is now evicted as a whole"
    assert why_stays(cluster(), single, alone=True) == ""
    assert why_stays(cluster(whole=False), single) == ""


def unit_stays(state: Snapshot, *victims: Victim, priority: int = 100) -> str:
    return unit_problem(victims, priority, state, RESOLVER, PROTECTIONS)


def test_a_unit_that_has_grown_stays() -> None:
    assert unit_stays(cluster(), *LOW) == ""
    grown = cluster(pod("low-2", on="n2", group="low"))
    assert unit_stays(grown, *LOW) == (
        f"default/low-2 has joined the gang {gang_key('low')}, which is evicted as a whole"
    )
    assert unit_stays(grown, victim("nobody", "n0")) == ""


def test_a_member_beside_the_unit_may_stay_for_its_own_reason() -> None:
    """It was left out because it cannot go."""
    grown = cluster(pod("low-2", on="n2", group="low", priority=100))
    assert unit_stays(grown, *LOW) == ""
    apart = cluster(pod("low-2", on="n2", group="low"), whole=False)
    assert unit_stays(apart, *(replace(each, unit="") for each in LOW)) == ""


def test_the_first_of_a_unit_that_stays_is_named() -> None:
    assert unit_stays(cluster(low=100), *LOW) == (
        "default/low-0: its priority 100 is not below 100"
    )


def test_a_victim_is_present_on_its_node_only() -> None:
    state = cluster()
    found = present(LOW[0], state)
    assert found is not None
    assert found.name == "low-0"
    assert present(victim("low-0", "n1"), state) is None


def test_gangs_of_victims_are_told_once() -> None:
    state = cluster(pod("alone", on="n2"))
    victims = [*LOW, victim("alone", "n2", "")]
    victims[2] = replace(victims[2], gang="")
    assert gangs_of(victims, state, RESOLVER.member_key) == {str(gang_key("low")), ""}


def test_a_unit_is_whole_again_when_others_came() -> None:
    state = cluster(pod("low-2", on="n2", group="low"))
    gang = RESOLVER.resolve(gang_key("low"), state)
    gone = frozenset(["uid-low-0", "uid-low-1"])
    everybody = gone | {"uid-low-2"}
    assert whole_again(gang, gone, 2)
    assert not whole_again(gang, everybody, 2)
    few = replace(gang, members=gang.members[:1])
    assert not whole_again(few, frozenset(), 2)
    assert not whole_again(replace(gang, unit=UNIT_SINGLE), gone, 2)
    unsized = replace(gang, size_known=False)
    assert whole_again(unsized, gone, 3)
    assert not whole_again(unsized, gone, 4)


# -- budgets ---------------------------------------------------------------------------------


def test_victims_under_a_budget_of_their_namespace_are_covered() -> None:
    def budget(namespace: str, app: str) -> DisruptionBudget:
        apps = LabelSelector((Requirement("app", "In", (app,)),))
        return DisruptionBudget("uid-b", namespace, "b", apps, 0)

    state = cluster(pod("web", on="n2", labels={"app": "web"}), pod("bare", on="n2"))
    victims = (victim("web", "n2"), victim("bare", "n2"), victim("nobody", "n2"))

    def covered(*budgets: DisruptionBudget) -> frozenset[str]:
        with_them = replace(state, budgets=budgets)
        return covered_by_budget(victims, with_them, PROTECTIONS, 100)

    assert covered() == frozenset()
    assert covered(budget("default", "web")) == {"uid-web"}
    assert covered(budget("default", "db"), budget("default", "web")) == {"uid-web"}
    assert covered(budget("other", "web"), budget("default", "db")) == frozenset()


# -- room ------------------------------------------------------------------------------------


def quick(
    state: Snapshot, going: tuple[str, ...] = (), holds: tuple[Hold, ...] = (), **seats: str
) -> str:
    pods = {member.uid: member for member in high(state).pending}
    where = {f"uid-{name.replace('_', '-')}": on for name, on in seats.items()}
    return quick_problem(where, pods, state, going, holds)


def test_a_seat_needs_room_beside_who_stays() -> None:
    state = cluster()
    assert quick(state, high_0="n2") == ""
    assert quick(state, high_0="n0") == ("node n0 has no room for its seats any more: short of cpu")
    assert quick(state, ("uid-low-0",), high_0="n0") == ""
    assert quick(state, ("uid-low-1",), high_0="n0") != ""
    assert "short of cpu" in quick(state, high_0="n2", high_1="n2")
    assert quick(state, high_0="gone") == "node gone is gone"


def test_a_seat_may_take_all_there_is() -> None:
    exact = replace(cluster(), nodes={**cluster().nodes, "n2": node("n2", cpu=3)})
    assert quick(exact, high_0="n2") == ""
    less = replace(exact, nodes={**exact.nodes, "n2": node("n2", cpu=2)})
    assert quick(less, high_0="n2") != ""


def test_seats_of_others_take_room_on_their_node() -> None:
    def hold(on: str, cpu: int, **more: int) -> Hold:
        requests = tuple(sorted({"cpu": cpu, **more}.items()))
        return Hold(gang_key("x"), 100, "uid-x", on, requests)

    assert quick(cluster(), (), (hold("n2", 2000),), high_0="n2") != ""
    assert quick(cluster(), (), (hold("n1", 2000),), high_0="n2") == ""
    assert quick(cluster(), (), (hold("n2", 1000),), high_0="n2") == ""
    assert quick(cluster(), (), (hold("n2", 500), hold("n2", 501)), high_0="n2") != ""
    assert quick(cluster(), (), (hold("n2", 0, gpu=9),), high_0="n2") == ""


def test_a_node_that_does_not_take_a_member_is_told() -> None:
    state = cluster()
    cordoned: Node = replace(state.nodes["n2"], unschedulable=True)
    shut = replace(state, nodes={**state.nodes, "n2": cordoned})
    assert quick(shut, high_0="n2").startswith("high-0 on n2: NodeUnschedulable")


def test_a_member_of_no_request_needs_nothing_that_the_node_lacks() -> None:
    state = cluster()
    members = tuple(replace(m, requests=(("cpu", 0), ("gpu", 0))) for m in state.pending.values())
    free = replace(state, pending={m.uid: m for m in members})
    pods = {m.uid: m for m in members}
    assert quick_problem({"uid-high-0": "n0"}, pods, free, (), ()) == ""


# -- who is shielded -------------------------------------------------------------------------


def test_a_pod_that_the_api_server_refuses_to_evict_stays() -> None:
    refused = replace(cluster(), unevictable={"uid-low-0": "a webhook says no"})
    assert "a webhook says no" in why_stays(refused)
    assert why_stays(refused, LOW[1]) == ""
    assert unit_stays(refused, *LOW).startswith("default/low-0: ")


def test_a_member_beside_the_unit_keeps_the_whole_gang_where_its_namespace_is_protected() -> None:
    settings = Settings(plan=PlanSettings(protected_namespaces=("default",)))
    grown = cluster(pod("low-2", on="n2", group="low"))
    # Those of the unit itself are evicted no more; one that joined them shields them all.
    shielding = Protections(settings)
    assert "is protected" in unit_problem(LOW, 100, grown, RESOLVER, shielding)

    class OnlyWhoJoined(Protections):
        def why(self, asked_pod: Pod, *args: object, **more: object) -> str:  # type: ignore[override]
            return "" if asked_pod.name != "low-2" else "it stays"

    gone = OnlyWhoJoined(settings)
    found = unit_problem(LOW, 100, grown, RESOLVER, gone)
    assert found.startswith(
        f"{gang_key('low')} is evicted completely or not at all, and low-0 stays: "
    )
    below = unit_problem(LOW, 1 << 62, grown, RESOLVER, gone)
    assert below == ""


def test_a_gang_that_has_just_become_whole_is_as_old_as_its_oldest_member() -> None:
    settings = Settings(plan=PlanSettings(min_runtime_seconds=60.0))
    young = cluster(pod("low-2", on="n2", group="low", started=NOW - 10))

    def why(which: Victim, state: Snapshot) -> str:
        return victim_problem(which, 100, state, RESOLVER, Protections(settings))

    assert why(victim("low-2", "n2"), young) == ""
    assert "less than minRuntimeSeconds" in why(
        victim("low-2", "n2"),
        cluster(pod("low-2", on="n2", group="low", started=NOW - 10), whole=False),
    )


def test_a_pod_of_a_gang_in_error_is_a_single_one() -> None:
    """Its own priority counts, not what the gang states."""

    class Broken(Resolver):
        def resolve(self, key: GangKey, snapshot: Snapshot) -> Gang:
            gang = super().resolve(key, snapshot)
            return replace(gang, victim_priority=100, problems=problems)

    problems: tuple[str, ...] = ()
    resolver = Broken(SETTINGS.groups)
    single = victim("low-0", "n0", unit=False)
    why = victim_problem(single, 100, cluster(), resolver, PROTECTIONS)
    assert why == "its priority 100 is not below 100"
    problems = ("two dialects",)
    assert victim_problem(single, 100, cluster(), resolver, PROTECTIONS) == ""


def test_a_single_pod_of_no_gang_may_go() -> None:
    state = cluster(pod("alone", on="n2"))
    alone = Victim("uid-alone", "default", "alone", "n2", 0)
    assert why_stays(state, alone) == ""
    assert why_stays(state, alone, priority=0) == "its priority 0 is not below 0"


def test_a_pod_that_leaves_by_itself_is_no_problem_however_urgent() -> None:
    leaving = cluster(pod("urgent", on="n2", priority=1000, deleting=NOW + 5))
    assert why_stays(leaving, Victim("uid-urgent", "default", "urgent", "n2", 0)) == ""


def test_gangs_of_members_of_a_hierarchy_are_both_told() -> None:
    inner = replace(pod("leaf", on="n2", group="low"), hierarchy=("x", "y"))
    state = replace(cluster(), bound={**cluster().bound, "n2": (inner,)})
    found = gangs_of([victim("leaf", "n2", "outer")], state, RESOLVER.member_key)
    assert found == {str(gang_key("outer")), str(RESOLVER.member_key(inner))}
    flat = gangs_of([victim("low-0", "n0", "outer")], state, RESOLVER.member_key)
    assert flat == {str(gang_key("outer"))}


def test_members_that_start_one_by_one_are_whole_again_when_as_many_came_as_went() -> None:
    state = cluster(pod("low-2", on="n2", group="low"))
    gang = replace(RESOLVER.resolve(gang_key("low"), state), starts_whole=False)
    assert whole_again(gang, frozenset(["uid-low-0"]), 3)
    assert not whole_again(gang, frozenset(["uid-low-0"]), 4)


def test_a_budget_counts_only_where_budgets_are_respected() -> None:
    state = cluster(pod("web", on="n2"))
    every = DisruptionBudget("uid-b", "default", "b", LabelSelector(), 0)
    under = replace(state, budgets=(every,))
    victims = (victim("web", "n2"),)
    exceeding = Protections(Settings(plan=PlanSettings(pdb_policy="prefer")))
    assert covered_by_budget(victims, under, PROTECTIONS, 100) == {"uid-web"}
    assert covered_by_budget(victims, under, exceeding, 100) == frozenset()


def test_of_several_nodes_and_resources_the_first_by_name_is_told() -> None:
    state = cluster()
    assert quick(state, high_1="n1", high_0="n0").startswith("node n0 has no room")
    wants = (("a", 1), ("cpu", 3000), ("gpu", 1))
    members = {uid: replace(m, requests=wants[::-1]) for uid, m in state.pending.items()}
    poor = replace(state, pending=members)
    assert quick_problem({"uid-high-0": "n0"}, members, poor, (), ()).endswith(
        ("short of a", "NodeResourcesFit: ", "free)")
    )


def victim_cluster(low_1_in: str) -> Snapshot:
    """Gangs low and other, each whole; which of them low-1 belongs to can be changed."""
    return snapshot(
        [node(f"n{i}") for i in range(4)],
        [
            pod("low-0", on="n0", group="low"),
            pod("low-1", on="n1", group=low_1_in),
            pod("other-0", on="n2", group="other", priority=10),
            pod("other-1", on="n3", group="other", priority=10),
            pod("high-0", group="high", priority=100),
            pod("high-1", group="high", priority=100),
        ],
        [
            group("low", 2, priority=0),
            group("other", 2, priority=10),
            group("high", 2, priority=100),
        ],
    )


def test_a_victim_that_has_become_part_of_another_whole_gang_is_no_victim() -> None:
    """Labels can be changed: taken alone it would break the gang it is in now."""
    plan = plan_for(victim_cluster("low"), "high")
    assert evicted(plan) == {"low-0", "low-1"}
    assert isinstance(plan, Plan)
    settings = Settings()
    resolver = Resolver(settings.groups)
    for state, why in (
        (victim_cluster("low"), ""),
        (victim_cluster("other"), "is now evicted as a whole"),
    ):
        found = unit_problem(plan.victims, plan.priority, state, resolver, Protections(settings))
        assert found.endswith(why)
        assert bool(found) == bool(why)


def test_who_comes_while_members_are_seated_is_no_part_of_a_gang_without_a_stated_size() -> None:
    state = victim_cluster("low")
    plan = plan_for(state, "high")
    assert isinstance(plan, Plan)
    gang = Resolver(Settings().groups).resolve(gang_key("high"), state)
    unsized = replace(gang, size_known=False)
    first = {seat.uid: seat.node for seat in plan.seats[:1]}
    assert "now lacks 2 members" in member_problem(plan, unsized, first)
    assert member_problem(plan, unsized, first, binding=True) == ""
    assert "now lacks 2 members" in member_problem(plan, gang, first, binding=True)


def test_a_clock_that_is_set_back_spares_nobody_of_a_unit_that_has_begun_to_go() -> None:
    state = victim_cluster("low")
    plan = plan_for(state, "high")
    assert isinstance(plan, Plan)
    settings = Settings(plan=PlanSettings(min_runtime_seconds=60))
    bound = {
        name: tuple(replace(each, started=NOW - 100) for each in pods)
        for name, pods in state.bound.items()
    }
    back = replace(state, now=NOW - 3600, bound=bound)

    def why(*, alone: bool) -> str:
        victim, resolver = plan.victims[0], Resolver(settings.groups)
        return victim_problem(
            victim, plan.priority, back, resolver, Protections(settings), alone=alone
        )

    assert "runs for -3500 s, less than minRuntimeSeconds" in why(alone=False)
    assert why(alone=True) == ""
