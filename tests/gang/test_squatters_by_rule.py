"""Pods that come without an offer and keep members off their seats by a rule, not by their room."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from extender.gang.controller.scheduling_cycle import MOST_DISPLACED
from extender.gang.core.reservations import Preemption
from extender.model.plan import Refusal
from tests.gang.limited import rigged
from tests.gang.rig import GROUPS, HIGH, PODS, Rig
from tests.gang.test_squatters import ONCE, ends, open_seats, plan, squat

Spec = dict[str, Any]
PORT = [{"containerPort": 80, "hostPort": 8080}]


def apart(key: str, app: str) -> Spec:
    """Return anti-affinity to the pods of an app, in any namespace."""
    term = {
        "topologyKey": key,
        "labelSelector": {"matchLabels": {"app": app}},
        "namespaceSelector": {},
    }
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return {"affinity": {"podAntiAffinity": required}}


class ByRule(Struct, frozen=True):
    """What keeps members and squatters from each other."""

    member: Spec = {}
    squatter: Spec = {}
    node: str = ""
    """Where squatters come to; "": where a pod of theirs has gone."""
    ports: bool = False


RULES = {
    "its anti-affinity": ByRule(squatter=apart("kubernetes.io/hostname", "high")),
    "its anti-affinity, from elsewhere": ByRule(squatter=apart("zone", "high"), node="n2"),
    "theirs": ByRule(member=apart("kubernetes.io/hostname", "squat")),
    "theirs, from elsewhere": ByRule(member=apart("zone", "squat"), node="n2"),
    "a host port": ByRule(ports=True),
}


async def make(rig: Rig, namespace: str, name: str, app: str, cpu: str, spec: Spec) -> None:
    container: Spec = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    if "ports" in spec:
        container["ports"] = spec["ports"]
    rest = {key: value for key, value in spec.items() if key != "ports"}
    made = {"containers": [container], "terminationGracePeriodSeconds": 0, **rest}
    metadata = {"name": name, "labels": {"app": app}}
    path = f"/api/v1/namespaces/{namespace}/pods"
    await rig.client.create(path, {"metadata": metadata, "spec": made})


class Squatter:
    """A tenant that makes a tiny pod wherever a pod of its goes, or elsewhere."""

    def __init__(self, rig: Rig, rule: ByRule, most: int) -> None:
        self._rig, self._rule, self._most = rig, rule, most
        self._tasks: set[asyncio.Task[None]] = set()
        self.made: list[str] = []

    def observe(self, change: Any) -> None:
        gone = change.kind == "pod" and change.new is None and change.old.node
        if gone and change.old.namespace == "tenant" and len(self.made) < self._most:
            self.made.append(f"squat-{len(self.made)}")
            node = self._rule.node or change.old.node
            spec = {"priorityClassName": "low", "nodeName": node, **self._rule.squatter}
            if self._rule.ports:
                spec["ports"] = PORT
            made = make(self._rig, "tenant", self.made[-1], "squat", "10m", spec)
            task = asyncio.create_task(made)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


@asynccontextmanager
async def squatted(rule: ByRule, most: int, replans: int) -> AsyncIterator[tuple[Rig, Squatter]]:
    """Two nodes with a low pod each, whose owner squats; a gang of two waits; a node of the zone
    takes no pods."""
    seats = replace(ONCE.seats, bind_seconds=30.0, max_replans=replans)
    async with rigged(replace(ONCE, seats=seats)) as rig:
        await rig.nodes(1, first=2)
        await rig.client.create("/api/v1/namespaces", {"metadata": {"name": "tenant"}})
        for name in ("n0", "n1", "n2"):
            changed: Spec = {"metadata": {"labels": {"zone": "z"}}}
            if name == "n2":
                changed["spec"] = {"unschedulable": True}
            await rig.client.patch(f"/api/v1/nodes/{name}", changed)
        for name in ("n0", "n1"):
            await squat(rig, f"low-{name}", name)
        await rig.until(lambda: len(rig.cache.store.pods.by_uid) == 2, "two pods")
        squatter = Squatter(rig, rule, most)
        rig.cache.subscribe(squatter.observe)
        await rig.group("high", 2, "high")
        spec = {"priorityClassName": "high", "schedulingGroup": {"podGroupName": "high"}}
        if rule.ports:
            spec["ports"] = PORT  # type: ignore[assignment]
        for name in HIGH:
            await make(rig, "default", name, "high", "3", {**spec, **rule.member})
        await rig.until_cached(PODS, lambda: {p.name for p in rig.cache.store.pods.by_uid.values()})
        await rig.until_cached(GROUPS, lambda: {key[2] for key in rig.cache.snapshot().groups})
        await rig.until(lambda: rig.cache.snapshot().nodes["n2"].unschedulable, "n2 takes no pods")
        yield rig, squatter


def sitting(rig: Rig) -> list[str]:
    pods = rig.cache.store.pods.by_uid.values()
    return [pod.name for pod in pods if pod.name.startswith("squat") and not pod.deleting]


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())
async def test_who_keeps_members_off_by_a_rule_is_a_victim_of_the_same_plan(rule: ByRule) -> None:
    """maxReplans is 0: nothing of it is spent on them."""
    async with squatted(rule, 2, 0) as (rig, squatter):
        await plan(rig)
        await rig.until(lambda: len(squatter.made) == 2, "they come")
        await rig.until(lambda: len(rig.outcomes("high")) > 1, "the plan is changed, or ends")
        preemption = await open_seats(rig)
        await rig.until(lambda: not sitting(rig), "they go again")
        await rig.rounds()
        preemption = await open_seats(rig)
        assert set(rig.outcomes("high")) == {"plan"}, rig.messages("high")
        assert preemption.replans == 0
        for name in HIGH:
            seat = preemption.seats[rig.cached(name).uid]
            assert (await rig.filter(name, seat)).node_names == [seat]
            await rig.bind(name, seat)
        await rig.until(lambda: "done" in rig.outcomes("high"), "it sits")
        assert "tenant/squat-0" in rig.messages("high")


@pytest.mark.parametrize("rule", list(RULES.values())[:2], ids=list(RULES)[:2])
async def test_a_tireless_squatter_by_a_rule_gets_nobody_suspended(rule: ByRule) -> None:
    async with squatted(rule, 1000, 1) as (rig, _):
        await ends(rig, 2)
        assert isinstance(await plan(rig), Refusal)
        assert rig.coordinator.admission.describe()["suspended"] == []
        assert rig.outcomes("high").count("plan") <= 2 * (1 + MOST_DISPLACED)
        assert rig.coordinator.admission.counted["seats-taken"] == 2


async def test_a_bystander_is_not_blamed() -> None:
    """It came without an offer too, on a node with a seat, and keeps nobody off."""
    async with squatted(RULES["its anti-affinity"], 0, 0) as (rig, _):
        assert isinstance(await plan(rig), Preemption)
        preemption = await open_seats(rig)
        low = {"priorityClassName": "low", "nodeName": "n0"}
        await make(rig, "tenant", "bystander", "other", "10m", low)
        await make(rig, "tenant", "squat-0", "squat", "10m", {**low, **apart("zone", "high")})
        await rig.until(lambda: preemption.over, "the plan is changed")
        assert [pod.name for pod in preemption.displaced_by] == ["squat-0"]
        assert "bystander" not in rig.messages("high")


async def test_a_refusal_that_our_own_rules_explain_is_not_remembered_of_the_node() -> None:
    """A pod that was admitted takes a label that members keep away from."""
    async with squatted(ByRule(member=apart("kubernetes.io/hostname", "loud")), 0, 1) as (rig, _):
        low = {"priorityClassName": "low", "nodeName": "n0"}
        await make(rig, "tenant", "quiet", "quiet", "10m", low)
        await rig.until(lambda: rig.cache.pod_named("tenant", "quiet") is not None, "quiet")
        assert isinstance(await plan(rig), Preemption)
        preemption = await open_seats(rig)
        path = "/api/v1/namespaces/tenant/pods/quiet"
        await rig.client.patch(path, {"metadata": {"labels": {"app": "loud"}}})

        def loud() -> bool:
            pod = rig.cache.pod_named("tenant", "quiet")
            return pod is not None and dict(pod.labels).get("app") == "loud"

        await rig.until(loud, "it is loud")
        name = next(each for each in HIGH if preemption.seats[rig.cached(each).uid] == "n0")
        assert (await rig.filter(name)).node_names == []
        assert (await rig.filter(name, "elsewhere")).node_names == []
        await rig.until(lambda: preemption.over, "the plan is changed")
        assert "anti-affinity" in preemption.changed_for, preemption.changed_for
        assert [pod.name for pod in preemption.displaced_by] == ["quiet"]
        again = await open_seats(rig)
        assert again.replans == 0, "its label is its owner's to change"
        assert set(again.seats.values()) == {"n0", "n1"}
        await rig.until(lambda: rig.cache.pod_named("tenant", "quiet") is None, "it has gone")
