"""Jobs of which each takes a domain of its own: nobody goes for one that would not run."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from extender.decode.from_json import decode_group
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.groups.resolver import Resolver
from extender.model.objects import (
    GangKey,
    GroupObject,
    LabelSelector,
    Node,
    Pod,
    PodAffinityTerm,
    PodShape,
    Requirement,
)
from extender.model.plan import Plan, Proof, Refusal
from extender.model.snapshot import Snapshot
from extender.settings.settings import Settings
from tests.gang.world import evicted, group, node, pod, seats, snapshot
from tests.groups.owners import document, jobset, jobset_pod, replicated
from tests.groups.owners import template as owners_template

SETTINGS = Settings()
RESOLVER = Resolver(SETTINGS.groups)
KEY = GangKey("jobset", "default", "high")
JOB_KEY = "jobset.sigs.k8s.io/job-key"
EXCLUSIVE = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}


def owner(jobs: int, each: int, cpu: str = "3") -> GroupObject:
    part = replicated("w", jobs, each, cpu)
    made = jobset(part, name="high", annotations=EXCLUSIVE)
    made["metadata"]["namespace"] = "default"
    return decode_group("jobset", made)


def first(job: int, **more: Any) -> Pod:
    meta = jobset_pod(job, "w", "high", job=job)
    meta["annotations"] |= EXCLUSIVE
    name = "batch.kubernetes.io/job-name"
    others = LabelSelector(
        (Requirement(name, "Exists", ()), Requirement(name, "NotIn", (f"high-w-{job}",)))
    )
    shape = PodShape(anti_affinity=(PodAffinityTerm("rack", others, ("default",)),))
    return pod(f"high-w-{job}-0", priority=100, shape=shape, **meta, **more)


def racks(**of: str) -> list[Node]:
    return [node(name, labels={"rack": rack}) for name, rack in of.items()]


def low(nodes: list[Node]) -> list[Pod]:
    return [pod(f"low-{i}", priority=1, group="low", on=each.name) for i, each in enumerate(nodes)]


def asked(state: Snapshot) -> Plan | Refusal:
    return Planner(SETTINGS, RESOLVER).plan(GangQuestion(RESOLVER.resolve(KEY, state), state))


def full(nodes: list[Node], jobs: int, each: int) -> Snapshot:
    pods = [*low(nodes), *(first(job) for job in range(jobs))]
    return snapshot(nodes, pods, [group("low", len(nodes)), owner(jobs, each)])


def test_nobody_goes_where_one_rack_is_too_small() -> None:
    """Room for four pods in all, and for two in one rack only."""
    nodes = racks(n0="a", n1="a", n2="a", n3="b")
    answer = asked(full(nodes, 2, 2))
    assert isinstance(answer, Refusal)
    assert "each of its Jobs needs a rack of its own" in answer.message
    assert "no pod is evicted" in answer.message


def test_each_first_pod_gets_a_rack_with_room_for_its_job() -> None:
    """By room alone both Jobs could be planned into the two racks that are too small together."""
    nodes = racks(a0="a", b0="b", b1="b", c0="c", c1="c")
    plan = asked(full(nodes, 2, 2))
    assert isinstance(plan, Plan)
    assert {name[0] for name in seats(plan).values()} == {"b", "c"}
    assert plan.proof is Proof.BOUNDED


@pytest.mark.parametrize("small", ["a", "c"])
def test_free_racks_have_room_for_their_jobs_too(small: str) -> None:
    """Whichever rack it is that would do by room alone."""
    nodes = racks(**{f"n{i}": rack for i, rack in enumerate("aabbcc".replace(small, "", 1))})
    plan = asked(snapshot(nodes, [first(0), first(1)], [owner(2, 2)]))
    assert evicted(plan) == set()
    at = {each.name: each.labels["rack"] for each in nodes}
    assert {at[name] for name in seats(plan).values()} == {*"abc"} - {small}


@pytest.mark.parametrize("jobs", [1, 3])
def test_as_many_racks_as_there_are_jobs_will_do(jobs: int) -> None:
    nodes = racks(**{f"n{i}": "abc"[i // 2] for i in range(2 * jobs)})
    plan = asked(full(nodes, jobs, 2))
    assert isinstance(plan, Plan)
    assert len({seats(plan)[f"high-w-{job}-0"] for job in range(jobs)}) == jobs
    assert evicted(plan)


def test_a_job_whose_first_pod_runs_stays_in_its_rack() -> None:
    """The other one cannot have that rack, and the third is too small."""
    nodes = racks(a0="a", a1="a", b0="b", c0="c", c1="c")
    here = [each for each in low(nodes) if each.node != "a0"]
    pods = [*here, first(0, on="a0"), first(1)]
    plan = asked(snapshot(nodes, pods, [group("low", 4), owner(2, 2)]))
    assert isinstance(plan, Plan)
    assert next(iter(seats(plan).values()))[0] == "c"


def test_free_room_is_given_as_before() -> None:
    """Nobody goes for it: where the first pods sit is for their own rules."""
    nodes = racks(n0="a", n1="a", n2="a", n3="b", n4="b")
    pods = [first(0), first(1)]
    plan = asked(snapshot(nodes, pods, [owner(2, 2)]))
    assert isinstance(plan, Plan)
    assert evicted(plan) == set()
    assert plan.proof is Proof.OPTIMAL


def test_a_job_without_the_rule_sits_beside_any_other() -> None:
    """Two racks, two Jobs with one each, and a driver that may be in either."""
    nodes = racks(n0="a", n1="a", n2="a", n3="b", n4="b")
    workers = replicated("w", 2, 2)
    workers["template"]["metadata"] = {"annotations": EXCLUSIVE}
    made = jobset(replicated("driver"), workers, name="high")
    made["metadata"]["namespace"] = "default"
    meta = jobset_pod(0, "driver", "high")
    del meta["labels"]["batch.kubernetes.io/job-name"]  # the others' rule does not name it
    driver = pod("high-driver-0-0", priority=100, **meta)
    pods = [*low(nodes), driver, first(0), first(1)]
    plan = asked(snapshot(nodes, pods, [group("low", 5), decode_group("jobset", made)]))
    assert isinstance(plan, Plan)
    assert len(evicted(plan)) == 5
    assert len(seats(plan)) == 3


def test_a_leader_has_room_for_its_workers_in_its_own_rack() -> None:
    """As LeaderWorkerSet's exclusive topology has it: one leader, workers where it is."""
    size = {"leaderworkerset.sigs.k8s.io/size": "3"}
    key = {"leaderworkerset.sigs.k8s.io/exclusive-topology": "rack"}
    labels = {
        "leaderworkerset.sigs.k8s.io/name": "high",
        "leaderworkerset.sigs.k8s.io/group-index": "0",
        "leaderworkerset.sigs.k8s.io/worker-index": "0",
    }
    leader = pod("high-0", priority=100, labels=labels, annotations={**size, **key})
    template = {"size": 3, "workerTemplate": owners_template()}
    owner_of = document("leader-worker-set", "high", {"leaderWorkerTemplate": template})
    owner_of["metadata"]["namespace"] = "default"
    group_of = GangKey("leader-worker-set", "default", "high-0")
    for racks_of, fits in (("aab", False), ("aabbb", True)):
        nodes = racks(**{f"n{i}": rack for i, rack in enumerate(racks_of)})
        state = snapshot(
            nodes,
            [*low(nodes), leader],
            [group("low", len(nodes)), decode_group("leader-worker-set", owner_of)],
        )
        question = GangQuestion(RESOLVER.resolve(group_of, state), state)
        plan = Planner(SETTINGS, RESOLVER).plan(question)
        assert isinstance(plan, Plan) is fits
        if isinstance(plan, Plan):
            assert seats(plan)["high-0"] in {"n2", "n3", "n4"}


def test_a_job_made_anew_finds_a_rack_beside_one_that_runs() -> None:
    """The rack of the second Job was lost; the first runs on, and low pods fill another rack."""
    nodes = racks(n0="a", n1="a", n2="b", n3="b", n4="c")
    run = []
    for i in range(2):
        meta = jobset_pod(0, "w", "high", index=i)
        meta["annotations"] |= EXCLUSIVE
        run.append(pod(f"high-w-0-{i}", priority=100, on=nodes[i].name, **meta))
    meta = jobset_pod(1, "w", "high", index=0, job=1)
    meta["annotations"] |= EXCLUSIVE
    anew = pod("high-w-1-0", priority=100, shape=first(1).shape, **meta)
    pods = [*run, *low(nodes[2:4]), anew]
    answer = asked(snapshot(nodes, pods, [group("low", 2), owner(2, 2)]))
    assert isinstance(answer, Plan), answer
    assert len(answer.victims) == 2
    assert {seat.node for seat in answer.seats} <= {"n2", "n3"}


def job_pod(job: int, index: int, *, key: str, on: str = "") -> Pod:
    """As JobSet's webhook makes it: near its own Job, and away from every other one's pods."""
    meta = jobset_pod(job, "w", "high", index=index, job=job)
    meta["annotations"] |= EXCLUSIVE
    meta["labels"][JOB_KEY] = key
    if index:
        return pod(f"high-w-{job}-{index}", priority=100, on=on, **meta)
    own = LabelSelector((Requirement(JOB_KEY, "In", (key,)),))
    others = LabelSelector(
        (Requirement(JOB_KEY, "Exists", ()), Requirement(JOB_KEY, "NotIn", (key,)))
    )
    shape = PodShape(
        affinity=(PodAffinityTerm("rack", own, ("default",)),),
        anti_affinity=(PodAffinityTerm("rack", others, ("default",)),),
    )
    return pod(f"high-w-{job}-{index}", priority=100, on=on, shape=shape, **meta)


@pytest.mark.parametrize("low_key", ["low", ""])
def test_where_a_job_is_does_not_say_where_another_one_must_be(low_key: str) -> None:
    """One Job runs; the other one's first pod wants to be near its own followers alone.

    Refused before ("no node lies in any topology domain"): the rack of the members that run was
    required of it.
    """
    nodes = racks(n0="a", n1="a", n2="b", n3="b")
    there = low(nodes[2:])
    if low_key:
        there = [replace(each, labels={**each.labels, JOB_KEY: low_key}) for each in there]
    run = [job_pod(0, i, key="k0", on=f"n{i}") for i in range(2)]
    pods = [*there, *run, job_pod(1, 0, key="k1")]
    answer = asked(snapshot(nodes, pods, [group("low", 2), owner(2, 2)]))
    assert isinstance(answer, Plan), answer
    assert evicted(answer) == {"low-0", "low-1"}
    assert {seat.node for seat in answer.seats} <= {"n2", "n3"}


@pytest.mark.parametrize("value", ["a", "b"])
def test_the_rack_of_the_gang_is_that_of_its_members_beside_their_own_rules(
    value: str,
) -> None:
    """A key that the whole gang shares holds for who is near his like by another key."""
    labels = ({"rack": "a", "zone": "z"}, {"rack": value, "zone": "z"})
    nodes = [node(f"n{i}", labels=each) for i, each in enumerate(labels)]
    like = LabelSelector((Requirement("part", "In", ("two",)),))
    shape = PodShape(affinity=(PodAffinityTerm("zone", like, ("default",)),))
    said = {"podgroup-extender.io/required-topology": "rack"}
    pods = [
        pod("one", priority=100, group="high", on="n0", annotations=said),
        pod(
            "two", priority=100, group="high", labels={"part": "two"}, shape=shape, annotations=said
        ),
    ]
    state = snapshot(nodes, pods, [group("high", 2)])
    key = GangKey("pod-group", "default", "high")
    answer = Planner(SETTINGS, RESOLVER).plan(GangQuestion(RESOLVER.resolve(key, state), state))
    assert isinstance(answer, Plan) is (value == "a")
