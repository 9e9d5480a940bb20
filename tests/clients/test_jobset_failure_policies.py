"""What preemptions cost a JobSet, by its failure policy, with JobSet's own controller.

docs/systems/jobset.md has the table. A JobSet of four pods fills the cluster, and urgent ones of as
many come one after the other, each when the one before is complete.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import pytest

from extender.sandbox.process import ExtenderProcess
from tests.clients.jobset_controller import JobSetController
from tests.clients.jobset_objects import (
    condition_of,
    finish,
    jobs_of,
    jobset,
    pods_of,
    removed,
    replicated,
    running,
    status_of,
    uids,
)
from tests.controlplane.cluster import Cluster
from tests.controlplane.credentials import EXTENDER_USER

Obj = dict[str, Any]
SECONDS = 180.0
"""For one step."""
JOB_CONTROLLER = "system:kube-controller-manager"


class Policy(NamedTuple):
    """One row of the table."""

    job: Obj
    """Of the Jobs' spec."""
    jobset: Obj
    """Of the JobSet's spec."""
    survives: int
    """So many preemptions; one more fails it, or is not tried."""
    failed: str = ""
    """The reason for which that one fails it, "" where it is not tried."""
    restarts: bool = True
    """Each makes all Jobs anew."""
    counts: bool = True
    """And counts towards maxRestarts."""
    jobs: int = 2
    """Of its four pods."""


def _on_disruption(action: str) -> Obj:
    return {"rules": [{"action": action, "onPodConditions": [{"type": "DisruptionTarget"}]}]}


NONE_LEFT = {"backoffLimit": 0}
ANEW = {"action": "RestartJobSetAndIgnoreMaxRestarts", "onJobFailureReasons": ["PodFailurePolicy"]}
POLICIES = {
    "no policy": Policy(NONE_LEFT, {}, 0, "FailedJobs"),
    "three restarts": Policy(
        NONE_LEFT, {"failurePolicy": {"maxRestarts": 3}}, 3, "ReachedMaxRestarts"
    ),
    "ignored": Policy(
        {**NONE_LEFT, "podFailurePolicy": _on_disruption("Ignore")},
        {},
        2,
        restarts=False,
        # A Job waits 10 s, doubled by each further failure of its pods, before it makes one again.
        jobs=4,
    ),
    "not counted": Policy(
        {"podFailurePolicy": _on_disruption("FailJob")},
        {"failurePolicy": {"maxRestarts": 0, "rules": [ANEW]}},
        2,
        counts=False,
    ),
}


def _preempt(cluster: Cluster, urgent: str, *, fails: bool) -> None:
    """Let an urgent JobSet come: it runs whole, and all four that ran have been evicted.

    ``fails``: one eviction fails a Job.
    """
    wait = cluster.client.wait_for
    wait(lambda: len(running(cluster, "low")) == 4, SECONDS, "all of low runs")
    low = running(cluster, "low")
    cluster.client.create(jobset(urgent, replicated("w", 2, 2, "high")))
    wait(lambda: len(running(cluster, urgent)) == 4, SECONDS, f"all of {urgent} runs")
    names = {pod["metadata"]["name"] for pod in low}
    who = {name: user for name, user in removed(cluster).items() if name in names}
    assert who.keys() == names
    first, *rest = who.values()
    assert first == EXTENDER_USER
    # A Job that has failed by then removes what is left of it.
    assert set(rest) <= ({EXTENDER_USER, JOB_CONTROLLER} if fails else {EXTENDER_USER})
    assert not uids(pods_of(cluster, "low")) & uids(low)
    assert running(cluster, "low") == []


def _play(cluster: Cluster, policy: Policy) -> None:
    wait = cluster.client.wait_for
    part = replicated("w", policy.jobs, 4 // policy.jobs, "low", job=policy.job)
    cluster.client.create(jobset("low", part, **policy.jobset))
    for count in range(1, policy.survives + 1):
        wait(lambda: len(running(cluster, "low")) == 4, SECONDS, "all of low runs")
        jobs = uids(jobs_of(cluster, "low"))
        _preempt(cluster, f"urgent-{count}", fails=policy.restarts)
        wait(lambda: len(pods_of(cluster, "low")) == 4, SECONDS, "low has its pods again")
        status = status_of(cluster, "low")
        restarts = count if policy.restarts else 0
        assert status.get("restarts", 0) == restarts
        assert status.get("restartsCountTowardsMax", 0) == (restarts if policy.counts else 0)
        again = uids(jobs_of(cluster, "low"))
        assert not again & jobs if policy.restarts else again == jobs
        assert condition_of(cluster, "low", "Failed") == ""
        assert running(cluster, "low") == []
        finish(cluster, f"urgent-{count}", SECONDS)
    if policy.failed:
        _preempt(cluster, "last", fails=True)
        failed = wait(lambda: condition_of(cluster, "low", "Failed"), SECONDS, "low has failed")
        assert failed == policy.failed
        finish(cluster, "last", SECONDS)
        assert pods_of(cluster, "low") == []
    else:
        wait(lambda: len(running(cluster, "low")) == 4, SECONDS, "all of low runs")


@pytest.mark.parametrize("name", POLICIES)
async def test_what_preemptions_cost_a_jobset(
    name: str, jobsets: JobSetController, informed: ExtenderProcess, cluster: Cluster
) -> None:
    await asyncio.to_thread(_play, cluster, POLICIES[name])
    informed.check()
