"""Lists that outlive the process: each is JSON in a ConfigMap of its own beside the plan records,
and is brought there behind what happens, again until it is there."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import structlog

from extender.gang.leader_election.lease import Leadership
from extender.gang.runtime.background import Background
from extender.kube.api import KubeApi
from extender.kube.api_errors import ApiError, Conflict, NotFound
from extender.kube.gate import answered

log = structlog.get_logger("gang")

WRITE_SECONDS = 5.0
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0


class ConfigMapList:
    """The entry ``key`` of the ConfigMap ``name``. Raises ApiError."""

    def __init__(self, client: KubeApi, namespace: str, name: str, key: str) -> None:
        self._client = client
        self._base = f"/api/v1/namespaces/{quote(namespace)}/configmaps"
        self._name = name
        self._key = key

    async def load(self) -> tuple[str, Mapping[str, str]] | None:
        """Return the JSON and the annotations; None where there is no such ConfigMap."""
        try:
            found = await answered(self._client.get(f"{self._base}/{self._name}"))
        except NotFound:
            return None
        text = (found.get("data") or {}).get(self._key, "[]")
        return text, found["metadata"].get("annotations") or {}

    async def save(self, text: str, annotations: Mapping[str, str] | None = None) -> None:
        """Replace what is written. Raises Conflict where somebody else has written meanwhile."""
        metadata: dict[str, Any] = {"name": self._name}
        if annotations is not None:
            metadata["annotations"] = dict(annotations)
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "data": {self._key: text},
        }
        path = f"{self._base}/{self._name}"
        try:
            there = await answered(self._client.get(path), WRITE_SECONDS)
        except NotFound:
            await answered(self._client.create(self._base, body), WRITE_SECONDS)
            return
        metadata["resourceVersion"] = there["metadata"]["resourceVersion"]
        await answered(self._client.replace(path, body), WRITE_SECONDS)


class WrittenBehind(ABC):
    """What is in memory, and written as it is at that moment: one write at a time, and only while
    this process leads."""

    def __init__(self, leadership: Leadership, background: Background, failed: str) -> None:
        """``failed`` is logged of a write that does."""
        self._leadership = leadership
        self._background = background
        self._failed = failed
        self._dirty = False
        self._busy = False

    @abstractmethod
    async def save(self) -> None:
        """Write what is in memory now. Raises ApiError."""

    def changed(self) -> None:
        """What is in memory differs from what is written."""
        self._dirty = True
        if not self._busy:
            self._busy = True
            self._background.spawn(self._bring_up())

    async def _bring_up(self) -> None:
        pause = FIRST_PAUSE
        try:
            while self._dirty and self._leadership.acts:
                self._dirty = False
                try:
                    await self.save()
                except ApiError as error:
                    self._dirty = True
                    if not isinstance(error, Conflict):
                        log.warning(self._failed, error=str(error))
                    await asyncio.sleep(pause)
                    pause = min(LONGEST_PAUSE, pause * 2)
        finally:
            self._busy = False
