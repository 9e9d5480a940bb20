"""Plans for small clusters of every shape, against a model that tries every set of victims.

PODGROUP_SHAPES=N plays N clusters instead of some hundreds.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections import Counter
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from extender.gang.plan.build import MOST_LEADING
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.groups.resolver import Resolver
from extender.model.objects import (
    DisruptionBudget,
    GangKey,
    GroupObject,
    HostPort,
    LabelSelector,
    Part,
    Pod,
    PodAffinityTerm,
    PodShape,
    Requirement,
    SpreadConstraint,
)
from extender.model.plan import Plan, Proof, Refusal, Way
from extender.model.snapshot import Snapshot
from extender.settings.settings import Settings
from tests.gang import shapes
from tests.gang.shapes import Bound, World
from tests.gang.world import NOW, evicted, group, node, plan_for, pod, seats, snapshot

KEY = GangKey("volcano", "default", "g")
RESOLVER = Resolver(Settings().groups)
PLANNER = Planner(Settings(), RESOLVER)
CASES = int(os.environ.get("PODGROUP_SHAPES", "600"))
HOST = "kubernetes.io/hostname"
PORT = (HostPort("0.0.0.0", "TCP", 80),)


def labelled(key: str, value: str) -> LabelSelector:
    return LabelSelector((Requirement(key, "In", (value,)),))


def beside(app: str) -> tuple[PodAffinityTerm, ...]:
    return (PodAffinityTerm(HOST, labelled("app", app), ("default",)),)


SHAPES: dict[str, PodShape] = {
    "": PodShape(),
    "spread": PodShape(spread=(SpreadConstraint(HOST, 1, labelled("app", "job")),)),
    "affinity": PodShape(affinity=beside("target")),
    "self-affinity": PodShape(affinity=beside("job")),
    "head-affinity": PodShape(affinity=beside("job")),
    "helper-affinity": PodShape(affinity=beside("job")),
    "gpu": PodShape(),
    "anti-affinity": PodShape(anti_affinity=beside("noisy")),
    "shy": PodShape(),
    "host-port": PodShape(host_ports=PORT),
}
HELPERS = ("helper-affinity", "b")
OF_APP = {"shy": PodShape(anti_affinity=beside("job")), "port": PodShape(host_ports=PORT)}


def made(each: Bound) -> Pod:
    labels = {"app": each.app}
    if each.budget >= 0:
        labels["guard"] = f"b{each.budget}"
    found = pod(
        each.name,
        cpu=each.cpu,
        on=f"n{each.node}",
        priority=each.priority,
        labels=labels,
        started=NOW - each.age,
        deleting=NOW + 10 if each.leaving else 0.0,
        shape=OF_APP.get(each.app, PodShape()),
        group="whole" if each.gang else "",
    )
    if each.app == "gpu":
        found = replace(found, requests=tuple(sorted((*found.requests, ("gpu", 1)))))
    return replace(found, phase="Pending" if each.pending else "Running", unready=each.unready)


def state_of(here: World) -> Snapshot:
    members = [
        pod(
            f"{part}{i}",
            cpu=cpu,
            priority=here.urgent,
            labels={"app": "worker" if here.rule == "head-affinity" and part == "b" else "job"},
            annotations={"scheduling.k8s.io/group-name": "g", "volcano.sh/task-spec": part},
            shape=PodShape() if (here.rule, part) == HELPERS else SHAPES[here.rule],
        )
        for part, (count, _, cpu) in here.parts.items()
        for i in range(count)
    ]
    if here.rule == "gpu":
        members = [
            replace(each, requests=tuple(sorted((*each.requests, ("gpu", 1)))))
            if each.name.startswith("a")
            else each
            for each in members
        ]
    parts = tuple(Part(name, each=least) for name, (_, least, _) in here.parts.items())
    groups = [GroupObject("volcano", "uid-g", "default", "g", here.quorum, parts=parts)]
    if size := sum(each.gang for each in here.bound):
        groups.append(group("whole", size))
    budgets = [
        DisruptionBudget(f"b{i}", "default", f"b{i}", labelled("guard", f"b{i}"), allowed, healthy)
        for i, (allowed, healthy) in enumerate(zip(here.allowed, here.healthy, strict=True))
    ]
    nodes = [node(f"n{at}", cpu=here.cpus, gpu=1) for at in range(here.nodes)]
    state = snapshot(nodes, [*map(made, here.bound), *members], groups, budgets=budgets)
    return replace(state, group_sources=frozenset({"volcano", "core"}))


def asked(here: World) -> Plan | Refusal:
    state = state_of(here)
    return PLANNER.plan(GangQuestion(RESOLVER.resolve(KEY, state), state))


def changed(here: World, way: Way) -> list[World]:
    """Return clusters as the hint has them, of which one has to do."""
    if way.priority is not None:
        return [dataclasses.replace(here, urgent=way.priority)]
    assert way.text.startswith("free room"), way.text
    room = max(cpu for _, _, cpu in here.parts.values()) * 4
    larger = dataclasses.replace(here, cpus=here.cpus + room)
    return [larger, dataclasses.replace(larger, nodes=here.nodes + 1)]


SPARED = re.compile(
    r"cheaper only with .* for (\d+) more members?\b.*: "
    r"(?:pod default/(\S+)|\d+ pods? of \S+) could stay then"
)


def spared_wrongly(here: World, told: str, gone: Sequence[Bound]) -> str:
    """Return what is wrong with the members that would spare a victim, "" for nothing."""
    found = SPARED.fullmatch(told)
    assert found is not None, told
    number, name = int(found[1]), found[2]
    rest = [each for each in gone if (each.name != name if name else not each.gang)]
    assert len(rest) < len(gone), told
    if not shapes.seats_without(here, rest, number):
        return f"more than {number}: {told}"
    if "in the same topology domain" in told:
        return ""  # elsewhere fewer may do
    return f"fewer do: {told}" if shapes.seats_without(here, rest, number - 1) else ""


def judged(here: World) -> str:
    """Say how good the plan is; fails where it breaks a rule, or a proof is false."""
    answer = asked(here)
    best = shapes.least_loss(here)
    if isinstance(answer, Refusal):
        unproved = answer.message.startswith("no solution") or "no placement" in answer.message
        assert best is None or unproved, f"{best} will do: {answer.message}"
        for way in answer.ways:
            assert any(map(shapes.least_loss, changed(here, way))), f"{way.text} does not help"
        return "none" if best is None else "missed"
    assert isinstance(answer, Plan)
    names = {victim.name for victim in answer.victims}
    gone = [each for each in here.bound if each.name in names]
    seats = [(seat.name[0], int(seat.node[1:])) for seat in answer.seats]
    assert all(shapes.may_go(here, each) for each in gone)
    assert sum(each.gang for each in gone) in (0, sum(each.gang for each in here.bound))
    assert shapes.within_budgets(here, gone)
    assert shapes.is_quorum(here, seats)
    at_once = not gone and not answer.waits_for
    assert shapes.seats_hold(here, gone, seats, at_once=at_once)
    assert best is not None
    assert shapes.loss(here, gone) >= best
    assert not (answer.spared and spared_wrongly(here, answer.spared, gone))
    if answer.proof is Proof.OPTIMAL:
        assert shapes.loss(here, gone) == best, f"{sorted(names)} goes, {best} will do"
        return "proved"
    return "least" if shapes.loss(here, gone) == best else "more"


def test_no_rule_is_broken_and_no_proof_is_false() -> None:
    seen: Counter[str] = Counter()
    by_rule: Counter[str] = Counter()
    for seed in range(CASES):
        here = shapes.world(seed)
        try:
            how = judged(here)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {here}") from error
        seen[how] += 1
        by_rule[f"{here.rule or 'room'} {how}"] += 1
    print(dict(seen), dict(sorted(by_rule.items())))
    assert seen["missed"] + seen["more"] < CASES / 20
    assert {by_rule[f"spread {how}"] for how in ("missed", "more", "least")} == {0}
    assert seen["proved"] > CASES / 4


def test_a_pod_of_a_gang_makes_no_sure_room_where_a_budget_keeps_another_pod_of_it() -> None:
    here = World(
        rule="",
        nodes=3,
        bound=(
            Bound("urgent", 0, 4, 50, "other"),
            Bound("guarded", 1, 1, shapes.GANG_PRIORITY, "other", budget=0, gang=True),
            Bound("free", 2, 1, shapes.GANG_PRIORITY, "other", gang=True),
        ),
        parts={"a": (1, 1, 4)},
        quorum=1,
        allowed=(0,),
        healthy=(False,),
    )
    assert shapes.least_loss(here) == shapes.loss(here, here.bound[:1])
    assert judged(here) == "proved"


WHOLE = shapes.GANG_PRIORITY
OF_WHOLE = [
    Bound(f"whole-{at}", at, cpu, WHOLE, "job", gang=True) for at, cpu in enumerate((4, 1, 4))
]


@pytest.mark.parametrize(
    ("bound", "members", "allowed"),
    [
        ([OF_WHOLE[0], OF_WHOLE[1], dataclasses.replace(OF_WHOLE[2], cpu=0)], (2, 1), ()),
        (OF_WHOLE, (2, 1), ()),
        (
            [
                Bound("other-0", 0, 2, 200, "other"),
                Bound("guarded", 1, 2, 0, "job", budget=0),
                Bound("job-0", 2, 0, 0, "job"),
                Bound("job-1", 2, 0, 5, "job"),
            ],
            (1, 3),
            (0,),
        ),
    ],
    ids=["seats have to move", "a gang has to go, and seats to move", "two pods have to go"],
)
def test_it_is_decided_which_of_the_pods_go_that_spread_counts(
    bound: list[Bound], members: tuple[int, int], allowed: tuple[int, ...]
) -> None:
    """The nodes were struck out on which one answer failed, for all members alike, and "no
    solution was found" was told."""
    count, cpu = members
    here = World(
        rule="spread",
        nodes=3,
        bound=tuple(bound),
        parts={"a": (count, count, cpu)},
        quorum=count,
        allowed=allowed,
        healthy=(False,) * len(allowed),
    )
    assert judged(here) == "proved"


@pytest.mark.parametrize("beside", [50, 200], ids=["another may go", "another stays"])
def test_members_open_a_domain_once_all_pods_like_them_are_gone(beside: int) -> None:
    here = World(
        rule="self-affinity",
        nodes=2,
        bound=(Bound("like", 0, 1, 0, "job"), Bound("other", 0, 3, beside, "other")),
        parts={"a": (2, 2, 2)},
        quorum=2,
        allowed=(),
        healthy=(),
    )
    assert shapes.least_loss(here) == shapes.loss(here, here.bound[:1])
    assert judged(here) == "proved"


def test_nothing_is_proved_where_more_pods_have_to_go_than_are_tried() -> None:
    like = tuple(Bound(f"like-{i}", 0, 0, 0, "job") for i in range(MOST_LEADING + 1))
    here = World(
        rule="self-affinity",
        nodes=2,
        bound=(*like, Bound("other", 0, 3, 50, "other")),
        parts={"a": (2, 2, 2)},
        quorum=2,
        allowed=(),
        healthy=(),
    )
    plan = asked(here)
    assert isinstance(plan, Plan)
    assert [victim.name for victim in plan.victims] == ["other"]
    assert plan.proof is Proof.BOUNDED
    stays = dataclasses.replace(here, bound=(*like, Bound("other", 0, 3, 200, "other")))
    refusal = asked(stays)
    assert isinstance(refusal, Refusal)
    assert refusal.message.startswith("no solution was found")


def test_members_share_the_domain_that_one_kind_of_them_opens() -> None:
    """The other kind does not match: both are seated where there is room for both."""
    here = World(
        rule="head-affinity",
        nodes=2,
        bound=(Bound("firm", 0, 2, 200, "other"),),
        parts={"a": (1, 1, 1), "b": (1, 1, 2)},
        quorum=2,
        allowed=(),
        healthy=(),
    )
    assert judged(here) == "proved"


def test_members_open_one_domain_where_seats_in_several_fail() -> None:
    """A pod like them goes, and then all of them have to sit on one node."""
    here = World(
        rule="self-affinity",
        nodes=2,
        bound=(
            Bound("like", 0, 1, 0, "job"),
            Bound("fill-0", 0, 2, 5, "other"),
            Bound("fill-1", 1, 2, 5, "other"),
        ),
        parts={"a": (2, 2, 2)},
        quorum=2,
        allowed=(),
        healthy=(),
    )
    assert judged(here) == "least"


def test_members_share_a_domain_where_one_kind_requires_another_beside_it() -> None:
    """Seats in two zones failed, and nodes were struck out one by one: a pod went for nothing."""
    zone = "zone"
    job = {"app": "job"}
    term = PodAffinityTerm(zone, labelled("app", "job"), ("default",))
    nodes = [node("n0", labels={zone: "a"}), node("n1", cpu=3, labels={zone: "b"})]
    nodes.append(node("n2", cpu=1, labels={zone: "a"}))
    helper = pod("helper", cpu=0, priority=shapes.URGENT, group="g", labels=job)
    worker = pod(
        "worker", priority=shapes.URGENT, group="g", labels=job, shape=PodShape(affinity=(term,))
    )
    bound = [
        pod("going", cpu=0, on="n0", labels=job, deleting=NOW + 10),
        pod("low", cpu=2, on="n0"),
    ]
    plan = plan_for(snapshot(nodes, [*bound, worker, helper], [group("g", 2)]), "g")
    assert evicted(plan) == set()
    assert isinstance(plan, Plan)
    assert plan.proof is Proof.OPTIMAL
    assert seats(plan) == {"worker": "n1", "helper": "n1"}


@pytest.mark.parametrize(("cpu", "firm"), [(3, 1), (1, 2)])
def test_no_pod_goes_for_members_that_fit_in_one_order_only(cpu: int, firm: int) -> None:
    """A worker opens a domain if it is the first; kube-scheduler may bind the helper before."""
    here = World(
        rule="helper-affinity",
        nodes=2,
        bound=(Bound("low", 1, 3, 0, "other"), Bound("firm", 0, firm, 200, "other")),
        parts={"a": (1, 1, 3), "b": (1, 1, cpu)},
        quorum=2,
        allowed=(),
        healthy=(),
    )
    answer = asked(here)
    if cpu == 3:
        assert isinstance(answer, Refusal)
    else:
        assert evicted(answer) == {"low"}
        assert set(seats(answer).values()) == {"n1"}


def test_no_pod_goes_where_members_fit_in_one_order_once_a_pod_has_terminated() -> None:
    here = World(
        rule="helper-affinity",
        nodes=2,
        bound=(
            Bound("low-0", 0, 1, 0, "other"),
            Bound("going", 1, 1, 200, "other", leaving=True),
            Bound("low-1", 1, 2, 0, "other"),
        ),
        parts={"a": (1, 1, 2), "b": (1, 1, 2)},
        quorum=2,
        allowed=(),
        healthy=(),
    )
    answer = asked(here)
    assert evicted(answer) == set()
    assert set(seats(answer).values()) == {"n0", "n1"}
