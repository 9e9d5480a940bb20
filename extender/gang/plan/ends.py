"""When running pods end by themselves, as far as that is known.

Three sources, the earliest of them is likely: the limit that a kubelet enforces
(spec.activeDeadlineSeconds), what the owner says (annotation expected-run-seconds), and how long
pods of the same owner, else of the same namespace, have run lately. Only the first is sure, and
stays so whatever the others say; those are estimates, and one that has passed is none any more.
Nor is any of a pod that was waited for and did not end: its owner could put it off for ever.
Nor is anything known beyond a horizon: limits and grace periods are tenants' to choose, and 68
years of either are as good as none.

Pure: times are wall clock seconds, and are given.
"""

from __future__ import annotations

from collections import deque

from msgspec import Struct

from extender.model.fair_lru import Shares
from extender.model.objects import Pod

EXPECTED = "podgroup-extender.io/expected-run-seconds"
"""Pod annotation: for how long its owner expects it to run, in seconds."""
LONGEST_EXPECTED = 7 * 24 * 3600.0
"""An owner's word beyond this says nothing."""
OVERDUE_SECONDS = 30.0
"""So long after its grace period was over nobody knows when a pod goes."""
REMEMBERED = 16
"""Run times kept of one owner or namespace; the longest of them counts."""
MOST_KEPT = 10_000
"""Owners and namespaces of which run times are kept, and pods that are late; names are a tenant's
to make up, and whoever has most of them loses its oldest."""


class End(Struct, frozen=True):
    """What is known of a pod's end."""

    at: float | None
    """Wall clock time at which it is likely; None: nobody knows."""
    by: float | None = None
    """Wall clock time by which it is surely gone: a kubelet sees to it. None: nobody does."""


UNKNOWN = End(None)


class RunTimes:
    """How long pods have run that ended by themselves."""

    def __init__(self) -> None:
        self._kept: Shares[tuple[str, str], deque[float]] = Shares(MOST_KEPT)
        self._late: Shares[str, None] = Shares(MOST_KEPT)
        """Uids of those that were waited for and did not end when it was likely. Who was seen in a
        cluster of a moment ago may be gone by now, and nobody says so again."""

    def ended(self, pod: Pod, now: float) -> None:
        """Note that a pod has come to its end by itself."""
        if not pod.started or now <= pod.started:
            return
        for key in _keys(pod):
            times = self._kept.pop(key)
            if times is None:
                times = deque(maxlen=REMEMBERED)
            times.append(now - pod.started)
            self._kept.put(key, times, pod.namespace)

    def late(self, pod: Pod) -> None:
        """Note that a pod runs on after the end that it was waited for: estimates of it are none
        from now on."""
        self._late.put(pod.uid, None, pod.namespace)

    def gone(self, pod: Pod) -> None:
        """Forget a pod that runs no more."""
        self._late.pop(pod.uid)

    def is_late(self, pod: Pod) -> bool:
        """Return whether estimates of its end count no more."""
        return pod.uid in self._late

    def longest(self, pod: Pod) -> float | None:
        """Return the longest run, in seconds, of the pod's owner lately, else of its namespace."""
        for key in _keys(pod):
            times = self._kept.get(key)
            if times:
                return max(times)
        return None


def _keys(pod: Pod) -> list[tuple[str, str]]:
    keys = [(pod.namespace, "")]
    if pod.owner is not None:
        keys.insert(0, (pod.namespace, pod.owner.uid))
    return keys


def limit_of(pod: Pod, started: float) -> float | None:
    """Return when a pod that starts then is surely gone; None: there is no limit.

    Its grace period counts: it may need that after its limit is over.
    """
    return started + pod.limit + pod.grace if pod.limit else None


def expected_seconds(pod: Pod) -> float | None:
    """Return what the pod's owner expects, in seconds; None where that is not said, or absurd."""
    text = pod.annotations.get(EXPECTED, "")
    if not text.isascii() or not text.isdigit() or len(text) > len(str(int(LONGEST_EXPECTED))):
        return None
    seconds = float(text)
    return seconds if 0 < seconds <= LONGEST_EXPECTED else None


def end_of(pod: Pod, now: float, run_times: RunTimes, horizon: float) -> End | None:
    """Return when a bound pod ends by itself; None for one that is not made to end.

    That is a pod with restartPolicy Always, no limit and nothing said by its owner. What is more
    than ``horizon`` seconds away is not known.
    """
    latest = now + horizon
    if pod.deleting:
        if pod.deleting < now - OVERDUE_SECONDS:
            return UNKNOWN  # a finalizer, a kubelet that is gone
        if pod.deleting <= latest:
            gone = max(pod.deleting, now)
            return End(gone, by=gone)
    started = pod.started or now
    limit = limit_of(pod, started)
    if limit is not None and limit > latest:
        limit = None
    estimates: list[float] = []
    expected = expected_seconds(pod)
    if expected is not None:
        estimates.append(started + expected)
    if not pod.endless:
        longest = run_times.longest(pod)
        if longest is not None:
            estimates.append(started + longest)
    elif limit is None and expected is None:
        return None
    likely = [at for at in estimates if now < at <= latest and not run_times.is_late(pod)]
    if limit is not None:
        limit = max(limit, now)
        likely.append(limit)
    return End(min(likely), by=limit) if likely else UNKNOWN
