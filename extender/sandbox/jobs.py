"""A tiny Job controller: Indexed Jobs, made whole again when a pod is deleted or fails.

Names, labels and annotations as pkg/controller/job gives them. Left out: back-off
limits and policies, suspension, the tracking finalizer. A lost pod is made again
after ``recreate_seconds`` (the real controller waits ten seconds and longer).
"""

from __future__ import annotations

import asyncio

from extender.sandbox.api_status import Obj, StatusError
from extender.sandbox.resources import JOBS, PODS
from extender.sandbox.rest import FINISHED, Api
from extender.sandbox.storage import DELETED

INDEX = "batch.kubernetes.io/job-completion-index"
NAME = "batch.kubernetes.io/job-name"
CONTROLLER = "batch.kubernetes.io/controller-uid"


class JobController:
    """Keeps every Job's pods at what it asks for."""

    def __init__(self, api: Api, *, recreate_seconds: float = 0.5) -> None:
        self._api = api
        self._pause = recreate_seconds
        self._not_before: dict[str, float] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}

    async def run(self) -> None:
        """Work until cancelled."""
        changes = self._api.storage.subscribe(JOBS.key, PODS.key)
        try:
            for job in self._api.storage.all(JOBS.key):
                self._sync(job["metadata"]["uid"])
            while True:
                change = await changes.next()
                if change.resource == JOBS.key:
                    if change.type == DELETED:
                        self._collect(change.new)
                    self._sync(change.new["metadata"]["uid"])
                    continue
                owner = _owner(change.new)
                if owner:
                    if change.type == DELETED and change.new["status"].get("phase") not in FINISHED:
                        self._delay(owner)
                    self._sync(owner)
        finally:
            changes.close()
            for timer in self._timers.values():
                timer.cancel()

    def _delay(self, uid: str) -> None:
        loop = asyncio.get_running_loop()
        self._not_before[uid] = loop.time() + self._pause
        held = self._timers.pop(uid, None)
        if held is not None:
            held.cancel()
        self._timers[uid] = loop.call_later(self._pause, self._sync, uid)

    def _pods(self, job: Obj) -> list[Obj]:
        meta = job["metadata"]
        pods = self._api.storage.all(PODS.key, meta["namespace"])
        return [pod for pod in pods if _owner(pod) == meta["uid"]]

    def _sync(self, uid: str) -> None:
        job = next(
            (j for j in self._api.storage.all(JOBS.key) if j["metadata"]["uid"] == uid), None
        )
        if job is None or "deletionTimestamp" in job["metadata"]:
            return
        spec, pods = job["spec"], self._pods(job)
        completions = spec.get("completions") or spec.get("parallelism") or 1
        done = {_index(p) for p in pods if p["status"].get("phase") == "Succeeded"}
        done |= _ranges((job.get("status") or {}).get("completedIndexes", ""))
        alive = [p for p in pods if p["status"].get("phase") not in FINISHED]
        held = {_index(p) for p in alive if "deletionTimestamp" not in p["metadata"]}
        wanted = [i for i in range(completions) if i not in done | held]
        room = min(spec.get("parallelism", 1), completions - len(done)) - len(held)
        if asyncio.get_running_loop().time() >= self._not_before.get(uid, 0.0):
            for index in wanted[: max(0, room)]:
                self._create(job, index)
                held.add(index)
        status: Obj = {
            "active": len(held),
            "succeeded": len(done),
            "failed": sum(p["status"].get("phase") == "Failed" for p in pods),
            "completedIndexes": ",".join(str(i) for i in sorted(done)),
        }
        if len(done) == completions:
            now = self._api.now()
            status["conditions"] = [
                {"type": "Complete", "status": "True", "lastTransitionTime": now}
            ]
        self._api.set_status(JOBS, job, status)

    def _create(self, job: Obj, index: int) -> None:
        meta, template = job["metadata"], job["spec"]["template"]
        given = template.get("metadata") or {}
        labels = {
            **(given.get("labels") or {}),
            NAME: meta["name"],
            "job-name": meta["name"],
            CONTROLLER: meta["uid"],
            "controller-uid": meta["uid"],
            INDEX: str(index),
        }
        owner = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": meta["name"],
            "uid": meta["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        body = {
            "metadata": {
                "generateName": f"{meta['name']}-{index}-",
                "labels": labels,
                "annotations": {**(given.get("annotations") or {}), INDEX: str(index)},
                "ownerReferences": [owner],
            },
            "spec": template["spec"],
        }
        try:
            self._api.create(PODS, meta["namespace"], body)
        except StatusError as error:
            self._api.event(job, reason="FailedCreate", message=error.message, kind="Warning")

    def _collect(self, job: Obj) -> None:
        """Delete what a deleted Job leaves behind, as garbage collection does."""
        for pod in self._pods(job):
            meta = pod["metadata"]
            self._api.delete(PODS, meta["namespace"], meta["name"], uid=meta["uid"])


def _owner(pod: Obj) -> str:
    for owner in pod["metadata"].get("ownerReferences") or ():
        if owner.get("controller") and owner.get("kind") == "Job":
            return str(owner["uid"])
    return ""


def _index(pod: Obj) -> int:
    return int((pod["metadata"].get("annotations") or {}).get(INDEX, "0"))


def _ranges(text: str) -> set[int]:
    return {int(part) for part in text.split(",") if part}
