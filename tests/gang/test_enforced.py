"""enforce.namespaces: for whom the extender acts, and whose pods it may evict."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace

from extender.gang.controller import hints
from extender.gang.controller.notifier import Notifier
from extender.gang.core.last_check import KeptGangs, LastCheck
from extender.gang.incremental.enforcement import Enforcement
from extender.gang.tell.decisions import Verb
from extender.gang.tell.preemption_state import PreemptionState
from extender.groups.resolver import Resolver
from extender.kube.api_errors import Conflict
from extender.model.errors import InvalidInput
from extender.model.objects import Pod
from extender.model.plan import Plan, Refusal
from extender.model.snapshot import Snapshot
from extender.sandbox.faults import Fault
from extender.settings.mode import EnforceSettings
from extender.settings.policy import Expression, NamespaceSelector
from extender.settings.settings import Settings
from extender.settings.settings_rules import validate
from extender.wire.filter_json import FilterArgs
from extender.wire.preempt_json import NodeVictims, PreemptArgs
from tests.gang.limited import tried
from tests.gang.rig import FAST, HIGH, PODS, Rig, half_evicted, held_back
from tests.gang.showing import Showing
from tests.gang.world import evicted, group, node, plan_for, pod, snapshot

TEAM_A = NamespaceSelector(match_labels={"team": "a"})
ONLY_A = Settings(enforce=EnforceSettings(namespaces=TEAM_A))
ALL_VICTIMS = Settings(enforce=EnforceSettings(namespaces=TEAM_A, victims="all"))
DEFAULT_NAMESPACE = "/api/v1/namespaces/default"


def two_teams(settings: Settings = ONLY_A, **labels: dict[str, str]) -> Snapshot:
    """A gang of team a waits; on n0 is a pod of namespace b, on n1 one of its own namespace."""
    namespaces = {"default": {"team": "a"}, "b": {"team": "b"}, **labels}
    return snapshot(
        [node("n0"), node("n1")],
        [
            pod("theirs", on="n0", namespace="b", priority=1),
            pod("ours", on="n1", priority=5),
            pod("high-0", priority=100, group="high"),
        ],
        [group("high", 1)],
        settings=settings,
        namespaces=namespaces,
    )


def test_only_pods_of_chosen_namespaces_are_victims() -> None:
    """The pod of the other namespace would cost less."""
    assert evicted(plan_for(two_teams(), "high")) == {"theirs"}
    assert evicted(plan_for(two_teams(), "high", ONLY_A)) == {"ours"}
    assert evicted(plan_for(two_teams(), "high", ALL_VICTIMS)) == {"theirs"}


def test_refusal_says_whose_pods_stay_and_why() -> None:
    state = two_teams()
    bound = {name: pods for name, pods in state.bound.items() if name == "n0"}
    answer = plan_for(replace(state, nodes={"n0": state.nodes["n0"]}, bound=bound), "high", ONLY_A)
    assert isinstance(answer, Refusal)
    assert any("namespace b is not among enforce.namespaces" in line for line in answer.details)


def test_namespace_that_is_not_known_is_not_chosen() -> None:
    """A selector that asks for a label's absence would choose it otherwise."""
    absent = NamespaceSelector(match_expressions=(Expression(key="x", operator="DoesNotExist"),))
    chosen = Enforcement(EnforceSettings(namespaces=absent))
    state = two_teams()
    assert chosen.acts_for("default", state)
    assert not chosen.acts_for("unheard-of", state)
    assert not chosen.may_evict("unheard-of", state)
    assert Enforcement(EnforceSettings()).acts_for("unheard-of", state)


def test_victim_is_checked_again_when_its_turn_comes() -> None:
    """Its namespace has been taken out since the plan was made."""
    settings = ONLY_A
    plan = plan_for(two_teams(), "high", settings)
    assert isinstance(plan, Plan)
    now = two_teams(default={"team": "none"})
    check = LastCheck(Showing(lambda: now), KeptGangs(Resolver(settings.groups)), settings)
    assert "not among" in check.of_victim(plan.victims[0], plan.priority, alone=False)
    assert "not among" in check.of_victim(plan.victims[0], plan.priority, alone=True)
    assert "not among" in check.not_for("default")


@pytest.mark.parametrize(
    ("namespaces", "wrong"),
    [
        (NamespaceSelector(match_labels={"not a key": "x"}), "enforce.namespaces.matchLabels"),
        (
            NamespaceSelector(match_expressions=(Expression(key="a", operator="In"),)),
            "enforce.namespaces.matchExpressions",
        ),
    ],
)
def test_selector_that_cannot_be_used_is_an_error(
    namespaces: NamespaceSelector, wrong: str
) -> None:
    with pytest.raises(InvalidInput, match=wrong):
        validate(Settings(enforce=EnforceSettings(namespaces=namespaces)))


# -- the whole extender ------------------------------------------------------------------


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    """Acts for namespaces of team a; pods are in the namespace default, of no team so far."""
    async with Rig(replace(FAST, enforce=ONLY_A.enforce)) as made:
        await made.nodes(2)
        await made.classes(low=1, high=100)
        yield made


async def choose(rig: Rig, team: str) -> None:
    """Label the namespace default, and wait until that is seen."""
    namespaces = await rig.client.get("/api/v1/namespaces")
    names = {item["metadata"]["name"] for item in namespaces["items"]}
    if "default" not in names:
        made = {"metadata": {"name": "default", "labels": {"team": team}}}
        await rig.client.create("/api/v1/namespaces", made)
    else:
        await rig.client.patch(DEFAULT_NAMESPACE, {"metadata": {"labels": {"team": team}}})
    await rig.until(
        lambda: rig.cache.snapshot().namespaces.get("default", {}).get("team") == team, team
    )


async def namespace_b(rig: Rig) -> None:
    """A namespace of a team that is not chosen; cached."""
    with contextlib.suppress(Conflict):
        namespace = {"metadata": {"name": "b", "labels": {"team": "b"}}}
        await rig.client.create("/api/v1/namespaces", namespace)
    await rig.until(lambda: "b" in rig.cache.snapshot().namespaces, "namespace b")


async def other_team(rig: Rig, name: str, *, cls: str, on: str = "", group: str = "") -> Pod:
    """A pod of namespace b, of a team that is not chosen; cached."""
    await namespace_b(rig)
    spec: dict[str, Any] = {
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}],
        "priorityClassName": cls,
    }
    if on:
        spec["nodeName"] = on
    if group:
        spec["schedulingGroup"] = {"podGroupName": group}
    await rig.client.create(
        PODS.replace("default", "b"), {"metadata": {"name": name}, "spec": spec}
    )
    await rig.until(lambda: rig.cache.pod_named("b", name) is not None, name)
    found = rig.cache.pod_named("b", name)
    assert found is not None
    return found


async def their_gang(rig: Rig) -> list[Pod]:
    """A gang of namespace b that goes whole, one member on each node."""
    await namespace_b(rig)
    await rig.client.create(
        "/apis/scheduling.k8s.io/v1beta1/namespaces/b/podgroups",
        {
            "metadata": {"name": "theirs"},
            "spec": {
                "schedulingPolicy": {"gang": {"minCount": 2}},
                "disruptionMode": {"all": {}},
                "priorityClassName": "low",
            },
        },
    )
    return [
        await other_team(rig, f"theirs-{i}", cls="low", on=f"n{i}", group="theirs")
        for i in range(2)
    ]


async def test_gang_that_is_not_chosen_gets_kube_schedulers_own_answers(rig: Rig) -> None:
    await choose(rig, "none")
    await rig.gang("low", 2, "low", on="n")
    await rig.gang("high", 2, "high")
    for name in ("high-0", "high-1"):
        assert (await rig.filter(name, "n1", "n0")).node_names == ["n1", "n0"]
        found = (await rig.preempt(name, n0=["low-0"], n1=["low-1"])).candidates
        assert set(found) == {"n0", "n1"}
    answer = await rig.coordinator.ensure(rig.resolver_key("high-0"), Verb.LOOP)
    assert isinstance(answer, Refusal)
    assert answer.code == "not-enforced"
    assert not list(rig.coordinator.reservations)
    assert await rig.names() == {"low-0", "low-1", "high-0", "high-1"}


async def test_gang_that_is_chosen_is_acted_for(rig: Rig) -> None:
    await choose(rig, "a")
    await rig.gang("low", 2, "low", on="n")
    await rig.gang("high", 2, "high")
    assert (await rig.filter("high-0", "n0", "n1")).node_names == []
    await rig.until_names("high-0", "high-1")


async def test_choosing_a_namespace_takes_effect_while_it_runs(rig: Rig) -> None:
    await choose(rig, "none")
    await rig.gang("high", 2, "high")
    assert (await rig.filter("high-0", "n0", "n1")).node_names == ["n0", "n1"]
    await choose(rig, "a")
    assert len((await rig.filter("high-0", "n0", "n1")).node_names) == 1


async def test_plan_ends_when_its_namespace_is_chosen_no_more(rig: Rig) -> None:
    await choose(rig, "a")
    await rig.gang("high", 2, "high")
    await rig.filter("high-0", "n0", "n1")
    (preemption,) = rig.coordinator.reservations
    await rig.until(lambda: preemption.state is PreemptionState.OPEN, "the seats are open")
    assert rig.coordinator.preconditions.problem(preemption) == ""
    await choose(rig, "none")
    await rig.until(lambda: not list(rig.coordinator.reservations), "the plan ends")
    assert "not among enforce.namespaces" in rig.messages("high")


async def test_plan_whose_record_hangs_ends_when_its_namespace_is_chosen_no_more(rig: Rig) -> None:
    """Its seats kept everybody else off their nodes until the record was given up."""
    await choose(rig, "a")
    await rig.gang("low", 2, "low", on="n")
    hung = held_back(rig, "POST", "configmaps", times=10_000)
    await rig.gang("high", 2, "high")
    await rig.filter("high-0", "n0", "n1")
    await rig.until(lambda: hung.hits > 0, "the record hangs")
    await choose(rig, "none")
    await rig.until(lambda: not list(rig.coordinator.reservations), "the plan ends")
    assert "not among enforce.namespaces" in rig.messages("high")
    assert await rig.names() == {"low-0", "low-1", "high-0", "high-1"}


async def test_nobody_else_goes_for_a_gang_that_is_chosen_no_more() -> None:
    """One of its victims has gone by then, and the other's eviction is tried again and again."""
    async with Rig(replace(FAST, enforce=ALL_VICTIMS.enforce)) as rig:
        await rig.nodes(2)
        await rig.classes(low=1, high=100)
        await choose(rig, "a")
        await half_evicted(rig)
        await choose(rig, "none")
        await rig.until(lambda: not list(rig.coordinator.reservations), "the plan ends")
        await rig.rounds()  # what was asked for before that has its answer
        rig.server.faults.clear()
        await rig.rounds()
        assert await rig.names() == {"low-1", *HIGH}


async def test_seats_are_given_back_when_a_namespace_is_chosen_no_more() -> None:
    """Nothing else changes: they were held until the last moment that members had to be bound."""
    slow = replace(FAST.seats, bind_seconds=3600.0)
    async with Rig(replace(FAST, enforce=ONLY_A.enforce, seats=slow)) as rig:
        await rig.nodes(2)
        await rig.classes(high=100)
        await choose(rig, "a")
        await rig.gang("high", 2, "high")
        await rig.filter("high-0", "n0", "n1")
        (preemption,) = rig.coordinator.reservations
        await rig.until(lambda: preemption.state is PreemptionState.OPEN, "the seats are open")
        await choose(rig, "none")
        await rig.until(lambda: not list(rig.coordinator.reservations), "the seats are given back")
        assert "not among enforce.namespaces" in rig.messages("high")


async def test_nobody_is_called_to_seats_that_are_given_back(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a member that was told its seat may still be bound, others were woken for theirs."""
    monkeypatch.setattr(hints, "PAUSES", tuple(tenths / 10 for tenths in range(600)))
    await choose(rig, "a")
    await rig.gang("high", 2, "high")
    await rig.filter("high-0", "n0", "n1")
    (preemption,) = rig.coordinator.reservations
    await rig.until(lambda: preemption.state is PreemptionState.OPEN, "the seats are open")
    states: list[PreemptionState] = []

    async def wake(self: Notifier, pod: Pod, node: str, moment: float) -> None:
        if node:
            states.append(preemption.state)

    monkeypatch.setattr(Notifier, "wake", wake)
    assert (await rig.filter("high-0", "n0", "n1")).node_names == [
        preemption.seats[rig.cached("high-0").uid]
    ]
    await rig.until(lambda: bool(states), "members are called")
    await choose(rig, "none")
    await rig.until(lambda: not list(rig.coordinator.reservations), "the seats are given back")
    assert set(states) == {PreemptionState.OPEN}


async def test_single_pod_of_a_chosen_namespace_preempts_others_as_without_us(rig: Rig) -> None:
    """We may not evict the gang whole, so it is kube-scheduler's to choose."""
    await choose(rig, "a")
    theirs = await their_gang(rig)
    await rig.pod("single", cls="high")
    await rig.until(lambda: rig.cache.pod_named("default", "single") is not None, "single")
    candidates = {pod.node: NodeVictims((pod.uid,)) for pod in theirs}
    answer = await rig.verbs.preempt(PreemptArgs(rig.cached("single"), candidates))
    assert answer.candidates == candidates
    assert not list(rig.coordinator.reservations)


async def test_gang_of_a_chosen_namespace_waits_rather_than_evict_others(rig: Rig) -> None:
    await choose(rig, "a")
    theirs = await their_gang(rig)
    await rig.gang("high", 2, "high")
    candidates = {pod.node: NodeVictims((pod.uid,)) for pod in theirs}
    answer = await rig.verbs.preempt(PreemptArgs(rig.cached("high-0"), candidates))
    assert answer.candidates == {}
    assert rig.outcomes("high")[-1] == "infeasible"
    assert "namespace b is not among enforce.namespaces" in rig.messages("high")


async def test_pod_that_is_not_chosen_may_break_a_gang_that_is(rig: Rig) -> None:
    """To keep kube-scheduler from it would be to act on those who have not agreed."""
    await choose(rig, "a")
    await rig.gang("low", 2, "low", on="n")
    other = await other_team(rig, "other", cls="high")
    candidates = {f"n{i}": NodeVictims((rig.cached(f"low-{i}").uid,)) for i in range(2)}
    answer = await rig.verbs.preempt(PreemptArgs(other, candidates))
    assert answer.candidates == candidates


async def test_pod_that_is_not_chosen_may_not_preempt_into_a_seat(rig: Rig) -> None:
    """Of equal priority with the gang; the node beside keeps its candidate."""
    await choose(rig, "a")
    await rig.client.create(
        "/api/v1/nodes",
        {
            "metadata": {"name": "n2", "labels": {"kubernetes.io/hostname": "n2"}},
            "status": {"allocatable": {"cpu": "4", "pods": "110"}},
        },
    )
    await rig.pod("small", cls="low", cpu="1", on="n0")
    theirs = await other_team(rig, "theirs", cls="low", on="n2")
    await rig.gang("high", 2, "high")
    await rig.filter("high-0", "n0", "n1")
    (preemption,) = rig.coordinator.reservations
    await rig.until(lambda: preemption.state is PreemptionState.OPEN, "the seats are open")
    assert set(preemption.seats.values()) == {"n0", "n1"}
    other = await other_team(rig, "other", cls="high")
    candidates = {
        "n0": NodeVictims((rig.cached("small").uid,)),
        "n2": NodeVictims((theirs.uid,)),
    }
    answer = await rig.verbs.preempt(PreemptArgs(other, candidates))
    assert set(answer.candidates) == {"n2"}


async def test_nobody_is_woken_on_a_guess_where_nothing_is_acted_for(rig: Rig) -> None:
    """After a restart nobody knows whom a plan kept waiting (700051 with enforcing, sparing)."""
    await choose(rig, "a")
    await other_team(rig, "theirs", cls="low")
    await tried(rig, "theirs", "b")
    await rig.pod("ours", cls="low", cpu="9")
    await tried(rig, "ours")
    await rig.gang("high", 1, "high")
    await rig.coordinator.ensure(rig.resolver_key("high-0"), Verb.LOOP)
    await rig.until(
        lambda: all(preemption.recorded for preemption in rig.coordinator.reservations), "recorded"
    )
    await rig.kill()
    await rig.remove("high-0")
    ours, theirs = (
        rig.server.faults.plan(Fault(times=100, method="PATCH", path=f"pods/{name}"))
        for name in ("ours", "theirs")
    )
    await rig.start()
    await rig.until(lambda: ours.hits >= 2, "ours is nominated, and is not any more")
    assert not theirs.hits


async def test_seats_are_held_against_those_who_are_not_chosen(rig: Rig) -> None:
    """Promise 5 is the gang's that was planned for, whoever comes."""
    await choose(rig, "a")
    await rig.gang("high", 2, "high")
    await rig.filter("high-0", "n0", "n1")
    (preemption,) = rig.coordinator.reservations
    await rig.until(lambda: preemption.state is PreemptionState.OPEN, "the seats are open")
    found = await other_team(rig, "other", cls="low")
    answer = await rig.verbs.filter(FilterArgs(found, ["n0", "n1"]))
    assert answer.node_names == []
