"""Plan records: what a restarted extender must know, kept in the API.

One ConfigMap a plan, written before the first eviction and deleted when the
plan ends, so that kill -9 at any instant leaves either nothing done or a record
to go on from. Progress is not written: which victims are gone and which members
are bound is read from the cluster.
"""

from __future__ import annotations

import hashlib
from urllib.parse import quote

import msgspec
from msgspec import Struct

from extender.kube.api import KubeApi
from extender.kube.errors import Conflict, NotFound
from extender.model.objects import GangKey
from extender.model.plan import Plan

LABEL = "podgroup-extender.io/plan"


class Record(Struct, frozen=True, kw_only=True):
    """The stored form of a plan. ``format`` changes when a reader could misunderstand it."""

    format: int = 1
    plan: Plan
    made: float
    """Wall clock."""


def record_name(key: GangKey) -> str:
    """Return the ConfigMap name of a gang's plan; the same gang has the same name."""
    return "podgroup-plan-" + hashlib.sha256(str(key).encode()).hexdigest()[:24]


class Records:
    """Reads and writes plan records in one namespace."""

    def __init__(self, client: KubeApi, namespace: str) -> None:
        self._client = client
        self._base = f"/api/v1/namespaces/{quote(namespace)}/configmaps"
        self.namespace = namespace

    async def save(self, plan: Plan, made: float) -> None:
        """Write the plan's record, replacing an older one. Raises ApiError."""
        record = Record(plan=plan, made=made)
        name = record_name(plan.gang)
        document = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": name,
                "labels": {LABEL: "in-flight"},
                "annotations": {"podgroup-extender.io/gang": str(plan.gang)},
            },
            "data": {"plan": msgspec.json.encode(record).decode()},
        }
        try:
            await self._client.create(self._base, document)
        except Conflict:
            await self._client.replace(f"{self._base}/{name}", document)

    async def drop(self, key: GangKey) -> None:
        """Delete the gang's record; one that is gone already is fine. Raises ApiError."""
        try:
            await self._client.delete(f"{self._base}/{record_name(key)}")
        except NotFound:
            return

    async def load(self) -> tuple[list[Record], list[str]]:
        """Return the readable records by gang, and the names of unreadable ones."""
        answer = await self._client.get(self._base, params={"labelSelector": LABEL})
        records: list[Record] = []
        broken: list[str] = []
        for item in answer.get("items", []):
            name = str(item.get("metadata", {}).get("name", ""))
            try:
                record = msgspec.json.decode(item.get("data", {}).get("plan", ""), type=Record)
            except (msgspec.DecodeError, TypeError):
                broken.append(name)
                continue
            if record.format == 1:
                records.append(record)
            else:
                broken.append(name)
        records.sort(key=lambda record: record.plan.gang)
        return records, broken
