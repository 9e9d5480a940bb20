"""Kubelets: nodes become Ready, bound pods run, terminating pods go when their grace is over."""

from __future__ import annotations

import asyncio

from extender.sandbox.api_status import Obj, StatusError
from extender.sandbox.resources import NODES, PODS
from extender.sandbox.rest import FINISHED, Api
from extender.sandbox.storage import DELETED


class Kubelet:
    """All nodes' kubelets in one task. A pod's grace period is counted from when it is seen."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._dying: dict[str, asyncio.TimerHandle] = {}

    async def run(self) -> None:
        """Work until cancelled."""
        changes = self._api.storage.subscribe(NODES.key, PODS.key)
        try:
            for obj in self._api.storage.all(NODES.key) + self._api.storage.all(PODS.key):
                self._look(obj)
            while True:
                change = await changes.next()
                if change.type != DELETED:
                    self._look(change.new)
        finally:
            changes.close()
            for timer in self._dying.values():
                timer.cancel()

    def _look(self, obj: Obj) -> None:
        try:
            if obj["kind"] == "Node":
                self._register(obj)
            elif obj["spec"].get("nodeName"):
                self._run_or_end(obj)
        except StatusError:
            pass  # The object has moved on; its next change is on its way to us.

    def _register(self, node: Obj) -> None:
        status = node.get("status") or {}
        ready = any(c["type"] == "Ready" for c in status.get("conditions") or ())
        if not ready:
            condition = {"type": "Ready", "status": "True", "lastTransitionTime": self._api.now()}
            capacity = status.get("capacity") or status.get("allocatable") or {}
            self._api.set_status(NODES, node, {"conditions": [condition], "capacity": capacity})

    def _run_or_end(self, pod: Obj) -> None:
        meta, phase = pod["metadata"], pod["status"].get("phase")
        if "deletionTimestamp" in meta:
            self._schedule_end(pod)
        elif phase == "Pending":
            now = self._api.now()
            kinds = ("Initialized", "ContainersReady", "Ready")
            ready = [{"type": k, "status": "True", "lastTransitionTime": now} for k in kinds]
            running = {"phase": "Running", "startTime": now, "conditions": ready}
            self._api.set_status(PODS, pod, running)

    def _schedule_end(self, pod: Obj) -> None:
        uid = pod["metadata"]["uid"]
        held = self._dying.pop(uid, None)
        if held is not None:
            held.cancel()
        grace = pod["metadata"].get("deletionGracePeriodSeconds", 0)
        loop = asyncio.get_running_loop()
        if held is not None and grace:
            # Seen before: the clock that runs is kept unless the period was shortened.
            at = min(held.when(), loop.time() + grace)
        else:
            at = loop.time() + grace
        self._dying[uid] = loop.call_at(at, self._end, pod)

    def _end(self, pod: Obj) -> None:
        meta = pod["metadata"]
        self._dying.pop(meta["uid"], None)
        try:
            if meta.get("finalizers") and pod["status"].get("phase") not in FINISHED:
                self._api.set_status(PODS, pod, {"phase": "Failed"})
            self._api.delete(PODS, meta["namespace"], meta["name"], uid=meta["uid"], grace=0)
        except StatusError:
            pass  # Somebody else has ended it.
