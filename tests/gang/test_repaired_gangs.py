"""A gang that was refused for its definition is tried again as soon as that is repaired."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from extender.gang.controller.notifier import WAKE_ANNOTATION
from extender.gang.runtime.clocks import Clocks
from extender.gang.status import group_conditions
from extender.gang.status.notices import PAUSE_SECONDS, RefusedGangs
from extender.gang.tell.decisions import Decision, Outcome, Verb
from extender.gang.tell.gang_status import Facts, described
from extender.gang.tell.story import story_of_gang
from extender.model.gang import Gang
from extender.model.objects import GangKey
from extender.model.plan import Code, Refusal
from extender.model.snapshot import Snapshot
from tests.gang.rig import PODS, Rig
from tests.gang.showing import Showing
from tests.gang.statuses import status
from tests.gang.test_group_conditions import condition, until_said
from tests.gang.world import pod

KEY = GangKey("pod-group", "default", "late")
GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"


def refusal(code: Code = Code.CONFLICT) -> Decision:
    return Decision(
        time=0.0,
        gang=str(KEY),
        verb=Verb.FILTER,
        outcome=Outcome.REFUSAL,
        code=code,
        message="PodGroup default/late (scheduling.k8s.io) does not exist",
    )


async def refused_pod(rig: Rig) -> None:
    """A pod whose PodGroup has not been read yet was given no node."""
    await rig.pod("late-0", cls="high", group="late")
    await rig.until(lambda: len(rig.cache.store.pods.by_uid) == 1, "a pod")
    (why,) = set((await rig.filter("late-0", "n0", "n1")).failed_and_unresolvable.values())
    assert "does not exist" in why


async def until_woken(rig: Rig) -> None:
    """Wait until the pod was touched, by which kube-scheduler tries it again."""
    while True:
        annotations = (await rig.client.get(f"{PODS}/late-0"))["metadata"].get("annotations", {})
        if WAKE_ANNOTATION in annotations:
            return


async def test_a_podgroup_that_is_read_after_its_first_pod(rig: Rig) -> None:
    await refused_pod(rig)
    await rig.group("late", 3, "high")
    await until_woken(rig)
    (why,) = set((await rig.filter("late-0", "n0", "n1")).failed_and_unresolvable.values())
    assert "waits for members: 1 of 3 exist" in why
    assert rig.outcomes("late") == ["conflict", "incomplete"]


async def test_a_refusal_that_was_dear_to_find_ends_too(rig: Rig) -> None:
    """On a busy machine even this one: it stands ten times as long as the answer took."""
    await refused_pod(rig)
    coordinator = rig.coordinator
    dear = Refusal(gang=KEY, code=Code.CONFLICT, message="PodGroup default/late does not exist")
    coordinator._reading.waiting.refuse(dear, (0, 0, 0), 3.0, 0.0)
    await rig.group("late", 3, "high")
    await until_woken(rig)
    (why,) = set((await rig.filter("late-0", "n0", "n1")).failed_and_unresolvable.values())
    assert "waits for members: 1 of 3 exist" in why


async def test_pods_that_start_one_by_one_are_tried_again_too(rig: Rig) -> None:
    """Nobody plans for them, so nothing else would ever wake them."""
    await refused_pod(rig)
    basic = {"metadata": {"name": "late"}, "spec": {"schedulingPolicy": {"basic": {}}}}
    await rig.client.create(GROUPS, basic)
    await until_woken(rig)
    assert (await rig.filter("late-0", "n0", "n1")).node_names == ["n0", "n1"]


async def test_nobody_is_warned_of_what_is_repaired_at_once(rig: Rig) -> None:
    await refused_pod(rig)
    await rig.group("late", 3, "high")
    await until_woken(rig)
    assert rig.coordinator.telling.refused.due() == []
    assert not rig.coordinator.notices.warnings.told


async def test_a_podgroup_does_not_say_of_itself_that_it_does_not_exist(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(group_conditions, "PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(group_conditions, "MAKING_SECONDS", 0.0)
    async with Rig() as rig:
        await rig.nodes(2)
        await rig.classes(high=100)
        await rig.stop_rounds()
        await refused_pod(rig)
        await rig.group("late", 3, "high")
        await rig.until(lambda: bool(rig.cache.snapshot().groups), "a PodGroup")
        rig.coordinator.telling.conditions.round()
        await rig.own.get("/api/v1/nodes")
        assert await condition(rig, "late") == {}
        await rig.coordinator._sweep()
        await rig.filter("late-0", "n0", "n1")
        rig.coordinator.telling.conditions.round()
        assert "1 of 3 exist" in (await until_said(rig, "late", "Incomplete"))["message"]


class Stage:
    def __init__(self) -> None:
        self.now = 0.0
        self.gang = Gang(KEY, (pod("late-0"),), 3, problems=("it does not exist",))
        self.woken: list[str] = []
        self.forgotten = 0
        state = Snapshot(generation=1)

        gangs: Any = SimpleNamespace(resolve=lambda key, now: self.gang)
        self.refused = RefusedGangs(Clocks(lambda: self.now), Showing(lambda: state), gangs)

    def round(self) -> None:
        for _, waiting in self.refused.repaired():
            self.forgotten += 1
            self.woken += [each.name for each in waiting]

    def repair(self) -> None:
        self.gang = replace(self.gang, problems=())
        self.round()


def test_it_is_woken_once_and_once_a_minute_at_most() -> None:
    stage = Stage()
    broken = stage.gang
    stage.refused.refused(refusal())
    stage.round()
    assert stage.woken == []
    stage.repair()
    stage.round()
    assert stage.woken == ["late-0"]
    stage.gang = broken
    stage.refused.refused(refusal())
    stage.repair()
    assert stage.woken == ["late-0"], "within the minute"
    assert stage.forgotten == 2, "whoever asks is answered anew all the same"
    stage.now = PAUSE_SECONDS + 1
    stage.round()
    assert stage.woken == ["late-0", "late-0"]


def test_what_was_decided_anew_meanwhile_wakes_nobody() -> None:
    stage = Stage()
    stage.refused.refused(refusal())
    stage.refused.refused(refusal(Code.INFEASIBLE))
    stage.repair()
    assert stage.woken == []


def test_a_definition_that_is_not_planned_for_is_no_repaired_one() -> None:
    stage = Stage()
    stage.gang = replace(stage.gang, unplanned=("two domains are required",))
    stage.refused.refused(refusal())
    stage.repair()
    assert stage.woken == []


def test_the_refusal_of_a_definition_that_was_repaired_is_not_told_any_more() -> None:
    gang = Gang(KEY, (pod("late-0"),), 1)
    decision = {
        "gang": str(KEY),
        "outcome": "refusal",
        "code": "conflict",
        "message": "PodGroup default/late does not exist",
        "time": 0.0,
        "victims": (),
    }
    standing = status(described(gang), (), [decision])
    assert (standing.state, standing.reason) == ("pending", "nothing is decided yet")
    story = story_of_gang(str(KEY), Facts([described(gang)], [], [], [decision]))
    assert story is not None
    assert "does not exist" not in story.reason
    assert "wait for kube-scheduler's next attempt" in story.next
    standing = status(
        described(replace(gang, unplanned=("two domains are required",))), (), [decision]
    )
    assert standing.state == "refused"
