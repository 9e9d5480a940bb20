"""Members as an API server shows them: done, not to be placed, on nodes that are not known."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import asdict, replace

from extender.console.capture import Capture
from extender.console.gang_rows import GangReader
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.gang.plan.schedulers import seated_by
from extender.gang.runtime.clocks import Clocks
from extender.gang.status.notices import (
    PATIENCE_SECONDS,
    REPAIR_SECONDS,
    OwnerWarnings,
    RefusedGangs,
    words_of,
)
from extender.gang.tell.decisions import Decision, Outcome, Verb, of_refusal
from extender.gang.tell.gang_status import Facts, described
from extender.gang.tell.next_steps import NEXT_LOST
from extender.gang.tell.preemption_state import PreemptionState
from extender.gang.tell.story import Story, story_of_gang
from extender.groups.resolver import Resolver
from extender.model.gang import Gang
from extender.model.objects import GangKey, Node, Pod
from extender.model.owner_kinds import PARTLY_DONE
from extender.model.plan import Code, Refusal
from extender.model.snapshot import Snapshot
from extender.model.texts import rfc3339
from extender.sandbox.faults import Fault
from extender.settings.settings import Settings
from tests.gang.rig import FAST, HIGH, PODS, REAL_DELETE, Rig, refuse, until_no_records
from tests.gang.showing import Showing
from tests.gang.statuses import status
from tests.gang.test_squatters import open_seats
from tests.gang.test_systems import NODES, bed, gang, member, until_left
from tests.gang.test_victims_that_stay import offered, stays
from tests.gang.world import NOW, evicted, gang_key, group, node, plan_for, pod, snapshot
from tests.groups import recorded

SYSTEMS = [*(name for name in recorded.STATED if "leader" not in name), *recorded.OBJECTS]
"""But LeaderWorkerSets, whose pods do not end."""


async def one_is_done(rig: Rig, system: str) -> None:
    """low-0-3 has succeeded; its node is taken by somebody who stays."""
    await gang(rig, system, "low-0", "low", bound=True)
    status = {"phase": "Succeeded", "startTime": rfc3339(time.time())}
    await rig.client.patch(f"{PODS}/low-0-3/status", {"status": status})
    await rig.until(lambda: rig.cache.pod_named("default", "low-0-3") is None, "it is done")
    await rig.pod("keep", cls="top", on="n3")


@pytest.mark.parametrize("system", SYSTEMS)
async def test_the_three_go_together(system: str) -> None:
    async with bed(system) as rig:
        await one_is_done(rig, system)
        await rig.pod("urgent", cls="high")
        await until_left(rig, "urgent", "keep", "urgent", "low-0-3")


@pytest.mark.parametrize("system", SYSTEMS)
async def test_one_made_anew_takes_room_like_any_member(system: str) -> None:
    """Nobody of its gang goes, nor is it told to wait for one that is done."""
    async with bed(system) as rig:
        await rig.classes(least=-1)
        await one_is_done(rig, system)
        await rig.remove("low-0-2")
        await rig.pod("filler", cls="least", on="n2")
        await rig.client.create(PODS, member(system, 2, 4, "low-0", "low", bound=False))
        await until_left(rig, "low-0-2", "low-0-0", "low-0-1", "low-0-2", "low-0-3", "keep")
        await rig.until(
            lambda: [f.state for f in rig.coordinator.reservations] == [PreemptionState.OPEN],
            "seats",
        )
        assert (await rig.filter("low-0-2", *NODES)).node_names == ["n2"]


RESOLVER = Resolver(Settings().groups)


def members(gated: int, waiting: int, ending: int = 0) -> list[Pod]:
    shut = [replace(pod(f"shut-{i}", group="high"), gated=True) for i in range(gated)]
    ends = [pod(f"ends-{i}", group="high", deleting=NOW + 9) for i in range(ending)]
    return [*shut, *ends, *(pod(f"high-{i}", group="high") for i in range(waiting))]


def refused(pods: list[Pod], least: int, *schedulers: str) -> tuple[Gang, Refusal]:
    state = snapshot([node("n0")], pods, [group("high", least)])
    gang = RESOLVER.resolve(gang_key("high"), state)
    asked = seated_by(gang, schedulers) if schedulers else gang
    answer = Planner(Settings(), RESOLVER).plan(GangQuestion(asked, state))
    assert isinstance(answer, Refusal)
    return gang, answer


def story(gang: Gang, answer: Refusal) -> Story:
    decision = asdict(of_refusal(answer, time=0.0, verb=Verb.LOOP, seconds=0.0))
    told = story_of_gang(str(gang.key), Facts([described(gang)], [], [], [decision]))
    assert told is not None
    return told


def test_gated_members_are_told_of_and_nobody_is_sent_to_make_them() -> None:
    gang, answer = refused(members(gated=1, waiting=1), 2)
    assert answer.message == "waits for members: 1 of 2 exist, 1 more is gated, nothing is evicted"
    told = story(gang, answer)
    assert told.reason == "1 of 2 members exist, 1 more is gated"
    assert "removes them (spec.schedulingGates)" in told.next
    assert "create the members" not in told.next


def test_where_members_lack_beside_gated_ones_they_have_to_be_made() -> None:
    gang, answer = refused(members(gated=2, waiting=1), 4)
    assert "1 of 4 exist, 2 more are gated, nothing" in answer.message
    assert "create the members" in story(gang, answer).next


def test_members_that_terminate_are_told_in_words_that_fit_one_and_several() -> None:
    for ending, said in ((1, "1 more terminates"), (2, "2 more terminate")):
        gang, answer = refused(members(gated=1, waiting=0, ending=ending), 3)
        assert f"0 of 3 members exist, 1 more is gated, {said}" in story(gang, answer).reason
        assert "terminate" not in answer.message


def test_members_of_another_scheduler_exist_and_are_not_to_be_made() -> None:
    gang, answer = refused(members(gated=0, waiting=2), 2, "another")
    assert answer.message == (
        "waits for members: 0 of 2 exist whose scheduler asks, nothing is evicted; "
        "2 members wait for default-scheduler, which does not call this extender"
    )
    told = story(gang, answer)
    assert "let its pods name a scheduler that calls this extender" in told.next
    assert "create the members" not in told.next
    standing = status(described(gang))
    assert (standing.state, standing.members) == ("pending", 2), "it is all there"


def test_a_gang_that_nobody_asks_for_says_so_before_anything_is_decided() -> None:
    """With schedulerNames set its members are not looked at, so no decision ever tells."""
    gang, _ = refused(members(gated=0, waiting=2), 3)
    gang = replace(gang, min_count=2)
    asked = described(gang, {"default-scheduler"})
    elsewhere = described(gang, {"another"})
    for told, why, follows in (
        (asked, "nothing is decided yet", "wait for kube-scheduler's next attempt"),
        (
            elsewhere,
            "2 members wait for default-scheduler, which does not call this extender",
            "let its pods name a scheduler that calls this extender",
        ),
    ):
        standing = status(told)
        assert (standing.state, standing.reason) == ("pending", why)
        found = story_of_gang(str(gang.key), Facts([told], [], [], []))
        assert found is not None
        assert found.next.startswith(follows)


def test_pages_say_it_and_notice_when_it_changes() -> None:
    pods = members(gated=0, waiting=2)
    state = snapshot([node("n0")], pods, [group("high", 2)])
    reader = GangReader(RESOLVER)
    for schedulers, why in (
        ({"another"}, "2 members wait for default-scheduler, which does not call this extender"),
        ({"another", "default-scheduler"}, "nothing is decided yet"),
    ):
        capture = Capture(time=NOW, snapshot=state, schedulers=frozenset(schedulers))
        (row,) = reader.read(capture)
        assert row.status.what == why


JOBS = "/apis/batch/v1/namespaces/default/jobs"
LISTED = "/apis/batch/v1/jobs"
SPEC = {"parallelism": 2, "completions": 2, "completionMode": "Indexed", "template": {"spec": {}}}
DONE = {"succeeded": 1, "active": 1, "completedIndexes": "0"}
KEY = GangKey("pod-group", "default", "high")
AT_ONCE = replace(FAST, groups=replace(FAST.groups, settle_seconds=0.0))


async def job(rig: Rig, name: str, **status: Any) -> str:
    """A Job of two; return its uid."""
    made = await rig.client.create(JOBS, {"metadata": {"name": name}, "spec": SPEC})
    await rig.client.patch(f"{JOBS}/{name}/status", {"status": status})
    uid: str = made["metadata"]["uid"]
    return uid


async def job_member(rig: Rig, job: str, uid: str, index: int, *, on: str = "") -> None:
    """The pod of one index, in the PodGroup of its Job's name."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": uid, "controller": True}
    label = {"batch.kubernetes.io/job-completion-index": str(index)}
    spec: dict[str, Any] = {
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}],
        "schedulingGroup": {"podGroupName": job},
        "priorityClassName": job,
        "terminationGracePeriodSeconds": 0,
        **({"nodeName": on} if on else {}),
    }
    meta = {"name": f"{job}-{index}", "labels": label, "ownerReferences": [owner]}
    await rig.client.create(PODS, {"metadata": meta, "spec": spec})


async def waits(rig: Rig, **status: Any) -> None:
    """A pod of low priority on the one node; of a gang of two the replacement of index 1 waits,
    and the pod of index 0 has been cleaned up (f8 of issue 34)."""
    await rig.nodes(1)
    await rig.classes(low=1, high=100)
    await rig.group("high", 2, "high")
    uid = await job(rig, "high", **status)
    await rig.pod("low-0", cls="low", on="n0")
    await job_member(rig, "high", uid, 1)
    await rig.until(lambda: rig.cache.pod_named("default", "low-0") is not None, "low")
    await rig.until(lambda: rig.cache.pod_named("default", "high-1") is not None, "high")


def followed(rig: Rig) -> dict[str, int]:
    """Names of the Jobs whose status is kept, and how many of their pods are done."""
    rows = rig.cache.snapshot().groups.values()
    return {row.name: row.done for row in rows if row.source == PARTLY_DONE}


async def test_the_replacement_of_a_lost_member_waits_for_none_that_is_done() -> None:
    async with Rig(AT_ONCE) as rig:
        await waits(rig, **DONE)
        await rig.until(lambda: followed(rig) == {"high": 1}, "the Job is read")
        await rig.preempt("high-1", n0=["low-0"])
        await rig.until_names("high-1")


async def test_of_a_job_none_of_whose_pods_are_done_all_are_waited_for() -> None:
    async with Rig(AT_ONCE) as rig:
        await waits(rig, active=1)
        await rig.preempt("high-1", n0=["low-0"])
        assert rig.outcomes("high")[-1] == "incomplete"
        assert not followed(rig)
        await rig.client.patch(f"{JOBS}/high/status", {"status": DONE})
        await rig.until(lambda: followed(rig) == {"high": 1}, "the Job is read")
        # As kube-scheduler does: a refusal is kept for a while, the longer the longer it took.
        while "low-0" in await rig.names():
            await rig.preempt("high-1", n0=["low-0"])
            await asyncio.sleep(0.05)
        await rig.until_names("high-1")


async def test_a_job_that_has_ended_is_not_kept() -> None:
    """A cluster has a hundred thousand of them, and no gang waits for a pod of one."""
    ended = {"succeeded": 2, "conditions": [{"type": "Complete", "status": "True"}]}
    async with Rig() as rig:
        await job(rig, "before", **ended)
        await job(rig, "now", **DONE)
        await job(rig, "later", active=2)
        await rig.until(lambda: followed(rig) == {"now": 1}, "the Job is read")
        await rig.client.patch(f"{JOBS}/now/status", {"status": ended})
        await rig.until(lambda: not followed(rig), "the Job is let alone")
        await rig.restart()
        assert not followed(rig)


UNKNOWN_NODES = [node("n0"), node("n1"), node("full", cpu=3)]


def high(i: int, on: str = "", **fields: Any) -> Pod:
    return replace(pod(f"high-{i}", on=on, group="high", priority=9), **fields)


def world(*members: Pod, nodes: list[Node] = UNKNOWN_NODES) -> Snapshot:
    low = [pod(f"low-{each}", on=each) for each in ("n0", "n1")]
    low += (
        [] if any(each.node == "full" for each in members) else [pod("same", on="full", priority=9)]
    )
    return snapshot(nodes, [*low, *members], [group("high", 2)])


UNKNOWN = {
    "never-started": high(0, "gone", started=0.0, phase="Pending"),
    "started": high(0, "gone"),
    "started-long-ago": high(0, "gone", started=NOW - 3600),
}
OTHERS = {
    "ends": (high(0, "gone", deleting=NOW + 30), 2),
    "failed": (high(0, "gone", phase="Failed"), 2),
    "on-a-known-node": (high(0, "full"), 1),
    "on-a-known-node-not-ready": (high(0, "full", unready=True), 1),
}


@pytest.mark.parametrize("first", UNKNOWN.values(), ids=UNKNOWN)
@pytest.mark.parametrize("waiting", [1, 2])
def test_one_that_may_never_run_is_not_counted_and_nothing_is_evicted(
    first: Pod, waiting: int
) -> None:
    """With two that wait it is not known whether one seat lacks, or two."""
    state = world(first, *(high(1 + i) for i in range(waiting)))
    refusal = plan_for(state, "high")
    assert isinstance(refusal, Refusal), refusal
    assert refusal.code == Code.INCOMPLETE
    there = f"{waiting} of 2 exist, 1 more is bound to a node that is not known (high-0 to gone)"
    assert there in refusal.message
    gang = Resolver(Settings().groups).resolve(gang_key("high"), state)
    decision = asdict(of_refusal(refusal, time=0.0, verb=Verb.LOOP, seconds=0.0))
    told = story_of_gang(str(gang.key), Facts([described(gang)], [], [], [decision]))
    assert told is not None
    assert "terminate" not in told.reason
    assert told.next == NEXT_LOST


@pytest.mark.parametrize(("first", "victims"), OTHERS.values(), ids=OTHERS)
def test_any_other_counts_or_does_not(first: Pod, victims: int) -> None:
    assert len(evicted(plan_for(world(first, high(1), high(2)), "high"))) == victims


def test_it_counts_once_its_node_is_there() -> None:
    there = world(UNKNOWN["never-started"], high(1), nodes=[*UNKNOWN_NODES, node("gone")])
    assert len(evicted(plan_for(there, "high"))) == 1


def test_as_a_victim_it_goes_with_its_gang_and_makes_no_room() -> None:
    """On n0 alone is room to be had: two members do not fit there."""
    low = [pod(f"low-{i}", on=on, group="low") for i, on in enumerate(("n0", "gone"))]
    groups = [group("low", 2), group("high", 1), group("two", 2)]
    two = [pod(f"two-{i}", group="two", priority=9) for i in range(2)]
    state = snapshot([node("n0")], [*low, high(0), *two], groups)
    assert evicted(plan_for(state, "high")) == {"low-0", "low-1"}
    refusal = plan_for(state, "two")
    assert isinstance(refusal, Refusal)
    assert refusal.code == Code.INFEASIBLE


async def test_the_node_of_a_seated_member_is_deleted_amid_a_plan() -> None:
    """The plan ends, and nothing is evicted for the other member."""
    async with Rig() as rig:
        await rig.nodes(2)
        await rig.classes(low=1, high=100)
        await rig.pod("low", cls="low", on="n0")
        await rig.gang("high", 2, "high")
        await rig.filter("high-0", "n1")
        preemption = await open_seats(rig)
        seats = {rig.cache.store.pods.by_uid[uid].name: on for uid, on in preemption.seats.items()}
        first, second = HIGH
        assert (await rig.filter(first, *seats.values())).node_names == [seats[first]]
        await rig.bind(first, seats[first])
        await rig.until(lambda: bool(rig.cached(first).node), "it sits")
        await rig.client.delete(f"/api/v1/nodes/{seats[first]}")
        await rig.until(lambda: not list(rig.coordinator.reservations), "the plan ends")
        assert "now lacks 2 members of its quorum" in rig.messages("high")
        await rig.pod("late", cls="low", on=seats[second])
        await rig.until(lambda: rig.cache.pod_named("default", "late") is not None, "late")
        assert not (await rig.filter(second, seats[second])).node_names
        assert f"({first} to {seats[first]})" in rig.messages("high")
        assert "late" in await rig.names()


MISSING_KEY = GangKey("pod-group", "team", "few")


def refusal(code: Code = Code.INCOMPLETE) -> Decision:
    return Decision(
        time=0.0,
        gang=str(MISSING_KEY),
        verb=Verb.FILTER,
        outcome=Outcome.REFUSAL,
        code=code,
        message="waits for members: 1 of 3 exist, nothing is evicted",
    )


class Stage:
    def __init__(self) -> None:
        self.now = 0.0
        self.state = Snapshot(generation=1)
        self.members(1)
        gangs: Any = SimpleNamespace(resolve=self.resolve)
        self.missing = RefusedGangs(Clocks(lambda: self.now), Showing(lambda: self.state), gangs)

    def resolve(self, key: GangKey, state: Snapshot) -> Gang:
        """The gang, whose definition is in order by now."""
        return Gang(key, state.members[key], 3)

    def members(self, count: int) -> None:
        pods = tuple(Pod(uid=f"u{i}", namespace="team", name=f"p{i}") for i in range(count))
        self.state = replace(self.state, members={MISSING_KEY: pods})


def test_it_is_told_once_when_it_lasts() -> None:
    stage = Stage()
    assert stage.missing.refused(refusal())
    assert stage.missing.due() == []
    stage.now = PATIENCE_SECONDS
    (told,) = stage.missing.due()
    assert stage.missing.due() == []
    assert words_of(told) == (
        "GangIncomplete",
        "waits for members: 1 of 3 exist, nothing is evicted. Next: create the members that are "
        "missing: look at its Job or JobSet, at quota and at admission; nothing is evicted before "
        "they exist",
    )


def test_that_no_node_is_named_is_told_when_it_lasts() -> None:
    """It stood among the decisions only: kube-scheduler asks nothing where all devices are held."""
    stage = Stage()
    assert stage.missing.refused(refusal(Code.UNSEEN))
    assert stage.missing.due() == []
    stage.now = PATIENCE_SECONDS
    (told,) = stage.missing.due()
    said = words_of(told)
    assert said is not None
    assert said[0] == "GangDoesNotFit"


def test_a_gang_that_grows_is_let_be() -> None:
    stage = Stage()
    stage.missing.refused(refusal())
    stage.members(2)
    stage.missing.refused(refusal())
    stage.members(3)
    stage.now = PATIENCE_SECONDS
    assert stage.missing.due() == []


def test_another_refusal_takes_its_place() -> None:
    stage = Stage()
    stage.missing.refused(refusal())
    assert not stage.missing.refused(refusal(Code.INFEASIBLE))
    stage.now = PATIENCE_SECONDS
    assert stage.missing.due() == []


def test_a_definition_at_fault_is_told_when_it_lasts() -> None:
    stage = Stage()
    assert stage.missing.refused(refusal(Code.CONFLICT))
    assert stage.missing.due() == []
    stage.now = REPAIR_SECONDS
    (told,) = stage.missing.due()
    assert told.code == "conflict"
    stage.missing.refused(refusal(Code.CONFLICT))
    stage.missing.repaired()
    stage.now *= 2
    assert stage.missing.due() == []


def test_what_is_missing_after_a_repair_has_its_own_patience() -> None:
    stage = Stage()
    stage.missing.refused(refusal(Code.CONFLICT))
    stage.now = REPAIR_SECONDS - 1
    stage.missing.refused(refusal())
    stage.now = PATIENCE_SECONDS
    assert stage.missing.due() == []
    stage.missing.repaired()  # known already: the members still lack
    stage.now += REPAIR_SECONDS
    assert [told.code for told in stage.missing.due()] == ["incomplete"]


def test_the_others_are_told_of_a_reason_once() -> None:
    now = 0.0
    warnings = OwnerWarnings(Clocks(lambda: now))
    assert not warnings.said("u", "GangDoesNotFit")
    warnings.due("u", "default", "GangDoesNotFit", "1 CPU lacks")
    assert warnings.said("u", "GangDoesNotFit")
    assert not warnings.said("u", "GangIncomplete")
    now = 3001.0
    assert not warnings.said("u", "GangDoesNotFit"), "nobody can read that any more"


def test_the_same_words_are_not_said_twice_while_they_can_be_read() -> None:
    now = 0.0
    warnings = OwnerWarnings(Clocks(lambda: now))
    assert warnings.due("u", "default", "GangIncomplete", "1 of 3 exist")
    now = 120.0
    assert not warnings.due("u", "default", "GangIncomplete", "1 of 3 exist")
    assert warnings.due("u", "default", "GangIncomplete", "2 of 3 exist")
    now = 4000.0
    assert warnings.due("u", "default", "GangIncomplete", "2 of 3 exist")


async def two_of_three_wait(rig: Rig, cpu: str = "3") -> str:
    """A gang on n0 and n1 goes for two of three members; return the one without a seat."""
    await rig.gang("low", 2, "low", on="n")
    await stays(rig, "low-0")
    await stays(rig, "low-1")
    await rig.group("high", 2, "high")
    for i in range(3):
        await rig.pod(f"high-{i}", cls="high", group="high", cpu=cpu if i == 2 else "3")
    await rig.until(lambda: rig.cache.pod_named("default", "high-2") is not None, "all are there")
    for i in range(3):
        await rig.preempt(f"high-{i}", n0=["low-0"], n1=["low-1"])
    both = [rig.cached(f"low-{i}").uid for i in range(2)]
    await rig.until(lambda: rig.coordinator.executor.plans.victims.accepted(both[0]), "it goes")
    await rig.until(lambda: rig.coordinator.executor.plans.victims.accepted(both[1]), "it goes")
    (preemption,) = rig.coordinator.reservations
    (spare,) = {f"high-{i}" for i in range(3)} - {seat.name for seat in preemption.plan.seats}
    return spare


async def test_the_plan_goes_on_with_another_member(patient: Rig) -> None:
    """The room that pods were evicted for stays the gang's, and no further pod is evicted."""
    rig = patient
    spare = await two_of_three_wait(rig)
    gone, other = sorted({"high-0", "high-1", "high-2"} - {spare})
    await rig.remove(gone)
    await rig.until(lambda: len(rig.outcomes("high")) > 1, "it is changed")
    assert rig.outcomes("high") == ["plan", "plan"]
    (preemption,) = rig.coordinator.reservations
    assert {seat.name for seat in preemption.plan.seats} == {spare, other}
    for i in range(2):
        await rig.client.patch(f"{PODS}/low-{i}", {"metadata": {"finalizers": None}})
    for name in (spare, other):
        (node,) = await offered(rig, name, "n0", "n1")
        await rig.bind(name, node)
    await rig.until(lambda: "done" in rig.outcomes("high"), "it runs")
    assert rig.outcomes("high") == ["plan", "plan", "done"]


@pytest.mark.parametrize("cpu", ["4", "2"])
async def test_the_plan_ends_where_the_other_member_is_unlike(patient: Rig, cpu: str) -> None:
    """What is searched for then may need other pods to go."""
    rig = patient
    spare = rig.cached(await two_of_three_wait(rig, cpu))
    seated = [rig.cached(f"high-{i}") for i in range(3) if f"high-{i}" != spare.name]
    gone = next(pod.name for pod in seated if pod.requests != spare.requests)
    await rig.remove(gone)
    await rig.until(lambda: len(rig.outcomes("high")) > 1, "it ends")
    assert rig.outcomes("high")[:2] == ["plan", "gave-up"]
    assert f"{gone} went away before it was bound" in rig.messages("high")


PROTECTED = {"metadata": {"annotations": {"podgroup-extender.io/protected": "true"}}}
TOLERATION = "preemption-toleration.scheduling.x-k8s.io"
SHIELDS = ["annotated", "tolerant"]


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with Rig() as rig:
        await rig.nodes(3)
        await rig.classes(low=10, high=100)
        await rig.client.create(
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            {
                "metadata": {
                    "name": "tolerant",
                    "annotations": {
                        f"{TOLERATION}/minimum-preemptable-priority": "1000",
                        f"{TOLERATION}/toleration-seconds": "3600",
                    },
                },
                "value": 10,
            },
        )
        yield rig


async def three_of_whom_one_stays(rig: Rig, shield: str) -> None:
    await rig.group("low", 3, "low")
    classes = ["low", "low", "tolerant" if shield == "tolerant" else "low"]
    for i, cls in enumerate(classes):
        await rig.pod(f"low-{i}", cls=cls, group="low", on=f"n{i}", grace=30)
    if shield == "annotated":
        await rig.client.patch(f"{PODS}/low-2", PROTECTED)
    await rig.gang("high", 2, "high")
    newest = max(pod.created for pod in rig.cache.store.pods.by_uid.values())
    await rig.until(lambda: time.time() >= newest + 2.1, "they are older than the record for sure")


@pytest.mark.parametrize("shield", SHIELDS)
@pytest.mark.parametrize("restart", [False, True])
async def test_the_rest_goes_and_they_stay(rig: Rig, shield: str, *, restart: bool) -> None:
    """After a restart they counted as come late: they went, or the unit was broken for good."""
    await three_of_whom_one_stays(rig, shield)
    rig.server.faults.plan(Fault(10_000, "DELETE", f"low-1{REAL_DELETE}", status=503))
    await rig.preempt("high-0", n0=["low-0"], n1=["low-1"])
    await rig.until(lambda: bool(rig.cached("low-0").deleting), "one goes")
    if restart:
        await rig.kill()
    rig.server.faults.clear()
    await rig.remove("high-0")
    if restart:
        await rig.start()
    await rig.until(lambda: bool(rig.cached("low-1").deleting), "the rest goes")
    for name in ("low-0", "low-1"):
        await rig.remove(name)
    await rig.rounds(8)
    assert not rig.cached("low-2").deleting
    assert not rig.coordinator.plans.victims.unfinished(), "nothing is owed"
    await asyncio.wait_for(until_no_records(rig), 5)


@pytest.mark.parametrize("shield", SHIELDS)
async def test_they_stay_when_the_leader_changes_while_the_others_terminate(
    rig: Rig, shield: str
) -> None:
    """No fault at all: every eviction has been accepted."""
    await three_of_whom_one_stays(rig, shield)
    await rig.preempt("high-0", n0=["low-0"], n1=["low-1"])
    await rig.until(lambda: all(rig.cached(f"low-{i}").deleting for i in (0, 1)), "both terminate")
    await rig.rounds()
    await rig.restart()
    await rig.rounds(8)
    assert not rig.cached("low-2").deleting


@pytest.mark.parametrize("restart", [False, True])
async def test_they_have_not_come_in_the_place_of_who_went(rig: Rig, *, restart: bool) -> None:
    """The gang had its quorum with one of them, so the rest was let go of: half a unit stayed."""
    await rig.group("low", 2, "low")
    for i in range(3):
        await rig.pod(f"low-{i}", cls="low", group="low", on=f"n{i}")
    await rig.client.patch(f"{PODS}/low-2", PROTECTED)
    await rig.gang("high", 2, "high")
    refuse(rig, "low-1")
    await rig.preempt("high-0", n0=["low-0"], n1=["low-1"])
    await rig.until(lambda: rig.cache.pod_named("default", "low-0") is None, "one has gone")
    if restart:
        await rig.kill()
    await rig.remove("high-0")
    if restart:
        await rig.start()
    await rig.until(lambda: not rig.coordinator.reservations, "the plan is over")
    rig.server.faults.clear()
    await rig.until_names("low-2", "high-1")
