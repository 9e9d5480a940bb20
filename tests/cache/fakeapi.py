"""A scripted API server on loopback: it keeps objects, and misbehaves on demand.

It knows lists (paged), watches (bookmarks, WatchList) and discovery; every request
first goes through ``script``, which may answer in its place.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

Json = dict[str, Any]
Scripted = Callable[[web.Request], Awaitable[web.StreamResponse | None]]

COLLECTIONS = {
    "/api/v1/pods": "Pod",
    "/api/v1/nodes": "Node",
    "/api/v1/namespaces": "Namespace",
    "/apis/policy/v1/poddisruptionbudgets": "PodDisruptionBudget",
    "/apis/scheduling.k8s.io/v1/priorityclasses": "PriorityClass",
    "/apis/batch/v1/jobs": "Job",
}
GROUP_VERSIONS = (
    "/apis/scheduling.volcano.sh/v1beta1",
    "/apis/scheduling.k8s.io/v1beta1",
    "/apis/scheduling.k8s.io/v1alpha3",
    "/apis/scheduling.k8s.io/v1alpha2",
    "/apis/scheduling.x-k8s.io/v1alpha1",
)


def status(code: int, reason: str, message: str = "scripted", **details: Any) -> Json:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
        "details": details,
    }


def refuse(code: int, reason: str, retry_after: int | None = None) -> web.Response:
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return web.json_response(status(code, reason), status=code, headers=headers)


class Watch:
    """One open watch."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[bytes | None] = asyncio.Queue()

    def send(self, document: Any) -> None:
        self.queue.put_nowait(json.dumps(document, separators=(",", ":")).encode() + b"\n")

    def raw(self, data: bytes) -> None:
        self.queue.put_nowait(data)

    def end(self) -> None:
        self.queue.put_nowait(None)


class FakeApi:
    """See the module."""

    def __init__(self) -> None:
        self.version = 100
        self.objects: dict[str, dict[str, Json]] = {path: {} for path in COLLECTIONS}
        self.groups: dict[str, bool] = {}
        """Served PodGroup group versions."""
        self.watches: dict[str, list[Watch]] = {}
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.headers: list[dict[str, str]] = []
        self.watch_list = True
        self.script: Scripted | None = None
        self.port = 0
        self._runner: web.AppRunner | None = None

    # -- life -----------------------------------------------------------------------------

    async def start(self) -> None:
        app = web.Application()
        app.router.add_get("/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, shutdown_timeout=0.01)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        self.end_watches()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    # -- objects --------------------------------------------------------------------------

    def put(self, path: str, document: Json) -> Json:
        """Add or change an object and tell the watches."""
        known = self.objects.setdefault(path, {})
        key = self._stamp(document)
        kind = "MODIFIED" if key in known else "ADDED"
        known[key] = document
        self.tell(path, {"type": kind, "object": document})
        return document

    def put_quietly(self, path: str, document: Json) -> None:
        """Add or change an object that no watch is told of."""
        self.objects.setdefault(path, {})[self._stamp(document)] = document

    def remove(self, path: str, namespace: str, name: str, *, quietly: bool = False) -> None:
        self.version += 1
        document = self.objects[path].pop(f"{namespace}/{name}")
        last = json.loads(json.dumps(document))
        last["metadata"]["resourceVersion"] = str(self.version)
        if not quietly:
            self.tell(path, {"type": "DELETED", "object": last})

    def tell(self, path: str, event: Json) -> None:
        for watch in self.watches.get(path, []):
            watch.send(event)

    def end_watches(self, path: str | None = None) -> None:
        for at, watches in self.watches.items():
            if path is None or at == path:
                for watch in watches:
                    watch.end()

    def bookmark(self, path: str) -> None:
        self.tell(path, self._bookmark(path))

    def count(self, path: str, **params: str) -> int:
        """Return how many requests for ``path`` had these parameters."""
        return sum(
            1
            for at, query in self.requests
            if at == path and all(query.get(key) == value for key, value in params.items())
        )

    def _stamp(self, document: Json) -> str:
        self.version += 1
        meta = document["metadata"]
        meta["resourceVersion"] = str(self.version)
        return f"{meta.get('namespace', '')}/{meta['name']}"

    def _bookmark(self, path: str, **annotations: str) -> Json:
        meta: Json = {"resourceVersion": str(self.version)}
        if annotations:
            meta["annotations"] = {"k8s.io/initial-events-end": "true"}
        return {"type": "BOOKMARK", "object": {"kind": self._kind(path), "metadata": meta}}

    def _kind(self, path: str) -> str:
        return COLLECTIONS.get(path, "PodGroup")

    # -- requests -------------------------------------------------------------------------

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        query = dict(request.query)
        self.requests.append((request.path, query))
        self.headers.append(dict(request.headers))
        if self.script is not None:
            scripted = await self.script(request)
            if scripted is not None:
                return scripted
        path = request.path
        if path in GROUP_VERSIONS and self.groups.get(path):
            verbs = ["get", "list", "watch"]
            return web.json_response({"resources": [{"name": "podgroups", "verbs": verbs}]})
        group = path.removesuffix("/podgroups")
        if path not in COLLECTIONS and not (group != path and self.groups.get(group)):
            return refuse(404, "NotFound")
        if query.get("watch") == "true":
            return await self._watch(request, query)
        return self._list(path, query)

    def _list(self, path: str, query: dict[str, str]) -> web.Response:
        items = list(self.objects.get(path, {}).values())
        start = int(query.get("continue", "0") or 0)
        limit = int(query.get("limit", "0") or 0)
        meta: Json = {"resourceVersion": str(self.version)}
        if limit and start + limit < len(items):
            meta["continue"] = str(start + limit)
            items = items[start : start + limit]
        else:
            items = items[start:]
        kind = f"{self._kind(path)}List"
        return web.json_response({"kind": kind, "metadata": meta, "items": items})

    async def _watch(self, request: web.Request, query: dict[str, str]) -> web.StreamResponse:
        path = request.path
        initial = query.get("sendInitialEvents") == "true"
        if initial and not self.watch_list:
            return refuse(422, "Invalid")
        response = web.StreamResponse()
        watch = Watch()
        if initial:
            for document in self.objects.get(path, {}).values():
                watch.send({"type": "ADDED", "object": document})
            watch.send(self._bookmark(path, end="true"))
        else:
            # What happened since the version asked for, as far as it still exists.
            since = int(query.get("resourceVersion", "0"))
            for document in self.objects.get(path, {}).values():
                if int(document["metadata"]["resourceVersion"]) > since:
                    watch.send({"type": "ADDED", "object": document})
        self.watches.setdefault(path, []).append(watch)
        try:
            await response.prepare(request)
            while (data := await watch.queue.get()) is not None:
                await response.write(data)
        finally:
            self.watches[path].remove(watch)
        return response


# -- objects -------------------------------------------------------------------------------


def pod(
    name: str,
    *,
    namespace: str = "default",
    uid: str = "",
    node: str = "",
    cpu: str = "1",
    labels: dict[str, str] | None = None,
    **status_fields: Any,
) -> Json:
    spec: Json = {
        "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}],
        "schedulerName": "default-scheduler",
    }
    if node:
        spec["nodeName"] = node
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid or f"uid-{namespace}-{name}",
            "creationTimestamp": "2026-11-20T10:00:00Z",
            "labels": labels or {},
        },
        "spec": spec,
        "status": {"phase": "Running" if node else "Pending", **status_fields},
    }


def node(name: str, cpu: str = "4", **labels: str) -> Json:
    return {
        "metadata": {"name": name, "uid": f"uid-node-{name}", "labels": labels},
        "spec": {},
        "status": {"allocatable": {"cpu": cpu, "pods": "110"}},
    }


def named(name: str, **fields: Any) -> Json:
    return {"metadata": {"name": name, "uid": f"uid-{name}"}, **fields}
