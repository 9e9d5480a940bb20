"""The thirty texts that users meet most, word for word, as they are rendered.

One row a text. A change of a text is a change of its row, and is read as a whole there.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from extender.gang.booking.bookings import _story
from extender.gang.controller.answering import IN_TURN
from extender.gang.controller.term import Readiness
from extender.gang.controller.waiting import Waiting
from extender.gang.core.preemption import late
from extender.gang.core.reservations import Preemption
from extender.gang.plan.booking import Booking
from extender.gang.plan.eviction_budget import EvictionBudget
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import SeatsQuestion
from extender.gang.plan.suspension import GiveUps
from extender.gang.runtime.clocks import Clocks
from extender.gang.status.group_conditions import condition_of
from extender.gang.status.notices import words_of
from extender.gang.tell.decisions import Decision, Outcome, Verb, of_plan, of_refusal
from extender.gang.tell.gang_status import Facts, described, victims_named
from extender.gang.tell.preemption_state import PreemptionState
from extender.gang.tell.story import Story, story_of_gang
from extender.groups.resolver import Resolver
from extender.model.gang import Gang
from extender.model.objects import (
    DisruptionBudget,
    LabelSelector,
    Pod,
    PodAffinityTerm,
    PodShape,
    Requirement,
    SpreadConstraint,
)
from extender.model.plan import Code, Plan, Refusal
from extender.model.snapshot import Snapshot
from extender.settings.settings import SeatSettings, Settings
from tests.gang.rig import Rig, full_cluster
from tests.gang.statuses import status
from tests.gang.test_planner import NODES, gang, waiting
from tests.gang.world import NOW, gang_key, group, node, plan_for, pod, snapshot

KEY = "pod-group:default/high"
APP = LabelSelector((Requirement("app", "In", ("high",)),))


def high(size: int = 4, **more: Any) -> list[Pod]:
    return waiting("high", size, **more)


def cluster(pods: Iterable[Pod], size: int = 4, **more: Any) -> Snapshot:
    """Four nodes of 4 CPU, and the gang ``high`` with its object."""
    nodes = more.pop("nodes", NODES)
    return snapshot(nodes, pods, [group("high", size), group("low")], **more)


def decided(state: Snapshot) -> Decision:
    answer = plan_for(state, "high")
    made = of_plan if isinstance(answer, Plan) else of_refusal
    return made(answer, time=NOW, verb=Verb.FILTER, seconds=0.0)  # type: ignore[arg-type]


def resolved(state: Snapshot) -> Gang:
    return Resolver(Settings().groups).resolve(gang_key("high"), state)


def refusal(code: Code, message: str) -> Decision:
    return of_refusal(
        Refusal(gang_key("high"), code, message), time=NOW, verb=Verb.FILTER, seconds=0.0
    )


FITS = cluster(high())
FULL = cluster([*gang("firm", 4, priority=200_000), *high()])
LARGE = cluster(high(6), 6)
"""Six members for four nodes."""
WITH_GPUS = [
    replace(each, allocatable=(*each.allocatable, ("nvidia.com/gpu", 8))) for each in NODES[2:]
]
GPU = cluster([replace(each, requests=(("cpu", 1000), ("nvidia.com/gpu", 8))) for each in high()])
"""Nodes of the cluster offer none."""
SOME_GPUS = cluster(
    [replace(each, requests=(("cpu", 1000), ("nvidia.com/gpu", 8))) for each in high()],
    nodes=[*NODES[:2], *WITH_GPUS],
)
HUGE = cluster(high(cpu=8))
PINNED = cluster(high(shape=PodShape(node_selector=(("zone", "b"),))))
AFFINE = cluster(
    high(
        labels={"app": "high"}, shape=PodShape(affinity=(PodAffinityTerm("zone", APP, ("other",)),))
    )
)
SPREAD = cluster(
    high(
        labels={"app": "high"},
        shape=PodShape(spread=(SpreadConstraint("zone", 1, APP, min_domains=4),)),
    ),
    nodes=[node(f"n{i}", labels={"zone": "ab"[i // 3]}) for i in range(4)],
)
NEVER = cluster([*gang("low", 4), *high(preempts=False)])
BUDGETED = cluster(
    [*gang("low", 4, labels={"app": "high"}), *high()],
    budgets=[DisruptionBudget("b", "default", "guard", APP, 0)],
)
FEW = cluster(high(3))
PREEMPTS = cluster([*gang("low", 4), *high()])
WAITS = cluster([*gang("low", 3), pod("ending", on="n3", deleting=NOW + 10), *high()])


def told(state: Snapshot) -> Callable[[], str]:
    return lambda: decided(state).message


def event(decision: Decision) -> str:
    words = words_of(decision)
    assert words is not None
    return " ".join(words)


def condition(decision: Decision) -> str:
    said = condition_of(decision)
    assert said is not None
    return f"{said.status} {said.reason}: {said.message}"


def story(
    state: Snapshot,
    *decisions: Decision,
    plan: dict[str, Any] | None = None,
    now: float | None = None,
) -> Story:
    plans = [plan] if plan else []
    told = to_builtins(list(decisions))
    facts = Facts([described(resolved(state))], plans, [], told, now=now)
    found = story_of_gang(KEY, facts)
    assert found is not None
    return found


def why(state: Snapshot, *decisions: Decision, plan: dict[str, Any] | None = None) -> str:
    """State, reason and next step, as ``why`` prints them."""
    found = story(state, *decisions, plan=plan)
    return f"{found.state} | {found.reason} | {found.next}"


def ended(outcome: Outcome, message: str) -> Decision:
    return Decision(time=NOW, gang=KEY, verb=Verb.LOOP, outcome=outcome, message=message)


def in_flight(state: str, victims: int = 4) -> dict[str, Any]:
    plan = plan_for(PREEMPTS, "high")
    assert isinstance(plan, Plan)
    left = to_builtins(plan.victims)[:victims]
    seats = to_builtins(plan.seats)
    named = {"plan": "p", "victimsLeft": left, "waitsFor": [], "seats": seats}
    return {"gang": KEY, "state": state, **named}


def row(state: Snapshot, plan: dict[str, Any]) -> str:
    """State and reason, as a row of ``gangs`` has them."""
    one = status(described(resolved(state)), [plan])
    return f"{one.state} | {one.reason}"


def waits(size: int | None, *, failed: bool = False) -> str:
    """What a gang is told that is not planned yet; ``size`` None: it is stated nowhere."""
    members = tuple(high())
    seen = Gang(gang_key("high"), members, size or len(members), size_known=size is not None)
    queue = Waiting(Clocks(lambda: 100.0), 2.0, 1.0, 30.0, lambda *_: True)
    queue.grown(seen.key)
    if failed:
        queue.failed(seen.key)
    found = queue.must_wait(seen, NOW)
    assert found is not None
    return found.message


def suspended() -> str:
    found = GiveUps(1, 600.0).gave_up(gang_key("high"), "looks", MEMBER_GONE, NOW)
    assert found is not None
    return found.told


def overdue(state: PreemptionState, victims: int, at: float) -> str:
    plan = plan_for(PREEMPTS, "high")
    assert isinstance(plan, Plan)
    preemption = Preemption(
        plan=plan,
        pods={each.uid: each for each in high()},
        seats={seat.uid: seat.node for seat in plan.seats},
        state=state,
        since=0.0,
        victims={victim.uid: victim for victim in plan.victims[:victims]},
    )
    return late(preemption, at, SeatSettings()) or ""


def cordoned() -> str:
    """Why a plan is made anew whose node was cordoned."""
    nodes = [replace(NODES[0], unschedulable=True), *NODES[1:]]
    state = cluster(high(), nodes=nodes)
    seats = {each.uid: f"n{at}" for at, each in enumerate(high())}
    planner = Planner(Settings(), Resolver(Settings().groups))
    return planner.check(SeatsQuestion(resolved(state), seats, state))


SEATED = cluster(gang("high", 4))
MEMBER_GONE = "member default/high-0 went away before it was bound"
STALE = SimpleNamespace(stale_for=lambda: 99.0)
LEFT = {"stateSeconds": 10.0, "secondsLeft": 240.0}
MIXED = [
    {"gang": gang, "namespace": namespace, "name": name, "lost": lost}
    for gang, namespace, name, lost in (
        ("pod-group:default/low", "default", "low-0", 7200),
        ("pod-group:default/low", "default", "low-1", 7200),
        ("", "default", "alone", 1800),
        ("", "secret", "merger", 3600),
    )
]
BOOKED = Booking(
    gang=gang_key("high"),
    priority=1,
    made=NOW,
    start=NOW + 600,
    seats={"uid-high-0": "n0"},
    requests={"uid-high-0": (("cpu", 3000),)},
    awaited=frozenset({"uid-low-0"}),
    domain=frozenset({"n0"}),
)
BUDGET = EvictionBudget(4)
BUDGET.spend("default", 3, NOW)

TAKEN = (
    "preempted by pod-group:default/high (priority 100), which runs as a whole once 2 pods are "
    "gone; "
)
EVENTS = {
    ("low-0", "Preempted"): TAKEN
    + "this pod (priority 1): its room on n0 is needed and its gang is evicted as a whole",
    ("low", "Preempted"): TAKEN + "it is evicted as a whole",
    ("high-0", "GangPreempting"): "2 pods are being evicted to make room for 2 members; "
    "pod-group:default/low (2 pods); at most 0 s of grace. Expected to end by TIME. Next: nothing "
    "to do, nodes are reserved until all members have one",
}

ROWS: dict[str, tuple[Callable[[], str], str]] = {
    "room lacks": (
        told(LARGE),
        "cannot fit: 4 of 6 members fit if every possible victim is evicted; high-0 and 5 like "
        "it (3 CPU): 2 short of cpu on 4 nodes (a member needs 3 CPU, the nearest lacks 2 "
        "CPU); 4 allowed nodes, room for 4 there",
    ),
    "more urgent pods": (
        told(FULL),
        "cannot fit: 0 of 4 members fit if every possible victim is evicted; high-0 and 3 like "
        "it (3 CPU): 4 short of cpu on 4 nodes (a member needs 3 CPU, the nearest lacks 2 "
        "CPU); 4 allowed nodes, room for 0 there",
    ),
    "no node offers it": (
        told(GPU),
        "no node accepts any member: high-0 and 3 like it (1 CPU, 8 nvidia.com/gpu): no node "
        "offers nvidia.com/gpu",
    ),
    "some nodes offer it": (
        told(SOME_GPUS),
        "cannot fit: 2 of 4 members fit if every possible victim is evicted; high-0 and 3 like "
        "it (1 CPU, 8 nvidia.com/gpu): 2 short of nvidia.com/gpu on 2 nodes (a member needs 8 "
        "nvidia.com/gpu, the nearest lacks 8 nvidia.com/gpu); 2 allowed nodes, room for 2 there",
    ),
    "too large": (
        told(HUGE),
        "no node accepts any member: high-0 and 3 like it (8 CPU): no node has 8 CPU (the "
        "largest: 4 CPU)",
    ),
    "no node accepts labels": (
        told(PINNED),
        "no node accepts any member: high-0 and 3 like it (3 CPU): 4 nodes: NodeAffinity: "
        "the node selector wants zone=b, the label is missing",
    ),
    "affinity": (
        told(AFFINE),
        "no node accepts any member: high-0 and 3 like it (3 CPU): 4 nodes: "
        "InterPodAffinity: the node has no label zone, which the required affinity to "
        "app=high needs",
    ),
    "spread": (
        told(SPREAD),
        "cannot fit: 2 of 4 members fit if every possible victim is evicted; high-0 and 3 like "
        "it (3 CPU): 2 short; 4 allowed nodes, room for 4 there; topology spread allows at "
        "most 1 of high-0 and 3 like it (3 CPU) in each of 2 domains, 4 seats are needed",
    ),
    "never preempts": (
        told(NEVER),
        "does not fit into free room, and its preemptionPolicy is Never",
    ),
    "budget of its victims": (
        told(BUDGETED),
        "cannot fit: room can be made only by exceeding a disruption budget (default/guard)",
    ),
    "budget of its namespace": (
        lambda: BUDGET.exceeded("default", 4, 0, NOW),
        "namespace default may have 4 pods evicted an hour (eviction.perNamespaceHour): 3 "
        "were evicted in the last hour, and this plan would evict 4",
    ),
    "incomplete": (
        told(FEW),
        "waits for members: 3 of 4 exist, nothing is evicted",
    ),
    "settling": (
        lambda: waits(None),
        "its size is stated nowhere: 4 members exist, and 1 s without a new one are waited for",
    ),
    "penalty": (
        lambda: waits(4, failed=True),
        "its last plan was given up; the next one is made 2 s after that",
    ),
    "suspended": (
        suspended,
        "no plan is made for pod-group:default/high until 2027-01-15T08:10:00Z or until the "
        "gang changes: 1 plan for it was given up in a row, the last one because member "
        "default/high-0 went away before it was bound",
    ),
    "turn": (
        lambda: IN_TURN,
        "it is planned in its turn: others are being planned",
    ),
    "booked": (
        lambda: _story(BOOKED).message,
        "booked start: its seats are on 1 node, and 1 pod there is waited for, by "
        "2027-01-15T08:10:00Z; no pod is evicted, and room that becomes free there is "
        "reserved for it",
    ),
    "stale": (
        lambda: Readiness(cast(Any, STALE), cast(Any, None), 60.0).stale() or "",
        "the cache is stale: a watch is down and has brought nothing for too long",
    ),
    "plan": (
        told(PREEMPTS),
        "4 seats, 4 pods to evict, optimal",
    ),
    "plan with wait": (
        told(WAITS),
        "4 seats, 3 pods to evict, optimal",
    ),
    "proof": (
        lambda: decided(PREEMPTS).explanation[-1],
        "proved: no other victims cost less at any level of the cost order",
    ),
    "victim's reason": (
        lambda: decided(PREEMPTS).victims[0].reason,
        "its room on n0 is needed and its gang is evicted as a whole",
    ),
    "ways": (
        lambda: "; ".join(way.text for way in decided(FULL).ways),
        "free room for 4 more of high-0 and 3 like it (3 CPU); a priority above 200000: "
        "enough pods that stay could then be evicted",
    ),
    "stays": (
        lambda: decided(FULL).explanation[0],
        "default/firm-0 stays on n0: priority 200000 is not below 100000",
    ),
    "not bound in time": (
        lambda: overdue(PreemptionState.OPEN, 0, 1e6),
        "4 members (high-0, high-1, high-2, high-3) did not bind within 60 s: the seats go back",
    ),
    "victim stays": (
        lambda: overdue(PreemptionState.WAITING, 1, 1e6),
        "low-0 did not go away within the grace period and 30 s (1 eviction not accepted)",
    ),
    "node cordoned": (
        cordoned,
        "high-0 on n0: NodeUnschedulable: the node is cordoned",
    ),
    "event: refused": (
        lambda: event(decided(LARGE)),
        "GangDoesNotFit cannot fit: 4 of 6 members fit if every possible victim is evicted; "
        "high-0 and 5 like it (3 CPU): 2 short of cpu on 4 nodes (a member needs 3 CPU, the "
        "nearest lacks 2 CPU); 4 allowed nodes, room for 4 there. Next: any of: free room for "
        "2 more of high-0 and 5 like it (3 CPU); a quorum (minCount) of 4 or less. `what-if "
        "-f FILE` tries a change without making it",
    ),
    "event: incomplete": (
        lambda: event(decided(FEW)),
        "GangIncomplete waits for members: 3 of 4 exist, nothing is evicted. Next: create the "
        "members that are missing: look at its Job or JobSet, at quota and at admission; "
        "nothing is evicted before they exist",
    ),
    "event: gave up": (
        lambda: event(refusal(Code.PENALTY, waits(4, failed=True))),
        "GangGaveUp its last plan was given up; the next one is made 2 s after that. Next: "
        "no action is needed: it is planned for again soon; `decisions GANG` says why its plan "
        "failed",
    ),
    "condition: refused": (
        lambda: condition(decided(LARGE)),
        "False Unschedulable: cannot fit: 4 of 6 members fit if every possible victim is "
        "evicted; high-0 and 5 like it (3 CPU): 2 short of cpu on 4 nodes (a member needs 3 "
        "CPU, the nearest lacks 2 CPU); 4 allowed nodes, room for 4 there. Next: any of: free "
        "room for 2 more of high-0 and 5 like it (3 CPU); a quorum (minCount) of 4 or less. "
        "`what-if -f FILE` tries a change without making it",
    ),
    "condition: evicting": (
        lambda: condition(decided(PREEMPTS)),
        "False Preempting: 4 pods are being evicted to make room for 4 members; "
        "pod-group:default/low (4 pods, 300 GPU-seconds of work lost); at most 30 s of grace. "
        "Expected to end by 2027-01-15T08:00:30Z. Next: nothing to do, nodes are reserved "
        "until all members have one",
    ),
    "condition: gave up": (
        lambda: condition(ended(Outcome.GAVE_UP, MEMBER_GONE)),
        "False GaveUp: its last plan was given up; member default/high-0 went away before it "
        "was bound. Next: "
        "no action is needed: it is planned for again soon; `decisions GANG` says why "
        "its plan failed",
    ),
    "condition: scheduled": (
        lambda: condition(ended(Outcome.DONE, "")),
        "True Scheduled: as many pods as the group needs have a node",
    ),
    "why: refused": (
        lambda: why(FULL, decided(FULL)),
        "refused | cannot fit: 0 of 4 members fit if every possible victim is evicted | any "
        "of: free room for 4 more of high-0 and 3 like it (3 CPU); a priority above 200000: "
        "enough pods that stay could then be evicted. `what-if -f FILE` tries a change "
        "without making it",
    ),
    "why: incomplete": (
        lambda: why(FEW, decided(FEW)),
        "incomplete | 3 of 4 members exist | create the members that are missing: look at "
        "its Job or JobSet, at quota and at admission; nothing is evicted before they exist",
    ),
    "why: nothing decided": (
        lambda: why(FITS),
        "pending | nothing is decided yet | wait for kube-scheduler's next attempt; if none "
        "comes, compare its pods' schedulerName with the scheduler that has the extender "
        "(`check` compares configurations)",
    ),
    "why: planned": (
        lambda: why(PREEMPTS, plan=in_flight("planned")),
        "planned | its plan is being checked and recorded, nothing is evicted yet | "
        "no action is needed: "
        "evictions begin when the plan is recorded",
    ),
    "why: evicting": (
        lambda: why(PREEMPTS, plan=in_flight("evicting")),
        "evicting | waits for pod-group:default/low (4 pods, 300 GPU-seconds of work lost) to "
        "end | no action is needed: the victims are being evicted; `seats GANG` lists them",
    ),
    "why: opened": (
        lambda: why(PREEMPTS, plan=in_flight("open", 0)),
        "open | the room is free, 4 members have no node yet | "
        "no action is needed: kube-scheduler tries "
        "its members again; if one stays, `kubectl describe pod` says what kube-scheduler has "
        "against its seat",
    ),
    "why: replanned": (
        lambda: why(PREEMPTS, plan=in_flight("changing")),
        "changing | its plan no longer holds, another one is being made | "
        "no action is needed: another "
        "plan is being made",
    ),
    "why: gave up": (
        lambda: why(PREEMPTS, ended(Outcome.GAVE_UP, MEMBER_GONE)),
        "pending | its last plan was given up | no action is needed: it is planned for again soon; "
        "`decisions GANG` says why its plan failed",
    ),
    "why: done": (
        lambda: why(SEATED),
        "running | 4 of 4 members have a node | no action is needed: its quorum has nodes",
    ),
    "why: evicting, below": (
        lambda: "; ".join(story(PREEMPTS, plan=in_flight("evicting")).also),
        "at most 30 s of grace; 4 seats are reserved",
    ),
    "why: refused, below": (
        lambda: "; ".join(story(FULL, decided(FULL)).also),
        "high-0 and 3 like it (3 CPU): 4 short of cpu on 4 nodes (a member needs 3 CPU, the "
        "nearest lacks 2 CPU); 4 allowed nodes, room for 0 there",
    ),
    "why: expected end": (
        lambda: "; ".join(story(PREEMPTS, plan=in_flight("open", 0) | LEFT, now=NOW).also),
        "default/high-0 on n0, default/high-1 on n1, default/high-2 on n2 and 1 more; "
        "expected to end by 2027-01-15T08:04:00Z",
    ),
    "victims of several namespaces": (
        lambda: "; ".join(victims_named(MIXED)),
        "pod-group:default/low (2 pods, 4.0 GPU-hours of work lost); pod default/alone (0.5 "
        "GPU-hours of work lost); pod secret/merger (1.0 GPU-hours of work lost)",
    ),
    "the same, told in one of them": (
        lambda: "; ".join(victims_named(MIXED, "default")),
        "pod-group:default/low (2 pods, 4.0 GPU-hours of work lost); pod default/alone (0.5 "
        "GPU-hours of work lost); 1 pod of other namespaces (1.0 GPU-hours of work lost)",
    ),
    "all of a status": (
        lambda: status(described(resolved(PREEMPTS)), [in_flight("waiting") | LEFT], now=NOW).text,
        "waits for pod-group:default/low (4 pods, 300 GPU-seconds of work lost) to end; at "
        "most 30 s of grace; 4 seats are reserved. Expected to end by 2027-01-15T08:00:20Z. "
        "Next: no action is needed: the victims have their grace period; `seats GANG` lists them",
    ),
    "gangs: evicting": (
        lambda: row(PREEMPTS, in_flight("waiting")),
        "waiting | waits for pod-group:default/low (4 pods, 300 GPU-seconds of work lost) to "
        "end; at most 30 s of grace; 4 seats are reserved",
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_text_reads_so(name: str) -> None:
    made, text = ROWS[name]
    assert made() == text


async def test_events_of_a_preemption_read_so(rig: Rig) -> None:
    """On a victim, the object of its gang, and a member."""
    await full_cluster(rig)
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until_names("high-0", "high-1")
    found: dict[tuple[str, str], str] = {}
    while not EVENTS.keys() <= found.keys():
        for each in (await rig.client.get("/api/v1/namespaces/default/events"))["items"]:
            message = re.sub(r"by 20[-0-9T:]+Z", "by TIME", each["message"])
            found[each["involvedObject"]["name"], each["reason"]] = message
        await asyncio.sleep(0.01)
    assert {key: found[key] for key in EVENTS} == EVENTS


async def test_a_gang_that_runs_in_part_is_told_so(rig: Rig) -> None:
    await rig.gang("high", 2, "high")
    seat: list[str] = []
    while not seat:
        await rig.rounds(1)
        seat = list((await rig.filter("high-0", "n0", "n1")).node_names or ())
    await rig.bind("high-0", seat[0])
    await rig.until(lambda: bool(rig.cached("high-0").node), "it is seen bound")
    await rig.remove("high-1")
    await rig.until(lambda: "in-part" in rig.outcomes("high"), "it is told")
    (note,) = (each.message for each in rig.coordinator.decisions if each.outcome == "in-part")
    assert note == (
        "pod-group:default/high runs in part: member default/high-1 went away before it was "
        "bound; bound so far: high-0"
    )
