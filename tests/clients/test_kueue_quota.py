"""Kueue's own preemption and its own classes, with its own manager beside the extender."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from extender.sandbox.process import ExtenderProcess
from extender.settings.settings import GroupSettings
from tests.clients.conftest import serving
from tests.clients.kueue_controller import API, KueueController
from tests.clients.kueue_history import History
from tests.clients.kueue_objects import (
    CLASS,
    condition_of,
    finish,
    gated,
    make,
    member,
    pods_of,
    queues,
    removed,
    running,
    used,
)
from tests.controlplane.cluster import Cluster
from tests.controlplane.credentials import EXTENDER_USER
from tests.controlplane.rights import grant_manifest

SECONDS = 120.0
QUIET_SECONDS = 5.0
"""For what must not happen."""


@pytest.mark.parametrize("retriable", [True, False], ids=["repaired", "not repaired"])
async def test_kueue_takes_its_quota_back_itself(
    *, retriable: bool, kueue: KueueController, extender: ExtenderProcess, cluster: Cluster
) -> None:
    """12 CPU for two groups of six and twelve: Kueue preempts one, the extender nobody."""

    def play() -> None:
        wait = cluster.client.wait_for
        queues(cluster, 12)
        history = History(cluster)
        make(cluster, "low", 4, "low", retriable=retriable)
        wait(lambda: len(running(cluster, "low")) == 4, SECONDS, "low runs")
        make(cluster, "high", 2, "high")
        wait(lambda: len(running(cluster, "high")) == 2, SECONDS, "high runs")
        assert removed(cluster) == {f"low-{i}": "kueue" for i in range(4)}
        # Not one of high was let in while one of low still ran.
        assert history.last("low", "Failed") <= history.first("high", "gates lifted")
        wait(lambda: used(cluster) == 6, SECONDS, "low has given its quota back")
        if retriable:
            assert condition_of(cluster, "low", "Evicted") == "Preempted"
            assert len(pods_of(cluster, "low")) == 4
            for i in range(4):
                cluster.client.create(member("low", i, 4, "low", name=f"again-{i}"))
            wait(lambda: len(gated(cluster, "low")) == 4, SECONDS, "the successors wait")
        else:
            wait(lambda: not pods_of(cluster, "low"), SECONDS, "the pods of low are gone")
            make(cluster, "low", 4, "low", retriable=False)
        time.sleep(QUIET_SECONDS)
        assert len(gated(cluster, "low")) == 4
        finish(cluster, "high")
        wait(lambda: len(running(cluster, "low")) == 4, SECONDS, "low runs again")
        assert len(removed(cluster)) == 4
        print(history.table())

    await asyncio.to_thread(play)
    extender.check()


def _told(cluster: Cluster, gang: str, text: str) -> bool:
    """Whether a pod of a group has been told this."""
    return any(
        text in each.get("message", "") and each["involvedObject"]["name"].startswith(gang)
        for each in cluster.client.list("v1/Event")
    )


@pytest.mark.parametrize("counts", [True, False], ids=["counts", "off"])
async def test_a_class_of_kueues_counts_where_the_option_says_so(
    *, counts: bool, kueue: KueueController, cluster: Cluster, tmp_path: Path
) -> None:
    """Pods without a PriorityClass, so equal to kube-scheduler."""

    def play() -> None:
        wait = cluster.client.wait_for
        queues(cluster, 100)
        for name, value in (("later", 10), ("sooner", 1000)):
            made = {"kind": "WorkloadPriorityClass", "metadata": {"name": name}, "value": value}
            cluster.client.create({"apiVersion": API, **made})
        make(cluster, "low", 4, None, labels={CLASS: "later"})
        wait(lambda: len(running(cluster, "low")) == 4, SECONDS, "low runs")
        make(cluster, "high", 2, None, labels={CLASS: "sooner"})
        if counts:
            wait(lambda: len(running(cluster, "high")) == 2, SECONDS, "high runs")
            assert removed(cluster) == {f"low-{i}": EXTENDER_USER for i in range(4)}
        else:
            text = "Kueue's WorkloadPriorityClass 'sooner' does not count"
            wait(lambda: _told(cluster, "high", text), SECONDS, "high is told why it waits")
            time.sleep(QUIET_SECONDS)
            assert removed(cluster) == {}
            assert len(running(cluster, "low")) == 4

    await asyncio.to_thread(grant_manifest, cluster.client, others=True)
    async with serving(cluster, tmp_path, GroupSettings(workload_priority=counts)) as extender:
        await asyncio.to_thread(play)
        extender.check()
