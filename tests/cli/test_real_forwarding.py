"""A real API server forwards the commands' connections; kubelet behind it is played."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from extender.app.main import main
from extender.sandbox.process import ExtenderProcess
from extender.settings.settings import Settings
from tests.cli.forwarding_node import ForwardingNode, documented_rules
from tests.controlplane.cluster import Cluster


@pytest.fixture
async def node(cluster: Cluster, tmp_path: Path) -> AsyncIterator[ForwardingNode]:
    """The extender runs in the place of two pods; the second one leads."""
    extender = ExtenderProcess(tmp_path, cluster.control_plane.kubeconfig, Settings())
    async with ForwardingNode(cluster) as node:
        try:
            await extender.start()
            port = urlsplit(extender.url).port or 0
            node.pod("a", port)
            node.pod("b", port, **{"podgroup-extender.io/leader": "true"})
            yield node
        finally:
            await extender.close()


async def ask(node: ForwardingNode, kubeconfig: str, *words: str) -> int:
    where = ("--kubeconfig", kubeconfig, "--extender-namespace", node.cluster.namespace)
    return await asyncio.to_thread(main, [*words, *where])


@pytest.mark.real
async def test_the_documented_rights_are_enough(
    node: ForwardingNode, capsys: pytest.CaptureFixture[str]
) -> None:
    kubeconfig = await asyncio.to_thread(node.reader, documented_rules())
    assert await ask(node, kubeconfig, "gangs") == 0
    assert "no gangs" in capsys.readouterr().out
    assert {(pod, port) for pod, port, _ in node.asked} == {("b", "8888")}
    assert {protocol for _, _, protocol in node.asked} == {"v4.channel.k8s.io"}
    assert await ask(node, kubeconfig, "why", "nobody") == 1
    assert "no pod or gang 'nobody'" in capsys.readouterr().err


@pytest.mark.real
async def test_without_the_right_to_forward_it_is_said(
    node: ForwardingNode, capsys: pytest.CaptureFixture[str]
) -> None:
    lists = [rule for rule in documented_rules() if rule["resources"] == ["pods"]]
    kubeconfig = await asyncio.to_thread(node.reader, lists)
    assert await ask(node, kubeconfig, "gangs") == 3
    told = capsys.readouterr().err
    assert "port 8888 of pod" in told
    assert "403" in told or "orbidden" in told
    assert not node.asked
