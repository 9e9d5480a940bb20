"""Kueue's part in a scenario: what its webhook and its controller do to plain pods, in their order.

As the manager of Kueue 0.19.2 was seen to do (docs/measurements.md has the table). Left out: the
quota, which is the scenario's own story (when it says ``admit`` there is enough), and Workloads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime

from extender.kube.api_errors import ApiError, Conflict, NotFound
from extender.kube.client import KubeClient
from extender.model.errors import ExtenderError
from extender.model.texts import counted
from extender.sandbox.api_status import Obj
from extender.sandbox.pod_recorder import PodRecorder
from extender.sandbox.scenario_objects import ACTOR

MANAGED = "kueue.x-k8s.io/managed"
"""Label and finalizer."""
GATES = ("kueue.x-k8s.io/admission", "kueue.x-k8s.io/topology")
"""Both come with the pod and go with its admission."""
_RETRIABLE = "kueue.x-k8s.io/retriable-in-group"
"""Annotation; "false" on one pod: what failed of its group is not replaced."""
_TERMINATED = ("Succeeded", "Failed")
_PAUSE = 0.2


class NotAsKueueWould(ExtenderError):  # noqa: N818 - reads as what has happened
    """The pods are not in a state in which Kueue does this."""


def managed(pod: Obj) -> Obj:
    """Return a new pod as Kueue's webhook passes it on; one that has a node is admitted already."""
    meta, spec = pod["metadata"], pod["spec"]
    meta = {**meta, "labels": {**meta["labels"], MANAGED: "true"}, "finalizers": [MANAGED]}
    if "nodeName" not in spec:
        spec = {**spec, "schedulingGates": [{"name": gate} for gate in GATES]}
    return {**pod, "metadata": meta, "spec": spec}


class KueueController:
    """Acts on the pods of one namespace; ``path`` is their collection."""

    def __init__(self, client: KubeClient, path: str, recorder: PodRecorder) -> None:
        self._client = client
        self._path = path
        self._recorder = recorder

    async def admit(self, actor: str, count: int | None) -> None:
        """Lift the gates of ``count`` of the actor's pods (default: of all), one after another."""
        gated = [pod for pod in await self._pods(actor) if pod["spec"].get("schedulingGates")]
        wanted = len(gated) if count is None else count
        if not 0 < wanted <= len(gated):
            gates = counted(len(gated), "gated pod")
            raise NotAsKueueWould(f"{actor} has {gates}, to admit {wanted or 1}")
        for pod in gated[:wanted]:
            left = [each for each in pod["spec"]["schedulingGates"] if each["name"] not in GATES]
            await self._change(pod, {"spec": {"schedulingGates": left or None}})

    async def preempt(self, actor: str, timeout: float) -> None:
        """Mark and delete each pod that neither waits at its gate nor has ended.

        Ends when none runs any more, within their grace and ``timeout`` seconds: only then does
        Kueue give the quota away. The finalizer stays on a group whose pods are to be replaced.
        """
        self._recorder.ours.add(actor)
        grace = 0
        for pod in await self._pods(actor):
            ended = pod["status"].get("phase") in _TERMINATED
            if ended or pod["spec"].get("schedulingGates"):
                continue
            grace = max(grace, pod["spec"].get("terminationGracePeriodSeconds") or 0)
            await self._end(pod)

        def inactive() -> bool:
            return all(p.finished for p in self._recorder.of(actor) if p.node)

        if not await self._recorder.until(inactive, grace + timeout):
            raise NotAsKueueWould(f"the pods of {actor} do not end")

    async def finish_groups(self, sizes: Mapping[str, int]) -> None:
        """Take the finalizers off groups that are finished, until cancelled; actor -> pods.

        A group is finished once all its pods have ended, if all of them ended well or one is not
        to be replaced. One of another kind keeps its finalizers.
        """
        looked_at: set[str] = set()

        def ended() -> list[str]:
            of = self._recorder.of
            return [
                actor
                for actor in sizes
                if all(pod.finished for pod in of(actor))
                and not {pod.uid for pod in of(actor)} <= looked_at
            ]

        while True:
            await self._recorder.until(lambda: bool(ended()), _PAUSE)
            for actor in ended():
                uids = {pod.uid for pod in self._recorder.of(actor)}
                try:
                    if _finished(await self._pods(actor), sizes[actor]):
                        await self.finalize(actor)
                except (ApiError, NotAsKueueWould):
                    await asyncio.sleep(_PAUSE)
                else:
                    looked_at |= uids

    async def finalize(self, actor: str) -> None:
        """Take the finalizer off all pods of the actor: the group is over."""
        for pod in await self._pods(actor):
            if MANAGED in pod["metadata"].get("finalizers") or ():
                await self._change(pod, {"metadata": {"finalizers": None}})

    async def _end(self, pod: Obj) -> None:
        condition = {
            "type": "TerminationTarget",
            "status": "True",
            "reason": "WorkloadEvictedDueToPreempted",
            "message": "Preempted to accommodate a workload of higher priority",
            "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        path = f"{self._path}/{pod['metadata']['name']}"
        uid = pod["metadata"]["uid"]
        change = {"metadata": {"uid": uid}, "status": {"conditions": [condition]}}
        try:
            await self._client.patch(f"{path}/status", change, kind="strategic")
            await self._client.delete(path, uid=uid)
        except (NotFound, Conflict):
            return

    async def _pods(self, actor: str) -> list[Obj]:
        found = await self._client.get(self._path)
        return [
            pod for pod in found["items"] if pod["metadata"].get("labels", {}).get(ACTOR) == actor
        ]

    async def _change(self, pod: Obj, change: Obj) -> None:
        """Merge a change into this very pod; one that has gone needs none."""
        path, uid = f"{self._path}/{pod['metadata']['name']}", pod["metadata"]["uid"]
        meta = {**change.get("metadata", {}), "uid": uid}
        try:
            await self._client.patch(path, {**change, "metadata": meta})
        except (NotFound, Conflict):
            return
        except ApiError as error:
            raise NotAsKueueWould(str(error)) from error


def _finished(pods: list[Obj], size: int) -> bool:
    """Whether Kueue takes a group of ``size`` pods for finished."""
    phases = [pod["status"].get("phase") for pod in pods]
    if phases.count("Succeeded") >= size:
        return True
    notes = [pod["metadata"].get("annotations", {}) for pod in pods]
    replaced = all(each.get(_RETRIABLE) != "false" for each in notes)
    return not replaced and all(phase in _TERMINATED for phase in phases)
