"""Pods are evicted once for a gang that kube-scheduler then does not start, whoever asks.

A filter plugin that we do not know, or an extender before us, refuses the nodes: kube-scheduler
tries the members, clears their nominations, and asks about nobody.
"""

from __future__ import annotations

from msgspec.structs import replace

from extender.gang.core.reservations import Preemption
from extender.gang.tell.decisions import Verb
from extender.gang.tell.preemption_state import PreemptionState
from extender.model.plan import Code, Refusal
from extender.settings.settings import SeatSettings
from tests.gang.limited import rigged, tried, warnings
from tests.gang.rig import FAST, HIGH, LOW, PODS, Rig

SHORT = replace(FAST, seats=SeatSettings(bind_seconds=1.0, victim_slack_seconds=1.0))


async def singles(rig: Rig) -> None:
    """Pods of low priority fill both nodes, as if a Deployment had made them."""
    for i, name in enumerate(LOW):
        await rig.pod(name, cls="low", on=f"n{i}")
    await rig.until(lambda: rig.cache.pod_named("default", "low-1") is not None, "they are there")


async def opened(rig: Rig) -> Preemption:
    """The gang's plan with its seats open, and its members nominated to them."""
    found = await rig.coordinator.ensure(rig.resolver_key("high-0"), Verb.LOOP)
    assert isinstance(found, Preemption)
    await rig.until(
        lambda: (
            found.state is PreemptionState.OPEN and all(rig.cached(name).nominated for name in HIGH)
        ),
        "the seats are open",
    )
    return found


async def clear_nominations(rig: Rig) -> None:
    """kube-scheduler has tried the members, and no node passes its filters."""
    for name in HIGH:
        status = {"status": {"nominatedNodeName": None}}
        await rig.client.patch(f"{PODS}/{name}/status", status, kind="merge")


async def again(rig: Rig) -> Preemption | Refusal:
    """What is planned next, once the pause after a plan given up is over."""
    await rig.until(lambda: "gave-up" in rig.outcomes("high"), "the plan is given up")
    rig.coordinator._reading.waiting.succeeded(rig.resolver_key("high-0"))
    return await rig.coordinator.ensure(rig.resolver_key("high-0"), Verb.LOOP)


async def test_pods_are_evicted_once_where_kube_scheduler_refuses_the_seats() -> None:
    """Ten evictions in 330 s, and never suspended: nobody asked while the seats were open."""
    async with rigged(SHORT) as rig:
        await singles(rig)
        await rig.gang("high", 2, "high")
        await opened(rig)
        await clear_nominations(rig)
        await rig.until(lambda: "gave-up" in rig.outcomes("high"), "the plan is given up")
        await singles(rig)
        refused = await again(rig)
        assert isinstance(refused, Refusal)
        assert refused.code is Code.SUSPENDED
        assert "no pod is evicted" in refused.message
        assert "high-0, high-1" in refused.message
        assert {*LOW, *HIGH} == await rig.names()
        told = await warnings(rig)
        assert {one["involvedObject"]["name"] for one in told} == set(HIGH)
        # It starts where no pod has to go for it.
        for name in HIGH:
            await tried(rig, name)
        for name in LOW:
            await rig.remove(name)
        await rig.until(lambda: len(rig.coordinator.reservations) > 0, "it has a plan")


async def test_a_gang_without_an_answer_from_kube_scheduler_evicts_a_few_times_only() -> None:
    """Nothing shows that kube-scheduler has tried them: the plan counts all the same."""
    seats = SeatSettings(bind_seconds=0.2, victim_slack_seconds=1.0, give_ups=1)
    async with rigged(replace(FAST, seats=seats)) as rig:
        await singles(rig)
        await rig.gang("high", 2, "high")
        assert isinstance(
            await rig.coordinator.ensure(rig.resolver_key("high-0"), Verb.LOOP), Preemption
        )
        await rig.until(lambda: "gave-up" in rig.outcomes("high"), "the plan is given up")
        await singles(rig)
        refused = await again(rig)
        assert isinstance(refused, Refusal)
        assert refused.code is Code.SUSPENDED
        assert {*LOW, *HIGH} == await rig.names()


async def test_a_member_that_was_given_its_seat_is_not_one_that_was_refused_it() -> None:
    """Its binding fails, or a volume takes its time: three plans given up suspend, not one."""
    async with rigged(SHORT) as rig:
        await singles(rig)
        await rig.gang("high", 2, "high")
        plan = await opened(rig)
        for name in HIGH:
            node = plan.seats[rig.cached(name).uid]
            assert (await rig.filter(name, node, nominated=node)).node_names == [node]
        await clear_nominations(rig)
        await rig.until(lambda: "gave-up" in rig.outcomes("high"), "the plan is given up")
        await singles(rig)
        assert isinstance(await again(rig), Preemption)
