"""A toy API server that takes bindings as fast as it can, for bench.serving.bind_bench.

Pods (those of bench.serving.cache_server, waiting for a node) and nodes as lists and watches;
each binding is answered as kube-apiserver does, and seen in the watch of the pods. Nothing is
decided here.
"""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

from aiohttp import web

from bench.serving.cache_server import encode, pod, surroundings

BINDING = re.compile(r"/api/v1/namespaces/[^/]+/pods/([^/]+)/binding")
DONE = encode({"kind": "Status", "apiVersion": "v1", "status": "Success", "code": 201})
NODES = "/api/v1/nodes"
PODS = "/api/v1/pods"


def waiting(index: int) -> dict[str, Any]:
    """Return one pod without a node."""
    made = pod(index, 1, 1000 + index)
    del made["spec"]["nodeName"]
    made["metadata"]["labels"] = {"app": "bench"}
    made["status"] = {"phase": "Pending"}
    return made


class BindServer:
    """Serves for the length of a block; ``bound`` counts the bindings taken."""

    def __init__(self, nodes: int, pods: int) -> None:
        self.pods = {each["metadata"]["name"]: each for each in map(waiting, range(pods))}
        self._version = 2000 + pods
        self._lists = surroundings(nodes)
        self._events: list[asyncio.Queue[bytes]] = []
        self.bound = 0
        self.url = ""

    async def __aenter__(self) -> BindServer:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, backlog=1024).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        match = BINDING.fullmatch(request.path) if request.method == "POST" else None
        if match is not None:
            return self._bind(match[1], json.loads(await request.read()))
        if request.path == "/version":
            return web.json_response({"gitVersion": "v1.37.0"})
        if request.path == PODS:
            items = [encode(each) for each in self.pods.values()]
        elif request.path in self._lists:
            items = self._lists[request.path]
        else:
            return web.json_response({"kind": "Status", "code": 404}, status=404)
        if request.query.get("watch") == "true":
            return await self._watch(request, items)
        meta = encode({"resourceVersion": str(self._version)})
        body = b'{"metadata":' + meta + b',"items":[' + b",".join(items) + b"]}"
        return web.Response(body=body, content_type="application/json")

    def _bind(self, name: str, binding: dict[str, Any]) -> web.Response:
        found = self.pods.get(name)
        uid = binding["metadata"].get("uid")
        if found is None or found["spec"].get("nodeName") or uid != found["metadata"]["uid"]:
            return web.json_response({"kind": "Status", "code": 409}, status=409)
        self._version += 1
        found["spec"]["nodeName"] = binding["target"]["name"]
        found["metadata"]["resourceVersion"] = str(self._version)
        self.bound += 1
        event = b'{"type":"MODIFIED","object":' + encode(found) + b"}\n"
        for queue in self._events:
            queue.put_nowait(event)
        return web.Response(body=DONE, status=201, content_type="application/json")

    async def _watch(self, request: web.Request, items: list[bytes]) -> web.StreamResponse:
        response = web.StreamResponse()
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        if request.path == PODS:
            self._events.append(queue)
        await response.prepare(request)
        if request.query.get("sendInitialEvents") == "true":
            for start in range(0, len(items), 100):
                part = items[start : start + 100]
                await response.write(
                    b"".join(b'{"type":"ADDED","object":' + i + b"}\n" for i in part)
                )
            mark = {
                "metadata": {
                    "resourceVersion": str(self._version),
                    "annotations": {"k8s.io/initial-events-end": "true"},
                }
            }
            await response.write(encode({"type": "BOOKMARK", "object": mark}) + b"\n")
        while True:
            lines = [await queue.get()]
            while not queue.empty():
                lines.append(queue.get_nowait())
            await response.write(b"".join(lines))
