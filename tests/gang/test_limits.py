"""What one tenant's gangs may cost the others: seats, evictions, turns.

See docs/security.md, rows 5 and 6.
"""

from __future__ import annotations

import asyncio
import re
import time
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from extender.app.replica_metrics import expose_limits
from extender.gang.core import preemption as machine
from extender.gang.core.preemption import DoesNotHold
from extender.gang.core.reservations import Preemption
from extender.gang.fairness.suspensions import SuspensionStore
from extender.gang.plan import suspension
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.gang.plan.suspension import Cause, GiveUps, Suspension
from extender.gang.runtime.clocks import Clocks
from extender.gang.scheduler_view.node_lists import NodeLists
from extender.gang.tell.decisions import Verb
from extender.gang.tell.preemption_state import PreemptionState
from extender.model.gang import Gang
from extender.model.objects import GangKey, Owner
from extender.model.plan import Plan, Refusal
from extender.server.metrics import Metrics
from extender.settings.cost_order import ORDERS
from extender.settings.settings import (
    EvictionSettings,
    GroupSettings,
    PlanSettings,
    SeatSettings,
    Settings,
)
from tests.gang.limited import rigged, tried, until_written, warnings
from tests.gang.rig import FAST, HIGH, LOW, Rig, full_cluster
from tests.gang.world import NOW, evicted, group, node, plan_for, pod, snapshot


def must_wait(rig: Rig, gang: Gang) -> Refusal | None:
    """Why the gang is not searched for now."""
    waiting = rig.coordinator.turns.waiting_turns()
    return rig.coordinator.admission.must_wait(gang, waiting)


async def until_suspended(rig: Rig, gang: str = "high") -> None:
    await rig.until(lambda: "suspended" in rig.outcomes(gang), f"{gang} is suspended")


# -- seats and evictions in vain -------------------------------------------------------------


async def test_a_gang_that_never_binds_is_suspended_until_it_changes() -> None:
    seats = SeatSettings(bind_seconds=2.0, victim_slack_seconds=1.0, give_ups=1)
    async with rigged(replace(FAST, seats=seats)) as rig:
        await full_cluster(rig)
        await rig.preempt("high-0", n0=["low-0"])
        preemption = next(iter(rig.coordinator.reservations))
        await rig.until(lambda: preemption.state is PreemptionState.OPEN, "the seats are open")
        assert (await rig.filter("high-0", "n0", "n1")).node_names
        await rig.until_names(*HIGH)
        await rig.until(lambda: "gave-up" in rig.outcomes("high"), "the plan is given up")
        await until_written(rig)
        for i in range(2):
            await rig.pod(f"low2-{i}", cls="low", on=f"n{i}")
        await rig.until(lambda: rig.cache.pod_named("default", "low2-1") is not None)
        rig.coordinator._reading.waiting.succeeded(
            rig.resolver_key("high-0")
        )  # no penalty in the way
        await rig.preempt("high-0", n0=["low2-0"])
        await until_suspended(rig)
        assert {"low2-0", "low2-1"} <= await rig.names()
        told = await warnings(rig)
        assert {one["involvedObject"]["name"] for one in told} == set(HIGH)
        assert all(one["reason"] == "GangSuspended" for one in told)
        shown = rig.coordinator.admission.describe()
        assert "did not bind" in str(shown["suspended"])
        # Smaller members: another gang by its looks.
        for name in HIGH:
            await rig.remove(name)
        for name in HIGH:
            await rig.pod(name, cls="high", group="high", cpu="2")
        await rig.until(
            lambda: all(
                (one := rig.cache.pod_named("default", name)) is not None
                and ("cpu", 2000) in one.requests
                for name in HIGH
            )
        )
        answer = await rig.coordinator.ensure(rig.resolver_key("high-0"), Verb.LOOP)
        assert isinstance(answer, Preemption)


async def test_a_gang_is_not_suspended_for_a_kube_scheduler_that_is_away() -> None:
    """Nobody asks about any pod while the seats are open: the gang is not to blame."""
    seats = SeatSettings(bind_seconds=0.1, victim_slack_seconds=1.0, give_ups=1)
    async with rigged(replace(FAST, seats=seats)) as rig:
        await rig.gang("high", 2, "high")
        await rig.coordinator.ensure(rig.resolver_key("high-0"), Verb.LOOP)
        await rig.until(lambda: "gave-up" in rig.outcomes("high"), "the plan is given up")
        assert "did not bind" in rig.messages("high")
        assert rig.coordinator.admission.describe()["suspended"] == []


async def test_seats_of_a_plan_that_is_changed_go_back_in_time_on_an_old_picture(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine, "CHANGING_SECONDS", 0.1)
    seats = SeatSettings(bind_seconds=0.3)
    async with rigged(replace(FAST, seats=seats)) as rig:
        await rig.gang("high", 2, "high")
        preemption = await rig.coordinator.ensure(rig.resolver_key("high-0"), Verb.LOOP)
        assert isinstance(preemption, Preemption)
        monkeypatch.setattr(rig.coordinator._term.source, "stale_for", lambda: 1e6)
        rig.coordinator.executor.feed(DoesNotHold(preemption, "a test says so"))
        await rig.until(lambda: not len(rig.coordinator.reservations), "the seats go back", 5)


async def test_a_namespace_over_its_evictions_waits() -> None:
    limits = EvictionSettings(per_namespace_hour=1)
    async with rigged(replace(FAST, eviction=limits)) as rig:
        await full_cluster(rig)
        await rig.preempt("high-0", n0=["low-0"])
        await rig.until(lambda: "budget" in rig.outcomes("high"), "refused")
        assert {*LOW, *HIGH} == await rig.names()
        assert "perNamespaceHour" in rig.messages("high")


async def test_evictions_of_a_plan_count_for_the_next_one() -> None:
    limits = EvictionSettings(per_namespace_hour=2)
    async with rigged(replace(FAST, eviction=limits)) as rig:
        await full_cluster(rig)
        await rig.preempt("high-0", n0=["low-0"])
        await rig.until_names(*HIGH)
        for i, name in enumerate(HIGH):
            await rig.bind(name, f"n{i}")
        await rig.until(lambda: "done" in rig.outcomes("high"), "it sits")
        assert shown_metrics(rig)["podgroup_extender_namespace_evictions_last_hour"] == {
            "default": 2.0
        }
        await rig.gang("top", 2, "top")
        await rig.preempt("top-0", n0=["high-0"])
        await rig.until(lambda: "budget" in rig.outcomes("top"), "refused")
        assert {*HIGH, "top-0", "top-1"} == await rig.names()
        met = shown_metrics(rig)["podgroup_extender_limits_met_total"]
        assert met["eviction-budget"] >= 1


async def test_what_is_limited_is_a_metric() -> None:
    async with rigged(FAST) as rig:
        await rig.gang("high", 2, "high")
        admission = rig.coordinator.admission
        assert "podgroup_extender_suspended_gangs" not in shown_metrics(rig)
        gang = rig.coordinator._reading.present_gang(rig.resolver_key("high-0"))
        admission.overran(gang, 13.0)
        admission.searched(gang, 7.0)
        shown = shown_metrics(rig)
        assert shown["podgroup_extender_suspended_gangs"] == {"overran": 1.0}
        assert shown["podgroup_extender_limits_met_total"] == {"suspended-overran": 1.0}
        assert shown["podgroup_extender_planning_recent_seconds"]["default"] > 6.0


async def test_a_namespace_with_more_budgets_than_are_read_is_a_metric() -> None:
    async with rigged(replace(FAST, plan=PlanSettings(budgets_per_namespace=1))) as rig:
        path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
        for name in ("one", "two"):
            spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}
            await rig.client.create(path, {"metadata": {"name": name}, "spec": spec})
            told = "podgroup_extender_budgets_unread"
            if name == "one":
                assert told not in shown_metrics(rig)
        await rig.until(
            lambda: shown_metrics(rig).get(told) == {"default": 2.0}, "the metric names it"
        )


async def test_members_of_another_scheduler_get_no_seat() -> None:
    async with rigged(FAST) as rig:
        await rig.gang("low", 2, "low", on="n")
        await rig.group("high", 2, "high")
        await rig.pod("high-0", cls="high", group="high")
        await foreign(rig, "high-1", "somebody-else")
        refused = await rig.coordinator.ensure(rig.resolver_key("high-0"), Verb.LOOP)
        assert isinstance(refused, Refusal)
        assert refused.code == "incomplete"
        assert {*LOW, *HIGH} == await rig.names()


async def test_a_scheduler_that_asks_is_one_of_ours_unless_others_are_configured() -> None:
    async with rigged(FAST) as rig:
        await rig.gang("low", 2, "low", on="n")
        await rig.group("high", 2, "high")
        for name in HIGH:
            await foreign(rig, name, "mine")
        await rig.filter("high-0", "n0")
        await rig.until(lambda: "plan" in rig.outcomes("high"), "planned")
    async with rigged(replace(FAST, scheduler_names=("only",))) as rig:
        await rig.group("high", 2, "high")
        for name in HIGH:
            await foreign(rig, name, "mine")
        await rig.filter("high-0", "n0", "n1")
        assert rig.outcomes("high")[-1] == "incomplete"
        assert rig.coordinator.admission.schedulers() == {"only"}


def test_a_scheduler_that_asks_for_the_first_time_makes_refusals_void() -> None:
    """Nothing in the cluster need change by that; for want of it a gang was refused for ever."""
    evidence = NodeLists(Clocks(lambda: 0.0))
    member = pod("high-0", priority=100, group="high")
    evidence.accepts(member, ["n0"])
    before = evidence.version()
    evidence.accepts(member, ["n0"])
    assert evidence.version() == before
    other = replace(member, shape=replace(member.shape, scheduler="mine"))
    evidence.accepts(other, ["n0"])
    assert evidence.version() != before


def test_a_grace_of_ten_years_is_cut_in_the_eviction_and_costs_no_immunity() -> None:
    years = 10 * 365 * 24 * 3600
    state = snapshot(
        [node("n0")],
        [pod("low", on="n0", grace=years), pod("high", group="high", priority=9)],
        [group("high", 1, priority=9)],
    )
    answer = plan_for(state, "high")
    assert isinstance(answer, Plan)
    assert [victim.grace for victim in answer.victims] == [3600]
    shorter = plan_for(state, "high", Settings(eviction=EvictionSettings(longest_grace_seconds=9)))
    assert isinstance(shorter, Plan)
    assert [victim.grace for victim in shorter.victims] == [9]


def test_of_victims_alike_otherwise_the_one_that_goes_soon_goes() -> None:
    """The last level: a long grace period shields no pod where anything else differs."""
    slow, quick = pod("a-slow", on="n0", grace=900), pod("quick", on="n1")
    nodes = [node("n0"), node("n1")]
    high, gang = pod("high", group="high", priority=9), group("high", 1, priority=9)
    assert evicted(plan_for(snapshot(nodes, [slow, quick, high], [gang]), "high")) == {"quick"}
    dearer = replace(quick, priority=3)
    assert evicted(plan_for(snapshot(nodes, [slow, dearer, high], [gang]), "high")) == {"a-slow"}
    older = replace(quick, started=quick.started - 1)
    assert evicted(plan_for(snapshot(nodes, [slow, older, high], [gang]), "high")) == {"a-slow"}
    found = plan_for(snapshot(nodes, [slow, quick, high], [gang]), "high")
    assert isinstance(found, Plan)
    assert "grace" in [cost.level for cost in found.costs]


@pytest.mark.parametrize("order", sorted(ORDERS))
def test_a_grace_of_an_hour_makes_no_equal_gang_go_instead(order: str) -> None:
    """Of two gangs alike the younger goes, whatever time its pods ask for to end."""
    state = snapshot(
        [node(f"n{i}") for i in range(4)],
        [
            *(pod(f"old-{i}", on=f"n{i}", group="old", started=NOW - 7200) for i in (0, 1)),
            *(pod(f"new-{i}", on=f"n{i + 2}", group="new", grace=3600) for i in (0, 1)),
            *(pod(f"high-{i}", group="high", priority=9) for i in (0, 1)),
        ],
        [group("old", 2), group("new", 2), group("high", 2, priority=9)],
    )
    plan = plan_for(state, "high", Settings(plan=PlanSettings(cost_order=order)))
    assert evicted(plan) == {"new-0", "new-1"}


def test_a_tiny_member_of_higher_priority_makes_no_equal_gang_go_instead() -> None:
    """A gang counts at the least priority at which a member may go."""
    state = snapshot(
        [node(f"n{i}") for i in range(4)],
        [
            *(pod(f"old-{i}", on=f"n{i}", group="old", started=NOW - 7200) for i in (0, 1)),
            pod("old-2", cpu=0.01, on="n0", group="old", started=NOW - 7200),
            *(pod(f"new-{i}", on=f"n{i + 2}", group="new") for i in (0, 1)),
            pod("new-2", cpu=0.01, on="n2", group="new", priority=1),
            *(pod(f"high-{i}", group="high", priority=9) for i in (0, 1)),
        ],
        [group("old", 3), group("new", 3), group("high", 2, priority=9)],
    )
    assert evicted(plan_for(state, "high")) == {"new-0", "new-1", "new-2"}


@pytest.mark.parametrize("stated", [None, 1], ids=["the lowest counts", "the group states it"])
def test_a_member_of_higher_priority_stays_alone_and_protects_no_other(stated: int | None) -> None:
    def going(asked: int) -> set[str]:
        old = [pod(f"old-{i}", on=f"n{i}", group="old", priority=(1, 1, 50)[i]) for i in range(3)]
        high = [pod(f"high-{i}", group="high", priority=asked) for i in range(2)]
        groups = [group("old", 3, priority=stated), group("high", 2, priority=asked)]
        state = snapshot([node(f"n{i}") for i in range(3)], [*old, *high], groups)
        return evicted(plan_for(state, "high"))

    assert going(50) == {"old-0", "old-1"}
    assert going(51) == {"old-0", "old-1", "old-2"}


def test_names_that_a_tenant_makes_up_do_not_fill_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(suspension, "MOST_GANGS", 10)
    counted = GiveUps(2, 3600.0)
    for i in range(100):
        counted.gave_up(GangKey("pod-group", "tenant", f"g{i}"), "", "why", float(i))
    assert len(counted._failed) == 10
    assert counted.gave_up(GangKey("pod-group", "tenant", "g99"), "", "why", 100.0) is not None


def test_a_clock_that_is_set_back_makes_no_suspension_longer() -> None:
    now, day = 1e9, 86_400.0
    held = GiveUps(1, 3600.0).gave_up(GangKey("pod-group", "tenant", "g"), "", "why", now)
    assert held is not None
    assert held.runs(now)
    assert held.runs(now - 60.0)  # another replica's clock
    assert not held.runs(now - day)
    assert not held.holds("", now - day)
    assert not held.runs(now + 3600.0)


async def test_a_suspension_longer_than_any_of_ours_is_not_taken_in() -> None:
    """Whoever writes its ConfigMap could keep a gang waiting for ever, or break its answers."""
    async with rigged(FAST) as rig:
        await rig.gang("high", 2, "high")
        key, now = rig.resolver_key("high-0"), time.time()
        written = [
            Suspension(key, Cause.OVERRAN, "so it is", now, until, "")
            for until in (now + 2 * FAST.seats.suspend_seconds, 1e300)
        ]
        for forged in written:
            await rig.kill()
            store = SuspensionStore(rig.client, "kube-system")
            await store.save([forged])
            await rig.start()
            assert rig.coordinator.admission.describe()["suspended"] == []
            assert not isinstance(await rig.coordinator.ensure(key, Verb.LOOP), Refusal)


# -- turns -----------------------------------------------------------------------------------


async def test_dear_gangs_of_one_namespace_do_not_delay_another_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Row 6, through the planning loop: each of the greedy gangs takes a while to refuse."""
    served: list[str] = []
    plan = Planner.plan

    def slow(self: Planner, question: GangQuestion, **more: Any) -> Plan | Refusal:
        if question.gang.key.name.startswith("greedy"):
            time.sleep(0.03)
        served.append(question.gang.key.name)
        return plan(self, question, **more)

    monkeypatch.setattr(Planner, "plan", slow)
    settings = replace(FAST, groups=GroupSettings(settle_seconds=0.0))
    async with rigged(settings) as rig:
        await rig.stop_rounds()
        names = [f"greedy{i:02}" for i in range(15)]
        for name in names:
            await rig.group(name, 9, "high")
        for name in names:
            for i in range(9):
                await rig.pod(f"{name}-{i}", cls="high", group=name, cpu="4")
        await in_namespace(rig, "other", "humble")
        for pod_ in list(rig.cache.store.pods.by_uid.values()):
            await tried(rig, pod_.name, pod_.namespace)
        await asyncio.sleep(0)
        await rig.until(lambda: len(rig.coordinator._reading.pending_gangs.keys()) == 16, "16 wait")
        await rig.coordinator.rounds.round()
        assert "humble" in served
        assert served.index("humble") <= 1
        seconds = rig.coordinator.admission.describe()["planningSeconds"]
        assert isinstance(seconds, dict)
        assert seconds["default"] > seconds.get("other", 0)


async def test_a_namespace_that_used_its_share_waits_for_others() -> None:
    async with rigged(FAST) as rig:
        await rig.stop_rounds()  # or one answers the other gang before this one is asked for
        await rig.gang("high", 2, "high")
        await rig.gang("top", 2, "top")
        await in_namespace(rig, "other", "humble")
        admission = rig.coordinator.admission
        gang = rig.coordinator._reading.present_gang(rig.resolver_key("high-0"))
        admission.searched(gang, 1000.0)
        assert must_wait(rig, gang) is None, "nobody else waits"
        await tried(rig, "humble-0", "other")
        await rig.until(
            lambda: len(rig.coordinator._reading.pending_gangs.keys()) == 1, "one waits"
        )
        refused = await rig.coordinator.ensure(gang.key, Verb.LOOP)
        assert isinstance(refused, Refusal)
        assert refused.code == "turn"
        assert shown_metrics(rig)["podgroup_extender_limits_met_total"]["planning-share"] >= 1


async def test_a_gang_that_nobody_would_plan_for_takes_nobodys_share() -> None:
    """One pod of a gang that is never complete was enough, of anybody, for ever."""
    async with rigged(FAST) as rig:
        await rig.stop_rounds()
        await rig.gang("high", 2, "high")
        admission = rig.coordinator.admission
        gang = rig.coordinator._reading.present_gang(rig.resolver_key("high-0"))
        admission.searched(gang, 1000.0)
        store = rig.cache.store
        store.groups["core"].put(group("idle", 5, namespace="other"))
        store.pods.put(pod("idle-0", group="idle", namespace="other", tried=True))
        job = replace(
            pod("index-0", namespace="other", tried=True),
            owner=Owner("Job", "index", "u"),
            annotations={"batch.kubernetes.io/job-completion-index": "0"},
        )
        store.pods.put(job)
        assert len(rig.coordinator._reading.pending_gangs.keys()) == 2
        assert must_wait(rig, gang) is None
        store.groups["core"].put(group("idle", 1, namespace="other", whole=False))
        refused = must_wait(rig, gang)
        assert refused is not None
        assert refused.code == "turn"


def shown_metrics(rig: Rig) -> dict[str, dict[str, float]]:
    """Metric -> its one label's value -> value, of what limits_metrics shows."""
    metrics = Metrics()
    expose_limits(metrics, SimpleNamespace(coordinator=rig.coordinator))  # type: ignore[arg-type]
    text = metrics.render("")[0].decode()
    metrics.close()
    shown: dict[str, dict[str, float]] = {}
    for name, value, number in re.findall(r'(?m)^(\w+)\{\w+="([^"]+)"\} (\S+)$', text):
        shown.setdefault(name, {})[value] = float(number)
    return shown


async def foreign(rig: Rig, name: str, scheduler: str) -> None:
    spec = {
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}],
        "priorityClassName": "high",
        "schedulingGroup": {"podGroupName": "high"},
        "schedulerName": scheduler,
    }
    body = {"metadata": {"name": name}, "spec": spec}
    await rig.client.create("/api/v1/namespaces/default/pods", body)
    await rig.until(lambda: rig.cache.pod_named("default", name) is not None, name)


async def in_namespace(rig: Rig, namespace: str, gang: str) -> None:
    """A gang of one in a namespace of its own, younger than all others."""
    await rig.client.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    await rig.client.create(
        f"/apis/scheduling.k8s.io/v1beta1/namespaces/{namespace}/podgroups",
        {
            "metadata": {"name": gang},
            "spec": {
                "schedulingPolicy": {"gang": {"minCount": 1}},
                "priorityClassName": "high",
            },
        },
    )
    spec = {
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "99"}}}],
        "priorityClassName": "high",
        "schedulingGroup": {"podGroupName": gang},
    }
    body = {"metadata": {"name": f"{gang}-0"}, "spec": spec}
    await rig.client.create(f"/api/v1/namespaces/{namespace}/pods", body)
    await rig.until(lambda: rig.cache.pod_named(namespace, f"{gang}-0") is not None, gang)
