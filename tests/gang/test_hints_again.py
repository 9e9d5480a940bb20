"""Hints that others wait for are written again: a nomination left, a wake-up that met an error.

A nomination that stays keeps room for nobody, and who was held back for a seat and is not woken
waits up to five minutes for kube-scheduler to try it of itself.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sized
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from extender.gang.controller.hints import CONCURRENCY, HeldBack, Nominations
from extender.gang.controller.notifier import WAKE_ANNOTATION, Notifier
from extender.gang.incremental.enforcement import Enforcement
from extender.gang.runtime.background import Background
from extender.gang.runtime.clocks import Clocks
from extender.gang.tell.decisions import Verb
from extender.model.objects import Pod
from extender.sandbox.faults import Fault
from extender.settings.mode import EnforceSettings
from tests.gang.rig import LOW, PODS, Rig, held_back, let_go
from tests.gang.showing import Showing
from tests.gang.world import pod, snapshot

CONFLICT = {"status": 409, "reason": "Conflict"}
"""A patch without a version may get one as well: the server gives up after some tries."""
PROTECTED = {"metadata": {"annotations": {"podgroup-extender.io/protected": "true"}}}
FAILURES = (CONFLICT, {"status": 500}, {"status": 429})


async def single(rig: Rig, *, nominated: str = "") -> None:
    """A pod of no gang that waits beside a protected one, and perhaps is nominated."""
    await rig.pod("low-0", cls="low", on="n0")
    await rig.client.patch(f"{PODS}/low-0", PROTECTED)
    await rig.pod("p", cls="high")
    if nominated:
        status = {"status": {"nominatedNodeName": nominated}}
        await rig.client.patch(f"{PODS}/p/status", status)
    await rig.until(
        lambda: (
            (found := rig.cache.pod_named("default", "p")) is not None
            and found.nominated == nominated
            and bool(rig.cached("low-0").annotations)
        ),
        "both pods are cached",
    )


@pytest.mark.parametrize("failure", FAILURES)
async def test_a_nomination_is_cleared_in_the_end(rig: Rig, failure: dict[str, object]) -> None:
    await single(rig, nominated="n0")
    fault = Fault(times=2, method="PATCH", path="/pods/p/status", **failure)  # type: ignore[arg-type]
    rig.server.faults.plan(fault)
    rig.coordinator.hints.nominations.clear([rig.cached("p")])
    await rig.until(lambda: not rig.cached("p").nominated, "the nomination is cleared")
    assert fault.hits == 2


@pytest.mark.parametrize("failure", FAILURES)
async def test_who_was_held_back_is_woken_in_the_end(rig: Rig, failure: dict[str, object]) -> None:
    await single(rig)
    fault = Fault(times=2, method="PATCH", path="/pods/p", **failure)  # type: ignore[arg-type]
    rig.server.faults.plan(fault)
    rig.coordinator.hints.held_back.note(rig.cached("p"))
    rig.coordinator.hints.held_back.wake_all()
    await rig.until(lambda: WAKE_ANNOTATION in rig.cached("p").annotations, "it is woken")
    assert fault.hits == 2


async def test_who_is_tried_again_meanwhile_need_not_be_woken(rig: Rig) -> None:
    """It was written to for as long as that failed, whoever its namespace was chosen by since (seed
    700191 with enforcing, flaky, sparing)."""
    await single(rig)
    failing = Fault(times=1000, method="PATCH", path="/pods/p", status=500)
    rig.server.faults.plan(failing)
    rig.coordinator.hints.held_back.note(rig.cached("p"))
    rig.coordinator.hints.held_back.wake_all()
    await rig.until(lambda: failing.hits > 1, "it is tried again and again")
    held = rig.coordinator.hints.held_back
    await rig.until(lambda: len(held._failed) > 0, "no patch of it is under way")
    assert (await rig.filter("p", "n1")).node_names == ["n1"]
    assert not len(held._failed)


async def test_who_cannot_be_patched_for_good_is_given_up(rig: Rig) -> None:
    """A pod whose annotations are full was patched for as long as it waited, in vain."""
    await single(rig)
    fault = Fault(times=100, method="PATCH", path="/pods/p", status=422, reason="Invalid")
    rig.server.faults.plan(fault)
    held = rig.coordinator.hints.held_back
    held.note(rig.cached("p"))
    held.wake_all()
    await rig.until(lambda: fault.hits > 0, "it is tried")
    await rig.rounds()
    held._again_at = 0.0  # now it would be tried again
    await rig.rounds()
    assert fault.hits == 1


async def test_a_single_that_gets_no_node_loses_the_nomination_of_a_life_before(rig: Rig) -> None:
    """kube-scheduler clears it when it finds no candidate, and not when we allow it none."""
    await single(rig, nominated="n1")
    assert not (await rig.preempt("p", n0=["low-0"])).candidates
    await rig.until(lambda: not rig.cached("p").nominated, "the nomination is cleared")


async def test_a_single_that_gets_a_node_is_nominated_by_kube_scheduler(rig: Rig) -> None:
    await single(rig, nominated="n1")
    await rig.client.patch(f"{PODS}/low-0", {"metadata": {"annotations": None}})
    await rig.until(lambda: not rig.cached("low-0").annotations, "nobody is protected")
    assert list((await rig.preempt("p", n0=["low-0"])).candidates) == ["n0"]
    await rig.rounds()
    assert rig.cached("p").nominated == "n1"


async def test_a_late_answer_does_not_clear_the_newer_nomination(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kube-scheduler had given up waiting, asked again and evicted: its victims went in vain."""
    await rig.nodes(1, first=2)
    await rig.group("low", 2, "low")
    for name in LOW:
        await rig.pod(name, cls="low", group="low", on="n0", cpu="2")
    await rig.pod("single", cls="low", on="n2", cpu="4")
    await rig.pod("busy", cls="high", on="n1", cpu="4")
    await rig.pod("p", cls="high")
    await _nominated(rig, "p", "n1")
    rig.coordinator.evidence._freed.clear()  # its nodes are not new
    planner: Any = rig.coordinator.thread
    plan, searched, reached = planner.plan, asyncio.Event(), asyncio.Event()

    async def slow(*args: Any) -> Any:
        reached.set()
        found = await plan(*args)
        await searched.wait()
        return found

    monkeypatch.setattr(planner, "plan", slow)
    first = asyncio.create_task(rig.preempt("p", "n1", n0=[*LOW]))
    try:
        await rig.until(reached.is_set, "it is searched")
        assert list((await rig.preempt("p", "n1", n2=["single"])).candidates) == ["n2"]
        await _nominated(rig, "p", "n2")
        for name in LOW:
            await rig.client.patch(f"{PODS}/{name}", PROTECTED)
        await rig.until(lambda: all(rig.cached(name).annotations for name in LOW), "both stay")
    finally:
        searched.set()
    assert not (await first).candidates
    await rig.rounds()
    assert rig.cached("p").nominated == "n2"


async def test_no_nomination_is_cleared_while_somebody_goes_for_it(rig: Rig) -> None:
    """kube-scheduler does not ask then: any other caller could give the room away."""
    await rig.pod("single", cls="low", on="n0", grace=60)
    await rig.pod("p", cls="high")
    await _nominated(rig, "p", "n0")
    preempted = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    marked = {"status": {"conditions": [preempted]}}
    await rig.client.patch(f"{PODS}/single/status", marked, kind="merge")
    await rig.client.delete(f"{PODS}/single", grace=60)
    await rig.until(lambda: bool(rig.cached("single").deleting), "it is seen terminating")
    for node in ("nowhere", "n0"):
        await rig.preempt("p", node)
    await rig.rounds()
    assert rig.cached("p").nominated == "n0"


async def test_members_are_not_nominated_elsewhere_once_their_seats_are_open(rig: Rig) -> None:
    """A plan before had both on one node: kube-scheduler kept that room for the one, and did not
    offer the other its seat, which counted as refused for five minutes (739170 with sparing)."""
    record = held_back(rig, "POST", "configmaps")
    await rig.gang("high", 2, "high")
    asked = asyncio.create_task(rig.coordinator.ensure(rig.resolver_key("high-0"), Verb.LOOP))
    await rig.until(lambda: record.hits > 0, "its plan is being recorded")
    (preemption,) = rig.coordinator.reservations
    seats = {pod.name: preemption.seats[uid] for uid, pod in preemption.pods.items()}
    assert set(seats.values()) == {"n0", "n1"}
    (moved,) = (name for name, node in seats.items() if node == "n1")
    await _nominated(rig, moved, "n0")
    let_go(record)
    await asked
    await rig.until(lambda: rig.cached(moved).nominated == "n1", "it is nominated to its seat")
    (other,) = (name for name, node in seats.items() if node == "n0")
    assert not rig.cached(other).nominated


async def test_a_nomination_of_a_plan_that_is_over_goes_with_an_earlier_one() -> None:
    """The earlier one could not be cleared at first, and was another node's."""
    state = {"pod": replace(pod("p"), nominated="n1")}
    fails = [True, False, False]
    tried: list[str] = []

    async def nominate(pod: Pod, node: str) -> bool:
        tried.append(pod.name)
        if fails[len(tried) - 1]:
            return False
        state["pod"] = replace(state["pod"], nominated=node)
        return True

    background = Background()
    nominations = Nominations(
        cast(Notifier, SimpleNamespace(nominate=nominate)),
        cast(Any, SimpleNamespace(of_member=lambda uid: None)),
        Showing(lambda: snapshot([], [state["pod"]])),
        background,
        asyncio.Semaphore(4),
    )
    nominations.clear([state["pod"]], "n1")
    await until_tried(tried, 1)
    state["pod"] = replace(state["pod"], nominated="n2")
    nominations.clear([state["pod"]])
    await _until(lambda: not state["pod"].nominated)
    await background.close()


async def test_nothing_is_written_for_a_nomination_that_is_not_there(rig: Rig) -> None:
    """Each question was a request to the API server."""
    await single(rig)
    writes = Fault(times=10_000, method="PATCH", path="/pods/p/status", status=0)
    rig.server.faults.plan(writes)
    for _ in range(20):
        await rig.preempt("p", "anywhere")
    await rig.rounds()
    assert not writes.hits


async def _nominated(rig: Rig, name: str, node: str) -> None:
    await rig.client.patch(f"{PODS}/{name}/status", {"status": {"nominatedNodeName": node}})
    await rig.until(
        lambda: (
            (found := rig.cache.pod_named("default", name)) is not None and found.nominated == node
        ),
        "it is seen nominated",
    )


async def test_where_nobody_can_be_woken_few_are_tried_at_a_time() -> None:
    """A role that lacks the right to patch pods, or a server that has too much to do already."""
    pods = [pod(f"p-{i}") for i in range(100)]
    tried: list[str] = []

    async def refused(pod: Pod, node: str, moment: float) -> bool:
        tried.append(pod.name)
        return False

    now = [0.0]
    background = Background()
    held = HeldBack(
        cast(Notifier, SimpleNamespace(wake=refused)),
        Showing(lambda: snapshot([], pods)),
        cast(Clocks, SimpleNamespace(monotonic=lambda: now[0], wall=lambda: now[0])),
        background,
        Enforcement(EnforceSettings()),
        asyncio.Semaphore(4),
    )
    held.wake(pods)
    await until_tried(tried, 100)
    for seconds, more in (
        (0.1, CONCURRENCY),
        (0.3, 0),
        (1.2, CONCURRENCY),
        (0.5, 0),
        (1.0, CONCURRENCY),
        (10.0, CONCURRENCY),
        (3.5, 0),
    ):
        now[0] += seconds
        tried.clear()
        held.round()
        await until_tried(tried, more)
    held.gone(pods[0])
    assert len(held._failed) == 99
    await background.close()


@pytest.mark.parametrize("namespaces", [1, 40])
async def test_one_tenant_that_cannot_be_woken_keeps_no_other_waiting(namespaces: int) -> None:
    """Another tenant's pod, which had met one error, was behind 4,095 of his: it took 622 s."""
    hostile = [pod(f"h-{i}", namespace=f"tenant-{i % namespaces}") for i in range(4095)]
    honest = pod("honest", namespace="honest")
    tried: list[str] = []

    async def wake(pod: Pod, node: str, moment: float) -> bool:
        tried.append(pod.name)
        return pod.name == "honest" and tried.count("honest") > 1

    now = [0.0]
    background = Background()
    held = HeldBack(
        cast(Notifier, SimpleNamespace(wake=wake)),
        Showing(lambda: snapshot([], [*hostile, honest])),
        cast(Clocks, SimpleNamespace(monotonic=lambda: now[0], wall=lambda: now[0])),
        background,
        Enforcement(EnforceSettings()),
        asyncio.Semaphore(32),
    )
    held.wake([*hostile, honest])
    while len(tried) < 4096:
        await asyncio.sleep(0)
    for number in range(1, 4):
        now[0] += 10.0
        held.round()
        await until_tried(tried, 4096 + 32 * number)
    assert tried.count("honest") == 2
    assert max(Counter(tried).values()) == 2
    await background.close()


async def test_of_who_waited_for_a_unit_and_is_gone_nothing_is_kept() -> None:
    """A tenant may make and delete pods for as long as his gang is not gone."""
    woken: list[str] = []

    async def wake(pod: Pod, node: str, moment: float) -> bool:
        woken.append(pod.name)
        return True

    background = Background()
    held = HeldBack(
        cast(Notifier, SimpleNamespace(wake=wake)),
        Showing(lambda: snapshot([], [])),
        cast(Clocks, SimpleNamespace(monotonic=lambda: 0.0, wall=lambda: 0.0)),
        background,
        Enforcement(EnforceSettings()),
        asyncio.Semaphore(4),
    )
    for number in range(100):
        held.note(pod(f"p-{number}"), "unit-of-default/g")
        held.gone(pod(f"p-{number}"))
    kept = {name: len(value) for name, value in vars(held).items() if isinstance(value, Sized)}
    assert kept
    assert not any(kept.values())
    for name, unit in (("a", "unit"), ("b", "other"), ("c", "")):
        held.note(pod(name), unit)
    held.unit_ended("unit")
    await until_tried(woken, 1)
    assert woken == ["a"]
    assert [each.name for each in held.pods()] == ["b", "c"]
    await background.close()


async def _until(fine: Callable[[], bool]) -> None:
    while not fine():
        await asyncio.sleep(0.05)


async def until_tried(tried: list[str], number: int) -> None:
    """Let the tasks that were begun come to their end; nothing in them waits."""
    for _ in range(200):
        await asyncio.sleep(0)
    assert len(tried) == number
