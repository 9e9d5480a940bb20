"""A node of a real cluster whose kubelet forwards ports, and does nothing else.

kwok's nodes have no kubelet that the API server could reach. This one is a server of the test,
which the API server finds by the node's address and port, and asks as it asks kubelet.
"""

from __future__ import annotations

import ssl
from typing import Any, Self

import trustme
import yaml
from aiohttp import web

from tests.cli.live_bed import bridged
from tests.controlplane.cluster import Cluster
from tests.controlplane.credentials import User, write_kubeconfig
from tests.controlplane.objects import make_node, make_pod
from tests.packaging.manifests import ROOT

NODE = "with-kubelet"
READER = "reader"


def documented_rules() -> list[dict[str, Any]]:
    """The rights that docs/cli.md says are needed to reach the server through the API server."""
    text = (ROOT / "docs" / "cli.md").read_text()
    block = text.split("Needed in the extender's namespace:")[1].split("```")[1]
    rules: list[dict[str, Any]] = yaml.safe_load(block.removeprefix("yaml"))["rules"]
    return rules


class ForwardingNode:
    """A context manager. Pods made with ``pod`` have what listens on ``ports[name]``."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.ports: dict[str, int] = {}
        self.asked: list[tuple[str, str, str]] = []
        """(pod, port, protocol) of each connection that reached it."""
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get("/portForward/{namespace}/{pod}", self._forward)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=context).start()
        self._join(self._runner.addresses[0][1])
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    def _join(self, port: int) -> None:
        node = make_node(NODE)
        node["metadata"].pop("annotations")  # kwok leaves it alone
        client = self.cluster.client
        client.create(node)
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        }
        client.patch("Node", NODE, {"status": status}, subresource="status")

    def pod(self, name: str, port: int, **labels: str) -> None:
        """A running pod of the extender in whose place ``port`` of this machine listens."""
        client = self.cluster.client
        named = {"app.kubernetes.io/name": "podgroup-extender", **labels}
        client.create(make_pod(name, node=NODE, labels=named))
        client.patch("Pod", name, {"status": {"phase": "Running"}}, subresource="status")
        self.ports[name] = port

    def reader(self, rules: list[dict[str, Any]]) -> str:
        """Return the path of a kubeconfig with these rights in the cluster's namespace alone."""
        cluster, group = self.cluster, "rbac.authorization.k8s.io"
        client, namespace = cluster.client, cluster.namespace
        meta = {"name": READER, "namespace": namespace}
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta}
        version = f"{group}/v1"
        client.create(account)
        client.create({"apiVersion": version, "kind": "Role", "metadata": meta, "rules": rules})
        client.create(
            {
                "apiVersion": version,
                "kind": "RoleBinding",
                "metadata": meta,
                "roleRef": {"apiGroup": group, "kind": "Role", "name": READER},
                "subjects": [{"kind": "ServiceAccount", **meta}],
            }
        )
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{READER}/token"
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token = client.request("POST", path, request)["status"]["token"]
        layout = cluster.control_plane.layout
        file = layout.kubeconfig(f"{READER}-{namespace}")
        write_kubeconfig(file, layout.server_url, layout.ca_file, User(READER, token=token))
        return str(file)

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        name, port = request.match_info["pod"], request.query["port"]
        self.asked.append((name, port, request.headers.get("Sec-WebSocket-Protocol", "")))
        return await bridged(request, port, self.ports[name])
