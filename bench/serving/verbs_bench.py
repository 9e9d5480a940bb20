"""How long a pod of no gang waits for filter: ours against a canned answer, in one run.

Input (synthetic, deterministic): one pod as a Deployment makes it and N node
names of the form ip-10-x-y-z.ec2.internal, as kube-scheduler sends them with
nodeCacheCapable. One caller on one kept connection, calls one after the other,
as the scheduling cycle does. Each server is a process of its own; rounds of the
two alternate, so that a busy machine spoils both alike: trust the ratio more
than the times.

    python -m bench.serving.verbs_bench
    python -m bench.serving.verbs_bench --verbs some.module:factory --json result.json

``factory`` takes nothing and returns a Verbs; the floor reads the body and sends
stored bytes back through the same HTTP server.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import multiprocessing
import os
import platform
import socket
import statistics
import sys
from collections.abc import Awaitable, Callable, Iterable
from multiprocessing.connection import Connection
from time import perf_counter
from typing import Any

import uvicorn
import uvloop

from extender.server.diagnostics import Health
from extender.server.lifecycle import Server
from extender.server.logs import configure_logs
from extender.server.metrics import Metrics
from extender.server.responses import Receive, Scope, Send, respond
from extender.server.verb_calls import Verbs
from extender.settings.settings import ServerSettings
from extender.wire.bind_json import BindArgs, BindResult
from extender.wire.filter_json import FilterArgs, FilterResult, HostPriority, encode_filter_result
from extender.wire.filter_json import decode_filter_args as decode
from extender.wire.preempt_json import PreemptArgs, PreemptResult

PASS_THROUGH = "bench.serving.verbs_bench:PassThrough"


class PassThrough:
    """Verbs that decide nothing: what wire and server cost by themselves."""

    async def filter(self, args: FilterArgs) -> FilterResult:
        """Keep every node."""
        return FilterResult(args.node_names)

    async def prioritize(self, args: FilterArgs) -> list[HostPriority]:
        """Score every node alike."""
        return [HostPriority(name, 0) for name in args.node_names]

    async def preempt(self, args: PreemptArgs) -> PreemptResult:
        """Keep every candidate."""
        return PreemptResult(args.candidates)

    async def bind(self, args: BindArgs, gone: Callable[[], Awaitable[None]]) -> BindResult:
        """Bind nobody, and say that it is done."""
        return BindResult()

    def stopping(self) -> None:
        """Nothing is held."""


class NoDebug:
    """A debug source with nothing in it."""

    def decisions(self) -> list[object]:
        """Return nothing."""
        return []

    reservations = evictions = binds = decisions

    def gangs(self) -> Iterable[object]:
        """Return nothing."""
        return []

    def limits(self) -> dict[str, object]:
        """Return nothing."""
        return {}

    def pods_named(self, name: str) -> list[object]:
        """Return nothing."""
        return []

    def watches(self) -> list[object]:
        """Return nothing."""
        return []

    def observed(self) -> None:
        """Return nothing."""

    def snapshot(self, generation: int | None) -> object:
        """Return nothing."""
        return {}


def node_names(count: int) -> list[str]:
    """Return the names that are offered."""
    return [f"ip-10-{i >> 16}-{i >> 8 & 255}-{i & 255}.ec2.internal" for i in range(count)]


def question(names: int) -> bytes:
    """Return the body of one filter call."""
    pod = {
        "metadata": {
            "name": "web-7d4b9c6f5-x2x8p",
            "namespace": "shop",
            "uid": "0f4f3f1e-51d1-4b2a-9d0c-2f6a5f1c9b11",
            "resourceVersion": "812345",
            "creationTimestamp": "2026-11-21T08:00:00Z",
            "labels": {"app": "web", "pod-template-hash": "7d4b9c6f5", "tier": "front"},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7d4b9c6f5"}
                | {"uid": "5ad0ee0a-5b0f-4a6f-8f8c-0b1f2f0d8c7a", "controller": True}
            ],
        },
        "spec": {
            "containers": [
                {
                    "name": "web",
                    "image": "registry.example/web:1.2.3",
                    "env": [{"name": f"OPTION_{i}", "value": "x" * 24} for i in range(20)],
                    "resources": {"requests": {"cpu": "500m", "memory": "512Mi"}},
                    "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets"}],
                }
            ],
            "priority": 0,
            "schedulerName": "default-scheduler",
            "tolerations": [
                {"key": f"node.kubernetes.io/{k}", "operator": "Exists", "effect": "NoExecute"}
                for k in ("not-ready", "unreachable")
            ],
        },
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }
    offered = node_names(names)
    # As Go writes it: without blanks.
    args = {"Pod": pod, "Nodes": None, "NodeNames": offered}
    return json.dumps(args, separators=(",", ":")).encode() + b"\n"


def serve(kind: str, factory: str, names: int, pipe: Connection) -> None:
    """Run one server until the pipe says stop; send its port first."""
    configure_logs("warning")
    runner = _serve_floor(names, pipe) if kind == "floor" else _serve_verbs(factory, pipe)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop:
        loop.run(runner)


async def _serve_verbs(factory: str, pipe: Connection) -> None:
    module, _, name = factory.partition(":")
    make: Callable[[], Verbs] = getattr(importlib.import_module(module), name)
    stop = asyncio.Event()
    server = Server(ServerSettings(port=0), make(), NoDebug(), Health(), Metrics())
    serving = asyncio.create_task(server.serve(stop))
    await server.started.wait()
    pipe.send(server.port)
    await asyncio.to_thread(pipe.recv)
    stop.set()
    await serving


async def _serve_floor(names: int, pipe: Connection) -> None:
    args = decode(question(names))
    canned = encode_filter_result(FilterResult(args.node_names), args)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        chunks, more = [], True
        while more:
            message = await receive()
            chunks.append(message["body"])
            more = message["more_body"]
        b"".join(chunks)
        await respond(send, 200, canned)

    config = uvicorn.Config(
        app, http="httptools", ws="none", lifespan="off", log_config=None, access_log=False
    )
    config.timeout_keep_alive = ServerSettings().keep_alive_seconds
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = asyncio.create_task(server.serve([listener]))
        pipe.send(listener.getsockname()[1])
        await asyncio.to_thread(pipe.recv)
        server.should_exit = True
        await serving


class Caller:
    """One kept connection."""

    def __init__(self, port: int, body: bytes) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        head = "POST /filter HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
        self._request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body

    def call(self) -> bytes:
        """Return the body of one answer. Raises RuntimeError unless it is a 200."""
        self._socket.sendall(self._request)
        answer = self._socket.recv(1 << 18)
        while b"\r\n\r\n" not in answer:
            answer += self._more()
        head, _, body = answer.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(head.decode())
        (length,) = (
            int(line.split(b":")[1])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length")
        )
        parts, size = [body], len(body)
        while size < length:
            parts.append(self._more())
            size += len(parts[-1])
        return b"".join(parts)

    def _more(self) -> bytes:
        chunk = self._socket.recv(1 << 18)
        if not chunk:
            raise RuntimeError("the server closed the connection")
        return chunk


def measure(caller: Caller, calls: int) -> list[float]:
    """Return the time of each call in milliseconds."""
    times = []
    for _ in range(calls):
        started = perf_counter()
        caller.call()
        times.append((perf_counter() - started) * 1000)
    return times


def summary(times: list[float]) -> dict[str, float]:
    """Return the percentiles of a list of times."""
    ordered = sorted(times)
    return {
        "p50_ms": round(statistics.median(ordered), 3),
        "p99_ms": round(ordered[int(len(ordered) * 0.99)], 3),
        "max_ms": round(ordered[-1], 3),
    }


def run(factory: str, names: int, calls: int, rounds: int) -> dict[str, Any]:
    """Measure both servers; return the result as JSON-able values."""
    spawn = multiprocessing.get_context("spawn")
    body = question(names)
    servers = []
    try:
        for kind in ("floor", "verbs"):
            ours, theirs = spawn.Pipe()
            process = spawn.Process(target=serve, args=(kind, factory, names, theirs))
            process.start()
            servers.append((kind, process, ours))
        callers = {kind: Caller(pipe.recv(), body) for kind, _, pipe in servers}
        answers = {kind: json.loads(caller.call()) for kind, caller in callers.items()}
        for caller in callers.values():
            measure(caller, min(200, calls))
        times: dict[str, list[float]] = {kind: [] for kind in callers}
        for _ in range(rounds):
            for kind, caller in callers.items():
                times[kind] += measure(caller, calls)
    finally:
        for _, process, pipe in servers:
            if process.is_alive():
                pipe.send("stop")
            process.join(15)
    floor, ours_result = summary(times["floor"]), summary(times["verbs"])
    return {
        "verbs": factory,
        "names": names,
        "calls": calls * rounds,
        "request_bytes": len(body),
        "same_nodes": answers["floor"]["NodeNames"] == answers["verbs"]["NodeNames"],
        "floor": floor,
        "filter": ours_result,
        "ratio_p50": round(ours_result["p50_ms"] / floor["p50_ms"], 2),
        "ratio_p99": round(ours_result["p99_ms"] / floor["p99_ms"], 2),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
    }


def main(arguments: list[str]) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--verbs", default=PASS_THROUGH, help="module:factory of the verbs")
    parser.add_argument("--names", type=int, default=5000)
    parser.add_argument("--calls", type=int, default=1000, help="calls a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", help="write the result to this file as well")
    given = parser.parse_args(arguments)
    result = run(given.verbs, given.names, given.calls, given.rounds)
    for key, value in result.items():
        print(f"{key:>14}  {value}")
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=2)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
