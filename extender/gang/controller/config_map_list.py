"""One list that outlives the process, as JSON in a ConfigMap of its own beside the plan records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from extender.gang.controller.evictor import answered
from extender.kube.api import KubeApi
from extender.kube.api_errors import NotFound

WRITE_SECONDS = 5.0


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
