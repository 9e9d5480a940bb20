"""Kueue's own manager beside the extender: groups of plain pods as preemptors and as victims.

The quota is larger than the nodes, so Kueue admits what has no room. docs/measurements.md has the
table; ``-rP`` prints what was seen.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from extender.sandbox.process import ExtenderProcess
from tests.clients.kueue_controller import MANAGED, KueueController
from tests.clients.kueue_history import History
from tests.clients.kueue_objects import (
    WORKLOAD,
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
from tests.groups import recorded

Obj = dict[str, Any]
SECONDS = 120.0
QUIET_SECONDS = 5.0
"""For what must not happen."""
PLENTY = 100


def _low_runs(cluster: Cluster, **more: Any) -> None:
    """All four of the low group run; Kueue holds the first three until the fourth is there."""
    wait = cluster.client.wait_for
    cluster.client.create_all(*(member("low", i, 4, "low", **more) for i in range(3)))
    time.sleep(QUIET_SECONDS / 2)
    assert len(gated(cluster, "low")) == 3
    assert cluster.client.get_or_none(WORKLOAD, "low") is None
    cluster.client.create(member("low", 3, 4, "low", **more))
    wait(lambda: len(running(cluster, "low")) == 4, SECONDS, "low runs")


def _high_takes_the_room(cluster: Cluster) -> None:
    """A pod at Kueue's gate evicts nobody; once both are admitted all four of low go."""
    wait = cluster.client.wait_for
    cluster.client.create(member("high", 0, 2, "high"))
    time.sleep(QUIET_SECONDS)
    assert len(gated(cluster, "high")) == 1
    assert removed(cluster) == {}
    cluster.client.create(member("high", 1, 2, "high"))
    wait(lambda: len(running(cluster, "high")) == 2, SECONDS, "high runs")
    assert removed(cluster) == {f"low-{i}": EXTENDER_USER for i in range(4)}
    assert running(cluster, "low") == []


def _as_recorded(pod: Obj) -> None:
    """The fixture has no key that the real pod lacks, and values of the same form."""
    for place, fixture in recorded.kueue(0, 4, "low").items():
        made = pod["metadata"][place]
        assert fixture.keys() <= made.keys()
        for key, value in fixture.items():
            assert made[key] == value or (key.endswith("role-hash") and len(made[key]) == 8)


async def test_a_group_goes_whole_and_its_successors_take_the_quota_that_it_kept(
    kueue: KueueController, extender: ExtenderProcess, cluster: Cluster
) -> None:
    def play() -> None:
        wait = cluster.client.wait_for
        queues(cluster, PLENTY)
        history = History(cluster)
        _low_runs(cluster)
        _as_recorded(running(cluster, "low")[0])
        _high_takes_the_room(cluster)
        # Its pods stay, failed, and so does its share of the quota.
        waiting = "WaitingForReplacementPods"
        wait(lambda: condition_of(cluster, "low", waiting), SECONDS, "low waits for replacement")
        assert condition_of(cluster, "low", waiting) == "PodsFailed"
        left = pods_of(cluster, "low")
        assert len(left) == 4
        assert all(pod["metadata"]["finalizers"] == [MANAGED] for pod in left)
        assert {pod["status"]["phase"] for pod in left} == {"Failed"}
        assert used(cluster) == 18
        # Successors are admitted at once, one finalizer goes for each; they wait for room.
        for i in range(4):
            cluster.client.create(member("low", i, 4, "low", name=f"again-{i}"))
        wait(lambda: len(pods_of(cluster, "low")) == 4, SECONDS, "the old ones are gone")
        wait(lambda: not gated(cluster, "low"), SECONDS, "the successors are admitted")
        time.sleep(QUIET_SECONDS)
        assert running(cluster, "low") == []
        assert len(removed(cluster)) == 4
        assert condition_of(cluster, "low", waiting) == ""
        finish(cluster, "high")
        wait(lambda: len(running(cluster, "low")) == 4, SECONDS, "low runs again")
        wait(lambda: condition_of(cluster, "high", "Finished"), SECONDS, "high is finished")
        print(history.table())
        order = history.order("low")
        assert order.index("gates lifted") < order.index("bound") < order.index("Failed")
        assert order.index("deletion asked for") < order.index("finalizer taken off")

    await asyncio.to_thread(play)
    extender.check()


async def test_a_group_that_is_not_to_be_repaired_gives_its_quota_back(
    kueue: KueueController, extender: ExtenderProcess, cluster: Cluster
) -> None:
    """As SkyPilot's pods are; its own controller makes them again under the same names."""

    def play() -> None:
        wait = cluster.client.wait_for
        queues(cluster, PLENTY)
        history = History(cluster)
        _low_runs(cluster, retriable=False)
        _high_takes_the_room(cluster)
        wait(lambda: not pods_of(cluster, "low"), SECONDS, "the pods of low are gone")
        wait(lambda: used(cluster) == 6, SECONDS, "low has given its quota back")
        make(cluster, "low", 4, "low", retriable=False)
        wait(lambda: not gated(cluster, "low"), SECONDS, "low is admitted again")
        time.sleep(QUIET_SECONDS)
        assert running(cluster, "low") == []
        finish(cluster, "high")
        wait(lambda: len(running(cluster, "low")) == 4, SECONDS, "low runs again")
        assert len(removed(cluster)) == 4
        print(history.table())

    await asyncio.to_thread(play)
    extender.check()
