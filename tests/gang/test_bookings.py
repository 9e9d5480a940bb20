"""A booked start, with everything but kube-scheduler: room that comes free is kept for the gang."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from extender.gang.controller.planner_thread import Overran, PlannerThread
from extender.gang.plan.ends import End, RunTimes, end_of
from extender.gang.tell.preemption_state import PreemptionState
from extender.model.gang import Gang
from extender.model.plan import Plan, Refusal
from extender.model.snapshot import Snapshot
from extender.settings.fairness import FairnessSettings
from extender.settings.mode import EnforceSettings
from extender.settings.policy import NamespaceSelector
from tests.gang.desk import kept_on
from tests.gang.rig import FAST, PODS, Rig
from tests.gang.world import NOW, pod

DAY = 86_400.0
TURN = replace(
    FAST,
    fairness=FairnessSettings(
        booking=True, patience_seconds=1.0, idle_share=1.0, namespace_idle_share=1.0
    ),
)


async def batch(
    rig: Rig, name: str, *, on: str = "", cpu: str = "4", limit: int = 0, cls: str = "same"
) -> None:
    """A pod of no gang that is made to end; ``limit``: its activeDeadlineSeconds."""
    spec = {
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}],
        "terminationGracePeriodSeconds": 0,
        "restartPolicy": "Never",
        "priorityClassName": cls,
    }
    if on:
        spec["nodeName"] = on
    if limit:
        spec["activeDeadlineSeconds"] = limit
    await rig.client.create(PODS, {"metadata": {"name": name}, "spec": spec})
    await rig.until(lambda: rig.cache.pod_named("default", name) is not None, name)


async def waiting_gang(rig: Rig, cls: str = "same") -> None:
    """A gang of two that needs two whole nodes, and has been tried by kube-scheduler."""
    await rig.gang("big", 2, cls)
    for name in ("big-0", "big-1"):
        await rig.client.patch(
            f"{PODS}/{name}/status",
            {"status": {"conditions": [{"type": "PodScheduled", "status": "False"}]}},
        )


async def labelled(rig: Rig, team: str) -> None:
    await rig.client.patch("/api/v1/namespaces/default", {"metadata": {"labels": {"team": team}}})

    def seen() -> bool:
        return rig.cache.snapshot().namespaces.get("default", {}).get("team") == team

    await rig.until(seen, "the namespace's label is cached")


def kept(rig: Rig) -> dict[str, int]:
    """Cores kept of each node for booked starts."""
    reservations = rig.coordinator.reservations
    return {
        node: sum(dict(hold.requests).get("cpu", 0) // 1000 for hold in holds)
        for node in sorted(reservations.booked)
        if (holds := kept_on(reservations, node))
    }


def is_booked(rig: Rig) -> bool:
    return len(rig.coordinator.bookings) == 1


async def test_room_that_comes_free_is_kept_and_the_gang_starts() -> None:
    async with Rig(TURN) as rig:
        await rig.nodes(2)
        await rig.classes(same=5)
        await batch(rig, "one", on="n0")
        await batch(rig, "two", on="n1")
        await waiting_gang(rig)
        await rig.until(lambda: is_booked(rig), "the gang is booked")
        assert kept(rig) == {}
        await rig.remove("one")
        await rig.until(lambda: kept(rig) == {"n0": 3}, "its room is kept")
        await batch(rig, "small", cpu="2")
        answer = await rig.filter("small", "n0")
        assert answer.node_names == []
        assert "booked for" in answer.failed_and_unresolvable["n0"]
        await batch(rig, "tiny", cpu="1")
        assert (await rig.filter("tiny", "n0")).node_names == ["n0"], "it delays nobody"
        await rig.remove("two")
        await rig.until(lambda: not is_booked(rig), "the gang has a plan in place of its booking")
        [plan] = rig.coordinator.reservations
        await rig.until(lambda: plan.state is PreemptionState.OPEN, "its seats are open")
        seats = {
            seat: (await rig.filter(seat, "n0", "n1")).node_names for seat in ("big-0", "big-1")
        }
        assert sorted(seats.values()) == [["n0"], ["n1"]]
        assert {"one", "two"}.isdisjoint(await rig.names())


async def test_only_who_is_surely_gone_by_then_goes_in_between() -> None:
    async with Rig(TURN) as rig:
        await rig.nodes(2)
        await rig.classes(same=5, more=6)
        await batch(rig, "one", on="n0", limit=600)
        await batch(rig, "two", on="n1", limit=5000)
        await waiting_gang(rig)
        await rig.until(lambda: is_booked(rig), "the gang is booked")
        await rig.remove("one")
        await rig.until(lambda: kept(rig) == {"n0": 3}, "its room is kept")
        await batch(rig, "short", limit=3000)
        await batch(rig, "long", limit=9000)
        await batch(rig, "endless")
        assert (await rig.filter("long", "n0")).node_names == []
        assert (await rig.filter("endless", "n0")).node_names == []
        assert (await rig.filter("short", "n0")).node_names == ["n0"]
        await rig.bind("short", "n0")
        await rig.until(lambda: rig.cached("short").node == "n0", "it is bound")
        await rig.until(lambda: kept(rig) == {}, "its room is counted on again")
        assert is_booked(rig)
        await rig.client.create(
            PODS,
            {
                "metadata": {"name": "urgent"},
                "spec": {
                    "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
                    "priorityClassName": "more",
                },
            },
        )
        assert (await rig.filter("urgent", "n0", "n1")).node_names == ["n0", "n1"]
        await rig.remove("short")
        await rig.until(lambda: kept(rig) == {"n0": 3}, "what it had is kept again")


async def test_nobody_evicts_an_awaited_pod_for_room_that_is_then_kept_from_it() -> None:
    async with Rig(TURN) as rig:
        await rig.nodes(2)
        await rig.classes(same=5, less=4)
        await batch(rig, "awaited", on="n0", cls="less")
        await batch(rig, "two", on="n1")
        await waiting_gang(rig)
        await rig.until(lambda: is_booked(rig), "the gang is booked")
        assert kept(rig) == {}, "nothing is free yet"
        await rig.pod("single", cls="same", cpu="4")
        answer = await rig.preempt("single", n0=["awaited"])
        assert answer.candidates == {}, "filter would refuse it the node afterwards"
        assert (await rig.filter("single", "n0")).node_names == ["n0"], "nothing is kept yet"
        [booking] = rig.coordinator.bookings.describe()
        assert booking["keeps"] == {}


async def test_another_gang_is_planned_around_a_booked_start() -> None:
    async with Rig(TURN) as rig:
        await rig.nodes(3)
        await rig.classes(same=5)
        for i in range(3):
            await batch(rig, f"b{i}", on=f"n{i}")
        await waiting_gang(rig)
        await rig.until(lambda: is_booked(rig), "the gang is booked")
        [booking] = rig.coordinator.bookings.describe()
        seats = set(booking["seats"].values())
        [other] = {"n0", "n1", "n2"} - seats
        first = sorted(seats)[0]
        await rig.remove(f"b{first[1:]}")
        await rig.until(lambda: kept(rig) == {first: 3}, "its room is kept")
        await rig.gang("small", 1, "same")
        assert (await rig.filter("small-0", first)).node_names == []
        await rig.remove(f"b{other[1:]}")
        gone = rig.coordinator.reservations
        await rig.until(lambda: len(gone) > 0, "somebody has a plan")
        for preemption in gone:
            assert preemption.key.name in ("big", "small")
            if preemption.key.name == "small":
                assert set(preemption.seats.values()) == {other}


async def test_a_service_that_never_ends_is_not_waited_for() -> None:
    async with Rig(TURN) as rig:
        await rig.nodes(2)
        await rig.classes(same=5)
        await rig.pod("service", cls="same", on="n0", cpu="4")
        await batch(rig, "two", on="n1")
        await waiting_gang(rig)

        def told() -> bool:
            return any(not each["booked"] for each in rig.coordinator.bookings.describe())

        await rig.until(told, "it is told why there is no booking")
        [why] = rig.coordinator.bookings.describe()
        assert "does not fit even when all have ended" in why["why"]
        assert not is_booked(rig)


async def test_too_much_would_idle_for_nobody_knows_how_long() -> None:
    half = replace(
        FAST, fairness=FairnessSettings(booking=True, patience_seconds=1.0, idle_share=0.2)
    )
    async with Rig(half) as rig:
        await rig.nodes(2)
        await rig.classes(same=5)
        await batch(rig, "one", on="n0", cpu="4")
        await batch(rig, "two", on="n1", cpu="2")
        await waiting_gang(rig)

        def told() -> bool:
            return any(
                "idleShare" in each.get("why", "") for each in rig.coordinator.bookings.describe()
            )

        await rig.until(told, "it is told why there is no booking")


async def test_a_new_life_books_it_again_from_the_cluster_alone() -> None:
    async with Rig(TURN) as rig:
        await rig.nodes(2)
        await rig.classes(same=5)
        await batch(rig, "one", on="n0", limit=600)
        await batch(rig, "two", on="n1", limit=5000)
        await waiting_gang(rig)
        await rig.until(lambda: is_booked(rig), "the gang is booked")
        await rig.remove("one")
        await rig.until(lambda: kept(rig) == {"n0": 3}, "its room is kept")
        [before] = rig.coordinator.bookings.describe()
        await rig.restart()
        await rig.until(lambda: is_booked(rig), "the gang is booked again")
        [after] = rig.coordinator.bookings.describe()
        assert kept(rig) == {"n0": 3}
        assert set(after["seats"].values()) == set(before["seats"].values()) == {"n0", "n1"}
        assert after["waitsFor"][0]["sure"]


async def test_who_is_booked_keeps_its_place_among_equals() -> None:
    async with Rig(TURN) as rig:
        await rig.nodes(2)
        await rig.classes(same=5, more=6)
        await batch(rig, "one", on="n0", limit=5000)
        await rig.pod("guard", cls="more", on="n1", cpu="1")
        await waiting_gang(rig)
        await rig.until(lambda: is_booked(rig), "the gang is booked")
        await rig.gang("later", 2, "same")
        for name in ("later-0", "later-1"):
            await rig.filter(name, "n0", "n1")
        assert [each["gang"] for each in rig.coordinator.bookings.describe() if each["booked"]] == [
            "pod-group:default/big"
        ]


async def test_a_namespace_that_is_left_alone_keeps_nothing() -> None:
    enforce = EnforceSettings(namespaces=NamespaceSelector(match_labels={"team": "a"}))
    async with Rig(replace(TURN, enforce=enforce)) as rig:
        await labelled(rig, "a")
        await rig.nodes(2)
        await rig.classes(same=5)
        await batch(rig, "one", on="n0")
        await batch(rig, "two", on="n1")
        await waiting_gang(rig)
        await rig.until(lambda: is_booked(rig), "the gang is booked")
        await rig.remove("one")
        await rig.until(lambda: kept(rig) == {"n0": 3}, "its room is kept")
        await labelled(rig, "b")
        await rig.until(lambda: not is_booked(rig), "its namespace was taken out")
        assert kept(rig) == {}


async def test_a_gang_is_not_suspended_for_a_search_for_its_booked_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = PlannerThread.plan

    async def overruns(
        self: PlannerThread, gang: Gang, snapshot: Snapshot, *rest: Any
    ) -> Plan | Refusal:
        if snapshot.generation < 0:  # the cluster as it may be when pods have ended
            raise Overran
        return await plan(self, gang, snapshot, *rest)

    monkeypatch.setattr(PlannerThread, "plan", overruns)
    async with Rig(TURN) as rig:
        await rig.nodes(2)
        await rig.classes(same=5)
        await batch(rig, "one", on="n0")
        await batch(rig, "two", on="n1")
        await waiting_gang(rig)

        def told() -> bool:
            return any(
                "did not end" in each.get("why", "") for each in rig.coordinator.bookings.describe()
            )

        await rig.until(told, "it is told why there is no booking")
        assert "suspended" not in rig.outcomes("big")


def test_a_pod_says_when_it_ends() -> None:
    times = RunTimes()
    running = pod("p", on="n0", started=NOW - 100)
    assert end_of(running, NOW, times, DAY) == End(None)
    assert end_of(replace(running, endless=True), NOW, times, DAY) is None
    assert end_of(replace(running, limit=300), NOW, times, DAY) == End(NOW + 230, by=NOW + 230)
    said = {"podgroup-extender.io/expected-run-seconds": "150"}
    assert end_of(replace(running, annotations=said), NOW, times, DAY) == End(NOW + 50)
    assert end_of(replace(running, annotations=said), NOW + 60, times, DAY) == End(None), (
        "it is late"
    )
    times.ended(pod("q", on="n0", started=NOW - 500), NOW)
    assert end_of(running, NOW, times, DAY) == End(NOW + 400)
    assert end_of(replace(running, limit=9000), NOW, times, DAY) == End(NOW + 400, by=NOW + 8930), (
        "that an earlier end is likely takes nothing from the limit"
    )
