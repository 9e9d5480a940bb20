"""The verifier beside a real kube-scheduler: what only that one can judge is judged beforehand.

The rows of test_not_modelled.py that our own rules answer must come out the same. One that they
answer wrongly comes out right: two members that need one volume.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
from msgspec.structs import replace

from extender.sandbox.process import ExtenderProcess
from extender.settings.settings import VerifierSettings
from tests.controlplane.build import ensure_plugin
from tests.controlplane.cluster import Cluster
from tests.controlplane.processes import Process
from tests.controlplane.scheduler import scheduler_config, write_scheduler_config
from tests.scenarios.test_not_modelled import (
    QUIET,
    SETTINGS,
    Bed,
    bind_volumes,
    local_class,
    test_an_empty_cluster_starts_a_gang_whole_and_at_once,
    test_members_preempt_on_nodes_with_a_device_plugin,
    test_members_with_claims_of_their_own_preempt,
    test_no_pod_is_evicted_for_a_claim_that_members_share,
    test_no_pod_is_evicted_for_a_feature_that_no_node_declares,
    test_no_pod_is_evicted_for_an_attachment_that_is_enough_for_one,
    test_no_pod_is_evicted_for_devices_that_a_node_has_for_one_member,
    test_no_pod_is_evicted_for_volumes_that_are_in_one_zone,
    test_pods_that_hold_the_last_attachment_of_a_node_are_evicted,
    volume,
    volume_claim,
)

__all__ = [
    "test_an_empty_cluster_starts_a_gang_whole_and_at_once",
    "test_members_preempt_on_nodes_with_a_device_plugin",
    "test_members_with_claims_of_their_own_preempt",
    "test_no_pod_is_evicted_for_a_claim_that_members_share",
    "test_no_pod_is_evicted_for_a_feature_that_no_node_declares",
    "test_no_pod_is_evicted_for_an_attachment_that_is_enough_for_one",
    "test_no_pod_is_evicted_for_devices_that_a_node_has_for_one_member",
    "test_no_pod_is_evicted_for_volumes_that_are_in_one_zone",
    "test_pods_that_hold_the_last_attachment_of_a_node_are_evicted",
]
"""Played with the bed of this file."""
pytestmark = pytest.mark.real
READY_SECONDS = 60.0


class Verified(Bed):
    """The same cluster, and the verifier."""

    verifier: Process

    def condition_says(self, words: str) -> bool:
        """Whether the PodGroup's condition says so."""
        return any(
            words in condition["message"]
            for group in self.client.list("PodGroup")
            for condition in group.get("status", {}).get("conditions", ())
        )


def started(cluster: Cluster, folder: Path) -> tuple[Process, str]:
    """Start the verifier that is built from the module of this kube-scheduler."""
    program = ensure_plugin(cluster.release.minor).with_name("verifier")
    kubeconfig = cluster.control_plane.layout.kubeconfig("scheduler")
    config = write_scheduler_config(folder / "verifier.yaml", scheduler_config(), kubeconfig)
    address = f"unix:{folder}/verifier.sock"
    log = folder / "verifier.log"
    process = Process("verifier", [program, f"--config={config}", f"--listen={address}"], log)

    def ready() -> bool:
        with grpc.insecure_channel(address) as channel:
            check: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
                "/grpc.health.v1.Health/Check"
            )
            try:
                return check(b"", timeout=1.0) == b"\x08\x01"
            except grpc.RpcError:
                return False

    process.wait_ready(ready, READY_SECONDS)
    return process, address


@pytest.fixture
async def bed(cluster: Cluster, tmp_path: Path) -> AsyncIterator[Bed]:
    """The extender runs with a verifier, and kube-scheduler asks the extender."""
    verifier, address = await asyncio.to_thread(started, cluster, tmp_path)
    settings = replace(SETTINGS, verifier=VerifierSettings(address=address, seconds=2.0))
    extender = ExtenderProcess(tmp_path, cluster.control_plane.kubeconfig, settings)
    try:
        await extender.start()
        await asyncio.to_thread(cluster.use_extender, extender.url)
        made = Verified(cluster, extender.url)
        made.verifier = verifier
        yield made
    finally:
        await extender.close()
        verifier.signal(signal.SIGCONT)
        verifier.stop()


async def test_no_pod_is_evicted_for_one_volume_that_each_of_two_members_could_have(
    bed: Bed,
) -> None:
    """On either node, for either member: kube-scheduler names both nodes for both."""

    def play() -> None:
        nodes = bed.prepare(2)
        local_class(bed.client)
        volume(bed.client, "only", {"kubernetes.io/hostname": nodes})
        low = bed.full(nodes)
        bed.members([volume_claim(bed.client, f"d-{i}") for i in range(2)], cpu=20)
        bed.client.wait_for(lambda: bed.told("VolumeBinding: "), what="the reason is told")
        time.sleep(QUIET)
        assert bed.bound() == low

    await asyncio.to_thread(play)


async def test_members_with_a_volume_each_preempt(bed: Bed) -> None:
    """As above, with a second volume."""

    def play() -> None:
        nodes = bed.prepare(2)
        local_class(bed.client)
        for node in nodes:
            volume(bed.client, f"v-{node}", {"kubernetes.io/hostname": nodes})
        bed.full(nodes)
        members = bed.members([volume_claim(bed.client, f"d-{i}") for i in range(2)], cpu=20)

        def bound() -> bool:
            bind_volumes(bed.client)
            return bed.bound() == set(members)

        bed.client.wait_for(bound, what="all members bound")

    await asyncio.to_thread(play)


@pytest.mark.parametrize("trouble", [signal.SIGKILL, signal.SIGSTOP])
async def test_no_pod_is_evicted_while_the_verifier_is_away(
    bed: Verified, trouble: signal.Signals
) -> None:
    def play() -> None:
        low = bed.full(bed.prepare(2))
        bed.verifier.signal(trouble)
        members = bed.members([{}, {}], cpu=20)
        bed.client.wait_for(
            lambda: bed.condition_says("the verifier gives no answer"), what="the reason is told"
        )
        time.sleep(QUIET)
        assert bed.bound() == low
        if trouble is signal.SIGSTOP:
            bed.verifier.signal(signal.SIGCONT)
            bed.client.wait_for(lambda: bed.bound() == set(members), what="all members bound")

    await asyncio.to_thread(play)
