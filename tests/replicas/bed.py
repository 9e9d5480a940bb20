"""Real ``serve`` processes as replicas, and what stands in for a Service."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.controlplane.cluster import Cluster
from tests.controlplane.objects import make_pod
from tests.controlplane.processes import Process
from tests.wire.documents import dump, filter_by_name

SHORT = {"leaseSeconds": 2, "renewSeconds": 1.4, "retrySeconds": 0.4}
"""A lease for many kills in a short time."""


def ask(port: int, method: str, path: str, body: bytes | None = None) -> tuple[int, str]:
    """Return status and text of an answer; 0 when there is none."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace")
    except (OSError, http.client.HTTPException) as error:
        return 0, str(error)
    finally:
        connection.close()


def question_of(cluster: Cluster) -> bytes:
    """Make a pod that no kube-scheduler looks after; return a filter call about it."""
    pod = cluster.client.create(make_pod("asked", spec={"schedulerName": "nobody"}))
    return dump({**filter_by_name(["n0"]), "Pod": pod})


class ReplicaProcess:
    """One ``serve``, started again under the same name and port."""

    def __init__(
        self,
        name: str,
        port: int,
        folder: Path,
        kubeconfig: Path,
        settings: Mapping[str, Any],
        *,
        serve: Sequence[str] = ("extender.app.main", "serve"),
    ) -> None:
        self._serve = serve
        self.name = name
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.log = folder / f"{name}.log"
        self._config = folder / f"{name}.json"
        server = {"host": "127.0.0.1", "port": port, "drainSeconds": 2}
        self._config.write_text(json.dumps({**settings, "server": server}))
        self._kubeconfig = kubeconfig
        self.question = b""
        """Body of a filter call about a pod that is there (``question_of``)."""
        self.process: Process | None = None

    def start(self) -> None:
        """Start it and return at once."""
        command = [sys.executable, "-m", *self._serve]
        command += [f"--config={self._config}", f"--kubeconfig={self._kubeconfig}"]
        self.process = Process(self.name, command, self.log)

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def kill(self) -> None:
        """Kill -9."""
        assert self.process is not None
        self.process.stop(grace=0)

    def terminate(self) -> None:
        """SIGTERM, without waiting for the end."""
        os.kill(self.pid, signal.SIGTERM)

    def stop(self) -> None:
        if self.process is not None:
            self.process.stop()

    def warm(self) -> bool:
        return ask(self.port, "GET", "/readyz/caches")[0] == 200

    def ready(self) -> bool:
        return ask(self.port, "GET", "/readyz")[0] == 200

    def answers(self) -> bool:
        """Whether a verb is answered."""
        return ask(self.port, "POST", "/filter", self.question)[0] == 200


def wait(what: Callable[[], bool], seconds: float, text: str, pause: float = 0.02) -> float:
    """Wait until something is so; return how long that took."""
    began = time.monotonic()
    while not what():
        if time.monotonic() - began > seconds:
            raise AssertionError(f"not within {seconds:g} s: {text}")
        time.sleep(pause)
    return time.monotonic() - began


def leader_of(replicas: Sequence[ReplicaProcess], seconds: float = 60.0) -> ReplicaProcess:
    """Return the one replica that is ready."""
    found: list[ReplicaProcess] = []

    def one() -> bool:
        found[:] = [each for each in replicas if each.ready()]
        return len(found) == 1

    wait(one, seconds, "one replica leads", 0.05)
    return found[0]


class Service:
    """A loopback port that leads to the replica that is ready, as a Service leads to the leader."""

    def __init__(self, replicas: Sequence[ReplicaProcess]) -> None:
        self._ports = [each.port for each in replicas]
        self._target = 0
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.port = 0
        self._thread.start()
        self._started.wait(60)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._main.cancel)
        self._thread.join(60)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._main = self._loop.create_task(self._serve())
        with contextlib.suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._main)

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        while True:
            for port in self._ports:
                status, _ = await asyncio.to_thread(ask, port, "GET", "/readyz")
                if status == 200:
                    self._target = port
            await asyncio.sleep(0.1)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_copy(reader, back), _copy(there, writer), return_exceptions=True)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()
