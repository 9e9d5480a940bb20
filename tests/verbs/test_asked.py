"""Nothing is decided on a caller's word: the pod is looked up, and its own object counts.

See docs/security.md, row 1.
"""

from __future__ import annotations

import asyncio
from math import inf
from typing import Any

import pytest
from msgspec.structs import replace

from extender.model.errors import UnknownPod
from extender.model.objects import Pod
from extender.verbs.pod_lookup import PodLookup
from extender.wire.filter_json import FilterArgs
from extender.wire.preempt_json import NodeVictims, PreemptArgs
from tests.gang.rig import Rig
from tests.gang.world import pod
from tests.verbs.conftest import Served

ALL = {"low-0", "low-1"}
HIGHEST = 2147483647


def invented(priority: int = HIGHEST, **metadata: Any) -> dict[str, Any]:
    meta = {"name": "nobody", "namespace": "default", "uid": "made-up"} | metadata
    container = {"name": "c", "resources": {"requests": {"cpu": "3"}}}
    return {"metadata": meta, "spec": {"priority": priority, "containers": [container]}}


async def candidates(served: Served) -> dict[str, Any]:
    """Both nodes, held by gang low."""
    return {
        f"n{i}": {"Pods": [{"UID": served.rig.cached(f"low-{i}").uid}], "NumPDBViolations": 0}
        for i in range(2)
    }


async def untouched(served: Served) -> None:
    """No pod is gone, marked or about to go, and no plan is there that was not asked for."""
    rig = served.rig
    assert await rig.names() >= ALL
    assert not [
        preemption for preemption in rig.coordinator.reservations if preemption.key.dialect == "pod"
    ]
    for name in ("low-0", "low-1"):
        conditions = (await served.document(name)).get("status", {}).get("conditions") or []
        assert not [each for each in conditions if each["type"] == "DisruptionTarget"]


@pytest.fixture
async def still(served: Served) -> Served:
    """Without the gang that waits, which would be planned for by itself."""
    for name in ("high-0", "high-1"):
        await served.rig.remove(name)
    await served.rig.until_names("low-0", "low-1")
    return served


async def test_an_invented_pod_evicts_nobody(still: Served) -> None:
    question = {"Pod": invented(), "NodeNameToMetaVictims": await candidates(still)}
    status, answer = await still.post("preempt", question)
    assert status == 409
    assert "made-up" in answer["error"]
    assert "default/nobody" in answer["error"]
    await untouched(still)
    assert 'refused_total{reason="unknown-pod"} 1.0' in still.metrics()


async def test_a_priority_that_the_caller_tells_does_not_count(still: Served) -> None:
    made = await still.plain("meek", cpu="3")
    told = invented(name="meek", uid=made["metadata"]["uid"])
    question = {"Pod": told, "NodeNameToMetaVictims": await candidates(still)}
    status, answer = await still.post("preempt", question)
    assert (status, answer) == (200, {"NodeNameToMetaVictims": {}})
    await untouched(still)


async def test_a_pod_that_runs_preempts_nobody(still: Served) -> None:
    await still.rig.classes(top=1_000_000)
    made = await still.rig.pod("boss", cls="top", cpu="1", on="n0")
    await still.rig.until(lambda: still.rig.cache.pod_named("default", "boss") is not None, "boss")
    question = {"Pod": made, "NodeNameToMetaVictims": await candidates(still)}
    status, answer = await still.post("preempt", question)
    assert status == 409
    assert "default/boss has a node already: n0" in answer["error"]
    await untouched(still)


async def test_the_uid_of_one_pod_under_the_name_of_another(still: Served) -> None:
    made = await still.plain("meek", cls="high")
    told = invented(name="nobody", uid=made["metadata"]["uid"])
    for verb, rest in (
        ("filter", {"NodeNames": ["n0"]}),
        ("preempt", {"NodeNameToMetaVictims": await candidates(still)}),
    ):
        status, answer = await still.post(verb, {"Pod": told} | rest)
        assert status == 409
        assert "default/meek" in answer["error"]
    await untouched(still)


async def test_membership_that_the_caller_tells_makes_no_plan(still: Served) -> None:
    rig = still.rig
    await rig.group("waiting", 1, "high")
    told = invented()
    told["spec"]["schedulingGroup"] = {"podGroupName": "waiting"}
    status, _ = await still.post("filter", {"Pod": told, "NodeNames": ["n0", "n1"]})
    assert status == 409
    assert not list(rig.coordinator.reservations)
    assert not rig.outcomes("waiting")


async def test_a_long_name_is_not_repeated_in_full(still: Served) -> None:
    told = invented(name="x" * 20_000, uid="y" * 20_000)
    status, answer = await still.post("filter", {"Pod": told, "NodeNames": ["n0"]})
    assert status == 409
    assert len(answer["error"]) < 1000


@pytest.fixture
async def rig() -> Any:
    async with Rig() as made:
        await made.nodes(2)
        await made.classes(low=1, high=100)
        yield made


async def test_a_pod_that_kube_scheduler_knows_first_is_waited_for(rig: Rig) -> None:
    asking = asyncio.create_task(rig.verbs.filter(FilterArgs(pod("late"), ["n0", "n1"])))
    await asyncio.sleep(0)
    assert not asking.done()
    made = await rig.pod("late", cpu="1")
    told = FilterArgs(_as(pod("late"), made), ["n0", "n1"])
    await rig.until(lambda: rig.cache.pod_named("default", "late") is not None, "late")
    assert (await rig.verbs.filter(told)).node_names == ["n0", "n1"]
    with pytest.raises(UnknownPod):
        await asking


async def test_waiting_ends_as_soon_as_the_pod_is_there(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Longer than a test may take: waiting for all of it would show.
    monkeypatch.setattr(rig.verbs._filter._asked, "_wait_seconds", 600.0)
    seen: list[str] = []
    rig.cache.subscribe(lambda change: seen.append(change.kind))
    cached, rig.cache.pod = rig.cache.pod, lambda uid: None  # type: ignore[method-assign]
    made = await rig.pod("late", cpu="1")
    asking = asyncio.create_task(rig.verbs.filter(FilterArgs(_as(pod("late"), made), ["n0", "n1"])))
    await asyncio.sleep(0)
    rig.cache.pod = cached  # type: ignore[method-assign]
    await rig.pod("another", cpu="1")
    assert (await asyncio.wait_for(asking, 60)).node_names == ["n0", "n1"]


async def test_a_pod_of_no_gang_is_served_while_a_watch_is_down(rig: Rig) -> None:
    """A watch that is down does not keep new pods of no gang from running; seats stay held."""
    await rig.gang("low", 2, "low", on="n")
    await rig.gang("high", 2, "high")
    await rig.preempt("high-0", n0=["low-0"])
    held = rig.coordinator.reservations.nodes()
    assert held == {"n0", "n1"}
    rig.cache.stale_for = lambda: 1.0  # type: ignore[method-assign]
    (plan,) = rig.coordinator.reservations
    plan.progress_at = inf  # no eviction begins meanwhile, and it would be given up
    unread = pod("unread", priority=HIGHEST)
    answer = await rig.verbs.filter(FilterArgs(unread, ["n0", "n1", "n9"]))
    assert answer.node_names == ["n9"], "whatever priority it claims"
    assert set(answer.failed_and_unresolvable) == held
    member = pod("unread", group="high", priority=HIGHEST)
    with pytest.raises(UnknownPod):
        await rig.verbs.filter(FilterArgs(member, ["n0"]))
    with pytest.raises(UnknownPod):
        await rig.verbs.preempt(PreemptArgs(unread, {"n0": NodeVictims(("u",))}))


async def test_prioritize_has_no_advice_for_a_pod_it_does_not_know(rig: Rig) -> None:
    await rig.gang("low", 2, "low", on="n")
    await rig.gang("high", 2, "high")
    await rig.preempt("high-0", n0=["low-0"])
    assert await rig.verbs.prioritize(FilterArgs(pod("unknown"), ["n0", "n9"])) == []


async def test_requests_that_the_caller_tells_do_not_count(rig: Rig) -> None:
    """Beside seats there is room for a small pod, and for none that only says so."""
    await rig.gang("low", 2, "low", on="n")
    await rig.gang("high", 2, "high")
    await rig.preempt("high-0", n0=["low-0"])
    assert rig.coordinator.reservations.nodes() == {"n0", "n1"}
    small = (("cpu", 500), ("pods", 1))
    for name, cpu, nodes in (("large", "3", []), ("small", "500m", ["n0", "n1"])):
        await rig.pod(name, cpu=cpu, cls="low")
        await rig.until(lambda name=name: rig.cache.pod_named("default", name) is not None)  # type: ignore[misc]
        told = FilterArgs(replace(rig.cached(name), requests=small), ["n0", "n1"])
        assert (await rig.verbs.filter(told)).node_names == nodes


async def test_a_priority_that_the_caller_tells_opens_no_seat(rig: Rig) -> None:
    """A more urgent pod may have the room of a gang that is not being seated; a liar not."""
    await rig.gang("low", 2, "low", on="n")
    await rig.gang("high", 2, "high")
    await rig.preempt("high-0", n0=["low-0"])
    await rig.pod("liar", cls="low")
    await rig.classes(top=1_000_000)
    await rig.pod("boss", cls="top")
    for name, nodes in (("liar", []), ("boss", ["n0", "n1"])):
        await rig.until(lambda name=name: rig.cache.pod_named("default", name) is not None)  # type: ignore[misc]
        told = FilterArgs(replace(rig.cached(name), priority=HIGHEST), ["n0", "n1"])
        assert (await rig.verbs.filter(told)).node_names == nodes


class OnePod:
    """A cluster with one pod in it, in which nothing happens."""

    generation = 0

    def __init__(self, known: Pod) -> None:
        self._known = known

    def pod(self, uid: str) -> Pod | None:
        return self._known if uid == self._known.uid else None


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ({"node": "n0"}, "has a node already"),
        ({"deleting": 1.0}, "is being deleted"),
        ({"gated": True}, "scheduling gates"),
    ],
    ids=["has a node", "is going", "is gated"],
)
async def test_only_a_pod_that_waits_is_acted_for(state: dict[str, Any], why: str) -> None:
    """Whatever state the caller gives it."""
    told = pod("p")
    assert await PodLookup(OnePod(told), 0.0).pod(told) is told  # type: ignore[arg-type]
    asked = PodLookup(OnePod(replace(told, **state)), 0.0)  # type: ignore[arg-type]
    with pytest.raises(UnknownPod, match=why):
        await asked.pod(told)


def _as(told: Any, made: dict[str, Any]) -> Any:
    """The question that kube-scheduler would ask about the created pod."""
    return replace(told, uid=made["metadata"]["uid"])
