"""How fast the cache fills, how much it holds, how many events it takes.

``python -m bench.serving.cache_bench --nodes 5000 --pods 150000`` starts a toy API server in a
process of its own (bench.serving.cache_server, which says where its objects come from), lets the
real cache follow it over loopback, and prints JSON and a short text. Aims: first sync
within 5 s, at most 300 MB above the interpreter with the same imports, 30,000 events/s.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import subprocess
import sys
import time
from typing import Any

import structlog

from bench.serving.cache_server import encode, node, pod
from extender.cache.cache import Cache
from extender.decode.from_json import decode_node, decode_pod
from extender.groups.resolver import Resolver
from extender.kube.client import KubeClient
from extender.settings.settings import CacheSettings, GroupSettings

MIB = 1 << 20
AIMS = {"syncSeconds": 5.0, "memoryMiB": 300.0, "eventsPerSecond": 30_000.0}


def resident() -> float:
    """Return this process's resident memory in MiB."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096 / MIB


def decode_cost(pods: int, nodes: int) -> dict[str, float]:
    """Return microseconds per object, decoded from bytes to record, second pass (warm memos)."""
    raws = [encode(pod(i, nodes, 1000 + i)) for i in range(pods)]
    raw_nodes = [encode(node(i)) for i in range(min(nodes, 500))]
    costs = {}
    for name, decode, data in (("pod", decode_pod, raws), ("node", decode_node, raw_nodes)):
        for _ in range(2):
            started = time.perf_counter()
            for raw in data:
                decode(raw)
            costs[f"{name}Microseconds"] = (time.perf_counter() - started) / len(data) * 1e6
    costs["podBytes"] = sum(map(len, raws)) / len(raws)
    return costs


async def pauses(longest: list[float], stop: asyncio.Event) -> None:
    """Note in ``longest`` for how long the loop could not look at anything else."""
    while not stop.is_set():
        started = time.perf_counter()
        await asyncio.sleep(0)
        longest[0] = max(longest[0], time.perf_counter() - started)
        await asyncio.sleep(0.0005)


async def measure(options: argparse.Namespace, port: int) -> dict[str, Any]:
    """Return the figures of one run against the server at ``port``."""
    resolver = Resolver(GroupSettings())
    client = await KubeClient.connect(server=f"http://127.0.0.1:{port}")
    gc.collect()
    before = resident()
    settings = CacheSettings(watch_list=not options.no_watch_list)
    cache = Cache(client, settings, resolver.member_key)
    started, cpu = time.perf_counter(), time.process_time()
    await cache.start()
    await cache.wait_synced(600)
    result: dict[str, Any] = {
        "syncSeconds": time.perf_counter() - started,
        "syncCpuSeconds": time.process_time() - cpu,
    }
    assert len(cache.store.pods.by_uid) == options.pods
    result["memoryMiB"] = resident() - before
    started = time.perf_counter()
    snapshot = cache.snapshot()
    result["firstSnapshotMs"] = (time.perf_counter() - started) * 1e3
    assert sum(map(len, snapshot.bound.values())) == options.pods
    gc.collect()
    gc.freeze()
    result["memoryWithSnapshotMiB"] = resident() - before

    longest, stop = [0.0], asyncio.Event()
    watcher = asyncio.create_task(pauses(longest, stop))
    stats = cache.stats.watches["pods"]
    while not stats.up:  # noqa: ASYNC110 - the cache has no event for it, nor a use
        await asyncio.sleep(0.001)
    target = stats.events + options.events
    started, cpu = time.perf_counter(), time.process_time()
    await client.request("GET", "/go")
    snapshots: list[float] = []
    while stats.events < target:
        await asyncio.sleep(0.05)
        at = time.perf_counter()
        cache.snapshot()
        snapshots.append(time.perf_counter() - at)
    seconds = time.perf_counter() - started
    stop.set()
    await watcher
    result |= {
        "eventsPerSecond": options.events / seconds,
        "eventsPerCpuSecond": options.events / (time.process_time() - cpu),
        "longestPauseMs": longest[0] * 1e3,
        "snapshotUnderLoadMs": sorted(snapshots)[len(snapshots) // 2] * 1e3,
        "decodeErrors": cache.stats.decode_errors,
        "relists": stats.relists,
    }
    started = time.perf_counter()
    for _ in range(1000):
        cache.snapshot()
    result["unchangedSnapshotMicroseconds"] = (time.perf_counter() - started) * 1e3
    await cache.stop()
    await client.close()
    return result


def main() -> None:
    """Run and print; see the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=150_000)
    parser.add_argument("--events", type=int, default=60_000)
    parser.add_argument("--no-watch-list", action="store_true", help="use paged lists")
    parser.add_argument("--uvloop", action="store_true", help="run on uvloop, as serve does")
    options = parser.parse_args()
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    command = [sys.executable, "-m", "bench.serving.cache_server"]
    command += ["--nodes", str(options.nodes), "--pods", str(options.pods)]
    command += ["--events", str(options.events)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as toy:
        assert toy.stdout is not None
        assert toy.stdin is not None
        try:
            port = int(toy.stdout.readline())
            if options.uvloop:
                import uvloop

                result = uvloop.run(measure(options, port))
            else:
                result = asyncio.run(measure(options, port))
        finally:
            toy.stdin.close()
    result |= decode_cost(min(options.pods, 20_000), options.nodes)
    result = {"nodes": options.nodes, "pods": options.pods, "events": options.events} | result
    print(json.dumps(result, indent=1))
    print(
        f"{options.pods} pods on {options.nodes} nodes: first sync {result['syncSeconds']:.1f} s "
        f"(aim {AIMS['syncSeconds']:.0f}), {result['memoryMiB']:.0f} MiB (aim "
        f"{AIMS['memoryMiB']:.0f}), {result['eventsPerSecond']:.0f} events/s (aim "
        f"{AIMS['eventsPerSecond']:.0f}), longest pause "
        f"of the loop {result['longestPauseMs']:.1f} ms"
    )


if __name__ == "__main__":
    main()
