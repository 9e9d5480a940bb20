"""Who arrives in a scenario, one pod after the other, and what kube-scheduler makes of it.

Expectations, kills and pauses of the scenario are left out: they are about an extender that acts.
So are Kueue's gates and finalizers: it admits everybody. Pods are bare and end at once, and each is
settled before the next is made, so that nothing depends on who is quicker. Which of several equal
victims goes does depend on chance in kube-scheduler, so the outcome is counted by priority class.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from extender.kube.client import KubeClient
from extender.sandbox import scenario_objects
from extender.sandbox.hooks import Hooks
from extender.sandbox.runner import Runner
from extender.sandbox.scenario import Create, Scenario

SECONDS = 120.0
WAKE_SECONDS = 5.0
LOOKS = 3
"""So many looks in a row have to find nothing under way."""


class Came(Struct, frozen=True):
    """What became of the pods of each priority class; classes without any are left out."""

    evicted: dict[str, int]
    sits: dict[str, int]
    waits: dict[str, int] = {}


async def arrive(scenario: Scenario, client: KubeClient, hooks: Hooks, namespace: str) -> Came:
    """Let everybody arrive and return what came of it."""
    runner = Runner(replace(scenario, steps=[], never=[]), client, hooks, namespace=namespace)
    await runner.prepare()
    made: Counter[str] = Counter()
    try:
        for create in (_bare(one) for one in scenario.creates):
            for copy, actor in enumerate(create.actors):
                group = scenario_objects.pod_group(create, actor, runner._served)
                if group is not None:
                    path, body = group
                    await client.create(f"{path}/namespaces/{namespace}/podgroups", body)
                for pod in scenario_objects.pods(create, actor, copy):
                    made[create.priority_class] += 1
                    await client.create(f"/api/v1/namespaces/{namespace}/pods", pod)
                    if not create.nodes:
                        await settled(client, namespace)
        await settled(client, namespace)
        sits: Counter[str] = Counter()
        waits: Counter[str] = Counter()
        for pod in await _pods(client, namespace):
            name = pod["spec"].get("priorityClassName", "")
            (sits if pod["spec"].get("nodeName") else waits)[name] += 1
        return Came(dict(made - sits - waits), dict(sits), dict(waits))
    finally:
        await runner.recorder.close()


def _bare(create: Create) -> Create:
    if create.jobset is not None:
        create = replace(create, jobset=None, pods=create.size, min_count=create.quorum)
    return replace(create, grace=0, every=0.0)


async def _pods(client: KubeClient, namespace: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await client.get(f"/api/v1/namespaces/{namespace}/pods"))[
        "items"
    ]
    return found


def _under_way(pod: dict[str, Any]) -> bool:
    """Whether something is still to happen to a pod by itself."""
    if "deletionTimestamp" in pod["metadata"]:
        return True
    if pod["spec"].get("nodeName"):
        return False
    status = pod.get("status", {})
    tried = any(
        each["type"] == "PodScheduled" and each["status"] == "False"
        for each in status.get("conditions", ())
    )
    return not tried or bool(status.get("nominatedNodeName"))


async def settled(client: KubeClient, namespace: str) -> None:
    """Wait until every pod sits, or was tried and has no node nominated.

    Pods that kube-scheduler has forgotten are woken; see Stage.until_bound of test_observe_mode.
    """
    quiet, until, woken = 0, time.monotonic() + SECONDS, time.monotonic()
    while quiet < LOOKS:
        under_way = [pod for pod in await _pods(client, namespace) if _under_way(pod)]
        quiet = 0 if under_way else quiet + 1
        now = time.monotonic()
        assert now < until, [pod["metadata"]["name"] for pod in under_way]
        if under_way and now - woken > WAKE_SECONDS:
            woken = now
            for pod in under_way:
                change = {"metadata": {"annotations": {"test/woken": str(now)}}}
                name = pod["metadata"]["name"]
                await client.patch(
                    f"/api/v1/namespaces/{namespace}/pods/{name}", change, kind="merge"
                )
        await asyncio.sleep(0.1)
