"""The Lease object: reading, writing and following the one that replicas share."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from typing import Any, Protocol
from urllib.parse import quote

import structlog

from extender.gang.runtime.clocks import LEASE_CLOCKS, Clocks
from extender.kube.api import KubeApi
from extender.kube.api_errors import ApiError, NotFound
from extender.kube.client import json_of


class Leadership(Protocol):
    """Who may act: of several replicas the one that holds the lease, and only while it surely does.

    Source of the semantics: client-go's tools/leaderelection. A holder that cannot renew must
    be still before anybody else can hold the lease, so ``acts`` is asked right before every
    request that destroys, and turns False by the clock alone.
    """

    @property
    def acts(self) -> bool:
        """Whether this process may evict and write records at this moment."""

    @property
    def epoch(self) -> int:
        """Grows each time the lease changes hands; written into every plan record."""


class Alone:
    """The only replica: always acts."""

    acts = True
    epoch = 0
    identity = ""

    def describe(self) -> str:
        """Return that there is nobody else."""
        return "this is the only replica"

    def note_asked(self) -> None:
        """Nobody has to be told."""


class LeaderCandidate(Leadership, Protocol):
    """What serving needs besides: whom to name, and whom to tell that it was asked."""

    @property
    def identity(self) -> str:
        """Who we are."""

    def describe(self) -> str:
        """Return, for a person, who leads."""

    def note_asked(self) -> None:
        """Note that kube-scheduler has asked this replica."""


log = structlog.get_logger("leadership")

LABEL = "podgroup-extender.io/leader"
RETRY_SECONDS = 1.0


class LeaderLabel:
    """Labels the leader's pod, and nobody else's, so that a Service selects the one replica that
    answers.

    Readiness cannot say it: a standby that is never ready would block roll-outs and disruption
    budgets, which count ready pods.
    """

    def __init__(
        self,
        api: KubeApi,
        namespace: str,
        pod: str,
        clocks: Clocks = LEASE_CLOCKS,
    ) -> None:
        self._api = api
        self._pods = f"/api/v1/namespaces/{quote(namespace)}/pods"
        self._pod = pod
        self._clocks = clocks

    async def claim(self) -> None:
        """Take the label from all others and put it on our pod; tries until it works."""
        while True:
            try:
                found = await self._api.get(self._pods, params={"labelSelector": f"{LABEL}=true"})
                for item in found.get("items", []):
                    if item["metadata"]["name"] != self._pod:
                        await self._remove(item["metadata"]["name"])
                await self._write(self._pod, "true")
                return
            except ApiError as error:
                log.warning("the leader's label cannot be written", error=str(error))
                await self._clocks.sleep(RETRY_SECONDS)

    async def _remove(self, pod: str) -> None:
        try:
            await self._write(pod, None)
        except NotFound:
            return  # Its pod is gone, and the label with it.

    async def _write(self, pod: str, value: str | None) -> None:
        patch = {"metadata": {"labels": {LABEL: value}}}
        await self._api.patch(f"{self._pods}/{quote(pod)}", patch)


ASKED = "podgroup-extender.io/asked-replica"
"""Annotation: the replica that kube-scheduler asks although another one holds the lease."""
WATCH_SECONDS = 300

Object = dict[str, Any]


def micro_time(seconds: float) -> str:
    """Return a metav1.MicroTime."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def holder_of(lease: Object) -> str:
    """Return who holds the lease, "" for nobody."""
    return str(spec_of(lease).get("holderIdentity") or "")


def transitions_of(lease: Object) -> int:
    """Return how often the lease has changed hands."""
    return int(spec_of(lease).get("leaseTransitions") or 0)


def seconds_of(lease: Object) -> float:
    """Return how long the lease holds after a renewal."""
    return float(spec_of(lease).get("leaseDurationSeconds") or 0)


def asked_of(lease: Object) -> str:
    """Return the replica that asks for a hand-over, "" for none."""
    return str((lease.get("metadata", {}).get("annotations") or {}).get(ASKED) or "")


def spec_of(lease: Object) -> Object:
    """Return the part that elections are about; a change of it proves that its holder lives."""
    spec = lease.get("spec")
    return spec if isinstance(spec, dict) else {}


def with_asked(lease: Object, identity: str) -> Object:
    """Return the lease with, or for "" without, a request for a hand-over."""
    meta = dict(lease.get("metadata") or {})
    annotations = {k: v for k, v in (meta.get("annotations") or {}).items() if k != ASKED}
    if identity:
        annotations[ASKED] = identity
    meta["annotations"] = annotations
    return {**lease, "metadata": meta}


def with_spec(
    lease: Object, holder: str, seconds: float, wall: float, transitions: int, acquired: str = ""
) -> Object:
    """Return the lease as a holder writes it; ``acquired`` "" means now."""
    now = micro_time(wall)
    spec = {
        "holderIdentity": holder,
        "leaseDurationSeconds": math.ceil(seconds),
        "acquireTime": acquired or now,
        "renewTime": now,
        "leaseTransitions": transitions,
    }
    return {**lease, "spec": spec}


class LeaseStore:
    """One named Lease in the API. Every method raises ApiError and retries nothing."""

    def __init__(self, api: KubeApi, namespace: str, name: str, timeout: float) -> None:
        self._api = api
        self._timeout = timeout
        self._base = f"/apis/coordination.k8s.io/v1/namespaces/{quote(namespace)}/leases"
        self._path = f"{self._base}/{quote(name)}"
        self._name = name
        self.named = f"{namespace}/{name}"

    def fresh(self) -> Object:
        """Return a lease that does not exist yet."""
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._name},
        }

    async def get(self) -> Object:
        """Return the lease as it is."""
        return await self._send("GET", self._path, None)

    async def create(self, lease: Object) -> Object:
        """Create the lease; Conflict when it exists."""
        return await self._send("POST", self._base, lease)

    async def update(self, lease: Object) -> Object:
        """Write the lease; Conflict when it has changed since ``lease`` was read."""
        return await self._send("PUT", self._path, lease)

    async def changes(self) -> AsyncGenerator[Object, None]:
        """Yield the lease now and after each change, for some minutes."""
        params: dict[str, str | int | bool] = {
            "watch": True,
            "fieldSelector": f"metadata.name={self._name}",
            "timeoutSeconds": WATCH_SECONDS,
        }
        async for lines in self._api.batches(self._base, params, idle_seconds=WATCH_SECONDS + 30):
            for line in lines:
                event = json_of(line)
                if event.get("type") in ("ADDED", "MODIFIED") and isinstance(
                    event.get("object"), dict
                ):
                    yield event["object"]

    async def _send(self, method: str, path: str, body: Object | None) -> Object:
        return json_of(await self._api.request(method, path, body=body, timeout=self._timeout))
