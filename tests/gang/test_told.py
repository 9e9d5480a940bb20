"""What is told: under a flood, of objects, of one, of what runs in part."""

from __future__ import annotations

from typing import Any

import pytest

from extender.cli.why_pod import story_of_pod
from extender.gang.plan.assemble import assemble
from extender.gang.runtime.clocks import Clocks
from extender.gang.status.group_conditions import condition_of
from extender.gang.status.notices import (
    MOST_MAKERS,
    MOST_OBJECTS,
    OwnerWarnings,
    objects_of,
    words_of,
)
from extender.gang.tell.decisions import (
    DECISION_BYTES,
    Decision,
    Decisions,
    Outcome,
    SearchInput,
    Verb,
)
from extender.gang.tell.gang_status import Facts
from extender.gang.tell.leaving import after_eviction
from extender.gang.tell.ring import Ring
from extender.gang.tell.story import story_of_gang
from extender.model.objects import GangKey, Owner, Pod
from extender.model.plan import Seat, Victim
from extender.model.snapshot import Snapshot
from tests.gang.rig import Rig, full_cluster
from tests.gang.statuses import status


def decision(outcome: Outcome, gang: str, message: str = "why", **more: object) -> Decision:
    return Decision(
        time=0.0,
        gang=f"pod-group:{gang}",
        verb=Verb.FILTER,
        outcome=outcome,
        message=message,
        **more,  # type: ignore[arg-type]
    )


def test_a_flood_of_refusals_pushes_out_no_real_decision() -> None:
    decisions = Decisions(size=10)
    decisions.add(decision(Outcome.PLAN, "team/job"))
    decisions.add(decision(Outcome.REFUSAL, "team/other"))
    for number in range(1000):
        decisions.add(decision(Outcome.REFUSAL, f"flood/g{number}"))
    decisions.add(decision(Outcome.DONE, "team/job"))
    kept = [(each.outcome, each.gang) for each in decisions]
    assert kept[0] == (Outcome.DONE, "pod-group:team/job")
    assert kept[-1] == (Outcome.PLAN, "pod-group:team/job")
    assert (Outcome.REFUSAL, "pod-group:team/other") in kept
    assert len(kept) == 12
    assert decisions.forgotten == {"refusal": 991}


def test_a_repeated_refusal_is_kept_once_and_a_new_reason_again() -> None:
    decisions = Decisions()
    assert decisions.add(decision(Outcome.REFUSAL, "a/g"))
    assert not decisions.add(decision(Outcome.REFUSAL, "a/g"))
    assert decisions.add(decision(Outcome.REFUSAL, "a/g", "another"))
    assert decisions.add(decision(Outcome.PLAN, "a/g"))
    assert decisions.add(decision(Outcome.REFUSAL, "a/g", "another"))
    assert len(list(decisions)) == 4


def test_decisions_are_bounded_by_bytes() -> None:
    decisions = Decisions(size=10_000)
    victims = tuple(Victim(f"u{i}", "a", f"v{i}", "n", 0) for i in range(10_000))
    for number in range(100):
        decisions.add(decision(Outcome.PLAN, f"a/g{number}", victims=victims))
    assert decisions.size <= DECISION_BYTES
    assert 5 < len(list(decisions)) < 30


def test_the_question_behind_a_plan_outlives_those_behind_refusals() -> None:
    decisions = Decisions(questions=4)
    for generation in range(100):
        snapshot = Snapshot(generation=generation)
        key = GangKey("pod-group", "a", f"g{generation}")
        decisions.searched(SearchInput(key, snapshot, (), {}, {}))
        if generation == 7:
            decisions.add(decision(Outcome.PLAN, "a/g7", generation=7))
    assert decisions.question(7) is not None
    assert decisions.question(8) is None
    assert decisions.question(99) is not None


def test_who_has_most_in_a_ring_loses_its_oldest() -> None:
    ring: Ring[str] = Ring(4, 1000)
    for number, share in enumerate("aabbbbb"):
        ring.add(number, f"{share}{number}", share, 10)
    assert [item for _, item in ring.newest_first()] == ["b6", "b5", "a1", "a0"]
    ring.add(7, "big", "a", 990)
    assert [item for _, item in ring.newest_first()] == ["big", "b6"]
    ring.add(8, "huge", "c", 5000)
    assert [item for _, item in ring.newest_first()] == ["huge"]


def test_an_object_is_warned_once_a_minute() -> None:
    now = 0.0
    warnings = OwnerWarnings(Clocks(lambda: now))
    assert warnings.due("a", "default", "GangBroken")
    assert not warnings.due("a", "default", "GangDoesNotFit")
    assert warnings.due("b", "default", "GangBroken")
    now = 61.0
    assert warnings.due("a", "default", "GangBroken")
    assert warnings.told == {"GangBroken": 3}
    assert warnings.withheld == {"GangDoesNotFit": 1}
    for number in range(2 * MOST_OBJECTS):
        warnings.due(f"u{number}", "default", "GangBroken")
    assert warnings.told["GangBroken"] <= MOST_OBJECTS + 2


def test_what_stopped_half_way_is_told_whatever_was_told_before() -> None:
    """It is told once: a gang of four that had just been refused never read of it."""
    now = 0.0
    warnings = OwnerWarnings(Clocks(lambda: now))
    for number in range(2 * MOST_OBJECTS):
        warnings.due(f"u{number}", "default", "GangDoesNotFit")
    assert not warnings.due("new", "default", "GangDoesNotFit")
    assert warnings.due("u1", "default", "PreemptionIncomplete")
    assert warnings.due("new", "default", "GangBroken")
    assert not warnings.due("u1", "default", "PreemptionIncomplete")
    now = 61.0
    assert warnings.due("u1", "default", "PreemptionIncomplete")
    for number in range(2 * MOST_OBJECTS):
        warnings.due(f"u{number}", "default", "GangBroken")
    assert warnings.told["GangBroken"] <= MOST_OBJECTS + 1


def test_a_namespace_with_thousands_of_pods_leaves_others_their_warnings() -> None:
    """Nor does it have more of its own told than there were before."""
    now = 0.0
    warnings = OwnerWarnings(Clocks(lambda: now))
    for number in range(2 * MOST_OBJECTS):
        warnings.due(f"u{number}", "crowd", "GangDoesNotFit", "no room")
    for number in range(100):
        assert warnings.due(f"o{number}", "other", "GangDoesNotFit", "no room")
        assert not warnings.due(f"more{number}", "crowd", "GangDoesNotFit", "no room")
        assert not warnings.due(f"u{number}", "crowd", "GangDoesNotFit", "no room now")
    assert warnings.told["GangDoesNotFit"] == MOST_OBJECTS + 100
    now = 61.0
    for number in range(2 * MOST_OBJECTS):
        warnings.due(f"v{number}", "crowd", "GangDoesNotFit", "no room")
    assert not warnings.due("o0", "other", "GangDoesNotFit", "no room"), "it can read that still"
    assert warnings.said("o0", "GangDoesNotFit")


def test_only_refusals_that_an_owner_can_use_are_told() -> None:
    message = "PodGroup a/g does not exist"
    told = words_of(decision(Outcome.REFUSAL, "a/g", message, code="conflict"))
    assert told is not None
    assert told[0] == "GangNeedsRepair"
    assert "PodGroup a/g does not exist" in told[1]
    assert words_of(decision(Outcome.REFUSAL, "a/g", code="stale")) is None


async def test_an_owner_reads_why_its_gang_does_not_start(rig: Rig) -> None:
    await full_cluster(rig)
    for i in range(2):
        await rig.pod(f"lost-{i}", cls="top", group="nowhere")
    events = "/api/v1/namespaces/default/events"
    for _ in range(3):
        await rig.filter("lost-0", "n0", "n1")
    found: list[str] = []
    while not found:
        found = [
            f"{item['involvedObject']['name']}: {item['message']}"
            for item in (await rig.client.get(events))["items"]
            if item["reason"] == "GangNeedsRepair"
        ]
    assert any("does not exist" in each for each in found)
    assert len(found) <= 2


EVENTS = "/api/v1/namespaces/default/events"
EMPTY = assemble(lambda pod: None, nodes=(), pods=(), now=0.0)
JOBSET = {"jobset.sigs.k8s.io/jobset-name": "train", "jobset.sigs.k8s.io/jobset-uid": "uid-train"}


async def told(rig: Rig, *wanted: tuple[str, str, str]) -> list[dict[str, Any]]:
    """Events, once these (kind, name, reason) are among them."""
    while True:
        items: list[dict[str, Any]] = (await rig.client.get(EVENTS))["items"]
        found = {
            (each["involvedObject"]["kind"], each["involvedObject"]["name"], each["reason"])
            for each in items
        }
        if found.issuperset(wanted):
            return items


async def test_podgroup_job_and_jobset_read_why_their_gang_waits(rig: Rig) -> None:
    await full_cluster(rig)
    await rig.group("large", 3, "top")
    for i in range(3):
        await rig.pod(f"large-{i}", cls="top", group="large", labels=JOBSET, job=f"train-{i // 2}")
    await rig.until(lambda: len(rig.cache.store.pods.by_uid) == 7, "seven pods")
    for _ in range(3):
        await rig.filter("large-0", "n0", "n1")
    reason = "GangDoesNotFit"
    items = await told(
        rig,
        ("PodGroup", "large", reason),
        ("JobSet", "train", reason),
        ("Job", "train-0", reason),
        ("Job", "train-1", reason),
    )
    about = [each for each in items if each["involvedObject"]["kind"] != "Pod"]
    assert len(about) == 4, "each once a minute"
    assert all("cannot fit: " in each["message"] for each in about)
    (jobset,) = (each for each in about if each["involvedObject"]["kind"] == "JobSet")
    assert jobset["involvedObject"]["uid"] == "uid-train"
    assert jobset["involvedObject"]["apiVersion"] == "jobset.x-k8s.io/v1alpha2"


async def test_every_member_reads_why_its_gang_waits(rig: Rig) -> None:
    """`kubectl describe` of any of them: only the first four had an event."""
    await full_cluster(rig)
    await rig.group("wide", 9, "top")
    for i in range(9):
        await rig.pod(f"wide-{i}", cls="top", group="wide")
    await rig.until(lambda: len(rig.cache.store.pods.by_uid) == 13, "thirteen pods")
    await rig.filter("wide-0", "n0", "n1")
    await told(rig, *(("Pod", f"wide-{i}", "GangDoesNotFit") for i in range(9)))


async def test_names_of_other_namespaces_are_not_told_to_the_preemptors_owner(rig: Rig) -> None:
    await rig.client.create("/api/v1/namespaces", {"metadata": {"name": "secret"}})
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}
    spec = {"nodeName": "n0", "priorityClassName": "low", "containers": [container]}
    pods = "/api/v1/namespaces/secret/pods"
    await rig.client.create(pods, {"metadata": {"name": "merger-0"}, "spec": spec})
    await rig.pod("low-1", cls="low", on="n1")
    await rig.gang("high", 2, "high")
    await rig.until(lambda: len(rig.cache.store.pods.by_uid) == 4, "all")
    await rig.preempt("high-0", n0=[], n1=["low-1"])
    items = await told(rig, ("PodGroup", "high", "GangPreempting"))
    (text,) = {each["message"] for each in items if each["reason"] == "GangPreempting"}
    assert "pod default/low-1, 1 pod of other namespaces; at most 30 s of grace" in text
    assert "merger" not in "".join(each["message"] for each in items)


async def test_both_podgroups_read_of_a_preemption_once(rig: Rig) -> None:
    await full_cluster(rig)
    await rig.preempt("high-0", n0=["low-0"], n1=["low-1"])
    items = await told(
        rig,
        ("PodGroup", "high", "GangPreempting"),
        ("PodGroup", "low", "Preempted"),
        ("Pod", "low-0", "Preempted"),
        ("Pod", "low-1", "Preempted"),
    )
    (went,) = (
        each
        for each in items
        if (each["involvedObject"]["kind"], each["reason"]) == ("PodGroup", "Preempted")
    )
    assert "pod-group:default/high" in went["message"]
    assert went["message"].endswith("it is evicted as a whole")


async def test_a_waiting_member_has_one_reason_for_all_nodes(rig: Rig) -> None:
    """kube-scheduler counts equal reasons together: `kubectl describe pod` is one sentence."""
    await full_cluster(rig, grace=300)
    await rig.preempt("high-0", n0=["low-0"], n1=["low-1"])
    await rig.until(lambda: bool(rig.coordinator.reservations.holds()), "seats")
    result = await rig.filter("high-0", "n0", "n1")
    assert result.node_names == []
    (why,) = set(result.failed_and_unresolvable.values())
    assert why.startswith("pod-group:default/high: seat on n")
    assert ", " not in why, "kube-scheduler sets reasons apart by that"
    await rig.pod("alone-0", cls="top", group="nowhere")
    result = await rig.filter("alone-0", "n0", "n1")
    (why,) = set(result.failed_and_unresolvable.values())
    assert "PodGroup default/nowhere (scheduling.k8s.io) does not exist" in why


def test_a_gang_of_many_jobs_and_made_up_jobsets_costs_a_few_events() -> None:
    pods = [
        Pod(
            uid=f"u{i}",
            namespace="a",
            name=f"p{i}",
            owner=Owner("Job", f"j{i}", f"uj{i}"),
            labels={
                "jobset.sigs.k8s.io/jobset-name": f"s{i}",
                "jobset.sigs.k8s.io/jobset-uid": f"us{i}",
            },
        )
        for i in range(100)
    ]
    found = objects_of(GangKey("jobset", "a", "s"), pods, EMPTY)
    assert len(found) == 2 * MOST_MAKERS
    single = Pod(uid="u", namespace="a", name="p", owner=Owner("ReplicaSet", "r", "ur"))
    assert objects_of(GangKey("custom", "a", "s"), [single], EMPTY) == []


KEY = "pod-group:team/high"
POD = {"namespace": "team", "name": "low-0", "node": "n0", "uid": "u", "gang": "", "owner": None}


def gang(bound: int = 0, pending: int = 1, least: int = 1) -> dict[str, Any]:
    return {
        "gang": KEY,
        "minCount": least,
        "members": bound + pending,
        "bound": bound,
        "pending": pending,
        "startsWhole": True,
        "priorityAsPreemptor": 9,
        "problems": [],
        "notes": [],
    }


def preemption(state: str, waits: int = 0, key: str = KEY) -> dict[str, Any]:
    return {
        "gang": key,
        "plan": "p-1",
        "state": state,
        "priority": 9,
        "seats": [{**POD, "name": "high-0"}],
        "victimsLeft": [] if waits else [POD],
        "waitsFor": [POD] * waits,
    }


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("waiting", "waits for pod team/low-0 to end"),
        ("open", "the room is free, 1 member has no node yet"),
        ("planned", "its plan is being checked and recorded, nothing is evicted yet"),
    ],
)
def test_a_plan_of_one_seat_and_one_victim(state: str, said: str) -> None:
    story = story_of_gang(KEY, Facts([gang()], [preemption(state)], [], []))
    assert story is not None
    assert story.reason == said


@pytest.mark.parametrize(
    ("found", "plans", "said"),
    [
        (gang(bound=1, pending=0), [], "1 of 1 member has a node"),
        (gang(pending=0), [], "0 of 1 member exists"),
        (gang(least=2), [], "1 of 2 members exist"),
        (
            gang(),
            [preemption("waiting", waits=1)],
            "waits for pod team/low-0 to end; 1 seat is reserved",
        ),
    ],
)
def test_where_a_gang_of_one_stands(
    found: dict[str, Any], plans: list[dict[str, Any]], said: str
) -> None:
    assert status(found, plans).reason == said


def test_a_member_beyond_the_quorum() -> None:
    story = story_of_gang(KEY, Facts([gang(bound=1)], [], [], []))
    assert story is not None
    assert story.also == ("1 member beyond the quorum waits for kube-scheduler",)


def test_a_victim_that_was_chosen() -> None:
    plan = {
        "gang": "pod-group:team/other",
        "outcome": "plan",
        "victims": [{**POD, "gang": KEY, "reason": "its room is needed"}],
    }
    story = story_of_gang(KEY, Facts([gang(pending=0)], [], [], [plan | {"time": 0.0}]))
    assert story is not None
    assert story.also == (
        "1 of its pods was chosen as a victim for pod-group:team/other: its room is needed",
    )


def test_a_single_pod() -> None:
    pod = {
        **POD,
        "name": "web",
        "node": "",
        "priority": 1,
        "tried": True,
        "gated": False,
        "terminating": False,
        "scheduler": "default-scheduler",
    }
    beside = Facts([], [preemption("open")], [], [])
    assert "; 1 seat is not free for it" in story_of_pod(pod, beside).reason
    its_own = Facts([], [preemption("waiting", key="pod:team/web")], [], [])
    assert (
        story_of_pod(pod, its_own).reason == "its seat on n0 is held, 1 pod has to terminate first"
    )


def test_the_condition_of_a_podgroup() -> None:
    decision = Decision(
        time=0.0,
        gang=KEY,
        verb=Verb.LOOP,
        outcome=Outcome.PLAN,
        message="",
        victims=(Victim("u", "team", "low-0", "n0", 1),),
        seats=(Seat("v", "team", "high-0", "n0"),),
    )
    said = condition_of(decision)
    assert said is not None
    assert said.message == (
        "1 pod is being evicted to make room for 1 member; pod team/low-0; at most 30 s of grace. "
        "Expected to end by 1970-01-01T00:00:30Z. Next: nothing to do, nodes are reserved until "
        "all members have one"
    )


@pytest.mark.parametrize(
    ("owners", "said"),
    [
        ([""], "it has no owner, so it is not created again: create it again if it is wanted"),
        (
            ["", ""],
            "they have no owner, so they are not created again: create them again if they are "
            "wanted",
        ),
    ],
)
def test_pods_without_an_owner(owners: list[str], said: str) -> None:
    assert after_eviction([{"owner": owner} for owner in owners]) == said


@pytest.mark.parametrize("lives", [1, 2])
async def test_a_gang_that_runs_in_part_says_who_runs(rig: Rig, lives: int) -> None:
    await rig.gang("g", 2, "high")
    seat: list[str] = []
    while not seat:
        await rig.rounds(1)
        seat = list((await rig.filter("g-0", "n0", "n1")).node_names or ())
    await rig.bind("g-0", seat[0])
    await rig.until(lambda: bool(rig.cached("g-0").node), "it is seen bound")
    if lives > 1:
        await rig.restart()
    await rig.remove("g-1")
    await rig.until(lambda: "in-part" in rig.outcomes("g"), "it is told")
    assert "bound so far: g-0" in rig.messages("g")
