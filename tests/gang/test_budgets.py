"""Disruption budgets: found the same way, charged to their namespace, read at the last moment.

See docs/security.md, row 6.
"""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from extender.decode.from_json import decode_group
from extender.fit.selector_index import VALUES_EACH
from extender.gang.incremental.planning_cache import PlanningCache
from extender.gang.incremental.protection import Protections
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.gang.plan.validity import INDEXED, guarding, over_budget, unit_problem, victim_problem
from extender.gang.runtime.clocks import Clocks
from extender.gang.tell.decisions import Verb
from extender.groups.resolver import Resolver
from extender.model.objects import (
    DisruptionBudget,
    GangKey,
    GroupObject,
    LabelSelector,
    Pod,
    Requirement,
)
from extender.model.owner_budget import MAX_UNAVAILABLE, MIN_AVAILABLE, OwnerBudget, budget_of
from extender.model.plan import Plan, Refusal
from extender.model.snapshot import Snapshot
from extender.sandbox.apiserver import ApiServer
from extender.sandbox.faults import Fault
from extender.sandbox.resources import OTHER_POD_GROUPS
from extender.settings.policy import SYSTEM_CRITICAL, OptOutRule, PolicySettings
from extender.settings.settings import GroupSettings, PlanSettings, Settings
from extender.settings.settings_rules import validate
from tests.gang.rig import FAST, PODS, Rig, full_cluster, held_back, let_go
from tests.gang.world import evicted, gang_key, group, node, pod, snapshot

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
SELECTED = Requirement("app", "In", ("x",))
READ = f"{BUDGETS}\\?fieldSelector"


async def running(rig: Rig, name: str, first: int) -> None:
    """A gang of two pods that run on two nodes, with label app=x."""
    await rig.group(name, 2, "low")
    for i in range(2):
        pod = f"{name}-{i}"
        await rig.pod(pod, cls="low", group=name, on=f"n{first + i}", labels={"app": "x"})
        ready = [{"type": "Ready", "status": "True"}]
        status = {"status": {"phase": "Running", "conditions": ready}}
        await rig.client.patch(f"{PODS}/{pod}/status", status)
    await rig.until(
        lambda: all(rig.cached(f"{name}-{i}").phase == "Running" for i in range(2)), "they run"
    )


async def budget(rig: Rig, name: str, allowed: int, **labels: str) -> None:
    spec = {"maxUnavailable": 2, "selector": {"matchLabels": labels}}
    await rig.client.create(BUDGETS, {"metadata": {"name": name}, "spec": spec})
    await allows(rig, name, allowed)
    shown = rig.cache.snapshot
    await rig.until(
        lambda: any(b.name == name and b.allowed == allowed for b in shown().budgets), name
    )


async def allows(rig: Rig, name: str, allowed: int) -> None:
    status = {"disruptionsAllowed": allowed, "observedGeneration": 1}
    await rig.client.patch(f"{BUDGETS}/{name}/status", {"status": status})


async def planned(rig: Rig) -> Fault:
    """Plan to evict low for high; the record is held back."""
    await running(rig, "low", 0)
    await budget(rig, "b", 2, app="x")
    record = held_back(rig, "POST", "configmaps")
    await rig.gang("high", 2, "high")
    await rig.preempt("high-0", n0=["low-0"], n1=["low-1"])
    await rig.until(lambda: record.hits > 0, "the record is on its way")
    return record


async def refused(rig: Rig, record: Fault, told: str) -> None:
    """Once the record is written, the plan ends and no pod is evicted."""
    let_go(record)
    await rig.until(lambda: "gave-up" in rig.outcomes("high"), "the plan ends")
    assert {"low-0", "low-1"} <= await rig.names()
    assert told in rig.messages("high")


async def test_a_budget_that_shrinks_before_the_first_eviction_keeps_the_gang(rig: Rig) -> None:
    record = await planned(rig)
    rig.server.faults.stall()  # the cache does not see it
    await allows(rig, "b", 1)
    await refused(rig, record, "PodDisruptionBudget default/b allows 1 eviction now")


async def test_a_budget_whose_new_spec_is_not_counted_yet_allows_nothing(rig: Rig) -> None:
    record = await planned(rig)
    status = {"disruptionsAllowed": 2, "observedGeneration": 1}
    await rig.client.patch(f"{BUDGETS}/b/status", {"status": status})
    await rig.client.patch(f"{BUDGETS}/b", {"spec": {"maxUnavailable": 1}})
    await refused(rig, record, "PodDisruptionBudget default/b allows 0 evictions now")


async def test_a_second_budget_that_comes_before_the_first_eviction_keeps_the_gang(
    rig: Rig,
) -> None:
    record = await planned(rig)
    await rig.client.patch(f"{PODS}/low-1", {"metadata": {"labels": {"second": "yes"}}})
    await budget(rig, "b2", 2, second="yes")
    await rig.until(lambda: rig.cached("low-1").labels.get("second") == "yes", "its label")
    await refused(rig, record, "'b' and 'b2' select it")


async def test_a_budget_is_read_again_before_it_refuses(rig: Rig) -> None:
    """Its spec is changed, and its controller counts a moment later."""
    record = await planned(rig)
    status = {"disruptionsAllowed": 2, "observedGeneration": 1}
    await rig.client.patch(f"{BUDGETS}/b/status", {"status": status})
    await rig.client.patch(f"{BUDGETS}/b", {"spec": {"maxUnavailable": 3}})
    reads = held_back(rig, "GET", READ)
    let_go(reads)
    let_go(record)
    await rig.until(lambda: reads.hits > 0, "it is read")
    status = {"disruptionsAllowed": 3, "observedGeneration": 2}
    await rig.client.patch(f"{BUDGETS}/b/status", {"status": status})
    await rig.until_names("high-0", "high-1")


async def test_budgets_that_speak_for_no_victim_are_not_read(rig: Rig) -> None:
    await running(rig, "low", 0)
    await budget(rig, "b", 2, app="another")
    reads = rig.server.faults.plan(Fault(100, "GET", READ, status=403, reason="Forbidden"))
    await rig.gang("high", 2, "high")
    await rig.preempt("high-0", n0=["low-0"], n1=["low-1"])
    await rig.until_names("high-0", "high-1")
    assert not reads.hits


async def test_requests_of_a_plan_that_has_ended_take_of_a_budget(wide: Rig) -> None:
    """3 evictions are allowed, and 2 are under way: a second gang of 2 stays."""
    rig = wide
    for number, name in enumerate(("lowx", "lowy")):
        await running(rig, name, 2 * number)
    await budget(rig, "b", 3, app="x")
    held = held_back(rig, "POST", r"lowx-[01]/eviction(?!.*dryRun)", times=2)
    await rig.gang("high", 2, "high")
    await rig.preempt("high-0", n0=["lowx-0"], n1=["lowx-1"])
    await rig.until(lambda: held.hits > 1, "the evictions are under way")
    for i in range(2):
        await rig.remove(f"high-{i}")
    plans = rig.coordinator.executor.plans
    await rig.until(lambda: not len(plans.reservations), "the plan ends")
    reads = rig.server.faults.plan(Fault(100, "GET", READ))
    await rig.gang("top", 4, "top")
    offered = {f"n{2 * n + i}": [f"low{x}-{i}"] for n, x in enumerate("xy") for i in range(2)}
    await rig.preempt("top-0", **offered)
    await rig.until(lambda: reads.hits > 1, "the budget is read, and again")
    assert {"lowy-0", "lowy-1"} <= await rig.names()
    let_go(held)
    await rig.until(lambda: "gave-up" in rig.outcomes("top"), "the plan ends")
    assert {"lowy-0", "lowy-1"} <= await rig.names()


async def test_a_pod_that_its_budget_keeps_is_in_no_other_plans_way(wide: Rig) -> None:
    """The rest of a gang that went in part waits for its own budget; others need none of it."""
    rig = wide
    await running(rig, "low", 0)
    await budget(rig, "c", 2, app="x")
    for i in (2, 3):
        # No victim for high, which searches again.
        await rig.pod(f"solo-{i}", cls="high", on=f"n{i}", labels={"app": "solo"})
    await budget(rig, "s", 2, app="solo")
    held = held_back(rig, "POST", r"low-1/eviction(?!.*dryRun)")
    await rig.gang("high", 2, "high")
    await rig.preempt("high-0", n0=["low-0"], n1=["low-1"])
    await rig.until(lambda: held.hits > 0, "the eviction is under way")
    await rig.until(lambda: rig.cache.pod_named("default", "low-0") is None, "low-0 goes")
    await allows(rig, "c", 0)
    let_go(held)
    broken = ("gave-up", "broken")
    await rig.until(lambda: any(b in rig.outcomes("high") for b in broken), "low-1 is refused")
    await rig.gang("two", 2, "top")
    async with asyncio.timeout(rig.patience):
        while {"solo-2", "solo-3"} <= await rig.names():
            there = [rig.cache.pod_named("default", f"solo-{i}") is not None for i in (2, 3)]
            if all(there):  # else they have just gone
                await rig.preempt("two-0", n2=["solo-2"], n3=["solo-3"])
            await asyncio.sleep(0.1)


async def test_pods_whose_budget_says_no_at_each_read_are_left_for_others(rig: Rig) -> None:
    """A tenant's budget allows evictions but for the moment in which it is read."""
    await rig.nodes(1, first=2)
    await rig.classes(mid=50)
    for i in range(2):
        await rig.pod(f"bait-{i}", cls="low", on=f"n{i}", labels={"app": "x"})
    await rig.pod("other", cls="mid", on="n2")
    ready = [{"type": "Ready", "status": "True"}]
    for name in ("other", *(f"bait-{i}" for i in range(2))):
        status = {"status": {"phase": "Running", "conditions": ready}}
        await rig.client.patch(f"{PODS}/{name}/status", status)
    pods = rig.cache.store.pods.by_uid
    await rig.until(lambda: [p.phase for p in pods.values()] == ["Running"] * 3, "they run")
    await budget(rig, "b", 2, app="x")
    get = rig.own.get

    async def zero(path: str, **named: Any) -> Any:
        if path != BUDGETS:
            return await get(path, **named)
        await allows(rig, "b", 0)
        answer = await get(path, **named)
        await allows(rig, "b", 2)
        return answer

    rig.own.get = zero  # type: ignore[method-assign]
    await rig.gang("high", 1, "high")
    offered = {f"n{i}": [f"bait-{i}"] for i in range(2)} | {"n2": ["other"]}
    async with asyncio.timeout(rig.patience):
        while "other" in await rig.names():
            if rig.cache.pod_named("default", "other") is not None:  # else it has just gone
                await rig.preempt("high-0", **offered)
            await asyncio.sleep(0.5)


async def test_nothing_is_evicted_while_budgets_cannot_be_read(rig: Rig) -> None:
    record = await planned(rig)
    rig.server.faults.plan(Fault(100, "GET", READ, status=403, reason="Forbidden"))
    let_go(record)
    told = "disruption budgets cannot be read, so nothing is evicted"
    await rig.until(lambda: told in rig.messages("high"), "the plan ends")
    assert {"low-0", "low-1"} <= await rig.names()


@pytest.mark.parametrize(
    ("allowed", "policy", "state", "refused"),
    [
        (2, "", {}, []),
        (1, "", {}, ["p1"]),
        (0, "", {}, ["p0", "p1"]),
        (0, "", {"phase": "Pending"}, []),
        (0, "", {"phase": "Succeeded"}, []),
        (0, "AlwaysAllow", {"unready": True}, []),
        (0, "", {"unready": True}, ["p0", "p1"]),
        (0, "", {"labels": {"app": "y"}}, []),
        (0, "", {"namespace": "other"}, []),
    ],
)
def test_what_a_budget_allows(
    allowed: int, policy: str, state: dict[str, object], refused: list[str]
) -> None:
    """As ``checkAndDecrement`` counts: neither what has ended nor what may go unready."""
    of: dict[str, object] = {"phase": "Running", "labels": {"app": "x"}, **state}
    pods = [replace(pod(f"p{i}", on="n0"), **of) for i in range(2)]
    selector = LabelSelector((SELECTED,))
    one = DisruptionBudget("u", "default", "b", selector, allowed, unready_free=bool(policy))
    assert list(over_budget(pods, [one])) == [f"uid-{name}" for name in refused]


def test_what_goes_first_takes_of_a_budget_and_refuses_nothing() -> None:
    own, other = (
        [replace(pod(name, on="n0", labels={"app": "x"}), phase="Running") for name in names]
        for names in (("p0", "p1"), ("q0", "q1"))
    )
    one = DisruptionBudget("u", "default", "b", LabelSelector((SELECTED,)), 3)
    assert not over_budget(own, [one])
    assert list(over_budget(own, [one], other)) == ["uid-p1"]
    none = replace(one, namespace="default", name="c", allowed=0)
    stuck = [replace(each, labels={"app": "y"}) for each in other]
    theirs = replace(none, selector=LabelSelector((Requirement("app", "In", ("y",)),)))
    assert not over_budget(own, [one, theirs], stuck)
    assert list(over_budget(own, [one, none])) == ["uid-p0", "uid-p1"]


VALUES = st.sampled_from(("a", "b", "c"))


@st.composite
def selectors(draw: st.DrawFn) -> LabelSelector | None:
    if draw(st.integers(0, 9)) == 0:
        return None
    return LabelSelector(
        tuple(
            Requirement(key, draw(st.sampled_from(("In", "NotIn"))), (draw(VALUES), draw(VALUES)))
            for key in ("x", "y")[: draw(st.integers(0, 2))]
        )
    )


@given(st.lists(st.tuples(selectors(), st.integers(0, 2)), max_size=6), st.data())
def test_an_index_finds_what_each_pod_finds(
    drawn: list[tuple[LabelSelector | None, int]], data: st.DataObject
) -> None:
    budgets = tuple(
        DisruptionBudget(f"u{at}", "default", f"b{at}", selector, allowed)
        for at, (selector, allowed) in enumerate(drawn)
    )
    pods: list[Pod] = [
        pod(f"p{at}", on="n0", labels={key: data.draw(VALUES) for key in ("x", "y")})
        for at in range(INDEXED + 2)
    ]
    state = snapshot([node("n0", 1000)], pods, [], budgets=list(budgets))
    protections = Protections(Settings())
    alone: dict[str, list[DisruptionBudget]] = {}
    for each in pods:
        alone |= guarding([each], state, protections, 100)
    assert guarding(pods, state, protections, 100) == alone
    refused = over_budget(pods, budgets)
    assert refused.keys() >= {uid for uid, found in alone.items() if len(found) > 1}
    for at, budget in enumerate(budgets):
        own = [each for each in pods if alone.get(each.uid) == [budget]]
        assert sum(each.uid in refused for each in own) == max(0, len(own) - budgets[at].allowed)


FEW = Settings(plan=PlanSettings(budgets_per_namespace=3))
NODES = [node(f"n{at}") for at in range(40)]
TENANTS = [
    pod(f"tiny{at}", cpu=0.01, on=f"n{at}", namespace="tenant", labels={"app": f"a{at}"})
    for at in range(40)
]
GANG = [pod(f"work{at}", on=f"n{at}", group="work") for at in range(4)]


def many_budget(at: int, namespace: str = "tenant") -> DisruptionBudget:
    """One that matches every pod of the namespace, by ten requirements."""
    refused = tuple(Requirement(f"k{key}", "NotIn", (f"v{at}",)) for key in range(10))
    name = f"b{at:04}"
    return DisruptionBudget(
        uid=f"{namespace}-{name}",
        namespace=namespace,
        name=name,
        selector=LabelSelector(refused),
        allowed=0,
    )


BASE = snapshot(NODES, [*TENANTS, *GANG], [group("work")], namespaces={"default": {}, "tenant": {}})


class Counting:
    """A census that counts the nodes that are put."""

    def __init__(self, census: Any) -> None:
        self.census = census
        self.slots: list[int] = []

    def put(self, slot: int, *rest: Any) -> None:
        """As the census."""
        self.slots.append(slot)
        self.census.put(slot, *rest)

    def drop(self, slot: int) -> None:
        """As the census."""
        self.census.drop(slot)


class Watched:
    """A planning cache whose work is counted."""

    def __init__(self, settings: Settings = FEW) -> None:
        self.cache = PlanningCache(Resolver(settings.groups), settings)
        self.counting = Counting(self.cache.census)
        self.cache.census = self.counting  # type: ignore[assignment]
        self._generation = 1

    def put(self, *budgets: DisruptionBudget) -> int:
        """Show the cache these budgets; return how many nodes were put again."""
        self.counting.slots.clear()
        self._generation += 1
        self.cache.renew(replace(BASE, generation=self._generation, budgets=budgets))
        return len(self.counting.slots)

    def judged(self, key: GangKey) -> object:
        """Return what is known of a gang."""
        return self.cache.preemptability.of_gang(key, self.cache.now)


def test_one_more_budget_of_many_puts_no_node_again() -> None:
    watched = Watched(Settings(plan=PlanSettings(budgets_per_namespace=2000)))
    many = [many_budget(at) for at in range(1500)]
    assert watched.put(*many[:1400]) == len(NODES)
    for more in range(1400, 1410):
        assert watched.put(*many[:more]) == 0
    assert watched.put(*many[:1]) == len(NODES)  # one that matches is another thing than two
    assert watched.put(*many[:2]) == len(NODES)
    assert watched.put(*many[:3]) == 0
    assert watched.put() == len(NODES)


def test_a_budget_that_matches_some_pods_puts_their_nodes_again() -> None:
    watched = Watched()
    assert watched.put() == len(NODES)
    some = LabelSelector((Requirement("app", "In", ("a3", "a4")),))
    one = DisruptionBudget(uid="x", namespace="tenant", name="x", selector=some, allowed=0)
    assert watched.put(one) == 2
    assert watched.put() == 2


def test_gangs_of_other_namespaces_are_not_judged_again() -> None:
    watched = Watched()
    key = gang_key("work")
    watched.put(many_budget(0))
    first = watched.judged(key)
    watched.put(many_budget(0), many_budget(1))
    assert watched.judged(key) is first
    watched.put(many_budget(0), many_budget(1), many_budget(0, "default"))
    assert watched.judged(key) is not first


TENANT_ROOM = [
    replace(each, requests=(("cpu", 3_000), ("pods", 1))) if each.namespace == "tenant" else each
    for each in TENANTS
]
URGENT = pod("urgent", cpu=2, priority=1000, group="urgent")
"""Needs the room of some pod: each node has four CPUs."""


def asked(
    *budgets: DisruptionBudget, settings: Settings = FEW, pods: Sequence[Pod] = TENANT_ROOM
) -> Plan | Refusal:
    """Ask for a gang of one while a tenant has these budgets."""
    resolver = Resolver(settings.groups)
    state = replace(
        snapshot(
            NODES, [*pods, URGENT], [group("urgent", 1)], namespaces={"default": {}, "tenant": {}}
        ),
        budgets=budgets,
    )
    gang = resolver.resolve(gang_key("urgent"), state)
    return Planner(settings, resolver).plan(GangQuestion(gang, state))


def nothing(at: int, namespace: str = "tenant") -> DisruptionBudget:
    """A budget that matches no pod."""
    wanted = LabelSelector((Requirement("none", "In", ("x",)),))
    return replace(many_budget(at, namespace), selector=wanted)


def test_no_pod_of_a_namespace_with_too_many_budgets_goes_and_the_refusal_names_it() -> None:
    assert isinstance(asked(*map(nothing, range(3))), Plan)
    refused = asked(*map(nothing, range(4)))
    assert isinstance(refused, Refusal)
    why = (
        "namespace tenant has more PodDisruptionBudgets, or more values in their selectors, than "
        "are read (plan.budgetsPerNamespace: 3): none of its pods is evicted"
    )
    assert f"tenant/tiny0 stays on n0: {why}" in refused.details


def listing(values: int, operator: str = "In") -> DisruptionBudget:
    """A budget that lists this many values of a label that no pod has."""
    these = Requirement("none", operator, tuple(f"x{at}" for at in range(values)))
    return replace(many_budget(0), selector=LabelSelector((these,)))


def test_nor_of_one_whose_budgets_list_too_many_values() -> None:
    assert isinstance(asked(listing(3 * VALUES_EACH)), Plan)
    refused = asked(listing(3 * VALUES_EACH + 1))
    assert isinstance(refused, Refusal)
    assert any("stays on n0: namespace tenant has more" in each for each in refused.details)


def test_only_that_namespace_is_concerned() -> None:
    """Pods of another one go, though they are dearer, and their own budgets still count."""
    other = [replace(each, namespace="default", priority=500) for each in TENANT_ROOM[:2]]
    other[0] = replace(other[0], labels={"app": "kept"})
    kept = LabelSelector((Requirement("app", "In", ("kept",)),))
    budgets = [*map(nothing, range(4)), replace(many_budget(0, "default"), selector=kept)]
    plan = asked(*budgets, pods=[*other, *TENANT_ROOM[2:]])
    assert isinstance(plan, Plan)
    assert [victim.name for victim in plan.victims] == ["tiny1"]


def test_budgets_that_are_not_to_count_do_not_by_their_number() -> None:
    """Who may not opt out by a budget may not by a thousand."""
    trusted = replace(
        FEW, policy=PolicySettings(opt_out={"PodDisruptionBudget": OptOutRule(namespaces=None)})
    )
    assert isinstance(asked(*map(nothing, range(4)), settings=trusted), Plan)
    preferred = replace(FEW, plan=replace(FEW.plan, pdb_policy="prefer"))
    assert isinstance(asked(*map(nothing, range(4)), settings=preferred), Plan)


def test_a_namespace_that_has_too_many_budgets_costs_its_nodes_once() -> None:
    watched = Watched()
    watched.put(*map(nothing, range(3)))
    assert watched.put(*map(nothing, range(4))) == len(NODES)
    assert watched.cache.guards.crowded == {"tenant": 4}
    assert watched.put(*map(nothing, range(5))) == 0
    assert watched.put(*map(nothing, range(3))) == len(NODES)
    assert watched.cache.guards.crowded == {}


def test_what_budgets_cost_is_told_by_the_namespace_that_has_them() -> None:
    planner = Planner(FEW, Resolver(FEW.groups))
    planner.see(BASE)
    assert planner.budget_shares() == {}
    planner.see(replace(BASE, generation=2, budgets=(many_budget(0),)))
    shares = planner.budget_shares()
    assert shares.keys() == {"tenant"}
    assert 0.5 < shares["tenant"] <= 1
    planner.see(replace(BASE, generation=3, budgets=(many_budget(0),), pending={}))
    assert planner.budget_shares() == {}


def test_each_value_that_budgets_list_is_paid_for() -> None:
    settings = Settings()
    planner = Planner(settings, Resolver(settings.groups))
    planner.see(BASE)
    long = 20 * len(NODES)
    planner.see(replace(BASE, generation=2, budgets=(listing(long, "NotIn"),)))
    assert planner.budget_shares()["tenant"] > 0.9


async def test_a_gang_is_not_charged_for_budgets_of_others(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are paid for by the namespace that has them, and no gang is suspended for them."""
    await rig.stop_rounds()
    await full_cluster(rig)
    planning: Any = rig.coordinator
    take_in, later = planning.thread.take_in, [0.0]

    async def dear(state: Snapshot) -> dict[str, float]:
        if planning.thread.planner.seen != state.generation:
            later[0] += 300.0
        return {**await take_in(state), "tenant": 300.0}

    monkeypatch.setattr(planning.thread, "take_in", dear)
    clocks = Clocks(monotonic=lambda: time.monotonic() + later[0])
    monkeypatch.setattr(planning.turns, "_clocks", clocks)
    planning.thread.planner.seen = -1
    preemption = await rig.coordinator.ensure(rig.resolver_key("high-0"), Verb.LOOP)
    assert not isinstance(preemption, Refusal)
    assert later[0] >= 300
    used = rig.coordinator.admission.turns.totals(time.monotonic())
    assert used["tenant"] > 290
    assert used.get("default", 0.0) < 100


class Late:
    """A search that is told to come back with nothing while its budgets are looked up."""

    def __init__(self) -> None:
        self.looked = 0

    def __getitem__(self, index: int, /) -> int:
        names = {frame.name for frame in traceback.extract_stack()}
        self.looked += "budgets_of" in names
        return 2 if self.looked else 0


def test_putting_budgets_together_ends_in_time_and_no_pod_is_set_aside_for_it() -> None:
    settings = Settings(plan=PlanSettings(pdb_policy="prefer"))
    resolver = Resolver(settings.groups)
    state = replace(
        snapshot(NODES, [*TENANT_ROOM, URGENT], [group("urgent", 1)]),
        budgets=tuple(map(many_budget, range(40))),
    )
    planner, flag = Planner(settings, resolver), Late()
    gang = resolver.resolve(gang_key("urgent"), state)
    answer = planner.plan(GangQuestion(gang, state), cancel=flag)
    assert flag.looked
    assert isinstance(answer, Refusal)
    assert "its time was up before the question could be put together" in answer.message
    assert planner.take_aside() == []


ALLOWED = {"default": {"podgroup-extender.io/opt-out": "allowed"}}
KEY = GangKey("volcano", "default", "low")


def pod_group(least: int, **annotations: str) -> GroupObject:
    """As Volcano's job controller makes it: with the job's annotations."""
    notes = {f"volcano.sh/jdb-{key.replace('_', '-')}": text for key, text in annotations.items()}
    meta = {"name": "low", "namespace": "default", "uid": "g", "annotations": notes}
    return decode_group("volcano", {"metadata": meta, "spec": {"minMember": least}})


def low(i: int, *, on: str = "", **more: Any) -> Pod:
    notes = {"scheduling.k8s.io/group-name": "low"}
    return pod(f"low-{i}", on=on, annotations={**notes, **more.pop("notes", {})}, **more)


def state(
    said: GroupObject,
    *members: Pod,
    want: int = 1,
    priority: int = 100,
    namespaces: Any = ALLOWED,
    read: bool = True,
) -> Snapshot:
    """Members on nodes of 4 CPU, and a gang that wants so many of their places."""
    nodes = [node(name) for name in sorted({each.node for each in members if each.node})]
    high = [pod(f"high-{i}", priority=priority, group="high") for i in range(want)]
    groups = [group("high", want), said]
    found = snapshot(nodes, [*members, *high], groups, namespaces=namespaces)
    return replace(found, group_sources=frozenset({"core", "volcano"} if read else {"core"}))


def owner_planned(found: Snapshot, settings: Settings | None = None) -> Plan | Refusal:
    settings = settings or Settings()
    resolver = Resolver(settings.groups)
    gang = resolver.resolve(gang_key("high"), found)
    return Planner(settings, resolver).plan(GangQuestion(gang, found))


@pytest.mark.parametrize(
    ("text", "members", "bound", "least", "most"),
    [
        ("2", 4, 4, 2, 2),
        ("4", 4, 4, 0, 4),
        ("9", 4, 4, 0, 4),
        ("1", 4, 2, 1, 0),
        ("3", 4, 3, 0, 2),
        ("50%", 4, 4, 2, 2),
        ("50%", 5, 5, 2, 3),
        ("1%", 5, 5, 4, 1),
        ("99%", 5, 5, 0, 5),
    ],
)
def test_how_many_may_go(text: str, members: int, bound: int, least: int, most: int) -> None:
    assert OwnerBudget(MIN_AVAILABLE, text).allowed(members, bound) == least
    assert OwnerBudget(MAX_UNAVAILABLE, text).allowed(members, bound) == most


@pytest.mark.parametrize(
    "text",
    ["", "0", "0%", "100%", "-1", "1.5", "many", "%", "5%%", "9" * 11, "²", "1 ", "x" * 300],
)
def test_what_is_no_number_does_not_count_and_is_told(text: str) -> None:
    found, why = budget_of({MIN_AVAILABLE: text, MAX_UNAVAILABLE: "1"})
    assert found is None
    assert MIN_AVAILABLE in why
    assert len(why) < 400
    gang = Resolver(GroupSettings()).resolve(KEY, state(pod_group(2, min_available=text), low(0)))
    assert gang.budget is None
    assert why in gang.notes
    assert not gang.problems


def test_the_first_key_counts() -> None:
    both = {MIN_AVAILABLE: "3", MAX_UNAVAILABLE: "50%"}
    assert budget_of(both) == (OwnerBudget(MIN_AVAILABLE, "3"), "")
    assert budget_of({MAX_UNAVAILABLE: "50%"}) == (OwnerBudget(MAX_UNAVAILABLE, "50%"), "")
    assert budget_of({"volcano.sh/jdb": "1"}) == (None, "")


WHOLE = (low(0, on="n0"), low(1, on="n1"))


class TestGangsThatGoWhole:
    @pytest.mark.parametrize("said", [{"min_available": "1"}, {"max_unavailable": "1"}])
    def test_they_stay_where_the_policy_lets_their_owner_decide(self, said: dict[str, str]) -> None:
        answer = owner_planned(state(pod_group(2, **said), *WHOLE))
        assert isinstance(answer, Refusal)
        ((key, _),) = said.items()
        text = (
            f"volcano.sh/jdb-{key.replace('_', '-')}=1 of its gang allows 0 of 2 pods to be evicted"
        )
        assert any(text in line for line in answer.details), answer.details

    def test_they_go_where_it_does_not(self) -> None:
        found = state(pod_group(2, min_available="2"), *WHOLE, namespaces={"default": {}})
        assert evicted(owner_planned(found)) == {"low-0", "low-1"}

    def test_they_go_where_all_of_them_may(self) -> None:
        for said in ({"max_unavailable": "2"}, {"max_unavailable": "99%"}):
            found = state(pod_group(2, **said), *WHOLE)
            assert evicted(owner_planned(found)) == {"low-0", "low-1"}

    def test_they_go_for_system_critical_priorities(self) -> None:
        found = state(pod_group(2, min_available="2"), *WHOLE, priority=SYSTEM_CRITICAL)
        assert evicted(owner_planned(found)) == {"low-0", "low-1"}

    def test_the_policy_names_the_key_and_against_whom_it_counts(self) -> None:
        rule = OptOutRule(preemptors_below=50)
        settings = Settings(policy=PolicySettings(opt_out={MIN_AVAILABLE: rule}))
        validate(settings)
        for priority, stays in ((49, True), (50, False)):
            found = state(pod_group(2, min_available="1"), *WHOLE, priority=priority)
            assert isinstance(owner_planned(found, settings), Refusal) is stays
        found = state(pod_group(2, max_unavailable="1"), *WHOLE, priority=50)
        assert isinstance(owner_planned(found, settings), Refusal), (
            "the other key has the default rule"
        )

    def test_a_budget_that_comes_late_stops_what_has_not_begun(self) -> None:
        before = state(pod_group(2), *WHOLE)
        plan = owner_planned(before)
        assert isinstance(plan, Plan)
        resolver, protections = Resolver(GroupSettings()), Protections(Settings())
        after = state(pod_group(2, min_available="1"), *WHOLE)
        for now, stays in ((before, False), (after, True)):
            why = unit_problem(plan.victims, 100, now, resolver, protections)
            assert ("jdb-min-available=1" in why) is stays

    def test_where_podgroups_are_not_read_the_pods_tell(self) -> None:
        notes = {MIN_AVAILABLE: "1"}
        pods = [low(i, on=f"n{i}", notes=notes) for i in range(2)]
        assert isinstance(owner_planned(state(pod_group(2), *pods, read=False)), Refusal)
        # What the PodGroup says counts where it is read, as in Volcano.
        assert evicted(owner_planned(state(pod_group(2), *pods))) == {"low-0", "low-1"}


class TestSinglePods:
    """Three of a gang of five run: it has not come together, its pods go one by one."""

    THREE = tuple(low(i, on=f"n{i}") for i in range(3))

    @pytest.mark.parametrize(
        ("said", "allowed"),
        [
            ({}, 3),
            ({"min_available": "1"}, 2),
            ({"min_available": "2"}, 1),
            ({"min_available": "3"}, 0),
            ({"min_available": "50%"}, 1),
            ({"max_unavailable": "2"}, 2),
            ({"max_unavailable": "1"}, 1),
        ],
    )
    def test_no_more_go_than_may(self, said: dict[str, str], allowed: int) -> None:
        for want in (1, 2, 3):
            answer = owner_planned(state(pod_group(5, **said), *self.THREE, want=want))
            assert isinstance(answer, Plan) is (want <= allowed)
            if isinstance(answer, Plan):
                assert len(answer.victims) == want

    def test_members_that_wait_are_unavailable(self) -> None:
        waits = low(3)
        found = state(pod_group(5, max_unavailable="1"), *self.THREE, waits)
        assert isinstance(owner_planned(found), Refusal)
        found = state(pod_group(5, max_unavailable="2"), *self.THREE, waits)
        assert len(evicted(owner_planned(found))) == 1

    @pytest.mark.parametrize("said", [{"min_available": "1"}, {"max_unavailable": "2"}])
    def test_the_second_of_two_may_still_go_once_the_first_does(self, said: dict[str, str]) -> None:
        plan = owner_planned(state(pod_group(5, **said), *self.THREE, want=2))
        assert isinstance(plan, Plan)
        first, second = plan.victims
        resolver, protections = Resolver(GroupSettings()), Protections(Settings())
        left = [
            replace(each, deleting=each.started + 1e6) if each.uid == first.uid else each
            for each in self.THREE
        ]
        going = state(pod_group(5, **said), *left, want=2)
        gone = state(pod_group(5, **said), *(p for p in left if not p.deleting), want=2)
        for now in (going, gone):
            assert victim_problem(second, 100, now, resolver, protections) == ""
        third = next(p for p in self.THREE if p.uid not in (first.uid, second.uid))
        other = replace(second, uid=third.uid, name=third.name, node=third.node)
        assert "allows 1 of 2 pods to be evicted" in victim_problem(
            other, 100, going, resolver, protections
        )

    def test_the_more_urgent_stay(self) -> None:
        pods = [replace(p, priority=i) for i, p in enumerate(reversed(self.THREE))]
        found = state(pod_group(5, min_available="2"), *pods)
        assert evicted(owner_planned(found)) == {"low-2"}

    def test_a_gang_with_a_problem_has_no_budget(self) -> None:
        said = replace(pod_group(5, min_available="3"), min_count=-1)
        assert len(evicted(owner_planned(state(said, *self.THREE)))) == 1


async def test_kube_scheduler_is_offered_no_pod_that_the_budget_keeps() -> None:
    rig = Rig(FAST)
    rig.server = ApiServer(bookmark_seconds=0.05, extra=OTHER_POD_GROUPS)
    async with rig:
        await rig.nodes(3)
        await rig.classes(low=1, high=100)
        meta = {"name": "low", "annotations": {MIN_AVAILABLE: "2"}}
        path = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
        await rig.client.create(path, {"metadata": meta, "spec": {"minMember": 5}})
        for i in range(3):
            container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}
            spec = {"containers": [container], "nodeName": f"n{i}", "priorityClassName": "low"}
            notes = {"scheduling.k8s.io/group-name": "low"}
            made = {"metadata": {"name": f"low-{i}", "annotations": notes}, "spec": spec}
            await rig.client.create(PODS, made)
        key = ("volcano", "default", "low")
        await rig.until(lambda: key in rig.cache.snapshot().groups, "the PodGroup is read")
        await rig.until(lambda: rig.cache.pod_named("default", "low-2") is not None, "low")
        await rig.pod("urgent", cls="high")
        answer = await rig.preempt("urgent", n0=["low-0"], n1=["low-1"], n2=["low-2"])
        assert len(answer.candidates) == 1
