"""Replicas on a real control plane: kill -9, SIGTERM, SIGSTOP, a roll-out with another order."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.controlplane.cluster import Cluster
from tests.controlplane.objects import make_pod
from tests.replicas.bed import SHORT, ask, leader_of, wait
from tests.replicas.kills import Kills, pair
from tests.replicas.sidecars import sidecars

pytestmark = pytest.mark.real

LEASE_SECONDS = 15.0
"""The default, as in client-go."""


def test_killed_leader_is_replaced_and_nothing_is_lost_or_doubled(
    cluster: Cluster, tmp_path: Path
) -> None:
    with pair(cluster, tmp_path, SHORT) as running:
        kills = Kills(running, seed=3)
        for number in range(3):
            kills.round(number)
        assert kills.told.violations == []
        # How long, says `python -m tests.replicas`; on a busy machine only an order of magnitude.
        assert max(kills.told.takeover) <= 10 * SHORT["leaseSeconds"]


def test_default_lease_is_taken_over_in_time_and_handed_over_at_once(
    cluster: Cluster, tmp_path: Path
) -> None:
    with pair(cluster, tmp_path) as running:
        leader = leader_of(running.replicas)
        other = running.other(leader)
        status, text = ask(other.port, "GET", "/readyz")
        assert (status, "another replica leads" in text) == (503, True)
        assert ask(other.port, "GET", "/readyz/caches")[0] == 200
        assert ask(other.port, "GET", "/livez")[0] == 200
        # A roll-out: the leader is told to go.
        leader.terminate()
        handed_over = wait(other.answers, 60, "hand-over")
        assert ask(leader.port, "POST", "/filter", leader.question)[0] != 200
        leader.stop()
        leader.start()
        wait(leader.warm, 60, "warm again")
        # A crash: the lease has to expire.
        other.kill()
        taken_over = wait(leader.answers, 120, "take-over")
        # Side by side: nobody waits for a lease that its holder gave back.
        assert handed_over < taken_over / 2
        assert taken_over <= 2 * LEASE_SECONDS


def test_stopped_leader_does_not_answer_when_it_goes_on(cluster: Cluster, tmp_path: Path) -> None:
    with pair(cluster, tmp_path, SHORT) as running:
        leader = leader_of(running.replicas)
        other = running.other(leader)
        os.kill(leader.pid, signal.SIGSTOP)
        try:
            wait(other.ready, 60, "take-over")
        finally:
            os.kill(leader.pid, signal.SIGCONT)
        end = time.monotonic() + 2
        while time.monotonic() < end:
            assert not leader.ready()
            assert other.ready()


@pytest.mark.parametrize("end", ["terminate", "kill"])
def test_roll_out_with_another_cost_order_evicts_what_the_leader_planned(
    end: str, cluster: Cluster, tmp_path: Path
) -> None:
    """Two pods of priority 5 for the one order, fourteen of priority 1 for the other."""
    orders = ({"plan": {"costOrder": "fewest-pods"}}, {"plan": {"costOrder": "default"}})
    with pair(cluster, tmp_path, SHORT, differences=orders) as running:
        one, two = running.replicas
        assert leader_of(running.replicas) is one
        client = cluster.client
        cluster.priority_classes(low=1, middle=5, high=100000)
        nodes = cluster.nodes(4, cpu=4)
        for node in nodes[:2]:
            client.create(
                make_pod(f"middle-{node}", 4, priority_class="middle", node=node, grace=4)
            )
        for node in nodes[2:]:
            for index in range(7):
                name = f"low-{node}-{index}"
                client.create(make_pod(name, "570m", priority_class="low", node=node, grace=4))
        client.wait_for(
            lambda: sum(p["status"].get("phase") == "Running" for p in client.list("Pod")) == 16,
            what="all run",
        )
        before = {each["metadata"]["name"] for each in client.list("Pod")}
        seen = cluster.watch()
        cluster.pod_group("urgent", 2, disruption="all", priority_class="high")
        members = ["urgent-0", "urgent-1"]
        for name in members:
            client.create(make_pod(name, 4, priority_class="high", pod_group="urgent"))
        client.wait_for(lambda: seen.deleting(), what="the first eviction")
        getattr(one, end)()
        wait(two.answers, 60, "the other order leads")
        client.wait_running(*members, timeout=120)
        left = {each["metadata"]["name"] for each in client.list("Pod")}
        assert before - left == {f"middle-{node}" for node in nodes[:2]}
        assert len(seen.deleting()) == 2


def test_extender_leads_beside_the_kube_scheduler_that_leads(
    cluster: Cluster, tmp_path: Path
) -> None:
    """A sidecar is asked by its own kube-scheduler only, so leading moves with it."""
    election = {"leaseDuration": "3s", "renewDeadline": "2s", "retryPeriod": "500ms"}
    with sidecars(cluster, tmp_path, lease=SHORT, election=election) as (one, two):
        cluster.priority_classes(low=1, high=100000)
        cluster.nodes(4, cpu=4)

        def gang(name: str, priority: str) -> float:
            cluster.pod_group(name, 4, disruption="all", priority_class=priority)
            members = [f"{name}-{index}" for index in range(4)]
            for each in members:
                pod = make_pod(each, 3, priority_class=priority, pod_group=name, grace=1)
                cluster.client.create(pod)
            began = time.monotonic()
            cluster.client.wait_running(*members, timeout=120)
            return time.monotonic() - began

        gang("low", "low")
        assert one.extender.ready()
        assert not two.extender.ready()
        # kube-scheduler hands over; its extender lives on, leads, and is asked no more.
        assert one.process is not None
        one.process.stop()
        gang("high", "high")
        assert two.extender.ready()
        assert not one.extender.ready()
        left = {each["metadata"]["name"] for each in cluster.client.list("Pod")}
        assert left == {f"high-{index}" for index in range(4)}
