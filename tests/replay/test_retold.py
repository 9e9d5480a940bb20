"""kube-scheduler's preemption retold: it evicts as the real one did on the named cases.

The figures are those of real runs (docs/benchmarks/against-kubernetes.md for 1.37.0, and the same
cases on 1.38.0-beta.0). Where the real one breaks ties at random there is a range.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.inputs.state import PodState, State
from bench.rival.cases import named_cases
from extender.replay.cluster import Cluster, Placement, Work
from extender.replay.retold import Score, pod_by_pod, without_victims, workload_aware
from extender.replay.trace import Job

LEAST = Score(packs=False)
CASES = {case.state.name: case for case in named_cases()}


def played(state: State) -> tuple[Cluster, Work]:
    """A case as a cluster of one resource, and the gang that waits."""
    gpus = state.members[0].wants.gpu > 0

    def amount(pod: PodState) -> int:
        return pod.wants.gpu if gpus else pod.wants.cpu // 1000

    size = state.nodes[0].size
    cluster = Cluster(len(state.nodes), size.gpu if gpus else size.cpu // 1000)
    index = {node.name: at for at, node in enumerate(state.nodes)}
    whole = {group.name for group in state.groups if group.whole}
    jobs: dict[str, list[PodState]] = {}
    for pod in state.pods:
        jobs.setdefault(pod.group if pod.group in whole else pod.name, []).append(pod)
    for number, pods in enumerate(jobs.values()):
        work = waiting(pods, amount(pods[0]), number)
        for at, pod in enumerate(pods):
            cluster.put(work, at, index[pod.node])
    return cluster, waiting(list(state.members), amount(state.members[0]), len(jobs))


def waiting(pods: list[PodState], gpus: int, number: int) -> Work:
    job = Job(pods[0].name, 0.0, 1.0, len(pods), gpus, pods[0].priority)
    return Work(job, number, 1.0, 0.0, [-1] * len(pods))


def evicted(placement: Placement | None) -> tuple[int, int] | None:
    """Pods, and the highest priority among them."""
    if placement is None:
        return None
    return len(placement.victims), max(each.work.job.priority for each in placement.victims)


@pytest.mark.parametrize(
    ("name", "pods", "highest"),
    [
        ("8-nodes-2-free", range(2, 4), 100),
        ("gang-beside-singles", range(4, 5), 100),
        ("two-priorities", range(4, 5), 500),
        ("40-nodes-8-free", range(9, 11), 100),
        ("eight-spread-gangs", range(24, 33), 100),
        ("volcano-4607-ten-gangs", range(10, 11), 100),
        ("volcano-3291-idle-and-freed", range(1, 2), 100),
        ("kai-1591-packed", range(44, 45), 100),
    ],
)
def test_1_37_on_the_named_cases(name: str, pods: range, highest: int) -> None:
    found = evicted(workload_aware(*played(CASES[name].state), LEAST, ranked=False))
    assert found is not None
    assert found[0] in pods
    assert found[1] == highest


@pytest.mark.parametrize("name", list(CASES))
def test_1_38_evicts_the_least_on_every_named_case(name: str) -> None:
    case = CASES[name]
    found = workload_aware(*played(case.state), LEAST, ranked=True)
    assert (None if found is None else len(found.victims)) == case.least


@pytest.mark.parametrize(
    ("name", "pods"),
    [
        ("8-nodes-2-free", 1),
        ("gang-beside-singles", 2),
        ("two-priorities", 4),
        ("40-nodes-8-free", 2),
        ("volcano-3291-idle-and-freed", 1),
        ("kai-1591-packed", 44),
        ("kueue-5243-fragmented", 2),
    ],
)
def test_pod_by_pod_on_the_named_cases(name: str, pods: int) -> None:
    cluster, work = played(CASES[name].state)
    gone = 0
    while not work.whole:
        placement = pod_by_pod(cluster, work, LEAST)
        assert placement is not None
        gone += len(placement.victims)
        for member in placement.victims:
            cluster.take(member.work, member.at)
        for at, node in placement.seats:
            cluster.put(work, at, node)
    assert gone == pods


@pytest.mark.parametrize(
    "way",
    [
        without_victims,
        lambda *asked: workload_aware(*asked, ranked=False),
        lambda *asked: workload_aware(*asked, ranked=True),
    ],
)
def test_who_cannot_fit_evicts_nobody(
    way: Callable[[Cluster, Work, Score], Placement | None],
) -> None:
    assert way(*played(CASES["kai-1591-one-node-short"].state), LEAST) is None
