"""Electors on simulated time, against an API of one Lease that loses, delays and refuses.

Each elector has a clock of its own speed and offset, and can be stopped as by SIGSTOP: its clock
goes on, its coroutines do not.
"""

from __future__ import annotations

import asyncio
import copy
import random
import selectors
from collections.abc import AsyncGenerator, Coroutine, Mapping
from typing import Any

import msgspec

from extender.gang.leader_election.elector import Elector
from extender.gang.runtime.clocks import Clocks
from extender.kube.api_errors import Conflict, NotFound, Unavailable
from extender.settings.settings import LeadershipSettings

Lease = dict[str, Any]


class _Selector(selectors.SelectSelector):
    """Lets time pass instead of waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise AssertionError("everything waits for nothing")
        self.now += max(0.0, timeout)
        return []


class SimulatedLoop(asyncio.SelectorEventLoop):
    """An event loop whose time passes only when nothing can run."""

    def __init__(self) -> None:
        self._simulated = _Selector()
        super().__init__(self._simulated)

    def time(self) -> float:
        return self._simulated.now


def simulate(work: Coroutine[Any, Any, None]) -> None:
    """Run ``work`` to its end in simulated time."""
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        runner.run(work)


def now() -> float:
    """True simulated time."""
    return asyncio.get_running_loop().time()


class LeaseServer:
    """One namespace's leases with resourceVersions; every write is checked by ``written``."""

    def __init__(self) -> None:
        self.leases: dict[str, Lease] = {}
        self.writes: list[tuple[float, str]] = []
        """When, and who held the lease from then on."""
        self._version = 0
        self._subscribers: set[asyncio.Queue[Lease]] = set()

    def get(self, name: str) -> Lease:
        if name not in self.leases:
            raise NotFound(404, "NotFound", name)
        return copy.deepcopy(self.leases[name])

    def create(self, lease: Lease) -> Lease:
        if lease["metadata"]["name"] in self.leases:
            raise Conflict(409, "AlreadyExists", "there is one")
        return self._store(lease)

    def update(self, lease: Lease) -> Lease:
        present = self.get(lease["metadata"]["name"])
        if lease["metadata"]["resourceVersion"] != present["metadata"]["resourceVersion"]:
            raise Conflict(409, "Conflict", "the object has been modified")
        return self._store(lease)

    def _store(self, lease: Lease) -> Lease:
        self._version += 1
        stored = copy.deepcopy(lease)
        stored["metadata"]["resourceVersion"] = str(self._version)
        self.leases[stored["metadata"]["name"]] = stored
        self.writes.append((now(), stored["spec"]["holderIdentity"]))
        for queue in self._subscribers:
            queue.put_nowait(copy.deepcopy(stored))
        return copy.deepcopy(stored)

    async def watch(self) -> AsyncGenerator[Lease, None]:
        queue: asyncio.Queue[Lease] = asyncio.Queue()
        for lease in self.leases.values():
            queue.put_nowait(copy.deepcopy(lease))
        self._subscribers.add(queue)
        try:
            while True:
                yield await queue.get()
        finally:
            self._subscribers.discard(queue)


class Faults:
    """What happens to a replica's requests; ``rate`` of them suffer."""

    def __init__(self, rng: random.Random, rate: float, *, watches: bool = True) -> None:
        self.rng = rng
        self.rate = rate
        self.watches = watches
        self.cut = False
        """Nothing goes through, as in a partition."""

    def latency(self) -> float:
        slow = self.rng.random() < self.rate
        return self.rng.uniform(0.2, 9.0) if slow else self.rng.uniform(0.001, 0.05)

    def strikes(self) -> bool:
        return self.rng.random() < self.rate


class Replica:
    """One elector and its clock."""

    def __init__(
        self,
        name: str,
        server: LeaseServer,
        faults: Faults,
        settings: LeadershipSettings,
        *,
        rate: float = 1.0,
        offset: float = 0.0,
    ) -> None:
        self.name = name
        self.faults = faults
        self._server = server
        self._rate = rate
        self._offset = offset
        self._going = asyncio.Event()
        self._going.set()
        clocks = Clocks(self.monotonic, lambda: 1.7e9 + self.monotonic(), self.sleep)
        api: Any = self
        self.elector = Elector(
            api,
            settings,
            "kube-system",
            name,
            clocks=clocks,
            rng=faults.rng,
        )

    def monotonic(self) -> float:
        """The replica's own clock."""
        return now() * self._rate + self._offset

    def pause(self) -> None:
        """SIGSTOP."""
        self._going.clear()

    def resume(self) -> None:
        """SIGCONT."""
        self._going.set()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self._rate)
        await self._going.wait()

    # -- kube.api.KubeApi, as far as it is used -----------------------------------------

    async def request(
        self, method: str, path: str, *, body: Any = None, timeout: float = 30.0, **_: Any
    ) -> bytes:
        """Ask the server; the answer may be late or lost, and the request may come late."""
        sent = asyncio.ensure_future(self._deliver(method, path, body))
        done, _pending = await asyncio.wait({sent}, timeout=timeout / self._rate)
        await self._going.wait()
        if not done:
            sent.add_done_callback(lambda task: task.cancelled() or task.exception())
            raise Unavailable(0, "Timeout", "no answer in time")
        return msgspec.json.encode(sent.result())

    async def _deliver(self, method: str, path: str, body: Any) -> Lease:
        faults = self.faults
        await asyncio.sleep(faults.latency())
        await self._going.wait()
        if faults.cut:
            await asyncio.sleep(30.0)
            raise Unavailable(0, "Timeout", "lost")
        if faults.strikes():
            raise Unavailable(503, "ServiceUnavailable", "not done")
        answer = self._apply(method, path, body)
        await asyncio.sleep(faults.latency())
        if faults.strikes():
            raise Unavailable(500, "InternalError", "done, but not said")
        return answer

    def _apply(self, method: str, path: str, body: Any) -> Lease:
        if method == "GET":
            return self._server.get(path.rsplit("/", 1)[1])
        return self._server.create(body) if method == "POST" else self._server.update(body)

    async def batches(
        self, path: str, params: Mapping[str, Any] | None = None, **_: Any
    ) -> AsyncGenerator[list[bytes], None]:
        """The watch."""
        if not self.faults.watches:
            raise Unavailable(403, "Forbidden", "no watch")
        async for lease in self._server.watch():
            await asyncio.sleep(self.faults.latency())
            await self._going.wait()
            if self.faults.cut:
                raise Unavailable(0, "Timeout", "cut")
            yield [msgspec.json.encode({"type": "MODIFIED", "object": lease})]
