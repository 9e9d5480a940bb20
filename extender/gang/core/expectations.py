"""A snapshot with what we know beyond it: evictions on their way, and refused ones.

A request cannot be called back, so the pod's room is nobody's to spare: a plan that takes
another victim instead would evict one too many. The name is kube-controller-manager's
(UIDTrackingControllerExpectations): deletions that were asked for and are not seen yet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from extender.groups.composite import keys_of
from extender.model.objects import GangKey, Pod
from extender.model.snapshot import Snapshot


def shown_in(
    snapshot: Snapshot,
    expected: Mapping[str, str],
    unevictable: Mapping[str, str],
    member_key: Callable[[Pod], GangKey | None],
    leaves: Callable[[Pod, float], bool],
    longest: int,
) -> Snapshot:
    """Return the snapshot with the ``expected`` pods (uid -> node) already terminating.

    ``longest``: the grace period that an eviction grants at most. ``leaves(pod, now)`` tells which
    of the terminating ones were on their way out without it.
    """
    if not expected and not unevictable:
        return snapshot
    changed: dict[str, Pod] = {}
    bound = dict(snapshot.bound)
    for name in sorted(set(expected.values()) & bound.keys()):
        pods = tuple(
            replace(pod, deleting=snapshot.now + min(pod.grace, longest), disrupted=True)
            if pod.uid in expected and not leaves(pod, snapshot.now)
            else pod
            for pod in bound[name]
        )
        leaving = {new.uid: new for old, new in zip(bound[name], pods, strict=True) if old != new}
        if leaving:
            changed |= leaving
            bound[name] = pods
    if not changed:
        return replace(snapshot, unevictable=unevictable) if unevictable else snapshot
    members = dict(snapshot.members)
    for key in {key for pod in changed.values() for key in keys_of(member_key(pod), pod)}:
        if key in members:
            members[key] = tuple(changed.get(pod.uid, pod) for pod in members[key])
    return replace(snapshot, bound=bound, members=members, unevictable=unevictable)
