"""Gangs whose parts need a number of members of their own, planned: all of it or nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import combinations, product
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from extender.gang.bind_barrier.partial import PartlyBound
from extender.gang.plan.part_classes import by_part
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.gang.plan.suspension import looks_of
from extender.gang.plan.validity import member_problem
from extender.gang.tell.decisions import Decision
from extender.gang.tell.gang_status import described
from extender.groups.resolver import Resolver
from extender.model.gang import Gang
from extender.model.objects import GangKey, GroupObject, Part, Pod, PodShape
from extender.model.plan import Code, Plan, Proof, Refusal
from extender.model.snapshot import Snapshot
from extender.settings.settings import PlanSettings, Settings
from tests.gang.statuses import status
from tests.gang.world import evicted, node, pod, seats, snapshot

KEY = GangKey("volcano", "default", "g")
RESOLVER = Resolver(Settings().groups)


def said(least: int, **parts: int) -> GroupObject:
    """A PodGroup of Volcano: minMember and minTaskMember."""
    listed = tuple(Part(name, each=count) for name, count in sorted(parts.items()))
    return GroupObject("volcano", "uid-g", "default", "g", least, parts=listed)


def member(name: str, task: str = "", *, cpu: float = 3, on: str = "", **more: object) -> Pod:
    notes = {"scheduling.k8s.io/group-name": "g"}
    if task:
        notes["volcano.sh/task-spec"] = task
    return pod(name, cpu=cpu, on=on, priority=100, annotations=notes, **more)  # type: ignore[arg-type]


def world(names: Iterable[str], pods: Iterable[Pod], group: GroupObject, cpu: int = 4) -> Snapshot:
    return of_nodes(dict.fromkeys(names, cpu), pods, group)


def of_nodes(cpus: Mapping[str, int], pods: Iterable[Pod], group: GroupObject) -> Snapshot:
    state = snapshot([node(name, cpu) for name, cpu in cpus.items()], pods, [group])
    return replace(state, group_sources=frozenset({"volcano"}))


def gang_of(state: Snapshot) -> Gang:
    return RESOLVER.resolve(KEY, state)


def planned(state: Snapshot) -> Plan | Refusal:
    """By gangs and pods, which ``fewest`` counts: a pod's work is a share of its node, which may be
    small."""
    order = Settings(plan=PlanSettings(cost_order="gangs-by-priority"))
    return Planner(order, RESOLVER).plan(GangQuestion(gang_of(state), state))


def workers(count: int, **more: object) -> list[Pod]:
    return [member(f"w{i}", "worker", **more) for i in range(count)]  # type: ignore[arg-type]


class TestOnePlan:
    def test_seats_are_for_the_part_that_lacks_them(self) -> None:
        """Three of four fit. By the sum alone any three would do."""
        pods = [*workers(3), member("z-ps", "ps")]
        plan = planned(world(["n0", "n1", "n2"], pods, said(3, ps=1, worker=2)))
        assert "z-ps" in seats(plan)
        assert len(seats(plan)) == 3
        assert isinstance(plan, Plan)
        assert plan.proof is Proof.OPTIMAL

    def test_nobody_goes_for_a_gang_that_would_run_without_a_part(self) -> None:
        """The ps does not fit anywhere, three workers would."""
        low = [pod(f"low{i}", on=f"n{i}") for i in range(3)]
        pods = [*low, *workers(3), member("ps", "ps", cpu=5)]
        answer = planned(world(["n0", "n1", "n2"], pods, said(3, ps=1, worker=2)))
        assert isinstance(answer, Refusal)
        assert answer.code == Code.INFEASIBLE
        assert "'ps'" in answer.message
        assert all("quorum (minCount)" not in way.text for way in answer.ways)

    def test_only_as_many_go_as_the_parts_need(self) -> None:
        low = [pod(f"low{i}", on=f"n{i}") for i in range(4)]
        pods = [*low, *workers(3), member("ps", "ps")]
        plan = planned(world(["n0", "n1", "n2", "n3"], pods, said(2, ps=1, worker=1)))
        assert len(evicted(plan)) == 2
        assert "ps" in seats(plan)

    def test_a_member_that_came_late_is_planned_for_where_its_part_lacks_it(self) -> None:
        """Four workers run, more than the quorum: without the ps it has not come together."""
        run = [member(f"w{i}", "worker", on=f"n{i}") for i in range(4)]
        pods = [*run, pod("low", on="n4"), member("ps", "ps"), member("w9", "worker")]
        state = world([f"n{i}" for i in range(5)], pods, said(4, ps=1, worker=3))
        assert not gang_of(state).goes_whole
        plan = planned(state)
        assert evicted(plan) == {"low"}
        assert seats(plan) == {"ps": "n4"}

    def test_one_that_has_all_its_parts_needs_no_plan(self) -> None:
        run = [member("w", "worker", on="n0"), member("ps", "ps", on="n1")]
        answer = planned(world(["n0", "n1"], [*run, *workers(2)], said(2, ps=1, worker=1)))
        assert isinstance(answer, Refusal)
        assert answer.code == Code.NOT_NEEDED

    def test_the_part_without_members_is_told(self) -> None:
        answer = planned(world(["n0"], workers(4), said(4, ps=1, worker=3)))
        assert isinstance(answer, Refusal)
        assert answer.code == Code.INCOMPLETE
        assert answer.message == (
            "waits for members: 4 of 4 exist, 0 of 1 of part 'ps', nothing is evicted"
        )

    def test_a_name_of_any_letters_is_told_in_ascii(self) -> None:
        state = world(["n0"], workers(2), said(2, **{"ü\n" * 200: 1, "worker": 1}))
        answer = planned(state)
        assert isinstance(answer, Refusal)
        assert answer.message.isascii()
        assert "\n" not in answer.message


class TestUnequalMembers:
    """The search knows a least number of a class; a part of several classes is a sum."""

    def test_an_answer_that_keeps_the_sum_by_itself_is_proved(self) -> None:
        pods = [member("a", "ps", cpu=1), member("b", "ps", cpu=2), *workers(2)]
        plan = planned(world(["n0", "n1"], pods, said(3, ps=1, worker=2)))
        assert isinstance(plan, Plan)
        assert plan.proof is Proof.OPTIMAL

    def test_the_sum_is_kept_where_the_cheapest_answer_does_not(self) -> None:
        """Workers would take free room; the two kinds of ps fit only where somebody goes."""
        fast = PodShape(node_selector=(("fast", "yes"),))
        pods = [
            member("a", "ps", cpu=3, shape=fast),
            member("b", "ps", cpu=4, shape=fast),
            *workers(3),
            pod("low", on="f"),
        ]
        free = [node(name) for name in ("n0", "n1", "n2")]
        state = snapshot([*free, node("f", labels={"fast": "yes"})], pods, [said(2, ps=1)])
        state = replace(state, group_sources=frozenset({"volcano"}))
        plan = planned(state)
        assert evicted(plan) == {"low"}
        assert {"a", "b"} & seats(plan).keys()
        assert isinstance(plan, Plan)
        assert plan.proof is Proof.BOUNDED

    def test_what_is_not_found_is_not_called_impossible(self) -> None:
        pods = [member("a", "ps", cpu=5), member("b", "ps", cpu=6), *workers(3)]
        answer = planned(world(["n0", "n1", "n2"], pods, said(2, ps=1)))
        assert isinstance(answer, Refusal)
        assert answer.message.startswith("no solution was found: ")
        assert "members of a part are unequal, 2 ways to choose among them failed" in answer.message

    def test_all_of_a_part_are_no_sum(self) -> None:
        pods = (member("a", "ps", cpu=1), member("b", "ps", cpu=2), *workers(3))
        state = world(["n0"], pods, said(3, ps=2))
        split = by_part(tuple((each,) for each in pods), gang_of(state), 3)
        assert split.sums == ()
        assert split.least[:2] == (1, 1)


class TestPlanInPreemption:
    def test_it_is_told_apart_which_part_lacks_seats(self) -> None:
        pods = [*workers(3), member("ps", "ps")]
        names = ["n0", "n1", "n2"]
        before = world(names, pods, said(3, worker=2))
        plan = planned(before)
        assert isinstance(plan, Plan)
        taken = {seat.uid: seat.node for seat in plan.seats if seat.name != "ps"}
        assert len(taken) >= 2
        assert "uid-ps" not in taken
        gang = gang_of(world(names, pods, said(2, ps=1, worker=1)))
        kept = replace(plan, seats=tuple(s for s in plan.seats if s.uid in taken))
        assert "lacks 1 member of part 'ps', and the plan has 0 seats for it" in member_problem(
            kept, gang, taken
        )

    def test_another_minimum_of_a_part_is_another_gang_to_a_suspension(self) -> None:
        pods = [*workers(3), member("ps", "ps")]
        looks = {
            looks_of(gang_of(world(["n0"], pods, group)))
            for group in (said(3), said(3, ps=1), said(3, worker=1), said(3, worker=2))
        }
        assert len(looks) == 4


@st.composite
def clusters(draw: st.DrawFn, *, unequal: bool) -> Snapshot:
    """A few nodes with low pods, and a gang of two parts and members of none."""
    cpus = {f"n{i}": draw(st.integers(1, 4)) for i in range(draw(st.integers(1, 3)))}
    pods = [
        pod(f"low-{name}-{i}", cpu=1, on=name, priority=draw(st.sampled_from((0, 10, 50))))
        for name, cpu in cpus.items()
        for i in range(draw(st.integers(0, min(cpu, 2))))
    ]
    sizes = {task: draw(st.integers(1, 2)) for task in ("a", "b", "")}
    least: dict[str, int] = {}
    total = 0
    for task in ("a", "b", ""):
        count = draw(st.integers(0, 3 if task else 1))
        for i in range(count):
            cpu = draw(st.integers(1, 2)) if unequal else sizes[task]
            pods.append(member(f"{task or 'no'}{i}", task, cpu=cpu))
        total += count
        if task and count:
            least[task] = draw(st.integers(0, count))
    needed = sum(least.values())
    quorum = draw(st.integers(max(2, needed), max(2, needed, total)))
    kept = {task: count for task, count in least.items() if count}
    return of_nodes(cpus, pods, said(quorum, **kept))


Lost = tuple[int, ...]


def lost(priorities: Iterable[int]) -> Lost:
    """How many go of each priority, the highest first: what is compared before all else."""
    counts = Counter(priorities)
    return tuple(counts[priority] for priority in (50, 10, 0))


def fewest(state: Snapshot) -> Lost | None:
    """Which low pods have to go at least, by trying everything; None: there is no way."""
    gang = gang_of(state)
    low = [each for pods in state.bound.values() for each in pods]
    room = {name: dict(each.allocatable)["cpu"] for name, each in state.nodes.items()}
    cpu = {each.uid: dict(each.requests)["cpu"] for each in (*gang.pending, *low)}
    placements = [
        {
            name: sum(cpu[p.uid] for p, at in zip(gang.pending, places, strict=True) if at == name)
            for name in room
        }
        for places in product([None, *room], repeat=len(gang.pending))
        if gang.runs_with(
            {p.uid for p, at in zip(gang.pending, places, strict=True) if at is not None}
        )
    ]
    best: Lost | None = None
    for count in range(len(low) + 1):
        for going in combinations(low, count):
            cost = lost(each.priority for each in going)
            held = {
                name: sum(cpu[each.uid] for each in pods if each not in going)
                for name, pods in state.bound.items()
            }
            if (best is None or cost < best) and any(
                all(held.get(n, 0) + taken[n] <= room[n] for n in room) for taken in placements
            ):
                best = cost
    return best


@given(clusters(unequal=False))
@settings(max_examples=80, deadline=None)
def test_there_is_a_plan_exactly_where_all_parts_can_be_kept(state: Snapshot) -> None:
    gang, answer = gang_of(state), planned(state)
    least = fewest(state) if gang.complete else None
    if least is None:
        assert isinstance(answer, Refusal)
        return
    assert isinstance(answer, Plan), answer
    assert gang.runs_with({seat.uid for seat in answer.seats})
    assert lost(victim.priority for victim in answer.victims) == least
    assert answer.proof is Proof.OPTIMAL


@given(clusters(unequal=True))
@settings(max_examples=80, deadline=None)
def test_no_plan_leaves_a_part_below_its_minimum(state: Snapshot) -> None:
    gang, answer = gang_of(state), planned(state)
    least = fewest(state) if gang.complete else None
    if isinstance(answer, Plan):
        assert gang.runs_with({seat.uid for seat in answer.seats})
        assert least is not None
        cost = lost(victim.priority for victim in answer.victims)
        assert cost >= least
        assert answer.proof is not Proof.OPTIMAL or cost == least
    elif answer.message.startswith("cannot fit"):
        assert least is None, "not proved, and yet told"


@pytest.mark.parametrize("unit", ["all", "single"])
def test_the_surplus_of_a_gang_is_that_of_its_parts(unit: str) -> None:
    run = [member(f"w{i}", "worker", on="n0") for i in range(4)] + [member("ps", "ps", on="n0")]
    gang = replace(gang_of(world(["n0"], run, said(3, ps=1, worker=2))), unit=unit)
    assert gang.surplus == 0, "any pod may be the ps"
    assert replace(gang, parts=()).surplus == 2


@pytest.mark.parametrize(("parts", "told"), [({"ps": 1, "worker": 2}, 1), ({"worker": 2}, 0)])
async def test_a_plan_that_ends_without_a_part_leaves_the_gang_in_part(
    parts: dict[str, int], told: int
) -> None:
    """Three workers sit, as many as the quorum: without the ps they are no gang."""
    run = [member(f"w{i}", "worker", on="n0", cpu=1) for i in range(3)]
    gang = gang_of(world(["n0"], [*run, member("ps", "ps")], said(3, **parts)))
    seated = [SimpleNamespace(uid=uid) for uid in ("uid-w2", "uid-ps")]
    preemption: Any = SimpleNamespace(
        id="f", key=KEY, seats={"uid-ps": "n0"}, yields=False, pods={}, plan=SimpleNamespace()
    )
    preemption.plan.seats = seated
    stub: Any = SimpleNamespace(warn=lambda *_: None, wall=lambda: 0.0, spawn=None)
    decided: list[Decision] = []
    term: Any = SimpleNamespace(settings=Settings(), evictor=stub, leadership=stub, clocks=stub)
    reading: Any = SimpleNamespace(present_gang=lambda _: gang, waiting=None)
    telling: Any = SimpleNamespace(
        notices=stub, background=stub, decisions=SimpleNamespace(decide=decided.append)
    )
    partly = PartlyBound(term, reading, telling, stub)
    partly.ended(preemption, "it was given up")
    assert len(decided) == told


def test_where_a_gang_stands_is_told_by_its_parts() -> None:
    run = [member(f"w{i}", "worker", on="n0", cpu=1) for i in range(3)]
    waits = [member("ps", "ps")]

    def standing(pods: list[Pod]) -> tuple[str, str]:
        found = status(described(gang_of(world(["n0"], pods, said(3, ps=1)))))
        return found.state, found.reason

    assert standing(run) == ("incomplete", "3 of 3 members exist, 0 of 1 of part 'ps'")
    assert standing([*run, *waits])[0] == "pending"
    assert standing([*run, replace(waits[0], node="n0")])[0] == "running"
