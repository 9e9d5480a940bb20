"""Kubernetes clients for asyncio beside our own: requests a second, CPU of each, memory of pods.

``python -m bench.serving.client_libraries`` starts the sandbox's API server in a process of its own
and asks it for one pod after the other by each library, sixteen at a time, in several rounds. Then
each lists all pods and keeps them as it hands them out; ours are the cache's. A library that is not
installed is left out. They are in no lock: ``pip install kubernetes_asyncio==36.1.0 kr8s==0.20.15
lightkube==1.0.1`` in a virtual environment that is thrown away.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from importlib import import_module
from importlib.util import find_spec
from statistics import median
from typing import Any

from bench.serving.cache_bench import resident

AT_ONCE = 16
PODS = 200
"""That are asked for by name."""
PAGE = 500
LIBRARIES = {"ours": "extender", "kubernetes_asyncio": "", "kr8s": "", "lightkube": ""}
"""What is measured -> the package that it needs, if that has another name."""
Ask = Callable[[int], Awaitable[object]]
"""Reads the pod of this number."""
Keep = Callable[[], Awaitable[object]]
"""Reads all pods and returns what keeps them."""


async def ours(url: str) -> tuple[Ask, Keep]:
    """KubeClient for one object, the cache for all."""
    import structlog

    from extender.cache.cache import Cache
    from extender.groups.resolver import Resolver
    from extender.kube.client import KubeClient
    from extender.settings.settings import CacheSettings, GroupSettings

    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    client = await KubeClient.connect(server=url)

    async def keep() -> object:
        cache = Cache(client, CacheSettings(), Resolver(GroupSettings()).member_key)
        await cache.start()
        await cache.wait_synced(600)
        return cache, cache.snapshot()

    return lambda i: client.get(f"/api/v1/namespaces/default/pods/pod-{i}"), keep


async def kubernetes_asyncio(url: str) -> tuple[Ask, Keep]:
    """The client that is generated from the API's description."""
    library = import_module("kubernetes_asyncio.client")
    api = library.CoreV1Api(library.ApiClient(library.Configuration(host=url)))

    async def keep() -> object:
        found: list[Any] = []
        more: dict[str, str] = {}
        while True:
            page = await api.list_pod_for_all_namespaces(limit=PAGE, **more)
            found += page.items
            if not page.metadata._continue:
                return found
            more = {"_continue": page.metadata._continue}

    return lambda i: api.read_namespaced_pod(f"pod-{i}", "default"), keep


async def kr8s(url: str) -> tuple[Ask, Keep]:
    """Objects that are their JSON, over httpx."""
    api = await import_module("kr8s.asyncio").api(url=url)
    pod = import_module("kr8s.asyncio.objects").Pod

    async def keep() -> object:
        return [each async for each in api.get("pods", namespace="")]

    return lambda i: pod.get(f"pod-{i}", namespace="default", api=api), keep


async def lightkube(url: str) -> tuple[Ask, Keep]:
    """Dataclasses that are made when a part is read, over httpx."""
    library, models = import_module("lightkube"), import_module("lightkube.config.models")
    pod = import_module("lightkube.resources.core_v1").Pod
    config = library.KubeConfig(
        clusters={"it": models.Cluster(server=url)},
        contexts={"it": models.Context(cluster="it", user="it")},
        users={"it": models.User()},
        current_context="it",
    )
    client = library.AsyncClient(config=config)

    async def keep() -> object:
        return [each async for each in client.list(pod, namespace="*", chunk_size=PAGE)]

    return lambda i: client.get(pod, name=f"pod-{i}", namespace="default"), keep


async def asked(ask: Ask, seconds: float) -> tuple[int, float, float]:
    """(requests, seconds, seconds of CPU), AT_ONCE at a time."""
    done = 0

    async def caller(first: int) -> None:
        nonlocal done
        number = first
        while time.perf_counter() < end:
            await ask(number % PODS)
            number += AT_ONCE
            done += 1

    started, cpu = time.perf_counter(), time.process_time()
    end = started + seconds
    await asyncio.gather(*(caller(first) for first in range(AT_ONCE)))
    return done, time.perf_counter() - started, time.process_time() - cpu


async def measure(name: str, url: str, seconds: float) -> dict[str, float]:
    """Requests where there are seconds to ask for; else what all pods take."""
    ask, keep = await globals()[name](url)
    if seconds:
        await asked(ask, 0.5)
        done, took, cpu = await asked(ask, seconds)
        return {"perSecond": done / took, "cpuMicroseconds": cpu / done * 1e6}
    gc.collect()
    before, started, cpu = resident(), time.perf_counter(), time.process_time()
    kept = await keep()
    figures = {"seconds": time.perf_counter() - started, "cpuSeconds": time.process_time() - cpu}
    gc.collect()
    assert kept is not None
    return figures | {"MiB": resident() - before}


async def serve(pods: int) -> None:
    """The sandbox's API server with pods, until stdin closes."""
    from bench.serving.cache_server import pod
    from extender.sandbox.apiserver import ApiServer

    server = ApiServer()
    await server.start()
    resource = next(each for each in server.api.resources if each.plural == "pods")
    for index in range(pods):
        made = pod(index, 100, 1)
        made["metadata"] |= {"name": f"pod-{index}", "namespace": "default"}
        server.api.create(resource, "default", made)
    print(server.url.rpartition(":")[2], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await server.close()


def asked_by(name: str, url: str, seconds: float) -> dict[str, float]:
    """What one library, in a process of its own, takes."""
    words = ["--library", name, "--url", url, "--seconds", str(seconds)]
    done = subprocess.run(
        [sys.executable, "-m", "bench.serving.client_libraries", *words],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def compare(names: list[str], options: argparse.Namespace) -> None:
    """Start the server, ask it in rounds, print a table."""
    command = [sys.executable, "-m", "bench.serving.client_libraries", "--library", "server"]
    with subprocess.Popen(
        [*command, "--pods", str(options.pods)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}"
        rounds = [
            {name: asked_by(name, url, options.seconds) for name in names}
            for _ in range(options.rounds)
        ]
        kept = {name: asked_by(name, url, 0) for name in names}
        server.stdin.close()
    print(f"{AT_ONCE} requests at a time, medians of {options.rounds}; {options.pods} pods kept")
    print("| client | requests/s | CPU a request, us | seconds | CPU, s | MiB |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name in names:
        rate = median(each[name]["perSecond"] for each in rounds)
        cpu = median(each[name]["cpuMicroseconds"] for each in rounds)
        took = kept[name]
        print(
            f"| {name} | {rate:.0f} | {cpu:.0f} | {took['seconds']:.1f} | {took['cpuSeconds']:.1f} "
            f"| {took['MiB']:.0f} |"
        )


def main() -> None:
    """Run and print; see the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--only", default=",".join(LIBRARIES), help="names, separated by commas")
    parser.add_argument("--library", help="(for processes that this starts)")
    parser.add_argument("--url", default="", help="(likewise)")
    options = parser.parse_args()
    if options.library == "server":
        asyncio.run(serve(options.pods))
    elif options.library:
        print(json.dumps(asyncio.run(measure(options.library, options.url, options.seconds))))
    else:
        names = options.only.split(",")
        compare([name for name in names if find_spec(LIBRARIES[name] or name)], options)


if __name__ == "__main__":
    main()
