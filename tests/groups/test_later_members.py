"""A group whose quorum its owner cannot make at once: it waits for those that there can be.

A JobSet with exclusive topology and a PodGroup of minCount 4: JobSet's webhook refuses followers
until the first pod has a node, and the PodGroup wants all four before any has one.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from extender.groups.resolver import Resolver
from extender.model.gang import Gang
from extender.model.objects import GroupObject, Pod
from extender.settings.settings import GroupSettings
from tests.groups import owners, recorded
from tests.groups.build import core, pod, snapshot

SETTINGS = GroupSettings()
EXCLUSIVE = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}


def gang(pods: list[Pod], groups: list[GroupObject]) -> Gang:
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
    one = gang(first, [PODGROUP, owner])
    assert one.key.dialect == "pod-group"
    assert (one.complete, one.min_count, len(one.followers)) == (True, 2, 2)
    assert any("2 pods of the 4 are" in note for note in one.notes)
    everybody = [of_jobset(i, "w", exclusive=True, job=job) for job in range(2) for i in range(2)]
    one = gang(everybody, [PODGROUP, owner])
    assert (one.complete, one.min_count, one.followers) == (True, 4, ())


def test_one_that_is_only_not_made_yet_is_waited_for() -> None:
    """No part of this JobSet comes later: its controller is in the middle of making four."""
    one = gang([of_jobset(0, "w")], [PODGROUP, jobset(owners.replicated("w", each=4))])
    assert (one.complete, one.min_count, one.followers) == (False, 4, ())


def test_a_jobset_in_order_starts_with_its_leader() -> None:
    parts = owners.replicated("lead"), owners.replicated("w", each=3)
    one = gang([of_jobset(0, "lead")], [PODGROUP, jobset(*parts, in_order=True)])
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
    one = gang(workers, [core("g-0", min_count=4, source="scheduling-plugins"), job])
    assert len(workers) == 3
    assert (one.complete, one.min_count, len(one.followers)) == (True, 3, 1)


@pytest.mark.parametrize("exclusive", [True, False])
def test_where_the_owner_is_not_read_the_way_out_is_told(*, exclusive: bool) -> None:
    one = gang([of_jobset(0, "w", exclusive=exclusive)], [PODGROUP])
    assert not one.complete
    assert any("exclusive topology" in note for note in one.notes) is exclusive
