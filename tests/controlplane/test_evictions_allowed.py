"""Which pods the real Eviction API lets go is what the plans count (extender.fit)."""

from __future__ import annotations

import itertools
import signal

import pytest

from extender.decode.from_json import decode_budget, decode_pod
from extender.fit.disruption_budgets import takes
from tests.controlplane.client import ApiError, Client
from tests.controlplane.cluster import Cluster
from tests.controlplane.objects import make_pdb, make_pod

pytestmark = pytest.mark.real

POLICIES = (None, "IfHealthyBudget", "AlwaysAllow")
ALLOWED = (0, 1)
HEALTHY = (1, 2)
"""currentHealthy, where desiredHealthy is 2."""
CONDITIONS = ("ready", "unready", "unsaid", "pending")
"""``unsaid``: it runs, and nothing tells whether it is ready."""


def test_pods_go_as_the_eviction_api_lets_them(cluster: Cluster) -> None:
    """Each pod has a budget of its own, with a status that nobody else writes in between."""
    client = cluster.client
    (node,) = cluster.nodes(1, cpu=64)
    cases = dict(enumerate(itertools.product(POLICIES, ALLOWED, HEALTHY, CONDITIONS)))
    for number, (policy, *_, condition) in cases.items():
        name = f"p{number}"
        placed = None if condition == "pending" else node
        spec = {} if placed else {"schedulerName": "no-such-scheduler"}
        client.create(make_pod(name, labels={"app": name}, node=placed, spec=spec))
        if condition in ("unready", "unsaid"):
            client.wait_running(name)
            said = {"unready": [{"type": "Ready", "status": "False"}], "unsaid": []}
            status = {"conditions": said[condition]}
            client.patch("Pod", name, {"status": status}, subresource="status")
        more = {"unhealthyPodEvictionPolicy": policy} if policy else {}
        client.create(make_pdb(name, {"app": name}, minAvailable=2, **more))
    client.wait_running(*(f"p{n}" for n, case in cases.items() if case[3] == "ready"))
    manager = cluster.control_plane.processes["kube-controller-manager"]
    manager.signal(signal.SIGSTOP)  # it would write each budget's status anew
    try:
        found, counted = {}, {}
        for number, case in cases.items():
            found[case], counted[case] = _evicted(client, f"p{number}", *case[1:3])
    finally:
        manager.signal(signal.SIGCONT)
    assert found == counted
    assert set(found.values()) == {True, False}


def _evicted(client: Client, name: str, allowed: int, healthy: int) -> tuple[bool, bool]:
    """Whether the API lets the pod go, and whether a plan counts on that."""
    status = {
        "observedGeneration": 1,
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": 2,
        "expectedPods": 2,
    }
    client.patch("PodDisruptionBudget", name, {"status": status}, subresource="status")
    budget = decode_budget(client.get("PodDisruptionBudget", name))
    counted = budget.allowed > 0 or not takes(decode_pod(client.get("Pod", name)), budget)
    try:
        client.evict(name)
    except ApiError as error:
        if error.status != 429:
            raise
        return False, counted
    return True, counted
