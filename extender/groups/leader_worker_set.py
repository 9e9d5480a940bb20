"""One group of a LeaderWorkerSet: a leader and its workers.

Source: sigs.k8s.io/lws, api/leaderworkerset/v1 and pkg/webhooks/pod_webhook.go. Labels
name the set, the group's index and, as a hash, the group; annotation size, without
which the webhook refuses a pod, is the number of pods of the group.
"""

from __future__ import annotations

from collections.abc import Sequence

from extender.groups.dialect import Declaration
from extender.groups.owned import foreseen
from extender.groups.sizes import SIZE, made_by, stated_size, staying
from extender.model.gang import UNIT_ALL
from extender.model.names import is_name
from extender.model.objects import GangKey, Part, Pod
from extender.model.snapshot import Snapshot
from extender.model.texts import counted

PREFIX = "leaderworkerset.sigs.k8s.io/"
NAME = PREFIX + "name"
INDEX = PREFIX + "group-index"
GROUP_KEY = PREFIX + "group-key"
WORKER = PREFIX + "worker-index"
COUNT = PREFIX + "size"
EXCLUSIVE = PREFIX + "exclusive-topology"


class LeaderWorkerSetDialect:
    """A gang is the pods of one group index; RecreateGroupOnPodRestart makes it go whole."""

    name = "leader-worker-set"
    explicit = False
    unit = UNIT_ALL
    states_unit = False
    starts_whole = True
    keys = (NAME, GROUP_KEY)

    def key(self, pod: Pod) -> GangKey | None:
        """Return the group, named like its leader: set and index; else by the group's hash."""
        name, index = pod.labels.get(NAME), pod.labels.get(INDEX)
        if name and index:
            name = f"{name}-{index}"
        else:
            name = pod.labels.get(GROUP_KEY)
        return GangKey(self.name, pod.namespace, name) if name and is_name(name) else None

    def declare(self, key: GangKey, members: tuple[Pod, ...], snapshot: Snapshot) -> Declaration:
        """Return the size annotated.

        With exclusive topology, or startupPolicy LeaderReady, the workers are made once the
        leader has a node, or is ready: the leader does not wait for them. The policy is on the
        LeaderWorkerSet alone.
        """
        what = f"LeaderWorkerSet group {key.namespace}/{key.name}"
        if any(SIZE in pod.annotations for pod in members):
            return stated_size(members, "annotation", SIZE)
        if not any(COUNT in pod.annotations for pod in members):
            return made_by(members, what)
        said = stated_size(members, "annotation", COUNT)
        here = staying(members)
        if said.min_count is None or any(pod.labels.get(WORKER, "0") != "0" for pod in here):
            return said
        workers = _workers(here, snapshot)
        exclusive = any(EXCLUSIVE in pod.annotations for pod in here)
        if not exclusive and (workers is None or not workers.later):
            return said
        why = "exclusive topology" if exclusive else "startupPolicy LeaderReady"
        more = said.min_count - 1
        those = counted(more, "worker", "comes", "come")
        return Declaration(
            min_count=1,
            coming=more,
            followers=() if workers is None else foreseen(workers, more, key),
            notes=(*said.notes, f"{why}: {those} after their leader: {what}"),
        )


def _workers(members: Sequence[Pod], snapshot: Snapshot) -> Part | None:
    """The part of the workers, where the LeaderWorkerSet may be read."""
    for pod in members:
        name = pod.labels.get(NAME, "")
        owner = snapshot.groups.get((LeaderWorkerSetDialect.name, pod.namespace, name))
        if owner is not None:
            return next((part for part in owner.parts if part.name == "worker"), None)
    return None
