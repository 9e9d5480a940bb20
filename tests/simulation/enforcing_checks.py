"""What must hold for whom the extender is not to act: docs/observe.md."""

from __future__ import annotations

from collections.abc import Callable, Collection

from extender.gang.controller.notifier import SEAT_ANNOTATION
from extender.settings.settings import Settings
from tests.simulation.client import Request
from tests.simulation.enforcing import LABEL
from tests.simulation.host import Host
from tests.simulation.in_flight import PlansInPreemption
from tests.simulation.objects import PLAN
from tests.simulation.replicas import Replicas

SETTLES = 2.0
"""Seconds after which nothing is written any more for whom it does not act."""
RETRIES = 20.0
"""The same of a plan's record: a write without an answer is read back and tried again."""
ASKED = 5.0
"""Seconds for which a question may wait for its answer."""
ENDS = 10.0
"""Seconds within which a plan of theirs is compared, and ends."""


class EnforcingChecks:
    """All by what the extender knows: a label that has not come is no reproach."""

    def __init__(
        self,
        host: Callable[[], Host | Replicas],
        settings: Settings,
        preemptions: PlansInPreemption,
        broken: Callable[[str, str], None],
        time: Callable[[], float],
    ) -> None:
        self._host = host
        self._settings = settings
        self._preemptions = preemptions
        self._broken = broken
        self._time = time
        self._since: float | None = None
        """Since when it knows that it is not to act."""
        self._kept: set[str] = set()
        """Names of pods that the last answer has kept off nodes: a wake-up may have failed."""

    @property
    def observing(self) -> bool:
        """Whether the process has ``mode: observe``."""
        host = self._host()
        return isinstance(host, Host) and host.observing

    @property
    def acts(self) -> bool:
        """Whether it may act for the pods of this cluster, all of one namespace."""
        host = self._host()
        settings = host.settings if isinstance(host, Host) else self._settings
        if settings.enforce.everybody:
            return not self.observing
        labels = None if host.cache is None else host.cache.snapshot().namespaces.get("default")
        return not self.observing and labels is not None and labels.get(LABEL) == "true"

    @property
    def acted(self) -> bool:
        """Whether a question that is answered now may have come while it was to act."""
        return self.acts or self._since is None or self._time() - self._since < ASKED

    def answered(self, pod: str, nodes: Collection[str], answer: Collection[str]) -> None:
        """Note whom an answer keeps off nodes, of filter or of preempt, or gives its seat.

        A pod that was given its seat, and could not be bound, waits for what becomes of its plan.
        """
        preemptions = self._preemptions.preemptions()
        seat = any(
            each.name == pod for preemption in preemptions for each in preemption.pods.values()
        )
        if seat or len(answer) < len(nodes):
            self._kept.add(pod)
        else:
            self._kept.discard(pod)

    def sent(self, request: Request) -> None:
        """Check a request that writes."""
        waiting = _wakes(request) and request.pod_name in self._kept
        if self.observing:
            self._broken("wrote", f"{request.method} {request.path} is sent in observe mode")
        elif self.acts:
            self._since = None
        elif self._since is not None and self._time() - self._since > (
            RETRIES if "/configmaps" in request.path else SETTLES
        ):
            what = _acting(request, waiting=waiting)
            if what:
                self._broken("unchosen", f"{what} for a namespace that is not chosen")

    def evicts(self, name: str, *, begun: bool) -> None:
        """Check a real eviction. ``begun``: others of its unit have gone by our hand."""
        host = self._host()
        settings = host.settings if isinstance(host, Host) else self._settings
        if not self.acts and not (begun and settings.enforce.victims == "all"):
            self._broken("unchosen", f"{name} is evicted, and its namespace is not chosen")

    def look(self) -> None:
        """Check what time alone can break."""
        if self.acts or self._host().cache is None:
            self._since = None
            return
        now = self._time()
        if self._since is None:
            self._since = now
        if now - self._since > ENDS:
            for preemption in self._preemptions.preemptions():
                self._broken(
                    "unchosen", f"{preemption.key} still has a plan, {preemption.state.value}"
                )


def _wakes(request: Request) -> bool:
    pods = request.method == "PATCH" and "/pods/" in request.path
    return pods and not request.path.endswith("/status")


def _acting(request: Request, *, waiting: bool) -> str:
    """Return what a request does for a gang, "" for one that only takes something back.

    ``waiting``: an answer has kept the pod off nodes. It is tried again once that is over: else
    it would wait for five minutes for a gang that is not acted for any more.
    """
    body = request.body or {}
    if request.method == "POST" and "/configmaps" in request.path:
        labels = body.get("metadata", {}).get("labels") or {}
        return "a plan is recorded" if PLAN in labels else ""
    if _wakes(request):
        if SEAT_ANNOTATION in body.get("metadata", {}).get("annotations", {}):
            return "a pod is woken for its seat"
        return "" if waiting else "a pod is woken that nothing kept waiting"
    if request.method != "PATCH" or "/pods/" not in request.path:
        return ""
    node = (body.get("status") or {}).get("nominatedNodeName")
    return "a pod is nominated" if node else ""
