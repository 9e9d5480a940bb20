"""Bindings a second through the extender, and what each costs it.

    python -m bench.serving.bind_bench --pods 4000 --rounds 3

Pods of no gang wait in a toy API server that takes every binding at once
(bench.serving.bind_server), in the process of the benchmark. The extender runs as ``serve`` in a
process of its own with one event loop, so its CPU time a bind says what one core carries.
``direct`` posts the same bindings from the same callers straight to the toy: what benchmark and
toy carry by themselves.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import uvloop
from msgspec import Struct

from bench.report import write_json, write_section
from bench.rival.comparison import machine
from bench.rival.throughput import cpu_seconds
from bench.serving.bind_server import BindServer
from extender.sandbox.process import READY_SECONDS, write_kubeconfig
from extender.settings.settings import ApiSettings, BindSettings, ServerSettings, Settings

OUT = Path(__file__).parent.parent / "out" / "bind.json"


class Measured(Struct, frozen=True):
    """One round of one way."""

    rate: float
    """Bindings a second."""
    p50: float
    p99: float
    """Milliseconds from a call to its answer."""
    cpu: float
    """Milliseconds of the extender's CPU a bind."""


async def exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes
) -> tuple[int, bytes]:
    """Send one request on a kept connection and read its answer."""
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    status = int(head[9:12])
    length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    return status, await reader.readexactly(length)


def post(host: str, path: str, body: dict[str, Any]) -> bytes:
    """One POST as bytes."""
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(data)}\r\n\r\n".encode() + data


async def drive(url: str, requests: Sequence[bytes], connections: int) -> tuple[float, list[float]]:
    """Send all requests, ``connections`` at a time; return seconds in all, and of each."""
    target = urlsplit(url)
    left = deque(requests)
    took: list[float] = []

    async def caller() -> None:
        reader, writer = await asyncio.open_connection(target.hostname, target.port)
        with contextlib.closing(writer):
            while left:
                began = time.perf_counter()
                status, body = await exchange(reader, writer, left.popleft())
                if status not in (200, 201) or (status == 200 and json.loads(body)["Error"]):
                    raise RuntimeError(f"status {status}: {body[:300].decode()}")
                took.append(time.perf_counter() - began)

    began = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(connections)))
    return time.perf_counter() - began, took


def question(way: str, url: str, pod: dict[str, Any], node: str) -> bytes:
    """The request that binds one pod: of kube-scheduler to us, or to the API server."""
    meta, host = pod["metadata"], urlsplit(url).netloc
    if way == "extender":
        args = {"PodName": meta["name"], "PodNamespace": meta["namespace"]}
        return post(host, "/bind", {**args, "PodUID": meta["uid"], "Node": node})
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"]},
        "target": {"kind": "Node", "name": node},
    }
    path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/binding"
    return post(host, path, body)


async def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measure both ways in turns and return the document to print."""
    ways = ("direct", "extender")
    found: dict[str, list[Measured]] = {way: [] for way in ways}
    total = options.pods * options.rounds * len(ways)
    async with BindServer(options.nodes, total) as server:
        with tempfile.TemporaryDirectory(prefix="podgroup-bench-") as folder:
            async with extender(Path(folder), server.url) as (url, pid):
                pods = list(server.pods.values())
                for number in range(options.rounds):
                    for way in ways if number % 2 else ways[::-1]:
                        mine, pods = pods[: options.pods], pods[options.pods :]
                        target = url if way == "extender" else server.url
                        asked = [
                            question(way, target, pod, f"node-{i % options.nodes:05}")
                            for i, pod in enumerate(mine)
                        ]
                        before = cpu_seconds({"extender": pid})["extender"]
                        seconds, took = await drive(target, asked, options.connections)
                        spent = cpu_seconds({"extender": pid})["extender"] - before
                        took.sort()
                        one = Measured(
                            rate=len(asked) / seconds,
                            p50=took[len(took) // 2] * 1000,
                            p99=took[len(took) * 99 // 100] * 1000,
                            cpu=spent * 1000 / len(asked),
                        )
                        found[way].append(one)
                        print(f"round {number + 1}: {way}: {one}", file=sys.stderr)
                        await asyncio.sleep(0.5)  # the watch of this round is not the next one's
    return {
        "command": f"python -m bench.serving.bind_bench --pods {options.pods} "
        f"--rounds {options.rounds} --connections {options.connections}",
        "machine": machine(),
        "ways": {
            way: {
                "rounds": [round(one.rate) for one in ones],
                "rate": round(statistics.median(one.rate for one in ones)),
                "p50": round(statistics.median(one.p50 for one in ones), 1),
                "p99": round(statistics.median(one.p99 for one in ones), 1),
                "cpu": round(statistics.median(one.cpu for one in ones), 3),
            }
            for way, ones in found.items()
        },
    }


@contextlib.asynccontextmanager
async def extender(folder: Path, api: str) -> AsyncIterator[tuple[str, int]]:
    """Run ``serve`` against an API server; yield its address and process id once it is ready."""
    settings = Settings(
        server=ServerSettings(port=0, log_level="info"),
        # kube-scheduler's own limit would measure the limit.
        api=ApiSettings(requests_per_second=0),
        bind=BindSettings(enabled=True),
    )
    write_kubeconfig(folder / "kubeconfig", api)
    (folder / "extender.yaml").write_text(json.dumps(msgspec.to_builtins(settings)))
    command = [sys.executable, "-m", "extender.app.main", "serve"]
    command += ["--config", str(folder / "extender.yaml")]
    command += ["--kubeconfig", str(folder / "kubeconfig")]
    log = folder / "log"
    with log.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            *command, stdout=file, stderr=file, stdin=subprocess.DEVNULL
        )
    try:
        end = time.monotonic() + READY_SECONDS
        url = ""
        while not url:
            text = log.read_text(errors="replace")
            lines = [json.loads(line) for line in text.splitlines() if line.endswith("}")]
            if any(line["event"] == "ready" for line in lines):
                url = next(line["url"] for line in lines if line["event"] == "serving")
            elif time.monotonic() > end or process.returncode is not None:
                raise RuntimeError(f"the extender did not become ready:\n{text[-2000:]}")
            await asyncio.sleep(0.1)
        yield url, process.pid
    finally:
        process.kill()
        await process.wait()


def table(done: dict[str, Any]) -> str:
    """The document as Markdown."""
    lines = [
        f"- Machine: {done['machine']}",
        f"- Command: `{done['command']}`",
        "",
        "| way | binds/s, each round | median | p50 ms | p99 ms | extender's CPU ms a bind |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for way, one in done["ways"].items():
        rounds = ", ".join(map(str, one["rounds"]))
        cpu = f"{one['cpu']:.2f}"
        lines.append(f"| {way} | {rounds} | {one['rate']} | {one['p50']} | {one['p99']} | {cpu} |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and print one JSON document; 2 for bad input."""
    parser = argparse.ArgumentParser(description="Bind plain pods, with and without the extender.")
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--pods", type=int, default=4000, help="a round and way")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--out", type=Path, default=OUT, help="where the JSON goes")
    parser.add_argument("--report", type=Path, help="put the table into this page as well")
    options = parser.parse_args(arguments)
    if min(options.nodes, options.pods, options.rounds, options.connections) < 1:
        print("error: at least one of each", file=sys.stderr)
        return 2
    done = uvloop.run(run(options))
    write_json(done, options.out)
    if options.report is not None:
        write_section("bind", table(done), options.report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
