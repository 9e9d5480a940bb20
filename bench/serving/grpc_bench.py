"""How long filter takes over gRPC and over HTTP, side by side in one run.

Input as for verbs_bench: one pod and N node names. One process serves the same verbs over HTTP,
over gRPC on TCP and over gRPC on a Unix socket; one caller in another process asks one after the
other on kept connections. Rounds of the ways alternate, so that a busy machine spoils all alike:
trust the ratios more than the times. Callers send bytes made beforehand and look at no answer, so
that what is compared is transport and server. The gRPC caller is grpcio's own, whose threads cost
time that a caller in Go does not pay: the round trip of a health check shows how much.

    python -m bench.serving.grpc_bench
    python -m bench.serving.grpc_bench --verbs bench.serving.real_verbs:with_seats --json FILE
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import multiprocessing
import os
import platform
import sys
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter
from typing import Any, cast

import grpc
import uvloop

from bench.serving.verbs_bench import Caller, NoDebug, question, summary
from extender.grpc_api.decision_feed import DecisionFeed
from extender.grpc_api.server import GrpcServer
from extender.grpc_api.source import GrpcSource
from extender.pb.podgroup.v1 import extender_pb2
from extender.server.diagnostics import Health
from extender.server.lifecycle import Server
from extender.server.limits import Load
from extender.server.logs import configure_logs
from extender.server.metrics import Metrics
from extender.server.verb_calls import Verbs
from extender.settings.settings import GrpcSettings, ServerSettings, Settings
from extender.verbs.context import Context

PASS_THROUGH = "bench.serving.verbs_bench:PassThrough"
FILTER = "/podgroup.v1.ExtenderService/Filter"
CHECK = "/grpc.health.v1.Health/Check"
WARM_UP = 200
TICKS = os.sysconf("SC_CLK_TCK")


class NoContext:
    """What calls other than the verbs would ask."""

    resolver = None


def serve(factory: str, socket: str, pipe: Connection) -> None:
    """Serve the verbs in all ways until the pipe says stop; send (pid, HTTP port, target)."""
    configure_logs("warning")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop:
        loop.run(_serve(factory, socket, pipe))


async def _serve(factory: str, socket: str, pipe: Connection) -> None:
    module, _, name = factory.partition(":")
    make: Callable[[], Verbs] = getattr(importlib.import_module(module), name)
    verbs, stop, load = make(), asyncio.Event(), Load(ServerSettings())
    async with AsyncExitStack() as stack:
        targets = []
        for listen in ("127.0.0.1:0", f"unix:{socket}"):
            source = GrpcSource(
                settings=Settings(grpc=GrpcSettings(listen=listen)),
                verbs=verbs,
                present=lambda: cast("Context", NoContext()),
                pod_named=lambda namespace, name: None,
                health=Health(),
                metrics=Metrics(),
                decisions=DecisionFeed(),
                read_manifest=lambda text, source: [],
                load=load,
                tokens=None,
            )
            server = GrpcServer(source)
            await stack.enter_async_context(server.running(stop))
            targets.append(server.address.target)
        http = Server(ServerSettings(port=0), verbs, NoDebug(), Health(), Metrics(), load=load)
        serving = asyncio.create_task(http.serve(stop))
        await http.started.wait()
        pipe.send((os.getpid(), http.port, targets))
        await asyncio.to_thread(pipe.recv)
        stop.set()
        await serving


def callers(port: int, targets: list[str], names: int) -> dict[str, Callable[[], object]]:
    """Return how each way is called once."""
    body = question(names)
    asked = json.loads(body)
    message = extender_pb2.FilterRequest(
        pod=json.dumps(asked["Pod"]).encode(), node_names=asked["NodeNames"]
    ).SerializeToString()
    options = [("grpc.max_receive_message_length", -1)]
    tcp, unix = (grpc.insecure_channel(target, options) for target in targets)
    over_tcp: Any = tcp.unary_unary(FILTER)
    over_unix: Any = unix.unary_unary(FILTER)
    check: Any = tcp.unary_unary(CHECK)
    return {
        "HTTP": Caller(port, body).call,
        "gRPC": lambda: over_tcp(message),
        "gRPC, Unix socket": lambda: over_unix(message),
        "gRPC health check": lambda: check(b""),
    }


def cpu_seconds(pid: int) -> float:
    """Return what a process has used so far, by proc_pid_stat(5)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def run(factory: str, names: int, calls: int, rounds: int) -> dict[str, Any]:
    """Measure all ways; return the result as JSON-able values."""
    spawn = multiprocessing.get_context("spawn")
    times: dict[str, list[float]] = {}
    cpu: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = spawn.Pipe()
        process = spawn.Process(target=serve, args=(factory, f"{folder}/s", theirs))
        process.start()
        try:
            pid, port, targets = ours.recv()
            ways = callers(port, targets, names)
            for call in ways.values():
                for _ in range(min(WARM_UP, calls)):
                    call()
            for _ in range(rounds):
                for way, call in ways.items():
                    before = cpu_seconds(pid)
                    for _ in range(calls):
                        started = perf_counter()
                        call()
                        times.setdefault(way, []).append((perf_counter() - started) * 1000)
                    cpu[way] = cpu.get(way, 0.0) + cpu_seconds(pid) - before
        finally:
            if process.is_alive():
                ours.send("stop")
            process.join(15)
    found = {
        way: {**summary(taken), "cpu_ms": round(cpu[way] * 1000 / len(taken), 3)}
        for way, taken in times.items()
    }
    return {
        "verbs": factory,
        "names": names,
        "calls": calls * rounds,
        "ways": found,
        "python": platform.python_version(),
        "grpcio": grpc.__version__,
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
    }


def main(arguments: list[str]) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--verbs", default=PASS_THROUGH, help="module:factory of the verbs")
    parser.add_argument("--names", type=int, default=5000)
    parser.add_argument("--calls", type=int, default=500, help="calls a round")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--json", help="write the result to this file as well")
    given = parser.parse_args(arguments)
    result = run(given.verbs, given.names, given.calls, given.rounds)
    floor = result["ways"]["HTTP"]["p50_ms"]
    print("| way | p50 ms | p99 ms | server's CPU ms a call | p50 against HTTP |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for way, found in result["ways"].items():
        print(
            f"| {way} | {found['p50_ms']} | {found['p99_ms']} | {found['cpu_ms']} "
            f"| {found['p50_ms'] / floor:.2f} |"
        )
    print({key: value for key, value in result.items() if key != "ways"})
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=2)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
