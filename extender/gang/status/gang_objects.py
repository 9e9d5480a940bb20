"""The objects that stand for a gang besides its pods: where people look for what became of it.

Its PodGroup, and the Jobs and JobSets that made its pods. A JobSet is known by the labels of its
pods, which carry its UID: without one kubectl would not find an event about it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice

from msgspec import Struct

from extender.groups.composite import SUFFIX
from extender.groups.jobset import LABEL as JOBSET
from extender.groups.pod_group import SOURCE, PodGroupDialect
from extender.model.objects import GangKey, Pod
from extender.model.owner_kinds import COMPOSITE, OTHER_KINDS
from extender.model.snapshot import Snapshot

JOBSET_UID = "jobset.sigs.k8s.io/jobset-uid"
MOST = 4
"""Jobs, and JobSets, of one gang that are told: all of them wait for the same."""
LOOKED_AT = 64
"""Members whose makers are looked for: a refusal is told often, and a gang may be of thousands."""


class GangObject(Struct, frozen=True):
    """One object."""

    kind: str
    api_version: str
    """Empty where its version is of no interest: PodGroups come in several."""
    namespace: str
    name: str
    uid: str


def objects_of(key: GangKey, members: Iterable[Pod], snapshot: Snapshot) -> list[GangObject]:
    """Return a gang's PodGroup if there is one, its JobSets, and its first few Jobs."""
    found: dict[str, GangObject] = {}
    source = SOURCE if key.dialect == PodGroupDialect.name else key.dialect
    kind, version, name = "PodGroup", "", key.name
    if source == SOURCE and name.endswith(SUFFIX):
        composite = OTHER_KINDS[COMPOSITE]
        source, name = COMPOSITE, name.removesuffix(SUFFIX)
        kind, version = composite.kind, f"{composite.group}/{composite.versions[0]}"
    group = snapshot.groups.get((source, key.namespace, name))
    if group is not None:
        found[group.uid] = GangObject(kind, version, key.namespace, name, group.uid)
    count: Counter[str] = Counter()
    for pod in islice(members, LOOKED_AT):
        for one in _makers(pod):
            if one.uid not in found and count[one.kind] < MOST:
                count[one.kind] += 1
                found[one.uid] = one
    return list(found.values())


def _makers(pod: Pod) -> Iterator[GangObject]:
    jobset, uid = pod.labels.get(JOBSET), pod.labels.get(JOBSET_UID)
    if jobset and uid:
        yield GangObject("JobSet", "jobset.x-k8s.io/v1alpha2", pod.namespace, jobset, uid)
    if pod.owner is not None and pod.owner.kind == "Job":
        yield GangObject("Job", "batch/v1", pod.namespace, pod.owner.name, pod.owner.uid)
