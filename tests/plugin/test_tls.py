"""The plugin over TLS: where one side does not trust the other, nobody is scheduled.

plugin/core/connection_test.go has the client's side of it; here the extender's own server decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme
from msgspec.structs import replace

from extender.sandbox.ports import Ports
from extender.sandbox.process import ExtenderProcess
from extender.settings.settings import GrpcSettings, Settings
from tests.controlplane.cluster import Cluster
from tests.plugin.stage import SECONDS, Stage, staged
from tests.plugin.telling import ENDED
from tests.scenarios.ways import Plugin

pytestmark = pytest.mark.real

NAME = "kube-scheduler"
PAST = datetime.now(UTC) - timedelta(hours=1)


class Trusted(Plugin):
    """The plugin with certificates of both sides, in a folder that this makes its own."""

    def __init__(self, folder: Path, **args: Any) -> None:
        super().__init__(folder, **args)
        self._folder = folder
        self._ports = Ports()
        self._address = f"127.0.0.1:{self._ports.reserve()}"
        self.ours, self.strange = trustme.CA(), trustme.CA()
        self.write("ca.pem", self.ours.cert_pem.bytes())
        self.issue("extender", self.ours, "127.0.0.1")
        self.issue(NAME, self.ours, NAME)
        self._args |= self.shown(NAME)

    def write(self, name: str, content: bytes) -> str:
        path = self._folder / name
        path.write_bytes(content)
        return str(path)

    def issue(self, file: str, authority: trustme.CA, name: str, **dates: Any) -> None:
        """Write FILE.pem and FILE.key."""
        pair = authority.issue_cert(name, common_name=name, **dates)
        self.write(f"{file}.pem", b"".join(blob.bytes() for blob in pair.cert_chain_pems))
        self.write(f"{file}.key", pair.private_key_pem.bytes())

    def shown(self, file: str, authority: str = "ca.pem") -> dict[str, str]:
        """Arguments of the plugin."""
        paths = {"caFile": authority, "certFile": f"{file}.pem", "keyFile": f"{file}.key"}
        return {argument: str(self._folder / name) for argument, name in paths.items()}

    def settings(self, settings: Settings) -> Settings:
        grpc = GrpcSettings(
            listen=self._address,
            tls_cert_file=str(self._folder / "extender.pem"),
            tls_key_file=str(self._folder / "extender.key"),
            client_ca_file=str(self._folder / "ca.pem"),
            allowed_names=(NAME,),
        )
        return replace(settings, grpc=grpc)

    async def schedule_with(self, cluster: Cluster, extender: ExtenderProcess, **args: str) -> None:
        """Restart kube-scheduler with other arguments, for this once."""
        before = self._args
        self._args = before | args
        try:
            await self.schedule(cluster, extender)
        finally:
            self._args = before


@pytest.fixture
async def way(sockets: Path) -> Trusted:
    return await asyncio.to_thread(Trusted, sockets, whenCut="Elsewhere")


@pytest.fixture
async def stage(rights: Cluster, tmp_path: Path, way: Trusted) -> AsyncIterator[Stage]:
    async with staged(rights, tmp_path, way) as made:
        yield made


async def test_nobody_is_scheduled_by_a_plugin_that_is_not_trusted(
    stage: Stage, way: Trusted
) -> None:
    """Elsewhere lets pods have nodes without seats: it has never heard which these are."""
    way.issue("strange", way.strange, NAME)
    way.issue("expired", way.ours, NAME, not_before=PAST - timedelta(days=1), not_after=PAST)
    way.issue("unlisted", way.ours, "somebody")
    way.write("strange-ca.pem", way.strange.cert_pem.bytes())
    tried = {
        "ours-is-strange": way.shown("strange"),
        "ours-is-expired": way.shown("expired"),
        "ours-is-unlisted": way.shown("unlisted"),
        "theirs-is-strange": way.shown(NAME, "strange-ca.pem"),
    }
    for number, (name, args) in enumerate(tried.items()):
        await way.schedule_with(stage.cluster, stage.extender, **args)
        await asyncio.to_thread(stage.plain, name, "100m")
        await stage.refused(name, "it is not known which seats are held")
        if number == 0:
            await asyncio.to_thread(stage.let_go)
    await stage.refused("high-0", "it is not known which seats are held")
    pods = await asyncio.to_thread(stage.client.list, "Pod")
    assert [pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName")] == []
    await way.schedule(stage.cluster, stage.extender)
    await asyncio.to_thread(stage.client.wait_running, *tried, "high-0", "high-1", timeout=SECONDS)


async def test_pods_of_no_gang_keep_off_known_seats_when_trust_ends(
    stage: Stage, way: Trusted
) -> None:
    """The extender comes back with a certificate of a stranger: what was known is kept."""
    client = stage.client
    await asyncio.to_thread(stage.cluster.nodes, 1, prefix="free")
    await stage.killed()
    way.issue("extender", way.strange, "127.0.0.1")
    before = stage.log.read_text().count(ENDED)
    await stage.extender.start_extender()
    await asyncio.to_thread(
        client.wait_for, lambda: stage.log.read_text().count(ENDED) > before, SECONDS, ENDED
    )
    await asyncio.to_thread(stage.plain, "small", "100m")
    await asyncio.to_thread(client.wait_running, "small", timeout=SECONDS)
    assert client.get("Pod", "small")["spec"]["nodeName"] == "free0"
    # On n1 it would fit beside the seat. Without another node it waits.
    await asyncio.to_thread(client.patch, "Node", "free0", {"spec": {"unschedulable": True}})
    await asyncio.to_thread(stage.plain, "other", "100m")
    await stage.refused("other", "seats are held there, and the extender does not answer")
    await asyncio.to_thread(stage.let_go)
    await stage.refused("high-0", "it is not known which seats are held")
    way.issue("extender", way.ours, "127.0.0.1")
    await stage.extender.kill_extender()
    await stage.extender.start_extender()
    await asyncio.to_thread(client.wait_running, "high-0", "high-1", "other", timeout=SECONDS)
