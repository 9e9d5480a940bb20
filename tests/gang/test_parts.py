"""Gangs of parts: planned, started and evicted, all of it or nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from itertools import combinations, product
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from extender.gang.bind_barrier.partial import PartlyBound
from extender.gang.incremental.victims import elastic_of
from extender.gang.plan.part_classes import by_part
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.gang.plan.suspension import looks_of
from extender.gang.plan.validity import member_problem
from extender.gang.tell.decisions import Decision
from extender.gang.tell.gang_status import described
from extender.gang.tell.preemption_state import PreemptionState
from extender.groups.resolver import Resolver
from extender.model.gang import Gang
from extender.model.objects import GangKey, GroupObject, Part, Pod, PodShape
from extender.model.plan import Code, Plan, Proof, Refusal
from extender.model.snapshot import Snapshot
from extender.sandbox.apiserver import ApiServer
from extender.sandbox.resources import OTHER_POD_GROUPS
from extender.settings.settings import GroupSettings, PlanSettings, SeatSettings, Settings
from tests.gang.rig import FAST, PODS, Rig
from tests.gang.statuses import status
from tests.gang.test_systems import NODES, decided, destroyed, until_only
from tests.gang.world import NOW, evicted, gang_key, group, node, pod, seats, snapshot
from tests.groups import owners, recorded
from tests.groups.build import snapshot as loose
from tests.groups.owners import job, jobset, jobset_pod, read, replicated

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


HIGH = [f"high-0-{i}" for i in range(4)]
LOW = [f"low-0-{i}" for i in range(4)]


@asynccontextmanager
async def bed() -> AsyncIterator[Rig]:
    patient = SeatSettings(bind_seconds=60.0, victim_slack_seconds=60.0)
    rig = Rig(replace(FAST, seats=patient))
    rig.server = ApiServer(bookmark_seconds=0.05, extra=OTHER_POD_GROUPS)
    async with rig:
        await rig.nodes(4)
        await rig.classes(low=1, high=100, top=1000)
        yield rig


async def started_group(rig: Rig, system: str, name: str) -> None:
    document = recorded.parts_document(system, 4, name)
    document["metadata"]["namespace"] = "default"
    path = f"/apis/{document['apiVersion']}/namespaces/default/podgroups"
    await rig.client.create(path, document)
    key = (system.partition("-")[0], "default", name)
    await rig.until(lambda: key in rig.cache.snapshot().groups, "the PodGroup is read")


async def started_member(rig: Rig, system: str, gang: str, i: int, cls: str, on: str = "") -> None:
    spec: dict[str, Any] = {
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}],
        "terminationGracePeriodSeconds": 0,
        "priorityClassName": cls,
    }
    if on:
        spec["nodeName"] = on
    elif not i:
        spec["nodeSelector"] = {"kubernetes.io/hostname": "n3"}
    meta = {"name": f"{gang}-{i}", **recorded.PARTS[system](i, 4, gang)}
    await rig.client.create(PODS, {"metadata": meta, "spec": spec})
    await rig.until(lambda: rig.cache.pod_named("default", f"{gang}-{i}") is not None, gang)


@pytest.mark.parametrize("system", recorded.PARTS)
async def test_three_that_would_fit_wait_for_the_one_that_is_not_there(system: str) -> None:
    async with bed() as rig:
        await started_group(rig, system, "high-0")
        for i in (1, 2, 3):
            await started_member(rig, system, "high-0", i, "high")
        for name in HIGH[1:]:
            assert (await rig.filter(name, *NODES)).node_names == []
        assert "incomplete" in rig.outcomes("high-0")
        part = "ps" if system == "volcano-tasks" else "master"
        assert f"0 of 1 of part '{part}'" in rig.messages("high-0")


@pytest.mark.parametrize("system", recorded.PARTS)
async def test_three_that_would_fit_wait_for_the_room_of_the_first(system: str) -> None:
    async with bed() as rig:
        for node in NODES[:3]:
            await rig.pod(f"low-{node}", cls="low", on=node)
        await rig.pod("keep", cls="top", on="n3")
        await started_group(rig, system, "high-0")
        for i in range(4):
            await started_member(rig, system, "high-0", i, "high")
        victims = {node: [f"low-{node}"] for node in NODES[:3]}
        outcome = await decided(rig, "high-0-1", **victims)
        assert outcome not in ("plan", "done"), rig.messages("high-0")
        for name in HIGH:
            assert (await rig.filter(name, *NODES)).node_names == []
        assert not destroyed(rig)
        await rig.remove("keep")
        gone = {"low-n0", "low-n1", "low-n2"}
        # Two of the three others are the quorum's: the third needs nobody to go for it.
        for _ in range(600):
            if len(rig.coordinator.reservations):
                break
            await rig.preempt("high-0-1", **victims)
            await rig.cache.wait_change(rig.cache.generation, 0.05)
        await rig.until(
            lambda: [f.state for f in rig.coordinator.reservations] == [PreemptionState.OPEN],
            "seats",
        )
        assert len(gone & await rig.names()) == 1
        seats = {}
        for name in HIGH:
            if names := (await rig.filter(name, *NODES)).node_names:
                (seats[name],) = names
        assert seats["high-0-0"] == "n3"
        assert len(seats) == 3
        for name, node in seats.items():
            await rig.bind(name, node)
        await rig.until(lambda: not len(rig.coordinator.reservations), "the plan ends")


@pytest.mark.parametrize("system", recorded.PARTS)
async def test_as_a_victim_it_goes_whole_once_every_part_runs(system: str) -> None:
    async with bed() as rig:
        await started_group(rig, system, "low-0")
        for i in range(4):
            await started_member(rig, system, "low-0", i, "low", NODES[i])
        await rig.pod("urgent", cls="high")
        await until_only(rig, "urgent", "urgent")


@pytest.mark.parametrize("system", recorded.PARTS)
async def test_as_a_victim_without_a_part_its_pods_are_single(system: str) -> None:
    async with bed() as rig:
        await started_group(rig, system, "low-0")
        for i in (1, 2, 3):
            await started_member(rig, system, "low-0", i, "low", NODES[i])
        await rig.pod("keep", cls="top", on="n0")
        await rig.pod("urgent", cls="high")
        victims = {node: [f"low-0-{i}"] for i, node in enumerate(NODES) if i}
        answer = await rig.preempt("urgent", **victims)
        assert answer.candidates.keys() == victims.keys(), "kube-scheduler may take any of them"


SINGLE = Settings(groups=GroupSettings(unit={"volcano": "single"}))


def ray(head: dict[str, Any] | None, **worker: Any) -> Gang:
    """A RayCluster of one head and three workers, which run; no head where that is None."""
    spec = {"workerGroupSpecs": [{"groupName": "small-group", "replicas": 3, "minReplicas": 3}]}
    row = read("ray-cluster", owners.document("ray-cluster", "g-0", spec))
    pods = [
        replace(recorded.pod("ray-cluster", i, 4), node=f"n{i}", started=1000.0, **worker)
        for i in (1, 2, 3)
    ]
    if head is not None:
        pods.append(replace(recorded.pod("ray-cluster", 0, 4), **head))
    (one,) = Resolver(GroupSettings()).resolve_all(loose(pods, [row]))
    return one


def test_workers_without_a_head_have_lost_nothing_together() -> None:
    assert not ray(None).goes_whole
    assert not ray({"created": 900.0}).goes_whole


def test_with_their_head_they_go_whole_and_where_it_waits_anew() -> None:
    assert ray({"node": "n0", "started": 1000.0}).goes_whole
    assert ray({"created": 5000.0}).goes_whole


def test_a_part_that_is_done_has_run() -> None:
    """A JobSet's driver has succeeded, and its Job does not say so yet."""
    row = read("jobset", jobset(replicated("driver"), replicated("w", each=2)))
    rows = [row, read("job", job("g-driver-0", 1)), read("job", job("g-w-0", 2))]
    runs = [_of("w", i, node=f"n{i}", phase="Running") for i in (0, 1)]
    over = _of("driver", 0, node="n9", phase="Succeeded")
    for pods, whole in (([*runs, over], True), (runs, False)):
        (one,) = Resolver(GroupSettings()).resolve_all(loose(pods, rows))
        assert one.goes_whole == whole


def _of(part: str, i: int, **more: Any) -> Pod:
    meta = jobset_pod(i, part, index=i)
    made = pod(f"{part}-{i}", labels=meta["labels"], annotations=meta["annotations"])
    return replace(made, namespace="ns", **more)


# -- one pod after the other ------------------------------------------------------------


def volcano(least: int = 4, **parts: int) -> GroupObject:
    """minMember and minTaskMember; by configuration such gangs go pod by pod."""
    listed = tuple(Part(name, each=count) for name, count in sorted(parts.items()))
    return GroupObject("volcano", "uid-g", "default", "g", least, parts=listed)


def task(name: str, of: str, on: str, priority: int = 0) -> Pod:
    notes = {"scheduling.k8s.io/group-name": "g", "volcano.sh/task-spec": of}
    return pod(name, on=on, annotations=notes, priority=priority)


def head_and_workers(row: GroupObject, workers: int, priority: int = 0) -> Gang:
    """A gang that goes pod by pod."""
    pods = [task("head", "head", "n0", priority)]
    pods += [task(f"w{i}", "worker", f"n{i + 1}", priority) for i in range(workers)]
    state = snapshot([], pods, [row], settings=SINGLE)
    state = replace(state, group_sources=frozenset({"volcano"}))
    (gang,) = Resolver(SINGLE.groups).resolve_all(state)
    return gang


def plan_of(row: GroupObject, others: int = 0, wanted: int = 2) -> Plan:
    """Room of a head and five workers of three, beside pods of higher priority."""
    pods = [task("head", "head", "n0"), *(task(f"w{i}", "worker", f"n{i + 1}") for i in range(5))]
    pods += [pod(f"o{i}", on=f"n{i + 6}", priority=1) for i in range(others)]
    pods += [pod(f"high-{i}", group="high", priority=9) for i in range(wanted)]
    nodes = [node(f"n{i}") for i in range(6 + others)]
    state = snapshot(nodes, pods, [row, group("high", wanted, priority=9)], settings=SINGLE)
    state = replace(state, group_sources=frozenset({"volcano"}))
    resolver = Resolver(SINGLE.groups)
    gang = resolver.resolve(gang_key("high"), state)
    found = Planner(SINGLE, resolver).plan(GangQuestion(gang, state))
    assert isinstance(found, Plan), found
    return found


def broken(plan: Plan) -> int:
    return sum(cost.value for cost in plan.costs if cost.level.startswith("gangs@"))


def test_the_surplus_of_a_part_goes_first() -> None:
    found = plan_of(volcano(head=1, worker=3))
    assert evicted(found) < {f"w{i}" for i in range(5)}
    assert broken(found) == 0


def test_beyond_the_surplus_the_gang_is_broken() -> None:
    assert broken(plan_of(volcano(head=1, worker=3), wanted=3)) == 1
    assert "head" not in evicted(plan_of(volcano(head=1, worker=3), wanted=5))


@pytest.mark.parametrize(("least", "surplus"), [(4, [0, 2]), (5, [0, 1]), (6, [0])])
def test_a_quorum_beyond_the_sum_of_the_parts_spares_what_no_part_needs(
    least: int, surplus: list[int]
) -> None:
    """Of head and five workers, of which three are needed: the head is none too many."""
    gang = head_and_workers(volcano(least, head=1, worker=3), 5)
    assert [each.surplus for each in elastic_of(gang)] == surplus
    assert [each.at_best for each in elastic_of(gang)] == surplus


def test_a_worker_beyond_every_minimum_goes_for_nothing() -> None:
    """Four of head and five workers are needed, of workers two: any worker is one too many."""
    found = plan_of(volcano(least=5, head=1, worker=2), others=1, wanted=1)
    assert evicted(found) < {f"w{i}" for i in range(5)}
    assert broken(found) == 0
    assert found.proof is Proof.OPTIMAL
    assert broken(plan_of(volcano(least=5, head=1, worker=2), wanted=2)) == 1


@pytest.mark.parametrize(("long", "proof"), [("b", Proof.OPTIMAL), ("a", Proof.BOUNDED)])
def test_what_parts_lose_at_each_others_expense_is_not_called_proved(
    long: str, proof: Proof
) -> None:
    """One of two and two of three may be too many, two in all: the search is told one of each.
    Where those of part a have run for long, two of part b would cost less."""
    row = volcano(least=3, a=1, b=1)
    names = ["a0", "a1", "b0", "b1", "b2"]
    pods = [
        replace(task(name, name[0], f"n{at}"), started=NOW - (9000 if name[0] == long else 60))
        for at, name in enumerate(names)
    ]
    high = [pod(f"high-{i}", group="high", priority=9) for i in range(2)]
    groups = [row, group("high", 2, priority=9)]
    nodes = [node(f"n{at}") for at in range(len(names))]
    state = snapshot(nodes, [*pods, *high], groups, settings=SINGLE)
    state = replace(state, group_sources=frozenset({"volcano"}))
    resolver = Resolver(SINGLE.groups)
    held = resolver.resolve(GangKey("volcano", "default", "g"), state)
    assert [(each.surplus, each.at_best) for each in elastic_of(held)] == [(1, 1), (1, 2)]
    gang = resolver.resolve(gang_key("high"), state)
    found = Planner(SINGLE, resolver).plan(GangQuestion(gang, state))
    assert isinstance(found, Plan)
    assert found.proof is proof


@pytest.mark.parametrize(("least", "parts"), [(4, {}), (4, {"head": 1, "worker": 3})])
@pytest.mark.parametrize("workers", [3, 2, 1])
def test_a_gang_that_lacks_a_member_has_nothing_left_to_lose(
    least: int, parts: dict[str, int], workers: int
) -> None:
    """Of head and three workers: at its quorum it is broken with the next pod, and below it no
    pod breaks it."""
    gang = head_and_workers(volcano(least, **parts), workers)
    surplus = [each.surplus for each in elastic_of(gang)]
    assert surplus == [0] * max(1, len(parts)) * (workers == 3)


@pytest.mark.parametrize(
    ("least", "parts", "found"),
    [
        (4, {"head": 1, "worker": 3}, [(["head"], True), (["w0", "w1", "w2", "w3"], True)]),
        (5, {"head": 1, "worker": 3}, [(["head", "w0", "w1", "w2", "w3"], False)]),
        (5, {}, [(["head", "w0", "w1", "w2", "w3"], False)]),
    ],
)
def test_what_loses_pods_one_by_one_has_its_own_pods_and_the_priority_of_its_gang(
    least: int, parts: dict[str, int], found: list[tuple[list[str], bool]]
) -> None:
    gang = head_and_workers(volcano(least, **parts), 4, priority=7)
    several = elastic_of(gang)
    assert [sorted(each.name for each in one.pods) for one in several] == [n for n, _ in found]
    assert [one.uids == frozenset(each.uid for each in one.pods) for one in several] == [
        p for _, p in found
    ]
    assert {one.priority for one in several} == {7}
