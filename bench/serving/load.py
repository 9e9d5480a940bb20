"""Load held: many callers at once while gangs arrive and watches flap.

    python -m bench.serving.load --seconds 300

A sandbox API server with N nodes, each full with a member of a gang of four; the real ``serve``
beside it in a process of its own; and in a third one C callers on kept connections, each asking
/filter about a pod of no gang with all N names as soon as it has its answer. Meanwhile three
owners let one urgent gang after the other arrive, bind its members where filter seats them, end
it, and put a new gang of four in its place; every ten seconds the API server ends every watch and
cuts the next ones that are opened, and every sixth time the watches are expired instead (410, so
that all is read again). A fourth process asks /livez on the health listener, on a new connection
each time, as a kubelet does. Synthetic, loopback only; all of them share the machine, so times are
those of a crowd and not of the extender alone.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import multiprocessing
import os
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import aiohttp
import uvloop

from extender.kube.client import KubeClient
from extender.sandbox.apiserver import ApiServer
from extender.sandbox.faults import Fault
from extender.sandbox.process import write_kubeconfig
from extender.settings.settings import ApiSettings

SIZE = 4
"""Members of each gang; each fills a node."""
OWNERS = 3
WAITING = 20
"""Pods of no gang that the callers ask about."""
FLAP_SECONDS = 10.0
EXPIRE_EACH = 6
PROBE_SECONDS = 0.25
SEATED_SECONDS = 60.0
RUN_SECONDS = 2.0
READY_SECONDS = 180.0
PODS = "/api/v1/namespaces/default/pods"
GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
Obj = dict[str, Any]


# -- callers, in a process of their own ------------------------------------------------------


def call(port: int, bodies: Sequence[bytes], callers: int, seconds: float, end: Connection) -> None:
    """Ask until the time is up; send [statuses, times in milliseconds]."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        end.send(runner.run(_callers(port, bodies, callers, seconds)))


async def _callers(
    port: int, bodies: Sequence[bytes], callers: int, seconds: float
) -> tuple[Counter[str], list[float]]:
    statuses: Counter[str] = Counter()
    times: list[float] = []
    deadline = time.monotonic() + seconds
    await asyncio.gather(
        *(_caller(port, bodies[i % len(bodies)], deadline, statuses, times) for i in range(callers))
    )
    return statuses, times


async def _caller(
    port: int, body: bytes, deadline: float, statuses: Counter[str], times: list[float]
) -> None:
    head = f"POST /filter HTTP/1.1\r\nHost: load\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    writer: asyncio.StreamWriter | None = None
    while time.monotonic() < deadline:
        try:
            if writer is None:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
            began = time.perf_counter()
            writer.write(head + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(_length(answer))
            times.append((time.perf_counter() - began) * 1000)
            statuses[answer[9:12].decode()] += 1
            closing = b"connection: close" in answer
        except (OSError, asyncio.IncompleteReadError) as error:
            statuses[type(error).__name__] += 1
            closing = True
        if closing and writer is not None:
            writer.close()
            writer = None


def _length(head: bytes) -> int:
    _, _, rest = head.partition(b"content-length: ")
    return int(rest.split(b"\r\n", 1)[0])


# -- the cluster -----------------------------------------------------------------------------


class Cluster:
    """Nodes full of gangs, and owners who let urgent ones arrive."""

    def __init__(self, client: KubeClient, nodes: int) -> None:
        self.client = client
        self.nodes = [f"ip-10-0-{i >> 8}-{i & 255}.ec2.internal" for i in range(nodes)]
        self.seated: list[float] = []
        """Seconds from a gang's creation to its last binding."""
        self.late = 0
        """Gangs that were not seated in time."""
        self._made = 0

    async def fill(self) -> None:
        """Make every node, and a low gang on each four."""
        for name, value in (("low", 1), ("high", 1000)):
            await self.client.create(
                "/apis/scheduling.k8s.io/v1/priorityclasses",
                {"metadata": {"name": name}, "value": value},
            )
        await asyncio.gather(*(self._node(name) for name in self.nodes))
        await asyncio.gather(
            *(self._gang("low", self.nodes[i : i + SIZE]) for i in range(0, len(self.nodes), SIZE))
        )

    async def _node(self, name: str) -> None:
        labels = {"kubernetes.io/hostname": name}
        status = {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"}}
        await self.client.create(
            "/api/v1/nodes", {"metadata": {"name": name, "labels": labels}, "status": status}
        )

    async def pod(self, name: str, cls: str, group: str = "", on: str = "") -> Obj:
        """Make one pod, bound when ``on`` names a node."""
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}
        spec: Obj = {"containers": [container], "terminationGracePeriodSeconds": 0}
        spec["priorityClassName"] = cls
        if group:
            spec["schedulingGroup"] = {"podGroupName": group}
        if on:
            spec["nodeName"] = on
        return await self.client.create(PODS, {"metadata": {"name": name}, "spec": spec})

    async def _gang(self, cls: str, nodes: Sequence[str] = ()) -> list[Obj]:
        """Make a gang of four, bound to the nodes if there are any."""
        self._made += 1
        name = f"{cls}-{self._made}"
        policy = {"schedulingPolicy": {"gang": {"minCount": SIZE}}, "disruptionMode": {"all": {}}}
        spec = policy | {"priorityClassName": cls}
        await self.client.create(GROUPS, {"metadata": {"name": name}, "spec": spec})
        return [
            await self.pod(f"{name}-{i}", cls, name, nodes[i] if nodes else "") for i in range(SIZE)
        ]

    async def own(self, url: str, deadline: float) -> None:
        """Let one urgent gang after the other come, run and go."""
        async with aiohttp.ClientSession() as web:
            while time.monotonic() < deadline - 5:
                began = time.monotonic()
                pods = await self._gang("high")
                seats = await asyncio.gather(*(self._seat(web, url, pod) for pod in pods))
                if all(seats):
                    self.seated.append(time.monotonic() - began)
                elif time.monotonic() < deadline:
                    self.late += 1
                await asyncio.sleep(RUN_SECONDS)
                for pod in pods:
                    await self.client.delete(f"{PODS}/{pod['metadata']['name']}", grace=0)
                if all(seats):
                    await self._gang("low", [str(seat) for seat in seats])

    async def _seat(self, web: aiohttp.ClientSession, url: str, pod: Obj) -> str:
        """Ask filter until the member has its seat, and bind it there; "" when it gets none."""
        name = pod["metadata"]["name"]
        body = json.dumps({"Pod": pod, "Nodes": None, "NodeNames": self.nodes}).encode()
        limit = time.monotonic() + SEATED_SECONDS
        while time.monotonic() < limit:
            try:
                async with web.post(f"{url}/filter", data=body) as answer:
                    found = (await answer.json()) if answer.status == 200 else {}
            except aiohttp.ClientError:
                found = {}
            names = found.get("NodeNames") or []
            if len(names) == 1:
                target = {"metadata": {"name": name}, "target": {"kind": "Node", "name": names[0]}}
                await self.client.create(f"{PODS}/{name}/binding", target)
                return str(names[0])
            await asyncio.sleep(0.1 + random.random() * 0.1)
        return ""


# -- what is around it -----------------------------------------------------------------------


async def flap(server: ApiServer, deadline: float) -> int:
    """End or expire every watch, and cut the next ones that are opened; return how often."""
    count = 0
    while time.monotonic() < deadline - FLAP_SECONDS:
        await asyncio.sleep(FLAP_SECONDS)
        count += 1
        server.faults.plan(Fault(times=5, path="watch=", drop="before"))
        if count % EXPIRE_EACH:
            server.end_watches()
        else:
            server.expire_watches()
    return count


def resident(pid: int) -> float:
    """Return a process's memory in MiB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4 / 1024


def logged(log: Path) -> list[Obj]:
    """Return the extender's log lines so far."""
    return [json.loads(line) for line in log.read_text().splitlines() if line[:1] == "{"]


def probe(address: str, pid: int, seconds: float, end: Connection) -> None:
    """Ask /livez until the time is up; send (times in ms, how many were no 200, MiB resident)."""
    times: list[float] = []
    memory: list[float] = []
    bad = 0
    deadline = time.monotonic() + seconds
    host, _, port = address.removeprefix("http://").rpartition(":")
    while time.monotonic() < deadline:
        began = time.perf_counter()
        try:
            connection = http.client.HTTPConnection(host, int(port), timeout=30)
            connection.request("GET", "/livez")
            bad += connection.getresponse().status != 200
            connection.close()
        except OSError:
            bad += 1
        times.append((time.perf_counter() - began) * 1000)
        memory.append(resident(pid))
        time.sleep(PROBE_SECONDS)
    end.send((times, bad, memory))


async def spawned(server: str, scratch: Path) -> tuple[asyncio.subprocess.Process, Path]:
    """Start the extender beside the API server at a URL; return its process and its log."""
    kubeconfig, log = scratch / "kubeconfig", scratch / "log"
    write_kubeconfig(kubeconfig, server)
    command = ["-m", "extender.app.main", "serve", "--port", "0", "--health-port", "0"]
    command += ["--kubeconfig", str(kubeconfig)]
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, stderr=os.open(log, os.O_WRONLY | os.O_CREAT, 0o600)
    )
    return process, log


async def started(log: Path) -> tuple[str, str]:
    """Return where verbs and health are, once the extender is ready."""
    limit = time.monotonic() + READY_SECONDS
    while time.monotonic() < limit:
        events = {line["event"]: line for line in logged(log)}
        if "ready" in events:
            return events["serving"]["url"], events["serving"]["health"]
        await asyncio.sleep(0.2)
    raise SystemExit(f"the extender is not ready: {logged(log)[-5:]}")


def percentiles(times: list[float]) -> dict[str, float]:
    """Return what is told of a list of times."""
    ordered = sorted(times) or [0.0]
    return {
        "p50": round(statistics.median(ordered), 1),
        "p99": round(ordered[int(len(ordered) * 0.99)], 1),
        "max": round(ordered[-1], 1),
    }


def by_minute(memory: list[float], seconds: float) -> list[float]:
    """Return the median of each minute of values taken at equal distances in so many seconds.

    Flat from the second on is what is wanted: in the first one caches fill.
    """
    each = max(1, round(len(memory) * 60 / seconds))
    return [
        round(statistics.median(memory[start : start + each]), 1)
        for start in range(0, len(memory), each)
    ]


async def run(options: argparse.Namespace) -> Obj:
    """Play it; return the result as JSON-able values."""
    server = ApiServer()
    await server.start()
    limits = ApiSettings(requests_per_second=0)
    with tempfile.TemporaryDirectory() as scratch:
        async with await KubeClient.connect(server=server.url, limits=limits) as client:
            cluster = Cluster(client, options.nodes)
            await cluster.fill()
            waiting = [await cluster.pod(f"plain-{i}", "low") for i in range(WAITING)]
            extender, log = await spawned(server.url, Path(scratch))
            try:
                url, health = await started(log)
                return await _play(options, server, cluster, waiting, extender.pid, url, health)
            finally:
                extender.terminate()
                await extender.wait()
                await server.close()
                levels = Counter(line["level"] for line in logged(log))
                print(f"log lines of the extender: {dict(levels)}", flush=True)


async def _play(
    options: argparse.Namespace,
    server: ApiServer,
    cluster: Cluster,
    waiting: list[Obj],
    pid: int,
    url: str,
    health: str,
) -> Obj:
    bodies = [
        json.dumps({"Pod": pod, "Nodes": None, "NodeNames": cluster.nodes}).encode()
        for pod in waiting
    ]
    spawn = multiprocessing.get_context("spawn")
    asked_end, end = spawn.Pipe()
    port = int(url.rpartition(":")[2])
    arguments = (port, bodies, options.callers, options.seconds, end)
    probed_end, end = spawn.Pipe()
    processes = [
        spawn.Process(target=call, args=arguments),
        spawn.Process(target=probe, args=(health, pid, options.seconds, end)),
    ]
    for process in processes:
        process.start()
    deadline = time.monotonic() + options.seconds
    owners = [asyncio.create_task(cluster.own(url, deadline)) for _ in range(OWNERS)]
    flapping = asyncio.create_task(flap(server, deadline))
    times, bad, memory = await asyncio.to_thread(probed_end.recv)
    statuses, asked = await asyncio.to_thread(asked_end.recv)
    for process in processes:
        process.join(30)
    ends = await asyncio.gather(*owners, return_exceptions=True)
    broken = [repr(end) for end in ends if end is not None]
    evicted = sum(method == "DELETE" for method, _ in server.requests)
    return {
        "nodes": options.nodes,
        "callers": options.callers,
        "seconds": options.seconds,
        "calls": len(asked),
        "calls_a_second": round(len(asked) / options.seconds),
        "statuses": dict(statuses),
        "filter_ms": percentiles(asked),
        "livez_ms": percentiles(times) | {"bad": bad, "asked": len(times)},
        "gangs_seated": len(cluster.seated),
        "gangs_late": cluster.late,
        "gang_seconds": percentiles(cluster.seated),
        "deletes": evicted,
        "flaps": await flapping,
        "memory_mib": {
            "first": round(memory[0]),
            "after_a_fifth": round(max(memory[: len(memory) // 5 + 1])),
            "largest": round(max(memory)),
            "last": round(memory[-1]),
            "by_minute": by_minute(memory, options.seconds),
        },
        "owners_broken": broken,
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
    }


def main(arguments: list[str]) -> int:
    """Run from the command line; exit status 1 when a call was not answered with 200."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--callers", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--json", help="write the result to this file as well")
    options = parser.parse_args(arguments)
    result = asyncio.run(run(options))
    for key, value in result.items():
        print(f"{key:>16}  {value}")
    if options.json:
        Path(options.json).write_text(json.dumps(result, indent=2))
    return int(set(result["statuses"]) != {"200"} or bool(result["owners_broken"]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
