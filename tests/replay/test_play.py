"""The replay: what holds under every policy, and what this planner loses less of."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest
from hypothesis import given
from hypothesis import settings as tries
from hypothesis import strategies as st

from extender.replay.cluster import Cluster, Work
from extender.replay.figures import HOUR, figures, nodes_for, quantile
from extender.replay.planned import Planned
from extender.replay.play import POD_BY_POD, POLICIES, WAP_37, WAP_38, ReplaySettings, play
from extender.replay.trace import Job
from extender.settings.cost_order import ORDERS

GANGS = (*ORDERS, WAP_37, WAP_38)
"""Policies under which a gang is evicted whole."""


@st.composite
def traces(draw: st.DrawFn) -> list[Job]:
    """Up to twelve jobs for four nodes of four GPUs."""
    jobs = [
        Job(
            f"j{number}",
            float(draw(st.integers(0, 3000))),
            float(draw(st.integers(1, 4000))),
            draw(st.sampled_from((1, 1, 2, 4))),
            draw(st.sampled_from((1, 2, 4))),
            draw(st.sampled_from((0, 10, 1000))),
        )
        for number in range(draw(st.integers(1, 12)))
    ]
    return sorted(jobs, key=lambda job: job.submitted)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("checkpoint", [0.0, 100.0])
@tries(max_examples=25, deadline=None)
@given(jobs=traces())
def test_all_work_is_done_once(policy: str, checkpoint: float, jobs: list[Job]) -> None:
    """Nothing overfills a node (``put`` raises), and what is undone is done again."""
    done = play(jobs, ReplaySettings(nodes=4, gpus=4, checkpoint=checkpoint), policy)
    total = sum(job.gpu_seconds for job in jobs)
    assert done.kept == pytest.approx(total) if not done.unfinished else done.kept < total
    assert sum(done.by_day.values()) == pytest.approx(done.kept)
    assert sum(done.lost_by_day.values()) == pytest.approx(done.lost)
    assert done.jobs <= done.pods
    if not done.pods:
        assert (done.lost, done.restarts) == (0, 0)
    if policy in GANGS:
        assert (done.in_part, done.in_vain, done.idle, done.unfinished) == (0, 0, 0, 0)
    if len({job.priority for job in jobs}) == 1:
        assert done.pods == 0


def test_another_policy_is_refused() -> None:
    with pytest.raises(ValueError, match="'best' is none of default, "):
        play([Job("a", 0, 1, 1, 1, 0)], ReplaySettings(nodes=1), "best")


def test_an_evicted_job_loses_what_it_did_since_its_checkpoint_and_waits_for_its_restart() -> None:
    """One node: a low job has run for 250 s when an urgent one of 50 s comes."""
    jobs = [Job("low", 0, 1000, 1, 8, 0), Job("urgent", 250, 50, 1, 8, 100)]
    settings = ReplaySettings(nodes=1, grace=10, restart=30, checkpoint=100)
    done = play(jobs, settings, "default")
    assert (done.pods, done.plans, done.bounded) == (1, 1, 0)
    assert (done.lost, done.restarts) == (50 * 8, 30 * 8)
    assert done.waits == {0: [0.0], 100: [10.0]}
    # The low job's 800 s begin at 250 + 10 + 50 + 30.
    assert done.until == 340 + 800
    assert done.delays[0] == [140.0]


def test_pod_by_pod_leaves_half_a_gang_holding_its_room() -> None:
    """The gang of two has lost one pod: the other one holds eight GPUs for 100 s and 10 s."""
    jobs = [Job("gang", 0, 1000, 2, 8, 0), Job("urgent", 200, 100, 1, 8, 100)]
    settings = ReplaySettings(nodes=2, grace=10, restart=0)
    done = play(jobs, settings, POD_BY_POD)
    assert (done.pods, done.gangs, done.in_part) == (1, 1, 1)
    assert done.lost == 200 * 16
    assert done.idle == 110 * 8
    assert play(jobs, settings, "default").idle == 0


def test_pod_by_pod_two_gangs_wait_for_each_other_for_ever() -> None:
    """An urgent pod has taken a place; both gangs hold a part of what is left."""
    jobs = [
        Job("four", 0, 2, 4, 4, 10),
        Job("two", 0, 1, 2, 4, 10),
        Job("urgent", 1, 1, 1, 1, 1000),
    ]
    settings = ReplaySettings(nodes=4, gpus=4)
    assert play(jobs, settings, POD_BY_POD).unfinished == 2
    assert play(jobs, settings, "default").unfinished == 0


def test_room_of_pods_that_end_is_nobodys_before_they_have() -> None:
    """An urgent job of two GPUs takes a place of eight; six of them are free after the grace."""
    jobs = [
        Job("low", 0, 1000, 1, 8, 0),
        Job("urgent", 100, 1000, 1, 2, 100),
        Job("small", 105, 10, 1, 6, 0),
    ]
    done = play(jobs, ReplaySettings(nodes=1, grace=60, restart=0), "default")
    assert done.waits[0] == [0.0, 55.0]


def test_plans_lose_the_least_work_of_the_lowest_priorities() -> None:
    """On random small clusters, against every set of victims."""
    for seed in range(60):
        cluster, works = _random_cluster(seed)
        urgent = Work(
            Job("urgent", 0, 1, 1 + seed % 3, 2 + 2 * (seed % 2), 1000), 99, 1, 5000.0, []
        )
        urgent.nodes = [-1] * urgent.job.members
        plan = Planned(cluster, "default", 0.0).preempt(urgent, 5000.0, 0.0)
        least = _least(cluster, works, urgent)
        if plan is None:
            assert least is None
            continue
        gone = {each.work.number: each.work for each in plan.victims}
        assert not plan.bounded
        assert _lost(list(gone.values())) == least


def _random_cluster(seed: int) -> tuple[Cluster, list[Work]]:
    rng = Random(seed)
    cluster, works = Cluster(4, 4), []
    for number in range(9):
        members, gpus = rng.choice(((1, 1), (1, 2), (1, 4), (2, 1), (2, 2), (3, 1)))
        work = Work(
            Job(f"w{number}", 0, 10_000, members, gpus, rng.choice((0, 10))),
            number,
            10_000,
            0.0,
            [-1] * members,
            running_since=float(rng.randrange(1, 4999)),
        )
        nodes = [at for at, free in enumerate(cluster.free) if free >= gpus]
        if len(nodes) < members:
            continue
        for at, node in enumerate(rng.sample(nodes, members)):
            cluster.put(work, at, node)
        works.append(work)
    return cluster, works


def _lost(gone: list[Work]) -> tuple[float, float]:
    """Work lost at the higher priority, then at the lower one."""
    return tuple(  # type: ignore[return-value]
        sum(
            (5000.0 - (work.running_since or 0.0)) * work.job.gpus * work.job.members
            for work in gone
            if work.job.priority == level
        )
        for level in (10, 0)
    )


def _least(cluster: Cluster, works: list[Work], urgent: Work) -> tuple[float, float] | None:
    found = []
    for size in range(len(works) + 1):
        for gone in combinations(works, size):
            free = list(cluster.free)
            for work in gone:
                for node in work.nodes:
                    free[node] += work.job.gpus
            if sum(room // urgent.job.gpus for room in free) >= urgent.job.members:
                found.append(_lost(list(gone)))
    return min(found, default=None)


def test_figures_are_of_what_was_played() -> None:
    jobs = [Job("low", 0, 1000, 1, 8, 0), Job("urgent", 250, 50, 1, 8, 100)]
    settings = ReplaySettings(nodes=1, grace=10, restart=36)
    found = figures(play(jobs, settings, "default"), settings)
    assert found.lost == pytest.approx(250 * 8 / HOUR)
    assert found.restarts == pytest.approx(36 * 8 / HOUR)
    assert found.wasted == pytest.approx(286 * 8 / HOUR)
    assert found.waits == {"100": (10.0, 10.0, 10.0), "0": (0.0, 0.0, 0.0)}
    assert (found.plans, found.proved) == (1, 1)
    assert found.utilisation == pytest.approx(1050 / (250 + 10 + 50 + 36 + 1000))


def test_as_many_nodes_as_the_work_fills_and_the_largest_job_needs() -> None:
    jobs = [Job("a", 0, 100, 1, 8, 0), Job("b", 100, 100, 1, 8, 0)]
    assert nodes_for(jobs, 8, 1.0) == 2
    assert nodes_for([*jobs, Job("c", 100, 1, 5, 8, 0)], 8, 1.0) == 5
    assert nodes_for(jobs[:1], 8, 1.0) == 1


def test_quantiles() -> None:
    assert [quantile([4.0, 1.0, 3.0, 2.0], share) for share in (0.5, 0.9, 0.25)] == [2, 4, 1]
    assert quantile([], 0.5) == 0
