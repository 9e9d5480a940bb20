from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from extender.kube.client import KubeClient
from extender.sandbox.apiserver import ApiServer

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    server = ApiServer(bookmark_seconds=0.05)
    await server.start()
    yield server
    await server.close()


@pytest.fixture
async def client(server: ApiServer) -> AsyncIterator[KubeClient]:
    client = await KubeClient.connect(server=server.url)
    yield client
    await client.close()


def pod(name: str = "p", cpu: str = "1", **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], **spec},
    }


def node(name: str, cpu: str = "4", **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "status": {"allocatable": {"cpu": cpu, "memory": "16Gi", "pods": "110"}},
    }
