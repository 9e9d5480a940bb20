"""What may happen to a request, and which requests it happens to.

A fault is a window of time, a kind of request and a share of these requests. It is part of a
simulation's plan, so a failing simulation can be tried without it.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from tests.simulation.chance import Chance

TIMEOUT = 30.0
LASTING = 1e6
"""A fault until later than this has no end."""

DELETES, RECORDS, PATCHES, READS, ALL = "deletes", "records", "patches", "reads", "all"
"""Kinds of requests: real evictions; plan records written or deleted; patches of pods; lists,
watches and single reads; every one."""
LEASES = "leases"
"""Reads and writes of the lease."""
DROPS = "drops"
"""Deletions of plan records."""
WRITES = "writes"
"""Whatever changes an object that is there, or creates one; binds are left out."""
TARGETS = (DELETES, DELETES, RECORDS, RECORDS, PATCHES, READS, ALL)

REFUSED = "refused"
"""5xx before anything was done."""
DENIED = "denied"
"""403 before anything was done."""
THROTTLED = "throttled"
"""429 before anything was done, with or without Retry-After."""
DONE_FAILED = "done-failed"
"""Done, but answered 500."""
DONE_CUT = "done-cut"
"""Done, but the connection is lost before the answer."""
DONE_SILENT = "done-silent"
"""Done, but no answer comes before the client's time-out."""
CUT = "cut"
"""The connection is lost and the request with it."""
SILENT = "silent"
"""The request is lost and nothing comes back."""
LATE = "late"
"""The connection is lost, and the request is carried out a good while after that."""
SLOW = "slow"
"""It takes seconds."""
CONFLICT = "conflict"
"""409 before anything was done, though nothing of what was asked for has changed: a patch that
has lost its five tries, an eviction beside another write of the pod, a quota that is being
written. Not among KINDS, of which reads suffer too."""
CONFLICTING = (DELETES, DELETES, RECORDS, PATCHES, WRITES)
KINDS = (
    REFUSED, DENIED, THROTTLED, DONE_FAILED, DONE_CUT, DONE_SILENT, CUT, SILENT, LATE, SLOW,
)  # fmt: skip


class Fault(Struct, frozen=True, kw_only=True):
    """A window in which requests of one kind fare badly. ``pod`` limits it to pods so named."""

    at: float
    until: float
    target: str
    kind: str
    share: float = 1.0
    pod: str = ""

    def told(self) -> str:
        """Return one line for people."""
        whom = f" of {self.pod}" if self.pod else ""
        return f"{self.share:.0%} of {self.target}{whom} {self.kind} until {self.until:.1f}"


class Fate(Struct):
    """What becomes of one request."""

    before: float
    """Seconds until it takes effect; negative: never."""
    after: float
    """Seconds from then on until the answer is there; negative: never."""
    refuse: tuple[int, str, float | None] | None = None
    """Status, reason and Retry-After answered in its place."""
    failed: bool = False
    """Carried out but answered 500."""
    cut: float = -1.0
    """Seconds until the caller learns that the connection is lost."""
    kind: str = ""


class Faults:
    """Decides the fate of every request."""

    def __init__(self, chance: Chance, faults: Iterable[Fault], latency: float) -> None:
        self._chance = chance
        self._faults = sorted(faults, key=lambda fault: (fault.at, fault.until))
        self._latency = latency
        self._storage_lost: list[tuple[float, float]] = []
        self._away = (0.0, "")

    def away(self, until: float, resource: str) -> None:
        """Let no read of a resource ("" = all) reach the server until then."""
        self._away = (until, resource)

    def storage_lost(self, at: float, until: float) -> None:
        """Note that the server's storage was away."""
        self._storage_lost.append((at, until))

    def reading_failed(self, start: float, end: float) -> bool:
        """Return whether reads may have failed in this time."""
        if any(at < end and until > start for at, until in self._storage_lost):
            return True
        return any(
            fault.at < end and fault.until > start and fault.target in (READS, ALL)
            for fault in self._faults
        )

    def denies(self, pod: str) -> bool:
        """Return whether evictions of the pod fail for good."""
        return any(fault.pod == pod and fault.until > LASTING for fault in self._faults)

    def fate(self, now: float, method: str, path: str, *, dry: bool, stream: str) -> Fate:
        """Return what happens to a request sent now."""
        draw = self._chance.draw
        latency = self._latency
        # A square makes most requests quick and a few slow.
        fate = Fate(draw(stream) ** 2 * latency, draw(stream) ** 2 * latency)
        if method == "GET" and now < self._away[0] and path.endswith(self._away[1]):
            self._suffer(fate, CUT, stream)
            return fate
        for fault in self._faults:
            if fault.at > now:
                break
            hits = now < fault.until and _hits(fault, method, path, dry=dry)
            if hits and draw(stream) < fault.share:
                self._suffer(fate, fault.kind, stream)
                break
        return fate

    def _suffer(self, fate: Fate, kind: str, stream: str) -> None:
        draw = self._chance.draw
        fate.kind = kind
        if kind == REFUSED:
            code = (500, 503, 504)[int(draw(stream) * 3)]
            fate.refuse = (code, "ServiceUnavailable" if code == 503 else "InternalError", None)
        elif kind == DENIED:
            fate.refuse = (403, "Forbidden", None)
        elif kind == CONFLICT:
            fate.refuse = (409, "Conflict", None)
        elif kind == THROTTLED:
            fate.refuse = (429, "TooManyRequests", 1.0 if draw(stream) < 0.5 else None)
        elif kind == DONE_FAILED:
            fate.failed = True
        elif kind == DONE_CUT:
            fate.cut = fate.before + draw(stream)
            fate.after = -1.0
        elif kind == DONE_SILENT:
            fate.after = -1.0
        elif kind == CUT:
            fate.cut = draw(stream)
            fate.before = -1.0
        elif kind == SILENT:
            fate.before = -1.0
        elif kind == LATE:
            fate.cut = draw(stream)
            fate.before = fate.cut + draw(stream) ** 2 * 20.0
        elif kind == SLOW:
            fate.before += draw(stream) * 4.0
            fate.after += draw(stream) * 4.0


def _hits(fault: Fault, method: str, path: str, *, dry: bool) -> bool:
    target = fault.target
    if fault.pod and f"/pods/{fault.pod}" not in path:
        return False
    if target == ALL:
        return True
    if target == DELETES:
        return not dry and "/pods/" in path and (method == "DELETE" or path.endswith("/eviction"))
    if target == DROPS:
        return method == "DELETE" and "/configmaps" in path
    if target == RECORDS:
        return method != "GET" and "/configmaps" in path
    if target == WRITES:
        return method != "GET" and not path.endswith("/binding")
    if target == LEASES:
        return "/leases" in path
    if target == PATCHES:
        return method == "PATCH"
    return method == "GET"
