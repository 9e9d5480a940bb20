"""Tells the API what a plan means for its pods: nominations, wake-ups, events.

Nothing here is needed for correctness of the seats (those are held in the
filter verb); every failure is reported to the caller's log and passed over.
"""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import Any
from urllib.parse import quote

from extender.gang.runtime.clocks import Clocks
from extender.gang.tell.listener import Listener
from extender.kube.api import KubeApi
from extender.kube.api_errors import ApiError, Conflict, Invalid, NotFound
from extender.kube.gate import hint
from extender.model.objects import Pod
from extender.model.texts import rfc3339

SEAT_ANNOTATION = "podgroup-extender.io/seat"
WAKE_ANNOTATION = "podgroup-extender.io/woken"
COMPONENT = "podgroup-extender"


class EventType(StrEnum):
    """Kubernetes' own, of an Event."""

    NORMAL = "Normal"
    WARNING = "Warning"


class Notifier:
    """Best-effort writes. ``listener`` hears of every one that did not work."""

    def __init__(self, client: KubeApi, listener: Listener, clocks: Clocks | None = None) -> None:
        self._client = client
        self._listener = listener
        self._clocks = clocks or Clocks()

    async def nominate(self, pod: Pod, node: str) -> bool:
        """Write status.nominatedNodeName ("" clears it), a hint to autoscalers.

        kube-scheduler tries the nominated node first and counts the pod there
        against pods of lower or equal priority. Returns whether it is done (or the pod gone).
        """
        return await self._nominate(pod, node, gone=True)

    async def end_nomination(self, pod: Pod, node: str) -> bool:
        """Have a nomination of the pod end: the one it has, or else one to ``node`` made for that.

        kube-scheduler takes that for a pod deleted from the node. Returns whether it is done; of a
        pod that is gone nothing ends.
        """
        nominated = pod.nominated or await self._nominate(pod, node, gone=False)
        return await self._nominate(pod, "", gone=False) and bool(nominated)

    async def _nominate(self, pod: Pod, node: str, *, gone: bool) -> bool:
        body = {
            "metadata": {"uid": pod.uid},
            "status": {"nominatedNodeName": node or None},
        }
        path = f"{_pod_path(pod)}/status"
        return await self._try(f"nominate {pod.key}", "patch", path, body, gone=gone)

    async def wake(self, pod: Pod, node: str, moment: float) -> bool:
        """Touch a waiting pod: an update of the pod itself makes kube-scheduler retry it.

        Returns whether there is nothing left to do: it is done, or the pod gone, or so that it can
        be patched by nobody: whoever mends it changes it, and that has kube-scheduler try it.
        """
        annotations = {WAKE_ANNOTATION: f"{moment:.3f}"}
        if node:
            annotations[SEAT_ANNOTATION] = node
        body = {"metadata": {"uid": pod.uid, "annotations": annotations}}
        return await self._try(f"wake {pod.key}", "patch", _pod_path(pod), body, lasting=Invalid)

    async def event(
        self,
        pod_uid: str,
        namespace: str,
        name: str,
        reason: str,
        note: str,
        kind: EventType = EventType.NORMAL,
        about: str = "Pod",
        api_version: str = "v1",
    ) -> None:
        """Record a core/v1 Event on an object of kind ``about`` of ``api_version``.

        Its name repeats for the same reason and note.
        """
        now = self._clocks.wall()
        digest = hashlib.sha256(f"{pod_uid}{reason}{note}".encode()).hexdigest()[:12]
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{name[:200]}.{digest}{int(now):x}"},
            "involvedObject": {
                "apiVersion": api_version,
                "kind": about,
                "namespace": namespace,
                "name": name,
                "uid": pod_uid,
            },
            "reason": reason,
            "message": note[:1024],
            "type": kind,
            "firstTimestamp": rfc3339(now),
            "lastTimestamp": rfc3339(now),
            "count": 1,
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "reportingInstance": COMPONENT,
        }
        path = f"/api/v1/namespaces/{quote(namespace)}/events"
        await self._try(f"event {reason} on {namespace}/{name}", "create", path, body)

    async def _try(
        self,
        what: str,
        verb: str,
        path: str,
        body: dict[str, Any],
        *,
        lasting: type[ApiError] | None = None,
        gone: bool = True,
    ) -> bool:
        """``gone``: what is returned where the pod is gone."""
        try:
            with hint():
                if verb == "patch":
                    await self._client.patch(path, body, kind="merge")
                else:
                    await self._client.create(path, body)
        except NotFound:
            return gone
        except Conflict:
            # An event that is there already; or a pod made anew under the name, which the watch
            # shows in a moment, or one that others write too often, or a webhook's answer.
            return verb == "create"
        except ApiError as error:
            self._listener.failed(what, error)
            return lasting is not None and isinstance(error, lasting)
        return True


def _pod_path(pod: Pod) -> str:
    return f"/api/v1/namespaces/{quote(pod.namespace)}/pods/{quote(pod.name)}"
