"""A toy API server for bench.serving.cache_bench, run as its own process.

It serves synthetic pods and nodes as WatchList streams, paged lists and watches, then
a burst of pod updates on demand. Everything is encoded before the first request so
that its own speed gets in the way as little as possible.

Provenance of the objects: shaped like what kube-apiserver 1.36 returns for a pod of a
ReplicaSet (managedFields, projected token volume, probes, five conditions, container
status with allocated resources); 2,000 templates over 50 namespaces, nothing measured
on anybody's cluster.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from typing import Any

from aiohttp import web

from bench.serving.verbs_bench import question

TEMPLATES = 2000
NAMESPACES = 50
CHUNK = 256 * 1024
ZERO = "2026-11-20T10:00:00Z"


def pod(index: int, nodes: int, version: int) -> dict[str, Any]:
    """Return one pod, about 4.3 KB as JSON."""
    template = index % TEMPLATES
    resources = {
        "limits": {"cpu": "2", "memory": "4Gi"},
        "requests": {"cpu": f"{250 * (1 + template % 4)}m", "memory": f"{1 + template % 4}Gi"},
    }
    labels = {"app": f"web-{template}", "pod-template-hash": f"5f4dcc{template}", "tier": "back"}
    if index % 5 == 0:
        # One in five is a gang member, labelled with what only it has.
        labels["jobset.sigs.k8s.io/jobset-name"] = f"train-{index // 40}"
        labels["batch.kubernetes.io/job-completion-index"] = str(index // 5 % 8)
    started = f"2026-11-20T10:{index // 60 % 60:02}:{index % 60:02}Z"
    field: dict[str, Any] = {
        "f:image": {},
        "f:env": {".": {}},
        "f:resources": {".": {}, "f:limits": {}},
    }
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": f"web-{template}-5f4dcc{template}-{index:06x}",
            "generateName": f"web-{template}-5f4dcc{template}-",
            "namespace": f"team-{template % NAMESPACES}",
            "uid": f"{index:08x}-0000-4000-8000-{index:012x}",
            "resourceVersion": str(version),
            "creationTimestamp": started,
            "labels": labels,
            "annotations": {"checksum/config": f"{template:064x}"},
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": f"web-{template}-5f4dcc{template}",
                    "uid": f"{template:08x}-1111-4000-8000-000000000000",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "managedFields": [
                {
                    "manager": manager,
                    "operation": "Update",
                    "apiVersion": "v1",
                    "time": ZERO,
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:metadata": {"f:labels": {".": {}}}, "f:spec": field},
                }
                for manager in ("kube-controller-manager", "kubelet")
            ],
        },
        "spec": {
            "volumes": [
                {
                    "name": "kube-api-access",
                    "projected": {
                        "sources": [
                            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                            {"configMap": {"name": "kube-root-ca.crt"}},
                        ],
                        "defaultMode": 420,
                    },
                }
            ],
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example/app:v1",
                    "args": ["serve", "--verbose"],
                    "ports": [{"containerPort": 8080, "protocol": "TCP"}],
                    "env": [
                        {"name": f"VARIABLE_{i}", "value": "a value of some length, as they are"}
                        for i in range(14)
                    ],
                    "resources": resources,
                    "volumeMounts": [
                        {
                            "name": "kube-api-access",
                            "readOnly": True,
                            "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
                        }
                    ],
                    "livenessProbe": {
                        "httpGet": {"path": "/", "port": 8080, "scheme": "HTTP"},
                        "timeoutSeconds": 1,
                        "periodSeconds": 10,
                    },
                    "terminationMessagePath": "/dev/termination-log",
                    "imagePullPolicy": "IfNotPresent",
                }
            ],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "default",
            "nodeName": f"node-{index % nodes:05}",
            "securityContext": {},
            "schedulerName": "default-scheduler",
            "tolerations": [
                {
                    "key": f"node.kubernetes.io/{what}",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
                for what in ("not-ready", "unreachable")
            ],
            "priority": 0,
            "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": {
            "phase": "Running",
            "conditions": [
                {
                    "type": kind,
                    "status": "True",
                    "lastProbeTime": None,
                    "lastTransitionTime": started,
                }
                for kind in (
                    "PodReadyToStartContainers",
                    "Initialized",
                    "Ready",
                    "ContainersReady",
                    "PodScheduled",
                )
            ],
            "hostIP": "10.0.0.1",
            "podIP": "10.1.0.1",
            "podIPs": [{"ip": "10.1.0.1"}],
            "startTime": started,
            "containerStatuses": [
                {
                    "name": "main",
                    "state": {"running": {"startedAt": started}},
                    "lastState": {},
                    "ready": True,
                    "restartCount": version % 7,
                    "image": "registry.example/app:v1",
                    "imageID": "registry.example/app@sha256:" + "0" * 64,
                    "containerID": f"containerd://{index:064x}",
                    "started": True,
                    "allocatedResources": resources["requests"],
                    "resources": resources,
                }
            ],
            "qosClass": "Burstable",
        },
    }


def node(index: int) -> dict[str, Any]:
    """Return one node."""
    name = f"node-{index:05}"
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "250", "ephemeral-storage": "1Ti"}
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "uid": f"{index:08x}-2222-4000-8000-000000000000",
            "resourceVersion": str(1000 + index),
            "creationTimestamp": ZERO,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/os": "linux",
                "topology.kubernetes.io/zone": f"zone-{index % 3}",
                "node.kubernetes.io/instance-type": "large",
            },
        },
        "spec": {"providerID": f"example:///{name}"},
        "status": {
            "allocatable": amounts,
            "capacity": amounts,
            "images": [
                {"names": [f"registry.example/image-{i}:v1"], "sizeBytes": 10**8} for i in range(40)
            ],
        },
    }


def encode(document: Any) -> bytes:
    """Return compact JSON."""
    return json.dumps(document, separators=(",", ":")).encode()


def surroundings(nodes: int) -> dict[str, list[bytes]]:
    """Return all that is listed beside pods, by path."""
    return {
        "/api/v1/nodes": [encode(node(i)) for i in range(nodes)],
        "/api/v1/namespaces": [
            encode({"metadata": {"name": f"team-{i}", "uid": f"ns-{i}"}}) for i in range(NAMESPACES)
        ],
        "/apis/policy/v1/poddisruptionbudgets": [],
        "/apis/scheduling.k8s.io/v1/priorityclasses": [],
        "/api/v1/namespaces/default/configmaps": [],
    }


class Server:
    """Everything it will ever send, ready to be sent."""

    def __init__(self, nodes: int, pods: int, events: int, *, waiting: bool = False) -> None:
        asked = [encode(json.loads(question(0))["Pod"])] if waiting else []
        self.objects: dict[str, list[bytes]] = {
            "/api/v1/pods": asked + [encode(pod(i, nodes, 1000 + i)) for i in range(pods)],
            **surroundings(nodes),
        }
        self.version = 1000 + pods
        self.burst = []
        for i in range(events):
            self.version += 1
            # Every tenth event moves a pod to another node; the rest are status updates
            # of which half change nothing that matters to scheduling.
            document = pod(i * 7919 % pods, nodes, self.version)
            if i % 10 == 0:
                document["spec"]["nodeName"] = f"node-{i % nodes:05}"
            elif i % 2:
                document["status"]["conditions"][2]["status"] = "False"
                document["status"]["nominatedNodeName"] = f"node-{i % 2:05}"
            self.burst.append(b'{"type":"MODIFIED","object":' + encode(document) + b"}\n")
        self.go = asyncio.Event()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Serve a list, a watch, or the word to start the burst."""
        if request.path == "/go":
            self.go.set()
            return web.Response()
        if request.path == "/version":
            return web.json_response({"gitVersion": "v1.36.3"})
        items = self.objects.get(request.path)
        if items is None:
            return web.json_response({"kind": "Status", "code": 404}, status=404)
        if request.query.get("watch") == "true":
            return await self.watch(request, items)
        start = int(request.query.get("continue", "0"))
        limit = int(request.query.get("limit", str(len(items) or 1)))
        meta = {"resourceVersion": str(self.version)}
        if start + limit < len(items):
            meta["continue"] = str(start + limit)
        body = b'{"metadata":' + encode(meta) + b',"items":['
        body += b",".join(items[start : start + limit]) + b"]}"
        return web.Response(body=body, content_type="application/json")

    async def watch(self, request: web.Request, items: list[bytes]) -> web.StreamResponse:
        """Stream the initial events if asked for, the burst when told, then keep still."""
        response = web.StreamResponse()
        await response.prepare(request)
        if request.query.get("sendInitialEvents") == "true":
            await self.send(response, [b'{"type":"ADDED","object":' + i + b"}\n" for i in items])
            bookmark = {
                "type": "BOOKMARK",
                "object": {
                    "metadata": {
                        "resourceVersion": str(1000 + len(items)),
                        "annotations": {"k8s.io/initial-events-end": "true"},
                    }
                },
            }
            await response.write(encode(bookmark) + b"\n")
        if request.path == "/api/v1/pods":
            await self.go.wait()
            await self.send(response, self.burst)
        await asyncio.sleep(3600)
        return response

    async def send(self, response: web.StreamResponse, lines: list[bytes]) -> None:
        """Write lines in pieces of some hundred kilobytes."""
        piece: list[bytes] = []
        size = 0
        for line in lines:
            piece.append(line)
            size += len(line)
            if size >= CHUNK:
                await response.write(b"".join(piece))
                piece, size = [], 0
        await response.write(b"".join(piece))


async def main() -> None:
    """Serve on a free port of loopback, which is printed, until stdin closes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--pods", type=int, required=True)
    parser.add_argument("--events", type=int, required=True)
    parser.add_argument("--waiting", action="store_true", help="verbs_bench's pod as well")
    options = parser.parse_args()
    server = Server(options.nodes, options.pods, options.events, waiting=options.waiting)
    app = web.Application()
    app.router.add_get("/{path:.*}", server.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(main())
