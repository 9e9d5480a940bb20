"""Members that are lost, or that can only come later, and what the quorum is then."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from extender.gang.incremental.gangs import Gangs
from extender.gang.plan.assemble import assemble
from extender.groups.formed_before import NEWCOMER_SECONDS, ran_before
from extender.groups.resolver import Resolver
from extender.model.gang import Gang
from extender.model.objects import GroupObject, Node, Owner, Pod
from extender.model.owner_kinds import COMPOSITE
from extender.model.snapshot import Snapshot
from extender.settings.settings import GroupSettings
from tests.groups import owners, recorded
from tests.groups.build import core, pod, snapshot
from tests.groups.owner_gangs import RESOLVER

NOW = 10_000.0


def member(i: int, *, on: str = "", started: float = NOW - 3600, group: str = "g") -> Pod:
    return replace(pod(f"m{i}", group=group), node=on, started=started if on else 0.0)


def world(
    pods: list[Pod], *, nodes: tuple[str, ...] = ("n0", "n1"), groups: list[GroupObject]
) -> Snapshot:
    return assemble(
        RESOLVER.member_key, nodes=[Node(name) for name in nodes], pods=pods, groups=groups, now=NOW
    )


def gang(pods: list[Pod], group: GroupObject | None = None) -> Gang:
    groups = [group or core(min_count=3, disrupt_all=True)]
    (one,) = RESOLVER.resolve_all(world(pods, groups=groups))
    return one


def test_it_is_no_part_of_the_quorum_and_the_gang_goes_whole_as_before() -> None:
    one = gang([member(0, on="n0"), member(1, on="gone"), member(2)])
    assert [pod.name for pod in one.seated] == ["m0"]
    assert one.missing == 2
    assert not one.complete
    all_ran = gang([member(0, on="n0"), member(1, on="gone"), member(2, on="n1")])
    assert all_ran.goes_whole
    assert all_ran.surplus == 0, "one that goes breaks it: the node may only be late"


@pytest.mark.parametrize("started", [0.0, NOW - 1, NOW - 3600])
def test_whenever_it_started_its_gang_waits_whoever_else_is_pending(started: float) -> None:
    """Watches are apart: the pod's may bring its binding before the other brings its node."""
    on_unknown = replace(member(1, on="gone"), started=started)
    one = gang([member(0, on="n0"), on_unknown, member(2), member(3)])
    assert one.missing == 2 == len(one.pending)
    assert not one.complete
    assert gang([member(0, on="n0"), member(1, on="n1"), member(2), member(3)]).complete
    runs = gang([member(0, on="n0"), on_unknown, member(2, on="n0"), member(3, on="n1")])
    assert runs.missing == 0
    assert runs.complete


def test_one_that_terminates_is_waited_for_by_nobody() -> None:
    ends = replace(member(1, on="gone"), deleting=NOW + 30)
    one = gang([member(0, on="n0"), ends, member(2), member(3)])
    assert not one.lost
    assert one.complete


def test_where_no_size_is_stated_it_is_one_of_those_that_exist() -> None:
    labels = {"skypilot-cluster-name": "g"}
    made = [member(0, group=""), member(1, on="gone", group="")]
    pods = [replace(each, labels=labels) for each in made]
    (one,) = RESOLVER.resolve_all(world(pods, groups=[]))
    assert one.min_count == 2
    assert not one.complete


def test_a_composite_whose_group_lost_one_waits_for_it_again() -> None:
    top = GroupObject(source=COMPOSITE, uid="t", namespace="ns", name="top", min_count=1)
    part = replace(core(min_count=2), of="top")
    runs = [member(0, on="n0"), member(1, on="n1")]
    pods = [*runs[:1], replace(runs[1], node="gone"), member(2)]
    assert _one(runs, [top, part]).missing == 0
    assert _one(pods, [top, part]).missing == 1


def _one(pods: list[Pod], groups: list[GroupObject]) -> Gang:
    (one,) = RESOLVER.resolve_all(world(pods, groups=groups))
    return one


def test_a_kept_gang_is_another_one_when_a_node_goes_and_when_it_comes() -> None:
    gangs = Gangs(RESOLVER)
    pods = [member(0, on="n0"), member(1, on="n1", started=NOW - 60)]
    groups = [core(min_count=2)]
    there = world(pods, groups=groups)
    (key,) = there.members
    without = replace(there, nodes={"n0": there.nodes["n0"]})
    seen = []
    for now in (there, without, replace(without, now=NOW + 60), there, without):
        gangs.renew(now)
        seen.append(gangs[key].missing)
        assert gangs[key] is gangs[key], "it is not resolved at each look"
    assert seen == [0, 1, 1, 0, 1]


SETTINGS = GroupSettings()
EXCLUSIVE = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}


def later_gang(pods: list[Pod], groups: list[GroupObject]) -> Gang:
    (one,) = Resolver(SETTINGS).resolve_all(snapshot(pods, groups, settings=SETTINGS))
    return one


def of_jobset(i: int, part: str, *, exclusive: bool = False, job: int = 0) -> Pod:
    meta = owners.jobset_pod(i, part, "g-0", index=i, job=job)
    annotations = meta["annotations"] | (EXCLUSIVE if exclusive else {})
    return pod(f"{part}-{job}-{i}", labels=meta["labels"], annotations=annotations, group="g-0")


def jobset(*parts: owners.Obj, **more: Any) -> GroupObject:
    return owners.read("jobset", owners.jobset(*parts, name="g-0", **more))


PODGROUP = core("g-0", min_count=4, disrupt_all=True)


def test_the_first_pods_of_exclusive_jobs_do_not_wait_for_their_followers() -> None:
    owner = jobset(owners.replicated("w", 2, 2), annotations=EXCLUSIVE)
    first = [of_jobset(0, "w", exclusive=True, job=job) for job in range(2)]
    one = later_gang(first, [PODGROUP, owner])
    assert one.key.dialect == "pod-group"
    assert (one.complete, one.min_count, len(one.followers)) == (True, 2, 2)
    assert any("2 pods of the 4 are" in note for note in one.notes)
    everybody = [of_jobset(i, "w", exclusive=True, job=job) for job in range(2) for i in range(2)]
    one = later_gang(everybody, [PODGROUP, owner])
    assert (one.complete, one.min_count, one.followers) == (True, 4, ())


def test_one_that_is_only_not_made_yet_is_waited_for() -> None:
    """No part of this JobSet comes later: its controller is in the middle of making four."""
    one = later_gang([of_jobset(0, "w")], [PODGROUP, jobset(owners.replicated("w", each=4))])
    assert (one.complete, one.min_count, one.followers) == (False, 4, ())


def test_a_jobset_in_order_starts_with_its_leader() -> None:
    parts = owners.replicated("lead"), owners.replicated("w", each=3)
    one = later_gang([of_jobset(0, "lead")], [PODGROUP, jobset(*parts, in_order=True)])
    assert (one.complete, one.min_count, len(one.followers)) == (True, 1, 3)


def test_a_launcher_that_waits_for_the_workers_is_not_waited_for() -> None:
    """mpi-operator makes a PodGroup whose minMember is the workers and the launcher."""
    label = {"scheduling.x-k8s.io/pod-group": "g-0"}
    made = [recorded.pod("training-operator-mpi", i, 4) for i in range(4)]
    workers = [replace(each, labels=each.labels | label) for each in made]
    workers = [each for each in workers if "launcher" not in each.labels.values()]
    spec = {
        "launcherCreationPolicy": "WaitForWorkersReady",
        "mpiReplicaSpecs": {
            "Launcher": {"replicas": 1, "template": owners.template()},
            "Worker": {"replicas": 3},
        },
    }
    job = owners.read("mpijob", owners.document("mpijob", "g-0", spec))
    one = later_gang(workers, [core("g-0", min_count=4, source="scheduling-plugins"), job])
    assert len(workers) == 3
    assert (one.complete, one.min_count, len(one.followers)) == (True, 3, 1)


@pytest.mark.parametrize("exclusive", [True, False])
def test_where_the_owner_is_not_read_the_way_out_is_told(*, exclusive: bool) -> None:
    one = later_gang([of_jobset(0, "w", exclusive=exclusive)], [PODGROUP])
    assert not one.complete
    assert any("exclusive topology" in note for note in one.notes) is exclusive


MADE = 1000.0
FORMED_SETTINGS = GroupSettings(
    unit={"scheduling-plugins-label": "all"}, starts_whole={"indexed-job": True}
)


def formed_gang(system: str, pods: list[Pod]) -> Gang:
    """The one gang of these pods; its size is 4, or not stated."""
    groups = [recorded.group(system, 4)] if system in recorded.OBJECTS else []
    if system == "jobset":
        groups = [owners.read("jobset", owners.jobset(owners.replicated("w", each=4)))]
    if system == "pod-group":
        groups = [core("g-0", min_count=4, disrupt_all=True)]
    (one,) = Resolver(FORMED_SETTINGS).resolve_all(snapshot(pods, groups, settings=FORMED_SETTINGS))
    assert len(one.members) == len(pods)
    return one


def formed_member(system: str, i: int, *, made: float = MADE, started: float = 0.0) -> Pod:
    """Running when it has started."""
    if system == "jobset":
        found = owners.jobset_pod(i, "w", index=i)
        base = pod(f"g-0-{i}", labels=found["labels"], annotations=found["annotations"])
    elif system == "pod-group":
        base = pod(f"g-0-{i}", group="g-0")
    elif system == "skypilot":
        base = pod(f"g-0-{i}", labels={"skypilot-cluster-name": "g-0"})
    elif system == "indexed-job":
        index = {"batch.kubernetes.io/job-completion-index": str(i)}
        base = pod(f"g-0-{i}", labels=index, owner=Owner("Job", "g-0", "uid-g-0"))
    else:
        base = recorded.pod(system, i, 4)
    return replace(base, created=made, started=started, node=f"n{i}" if started else "")


SYSTEMS = [*recorded.EVERY, "jobset", "pod-group", "skypilot", "indexed-job"]


@pytest.mark.parametrize("system", SYSTEMS)
def test_three_of_four_go_together_while_one_waits_anew(system: str) -> None:
    ran = [formed_member(system, i, started=MADE + 5) for i in range(3)]
    anew = formed_member(system, 3, made=MADE + 3600)
    one = formed_gang(system, [*ran, anew])
    assert (one.goes_whole, one.min_count, one.missing) == (True, 4, 1)


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_half_made_gang_is_single_victims(system: str) -> None:
    """Three run for an hour, and the fourth has waited all the time."""
    ran = [formed_member(system, i, started=MADE + 5) for i in range(3)]
    waits = formed_member(system, 3, made=MADE)
    assert not formed_gang(system, [*ran, waits]).goes_whole


@pytest.mark.parametrize(
    ("after", "together"), [(0, False), (NEWCOMER_SECONDS - 1, False), (NEWCOMER_SECONDS, True)]
)
def test_made_within_a_minute_it_may_be_of_the_same_start(after: float, *, together: bool) -> None:
    ran = [formed_member("kueue", i, started=MADE) for i in range(3)]
    assert (
        formed_gang("kueue", [*ran, formed_member("kueue", 3, made=MADE + after)]).goes_whole
        is together
    )


def test_one_that_waits_since_the_start_outweighs_one_made_anew() -> None:
    """Else who deletes a waiting pod now and then would make a gang of what never was one."""
    ran = [formed_member("kueue", i, started=MADE) for i in range(2)]
    waits = [formed_member("kueue", 2), formed_member("kueue", 3, made=MADE + 3600)]
    assert not formed_gang("kueue", [*ran, *waits]).goes_whole


def test_who_was_seated_since_goes_with_the_others() -> None:
    """Two were lost; one of them runs again and the other waits still."""
    pods = [
        *(formed_member("kueue", i, started=MADE) for i in range(2)),
        formed_member("kueue", 2, made=MADE + 3600, started=MADE + 3700),
        formed_member("kueue", 3, made=MADE + 3600),
    ]
    one = formed_gang("kueue", pods)
    assert one.goes_whole
    assert len(one.bound) == 3


def test_those_on_their_way_out_tell_nothing() -> None:
    """A gang of the same names that is made anew while its pods before end."""
    old = [
        replace(formed_member("skypilot", i, started=MADE), deleting=MADE + 50) for i in range(3)
    ]
    one = formed_gang("skypilot", [*old, formed_member("skypilot", 3, made=MADE + 3600)])
    assert not one.goes_whole


def test_without_a_start_nothing_is_told() -> None:
    """Bound, but its kubelet has not said since when it runs."""
    bound = [replace(formed_member("kueue", i), node=f"n{i}") for i in range(3)]
    assert not formed_gang(
        "kueue", [*bound, formed_member("kueue", 3, made=MADE + 3600)]
    ).goes_whole


times = st.integers(1, 400).map(float)
pods_of = st.lists(
    st.tuples(times, st.none() | st.integers(0, 400).map(float), st.booleans()),
    min_size=1,
    max_size=6,
)


@given(pods_of, times)
@settings(max_examples=300, deadline=None)
def test_time_alone_does_not_make_a_gang_of_what_is_half_made(
    drawn: list[tuple[float, float | None, bool]], later: float
) -> None:
    """Whoever has a node started after it was made. While one waits that was made before anybody
    ran, nothing that comes later, or goes, or is seated counts for those who run."""
    pods = [
        replace(
            formed_member(
                "kueue", i, made=made, started=0.0 if after is None else made + after + 1
            ),
            deleting=1.0 if leaves else 0.0,
        )
        for i, (made, after, leaves) in enumerate(drawn)
    ]
    runs = [each.started for each in pods if each.started and not each.deleting]
    waits = [each.created for each in pods if not each.node and not each.deleting]
    before = ran_before(pods)
    assert before <= len(runs)
    if not waits or (runs and min(waits) < min(runs) + NEWCOMER_SECONDS):
        assert before == 0
    newer = formed_member("kueue", 6, made=max([*runs, *waits, 0.0]) + later)
    if waits:
        assert ran_before([*pods, newer]) == before, "one more that waits changes nothing"
    if before:
        assert formed_gang("kueue", pods).goes_whole
