"""The way into the server's pod: found by label, its port forwarded through the API server."""

from __future__ import annotations

import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import trustme

from extender.sandbox.process import write_kubeconfig
from tests.cli.live_bed import Kubelet, Live, free_port, serving

NAMESPACE = "podgroup-extender"


class Cluster:
    """A live server behind an API server that forwards ports, and a kubeconfig for both."""

    def __init__(self, live: Live, kubelet: Kubelet, kubeconfig: Path) -> None:
        self.live = live
        self.kubelet = kubelet
        self.kubeconfig = kubeconfig
        self.port = urlsplit(live.url).port or 0

    async def pod(self, name: str, phase: str = "Running", **labels: str) -> None:
        """A pod of the extender."""
        path = f"/api/v1/namespaces/{NAMESPACE}/pods"
        await self.live.client.create(
            path,
            {
                "metadata": {
                    "name": name,
                    "namespace": NAMESPACE,
                    "labels": {"app.kubernetes.io/name": "podgroup-extender", **labels},
                },
                "spec": {"nodeName": "n0", "containers": [{"name": "c", "image": "i"}]},
            },
        )
        await self.live.client.patch(f"{path}/{name}/status", {"status": {"phase": phase}})

    async def ask(self, *arguments: str) -> tuple[int, str, str]:
        return await self.live.run(*arguments, "--kubeconfig", str(self.kubeconfig))


@contextlib.asynccontextmanager
async def forwarding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], **server: Any
) -> AsyncIterator[Cluster]:
    async with serving(tmp_path, capsys, **server) as live, Kubelet(live.api) as kubelet:
        kubeconfig = tmp_path / "forwarding"
        write_kubeconfig(kubeconfig, kubelet.url)
        document = json.loads(kubeconfig.read_text())
        document["users"][0]["user"] = {"token": "for-the-api-server"}
        kubeconfig.write_text(json.dumps(document))
        yield Cluster(live, kubelet, kubeconfig)


@pytest.fixture
async def cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> AsyncIterator[Cluster]:
    async with forwarding(tmp_path, capsys) as made:
        yield made


async def test_the_pod_that_leads_is_asked(cluster: Cluster) -> None:
    await cluster.pod("a")
    await cluster.pod("b", **{"podgroup-extender.io/leader": "true"})
    await cluster.pod("c", phase="Succeeded")
    cluster.kubelet.ports = {"a": free_port(), "b": cluster.port}
    status, out, err = await cluster.ask("gangs")
    assert (status, err) == (0, "")
    assert "pod-group:team/low" in out
    assert {pod for pod, _, _ in cluster.kubelet.asked} == {"b"}
    assert {port for _, port, _ in cluster.kubelet.asked} == {"8888"}
    assert {protocol for _, _, protocol in cluster.kubelet.asked} == {"v4.channel.k8s.io"}
    # The API server's own credentials reach the API server, and it only.
    assert set(cluster.kubelet.headers) == {"Bearer for-the-api-server"}


async def test_without_a_label_the_first_that_is_ready_is_asked(cluster: Cluster) -> None:
    await cluster.pod("a")
    await cluster.pod("b")
    cluster.kubelet.ports = {"a": free_port(), "b": cluster.port}
    status, out, _ = await cluster.ask("what-if", "--gang", "high")
    assert status == 0
    assert "plan for pod-group:team/high" in out


async def test_of_one_that_acts_and_one_that_observes_each_is_asked_its_own(
    cluster: Cluster,
) -> None:
    """Both have the program's label, and one that observes is always ready."""
    await cluster.pod("acts", **{"app.kubernetes.io/component": "scheduler"})
    await cluster.pod("aaa-observes", **{"app.kubernetes.io/component": "observer"})
    cluster.kubelet.ports = {"acts": cluster.port, "aaa-observes": cluster.port}
    assert (await cluster.ask("gangs"))[0] == 0
    assert {pod for pod, _, _ in cluster.kubelet.asked} == {"acts"}
    cluster.kubelet.asked.clear()
    assert (await cluster.ask("report"))[0] == 1, "it acts, which is what the bed has"
    assert {pod for pod, _, _ in cluster.kubelet.asked} == {"aaa-observes"}
    cluster.kubelet.asked.clear()
    await cluster.live.client.delete(f"/api/v1/namespaces/{NAMESPACE}/pods/acts")
    assert (await cluster.ask("gangs"))[0] == 0
    assert {pod for pod, _, _ in cluster.kubelet.asked} == {"aaa-observes"}


async def test_what_kubelet_says_is_told(cluster: Cluster) -> None:
    status, _, err = await cluster.ask("gangs")
    assert status == 3
    assert f"no running pod with labels app.kubernetes.io/name={NAMESPACE}" in err
    assert "kubectl describe" not in err
    await cluster.pod("old", phase="Pending")
    status, _, err = await cluster.ask("gangs")
    assert status == 3
    assert ": old is Pending, see `kubectl describe pod` (" in err
    await cluster.pod("a")
    cluster.kubelet.ports = {"a": free_port()}
    status, _, err = await cluster.ask("gangs", "--extender-port", "99")
    assert status == 3
    assert "error forwarding port 99" in err
    status, _, err = await cluster.ask("gangs", "--extender-pod", "nobody")
    assert status == 3
    assert "port 8888 of pod podgroup-extender/nobody" in err


async def test_tls_at_a_url_and_through_the_api_server(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1", "podgroup-extender.podgroup-extender.svc")
    ca, pair = tmp_path / "ca.pem", tmp_path / "pair.pem"
    authority.cert_pem.write_to_path(ca)
    issued.private_key_and_cert_chain_pem.write_to_path(pair)
    trusting = ssl.create_default_context(cafile=str(ca))
    async with forwarding(
        tmp_path, capsys, tls=trusting, tls_cert_file=str(pair), tls_key_file=str(pair)
    ) as cluster:
        status, out, _ = await cluster.live.ask("gangs", "--ca", str(ca))
        assert status == 0
        assert "pod-group:team/low" in out
        status, _, err = await cluster.live.ask("gangs")
        assert status == 3
        assert "certificate" in err
        await cluster.pod("a")
        cluster.kubelet.ports = {"a": cluster.port}
        status, out, _ = await cluster.ask("gangs", "--tls", "--ca", str(ca))
        assert status == 0
        status, _, err = await cluster.ask(
            "gangs", "--tls", "--ca", str(ca), "--server-name", "other"
        )
        assert status == 3
        assert "certificate" in err
        assert (await cluster.ask("gangs"))[0] == 3
