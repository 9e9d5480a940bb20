"""Victims that do not go are not the fault of the gang that wanted them.

See docs/security.md, row 5.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from extender.gang.plan import stayed_victims
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.gang.plan.stayed_victims import StayedVictims
from extender.groups.resolver import Resolver
from extender.model.plan import Plan, Refusal
from extender.sandbox.faults import Fault
from extender.settings.policy import SYSTEM_CRITICAL
from extender.settings.settings import SeatSettings, Settings
from tests.gang.rig import FAST, Rig
from tests.gang.world import NOW, evicted, gang_key, group, node, plan_for, pod, snapshot

SHORT = replace(FAST, seats=SeatSettings(bind_seconds=30.0, victim_slack_seconds=0.2, give_ups=1))
KEY = gang_key("high")
GANG = Resolver(Settings().groups).resolve(
    KEY, snapshot([], [pod("high", group="high", priority=9)], [group("high", 1)])
)


async def tenants_pod(rig: Rig, name: str, on: str) -> None:
    """A pod of another namespace that does not go: nobody plays kubelet for it."""
    await rig.client.create(
        "/api/v1/namespaces/tenant/pods",
        {
            "metadata": {"name": name},
            "spec": {
                "nodeName": on,
                "terminationGracePeriodSeconds": 1,
                "priorityClassName": "low",
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}],
            },
        },
    )


async def given_up(rig: Rig, times: int) -> None:
    await rig.until(lambda: rig.outcomes("high").count("gave-up") >= times, "it is given up")
    rig.coordinator._reading.waiting.succeeded(rig.resolver_key("high-0"))  # no penalty in the way
    await rig.preempt("high-0")


async def test_victims_of_another_namespace_that_do_not_go_suspend_nobody() -> None:
    """Each would be a plan in vain; after two of them others are tried."""
    async with Rig(SHORT) as rig:
        await rig.nodes(4)
        await rig.classes(low=1, middle=5, high=100)
        await rig.client.create("/api/v1/namespaces", {"metadata": {"name": "tenant"}})
        for i in range(3):
            await tenants_pod(rig, f"tenant-{i}", f"n{i}")
        await rig.pod("other-0", cls="middle", on="n3")
        await rig.group("high", 1, "high")
        await rig.pod("high-0", cls="high", group="high")
        await rig.preempt("high-0")
        await given_up(rig, 1)
        assert "other-0" in await rig.names()
        await given_up(rig, 2)
        await rig.until(
            lambda: rig.cache.pod_named("default", "other-0") is None, "it goes instead"
        )
        assert "suspended" not in rig.outcomes("high")
        pods = (await rig.client.get("/api/v1/namespaces/tenant/pods"))["items"]
        assert sum("deletionTimestamp" in item["metadata"] for item in pods) == 2
        await rig.bind("high-0", "n3")
        await rig.until(lambda: "done" in rig.outcomes("high"), "it sits")


async def test_where_nobody_else_is_left_the_refusal_says_whose_pods_do_not_go() -> None:
    async with Rig(SHORT) as rig:
        await rig.nodes(3)
        await rig.classes(low=1, high=100)
        await rig.client.create("/api/v1/namespaces", {"metadata": {"name": "tenant"}})
        for i in range(3):
            await tenants_pod(rig, f"tenant-{i}", f"n{i}")
        await rig.group("high", 1, "high")
        await rig.pod("high-0", cls="high", group="high")
        await rig.preempt("high-0")
        await given_up(rig, 1)
        await given_up(rig, 2)
        await rig.until(lambda: "infeasible" in rig.outcomes("high"), "nobody is left")
        assert "pods of namespace tenant did not terminate" in rig.messages("high")


async def test_who_is_refused_in_rehearsal_is_not_chosen_again() -> None:
    """Nobody was lost; but the same plan again would come to the same end, for ever."""
    async with Rig(FAST) as rig:
        await rig.nodes(2)
        await rig.classes(low=1, middle=5, high=100)
        await rig.pod("low-0", cls="low", on="n0")
        await rig.pod("other-0", cls="middle", on="n1")
        rig.server.faults.plan(
            Fault(times=10_000, method="DELETE", path="low-0", status=403, reason="Forbidden")
        )
        await rig.group("high", 1, "high")
        await rig.pod("high-0", cls="high", group="high")
        await rig.preempt("high-0")
        await given_up(rig, 1)
        await rig.until_names("low-0", "high-0")
        assert rig.outcomes("high").count("gave-up") == 1


def test_how_long_a_namespace_is_not_counted_on() -> None:
    found = StayedVictims()
    found.note(KEY, "tenant", {"u0": "t-0"}, 0.0)
    assert not found.of(GANG, 0.0)
    found.note(KEY, "tenant", {"u0": "t-0"}, 0.0)
    assert not found.of(GANG, 0.0), "that is the same pod again"
    now = 0.0
    for lasting in (120, 240, 480, 960, 1920, 3600, 3600):
        version = found.version(now)
        found.note(KEY, "tenant", {f"u{now}": "t-1"}, now)
        assert found.version(now) > version
        assert "t-1" in found.of(GANG, now)["tenant"]
        assert found.of(GANG, now + lasting - 1)
        version = found.version(now + lasting - 1)
        assert not found.of(GANG, now + lasting)
        assert found.version(now + lasting) > version, "a refusal that rests on it stands no more"
        now += lasting - 1
    assert not found.of(replace(GANG, preemptor_priority=SYSTEM_CRITICAL), now)
    found.note(KEY, "tenant", {"u1": "t-1"}, now + 3600)
    assert not found.of(GANG, now + 3600), "that is forgotten"
    found.note(KEY, "tenant", {"u2": "t-2"}, now + 3601)
    assert found.of(GANG, now + 3601)
    found.seated(KEY)
    assert not found.of(GANG, now + 3601)


def test_names_that_tenants_make_up_do_not_fill_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stayed_victims, "MOST_GANGS", 5)
    found = StayedVictims()
    for i in range(20):
        for k in range(100):
            found.note(gang_key(f"g{i}"), f"tenant-{k}", {"u": "t"}, 1.0)
    assert len(found._stays) == 5
    assert max(map(len, found._stays.values())) == stayed_victims.MOST_NAMESPACES


def test_neither_victims_nor_terminating_pods_of_such_a_namespace_are_counted_on() -> None:
    """Also by a planner that has seen the cluster otherwise, and will again."""
    resolver = Resolver(Settings().groups)
    state = snapshot(
        [node(f"n{i}") for i in range(4)],
        [
            pod("mine-0", on="n0", namespace="tenant"),
            replace(pod("mine-1", on="n1", namespace="tenant"), deleting=NOW + 5),
            pod("mine-2", on="n2", namespace="tenant", group="whole"),
            pod("other", on="n3", priority=5),
            pod("high", group="high", priority=9),
        ],
        [group("high", 1, priority=9), group("whole", 1, namespace="tenant")],
        namespaces={"default": {}, "tenant": {}},
    )
    kept = Planner(Settings(), resolver)
    without = replace(state, stayed={"tenant": "they do not go"}, generation=2)
    for each, goes in ((state, set()), (without, {"other"}), (state, set())):
        answer = kept.plan(GangQuestion(resolver.resolve(KEY, each), each))
        assert answer == plan_for(each, "high")
        assert evicted(answer) == goes
        assert isinstance(answer, Plan)
        assert bool(answer.waits_for) == (not goes)
    alone = replace(without, bound={name: state.bound[name] for name in ("n0", "n1", "n2")})
    alone = replace(alone, nodes={name: state.nodes[name] for name in alone.bound})
    answer = plan_for(alone, "high")
    assert isinstance(answer, Refusal)
    assert "they do not go" in answer.message


async def test_an_eviction_that_the_api_server_does_not_take_is_nobodys_fault() -> None:
    """One victim has gone for nothing; but neither gang nor namespace is to blame."""
    async with Rig(SHORT) as rig:
        await rig.nodes(2)
        await rig.classes(low=1, high=100)
        for i in range(2):
            await rig.pod(f"low-{i}", cls="low", on=f"n{i}")
        rig.server.faults.plan(
            Fault(times=1, method="DELETE", path=r"low-1(?!.*dryRun)", delay=3.0, status=503)
        )
        await rig.gang("high", 2, "high")
        await rig.preempt("high-0")
        await rig.until(lambda: "gave-up" in rig.outcomes("high"), "it is given up")
        admission = rig.coordinator.admission
        assert rig.cache.pod_named("default", "low-0") is None
        assert "1 eviction not accepted" in rig.messages("high")
        assert admission.describe()["suspended"] == []
        assert admission.counted["victims-stayed"] == 0
        assert not rig.coordinator.plans.victims.refusals.unevictable()


# -- counted by hand -------------------------------------------------------------------------


def stays_of(*times: float, namespace: str = "tenant") -> StayedVictims:
    """Plans that ended at these times, since other pods did not go each time."""
    stays = StayedVictims()
    for number, now in enumerate(times):
        stays.note(KEY, namespace, {f"uid-{number}": f"p{number}"}, now)
    return stays


def test_the_version_grows_when_it_is_said_and_when_it_is_over() -> None:
    free = stayed_victims.FREE_TRIES
    stays = stays_of(*(float(i) for i in range(free + 1)))
    began = stays.version(float(free))
    over = free + stayed_victims.FIRST_SECONDS
    assert set(stays.of(GANG, over - 1)) == {"tenant"}
    assert stays.version(over - 1) == stays.version(over - 1)
    before = stays.version(over - 1)
    assert dict(stays.of(GANG, over)) == {}
    assert stays.version(over) > before >= began
    assert stays.version(over) == stays.version(over + 10_000.0)


def test_the_version_grows_as_each_of_several_is_over() -> None:
    free, first = stayed_victims.FREE_TRIES, stayed_victims.FIRST_SECONDS
    stays = stays_of(*(0.0,) * (free + 1))
    for number in range(free + 1):
        stays.note(KEY, "another", {f"uid-a{number}": "a"}, 5.0)
    versions = [stays.version(now) for now in (6.0, first - 1, first, first + 4, first + 5)]
    assert versions[0] == versions[1] < versions[2] == versions[3] < versions[4]
    assert set(stays.of(GANG, first)) == {"another"}


def test_the_version_grows_with_each_that_is_noted_and_when_all_is_forgotten() -> None:
    stays = stays_of(0.0)
    before = stays.version(-1.0)
    stays.note(KEY, "tenant", {"uid-new": "new"}, 1.0)
    noted = stays.version(-1.0)
    assert noted > before
    stays.seated(KEY)
    assert stays.version(-1.0) > noted
    after = stays.version(-1.0)
    stays.seated(KEY)
    assert stays.version(-1.0) == after


def test_the_reason_names_the_pods_in_order() -> None:
    stays = StayedVictims()
    for number in range(stayed_victims.FREE_TRIES + 1):
        pods = {f"{number}-{name}": name for name in ("c", "a", "b")}
        stays.note(KEY, "tenant", pods, float(number))
    (why,) = stays.of(GANG, float(stayed_victims.FREE_TRIES)).values()
    assert "the last time a, b, c: others" in why


def test_nothing_said_is_an_empty_answer() -> None:
    assert stays_of().of(GANG, 0.0) is stays_of(0.0).of(GANG, 1e9)
    assert dict(stays_of().of(GANG, 0.0)) == {}
