"""The checkers themselves, on made-up histories: each finds what it is for, and only that."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.chaos import invariants
from tests.chaos.groups import ALL, EACH, NOTHING, ONE_LEFT, POD_GROUP, SINGLE, UNREADY, GroupSpec
from tests.chaos.history import EXTENDER, SCHEDULER, Fault, History, PodSeen

NOW = 1000.0
LOW = GroupSpec("low", POD_GROUP, size=2, min_count=2, cpu=2000, priority=10, unit=ALL)
HIGH = GroupSpec("high", POD_GROUP, size=2, min_count=2, cpu=2000, priority=100, unit=ALL)


class Made:
    """A history of two nodes with two cores each, told in short calls."""

    def __init__(self, *specs: GroupSpec) -> None:
        self.history = History()
        self.history.nodes = {"n0": 2000, "n1": 2000}
        self.at = NOW
        for spec in specs:
            self.history.arrive(spec, NOW - 500)

    def pod(self, spec: GroupSpec, index: int, node: str = "", **more: object) -> str:
        """A pod as it is from now on; return its uid."""
        uid = f"{spec.name}-{index}"
        known = self.history.pods.get(uid)
        seen = PodSeen(uid, uid, spec.name, spec.cpu, spec.priority)
        if known is not None:
            seen = replace(known.seen)
        seen.node = node or seen.node
        for key, value in more.items():
            setattr(seen, key, value)
        self.history.take(seen, self.at)
        return uid

    def gang(self, spec: GroupSpec, *nodes: str) -> list[str]:
        """All members, on these nodes, the rest waiting."""
        places = [*nodes, *[""] * (spec.size - len(nodes))]
        return [self.pod(spec, index, node) for index, node in enumerate(places)]

    def later(self, seconds: float) -> Made:
        """Let time pass."""
        self.at += seconds
        return self

    def evict(
        self, uid: str, by: str = EXTENDER, told: str = "", *, asked: bool = False
    ) -> list[invariants.Problem]:
        """A pod is marked, evicted and gone; return what is wrong with that."""
        life = self.history.pods[uid]
        self.history.take(replace(life.seen, disrupted=told), self.at)
        lag = invariants.lag(self.history, self.at)
        eviction = self.history.removed(uid, self.at, by, lag, asked=asked)
        self.history.take(replace(life.seen, deleting=True), self.at + 0.01)
        self.history.gone(uid, self.at + 0.02)
        assert eviction is not None
        return invariants.of_an_eviction(self.history, eviction) if by == EXTENDER else []

    def rest(self) -> set[str]:
        """Names of the invariants that do not hold at rest."""
        return {each.invariant for each in invariants.at_rest(self.history, self.at)}


def told(spec: GroupSpec) -> str:
    return (
        f"preempted by pod-group:chaos/{spec.name} (priority {spec.priority}), "
        "which runs as a whole once 2 pods are gone"
    )


def test_what_a_squatter_takes_is_no_over_commitment_of_ours() -> None:
    made = Made(LOW)
    made.gang(LOW, "n0", "n1")
    other = GroupSpec("other", SINGLE, cpu=1000)
    made.pod(other, 0, "n0", squats=True)
    assert invariants.over_commitment(made.history) == []
    made.pod(other, 0, squats=False)
    assert [each.subject for each in invariants.over_commitment(made.history)] == ["n0"]


def test_a_rightful_preemption_is_no_problem() -> None:
    made = Made(LOW, HIGH)
    lows = made.gang(LOW, "n0", "n1")
    made.later(60)
    made.gang(HIGH)
    made.later(10)
    assert [problem for uid in lows for problem in made.evict(uid, told=told(HIGH))] == []
    made.later(1)
    made.gang(HIGH, "n0", "n1")
    made.pod(LOW, 10)
    made.pod(LOW, 11)
    assert made.rest() == set()


# -- half gone --------------------------------------------------------------------------------


def test_a_unit_of_which_one_pod_was_evicted_is_half_gone() -> None:
    made = Made(LOW, HIGH)
    one, _ = made.gang(LOW, "n0", "n1")
    made.later(60).evict(one, told=told(HIGH))
    (problem,) = invariants.half_gone(made.history)
    assert (problem.invariant, problem.subject) == ("half gone", "low")
    assert "low-0 evicted, low-1 left" in problem.text


def test_a_unit_is_known_to_be_touched_though_the_watch_was_quicker_than_the_audit_log() -> None:
    made = Made(LOW, HIGH)
    one, two = made.gang(LOW, "n0", "n1")
    made.later(60).history.gone(one, made.at)
    made.history.removed(one, made.at - 5, EXTENDER, 1.0)
    assert "half gone" in made.rest()
    assert made.later(100).evict(two) == [], "it finishes the unit, whoever still waits"


def test_a_unit_is_half_gone_even_when_new_pods_make_it_complete() -> None:
    made = Made(LOW, HIGH)
    one, _ = made.gang(LOW, "n0", "n1")
    made.later(60).evict(one)
    made.later(1).pod(LOW, 2, "n0")
    assert "half gone" in made.rest()


def test_who_has_lost_its_quorum_to_its_user_goes_pod_by_pod() -> None:
    three = replace(LOW, size=3, min_count=3, cpu=500)
    made = Made(three, HIGH)
    one, two, _ = made.gang(three, "n0", "n0", "n1")
    made.later(60).evict(one, by="user")
    made.later(10).evict(two, told=told(HIGH))
    assert invariants.half_gone(made.history) == []


@pytest.mark.parametrize("unit", [EACH])
def test_a_gang_that_goes_pod_by_pod_is_never_half_gone(unit: str) -> None:
    spec = replace(LOW, unit=unit)
    made = Made(spec)
    one, _ = made.gang(spec, "n0", "n1")
    made.later(60).evict(one)
    assert invariants.half_gone(made.history) == []


@pytest.mark.parametrize("by", ["admin", SCHEDULER, "system:kube-controller-manager"])
def test_pods_that_somebody_else_took_are_not_our_hand(by: str) -> None:
    made = Made(LOW)
    one, _ = made.gang(LOW, "n0", "n1")
    made.later(60).evict(one, by=by)
    assert invariants.half_gone(made.history) == []


def test_who_asked_first_has_taken_the_pod() -> None:
    made = Made(LOW)
    one, _ = made.gang(LOW, "n0", "n1")
    made.later(60)
    assert made.history.removed(one, made.at, "admin", 2.0) is not None
    assert made.history.removed(one, made.at + 0.1, EXTENDER, 2.0) is None
    assert invariants.half_gone(made.history) == []


def test_a_member_bound_a_moment_before_is_not_left_behind() -> None:
    made = Made(LOW)
    one, _ = made.gang(LOW, "n0", "")
    made.later(60).pod(LOW, 1, "n1")
    made.later(1).evict(one)
    assert invariants.half_gone(made.history) == []


def test_with_a_blinding_fault_the_moment_is_longer() -> None:
    made = Made(LOW)
    one, _ = made.gang(LOW, "n0", "")
    made.later(60).pod(LOW, 1, "n1")
    made.history.begin(Fault("watches cut", "", made.at - 1, ended=made.at + 3, blinds=True))
    made.later(8).evict(one)
    assert invariants.half_gone(made.history) == []


def test_a_gang_that_its_user_takes_away_is_not_half_gone() -> None:
    made = Made(LOW)
    one, _ = made.gang(LOW, "n0", "n1")
    made.later(60).evict(one)
    made.history.leave("low", made.at, "is deleted")
    assert invariants.half_gone(made.history) == []


# -- bound in part ------------------------------------------------------------------------------


def test_a_gang_with_one_of_two_members_bound_is_bound_in_part() -> None:
    made = Made(LOW, HIGH)
    made.gang(LOW, "n0")
    made.gang(HIGH, "n1")
    made.later(60)
    assert {each.subject for each in invariants.bound_in_part(made.history, made.at)} == {
        "low",
        "high",
    }


def test_a_gang_that_ran_and_lost_a_member_is_not_bound_in_part() -> None:
    made = Made(LOW)
    one, _ = made.gang(LOW, "n0", "n1")
    made.later(60).evict(one, by="admin")
    made.history.nodes["n0"] = 0
    made.later(60)
    assert invariants.bound_in_part(made.history, made.at) == []


def test_a_gang_that_ran_before_and_starts_anew_in_part_is_bound_in_part() -> None:
    made = Made(LOW)
    for uid in made.gang(LOW, "n0", "n1"):
        made.later(60).evict(uid)
    made.later(60).pod(LOW, 2, "n0")
    made.pod(LOW, 3)
    made.later(60)
    assert len(invariants.bound_in_part(made.history, made.at)) == 1


def test_a_quorum_is_enough() -> None:
    spec = replace(LOW, size=3)
    made = Made(spec)
    made.gang(spec, "n0", "n1")
    made.later(60)
    assert invariants.bound_in_part(made.history, made.at) == []
    assert invariants.kept_waiting(made.history) == []


@pytest.mark.parametrize(("seconds", "excused"), [(-1.0, True), (1.0, True), (-10.0, False)])
def test_a_node_cordoned_while_members_are_bound_excuses(seconds: float, *, excused: bool) -> None:
    made = Made(LOW)
    made.gang(LOW, "n0")
    made.history.disturb(made.at + seconds, "node cordoned: n1")
    made.later(60)
    assert (invariants.bound_in_part(made.history, made.at) == []) is excused


def test_a_node_cordoned_long_before_excuses_an_extender_that_could_not_see_it() -> None:
    made = Made(LOW)
    made.gang(LOW, "n0")
    made.history.disturb(made.at - 10, "node cordoned: n1")
    made.history.begin(Fault("watches cut", "", made.at - 11, ended=made.at - 5, blinds=True))
    made.later(60)
    assert invariants.bound_in_part(made.history, made.at) == []


# -- kept waiting -----------------------------------------------------------------------------


def test_a_gang_that_fits_on_free_room_is_kept_waiting() -> None:
    made = Made(LOW)
    made.gang(LOW)
    (problem,) = invariants.kept_waiting(made.history)
    assert "2 fit (2 without any eviction)" in problem.text


def test_a_gang_that_fits_by_preemption_is_kept_waiting() -> None:
    made = Made(LOW, HIGH)
    made.gang(LOW, "n0", "n1")
    made.gang(HIGH)
    (problem,) = invariants.kept_waiting(made.history)
    assert (problem.subject, "(0 without any" in problem.text) == ("high", True)


@pytest.mark.parametrize(
    "other",
    [
        replace(LOW, priority=HIGH.priority),
        replace(LOW, protected=True),
        replace(LOW, budget=NOTHING),
        replace(LOW, budget=UNREADY),
    ],
)
def test_who_may_not_be_evicted_keeps_its_room(other: GroupSpec) -> None:
    made = Made(other, HIGH)
    made.gang(other, "n0", "n1")
    made.gang(HIGH)
    assert invariants.kept_waiting(made.history) == []


def test_who_never_preempts_waits_for_free_room() -> None:
    high = replace(HIGH, preempts=False)
    made = Made(LOW, high)
    made.gang(LOW, "n0", "n1")
    made.gang(high)
    assert invariants.kept_waiting(made.history) == []


def test_a_cordoned_node_has_no_room() -> None:
    made = Made(LOW)
    made.gang(LOW)
    made.history.closed_nodes["n1"] = made.history.nodes.pop("n1")
    assert invariants.kept_waiting(made.history) == []


def test_a_gang_whose_pods_are_not_all_made_waits_for_its_owner() -> None:
    made = Made(LOW)
    made.pod(LOW, 0)
    assert invariants.kept_waiting(made.history) == []


def test_a_pod_of_no_gang_is_kept_waiting_too() -> None:
    spec = GroupSpec("one", SINGLE, cpu=2000)
    made = Made(spec)
    made.pod(spec, 0)
    assert len(invariants.kept_waiting(made.history)) == 1


def test_a_pod_of_no_gang_that_fits_by_preemption_is_kept_waiting() -> None:
    spec = GroupSpec("one", SINGLE, cpu=2000, priority=HIGH.priority)
    made = Made(LOW, spec)
    made.gang(LOW, "n0", "n1")
    made.pod(spec, 0)
    (problem,) = invariants.kept_waiting(made.history)
    assert "(0 without any" in problem.text


# -- evictions --------------------------------------------------------------------------------


def test_a_protected_pod_must_not_be_evicted() -> None:
    spec = replace(LOW, protected=True)
    made = Made(spec, HIGH)
    one, _ = made.gang(spec, "n0", "n1")
    made.gang(HIGH)
    found = made.later(60).evict(one)
    assert [each.invariant for each in found] == ["protected"]


@pytest.mark.parametrize(
    ("budget", "ready", "asked", "wrong"),
    [
        (ONE_LEFT, True, True, False),
        (ONE_LEFT, True, False, True),
        (UNREADY, False, False, False),
        (UNREADY, True, False, True),
        ("", True, False, False),
    ],
)
def test_a_ready_pod_with_a_budget_goes_through_the_eviction_api(
    budget: str, *, ready: bool, asked: bool, wrong: bool
) -> None:
    spec = replace(LOW, budget=budget, unit=EACH)
    made = Made(spec, HIGH)
    one, _ = made.gang(spec, "n0", "n1")
    made.pod(spec, 0, ready=ready)
    made.gang(HIGH)
    found = made.later(60).evict(one, asked=asked)
    assert [each.invariant for each in found] == ["budget"] * wrong


def test_what_a_budget_may_allow_is_no_eviction_in_vain() -> None:
    spec = replace(LOW, budget=ONE_LEFT, unit=EACH)
    made = Made(spec, HIGH)
    one, _ = made.gang(spec, "n0", "n1")
    made.gang(HIGH)
    assert made.later(60).evict(one, told=told(HIGH), asked=True) == []


def test_nobody_more_urgent_waits() -> None:
    peer = replace(HIGH, name="peer", priority=LOW.priority)
    made = Made(LOW, peer)
    one, _ = made.gang(LOW, "n0", "n1")
    made.gang(peer)
    (found,) = made.later(60).evict(one)
    assert found.invariant == "priority"
    assert "nobody more urgent waited" in found.text


def test_the_last_pods_of_a_broken_unit_may_go_for_nobody() -> None:
    made = Made(LOW, HIGH)
    one, two = made.gang(LOW, "n0", "n1")
    made.gang(HIGH)
    assert made.later(60).evict(one, told=told(HIGH)) == []
    made.history.leave("high", made.at, "is deleted by its user")
    assert made.later(100).evict(two, told=told(HIGH)) == []


@pytest.mark.parametrize(("priority", "wrong"), [(9, True), (10, True), (11, False)])
def test_a_pod_is_marked_only_for_somebody_more_urgent(priority: int, *, wrong: bool) -> None:
    other = replace(HIGH, priority=priority)
    seen = PodSeen("u", "low-0", "low", 2000, LOW.priority, disrupted=told(other))
    assert bool(invariants.of_a_mark(seen)) is wrong


def test_a_condition_of_kube_scheduler_is_not_ours() -> None:
    message = "default-scheduler: preempting to accommodate a higher priority pod"
    assert invariants.of_a_mark(PodSeen("u", "x", "low", 1, 10, disrupted=message)) == []


def test_an_eviction_for_a_gang_without_room_is_in_vain() -> None:
    made = Made(LOW, HIGH)
    one, _ = made.gang(LOW, "n0", "n1")
    made.gang(HIGH)
    made.history.closed_nodes["n1"] = made.history.nodes.pop("n1")
    found = made.later(60).evict(one, told=told(HIGH))
    assert [each.invariant for each in found] == ["in vain"]


def test_it_is_not_when_the_node_was_cordoned_just_now() -> None:
    made = Made(LOW, HIGH)
    one, _ = made.gang(LOW, "n0", "n1")
    made.gang(HIGH)
    made.later(60)
    made.history.closed_nodes["n1"] = made.history.nodes.pop("n1")
    made.history.disturb(made.at - 1, "node cordoned: n1")
    assert made.evict(one, told=told(HIGH)) == []


# -- the rest ---------------------------------------------------------------------------------


def test_more_on_a_node_than_it_has() -> None:
    made = Made(LOW, HIGH)
    made.gang(LOW, "n0", "n1")
    assert invariants.over_commitment(made.history) == []
    made.gang(HIGH, "n0")
    (problem,) = invariants.over_commitment(made.history)
    assert problem.subject == "n0"


def test_a_terminating_pod_counts_and_a_finished_one_does_not() -> None:
    made = Made(LOW, HIGH)
    made.gang(LOW, "n0", "n1")
    made.pod(LOW, 0, deleting=True)
    made.pod(HIGH, 0, "n0")
    assert len(invariants.over_commitment(made.history)) == 1
    made.pod(LOW, 0, phase="Failed")
    assert invariants.over_commitment(made.history) == []


def test_records_and_nominations_must_not_be_left() -> None:
    made = Made(LOW)
    made.history.nodes = {}
    made.gang(LOW)
    made.pod(LOW, 0, nominated="n0")
    made.history.records["podgroup-plan-1"] = "pod-group:chaos/low"
    assert made.rest() == {"record left", "nomination left"}


def test_too_many_evictions_for_one_gang_are_a_storm() -> None:
    made = Made(LOW, HIGH)
    made.gang(HIGH)
    slots = 4
    for index in range(invariants.STORM * slots + 1):
        assert invariants.storms(made.history, NOW - 1) == []
        uid = made.later(10).pod(LOW, index, "n0")
        made.later(5).evict(uid, told=told(HIGH))
    (problem,) = invariants.storms(made.history, NOW - 1)
    assert problem.subject == "high"
    assert invariants.storms(made.history, made.at) == []
