"""Every pod of a play, recorded from a watch since before the first one exists.

An eviction is a pod that was deleted before it had finished, by somebody other
than the player of the scenario. Pods are told apart by UID.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Literal

import msgspec
from msgspec import Struct

from extender.decode.quantity import parse_resource
from extender.kube.api_errors import ApiError
from extender.kube.client import KubeClient
from extender.sandbox.api_status import Obj
from extender.sandbox.scenario_objects import ACTOR

What = Literal["made", "bound", "running", "evicted", "gone", "finished"]
_FINISHED = ("Succeeded", "Failed")
_PAUSE = 0.2


class Seen(Struct):
    """One pod as last seen."""

    uid: str
    name: str
    actor: str
    """The arrival it belongs to, "" for a pod of somebody else."""
    priority: int
    cpu: int
    """Milli-cores it asks for."""
    devices: dict[str, int]
    """Extended resources that it asks for, such as nvidia.com/gpu."""
    node: str = ""
    phase: str = "Pending"
    deleting: bool = False
    gone: bool = False
    tried: bool = False
    disrupted: bool = False
    """DisruptionTarget was set, at any time."""
    evicted: bool = False
    why_waiting: str = ""
    """Message of the PodScheduled condition."""

    @property
    def finished(self) -> bool:
        """Whether it ended by itself."""
        return self.phase in _FINISHED

    @property
    def alive(self) -> bool:
        """Whether it exists, has not ended and is not on its way out."""
        return not (self.gone or self.deleting or self.finished)

    @property
    def seated(self) -> bool:
        """Whether it is alive on a node."""
        return self.alive and bool(self.node)

    @property
    def running(self) -> bool:
        """Whether it is alive and runs."""
        return self.alive and self.phase == "Running"


class PodEvent(Struct, frozen=True):
    """Something that happened to a pod, at a time of the monotonic clock."""

    at: float
    what: What
    pod: Seen


class PodRecorder:
    """Watch the pods of a namespace; ``pods`` maps uid -> Seen, gone ones included."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self.pods: dict[str, Seen] = {}
        self.events: list[PodEvent] = []
        self.ours: set[str] = set()
        """Actors that the player itself deletes: that is no eviction."""
        self._client = client
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._listeners: list[Callable[[PodEvent], None]] = []
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to watch; what happens from now on is not missed."""
        version = await self._relist()
        self._task = asyncio.ensure_future(self._follow(version))

    async def close(self) -> None:
        """Stop watching."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def listen(self, listener: Callable[[PodEvent], None]) -> None:
        """Call back for every event, in order."""
        self._listeners.append(listener)

    def of(self, actor: str) -> list[Seen]:
        """Return the actor's pods that exist, by name."""
        found = [pod for pod in self.pods.values() if pod.actor == actor and not pod.gone]
        return sorted(found, key=lambda pod: pod.name)

    def evicted(self) -> list[Seen]:
        """Return every evicted pod, in the order of their evictions."""
        return [event.pod for event in self.events if event.what == "evicted"]

    async def until(self, condition: Callable[[], bool], timeout: float) -> bool:
        """Wait for a condition that depends on pods; False when it did not come in time."""
        end = time.monotonic() + timeout
        while not condition():
            left = end - time.monotonic()
            if left <= 0:
                return False
            self._changed.clear()
            try:
                async with asyncio.timeout(min(left, _PAUSE)):
                    await self._changed.wait()
            except TimeoutError:
                pass
        return True

    async def _follow(self, version: str) -> None:
        while True:
            try:
                params: dict[str, str | bool] = {
                    "watch": True,
                    "resourceVersion": version,
                    "allowWatchBookmarks": True,
                }
                lines = self._client.stream(self._path, params, idle_seconds=300)
                async for line in lines:
                    event = msgspec.json.decode(line)
                    if event["type"] == "ERROR":
                        break
                    obj = event["object"]
                    version = obj["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        self._take(obj, deleted=event["type"] == "DELETED")
            except ApiError:
                await asyncio.sleep(_PAUSE)
            try:
                version = await self._relist()
            except ApiError:
                await asyncio.sleep(_PAUSE)

    async def _relist(self) -> str:
        answer = await self._client.get(self._path)
        there = set()
        for obj in answer["items"]:
            there.add(obj["metadata"]["uid"])
            self._take(obj, deleted=False)
        for pod in list(self.pods.values()):
            if not pod.gone and pod.uid not in there:
                self._end(pod)
        return str(answer["metadata"]["resourceVersion"])

    def _take(self, obj: Obj, *, deleted: bool) -> None:
        meta, spec, status = obj["metadata"], obj["spec"], obj.get("status") or {}
        pod = self.pods.get(meta["uid"])
        if pod is None:
            labels = meta.get("labels") or {}
            pod = Seen(
                meta["uid"],
                meta["name"],
                labels.get(ACTOR, ""),
                spec.get("priority") or 0,
                _asked(spec["containers"], "cpu"),
                _devices(spec["containers"]),
            )
            self.pods[pod.uid] = pod
            self._tell("made", pod)
        conditions = {c["type"]: c for c in status.get("conditions") or ()}
        scheduled = conditions.get("PodScheduled", {})
        pod.tried = scheduled.get("status") == "False"
        pod.why_waiting = scheduled.get("message", "") if pod.tried else ""
        pod.disrupted |= conditions.get("DisruptionTarget", {}).get("status") == "True"
        if spec.get("nodeName") and not pod.node:
            pod.node = spec["nodeName"]
            self._tell("bound", pod)
        was, pod.phase = pod.phase, status.get("phase", "Pending")
        if not pod.deleting and not pod.gone:
            if pod.phase == "Running" and was != "Running" and not meta.get("deletionTimestamp"):
                self._tell("running", pod)
            if pod.finished and was not in _FINISHED:
                self._tell("finished", pod)
        if meta.get("deletionTimestamp") or deleted:
            self._leave(pod)
        if deleted:
            self._end(pod)
        self._changed.set()

    def _leave(self, pod: Seen) -> None:
        """The first sign that a pod is deleted."""
        if pod.deleting:
            return
        was_finished = pod.finished
        pod.deleting = True
        if not was_finished and pod.actor not in self.ours:
            pod.evicted = True
            self._tell("evicted", pod)

    def _end(self, pod: Seen) -> None:
        self._leave(pod)
        if not pod.gone:
            pod.gone = True
            self._tell("gone", pod)
        self._changed.set()

    def _tell(self, what: What, pod: Seen) -> None:
        event = PodEvent(time.monotonic(), what, pod)
        self.events.append(event)
        for listener in self._listeners:
            listener(event)


def _asked(containers: Iterable[Obj], resource: str) -> int:
    return sum(parse_resource(resource, _requests(one).get(resource, 0)) for one in containers)


def _devices(containers: list[Obj]) -> dict[str, int]:
    # Only an extended resource has a domain in its name.
    names = {name for one in containers for name in _requests(one) if "/" in name}
    return {name: _asked(containers, name) for name in sorted(names)}


def _requests(container: Obj) -> dict[str, str]:
    return (container.get("resources") or {}).get("requests") or {}
