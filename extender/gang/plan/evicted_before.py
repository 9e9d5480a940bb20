"""Who was evicted before, and for how long nobody as urgent evicts it again.

What is remembered is a lineage: the gang that goes whole, else the owner whose pods are made anew,
else a bare pod's name. With each plan that evicts of it, by a gang of another namespace, the time
that it then runs undisturbed doubles. Against a preemptor that is more urgent than the last one
nothing is undisturbed: that is what urgency is for.

The time counts from when the lineage runs again, once: a tenant that ends its own pods and makes
them anew gains none. Pods that ran beside those that were evicted are not spared, and no more than
what was evicted is.

Pure: times are wall clock seconds, and are given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from extender.model.objects import GangKey, Pod, Requests
from extender.model.snapshot import SparedPod
from extender.model.texts import rfc3339
from extender.settings.fairness import ProtectionSettings
from extender.settings.policy import SYSTEM_CRITICAL

CLOCK_SECONDS = 5.0
"""By how much the API server's clock may be behind ours: a pod that is made that long before an
eviction may be made after it."""
MOST_RESOURCES = 8
"""Of more kinds of resources nothing is remembered: names are a tenant's to make up."""
OWNER, BARE = "owner with uid ", "bare pod "
"""Before a namespace; no dialect's name has a space."""
MOST_DOUBLINGS = 30


class Evicted(Struct, frozen=True):
    """A lineage that was evicted."""

    lineage: str
    namespace: str
    times: int
    """By how many plans, since it was last forgotten."""
    priority: int
    """Of the last one."""
    at: float
    """When its last pod was evicted."""
    plan: str
    """Id of the last plan: with more pods of it no other time is counted."""
    amounts: dict[str, int] = {}
    """What it has evicted: no more is spared."""
    began: float = 0.0
    """When the first pod of the last plan was evicted."""
    resumed: float = 0.0
    """When the lineage ran again; 0: it does not yet."""


def lineages(pod: Pod, unit: GangKey | None) -> list[str]:
    """Return what a pod may be remembered as, most telling first; ``unit``: what it goes with."""
    found = [] if unit is None else [str(unit)]
    if pod.owner is not None:
        found.append(f"{OWNER}{pod.namespace}/{pod.owner.uid}")
    else:
        found.append(f"{BARE}{pod.namespace}/{pod.name}")
    return found


def counted(
    before: Evicted | None,
    lineage: str,
    pod: Pod,
    priority: int,
    plan: str,
    now: float,
    settings: ProtectionSettings,
) -> Evicted:
    """Return what is remembered once a pod of the lineage was evicted."""
    if before is not None and now - before.at >= settings.forget_seconds:
        before = None
    if before is not None and before.plan == plan:
        amounts = _with(before.amounts, pod.requests)
        return replace(before, at=now, amounts=amounts, resumed=0.0)
    times = 1 if before is None else before.times + 1
    amounts = _with({}, pod.requests)
    return Evicted(lineage, pod.namespace, times, priority, now, plan, amounts, began=now)


def _with(amounts: Mapping[str, int], requests: Requests) -> dict[str, int]:
    found = dict(amounts)
    for name, amount in requests:
        if name in found or len(found) < MOST_RESOURCES:
            found[name] = found.get(name, 0) + amount
    return found


def comes_after(evicted: Evicted, pod: Pod) -> bool:
    """Whether a pod of the lineage runs and was made after the eviction."""
    return bool(pod.node) and not pod.deleting and pod.created >= evicted.began - CLOCK_SECONDS


def undisturbed(times: int, settings: ProtectionSettings) -> float:
    """Return for how many seconds it runs undisturbed after so many evictions."""
    doubled = settings.first_seconds * 2.0 ** min(times - 1, MOST_DOUBLINGS)
    return min(doubled, settings.longest_seconds)


def spared(
    evicted: Evicted, running: Iterable[Pod], *, whole: bool, settings: ProtectionSettings
) -> dict[str, SparedPod]:
    """Return, by uid, who of those that run again is spared: no more than was evicted.

    ``whole``: they go together, so all of them are spared or none.
    """
    if not evicted.resumed:
        return {}
    until = evicted.resumed + undisturbed(evicted.times, settings)
    below = min(evicted.priority + 1, SYSTEM_CRITICAL)
    once = "once" if evicted.times == 1 else f"{evicted.times} times"
    why = (
        f"protected until {rfc3339(until)}: evicted {once} before, the last time at priority "
        f"{evicted.priority}, and only a higher one may evict it sooner"
    )
    sum_: dict[str, int] = {}
    found: dict[str, SparedPod] = {}
    for pod in running:
        after = dict(sum_)
        for name, amount in pod.requests:
            after[name] = after.get(name, 0) + amount
        if any(amount > evicted.amounts.get(name, 0) for name, amount in after.items()):
            if whole:
                return {}
            continue
        sum_ = after
        found[pod.uid] = SparedPod(below, until, why, gang=whole)
    return found


def over(evicted: Evicted, now: float, settings: ProtectionSettings) -> bool:
    """Whether nothing has to be remembered any more."""
    return now - evicted.at >= settings.forget_seconds
