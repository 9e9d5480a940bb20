"""What the rooms above need of a connection to the API server.

``KubeClient`` is the one that talks; the simulation has another without sockets.
Every method raises a subclass of kube.api_errors.ApiError and retries nothing.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any, Literal, Protocol

PatchKind = Literal["merge", "strategic", "json", "apply"]
Params = Mapping[str, str | int | bool]


class KubeApi(Protocol):
    """One API server with one set of credentials; see KubeClient for each method."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: Any = None,
        content_type: str = "application/json",
        timeout: float = 30.0,
    ) -> bytes:
        """Send one request and return the whole answer's body."""

    def batches(
        self,
        path: str,
        params: Params | None = None,
        *,
        idle_seconds: float | None = None,
        connect_seconds: float = 10.0,
    ) -> AsyncGenerator[list[bytes], None]:
        """Yield the lines of a streamed answer, as many at a time as have arrived."""

    async def get(self, path: str, *, params: Params | None = None) -> dict[str, Any]:
        """Return the object (or list) at ``path``."""

    async def create(
        self, path: str, body: Mapping[str, Any], *, dry_run: bool = False
    ) -> dict[str, Any]:
        """POST ``body`` to the collection at ``path``; Conflict when the name is taken."""

    async def replace(
        self, path: str, body: Mapping[str, Any], *, dry_run: bool = False
    ) -> dict[str, Any]:
        """PUT ``body``; Conflict when its metadata.resourceVersion is not the present one."""

    async def patch(
        self,
        path: str,
        patch: Any,
        kind: PatchKind = "merge",
        *,
        params: Params | None = None,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Patch the object at ``path``."""

    async def delete(
        self,
        path: str,
        *,
        uid: str | None = None,
        version: str | None = None,
        grace: int | None = None,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Delete the object at ``path``, with preconditions on uid and resourceVersion."""

    async def evict(
        self,
        namespace: str,
        name: str,
        *,
        uid: str,
        grace: int | None = None,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Ask the Eviction API to delete a pod within its disruption budgets."""
