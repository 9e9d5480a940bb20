"""The longest verb while tenants make planning dear, over HTTP.

    python -m bench.serving.dear_gangs --case namespaces --seconds 60

A sandbox API server, the real ``serve`` beside it in a process of its own, and in a third one a
scheduler that asks about one pod after the other, as kube-scheduler does. Cases:

- ``namespaces``: 8 namespaces with 3 gangs of 20 each, every member with requests of its own;
- ``gangs``: one namespace with 30 such gangs;
- ``budgets``: a namespace with 1,500 PodDisruptionBudgets of 10 NotIn requirements and 300 tiny
  pods, one more of each every half second, and twelve gangs of another namespace;
- ``alone``: the gangs of ``namespaces``, and beside them less urgent pods of no gang that ask
  ``preempt``, where every candidate would break a gang.

Exit status 1 when a verb was not answered with 200, or took longer than ``--bound`` seconds.
Without ``--bound`` the longest is only printed: it is the machine's load too.
Synthetic, loopback only; all processes share the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import aiohttp
import uvloop

from bench.serving.load import logged, spawned, started
from extender.kube.client import KubeClient
from extender.sandbox.apiserver import ApiServer
from extender.settings.settings import ApiSettings

HTTP_TIMEOUT = 5.0
"""kube-scheduler's httpTimeout where none is written."""
GIVEN_UP = 120.0
"""Seconds after which the scheduler asks for an answer no more, so that a run has an end."""
SIZE = 20
BUDGETS, TINY, HONEST = 1500, 300, 12
ALONE = 30
BUDGET_SECONDS = 0.5
AT_ONCE = 50
CLASSES = {"low": 1, "middle": 50, "high": 1000, "top": 2000}
GROUP_API = "/apis/scheduling.k8s.io/v1beta1/namespaces/{}/podgroups"
BUDGET_API = "/apis/policy/v1/namespaces/{}/poddisruptionbudgets"
TRIED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
Obj = dict[str, Any]


# -- the cluster -----------------------------------------------------------------------------


class Cluster:
    """Nodes full of low gangs, and tenants."""

    def __init__(self, client: KubeClient, nodes: int, seed: int) -> None:
        self._client = client
        self._random = random.Random(seed)
        self.nodes = [f"node-{at:04}" for at in range(nodes)]
        self._made = 0

    async def fill(self) -> None:
        """Make every node, and on each four pods of gangs of four."""
        for name, value in CLASSES.items():
            document = {"metadata": {"name": name}, "value": value}
            await self._client.create("/apis/scheduling.k8s.io/v1/priorityclasses", document)
        await self.namespace("running")
        await _some([partial(self._node, name) for name in self.nodes])
        places = self.nodes * 4
        self._random.shuffle(places)
        fours = [places[at : at + 4] for at in range(0, len(places), 4)]
        await _some([partial(self._running, four) for four in fours])

    async def namespace(self, name: str) -> None:
        """Make a namespace."""
        await self._client.create("/api/v1/namespaces", {"metadata": {"name": name}})

    async def _node(self, name: str) -> None:
        labels = {"kubernetes.io/hostname": name}
        status = {"allocatable": {"cpu": "40", "memory": "160Gi", "pods": "110"}}
        document = {"metadata": {"name": name, "labels": labels}, "status": status}
        await self._client.create("/api/v1/nodes", document)

    async def _running(self, nodes: Sequence[str]) -> None:
        cls = self._random.choice(("low", "middle"))
        name = await self._group("running", cls, len(nodes))
        for node in nodes:
            cpu, memory = self._random.randint(7000, 10000), self._random.randint(20, 40)
            await self.pod("running", cls, name, cpu, memory, node)

    async def gang(self, namespace: str, cls: str = "high", *, alike: bool = False) -> list[Obj]:
        """Make a gang of members that all differ, or are all ``alike``; return its pods."""
        name, between = await self._group(namespace, cls, SIZE), self._random.randint
        amounts = [(between(3000, 15000), between(8, 60)) for _ in range(SIZE)]
        if alike:
            amounts = [amounts[0]] * SIZE
        pods = [await self.pod(namespace, cls, name, cpu, memory) for cpu, memory in amounts]
        for pod in pods:  # kube-scheduler has tried it once: the planning loop looks for its gang
            path = f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}/status"
            await self._client.patch(path, {"status": {"conditions": [TRIED]}})
        return pods

    async def _group(self, namespace: str, cls: str, size: int) -> str:
        self._made += 1
        name = f"{cls}-{self._made}"
        policy: Obj = {"schedulingPolicy": {"gang": {"minCount": size}}}
        spec = policy | {"disruptionMode": {"all": {}}, "priorityClassName": cls}
        document = {"metadata": {"name": name}, "spec": spec}
        await self._client.create(GROUP_API.format(namespace), document)
        return name

    async def pod(
        self, namespace: str, cls: str, group: str, cpu: int, memory: int, node: str = ""
    ) -> Obj:
        """Make one pod; ``cpu`` in thousandths, ``memory`` in GiB."""
        self._made += 1
        requests = {"cpu": f"{cpu}m", "memory": f"{memory}Gi"}
        spec: Obj = {
            "containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}]
        }
        spec |= {"terminationGracePeriodSeconds": 0, "priorityClassName": cls}
        if group:
            spec["schedulingGroup"] = {"podGroupName": group}
        if node:
            spec["nodeName"] = node
        document = {"metadata": {"name": f"pod-{self._made}"}, "spec": spec}
        return await self._client.create(f"/api/v1/namespaces/{namespace}/pods", document)

    async def budget(self, namespace: str) -> None:
        """Make a budget of ten NotIn requirements, which matches every pod of the namespace."""
        self._made += 1
        wanted = [
            {"key": f"k{key}", "operator": "NotIn", "values": [f"v{self._made}", "x"]}
            for key in range(10)
        ]
        document = {
            "metadata": {"name": f"budget-{self._made}"},
            "spec": {"selector": {"matchExpressions": wanted}, "minAvailable": 1},
        }
        await self._client.create(BUDGET_API.format(namespace), document)

    async def tiny(self, namespace: str) -> None:
        """Make a pod that asks for next to nothing, on some node."""
        await self.pod(namespace, "low", "", 1, 0, self._random.choice(self.nodes))


async def _some(work: Sequence[Callable[[], Awaitable[object]]]) -> None:
    for at in range(0, len(work), AT_ONCE):
        await asyncio.gather(*(each() for each in work[at : at + AT_ONCE]))


# -- a scheduler, in a process of its own -----------------------------------------------------


def schedule(
    url: str,
    api: str,
    pods: list[Obj],
    nodes: list[str],
    verb: str,
    seconds: float,
    end: Connection,
) -> None:
    """Ask about one pod after the other until the time is up; send what was seen."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        end.send(runner.run(Scheduler(url, nodes, verb).run(api, pods, seconds)))


class Scheduler:
    """Asks, binds, and notes how long each answer took."""

    def __init__(self, url: str, nodes: list[str], verb: str) -> None:
        self._url = url
        self._nodes = nodes
        self._verb = verb
        self.times: list[float] = []
        self.statuses: Counter[str] = Counter()
        self.answers: Counter[str] = Counter()
        self.bound = 0

    async def run(self, api: str, pods: list[Obj], seconds: float) -> Obj:
        """Return what was seen, as JSON-able values."""
        limits = ApiSettings(requests_per_second=0)
        deadline, waiting = time.monotonic() + seconds, list(pods)
        random.Random(0).shuffle(waiting)  # all were made at about the same time
        timeout = aiohttp.ClientTimeout(total=GIVEN_UP)
        async with (
            await KubeClient.connect(server=api, limits=limits) as client,
            aiohttp.ClientSession(timeout=timeout) as web,
        ):
            while waiting and time.monotonic() < deadline:
                for pod in list(waiting):
                    if time.monotonic() >= deadline:
                        break
                    if await self._try(web, client, pod):
                        waiting.remove(pod)
                await asyncio.sleep(0.05)
        return {
            "times": self.times,
            "statuses": dict(self.statuses),
            "answers": dict(self.answers.most_common(12)),
            "bound": self.bound,
            "waiting": len(waiting),
        }

    async def _try(self, web: aiohttp.ClientSession, client: KubeClient, pod: Obj) -> bool:
        found = await self._ask(web, "filter", {"Pod": pod, "NodeNames": self._nodes})
        names = found.get("NodeNames") or []
        failed = (found.get("FailedNodes") or {}) | (found.get("FailedAndUnresolvableNodes") or {})
        for why in list(failed.values())[:1]:
            self.answers[why.partition(": ")[2][:70]] += 1
        if len(names) == 1:
            return await self._bind(client, pod, str(names[0]))
        if self._verb == "preempt":
            await self._preempt(web, client, pod)
        return False

    async def _preempt(self, web: aiohttp.ClientSession, client: KubeClient, pod: Obj) -> None:
        listed = await client.get("/api/v1/namespaces/running/pods")
        victims: dict[str, list[Obj]] = {}
        for each in listed["items"]:
            if each["spec"].get("nodeName"):
                victims.setdefault(each["spec"]["nodeName"], []).append(each)
        meta = {
            node: {"Pods": [{"UID": each["metadata"]["uid"]} for each in there]}
            for node, there in victims.items()
        }
        found = await self._ask(web, "preempt", {"Pod": pod, "NodeNameToMetaVictims": meta})
        self.answers[f"preempt: {len(found.get('NodeNameToMetaVictims') or {})} nodes"] += 1

    async def _ask(self, web: aiohttp.ClientSession, verb: str, document: Obj) -> Obj:
        began = time.perf_counter()
        try:
            async with web.post(f"{self._url}/{verb}", data=json.dumps(document)) as answer:
                body = await answer.read()
                self.statuses[str(answer.status)] += 1
                found = json.loads(body) if answer.status == 200 else {}
        except (aiohttp.ClientError, TimeoutError) as error:
            self.statuses[type(error).__name__] += 1
            found = {}
        self.times.append(time.perf_counter() - began)
        return found

    async def _bind(self, client: KubeClient, pod: Obj, node: str) -> bool:
        meta = pod["metadata"]
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/binding"
        target = {"metadata": {"name": meta["name"]}, "target": {"kind": "Node", "name": node}}
        await client.create(path, target)
        self.bound += 1
        return True


# -- cases -----------------------------------------------------------------------------------


async def made(case: str, cluster: Cluster) -> list[Obj]:
    """Make what a case begins with; return the pods that the scheduler asks about."""
    if case == "budgets":
        await cluster.namespace("tenant")
        await cluster.namespace("honest")
        await _some([lambda: cluster.budget("tenant")] * BUDGETS)
        await _some([lambda: cluster.tiny("tenant")] * TINY)
        return [pod for _ in range(HONEST) for pod in await cluster.gang("honest", alike=True)]
    wanted = [("team", 30)] if case == "gangs" else [(f"team-{at}", 3) for at in range(8)]
    pods: list[Obj] = []
    for name, gangs in wanted:
        await cluster.namespace(name)
        for _ in range(gangs):
            pods += await cluster.gang(name, "top" if case == "alone" else "high")
    if case == "alone":
        await cluster.namespace("honest")
        return [await cluster.pod("honest", "high", "", 9000, 30) for _ in range(ALONE)]
    return pods


async def churn(cluster: Cluster) -> None:
    """Make one more budget and pod, again and again."""
    while True:
        await cluster.budget("tenant")
        await cluster.tiny("tenant")
        await asyncio.sleep(BUDGET_SECONDS)


async def run(case: str, nodes: int, seconds: float, seed: int) -> Obj:
    """Play a case; return the result as JSON-able values."""
    server = ApiServer()
    await server.start()
    limits = ApiSettings(requests_per_second=0)
    with tempfile.TemporaryDirectory() as scratch:
        async with await KubeClient.connect(server=server.url, limits=limits) as client:
            cluster = Cluster(client, nodes, seed)
            await cluster.fill()
            pods = await made(case, cluster)
            extender, log = await spawned(server.url, Path(scratch))
            churning: asyncio.Task[None] | None = None
            try:
                url, _ = await started(log)
                if case == "budgets":
                    churning = asyncio.create_task(churn(cluster))
                return await _play(case, seconds, server, cluster, pods, url)
            finally:
                if churning is not None:
                    churning.cancel()
                extender.terminate()
                await extender.wait()
                await server.close()
                bad = [line for line in logged(log) if line["level"] in ("warning", "error")]
                told = Counter(line["event"] for line in bad)
                print(f"warnings and errors of the extender: {dict(told.most_common(8))}")


async def _play(
    case: str, seconds: float, server: ApiServer, cluster: Cluster, pods: list[Obj], url: str
) -> Obj:
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    verb = "preempt" if case == "alone" else "filter"
    arguments = (url, server.url, pods, cluster.nodes, verb, seconds, theirs)
    process = spawn.Process(target=schedule, args=arguments)
    process.start()
    seen: Obj = await asyncio.to_thread(ours.recv)
    process.join(30)
    times = sorted(seen.pop("times"))
    evicted = sum(method == "DELETE" for method, _ in server.requests)
    return {
        "case": case,
        "calls": len(times),
        "longest_s": round(times[-1], 2),
        "p99_s": round(times[int(len(times) * 0.99)], 2),
        "p50_s": round(times[len(times) // 2], 3),
        "beyond_http_timeout": sum(each > HTTP_TIMEOUT for each in times),
        **seen,
        "deletes": evicted,
        "load": round(os.getloadavg()[0], 1),
    }


def main(arguments: list[str]) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument(
        "--case", choices=("namespaces", "gangs", "budgets", "alone"), default="namespaces"
    )
    parser.add_argument("--nodes", type=int, default=600)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--bound", type=float, default=math.inf, help="seconds an answer may take; else exit code 1"
    )
    given = parser.parse_args(arguments)
    result = asyncio.run(run(given.case, given.nodes, given.seconds, given.seed))
    for key, value in result.items():
        print(f"{key:>20}  {value}")
    bad = {status for status in result["statuses"] if status != "200"}
    return int(result["longest_s"] > given.bound or bool(bad))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
