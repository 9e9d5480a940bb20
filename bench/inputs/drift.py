"""The next snapshot of a cluster in which little happened, as a cache would hand it out."""

from __future__ import annotations

import random

from msgspec.structs import replace

from extender.model.objects import Pod
from extender.model.snapshot import Snapshot


def drift(snapshot: Snapshot, rng: random.Random, changes: int) -> Snapshot:
    """One second later; on ``changes`` nodes a pod of no gang ended and another came.

    The newcomer asks for the same, so the cluster stays as full as it was, and is
    as urgent as the one that ended. Nodes without such a pod are left alone.
    """
    bound = dict(snapshot.bound)
    generation = snapshot.generation + 1
    for name in rng.sample(sorted(bound), min(changes, len(bound))):
        pods = list(bound[name])
        singles = [i for i, pod in enumerate(pods) if not pod.pod_group]
        if singles:
            at = rng.choice(singles)
            pods[at] = _successor(pods[at], generation, snapshot.now)
            bound[name] = tuple(sorted(pods, key=lambda pod: pod.uid))
    return replace(snapshot, generation=generation, now=snapshot.now + 1, bound=bound)


def _successor(pod: Pod, generation: int, now: float) -> Pod:
    name = f"{pod.name.partition('.')[0]}.{generation}"
    return replace(pod, uid=name, name=name, created=now, started=now)
